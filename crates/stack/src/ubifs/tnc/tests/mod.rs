//! Tests of the index against a model, with its own volume and LEB properties.

mod faults;
mod hashes;
mod hostile;
mod model;
mod names;
mod replay;
mod shape;
mod space;
mod volume;

use std::sync::Arc;

use self::space::TestSpace;
use self::volume::Lebs;
use super::{IndexHead, IndexSpace, Tnc};
use crate::fs::NodePos;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::Io;
use crate::ubifs::layout::{Layout, align8};
use crate::ubifs::space::LebSpace;
use crate::volume::Volume;
use floatgate_media::file::{Compression, FileType};
use floatgate_media::ubifs::{Entry, EntryNode, Group, Key, KeyHash, KeyType, Superblock};
use floatgate_mtd::random;

/// Number of LEBs for leaves. The other LEBs of the main area are for the index.
const LEAF_LEBS: u32 = 12;

/// Parameters of a test.
#[derive(Clone, Copy, Debug)]
struct Setup {
    fanout: u32,
    min_io_bytes: u32,
    leb_bytes: u32,
    index_lebs: u32,
    /// True to use the LEB properties of a real filesystem.
    real_space: bool,
}

const USUAL: Setup =
    Setup { fanout: 8, min_io_bytes: 8, leb_bytes: 32768, index_lebs: 20, real_space: false };

fn layout(setup: Setup) -> Layout {
    let Setup { fanout, min_io_bytes, leb_bytes, index_lebs, .. } = setup;
    let lebs = 3 + 2 + 2 + 1 + LEAF_LEBS + index_lebs;
    let superblock = Superblock {
        key_hash: KeyHash::Test,
        min_io_bytes,
        leb_bytes,
        leb_count: lebs,
        max_leb_count: lebs,
        max_journal_bytes: u64::from(leb_bytes) * 4,
        log_lebs: 2,
        lpt_lebs: 2,
        orphan_lebs: 1,
        data_heads: 1,
        fanout,
        lsave_count: 1,
        format_version: 4,
        compression: Compression::None,
        time_granularity_ns: 1,
        ..Superblock::default()
    };
    let geometry = Lebs::new(lebs, leb_bytes, min_io_bytes).geometry;
    Layout::new(&superblock, geometry).unwrap()
}

/// An index on its volume.
#[derive(Clone)]
struct Bench {
    io: Io<Lebs>,
    space: TestSpace,
    tnc: Tnc,
    head: IndexHead,
    /// Position of the next leaf.
    leaf: NodePos,
}

impl Bench {
    fn new(setup: Setup) -> Self {
        let layout = Arc::new(layout(setup));
        let volume = Lebs::new(layout.volume.lebs, setup.leb_bytes, setup.min_io_bytes);
        let leaf = NodePos { lnum: layout.limits.main.start, offset: 0, len: 0 };
        let io = Io::new(volume, layout, false);
        let space = TestSpace::new(&io, setup.real_space);
        Self { io, space, tnc: Tnc::empty(), head: IndexHead::default(), leaf }
    }

    fn leb_bytes(&self) -> u32 {
        self.io.layout().leb_bytes()
    }

    /// Reserves space for a leaf, which counts as written.
    fn room(&mut self, len: u32) -> NodePos {
        if self.leaf.offset + align8(len) > self.leb_bytes() {
            self.leaf = self.next_leaf_leb();
        }
        let place = NodePos { len, ..self.leaf };
        self.leaf.offset += align8(len);
        let leb = self.space.get(place.lnum).unwrap();
        self.space.set(place.lnum, LebSpace { free: leb.free - align8(len), ..leb }).unwrap();
        place
    }

    /// Erases and returns a leaf LEB without live leaves.
    fn next_leaf_leb(&mut self) -> NodePos {
        let free = self.leb_bytes();
        let first = self.io.layout().limits.main.start;
        let unused = |leb: LebSpace| leb.free + leb.dirty == free;
        let mut lebs = first..first + LEAF_LEBS;
        let lnum = lebs.find(|&lnum| unused(self.space.get(lnum).unwrap())).expect("leaf LEBs are few");
        self.space.set(lnum, LebSpace { free, taken: true, ..LebSpace::default() }).unwrap();
        self.io.volume_mut().unmap(lnum).unwrap();
        NodePos { lnum, offset: 0, len: 0 }
    }

    /// LEBs of the index with their properties.
    fn index_lebs(&self) -> Vec<(u32, LebSpace)> {
        let main = self.io.layout().limits.main.clone();
        let lebs = main.map(|lnum| (lnum, self.space.get(lnum).unwrap()));
        lebs.filter(|(_, leb)| leb.index).collect()
    }

    /// Writes an entry, ignoring the rules of flash.
    fn write_entry(&mut self, key: Key, name: &[u8], inode: u64) -> NodePos {
        let entry = Entry { key, inode, file_type: FileType::Regular, ..Entry::default() };
        let mut bytes = Vec::new();
        let len = self.io.append_node(&EntryNode { entry, name }, Group::None, &mut bytes).unwrap();
        let place = self.room(len);
        self.io.volume_mut().at(place.lnum, place.offset, bytes.len()).unwrap().copy_from_slice(&bytes);
        place
    }

    fn insert(&mut self, key: Key) -> NodePos {
        let len = if key.key_type() == KeyType::Inode { 160 } else { 56 };
        let place = self.room(len);
        self.tnc.insert(&mut self.io, &mut self.space, key, place).unwrap();
        place
    }

    fn insert_name(&mut self, key: Key, name: &[u8]) -> NodePos {
        let place = self.write_entry(key, name, 77);
        self.tnc.insert_name(&mut self.io, &mut self.space, key, name, place).unwrap();
        place
    }

    /// Commits, and returns the root. Index LEBs without live nodes are erased.
    fn commit(&mut self) -> Result<NodePos> {
        let root = self.write_index()?;
        self.space.end_commit(&mut self.io);
        Ok(root)
    }

    /// Commits up to the point at which the master node would be written.
    fn write_index(&mut self) -> Result<NodePos> {
        let Self { io, space, tnc, head, .. } = self;
        space.start_commit(io);
        tnc.commit(io, space, head)
    }

    /// The same filesystem after a new mount.
    fn reopened(&self, root: NodePos) -> Self {
        let tnc = Tnc::open(root, self.tnc.index_bytes());
        Self { tnc, ..self.clone() }
    }

    fn all_leaves(&mut self) -> Vec<(Key, NodePos)> {
        let mut out = Vec::new();
        let (from, to) = (Key::from_bits(0), Key::from_bits(u64::MAX));
        self.tnc.leaves(&mut self.io, from, to, usize::MAX, &mut out).unwrap();
        out
    }
}

fn data(inode: u32, block: u32) -> Key {
    Key::data(inode, block).unwrap()
}

fn entry_key(inode: u32, name: &[u8]) -> Key {
    Key::entry(inode, KeyHash::Test.hash(name).unwrap())
}

/// Generator of random numbers and keys.
struct Random(random::Random);

impl Random {
    fn new(seed: u64) -> Self {
        Self(random::Random::new(seed))
    }

    fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    fn small(&mut self, limit: u32) -> u32 {
        u32::try_from(self.below(u64::from(limit))).unwrap()
    }
}
