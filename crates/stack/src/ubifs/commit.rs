//! Commit: writes the index and the LPT to flash and starts a new journal (Linux: `fs/ubifs/commit.c`).

use std::sync::Arc;

use super::core::Core;
use super::error::Result;
use super::journal::Room;
use super::tnc::IndexHead;
use crate::volume::Volume;
use floatgate_media::ubifs::SuperblockFlags;

impl Core<dyn Volume> {
    /// Commits if anything has changed since the last commit.
    ///
    /// # Errors
    /// Volume failures and damage; the filesystem is then read-only.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.commit_changes().map(drop)
    }

    /// Commits if anything has changed since the last commit. Returns true if it has.
    pub(crate) fn commit_changes(&mut self) -> Result<bool> {
        if !self.log.is_deferred() && self.tnc.dirty_nodes() == 0 && !self.space.is_dirty() {
            return Ok(false);
        }
        self.force_commit().map(|()| true)
    }

    /// Commits even if nothing has changed, as recovery does.
    ///
    /// # Errors
    /// The errors of [`commit`](Self::commit).
    pub(crate) fn force_commit(&mut self) -> Result<()> {
        let outcome = self.do_commit();
        self.fail_on_error(outcome)
    }

    /// Commits in an order that is safe against a power cut at any point: until the master node is written, the old
    /// index, LPT and journal are unchanged; afterwards nothing refers to them.
    fn do_commit(&mut self) -> Result<()> {
        self.make_index_room()?;
        self.sync_heads()?;
        let mut master = self.master;
        master.commit += 1;
        let first = self.log.is_deferred();
        // Without budgets, the partly written LEB of one head may be the only LEB with room for another head.
        if first || self.keeps_space_fixup() || !self.space.is_budgeted() {
            self.park_heads();
        }
        if first {
            self.tnc.pack(self.io.layout().limits.fanout as usize);
        }
        self.space.start_commit(&mut self.io)?;
        self.log.start_commit(&mut self.io, master.commit)?;
        let mut head = IndexHead::of(&master);
        let root = self.tnc.commit(&mut self.io, &mut self.space, &mut head)?;
        (master.root_lnum, master.root_offset, master.root_len) = (root.lnum, root.offset, root.len);
        (master.index_head_lnum, master.index_head_offset) = (head.lnum, head.offset);
        master.index_bytes = self.tnc.index_bytes();
        self.space.index_committed(master.index_bytes);
        if first {
            self.end_behind_data(&mut master)?;
        }
        self.space.commit(&mut self.io, &mut master)?;
        self.orphans.commit(&mut self.io, master.commit)?;
        master.log_lnum = self.log.head().lnum;
        self.master = master;
        self.write_master()?;
        if first {
            // The superblock makes the filesystem valid, so it is written last.
            self.write_superblock()?;
        }
        self.end_commit()
    }

    /// Collects garbage until there are enough LEBs to write the index to. With budgets this is only necessary on an
    /// overfull filesystem, and one more LEB is then freed, because the journal can end a collection before it gains
    /// anything. Otherwise the index is written into gaps of index LEBs if it needs more space.
    fn make_index_room(&mut self) -> Result<()> {
        // While a filesystem is filled, it has no garbage to collect. During a recovery, no LEB may be reserved for the
        // garbage collector yet.
        if self.log.is_deferred() || self.gc_lnum.is_none() {
            return Ok(());
        }
        let spare = usize::from(self.space.is_budgeted());
        if spare == 1 && !self.space.is_overfull() {
            return Ok(());
        }
        let layout = Arc::clone(self.io.layout());
        for _ in 0..layout.limits.main_lebs() {
            let needed = self.tnc.lebs_needed(&layout, IndexHead::of(&self.master)) + spare;
            if needed <= self.space.lebs_for_index() {
                break;
            }
            let Room::Ready(lnum) = self.collect(true)? else { break };
            self.space.set_taken(lnum, false)?;
        }
        Ok(())
    }

    /// True for an image whose free space is erased by its first mount. That mount expects a log without references.
    pub(crate) fn keeps_space_fixup(&self) -> bool {
        self.io.layout().superblock.has(SuperblockFlags::SPACE_FIXUP)
    }

    /// Releases the old state, which nothing on flash refers to any more.
    fn end_commit(&mut self) -> Result<()> {
        for lnum in self.log.end_commit(&mut self.io)? {
            self.space.set_taken(lnum, false)?;
        }
        self.space.commit_done(&mut self.io)
    }
}
