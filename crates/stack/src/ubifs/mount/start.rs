//! The parts of a mount that write: marking the filesystem as in use, what ends a clean mount and a recovery, and the unmount.

use std::collections::BTreeSet;

use floatgate_media::ubifs::{MASTER_LEB, MasterFlags};

use super::Orphans;
use super::master::without;
use super::{read_log, superblock};
use crate::ubifs::auth::LogChain;
use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::gc::Collected;
use crate::ubifs::journal::{Bud, Room};
use crate::ubifs::layout::Head;
use crate::ubifs::space::LebSpace;
use crate::ubifs::structure::Structure;
use crate::volume::Volume;

impl Core<dyn Volume> {
    /// Marks the filesystem as in use, so that the next mount knows of a power cut, and writes a superblock that has changed.
    pub(super) fn mark_dirty(&mut self, superblock: &superblock::Found) -> Result<()> {
        if superblock.fix_up_space {
            self.fix_up_space()?;
        }
        if !self.was_dirty() {
            self.master.flags = self.master.flags.with(MasterFlags::DIRTY);
            self.write_master()?;
        }
        if superblock.changed { self.write_superblock() } else { Ok(()) }
    }

    /// Reads the log. The index head is not to be found as free space from now on.
    pub(super) fn read_journal(&mut self, recovering: bool, chain: &mut LogChain) -> Result<Vec<(u32, Bud)>> {
        let (lnum, offset) = (self.master.index_head_lnum, self.master.index_head_offset);
        let space = self.space.get(lnum)?;
        if self.io.layout().leb_bytes() - space.free != offset {
            let error = Error::corrupt(lnum, offset, "the index head is not where its free space begins");
            // The index head has its free space from the LEB properties.
            self.findings.pass_of(Structure::Lpt, Err::<(), _>(error))?;
        }
        self.space.set(lnum, LebSpace { taken: true, ..space })?;
        let Self { io, log, master, findings, .. } = self;
        read_log(io, log, master.commit, recovering, chain, findings)
    }

    /// Ends the mount of a filesystem that was unmounted.
    pub(super) fn end_clean_mount(&mut self) -> Result<()> {
        let gc_lnum =
            self.master.gc_leb().ok_or(Error::corrupt(MASTER_LEB, 0, "no LEB to collect garbage to"));
        let Some(gc_lnum) = self.findings.pass(gc_lnum)? else { return Ok(()) };
        let free = self.io.layout().leb_bytes();
        if self.io.is_read_only() {
            self.space.set(gc_lnum, LebSpace { free, dirty: 0, index: false, taken: true })?;
            self.gc_lnum = Some(gc_lnum);
            return Ok(());
        }
        Orphans::clear(&mut self.io)?;
        self.check_space()?;
        self.make_log_room()?;
        self.space.set(gc_lnum, LebSpace { free, dirty: 0, index: false, taken: true })?;
        self.gc_lnum = Some(gc_lnum);
        self.io.unmap(gc_lnum)
    }

    /// Ends a recovery: a LEB is kept for the garbage collector, and everything is committed.
    ///
    /// `needed` are LEBs that the next recovery has to read should power go away before that. If nothing in them is in use
    /// any more, they must not be used before. (Linux does, and then refuses to mount.)
    pub(super) fn end_recovery(&mut self, mut needed: BTreeSet<u32>) -> Result<()> {
        self.check_space()?;
        self.make_log_room()?;
        self.space.unmap_empty_lpt(&mut self.io)?;
        needed.retain(|&lnum| self.is_freeable(lnum));
        needed.iter().try_for_each(|&lnum| self.space.set_taken(lnum, true))?;
        self.gc_lnum = None;
        // What fits behind the garbage collector's head can be moved there.
        let open = self.io.head_room(Head::Gc) > 0;
        let position = self.io.buffer(Head::Gc).position();
        let dirty = if open { self.space.find_dirty_data(position)? } else { None };
        let Some((lnum, _)) = dirty else { return self.keep_empty_leb(&needed) };
        // Committed first, so that later replays see this removal of orphans and that collection in this order.
        self.force_commit()?;
        self.release(&needed)?;
        let space = self.space.get(lnum)?;
        if self.collect_leb(lnum, space)? != Room::Ready(Collected::Retained) {
            return Err(Error::corrupt(lnum, 0, "does not fit behind the garbage collector's head"));
        }
        self.io.sync_head(&mut self.space, Head::Gc)?;
        self.io.unmap(lnum)
    }

    /// Keeps an empty LEB for the garbage collector, and commits. It has to be found first: the commit could take the last one.
    fn keep_empty_leb(&mut self, held: &BTreeSet<u32>) -> Result<()> {
        let mut found = self.space.find_free_for_index(&mut self.io)?;
        if found.is_none() {
            // Better than no recovery.
            self.release(held)?;
            found = self.space.find_free_for_index(&mut self.io)?;
        }
        let lnum = found.ok_or(Error::NoSpace)?;
        let space = self.space.get(lnum)?;
        self.space.set(lnum, LebSpace { index: false, ..space })?;
        self.gc_lnum = Some(lnum);
        self.force_commit()?;
        self.release(held.iter().filter(|&&other| other != lnum))
    }

    /// True when nothing of a LEB is in use, neither by nodes nor by a head. The index keeps its LEBs until the next commit
    /// anyway.
    fn is_freeable(&self, lnum: u32) -> bool {
        let leb_bytes = self.io.layout().leb_bytes();
        let space = self.space.get(lnum).unwrap_or_default();
        !space.taken && !space.index && space.free + space.dirty == leb_bytes
    }

    fn release<'a>(&mut self, lebs: impl IntoIterator<Item = &'a u32>) -> Result<()> {
        lebs.into_iter().try_for_each(|&lnum| self.space.set_taken(lnum, false))
    }

    /// Deleting needs space too: a filesystem without any cannot be written.
    pub(crate) fn check_space(&self) -> Result<()> {
        let totals = self.space.totals();
        let enough = totals.free + totals.dirty >= u64::from(self.io.layout().dark_bytes);
        if enough { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Makes sure that a commit can start in the log.
    fn make_log_room(&mut self) -> Result<()> {
        if self.log.is_full(self.io.layout()) { self.log.consolidate(&mut self.io) } else { Ok(()) }
    }

    /// Writes what heads hold and says in the master node that the filesystem is not in use. The journal stays, and is replayed
    /// by the next mount.
    ///
    /// A filesystem that is read-only, also after a failure, is left as it is; so is one with inodes that have no name, which
    /// the next mount's recovery removes.
    ///
    /// # Errors
    /// Failures of the volume.
    pub(crate) fn end(&mut self) -> Result<()> {
        if self.io.is_read_only() {
            return Ok(());
        }
        if self.log.is_deferred() || self.keeps_space_fixup() && !self.log.buds().is_empty() {
            self.force_commit()?;
        }
        self.sync_heads()?;
        // LEBs that were unmapped must not be back, and be damaged by a power cut from their erasure, once the master node says that
        // there was none.
        self.io.volume_mut().flush()?;
        if let Some(gc_lnum) = self.gc_lnum.filter(|_| self.orphans.is_empty()) {
            let flags = without(self.master.flags, MasterFlags::DIRTY);
            self.master.flags = flags.with(MasterFlags::NO_ORPHANS);
            self.master.gc_lnum = gc_lnum;
            self.write_master()?;
        }
        Ok(self.io.volume_mut().flush()?)
    }
}
