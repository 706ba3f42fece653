//! LEB properties: free and dirty bytes of each LEB in the main area, and finding space.
//!
//! Linux: `fs/ubifs/{lprops,lpt,lpt_commit,find,budget}.c`. The properties of all LEBs are in memory, 16 bytes each; a
//! commit writes changes to the [LPT](lpt).

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
    /// Bytes never written since the last erase.
    pub(crate) free: u32,
    /// Bytes of obsolete nodes and padding.
    pub(crate) dirty: u32,
    /// True if it holds index nodes.
    pub(crate) index: bool,
    /// True if it is used by a journal head, the garbage collector or the index writer, and must not be found. Not
    /// stored on flash.
    pub(crate) taken: bool,
}

/// Totals over the main area, as in the master node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceTotals {
    /// Number of empty LEBs.
    pub(crate) empty_lebs: u32,
    /// Number of empty LEBs that are taken.
    pub(crate) taken_empty_lebs: u32,
    /// Number of index LEBs.
    pub(crate) index_lebs: u32,
    /// Free bytes.
    pub(crate) free: u64,
    /// Dirty bytes.
    pub(crate) dirty: u64,
    /// Used bytes of LEBs that are not index LEBs.
    pub(crate) used: u64,
    /// Dead bytes of LEBs that are not index LEBs.
    pub(crate) dead: u64,
    /// Dark bytes of LEBs that are not index LEBs.
    pub(crate) dark: u64,
}

/// LEB properties of the whole main area, and the LPT.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    table: Table,
    lpt: Lpt,
    /// Budgeted space, and the size of the index.
    budget: Budget,
    /// LEBs of the index on flash that the next one does not use (Linux: `idx_gc`).
    leaving: Vec<u32>,
    /// Index LEBs that were dirty at the last commit, the dirtiest last.
    dirty_index: Vec<u32>,
}

impl Space {
    /// Reads the LPT of a committed filesystem. LEBs that the filesystem has grown by are empty.
    ///
    /// # Errors
    /// A damaged LPT, a main area that extends beyond the volume, volume failures.
    pub(crate) fn load(io: &mut DynIo<'_>, master: &Master) -> Result<Self> {
        let (table, lpt) = lpt::read(io, master, &mut Damage::Refuse)?;
        Ok(Self::new(table, lpt, Budget::new(master.index_bytes)))
    }

    /// Reads a damaged LPT for a read-only mount. LEBs below a damaged node are unknown and count as full. Returns the
    /// damage.
    ///
    /// # Errors
    /// A main area that extends beyond the volume, volume failures.
    pub(crate) fn load_damaged(io: &mut DynIo<'_>, master: &Master) -> Result<(Self, Vec<Error>)> {
        let mut notes = Vec::new();
        let (table, lpt) = lpt::read(io, master, &mut Damage::Note(&mut notes))?;
        Ok((Self::new(table, lpt, Budget::new(master.index_bytes)), notes))
    }

    /// Properties of a new filesystem: every LEB of the main area is free. Nothing is on flash until `commit`.
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

    /// Shrinks a new filesystem; all LEBs after the new end are empty. The LPT must not be on flash yet.
    ///
    /// # Errors
    /// None if only the end of the layout changes.
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

    /// Sets the space of a LEB, rounded up to multiples of 8, and updates the totals.
    ///
    /// # Errors
    /// A LEB outside the main area; more free and dirty space than the LEB has.
    pub(crate) fn set(&mut self, lnum: u32, space: LebSpace) -> Result<()> {
        if self.table.set(lnum, space)? {
            self.lpt.mark_leb(self.table.position(lnum)?);
        }
        Ok(())
    }

    /// Sets the free space of a LEB after a write by a head, and adds padding to the dirty bytes.
    ///
    /// # Errors
    /// The errors of [`set`](Self::set).
    pub(crate) fn set_free(&mut self, lnum: u32, free: u32, dirtied: u32) -> Result<()> {
        let leb = self.get(lnum)?;
        self.set(lnum, LebSpace { free, dirty: leb.dirty.saturating_add(dirtied), ..leb })
    }

    /// Adds bytes of obsolete nodes to the dirty space.
    ///
    /// # Errors
    /// The errors of [`set`](Self::set).
    pub(crate) fn add_dirt(&mut self, lnum: u32, bytes: u32) -> Result<()> {
        let leb = self.get(lnum)?;
        self.set(lnum, LebSpace { dirty: leb.dirty.saturating_add(bytes), ..leb })
    }

    /// Marks a LEB as taken or not.
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

    /// True if index LEBs become available after the next commit.
    pub(crate) const fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// True if a commit must write to the LPT, or release index LEBs.
    pub(crate) fn is_dirty(&self) -> bool {
        self.lpt.is_dirty() || !self.leaving.is_empty()
    }

    /// Totals over the main area.
    pub(crate) fn totals(&self) -> SpaceTotals {
        self.table.totals()
    }

    /// Writes the changed part of the LPT and its tables to flash at the LPT head, and stores the new positions and
    /// totals in `master`. The index is written before, in a commit that began with
    /// [`start_commit`](Self::start_commit). The caller then writes the master node and calls `commit_done`.
    ///
    /// # Errors
    /// No space for the LPT, in an area smaller than Linux makes; volume failures. Nothing can be written after that.
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

    /// Unmaps LEBs that only the index of the previous commit uses, and LEBs of the LPT that were released at the start
    /// of this commit. Called when the master node of the commit is on flash.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn commit_done(&mut self, io: &mut DynIo<'_>) -> Result<()> {
        self.remember_dirty_index();
        self.release_left(io)?;
        self.lpt.commit_done(io)
    }

    /// Unmaps empty LEBs of the LPT that reappeared after a power loss. They are harmless, but tools that compare them
    /// with the ltab report them.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn unmap_empty_lpt(&self, io: &mut DynIo<'_>) -> Result<()> {
        self.lpt.unmap_empty(io)
    }
}
