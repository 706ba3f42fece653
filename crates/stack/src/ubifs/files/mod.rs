//! Files and names: the operations of callers on a mounted filesystem.
//!
//! Inodes are read once and cached while they are open or dirty; changed blocks of files stay in a page cache of
//! bounded size. The order of writes and their groups are as in Linux (`fs/ubifs/{dir,file,xattr,journal}.c`).

mod attributes;
mod directory;
mod fill;
mod inodes;
mod pages;
mod piecemeal;
mod read;
mod rename;
mod write;
mod xattr;

use floatgate_media::file::{Compression, Timestamp};
use floatgate_media::ubifs::ROOT_INODE;

use super::auth::Authentication;
use super::check::Inconsistency;
use super::compress::{Compressor, Decompressor, Effort};
use super::core::Core;
use super::error::{Error, Result};
use super::limits::Limits;
use super::mount::findings::Choice;
use super::mount::{FormatOptions, MountOptions};
use super::space::{BudgetRequest, Cost, LebSpace};
use crate::fs::Space;
use crate::volume::Volume;
use inodes::Inodes;
pub(in crate::ubifs) use inodes::attributes_of;
use pages::Pages;

/// Behaviour of a mounted filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Makes every change synchronous (`-o sync`).
    pub sync: bool,
    /// Compression of new files; by default the compression in the superblock.
    pub compression: Option<Compression>,
    /// Trade-off of compression between size and speed.
    pub effort: Effort,
    /// Allows use of the space reserved in the superblock.
    pub privileged: bool,
    /// Admits an operation only if there is space for its worst case, as in Linux. `false` writes until the volume is
    /// full. Use that for images that are changed completely or not at all: a failed operation ends the mount, and the
    /// change ends with [`end_change`](Ubifs::end_change).
    pub budget: bool,
    /// Reads consecutive blocks of a file at once (`-o bulk_read`).
    pub bulk_read: bool,
    /// Reports all of an empty filesystem as free, and fewer whole LEBs once something is written (`df` of Linux
    /// 2.6.27).
    pub empty_is_total: bool,
    /// Limits of memory and retries.
    pub limits: Limits,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            sync: false,
            compression: None,
            effort: Effort::Smallest,
            privileged: true,
            budget: true,
            bulk_read: false,
            empty_is_total: false,
            limits: Limits::default(),
        }
    }
}

/// A mounted UBIFS.
///
/// Timestamps come from [`set_time`](Self::set_time): the filesystem has no clock.
#[derive(Clone, Debug)]
pub struct Ubifs<V: ?Sized> {
    inodes: Inodes,
    pages: Pages,
    behaviour: Behaviour,
    time: Timestamp,
    compressor: Compressor,
    decompressor: Decompressor,
    /// Buffer of the last node that was read.
    node: Vec<u8>,
    /// Bytes in use when it was mounted without budget, if a LEB was spare then.
    used_with_spare: Option<u64>,
    core: Core<V>,
}

forward_to_dyn!(Ubifs: Volume);

impl<V: Volume + 'static> Ubifs<V> {
    /// Mounts the filesystem on a volume.
    ///
    /// # Errors
    /// The reason why it cannot be mounted, with the volume.
    pub fn mount(
        volume: V,
        options: &MountOptions,
        behaviour: Behaviour,
    ) -> core::result::Result<Self, (Error, V)> {
        Core::mount(volume, options).map(|core| Self::over(core, behaviour))
    }

    /// Creates a new filesystem on a volume and mounts it.
    ///
    /// # Errors
    /// Invalid sizes, volume failures; with the volume.
    pub fn format(
        volume: V,
        options: &FormatOptions,
        behaviour: Behaviour,
    ) -> core::result::Result<Self, (Error, V)> {
        Core::format(volume, options).map(|core| Self::over(core, behaviour))
    }

    fn over(mut core: Core<V>, behaviour: Behaviour) -> Self {
        core.set_limits(behaviour.limits);
        core.space.set_budgeted(behaviour.budget);
        if !behaviour.budget {
            core.log.lift_limit();
        }
        let spares = !behaviour.budget && core.space.lebs_for_index() > 0;
        Self {
            inodes: Inodes::new(behaviour.limits.inodes),
            pages: Pages::default(),
            behaviour,
            time: Timestamp::default(),
            compressor: Compressor::new(behaviour.effort),
            decompressor: Decompressor::new(),
            node: Vec::new(),
            used_with_spare: spares.then(|| core.space.totals().used),
            core,
        }
    }

    /// The volume of the filesystem.
    pub const fn volume(&self) -> &V {
        self.core.io.volume()
    }

    /// The volume, to set its clock.
    pub const fn volume_mut(&mut self) -> &mut V {
        self.core.io.volume_mut()
    }

    /// Writes all changes and ends the mount.
    ///
    /// # Errors
    /// The errors of [`sync`](Ubifs::sync). The volume is returned in both cases.
    pub fn unmount(mut self) -> core::result::Result<V, (Error, V)> {
        let outcome = if self.is_read_only() { Ok(()) } else { self.write_back() };
        match outcome {
            Ok(()) => self.core.unmount(),
            Err(error) => Err((error, self.abandon())),
        }
    }

    /// Ends the mount without writing, like a power loss.
    pub fn abandon(self) -> V {
        self.core.into_volume()
    }
}

impl Ubifs<dyn Volume> {
    /// Inode of the root directory.
    #[must_use]
    pub const fn root(&self) -> u32 {
        ROOT_INODE
    }

    /// Sets the time of day, used as the timestamp of changes.
    pub const fn set_time(&mut self, time: Timestamp) {
        self.time = time;
    }

    /// True if it cannot be changed: mounted read-only, or after a failure.
    pub const fn is_read_only(&self) -> bool {
        self.core.io.is_read_only()
    }

    /// Failure that made the filesystem read-only. Data that was not on flash by then is lost.
    pub const fn failure(&self) -> Option<&Error> {
        self.core.io.failure()
    }

    /// Authentication status; `None` without authentication.
    pub const fn authentication(&self) -> Option<Authentication> {
        self.core.authentication
    }

    /// Damage that a forgiving mount found and skipped.
    pub fn damage(&self) -> impl Iterator<Item = &Error> {
        self.core.findings.errors()
    }

    /// True if the filesystem was unmounted cleanly: no journal was replayed, and nothing was written since the last
    /// commit.
    pub const fn was_unmounted(&self) -> bool {
        !self.core.was_dirty()
    }

    /// True if the replay may have skipped a damaged directory entry. Among names with the same hash, an unreadable
    /// entry is assumed to be the one that the journal deletes; Linux does not check that.
    pub const fn has_doubtful_replay(&self) -> bool {
        self.core.findings.in_replay
    }

    /// True if a commit may be lost: the last master node is damaged in both LEBs, and the previous one is used.
    pub fn may_be_older(&self) -> bool {
        self.core.findings.choice == Choice::Older
    }

    /// Compares space, index and journal in memory with flash. Reads every live node; does not check link counts.
    ///
    /// # Errors
    /// A damaged index, volume failures.
    pub fn check(&mut self) -> Result<Vec<Inconsistency>> {
        self.core.check()
    }

    /// LEBs with live data beyond the end of the volume: the image is truncated, or parts of it are lost.
    ///
    /// # Errors
    /// Volume failures.
    pub fn missing_lebs(&mut self) -> Result<Vec<u32>> {
        let leb_bytes = self.core.io.layout().leb_bytes();
        let used = |leb: &LebSpace| leb.free + leb.dirty < leb_bytes;
        let lebs: Vec<u32> =
            self.core.space.lebs().filter(|(_, leb)| used(leb)).map(|(lnum, _)| lnum).collect();
        let mut missing = Vec::new();
        for lnum in lebs {
            if !self.core.io.is_mapped(lnum)? {
                missing.push(lnum);
            }
        }
        Ok(missing)
    }

    /// Size and free space, as in `df`.
    pub fn space(&self) -> Space {
        self.core.space.report(self.behaviour.empty_is_total)
    }

    /// Writes all changes to flash, and commits the index (`sync`).
    ///
    /// # Errors
    /// No space, volume failures.
    pub fn sync(&mut self) -> Result<()> {
        self.write_back()?;
        self.core.commit()?;
        Ok(self.core.io.volume_mut().flush()?)
    }

    /// Completes a change of a filesystem that was mounted without [budget](Behaviour::budget): as
    /// [`sync`](Self::sync), and verifies that Linux can mount it for writing. For that it needs a LEB for the garbage
    /// collector, and space for deletions. A change that fills the filesystem must leave a LEB for the index, because
    /// otherwise even a deletion may find no space.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: the change must be discarded. As [`sync`](Self::sync).
    pub fn end_change(&mut self) -> Result<()> {
        self.sync()?;
        let fills = self.used_with_spare.is_some_and(|used| self.core.space.totals().used >= used);
        let is_filled = fills && !self.core.make_spare_leb()?;
        let is_mountable = self.core.gc_lnum.is_some() && self.core.check_space().is_ok();
        if is_filled || !is_mountable { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Writes all changes of one inode to flash (`fsync`).
    ///
    /// # Errors
    /// The inode does not exist, no space, volume failures.
    pub fn fsync(&mut self, inode: u32) -> Result<()> {
        self.write_back_inode(inode)?;
        self.core.io.sync_inode(&mut self.core.space, inode)
    }

    /// CPU work since the mount.
    #[must_use]
    pub fn work(&self) -> crate::fs::Work {
        self.compressor.work().and(self.decompressor.work())
    }

    /// Writes all changes of one inode to the journal; they may stay in write buffers.
    ///
    /// # Errors
    /// No space; volume failures.
    pub fn write_back_of(&mut self, inode: u32) -> Result<()> {
        self.require_writable()?;
        self.write_back_inode(inode)
    }

    fn require_writable(&self) -> Result<()> {
        if self.is_read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Acquires budget for an operation, writing back cached data if there is too little space.
    fn acquire(&mut self, request: &BudgetRequest) -> Result<Cost> {
        match self.core.reserve_space(request, self.behaviour.privileged) {
            Err(Error::NoSpace) => {
                self.write_back()?;
                self.core.reserve_space(request, self.behaviour.privileged)
            }
            other => other,
        }
    }

    /// Acquires budget for an operation that frees space, and is therefore allowed on a full filesystem.
    fn acquire_if_possible(&mut self, request: &BudgetRequest) -> Result<Cost> {
        // The search for space by garbage collection and commits could consume more space than a deletion frees.
        if self.core.space.is_overfull() {
            return Ok(Cost::default());
        }
        match self.acquire(request) {
            Err(Error::NoSpace) => Ok(Cost::default()),
            other => other,
        }
    }

    /// Releases the budget of an operation after it has written to the journal or failed.
    fn end_budget<T>(&mut self, cost: Cost, outcome: Result<T>) -> Result<T> {
        match outcome {
            Ok(_) => self.core.space.release(cost),
            Err(_) => self.core.space.withdraw(cost),
        }
        outcome
    }

    /// Syncs after an operation if requested with `-o sync` or by an inode's flags.
    fn sync_if(&mut self, wanted: bool) -> Result<()> {
        if wanted || self.behaviour.sync { self.core.sync_heads() } else { Ok(()) }
    }
}
