//! Large filesystems, as in practice: many files, large directories, large files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_stack::fs::{NewFile, NewKind};
use floatgate_stack::ubifs::{Behaviour, FormatOptions, MountOptions, Ubifs};
use floatgate_stack::{RamVolume, VolumeGeometry};

type Fs = Ubifs<RamVolume>;

const FILE: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
const DIRECTORY: NewFile<'_> = NewFile { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };

/// Formats a volume on NAND with 2 KiB pages and 128 KiB blocks.
fn format(lebs: u32) -> Fs {
    let geometry = VolumeGeometry {
        lebs,
        leb_bytes: 62 * 2048,
        min_io_bytes: 2048,
        max_write_bytes: 2048,
        leb_start: 0,
        read_only: false,
    };
    Ubifs::format(RamVolume::new(geometry), &FormatOptions::default(), Behaviour::default()).unwrap()
}

fn remount(fs: Fs) -> Fs {
    let volume = fs.unmount().map_err(|(error, _)| error).unwrap();
    Ubifs::mount(volume, &MountOptions::default(), Behaviour::default()).unwrap()
}

fn name(number: u32) -> Vec<u8> {
    format!("a name of usual length, {number}").into_bytes()
}

/// Creates directories of 100 files each with some bytes, and checks them after a mount.
#[test]
fn a_hundred_thousand_files() {
    let mut fs = format(1000);
    for directory in 0..1000 {
        let root = fs.root();
        let parent = fs.create(root, &name(directory), &DIRECTORY).unwrap();
        for file in 0..100 {
            let inode = fs.create(parent, &name(file), &FILE).unwrap();
            fs.write(inode, 0, &(directory * 100 + file).to_le_bytes()).unwrap();
        }
    }
    let mut fs = remount(fs);
    for directory in 0..1000 {
        let root = fs.root();
        let parent = fs.lookup(root, &name(directory)).unwrap();
        for file in 0..100 {
            let inode = fs.lookup(parent, &name(file)).unwrap();
            let mut found = [0; 5];
            assert_eq!(fs.read(inode, 0, &mut found), Ok(4), "{directory}/{file}");
            assert_eq!(found[..4], (directory * 100 + file).to_le_bytes());
        }
    }
    assert_eq!(fs.inodes().unwrap().len(), 101_001);
    assert_eq!(fs.check(), Ok(Vec::new()));
}

/// A directory is listed in parts, half of its names are removed, and it is listed again.
#[test]
fn a_directory_of_fifty_thousand_names() {
    const NAMES: u32 = 50_000;
    let mut fs = format(400);
    let root = fs.root();
    let directory = fs.create(root, b"directory", &DIRECTORY).unwrap();
    for number in 0..NAMES {
        fs.create(directory, &name(number), &FILE).unwrap();
    }
    let mut fs = remount(fs);
    assert_eq!(names(&mut fs, directory), (0..NAMES).map(name).collect());
    for number in (0..NAMES).step_by(2) {
        fs.unlink(directory, &name(number)).unwrap();
    }
    let mut fs = remount(fs);
    assert_eq!(names(&mut fs, directory), (1..NAMES).step_by(2).map(name).collect());
    // The size is 160 bytes, plus 56 bytes and the name for each entry, in multiples of 8.
    let bytes = (1..NAMES).step_by(2).map(|number| (56 + name(number).len() as u64 + 1).next_multiple_of(8));
    assert_eq!(fs.attributes(directory).unwrap().size, 160 + bytes.sum::<u64>());
    assert_eq!(fs.check(), Ok(Vec::new()));
}

fn names(fs: &mut Fs, directory: u32) -> std::collections::BTreeSet<Vec<u8>> {
    let mut names = std::collections::BTreeSet::new();
    let mut last = None;
    loop {
        let entries = fs.read_dir(directory, last.as_ref(), 1000).unwrap();
        let Some(end) = entries.last().cloned() else { return names };
        let before = names.len();
        names.extend(entries.iter().map(|entry| entry.name.clone()));
        assert_eq!(names.len(), before + entries.len(), "no name comes twice");
        last = Some(end);
    }
}

/// A file with blocks 1 MiB apart and at both ends is truncated and extended again.
#[test]
fn a_file_of_a_gibibyte_with_holes() {
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    let mut fs = format(60);
    let root = fs.root();
    let file = fs.create(root, b"file", &FILE).unwrap();
    let block = |number: u64| [number as u8, (number >> 8) as u8 + 1].repeat(2048);
    for number in 0..1024 {
        fs.write(file, number * MIB, &block(number)).unwrap();
    }
    fs.write(file, GIB - 1, &[7]).unwrap();
    let mut fs = remount(fs);
    assert_eq!(fs.attributes(file).unwrap().size, GIB);
    assert_eq!(fs.data_blocks(file, 0, usize::MAX).unwrap().len(), 1025);
    let mut piece = vec![0; MIB as usize];
    for number in 0..1024 {
        assert_eq!(fs.read(file, number * MIB, &mut piece), Ok(piece.len()));
        assert_eq!(piece[..4096], block(number));
        let end = piece.len() - usize::from(number == 1023);
        assert!(piece[4096..end].iter().all(|&byte| byte == 0), "MiB {number}");
    }
    assert_eq!(piece.last(), Some(&7));
    let size = |size| floatgate_stack::fs::AttributeChanges { size: Some(size), ..Default::default() };
    fs.set_attributes(file, &size(512 * MIB + 1)).unwrap();
    fs.set_attributes(file, &size(GIB)).unwrap();
    let mut fs = remount(fs);
    assert_eq!(fs.data_blocks(file, 0, usize::MAX).unwrap().len(), 513);
    assert_eq!(fs.read(file, 512 * MIB, &mut piece), Ok(piece.len()));
    assert_eq!(piece[0], block(512)[0]);
    assert!(piece[1..].iter().all(|&byte| byte == 0), "what was cut does not come back");
    assert_eq!(fs.check(), Ok(Vec::new()));
}
