//! Tests of JFFS2 while it is written: random changes against a model, with garbage collection, remounts and power
//! losses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panic")]

use std::collections::BTreeMap;

use crate::changes::{change, is_expected};
use floatgate_mtd::random::Random;

use floatgate_media::jffs2::{Compressor, Endian};
use floatgate_mtd::{Geometry, Instant, PowerCut, RamFlash};
use floatgate_stack::fs::{Error, FileSystem, FileType, NewFile, NewKind};
use floatgate_stack::jffs2::{Jffs2, MountOptions};

type Fs = Jffs2<PowerCut<RamFlash>>;

/// Visible contents of a tree by path: type, permissions, data or link target, attributes.
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
        (
            "nor-marks",
            Geometry::nor(24, 8192),
            MountOptions { marks_obsolete: true, ..options(Endian::Big, &zlib, false) },
        ),
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

#[test]
fn what_is_written_is_there_after_every_mount() {
    for (name, geometry, options) in shapes() {
        for seed in 0..6 {
            let mut random = Random::new(seed);
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

const NEW: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

/// Number of nodes that a mount finds marked obsolete, after a file was overwritten ten times.
fn marked(geometry: &Geometry, marks_obsolete: bool) -> (u64, u64) {
    let options = MountOptions { compressors: vec![], marks_obsolete, ..MountOptions::default() };
    let mut fs = fresh(geometry, &options);
    let root = fs.root();
    let file = fs.create(root, b"file", &NEW).unwrap();
    for round in 0..10 {
        fs.write(file, 0, &[round; 512]).unwrap();
    }
    fs.unlink(root, b"file").unwrap();
    let file = fs.create(root, b"file", &NEW).unwrap();
    fs.write(file, 0, &[99; 512]).unwrap();
    fs.sync().unwrap();
    let mut fs = remount(fs, &options);
    let mut data = [0; 512];
    let file = fs.lookup(root, b"file").unwrap();
    assert_eq!(fs.read(file, 0, &mut data).unwrap(), 512);
    assert_eq!(data, [99; 512]);
    (fs.counts().obsolete_nodes, fs.counts().inode_nodes + fs.counts().dirent_nodes)
}

#[test]
fn nodes_that_newer_ones_replace_are_marked_on_nor_when_asked_to() {
    let nor = Geometry::nor(24, 8192);
    let (none, all) = marked(&nor, false);
    assert_eq!(none, 0);
    let (found, rest) = marked(&nor, true);
    assert!(found >= 12, "{found}");
    assert_eq!(found + rest, all);
    // In pages that are programmed as a whole, single bits cannot be cleared.
    assert_eq!(marked(&Geometry::nand_512(28), true).0, 0);
}

/// Small writes leave eraseblocks of nodes that a whole page at its end has replaced. If there are many, Linux's thread
/// collects them although space is not short (`jffs2_thread_should_wake`, `vdirty_blocks_gctrigger`).
#[test]
fn many_very_dirty_eraseblocks_are_collected_in_the_background() {
    let options = MountOptions { compressors: Vec::new(), ..MountOptions::default() };
    let mut fs = fresh(&Geometry::nand_512(128), &options);
    while fs.work_in_background().unwrap() {}
    let file = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
    let root = FileSystem::root(&fs);
    let inode = FileSystem::create(&mut fs, root, b"log", &file).unwrap();
    for piece in 0..4096_u64 {
        FileSystem::write(&mut fs, inode, piece * 16, &[piece as u8; 16]).unwrap();
    }
    let (before, space) = (tree(&mut fs).unwrap(), FileSystem::space(&fs));
    let mut steps = 0;
    while fs.work_in_background().unwrap() {
        steps += 1;
    }
    assert!(steps > 15, "{steps}: some 25 eraseblocks are dirty, and 6 may remain so");
    assert_eq!(FileSystem::check(&mut fs).unwrap(), Vec::<String>::new());
    assert!(before == tree(&mut fs).unwrap());
    assert!(FileSystem::space(&fs).free_blocks + 8 > space.free_blocks, "dirt counts as free already");
}

/// When a file grows, Linux writes a node for the hole. Readers that look only at nodes depend on that.
#[test]
fn each_byte_of_a_file_that_is_put_in_has_a_node() {
    use floatgate_stack::fs::{CompressedBlock, Compression, FileFlags, FilledFile, Timestamp};
    const TIME: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };
    for (name, geometry, options) in shapes() {
        let mut fs = fresh(&geometry, &options);
        let root = fs.root();
        for (number, (size, blocks)) in
            [(0, &[][..]), (9000, &[]), (20480, &[0, 1, 2, 3, 4]), (24577, &[1, 4]), (4097, &[0])]
                .iter()
                .enumerate()
        {
            let file = FilledFile {
                file: NEW,
                size: *size,
                atime: TIME,
                mtime: TIME,
                ctime: TIME,
                flags: FileFlags::default(),
                compression: None,
                xattrs: &[],
            };
            let inode = FileSystem::fill(&mut fs, root, format!("{number}").as_bytes(), &file).unwrap();
            for &block in *blocks {
                let block =
                    CompressedBlock { block, size: 4096, compression: Compression::None, data: &[7; 4096] };
                fs.fill_blocks(inode, &[block]).unwrap();
            }
        }
        FileSystem::sync(&mut fs).unwrap();
        let before = tree(&mut fs).unwrap();
        let mut fs = remount(fs, &options);
        assert!(before == tree(&mut fs).unwrap(), "{name}");
        for number in 0..5 {
            let inode = fs.lookup(root, format!("{number}").as_bytes()).unwrap();
            assert_eq!(fs.gaps(inode).unwrap(), [], "{name}: {number}");
        }
        let sparse = &before["/3"].2;
        assert_eq!(sparse.len(), 24577);
        assert_eq!(sparse.iter().filter(|&&byte| byte == 7).count(), 8192, "{name}");
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
                (before.1, after.1, before.2.len(), after.2.len(), first, before.3 == after.3)
            )
        }
        (before, after) => format!("{path}: {} {}; ", before.is_some(), after.is_some()),
    };
    differ.map(show).collect()
}
