//! Tests that synced data exists after a power loss, whatever the state in memory was.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_stack::fs::{FileFlags, FilledFile, NewFile, NewKind, SetXattr, Timestamp};
use floatgate_stack::ubifs::{Behaviour, Error, FormatOptions, MountOptions, Ubifs};
use floatgate_stack::{RamVolume, Volume, VolumeGeometry};

type Fs = Ubifs<RamVolume>;

const FILE: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };

fn fresh() -> Fs {
    let geometry = VolumeGeometry {
        lebs: 40,
        leb_bytes: 15872,
        min_io_bytes: 512,
        max_write_bytes: 512,
        leb_start: 0,
        read_only: false,
    };
    Ubifs::format(RamVolume::new(geometry), &FormatOptions::default(), Behaviour::default()).unwrap()
}

/// The filesystem as it is after a power loss now.
fn after_a_cut(fs: &Fs) -> Fs {
    let options = MountOptions { recover: true, ..MountOptions::default() };
    Ubifs::mount(fs.clone().abandon(), &options, Behaviour::default()).unwrap()
}

/// Bytes that cannot be compressed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        // Linear congruential generator of Knuth's MMIX.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn a_write_that_has_to_make_room_is_brought_to_flash_whole() {
    let mut fs = fresh();
    let root = fs.root();
    let ballast = fs.create(root, b"ballast", &FILE).unwrap();
    let (mut block, mut short) = (0, 0);
    while fs.space().available_blocks * 5 > fs.space().blocks {
        fs.write(ballast, block * 4096, &noise(block, 4096)).unwrap();
        fs.fsync(ballast).unwrap();
        block += 1;
    }
    for round in 0..60 {
        let name = format!("file {round}").into_bytes();
        let root = fs.root();
        let Ok(inode) = fs.create(root, &name, &FILE) else { break };
        // The write begins inside a block and covers several blocks. Writing back earlier blocks may make space for
        // later ones.
        match fs.write(inode, 1000, &noise(round, 10_000)) {
            Ok(()) => {}
            Err(Error::NoSpace) => {
                short += 1;
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        fs.fsync(inode).unwrap();
        let mut left = after_a_cut(&fs);
        assert_eq!(left.attributes(inode).unwrap().size, 11_000, "round {round}");
        let mut found = vec![0; 10_000];
        assert_eq!(left.read(inode, 1000, &mut found), Ok(10_000));
        assert!(found == noise(round, 10_000), "round {round}");
        assert_eq!(left.check(), Ok(Vec::new()));
    }
    assert!(short > 0, "space was never short");
}

/// A new image refuses the same attributes as a live filesystem. Otherwise its inode would state a list of names that
/// Linux does not accept.
#[test]
fn more_attributes_than_an_inode_can_have_are_refused_while_it_is_filled() {
    let options = FormatOptions { deferred: true, ..FormatOptions::default() };
    let mut fs = Ubifs::format(fresh().abandon(), &options, Behaviour::default()).unwrap();
    let root = fs.root();
    let name = |number: usize| format!("user.{number:0250}").into_bytes();
    let attributes = |count| (0..count).map(|number| (name(number), Vec::new())).collect::<Vec<_>>();
    let time = Timestamp::default();
    let mut fill = |count: usize| {
        let xattrs = attributes(count);
        let file = FilledFile {
            file: FILE,
            size: 0,
            atime: time,
            mtime: time,
            ctime: time,
            flags: FileFlags::default(),
            compression: None,
            xattrs: &xattrs,
        };
        fs.fill(root, format!("{count}").as_bytes(), &file)
    };
    // 256 names of 255 bytes with a terminating zero are 64 KiB.
    assert_eq!(fill(257), Err(Error::TooLarge { what: "list of attributes", len: 257 * 256 }));
    assert!(fill(256).is_ok());
}

#[test]
fn a_file_without_a_name_takes_its_attributes_along() {
    let mut fs = fresh();
    let root = fs.root();
    let inode = fs.create_unnamed(root, &FILE).unwrap();
    for value in [b"first".as_slice(), b"second"] {
        fs.set_xattr(inode, b"user.one", value, SetXattr::Any).unwrap();
        fs.write(inode, 0, value).unwrap();
        fs.fsync(inode).unwrap();
        let mut left = after_a_cut(&fs);
        assert_eq!(left.inodes(), Ok(vec![left.root()]));
        assert_eq!(left.check(), Ok(Vec::new()));
    }
    // An unnamed file that gets a name keeps all its data and attributes.
    let root = fs.root();
    fs.link(inode, root, b"named").unwrap();
    fs.fsync(inode).unwrap();
    let mut left = after_a_cut(&fs);
    assert_eq!(left.get_xattr(inode, b"user.one"), Ok(b"second".to_vec()));
    assert_eq!(left.inodes().unwrap().len(), 3);
}

#[test]
fn a_torn_end_of_the_journal_is_told() {
    let mut fs = fresh();
    let root = fs.root();
    let inode = fs.create(root, b"file", &FILE).unwrap();
    fs.write(inode, 0, &noise(1, 4096)).unwrap();
    fs.fsync(inode).unwrap();
    let mut volume = fs.abandon();
    let (mut bytes, contents) = (vec![0; 15872], noise(1, 4096));
    let mut holds_it = |volume: &mut RamVolume, lnum| {
        volume.read(lnum, 0, &mut bytes).unwrap();
        let end =
            bytes.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| (last + 1).next_multiple_of(512));
        bytes.windows(100).any(|window| window == &contents[..100]).then_some((lnum, end as u32))
    };
    let (lnum, end) = (0..40).find_map(|lnum| holds_it(&mut volume, lnum)).unwrap();
    let ends = |volume: RamVolume| {
        let options = MountOptions { read_only: true, recover: true, ..MountOptions::default() };
        let mut fs = Ubifs::mount(volume, &options, Behaviour::default()).unwrap();
        let root = fs.root();
        assert_eq!(fs.lookup(root, b"file"), Ok(inode));
        let (log, journal) = fs.torn_ends().unwrap();
        assert_eq!(log, Vec::new());
        journal.iter().map(|error| error.place().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ends(volume.clone()), []);
    volume.write(lnum, end, &[0x55; 512]).unwrap();
    assert_eq!(ends(volume), [(lnum, end)]);
}
