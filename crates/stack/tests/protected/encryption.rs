//! Encrypted names and contents are listed as stored, and preserved.

use super::common::{Tree, unpack, volume, walk};
use floatgate_media::file::FileType;
use floatgate_stack::RamVolume;
use floatgate_stack::fs::{AttributeChanges, Name, NewFile, NewKind, Rename, SetXattr};
use floatgate_stack::ubifs::{Behaviour, Error, MountOptions, Severity, Survey, Ubifs};
use std::collections::BTreeMap;

const ENCRYPTED: &[u8] = include_bytes!("../samples/encrypted.ubifs.zst");

fn mount(volume: RamVolume) -> Ubifs<RamVolume> {
    let mounted = Ubifs::mount(volume, &MountOptions::default(), Behaviour::default());
    mounted.map_err(|(error, _)| error).unwrap()
}

fn sample() -> Ubifs<RamVolume> {
    mount(volume(&unpack(ENCRYPTED)))
}

/// Commits, unmounts and mounts again.
fn again(mut fs: Ubifs<RamVolume>) -> Ubifs<RamVolume> {
    fs.sync().unwrap();
    assert_eq!(fs.check().unwrap(), []);
    mount(fs.unmount().map_err(|(error, _)| error).unwrap())
}

/// Name and inode of the first encrypted file of a type in the root directory. In the sample, no file with several
/// names is encrypted.
fn first(fs: &mut Ubifs<RamVolume>, file_type: FileType) -> (Vec<u8>, u32) {
    let root = fs.root();
    let entries = fs.read_dir(root, None, usize::MAX).unwrap();
    let mut of_type = entries.into_iter().filter(|entry| entry.file_type == file_type);
    let found = of_type.find(|entry| fs.attributes(entry.inode).unwrap().is_encrypted()).unwrap();
    (found.name, found.inode)
}

/// Stored data of blocks and data attached to inodes, by inode and block.
fn stored(volume: &RamVolume) -> BTreeMap<(u32, Option<u32>), Vec<u8>> {
    let mut survey = Survey::new(volume.clone()).map_err(|(error, _)| error).unwrap();
    let damage = survey.problems().iter().find(|problem| problem.severity == Severity::Damaged);
    assert_eq!(damage, None);
    let mut stored = BTreeMap::new();
    for (inode, file) in survey.tree().files.clone() {
        stored.insert((inode, None), file.attached);
        for (block, place) in file.blocks {
            stored.insert((inode, Some(block)), survey.read_block(place.place, true).unwrap().data);
        }
    }
    stored
}

/// The tree without change times of attributes.
fn timeless(mut tree: Tree) -> Tree {
    for shown in tree.values_mut() {
        (shown.attributes.ctime, shown.attributes.mtime) = Default::default();
    }
    tree
}

#[test]
fn names_are_listed_as_they_are() {
    let mut fs = sample();
    let tree = walk(&mut fs).unwrap();
    assert_eq!(tree.len(), 1 + 7 + 40 + 3);
    let root = fs.root();
    let mut pending = vec![root];
    let mut odd = 0;
    while let Some(directory) = pending.pop() {
        assert!(fs.attributes(directory).unwrap().is_encrypted());
        let entries = fs.read_dir(directory, None, usize::MAX).unwrap();
        for (index, entry) in entries.iter().enumerate() {
            assert!(entry.encrypted);
            assert_eq!(fs.lookup(directory, &entry.name), Ok(entry.inode));
            // Listing entry by entry gives the same result as listing all at once.
            let next = fs.read_dir(directory, Some(entry), 1).unwrap();
            assert_eq!(next.first(), entries.get(index + 1));
            odd += u32::from(entry.name.iter().any(|&byte| byte == 0 || byte == b'/'));
            pending.extend((entry.file_type == FileType::Directory).then_some(entry.inode));
        }
    }
    assert!(odd > 0, "no name has a zero or a slash in it");
    assert_eq!(stored(fs.volume()).len(), stored(&volume(&unpack(ENCRYPTED))).len());
}

#[test]
fn contents_are_not_passed_off_as_plain() {
    let mut fs = sample();
    let (_, file) = first(&mut fs, FileType::Regular);
    let (_, link) = first(&mut fs, FileType::Symlink);
    assert_eq!(fs.read(file, 0, &mut [0; 4]), Err(Error::Unsupported("the file is encrypted")));
    assert_eq!(fs.read_link(link), Err(Error::Unsupported("the link is encrypted")));
    assert_eq!(fs.list_xattrs(file), Ok(vec![b"c".to_vec()]));
}

#[test]
fn attributes_change_and_the_rest_stays() {
    let mut fs = sample();
    let (tree, before) = (walk(&mut fs).unwrap(), stored(fs.volume()));
    let (name, inode) = first(&mut fs, FileType::Regular);
    // The changes are repeated often enough that all nodes are moved.
    for round in 0..150 {
        for shown in tree.values() {
            let permissions = if shown.attributes.inode == inode { 0o600 } else { shown.attributes.mode };
            let changes =
                AttributeChanges { permissions: Some(permissions & 0o7777), ..AttributeChanges::default() };
            fs.set_attributes(shown.attributes.inode, &changes).unwrap();
        }
        if round % 10 == 0 { fs.sync().unwrap() } else { fs.fsync(inode).unwrap() }
    }
    let mut fs = again(fs);
    let mut expected = tree;
    expected.get_mut(&vec![name]).unwrap().attributes.mode = 0o100_600;
    let mut found = walk(&mut fs).unwrap();
    // Hard links of the same file have its permissions, too.
    for (path, shown) in &mut found {
        if shown.attributes.inode == inode {
            expected.get_mut(path).unwrap().attributes.mode = 0o100_600;
        }
    }
    assert_eq!(timeless(found), timeless(expected));
    assert_eq!(stored(fs.volume()), before);
}

#[test]
fn files_are_removed_and_the_rest_stays() {
    let mut fs = sample();
    let (mut tree, mut before) = (walk(&mut fs).unwrap(), stored(fs.volume()));
    let (name, inode) = first(&mut fs, FileType::Symlink);
    let root = fs.root();
    fs.unlink(root, &name).unwrap();
    tree.remove(&vec![name]).unwrap();
    before.retain(|&(stored, _), _| stored != inode);
    // The directory has 40 files.
    let entries = fs.read_dir(root, None, usize::MAX).unwrap();
    let mut full = entries.into_iter().filter(|entry| entry.file_type == FileType::Directory);
    let full = full.find(|entry| fs.read_dir(entry.inode, None, 99).unwrap().len() == 40).unwrap();
    assert_eq!(fs.remove_dir(root, &full.name), Err(Error::NotEmpty));
    for entry in fs.read_dir(full.inode, None, 99).unwrap() {
        fs.unlink(full.inode, &entry.name).unwrap();
    }
    fs.remove_dir(root, &full.name).unwrap();
    tree.retain(|path, _| path.first() != Some(&full.name));
    let mut fs = again(fs);
    let found = walk(&mut fs).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), tree.keys().collect::<Vec<_>>());
    let after = stored(fs.volume());
    assert!(after.iter().all(|(key, bytes)| before.get(key) == Some(bytes)));
    // Removed nodes: 40 files with a block each, their attributes, the directory, and the link.
    assert!(before.len() - after.len() > 3 * 40, "{} of {}", after.len(), before.len());
}

#[test]
fn what_needs_the_key_is_refused() {
    let mut fs = sample();
    let (tree, before) = (walk(&mut fs).unwrap(), stored(fs.volume()));
    let root = fs.root();
    let (name, file) = first(&mut fs, FileType::Regular);
    let (directory_name, directory) = first(&mut fs, FileType::Directory);
    let new = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
    let refused = Err(Error::Unsupported("the directory is encrypted"));
    assert_eq!(fs.create(root, b"new", &new), Err(Error::Unsupported("the directory is encrypted")));
    assert_eq!(fs.create_unnamed(root, &new), Err(Error::Unsupported("the directory is encrypted")));
    assert_eq!(fs.link(file, directory, b"new"), refused);
    let to = Name { directory, name: b"new" };
    for from in [&name, &directory_name].map(|name| Name { directory: root, name }) {
        for how in [Rename::Replace, Rename::Exchange, Rename::Whiteout] {
            let renamed = fs.rename(from, to, how);
            assert!(renamed == refused || renamed == Err(Error::BadName), "{renamed:?}");
        }
    }
    let encrypted = Err(Error::Unsupported("the file is encrypted"));
    assert_eq!(fs.write(file, 0, b"plain"), encrypted);
    for size in [0, 4096, 1 << 20] {
        let changes = AttributeChanges { size: Some(size), ..AttributeChanges::default() };
        assert_eq!(fs.set_attributes(file, &changes), encrypted);
    }
    let context = Err(Error::Unsupported("changing how a file is encrypted"));
    assert_eq!(fs.set_xattr(file, b"c", b"", SetXattr::Any), context);
    assert_eq!(fs.remove_xattr(file, b"c"), context);
    let mut fs = again(fs);
    assert_eq!((walk(&mut fs).unwrap(), stored(fs.volume())), (tree, before));
}
