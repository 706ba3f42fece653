//! Tests with thousands of changes against a model: no data is lost, all space is accounted for, and a full filesystem
//! can be emptied.

mod checks;
mod cuts;
mod groups;
mod model;
mod pressure;

use std::collections::BTreeMap;

use floatgate_media::ubifs::{KeyHash, Master, MasterFlags, Superblock};

use super::core::Core;
use super::io::Io;
use super::journal::{Change, Log};
use super::layout::Head;
use super::limits::Limits;
use super::mount::findings::Findings;
use super::mount::orphans::Orphans;
use super::space::Space;
use super::testing::{TestVolume, blank_with};
use super::tnc::Tnc;
use model::{ROOT, directory};

/// Parameters of a test filesystem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    lebs: u32,
    leb_bytes: u32,
    min_io: u32,
    max_write: u32,
    journal_lebs: u32,
    /// Hash of names. With the test hash, short names with the same beginning share a key.
    key_hash: KeyHash,
}

const fn shape(lebs: u32, leb_bytes: u32, min_io: u32, max_write: u32, journal_lebs: u32) -> Shape {
    Shape { lebs, leb_bytes, min_io, max_write, journal_lebs, key_hash: KeyHash::R5 }
}

/// NAND with pages of 512, 2048 and 4096 bytes, with and without larger writes, and NOR; small and large journals;
/// names whose hashes all collide.
pub(super) const SHAPES: [Shape; 6] = [
    shape(64, 16 * 1024, 512, 512, 8),
    shape(48, 30 * 2048, 2048, 2048, 4),
    shape(40, 62 * 4096, 4096, 4096, 4),
    shape(60, 15 * 1024 + 512, 512, 2048, 6),
    shape(60, 16 * 1024 - 128, 1, 64, 6),
    Shape { key_hash: KeyHash::Test, ..shape(64, 16 * 1024, 512, 512, 5) },
];

/// Creates a filesystem with a root directory, without a commit.
pub(super) fn unwritten(shape: Shape) -> Core<TestVolume> {
    let volume = TestVolume::new(shape.lebs, shape.leb_bytes, shape.min_io, shape.max_write);
    let mut io = blank_with(volume, shape.journal_lebs, shape.key_hash);
    write_superblock(&mut io);
    let layout = io.layout().clone();
    let mut space = Space::empty(&io);
    let (gc_lnum, _) = space.find_free(&mut io, 1, false).unwrap().unwrap();
    let master = Master {
        flags: MasterFlags::DIRTY,
        gc_lnum,
        leb_count: layout.limits.leb_count,
        lscan_lnum: layout.limits.main.start,
        ..Master::default()
    };
    let mut core = Core {
        io,
        space,
        tnc: Tnc::empty(),
        log: Log::deferred(&layout),
        orphans: Orphans::new(&layout),
        master,
        master_offset: 0,
        gc_lnum: Some(gc_lnum),
        highest_inode: 64,
        sizes: BTreeMap::new(),
        room_behind_data: None,
        authentication: None,
        verifier: None,
        findings: Findings::default(),
        limits: Limits::default(),
    };
    core.apply(Head::Base, &[Change::Inode(directory(ROOT, 0))]).unwrap();
    core
}

fn write_superblock(io: &mut Io<TestVolume>) {
    let superblock: Superblock = io.layout().superblock;
    io.write_node(&superblock, 0, 0).unwrap();
}

/// Creates a committed filesystem in use.
pub(super) fn fresh(shape: Shape) -> Core<TestVolume> {
    let mut core = unwritten(shape);
    core.commit().unwrap();
    core
}

/// Checks that the filesystem is consistent, before and after a commit.
pub(super) fn assert_consistent(core: &mut Core<TestVolume>, when: &str) {
    let found = core.check().unwrap();
    assert!(found.is_empty(), "{when}: {found:#?}");
}
