//! The index against a model, on a volume and with LEB properties of its own.

mod faults;
mod hostile;
mod model;
mod names;
mod shape;

use std::sync::Arc;

use super::{IndexHead, IndexSpace, Tnc};
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::Io;
use crate::ubifs::layout::{Layout, Place, align8};
use crate::ubifs::space::{LebSpace, Space};
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
    /// Writes that still succeed, if the power is about to go.
    power: Option<usize>,
    /// The read that fails.
    bad_read: Option<usize>,
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
        let lebs = vec![vec![0xFF; leb_bytes as usize]; lebs as usize];
        Self { lebs, geometry, reads: 0, changes: 0, power: None, bad_read: None }
    }

    /// Units of a write of `len` bytes that get through.
    fn powered(&mut self, lnum: u32, len: usize) -> core::result::Result<(), (usize, VolumeError)> {
        let unit = self.geometry.min_io_bytes as usize;
        let Some(left) = &mut self.power else { return Ok(()) };
        let units = len / unit;
        if *left >= units {
            *left -= units;
            return Ok(());
        }
        Err((core::mem::take(left) * unit, VolumeFault::PowerLost.at(lnum, 0)))
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
        if self.bad_read == Some(self.reads) {
            return Err(VolumeFault::Host("try again".into()).at(lnum, offset));
        }
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
        let (len, outcome) = match self.powered(lnum, data.len()) {
            Ok(()) => (data.len(), Ok(())),
            Err((len, error)) => (len, Err(error)),
        };
        self.at(lnum, offset, len)?.copy_from_slice(&data[..len]);
        outcome
    }
    fn change(&mut self, lnum: u32, data: &[u8]) -> core::result::Result<(), VolumeError> {
        // All or nothing.
        self.powered(lnum, data.len()).map_err(|(_, error)| error)?;
        self.changes += 1;
        self.unmap(lnum)?;
        self.at(lnum, 0, data.len())?.copy_from_slice(data);
        Ok(())
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
struct OwnSpace {
    first: u32,
    leb_bytes: u32,
    lebs: Vec<LebSpace>,
}

impl OwnSpace {
    fn new(layout: &Layout) -> Self {
        let (lebs, leb_bytes) = (layout.limits.main_lebs() as usize, layout.leb_bytes());
        let leb = LebSpace { free: leb_bytes, ..LebSpace::default() };
        Self { first: layout.limits.main.start, leb_bytes, lebs: vec![leb; lebs] }
    }

    fn at(&self, lnum: u32) -> Result<usize> {
        let at = lnum.checked_sub(self.first).map(|at| at as usize).filter(|&at| at < self.lebs.len());
        at.ok_or(Error::corrupt(lnum, 0, "not in the main area"))
    }

    fn take(&mut self, at: usize) -> u32 {
        (self.lebs[at].taken, self.lebs[at].index) = (true, true);
        self.first + at as u32
    }

    fn get(&self, lnum: u32) -> Result<LebSpace> {
        Ok(self.lebs[self.at(lnum)?])
    }

    fn set(&mut self, lnum: u32, space: LebSpace) -> Result<()> {
        if u64::from(space.free) + u64::from(space.dirty) > u64::from(self.leb_bytes) {
            return Err(Error::corrupt(lnum, 0, "more dirty and free space than the LEB holds"));
        }
        let at = self.at(lnum)?;
        self.lebs[at] = space;
        Ok(())
    }

    fn find_free(&mut self) -> Option<u32> {
        let at = self.lebs.iter().position(|leb| leb.free == self.leb_bytes && !leb.taken && !leb.index)?;
        Some(self.take(at))
    }

    fn find_dirty_index(&mut self) -> Option<u32> {
        let gain = |leb: &LebSpace| leb.free + leb.dirty;
        let lebs = self.lebs.iter().enumerate();
        let dirty = lebs.filter(|(_, leb)| leb.index && !leb.taken && gain(leb) >= 48);
        let best = dirty.max_by_key(|(_, leb)| gain(leb)).map(|(at, _)| at);
        best.map(|at| self.take(at))
    }

    /// Erases LEBs of the index without any current node, as after any commit.
    fn end_commit(&mut self, io: &mut Io<Lebs>) {
        let free = self.leb_bytes;
        for (lnum, leb) in (self.first..).zip(&mut self.lebs) {
            if leb.index && !leb.taken && leb.free + leb.dirty == free {
                io.volume_mut().unmap(lnum).unwrap();
                *leb = LebSpace { free, ..LebSpace::default() };
            }
        }
    }
}

/// LEB properties.
#[derive(Clone, Debug)]
enum TestSpace {
    Own(OwnSpace),
    /// Those of a filesystem.
    Real(Box<Space>),
}

impl TestSpace {
    fn new(io: &Io<Lebs>, real: bool) -> Self {
        let mut space =
            if real { Self::Real(Box::new(Space::empty(io))) } else { Self::Own(OwnSpace::new(io.layout())) };
        let first = io.layout().limits.main.start;
        for lnum in first..first + LEAF_LEBS {
            let leb = space.get(lnum).unwrap();
            space.set(lnum, LebSpace { taken: true, ..leb }).unwrap();
        }
        space
    }

    fn start_commit(&mut self, io: &mut Io<Lebs>) {
        if let Self::Real(space) = self {
            space.start_commit(io).unwrap();
        }
    }

    fn end_commit(&mut self, io: &mut Io<Lebs>) {
        match self {
            Self::Own(space) => space.end_commit(io),
            Self::Real(space) => space.commit_done(io).unwrap(),
        }
    }
}

impl IndexSpace for TestSpace {
    fn add_dirt(&mut self, lnum: u32, bytes: u32) -> Result<()> {
        let leb = self.get(lnum)?;
        self.set(lnum, LebSpace { dirty: leb.dirty.saturating_add(bytes), ..leb })
    }
    fn get(&self, lnum: u32) -> Result<LebSpace> {
        match self {
            Self::Own(space) => space.get(lnum),
            Self::Real(space) => space.get(lnum),
        }
    }
    fn set(&mut self, lnum: u32, leb: LebSpace) -> Result<()> {
        match self {
            Self::Own(space) => space.set(lnum, leb),
            Self::Real(space) => space.set(lnum, leb),
        }
    }
    fn find_free_for_index<V: Volume>(&mut self, io: &mut Io<V>) -> Result<Option<u32>> {
        match self {
            Self::Own(space) => Ok(space.find_free()),
            Self::Real(space) => space.find_free_for_index(io),
        }
    }
    fn find_dirty_index(&mut self) -> Result<Option<u32>> {
        match self {
            Self::Own(space) => Ok(space.find_dirty_index()),
            Self::Real(space) => space.find_dirty_index(),
        }
    }
}

/// Sizes of a test.
#[derive(Clone, Copy, Debug)]
struct Setup {
    fanout: u32,
    min_io_bytes: u32,
    leb_bytes: u32,
    index_lebs: u32,
    /// With the LEB properties of a filesystem.
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
    /// Where the next leaf goes.
    leaf: Place,
}

impl Bench {
    fn new(setup: Setup) -> Self {
        let layout = Arc::new(layout(setup));
        let volume = Lebs::new(layout.volume.lebs, setup.leb_bytes, setup.min_io_bytes);
        let leaf = Place { lnum: layout.limits.main.start, offset: 0, len: 0 };
        let io = Io::new(volume, layout, false);
        let space = TestSpace::new(&io, setup.real_space);
        Self { io, space, tnc: Tnc::empty(), head: IndexHead::default(), leaf }
    }

    fn leb_bytes(&self) -> u32 {
        self.io.layout().leb_bytes()
    }

    /// Room for a leaf, which counts as written.
    fn room(&mut self, len: u32) -> Place {
        if self.leaf.offset + align8(len) > self.leb_bytes() {
            self.leaf = self.next_leaf_leb();
        }
        let place = Place { len, ..self.leaf };
        self.leaf.offset += align8(len);
        let leb = self.space.get(place.lnum).unwrap();
        self.space.set(place.lnum, LebSpace { free: leb.free - align8(len), ..leb }).unwrap();
        place
    }

    /// A leaf LEB with nothing current in it, erased.
    fn next_leaf_leb(&mut self) -> Place {
        let free = self.leb_bytes();
        let first = self.io.layout().limits.main.start;
        let unused = |leb: LebSpace| leb.free + leb.dirty == free;
        let mut lebs = first..first + LEAF_LEBS;
        let lnum = lebs.find(|&lnum| unused(self.space.get(lnum).unwrap())).expect("leaf LEBs are few");
        self.space.set(lnum, LebSpace { free, taken: true, ..LebSpace::default() }).unwrap();
        self.io.volume_mut().unmap(lnum).unwrap();
        Place { lnum, offset: 0, len: 0 }
    }

    /// LEBs of the index and their properties.
    fn index_lebs(&self) -> Vec<(u32, LebSpace)> {
        let main = self.io.layout().limits.main.clone();
        let lebs = main.map(|lnum| (lnum, self.space.get(lnum).unwrap()));
        lebs.filter(|(_, leb)| leb.index).collect()
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

    /// Commits, and returns the root. LEBs of the index without any current node are erased.
    fn commit(&mut self) -> Result<Place> {
        let root = self.write_index()?;
        self.space.end_commit(&mut self.io);
        Ok(root)
    }

    /// Commits up to where the master node would be written.
    fn write_index(&mut self) -> Result<Place> {
        let Self { io, space, tnc, head, .. } = self;
        space.start_commit(io);
        tnc.commit(io, space, head)
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
