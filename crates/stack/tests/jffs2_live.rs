//! JFFS2 as it is written: random changes against a model, with garbage collection, mounts in between and losses of power.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panic")]

use std::collections::BTreeMap;

use floatgate_media::jffs2::{Compressor, Endian};
use floatgate_mtd::{Geometry, Instant, PowerCut, RamFlash};
use floatgate_stack::fs::{
    AttributeChanges, Error, FileSystem, FileType, Name, NewFile, NewKind, Rename, SetXattr,
};
use floatgate_stack::jffs2::{Jffs2, MountOptions};

type Fs = Jffs2<PowerCut<RamFlash>>;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// All that a tree shows: contents, targets, attributes, by path.
type Tree = BTreeMap<String, (FileType, u32, Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>)>;

fn tree(fs: &mut dyn FileSystem) -> Result<Tree, Error> {
    let mut tree = Tree::new();
    let mut ahead = vec![(String::new(), fs.root())];
    while let Some((path, inode)) = ahead.pop() {
        for entry in fs.read_dir(inode, None, usize::MAX)? {
            let path = format!("{path}/{}", String::from_utf8(entry.name).unwrap());
            let attributes = fs.attributes(entry.inode)?;
            assert_eq!(attributes.file_type, entry.file_type, "{path}");
            let contents = match entry.file_type {
                FileType::Regular => {
                    let mut data = vec![0xEE; attributes.size as usize];
                    assert_eq!(fs.read(entry.inode, 0, &mut data)?, data.len());
                    data
                }
                FileType::Symlink => fs.read_link(entry.inode)?,
                FileType::Directory => {
                    ahead.push((path.clone(), entry.inode));
                    Vec::new()
                }
                _ => format!("{:?}", attributes.device).into_bytes(),
            };
            let mut xattrs = BTreeMap::new();
            for name in fs.list_xattrs(entry.inode)? {
                let value = fs.get_xattr(entry.inode, &name)?;
                xattrs.insert(name, value);
            }
            tree.insert(path, (entry.file_type, attributes.mode, contents, xattrs));
        }
    }
    Ok(tree)
}

fn shapes() -> Vec<(&'static str, Geometry, MountOptions)> {
    let options = |endian, compressors: &[Compressor], summaries| MountOptions {
        endian: Some(endian),
        compressors: compressors.to_vec(),
        summaries,
        ..MountOptions::default()
    };
    let zlib = [Compressor::Zlib, Compressor::Rtime];
    vec![
        ("nor", Geometry::nor(24, 8192), options(Endian::Little, &zlib, false)),
        ("nor-summary", Geometry::nor(24, 8192), options(Endian::Big, &[Compressor::Lzo], true)),
        ("nand", Geometry::nand_512(28), options(Endian::Little, &[], false)),
        ("nand-summary", Geometry::nand_2048(10), options(Endian::Little, &[Compressor::Rtime], true)),
    ]
}

fn fresh(geometry: &Geometry, options: &MountOptions) -> Fs {
    let flash = PowerCut::new(RamFlash::new(geometry.clone()));
    Jffs2::mount(flash, Instant::ZERO, options).map_err(|(error, _)| error).unwrap()
}

fn remount(fs: Fs, options: &MountOptions) -> Fs {
    let flash = fs.unmount().map_err(|(error, _)| error).unwrap();
    Jffs2::mount(flash, Instant::ZERO, options).map_err(|(error, _)| error).unwrap()
}

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

/// A change of some kind; an error is one that a program would see.
fn change(fs: &mut dyn FileSystem, random: &mut Random) -> Result<(), Error> {
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
    let seed = random.next();
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
            let name = format!("user.{}", random.below(3));
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

fn is_expected(error: &Error) -> bool {
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

#[test]
fn what_is_written_is_there_after_every_mount() {
    for (name, geometry, options) in shapes() {
        for seed in 0..6 {
            let mut random = Random(seed);
            let mut fs = fresh(&geometry, &options);
            for step in 0..1200 {
                if let Err(error) = change(&mut fs, &mut random) {
                    assert!(is_expected(&error), "{name}, seed {seed}, step {step}: {error}");
                }
                if step % 40 == 39 {
                    let before = tree(&mut fs).unwrap();
                    let wrong = FileSystem::check(&mut fs).unwrap();
                    assert!(wrong.is_empty(), "{name}, seed {seed}, step {step}: {wrong:?}");
                    fs = remount(fs, &options);
                    let after = tree(&mut fs).unwrap();
                    assert!(
                        before == after,
                        "{name}, seed {seed}, step {step}: {}",
                        difference(&before, &after)
                    );
                    assert_eq!(fs.damaged_nodes(), [], "{name}, seed {seed}, step {step}");
                }
            }
        }
    }
}

fn difference(before: &Tree, after: &Tree) -> String {
    let all: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differ = all.into_iter().filter(|path| before.get(*path) != after.get(*path));
    let show = |path: &String| match (before.get(path), after.get(path)) {
        (Some(before), Some(after)) => {
            let first = before.2.iter().zip(&after.2).position(|(before, after)| before != after);
            format!(
                "{path}: {:?}; ",
                (before.1, after.1, before.2.len(), after.2.len(), first, &before.3 == &after.3)
            )
        }
        (before, after) => format!("{path}: {} {}; ", before.is_some(), after.is_some()),
    };
    differ.map(show).collect()
}
