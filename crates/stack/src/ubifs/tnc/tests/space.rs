//! LEB properties for tests of the index: simple ones, or those of a filesystem.

use super::super::IndexSpace;
use super::LEAF_LEBS;
use super::volume::Lebs;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::{DynIo, Io};
use crate::ubifs::layout::Layout;
use crate::ubifs::space::{LebSpace, Space};
use crate::volume::Volume;

/// LEB properties that only store the given values.
#[derive(Clone, Debug)]
pub(super) struct OwnSpace {
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

    /// Erases index LEBs without live nodes, as after any commit.
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

/// LEB properties of either kind.
#[derive(Clone, Debug)]
pub(super) enum TestSpace {
    Own(OwnSpace),
    /// LEB properties of a filesystem.
    Real(Box<Space>),
}

impl TestSpace {
    pub(super) fn new(io: &Io<Lebs>, real: bool) -> Self {
        let mut space =
            if real { Self::Real(Box::new(Space::empty(io))) } else { Self::Own(OwnSpace::new(io.layout())) };
        let first = io.layout().limits.main.start;
        for lnum in first..first + LEAF_LEBS {
            let leb = space.get(lnum).unwrap();
            space.set(lnum, LebSpace { taken: true, ..leb }).unwrap();
        }
        space
    }

    pub(super) fn start_commit(&mut self, io: &mut Io<Lebs>) {
        if let Self::Real(space) = self {
            space.start_commit(io).unwrap();
        }
    }

    pub(super) fn end_commit(&mut self, io: &mut Io<Lebs>) {
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
    fn find_free_for_index(&mut self, io: &mut DynIo<'_>) -> Result<Option<u32>> {
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
