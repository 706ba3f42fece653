//! LEB properties: how much of each LEB of the main area is free or dirty, and where space is found.

use super::error::{Error, Result};
use super::io::Io;
use crate::volume::Volume;
use floatgate_media::ubifs::Master;

/// What is known of a LEB of the main area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LebSpace {
    /// Bytes never written since it was erased.
    pub(crate) free: u32,
    /// Bytes of outdated nodes and padding.
    pub(crate) dirty: u32,
    /// Holds nodes of the index.
    pub(crate) index: bool,
    /// In use by a journal head, the garbage collector or the index writer: not to be found. Not on the media.
    pub(crate) taken: bool,
}

/// Sums over the main area, as the master node has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceTotals {
    /// LEBs without anything in them.
    pub(crate) empty_lebs: u32,
    /// Of these, taken.
    pub(crate) taken_empty_lebs: u32,
    /// LEBs of the index.
    pub(crate) index_lebs: u32,
    /// Free bytes.
    pub(crate) free: u64,
    /// Dirty bytes.
    pub(crate) dirty: u64,
    /// Used bytes of LEBs that are not of the index.
    pub(crate) used: u64,
    /// Dead bytes of such LEBs.
    pub(crate) dead: u64,
    /// Dark bytes of such LEBs.
    pub(crate) dark: u64,
}

/// LEB properties of the whole main area, and the tree they are stored in.
#[derive(Clone, Debug)]
pub(crate) struct Space;

impl Space {
    /// Reads the LPT of a committed filesystem.
    pub(crate) fn load<V: Volume>(_io: &mut Io<V>, _master: &Master) -> Result<Self> {
        Err(Error::Unsupported("space"))
    }

    /// Of a filesystem that is being made: every LEB of the main area is free. Nothing is on flash until `commit`.
    pub(crate) fn empty<V: Volume>(_io: &Io<V>) -> Self {
        Self
    }

    /// What is known of a LEB.
    pub(crate) fn get(&self, _lnum: u32) -> Result<LebSpace> {
        Err(Error::Unsupported("space"))
    }

    /// Replaces what is known of a LEB; the totals follow.
    pub(crate) fn set(&mut self, _lnum: u32, _space: LebSpace) -> Result<()> {
        Err(Error::Unsupported("space"))
    }

    /// Free space of a LEB that a head writes, and padding that became dirty.
    pub(crate) fn set_free(&mut self, _lnum: u32, _free: u32, _dirtied: u32) -> Result<()> {
        Err(Error::Unsupported("space"))
    }

    /// Bytes of nodes became outdated.
    pub(crate) fn add_dirt(&mut self, _lnum: u32, _bytes: u32) -> Result<()> {
        Err(Error::Unsupported("space"))
    }

    /// Whether a commit has something of the LPT to write.
    pub(crate) fn is_dirty(&self) -> bool {
        false
    }

    /// Sums.
    pub(crate) fn totals(&self) -> SpaceTotals {
        SpaceTotals::default()
    }

    /// A LEB with at least `bytes` free at its end for a journal head, which becomes taken; `squeeze` allows to use LEBs
    /// kept for the garbage collector and the index. Returns LEB and the offset where its free space begins. An LEB that is
    /// all free has been unmapped.
    pub(crate) fn find_free<V: Volume>(
        &mut self,
        _io: &mut Io<V>,
        _bytes: u32,
        _squeeze: bool,
    ) -> Result<Option<(u32, u32)>> {
        Err(Error::Unsupported("space"))
    }

    /// An empty LEB for the index, which becomes taken and of the index.
    pub(crate) fn find_free_for_index<V: Volume>(&mut self, _io: &mut Io<V>) -> Result<Option<u32>> {
        Err(Error::Unsupported("space"))
    }

    /// The LEB most worth collecting, with at least `bytes` to gain, which becomes taken; `pick_free` allows an empty or
    /// freeable one.
    pub(crate) fn find_dirty(&mut self, _bytes: u32, _pick_free: bool) -> Result<Option<(u32, LebSpace)>> {
        Err(Error::Unsupported("space"))
    }

    /// The index LEB with most dirty space, for writing into its gaps; it becomes taken.
    pub(crate) fn find_dirty_index(&mut self) -> Result<Option<u32>> {
        Err(Error::Unsupported("space"))
    }

    /// Writes the changed part of the LPT and its tables to flash, behind the LPT head, and puts the new places and
    /// totals into `master`. The caller writes the master node afterwards, and calls `commit_done` then.
    pub(crate) fn commit<V: Volume>(&mut self, _io: &mut Io<V>, _master: &mut Master) -> Result<()> {
        Err(Error::Unsupported("space"))
    }

    /// The master node of the commit is on flash: LEBs of the LPT area that hold nothing any more are unmapped.
    pub(crate) fn commit_done<V: Volume>(&mut self, _io: &mut Io<V>) -> Result<()> {
        Err(Error::Unsupported("space"))
    }
}
