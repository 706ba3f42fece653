//! Random changes of a filesystem, also used by the tests with Linux's kernel.

use floatgate_mtd::random::Random;
use floatgate_stack::fs::{
    AttributeChanges, Error, FileSystem, FileType, Name, NewFile, NewKind, Rename, SetXattr,
};

fn pick(
    fs: &mut dyn FileSystem,
    random: &mut Random,
    directories: bool,
) -> Result<(u32, Vec<u8>, u32), Error> {
    let mut directory = fs.root();
    loop {
        let entries = fs.read_dir(directory, None, usize::MAX)?;
        if entries.is_empty() {
            return Err(Error::NotFound);
        }
        let entry = entries[random.below(entries.len() as u64) as usize].clone();
        if entry.file_type != FileType::Directory || directories && random.below(2) == 0 {
            return Ok((directory, entry.name, entry.inode));
        }
        directory = entry.inode;
    }
}

/// Makes a random change. An error is one that a program would see.
pub(crate) fn change(fs: &mut dyn FileSystem, random: &mut Random) -> Result<(), Error> {
    let root = fs.root();
    let mut directory = root;
    if let Ok((_, _, inode)) = pick(fs, random, true)
        && fs.attributes(inode)?.file_type == FileType::Directory
    {
        directory = inode;
    }
    let name = format!("name{}", random.below(12)).into_bytes();
    let new = |kind| NewFile { kind, permissions: 0o640, uid: 1, gid: 2 };
    let len = [0, 1, 100, 4096, 5000, 9000][random.below(6) as usize];
    let noise = random.below(2) == 0;
    let seed = random.bits();
    let data: Vec<u8> = (0..len)
        .map(
            |at| if noise { (seed >> (at % 57)) as u8 ^ (at * 31) as u8 } else { b'a' + (at / 50 % 7) as u8 },
        )
        .collect();
    match random.below(16) {
        0..3 => fs.create(directory, &name, &new(NewKind::Regular)).map(drop),
        3 => fs.create(directory, &name, &new(NewKind::Directory)).map(drop),
        4 => fs.create(directory, &name, &new(NewKind::Symlink(b"some/where"))).map(drop),
        5..9 => {
            let (_, _, inode) = pick(fs, random, false)?;
            let size = fs.attributes(inode)?.size;
            let at = [0, size, size + 100, random.below(size + 1)][random.below(4) as usize].min(30_000);
            fs.write(inode, at, &data)
        }
        9 => {
            let (_, _, inode) = pick(fs, random, false)?;
            let changes =
                AttributeChanges { size: Some(random.below(12_000)), ..AttributeChanges::default() };
            fs.set_attributes(inode, &changes)
        }
        10 => {
            let (_, _, inode) = pick(fs, random, true)?;
            let permissions = Some(random.below(0o1000) as u32);
            fs.set_attributes(inode, &AttributeChanges { permissions, ..AttributeChanges::default() })
        }
        11 => {
            let (from, old, _) = pick(fs, random, true)?;
            fs.rename(Name { directory: from, name: &old }, Name { directory, name: &name }, Rename::Replace)
        }
        12 => {
            let (_, _, inode) = pick(fs, random, false)?;
            fs.link(inode, directory, &name)
        }
        13 => {
            let (_, _, inode) = pick(fs, random, true)?;
            // Linux supports user attributes only on files and directories.
            let of_user = matches!(fs.attributes(inode)?.file_type, FileType::Regular | FileType::Directory);
            let name = format!("{}.{}", if of_user { "user" } else { "trusted" }, random.below(3));
            if random.below(3) == 0 {
                fs.remove_xattr(inode, name.as_bytes())
            } else {
                fs.set_xattr(inode, name.as_bytes(), &data[..data.len().min(700)], SetXattr::Any)
            }
        }
        _ => {
            let (parent, name, inode) = pick(fs, random, true)?;
            if fs.attributes(inode)?.file_type == FileType::Directory {
                fs.remove_dir(parent, &name)
            } else {
                fs.unlink(parent, &name)
            }
        }
    }
}

pub(crate) fn is_expected(error: &Error) -> bool {
    matches!(
        error,
        Error::NoSpace
            | Error::NotFound
            | Error::Exists
            | Error::NotEmpty
            | Error::IsDirectory
            | Error::NotDirectory
            | Error::Invalid(_)
    )
}
