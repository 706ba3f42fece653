//! Tests of mounting, recovery and formatting.

mod cuts;
mod format;
mod hostile;
mod masters;
mod orphans;
mod remains;
mod scan;
mod sizes;

use floatgate_media::file::{Compression, FileType};
use floatgate_media::ubifs::{
    Block, DataNode, Entry, EntryNode, Group, Inode, InodeNode, Key, KeyHash, ROOT_INODE,
};

use super::*;
use crate::ubifs::journal::Change;
use crate::ubifs::layout::Head;
use crate::ubifs::testing::TestVolume;

const LEB: u32 = 16 * 1024;
const UNIT: u32 = 512;

/// Options of a writable mount with recovery.
const RECOVER: MountOptions = MountOptions {
    read_only: false,
    recover: true,
    forgiving: false,
    keep_space_fixup: false,
    authenticate: Authenticate::No,
};

/// Options of a writable mount that refuses a filesystem in need of recovery.
const WRITE: MountOptions = MountOptions {
    read_only: false,
    recover: false,
    forgiving: false,
    keep_space_fixup: false,
    authenticate: Authenticate::No,
};

/// Options of a read-only mount.
const READ: MountOptions = MountOptions {
    read_only: true,
    recover: false,
    forgiving: false,
    keep_space_fixup: false,
    authenticate: Authenticate::No,
};

fn volume() -> TestVolume {
    TestVolume::new(60, LEB, UNIT, UNIT)
}

/// Creates an empty filesystem.
fn fresh() -> Core<TestVolume> {
    Core::format(volume(), &FormatOptions::default()).unwrap_or_else(|(error, _)| panic!("{error}"))
}

fn mount(volume: TestVolume, options: &MountOptions) -> Core<TestVolume> {
    Core::mount(volume, options).unwrap_or_else(|(error, _)| panic!("{error}"))
}

fn refused(volume: TestVolume, options: &MountOptions) -> Error {
    let Err((why, _)) = Core::mount(volume, options) else { panic!("the mount is not refused") };
    why
}

fn unmount(core: Core<TestVolume>) -> TestVolume {
    core.unmount().unwrap_or_else(|(error, _)| panic!("{error}"))
}

/// Copies the contents of a volume to a volume with more LEBs.
fn enlarged(old: &TestVolume, lebs: u32) -> TestVolume {
    let mut large = TestVolume::new(lebs, LEB, UNIT, UNIT);
    for (lnum, bytes) in (0..60).filter_map(|lnum| Some((lnum, old.leb(lnum)?))) {
        let used = bytes.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
        large.change(lnum, &bytes[..used.next_multiple_of(UNIT as usize)]).unwrap();
    }
    large.operations = 0;
    large
}

/// Volume as a power cut leaves it now: buffered data is lost.
fn cut(core: &Core<TestVolume>) -> TestVolume {
    core.io.volume().clone()
}

fn inode(number: u32, links: u32, size: u64) -> Inode {
    let compression = Compression::None;
    Inode { key: Key::inode(number), links, size, mode: 0o100_644, compression, ..Inode::default() }
}

fn entry(name: &[u8], number: u32) -> EntryNode<'_> {
    let key = Key::entry(ROOT_INODE, KeyHash::R5.hash(name).unwrap());
    let entry = Entry { key, inode: u64::from(number), file_type: FileType::Regular, cookie: 0 };
    EntryNode { entry, name }
}

/// Creates a file in the root directory, and returns its inode.
fn create(core: &mut Core<TestVolume>, name: &[u8]) -> u32 {
    let (number, _) = core.new_inode().unwrap();
    let file = InodeNode { inode: inode(number, 1, 0), data: &[] };
    core.apply(Head::Base, &[Change::Entry(entry(name, number)), Change::Inode(file)]).unwrap();
    number
}

fn write_inode(core: &mut Core<TestVolume>, inode: Inode) {
    core.apply(Head::Base, &[Change::Inode(InodeNode { inode, data: &[] })]).unwrap();
}

fn write_block(core: &mut Core<TestVolume>, number: u32, block: u32, data: &[u8]) {
    let size = u32::try_from(data.len()).unwrap();
    let key = Key::data(number, block).unwrap();
    let block = Block { key, size, compression: Compression::None, compressed_size: 0 };
    core.apply(Head::Data, &[Change::Data(DataNode { block, data })]).unwrap();
}

fn find(core: &mut Core<TestVolume>, name: &[u8]) -> Option<NodePos> {
    core.tnc.find_name(&mut core.io, entry(name, 0).entry.key, name, &mut Vec::new()).unwrap()
}

/// Bytes of a LEB that contains these nodes one after the other.
fn nodes(core: &mut Core<TestVolume>, list: &[(&[u8], Group)]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(name, group) in list {
        core.io.append_node(&entry(name, 70), group, &mut out).unwrap();
    }
    out
}

#[test]
fn a_clean_filesystem_is_replayed_from_its_journal() {
    let mut core = fresh();
    for name in 0..50u32 {
        create(&mut core, format!("file {name}").as_bytes());
    }
    let (commit, highest) = (core.master.commit, core.highest_inode);
    let volume = unmount(core);
    for options in [READ, WRITE] {
        let mut core = mount(volume.clone(), &options);
        assert_eq!(core.master.commit, commit, "nothing was committed");
        assert!(find(&mut core, b"file 0").is_some() && find(&mut core, b"file 49").is_some());
        assert_eq!(core.highest_inode, highest);
        assert_eq!(core.check().unwrap(), []);
        let base = core.io.buffer(Head::Base);
        assert!(base.lnum().is_some() && base.position() > 0, "the head goes on where it was");
    }
}

#[test]
fn reading_writes_nothing() {
    let mut core = fresh();
    create(&mut core, b"a");
    core.sync_heads().unwrap();
    let dirty = cut(&core);
    for volume in [dirty, unmount(core)] {
        let before = volume.operations;
        let mut core = mount(volume, &READ);
        assert!(find(&mut core, b"a").is_some());
        assert_eq!(core.apply(Head::Base, &[Change::Entry(entry(b"b", 1))]), Err(Error::ReadOnly));
        assert_eq!(unmount(core).operations, before);
    }
}

#[test]
fn a_dirty_filesystem_is_recovered_only_if_asked_for() {
    let mut core = fresh();
    create(&mut core, b"a");
    core.sync_heads().unwrap();
    let dirty = cut(&core);
    let before = dirty.operations;
    let (error, volume) = Core::mount(dirty, &WRITE).err().unwrap();
    assert_eq!((error, volume.operations), (Error::NeedsRecovery, before));
    let mut core = mount(volume, &RECOVER);
    assert!(find(&mut core, b"a").is_some());
    assert_eq!(core.check().unwrap(), []);
    let volume = unmount(core);
    assert!(find(&mut mount(volume, &WRITE), b"a").is_some());
}

#[test]
fn a_filesystem_grows_to_its_volume() {
    let options = FormatOptions { max_lebs: Some(80), ..FormatOptions::default() };
    let core = Core::format(volume(), &options).unwrap_or_else(|(error, _)| panic!("{error}"));
    let old = unmount(core);
    let large = enlarged(&old, 100);
    let mut core = mount(large.clone(), &READ);
    assert_eq!(core.io.layout().limits.leb_count, 80);
    assert_eq!(core.check().unwrap(), []);
    let mut core = mount(large, &WRITE);
    create(&mut core, b"a");
    core.commit().unwrap();
    assert_eq!(core.check().unwrap(), []);
    let mut volume = unmount(core);
    let stored = superblock::read(&mut volume, true).unwrap();
    assert!(!stored.changed, "the superblock was written");
    assert_eq!((stored.superblock.leb_count, stored.superblock.max_leb_count), (80, 80));
}

#[test]
fn a_volume_of_other_sizes_is_refused() {
    let old = unmount(fresh());
    let sector = |volume: &mut TestVolume| volume.change(0, &old.leb(0).unwrap()[..4096]).unwrap();
    let cases = [
        (TestVolume::new(60, LEB, 2 * UNIT, 2 * UNIT), "minimal I/O unit of 512 bytes"),
        (TestVolume::new(60, LEB + UNIT, UNIT, UNIT), "LEB of 16384 bytes"),
        (TestVolume::new(59, LEB, UNIT, UNIT), "needs 60 LEBs"),
    ];
    for (mut other, text) in cases {
        sector(&mut other);
        let error = refused(other, &WRITE).to_string();
        assert!(error.contains(text), "{error}");
    }
    assert!(matches!(refused(volume(), &WRITE), Error::Node { lnum: 0, offset: 0, .. }));
}

#[test]
fn free_space_is_fixed_up_once() {
    let options = FormatOptions { space_fixup: true, deferred: true, ..FormatOptions::default() };
    let mut core = Core::format(volume(), &options).unwrap_or_else(|(error, _)| panic!("{error}"));
    create(&mut core, b"a");
    let image = unmount(core);
    // A programmer maps every LEB and writes it up to its end.
    let mut programmed = volume();
    for lnum in 0..60 {
        let bytes = image.leb(lnum).map_or(vec![0xFF; LEB as usize], <[u8]>::to_vec);
        programmed.change(lnum, &bytes).unwrap();
    }
    assert!(find(&mut mount(programmed.clone(), &READ), b"a").is_some());
    let mut core = mount(programmed, &WRITE);
    for name in 0..300u32 {
        create(&mut core, format!("{name}").as_bytes());
    }
    core.commit().unwrap();
    assert_eq!(core.check().unwrap(), []);
    let mut volume = unmount(core);
    assert!(!superblock::read(&mut volume, false).unwrap().fix_up_space);
}
