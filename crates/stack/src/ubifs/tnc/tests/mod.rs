//! The index against a model, on a volume and with LEB properties of its own.

mod hostile;
mod model;
mod names;
mod shape;

use std::sync::Arc;

use super::{IndexHead, IndexSpace, Tnc};
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::Io;
use crate::ubifs::layout::{Layout, Place, align8};
use crate::ubifs::space::LebSpace;
use crate::volume::{Volume, VolumeError, VolumeFault, VolumeGeometry};
use floatgate_media::ubifs::{
    Compression, Entry, EntryNode, FileType, Group, Key, KeyHash, KeyType, Superblock,
};
use floatgate_mtd::Instant;

/// LEBs for leaves, the others of the main area are for the index.
const LEAF_LEBS: u32 = 12;

/// LEBs in memory that may be written once only.
#[derive(Clone, Debug)]
struct Lebs {
    lebs: Vec<Vec<u8>>,
    geometry: VolumeGeometry,
    reads: usize,
    changes: usize,
}

impl Lebs {
    fn new(lebs: u32, leb_bytes: u32, min_io_bytes: u32) -> Self {
        let geometry = VolumeGeometry {
            lebs,
            leb_bytes,
            min_io_bytes,
            max_write_bytes: min_io_bytes,
            leb_start: 0,
            read_only: false,
        };
        Self { lebs: vec![vec![0xFF; leb_bytes as usize]; lebs as usize], geometry, reads: 0, changes: 0 }
    }

    fn at(&mut self, lnum: u32, offset: u32, len: usize) -> core::result::Result<&mut [u8], VolumeError> {
        let range = offset as usize..offset as usize + len;
        let leb = self.lebs.get_mut(lnum as usize).and_then(|leb| leb.get_mut(range));
        leb.ok_or(VolumeFault::OutOfRange { len }.at(lnum, offset))
    }
}

impl Volume for Lebs {
    fn geometry(&self) -> VolumeGeometry {
        self.geometry
    }
    fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> core::result::Result<(), VolumeError> {
        self.reads += 1;
        buf.copy_from_slice(self.at(lnum, offset, buf.len())?);
        Ok(())
    }
    fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> core::result::Result<(), VolumeError> {
        let unit = self.geometry.min_io_bytes;
        if !offset.is_multiple_of(unit) || !data.len().is_multiple_of(unit as usize) {
            return Err(VolumeFault::Misaligned { unit }.at(lnum, offset));
        }
        let target = self.at(lnum, offset, data.len())?;
        if target.iter().any(|&byte| byte != 0xFF) {
            return Err(VolumeFault::NotErased.at(lnum, offset));
        }
        target.copy_from_slice(data);
        Ok(())
    }
    fn change(&mut self, lnum: u32, data: &[u8]) -> core::result::Result<(), VolumeError> {
        self.changes += 1;
        self.unmap(lnum)?;
        self.write(lnum, 0, data)
    }
    fn map(&mut self, _lnum: u32) -> core::result::Result<(), VolumeError> {
        Ok(())
    }
    fn unmap(&mut self, lnum: u32) -> core::result::Result<(), VolumeError> {
        let len = self.geometry.leb_bytes as usize;
        self.at(lnum, 0, len)?.fill(0xFF);
        Ok(())
    }
    fn erase(&mut self, lnum: u32) -> core::result::Result<(), VolumeError> {
        self.unmap(lnum)
    }
    fn is_mapped(&mut self, _lnum: u32) -> core::result::Result<bool, VolumeError> {
        Ok(true)
    }
    fn flush(&mut self) -> core::result::Result<(), VolumeError> {
        Ok(())
    }
    fn now(&self) -> Instant {
        Instant::default()
    }
    fn wait_until(&mut self, _now: Instant) {}
}

/// LEB properties that say what they are told.
#[derive(Clone, Debug)]
struct TestSpace {
    first: u32,
    leb_bytes: u32,
    lebs: Vec<LebSpace>,
}

impl TestSpace {
    fn new(layout: &Layout) -> Self {
        let lebs = layout.limits.main_lebs() as usize;
        let leb_bytes = layout.leb_bytes();
        let first = layout.limits.main.start;
        Self { first, leb_bytes, lebs: vec![LebSpace { free: leb_bytes, ..LebSpace::default() }; lebs] }
    }

    fn leb(&mut self, lnum: u32) -> Result<&mut LebSpace> {
        let at = lnum.checked_sub(self.first).and_then(|at| self.lebs.get_mut(at as usize));
        at.ok_or(Error::Invalid("not in the main area"))
    }

    /// LEBs of the index and their properties.
    fn index_lebs(&self) -> Vec<(u32, LebSpace)> {
        let lebs = (self.first..).zip(self.lebs.iter().copied());
        lebs.filter(|(_, leb)| leb.index).collect()
    }
}

impl IndexSpace for TestSpace {
    fn add_dirt(&mut self, lnum: u32, bytes: u32) -> Result<()> {
        let leb_bytes = self.leb_bytes;
        let leb = self.leb(lnum)?;
        leb.dirty += bytes;
        assert!(leb.free + leb.dirty <= leb_bytes, "LEB {lnum} has more dirty space than it holds");
        Ok(())
    }
    fn get(&self, lnum: u32) -> Result<LebSpace> {
        self.clone().leb(lnum).copied()
    }
    fn set(&mut self, lnum: u32, space: LebSpace) -> Result<()> {
        assert!(space.free + space.dirty <= self.leb_bytes, "LEB {lnum}: {space:?}");
        *self.leb(lnum)? = space;
        Ok(())
    }
    fn find_free_for_index<V: Volume>(&mut self, _io: &mut Io<V>) -> Result<Option<u32>> {
        let leb_bytes = self.leb_bytes;
        let is_free = |leb: &LebSpace| leb.free == leb_bytes && !leb.taken && !leb.index;
        let at = (LEAF_LEBS as usize..self.lebs.len()).find(|&at| is_free(&self.lebs[at]));
        Ok(at.map(|at| {
            (self.lebs[at].taken, self.lebs[at].index) = (true, true);
            self.first + at as u32
        }))
    }
    fn find_dirty_index(&mut self) -> Result<Option<u32>> {
        let mut best = None;
        for (at, leb) in self.lebs.iter().enumerate() {
            let gain = leb.free + leb.dirty;
            if leb.index && !leb.taken && gain >= 48 && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, at));
            }
        }
        Ok(best.map(|(_, at)| {
            self.lebs[at].taken = true;
            self.first + at as u32
        }))
    }
}

/// Sizes of a test.
#[derive(Clone, Copy, Debug)]
struct Setup {
    fanout: u32,
    min_io_bytes: u32,
    leb_bytes: u32,
    index_lebs: u32,
}

const USUAL: Setup = Setup { fanout: 8, min_io_bytes: 8, leb_bytes: 32768, index_lebs: 20 };

fn layout(setup: Setup) -> Layout {
    let Setup { fanout, min_io_bytes, leb_bytes, index_lebs } = setup;
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
    /// Where the next leaf goes.
    leaf: Place,
}

impl Bench {
    fn new(setup: Setup) -> Self {
        let layout = Arc::new(layout(setup));
        let volume = Lebs::new(layout.volume.lebs, setup.leb_bytes, setup.min_io_bytes);
        let space = TestSpace::new(&layout);
        let leaf = Place { lnum: layout.limits.main.start, offset: 0, len: 0 };
        let io = Io::new(volume, layout, false);
        Self { io, space, tnc: Tnc::empty(), head: IndexHead::default(), leaf }
    }

    /// Room for a leaf, which counts as written.
    fn room(&mut self, len: u32) -> Place {
        let leb_bytes = self.space.leb_bytes;
        if self.leaf.offset + align8(len) > leb_bytes {
            self.leaf = self.next_leaf_leb();
        }
        let place = Place { len, ..self.leaf };
        self.leaf.offset += align8(len);
        self.space.leb(place.lnum).unwrap().free -= align8(len);
        place
    }

    /// A leaf LEB with nothing current in it, erased.
    fn next_leaf_leb(&mut self) -> Place {
        let bytes = self.space.leb_bytes;
        let lebs = &self.space.lebs[..LEAF_LEBS as usize];
        let unused = |leb: &LebSpace| leb.free + leb.dirty == bytes;
        let at = lebs.iter().position(unused).expect("leaf LEBs are few");
        let lnum = self.space.first + at as u32;
        self.space.lebs[at] = LebSpace { free: bytes, ..LebSpace::default() };
        self.io.volume_mut().unmap(lnum).unwrap();
        Place { lnum, offset: 0, len: 0 }
    }

    /// Writes an entry past all rules of flash.
    fn write_entry(&mut self, key: Key, name: &[u8], inode: u64) -> Place {
        let entry = Entry { key, inode, file_type: FileType::Regular, ..Entry::default() };
        let mut bytes = Vec::new();
        let len = self.io.append_node(&EntryNode { entry, name }, Group::None, &mut bytes).unwrap();
        let place = self.room(len);
        self.io.volume_mut().at(place.lnum, place.offset, bytes.len()).unwrap().copy_from_slice(&bytes);
        place
    }

    fn insert(&mut self, key: Key) -> Place {
        let len = if key.key_type() == KeyType::Inode { 160 } else { 56 };
        let place = self.room(len);
        self.tnc.insert(&mut self.io, &mut self.space, key, place).unwrap();
        place
    }

    fn insert_name(&mut self, key: Key, name: &[u8]) -> Place {
        let place = self.write_entry(key, name, 77);
        self.tnc.insert_name(&mut self.io, &mut self.space, key, name, place).unwrap();
        place
    }

    /// Commits, and returns the root. LEBs of the index without any current node are erased, as after any commit.
    fn commit(&mut self) -> Result<Place> {
        let root = self.tnc.commit(&mut self.io, &mut self.space, &mut self.head)?;
        for (lnum, leb) in self.space.index_lebs() {
            if !leb.taken && leb.free + leb.dirty == self.space.leb_bytes {
                self.io.volume_mut().unmap(lnum).unwrap();
                let free = self.space.leb_bytes;
                *self.space.leb(lnum).unwrap() = LebSpace { free, ..LebSpace::default() };
            }
        }
        Ok(root)
    }

    /// The same filesystem, mounted anew.
    fn reopened(&self, root: Place) -> Self {
        let tnc = Tnc::open(root, self.tnc.index_bytes());
        Self { tnc, ..self.clone() }
    }

    fn all_leaves(&mut self) -> Vec<(Key, Place)> {
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

/// Splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ value >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn small(&mut self, limit: u32) -> u32 {
        u32::try_from(self.below(u64::from(limit))).unwrap()
    }
}
