//! LEB properties: how much of each LEB of the main area is free or dirty, and where space is found.
//!
//! Linux: `fs/ubifs/{lprops,lpt,lpt_commit,find,budget}.c`. The properties of all LEBs are in memory, 16 bytes for each;
//! a commit writes what changed to the [LPT](lpt).

mod budget;
mod find;
mod lpt;
mod table;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::error::{Error, Result};
use super::io::DynIo;
use super::layout::Layout;
use floatgate_media::ubifs::Master;
use lpt::{Damage, Lpt};
use table::Table;

use budget::Budget;
pub(crate) use budget::{BudgetRequest, Cost};
pub(crate) use lpt::{check_lpt, pnode_bytes};

/// Space of a LEB of the main area.
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
pub(crate) struct Space {
    table: Table,
    lpt: Lpt,
    /// Space promised to operations that have not written yet, and the size of the index.
    budget: Budget,
    /// LEBs of the index on flash that the next one will not use. Linux: `idx_gc`.
    leaving: Vec<u32>,
    /// LEBs of the index that were dirty at the last commit, the dirtiest last.
    dirty_index: Vec<u32>,
}

impl Space {
    /// Reads the LPT of a committed filesystem. LEBs that the filesystem has grown by are empty.
    ///
    /// # Errors
    /// A damaged LPT, a main area that ends behind the volume, failures of the volume.
    pub(crate) fn load(io: &mut DynIo<'_>, master: &Master) -> Result<Self> {
        let (table, lpt) = lpt::read(io, master, &mut Damage::Refuse)?;
        Ok(Self::new(table, lpt, Budget::new(master.index_bytes)))
    }

    /// As [`load`](Self::load) of a damaged LPT, for reading only: of LEBs below a damaged node nothing is known, they
    /// count as full. Returns what is damaged.
    ///
    /// # Errors
    /// A main area that ends behind the volume, failures of the volume.
    pub(crate) fn load_damaged(io: &mut DynIo<'_>, master: &Master) -> Result<(Self, Vec<Error>)> {
        let mut notes = Vec::new();
        let (table, lpt) = lpt::read(io, master, &mut Damage::Note(&mut notes))?;
        Ok((Self::new(table, lpt, Budget::new(master.index_bytes)), notes))
    }

    /// Of a filesystem that is being made: every LEB of the main area is free. Nothing is on flash until `commit`.
    pub(crate) fn empty(io: &DynIo<'_>) -> Self {
        let table = Table::empty(io.layout());
        let lpt = Lpt::empty(&io.layout().limits.lpt_geometry);
        Self::new(table, lpt, Budget::new(0))
    }

    fn new(table: Table, lpt: Lpt, budget: Budget) -> Self {
        let mut space = Self { table, lpt, budget, leaving: Vec::new(), dirty_index: Vec::new() };
        space.remember_dirty_index();
        space
    }

    /// A filesystem that is being made ends earlier; all LEBs behind that are empty. Nothing of the LPT may be on flash.
    ///
    /// # Errors
    /// None if the layouts differ in nothing else.
    pub(crate) fn shrink(&mut self, layout: &Arc<Layout>) -> Result<()> {
        let mut table = Table::empty(layout);
        for (lnum, leb) in self.lebs().take(layout.limits.main_lebs() as usize) {
            table.set(lnum, leb)?;
        }
        self.table = table;
        self.lpt = Lpt::empty(&layout.limits.lpt_geometry);
        Ok(())
    }

    /// Space of a LEB.
    ///
    /// # Errors
    /// A LEB outside the main area.
    pub(crate) fn get(&self, lnum: u32) -> Result<LebSpace> {
        self.table.get(lnum)
    }

    /// Replaces what is known of a LEB, rounded up to multiples of 8; the totals follow.
    ///
    /// # Errors
    /// A LEB outside the main area; more free and dirty space than the LEB has.
    pub(crate) fn set(&mut self, lnum: u32, space: LebSpace) -> Result<()> {
        if self.table.set(lnum, space)? {
            self.lpt.mark_leb(self.table.position(lnum)?);
        }
        Ok(())
    }

    /// Free space of a LEB that a head writes, and padding that became dirty.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub(crate) fn set_free(&mut self, lnum: u32, free: u32, dirtied: u32) -> Result<()> {
        let leb = self.get(lnum)?;
        self.set(lnum, LebSpace { free, dirty: leb.dirty.saturating_add(dirtied), ..leb })
    }

    /// Bytes of nodes became outdated.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub(crate) fn add_dirt(&mut self, lnum: u32, bytes: u32) -> Result<()> {
        let leb = self.get(lnum)?;
        self.set(lnum, LebSpace { dirty: leb.dirty.saturating_add(bytes), ..leb })
    }

    /// Takes a LEB, or gives it back to be found.
    ///
    /// # Errors
    /// A LEB outside the main area.
    pub(crate) fn set_taken(&mut self, lnum: u32, taken: bool) -> Result<()> {
        let leb = self.get(lnum)?;
        self.set(lnum, LebSpace { taken, ..leb })
    }

    /// Bytes of a LEB of the LPT area that were never written; 0 for LEBs elsewhere.
    pub(crate) fn lpt_free(&self, lnum: u32) -> u32 {
        self.lpt.free_of(lnum)
    }

    /// All LEBs of the main area, in order.
    pub(crate) fn lebs(&self) -> impl Iterator<Item = (u32, LebSpace)> + '_ {
        self.table.iter().map(|(lnum, leb, _)| (lnum, leb))
    }

    /// True when LEBs of the index can be used once the next commit is done.
    pub(crate) const fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// True when a commit has something of the LPT to write, or LEBs of the index to release.
    pub(crate) fn is_dirty(&self) -> bool {
        self.lpt.is_dirty() || !self.leaving.is_empty()
    }

    /// Sums.
    pub(crate) fn totals(&self) -> SpaceTotals {
        self.table.totals()
    }

    /// Writes the changed part of the LPT and its tables to flash, behind the LPT head, and puts the new places and
    /// totals into `master`. The index is written before, by a commit that began with
    /// [`start_commit`](Self::start_commit). The caller writes the master node afterwards, and calls `commit_done` then.
    ///
    /// # Errors
    /// No room for the LPT, in an area smaller than Linux makes; failures of the volume. Nothing can be written after that.
    pub(crate) fn commit(&mut self, io: &mut DynIo<'_>, master: &mut Master) -> Result<()> {
        self.lpt.commit(io, &self.table).inspect_err(|error| io.fail(error))?;
        self.lpt.describe(master);
        let (layout, totals) = (io.layout(), self.totals());
        if !layout.limits.main.contains(&master.lscan_lnum) {
            master.lscan_lnum = layout.limits.main.start;
        }
        master.leb_count = layout.superblock.leb_count;
        master.empty_lebs = totals.empty_lebs;
        master.index_lebs = totals.index_lebs;
        master.free_bytes = totals.free;
        master.dirty_bytes = totals.dirty;
        master.used_bytes = totals.used;
        master.dead_bytes = totals.dead;
        master.dark_bytes = totals.dark;
        Ok(())
    }

    /// The master node of the commit is on flash: LEBs that only the old index used, or the LPT before the old one, are unmapped.
    ///
    /// # Errors
    /// Failures of the volume.
    pub(crate) fn commit_done(&mut self, io: &mut DynIo<'_>) -> Result<()> {
        self.remember_dirty_index();
        self.release_left(io)?;
        self.lpt.commit_done(io)
    }

    /// Unmaps LEBs of the LPT that are empty and have come back with a loss of power: nothing is wrong with that, but tools
    /// that compare them with their table say so.
    ///
    /// # Errors
    /// Failures of the volume.
    pub(crate) fn unmap_empty_lpt(&self, io: &mut DynIo<'_>) -> Result<()> {
        self.lpt.unmap_empty(io)
    }
}
