//! The writing parts of a mount: marking the filesystem dirty, the ends of a clean mount and of a recovery, and the
//! unmount.

use std::collections::BTreeSet;

use floatgate_media::ubifs::{MASTER_LEB, MasterFlags};

use super::master::without;
use super::orphans::Orphans;
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
    /// Sets the dirty flag, so that the next mount detects a power cut, and writes a changed superblock.
    pub(super) fn mark_dirty(&mut self, superblock: &superblock::VolumeSuperblock) -> Result<()> {
        if superblock.fix_up_space {
            self.fix_up_space()?;
        }
        if !self.was_dirty() {
            self.master.flags = self.master.flags.with(MasterFlags::DIRTY);
            self.write_master()?;
        }
        if superblock.changed { self.write_superblock() } else { Ok(()) }
    }

    /// Reads the log. From now on the index head is not available as free space.
    pub(super) fn read_journal(&mut self, recovering: bool, chain: &mut LogChain) -> Result<Vec<(u32, Bud)>> {
        let (lnum, offset) = (self.master.index_head_lnum, self.master.index_head_offset);
        let space = self.space.get(lnum)?;
        if self.io.layout().leb_bytes() - space.free != offset {
            let error = Error::corrupt(lnum, offset, "the index head is not where its free space begins");
            // The error concerns the LPT, because the free space of the index head comes from the LEB properties.
            self.findings.pass_of(Structure::Lpt, Err::<(), _>(error))?;
        }
        self.space.set(lnum, LebSpace { taken: true, ..space })?;
        let Self { io, log, master, findings, .. } = self;
        read_log(io, log, master.commit, recovering, chain, findings)
    }

    /// Completes the mount of a cleanly unmounted filesystem.
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

    /// Completes a recovery: reserves a LEB for the garbage collector, and commits.
    ///
    /// `needed` are LEBs that the next recovery must read if power is lost before the commit. They must not be reused
    /// before, even if they contain no live nodes any more. (Linux reuses them, and then refuses to mount.)
    pub(super) fn end_recovery(&mut self, mut needed: BTreeSet<u32>) -> Result<()> {
        self.check_space()?;
        self.make_log_room()?;
        self.space.unmap_empty_lpt(&mut self.io)?;
        needed.retain(|&lnum| self.is_freeable(lnum));
        needed.iter().try_for_each(|&lnum| self.space.set_taken(lnum, true))?;
        self.gc_lnum = None;
        // Live nodes that fit after the garbage collector's head can be moved there.
        let open = self.io.head_room(Head::Gc) > 0;
        let position = self.io.buffer(Head::Gc).position();
        let dirty = if open { self.space.find_dirty_data(position)? } else { None };
        let Some((lnum, _)) = dirty else { return self.keep_empty_leb(&needed) };
        // The commit comes first, so that later replays see the removal of orphans before this garbage collection.
        self.force_commit()?;
        self.release(&needed)?;
        let space = self.space.get(lnum)?;
        if self.collect_leb(lnum, space)? != Room::Ready(Collected::Retained) {
            return Err(Error::corrupt(lnum, 0, "does not fit behind the garbage collector's head"));
        }
        self.io.sync_head(&mut self.space, Head::Gc)?;
        self.io.unmap(lnum)
    }

    /// Reserves an empty LEB for the garbage collector, and commits. The LEB is found before the commit, which could
    /// take the last one.
    fn keep_empty_leb(&mut self, held: &BTreeSet<u32>) -> Result<()> {
        let mut found = self.space.find_free_for_index(&mut self.io)?;
        if found.is_none() {
            // A recovery that gives up these LEBs is better than none.
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

    /// True if a LEB has neither live nodes nor a head. Index LEBs stay in use until the next commit anyway.
    fn is_freeable(&self, lnum: u32) -> bool {
        let leb_bytes = self.io.layout().leb_bytes();
        let space = self.space.get(lnum).unwrap_or_default();
        !space.taken && !space.index && space.free + space.dirty == leb_bytes
    }

    fn release<'a>(&mut self, lebs: impl IntoIterator<Item = &'a u32>) -> Result<()> {
        lebs.into_iter().try_for_each(|&lnum| self.space.set_taken(lnum, false))
    }

    /// Returns an error if a writable filesystem has no space for deletions.
    pub(crate) fn check_space(&self) -> Result<()> {
        let totals = self.space.totals();
        let enough = totals.free + totals.dirty >= u64::from(self.io.layout().dark_bytes);
        if enough { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Ensures that a commit can start in the log.
    fn make_log_room(&mut self) -> Result<()> {
        if self.log.is_full(self.io.layout()) { self.log.consolidate(&mut self.io) } else { Ok(()) }
    }

    /// Flushes the heads and clears the dirty flag in the master node. The journal stays, and is replayed by the next
    /// mount.
    ///
    /// A read-only filesystem, also after a failure, is not changed. A filesystem with orphans is not marked clean, so
    /// that the next mount's recovery deletes them.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn end(&mut self) -> Result<()> {
        if self.io.is_read_only() {
            return Ok(());
        }
        if self.log.is_deferred() || self.keeps_space_fixup() && !self.log.buds().is_empty() {
            self.force_commit()?;
        }
        self.sync_heads()?;
        // Erases are completed first. Otherwise an unmapped LEB could reappear after a power cut, damaged by its
        // interrupted erase, although the master node says that the filesystem was unmounted cleanly.
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
