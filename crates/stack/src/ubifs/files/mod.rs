//! Files and names: what a caller does with a mounted filesystem.
//!
//! Inodes are read once and kept while they are open or changed; changed blocks of files wait in a page cache of bounded
//! size. What is written when, and in which group, is as in Linux (`fs/ubifs/{dir,file,xattr,journal}.c`).

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
use super::mount::master::Choice;
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
    /// Every change is on flash when the call returns (`-o sync`).
    pub sync: bool,
    /// Compression of new files; the superblock's choice unless given.
    pub compression: Option<Compression>,
    /// Trade-off of compression between size and speed.
    pub effort: Effort,
    /// The space that the superblock reserves may be used.
    pub privileged: bool,
    /// An operation is let in only if there is space for it in the worst case, as in Linux. `false`: whatever finds room is
    /// written. For images that are changed as a whole or not at all: an operation that fails ends the mount, and
    /// it ends with [`end_change`](Ubifs::end_change).
    pub budget: bool,
    /// Blocks of a file that stand one behind the other are read at once (`-o bulk_read`).
    pub bulk_read: bool,
    /// `df` shows all of an empty filesystem as free, and LEBs less once something is written (Linux 2.6.27).
    pub empty_is_total: bool,
    /// Limits of memory and effort.
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
/// Times of changes come from [`set_time`](Self::set_time): the filesystem has no clock of its own.
#[derive(Clone, Debug)]
pub struct Ubifs<V: ?Sized> {
    inodes: Inodes,
    pages: Pages,
    behaviour: Behaviour,
    time: Timestamp,
    compressor: Compressor,
    decompressor: Decompressor,
    /// A node that was read.
    node: Vec<u8>,
    /// Bytes in use when it was mounted without budget, if it had a LEB to spare then.
    used_with_spare: Option<u64>,
    core: Core<V>,
}

forward_to_dyn!(Ubifs: Volume);

impl<V: Volume + 'static> Ubifs<V> {
    /// Mounts the filesystem on a volume.
    ///
    /// # Errors
    /// Why it cannot be mounted, and the volume back.
    pub fn mount(
        volume: V,
        options: &MountOptions,
        behaviour: Behaviour,
    ) -> core::result::Result<Self, (Error, V)> {
        Core::mount(volume, options).map(|core| Self::over(core, behaviour))
    }

    /// Makes a new filesystem on a volume and mounts it.
    ///
    /// # Errors
    /// Sizes that make no filesystem, failures of the volume; and the volume back.
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

    /// The volume below.
    pub const fn volume(&self) -> &V {
        self.core.io.volume()
    }

    /// The volume below, for its clock.
    pub const fn volume_mut(&mut self) -> &mut V {
        self.core.io.volume_mut()
    }

    /// Writes what is changed and ends the mount.
    ///
    /// # Errors
    /// As [`sync`](Ubifs::sync); the volume comes back either way.
    pub fn unmount(mut self) -> core::result::Result<V, (Error, V)> {
        let outcome = if self.is_read_only() { Ok(()) } else { self.write_back() };
        match outcome {
            Ok(()) => self.core.unmount(),
            Err(error) => Err((error, self.abandon())),
        }
    }

    /// Ends the mount without writing anything, as a loss of power does.
    pub fn abandon(self) -> V {
        self.core.into_volume()
    }
}

impl Ubifs<dyn Volume> {
    /// The root directory.
    #[must_use]
    pub const fn root(&self) -> u32 {
        ROOT_INODE
    }

    /// Sets the time of day: the time stamp of changes from now on.
    pub const fn set_time(&mut self, time: Timestamp) {
        self.time = time;
    }

    /// True when it cannot be changed: mounted so, or after a failure.
    pub const fn is_read_only(&self) -> bool {
        self.core.io.is_read_only()
    }

    /// The failure after which it cannot be changed any more. What was not on flash before is lost.
    pub const fn failure(&self) -> Option<&Error> {
        self.core.io.failure()
    }

    /// Authenticity of the filesystem as verified; `None` if it has no authentication.
    pub const fn authentication(&self) -> Option<Authentication> {
        self.core.authentication
    }

    /// Damage that a forgiving mount has found and left out.
    pub fn damage(&self) -> impl Iterator<Item = &Error> {
        self.core.findings.errors()
    }

    /// True when the filesystem was unmounted, so that no journal was replayed and nothing was written since the last commit.
    pub const fn was_unmounted(&self) -> bool {
        !self.core.was_dirty()
    }

    /// True when the journal was replayed past directory entries that may have been damaged: after names with one hash, an entry that
    /// cannot be read is one that the journal deletes, and Linux does not look closer.
    pub const fn has_doubtful_replay(&self) -> bool {
        self.core.findings.in_replay
    }

    /// True when a commit may be lost: the last master node of both LEBs is damaged, and the one before counts.
    pub fn may_be_older(&self) -> bool {
        self.core.findings.choice == Choice::Older
    }

    /// Compares what is believed of space, index and journal with what is on flash. Reads every node in use; what names and
    /// inodes say of each other is not looked at.
    ///
    /// # Errors
    /// A damaged index, failures of the volume.
    pub fn check(&mut self) -> Result<Vec<Inconsistency>> {
        self.core.check()
    }

    /// LEBs that hold something in use, but that the volume does not have: the image is cut off, or parts of it are lost.
    ///
    /// # Errors
    /// Failures of the volume.
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

    /// Sizes, as `df` shows them.
    pub fn space(&self) -> Space {
        self.core.space.report(self.behaviour.empty_is_total)
    }

    /// Everything changed is on flash, and the index too, when this returns (`sync`).
    ///
    /// # Errors
    /// No space, failures of the volume.
    pub fn sync(&mut self) -> Result<()> {
        self.write_back()?;
        self.core.commit()?;
        Ok(self.core.io.volume_mut().flush()?)
    }

    /// Ends a change of a filesystem that was mounted without [budget](Behaviour::budget): as [`sync`](Self::sync), and makes sure that
    /// Linux would mount it for writing: it has a LEB for the garbage collector, and space for deletions. A change that fills it
    /// leaves a LEB for the index, without which even a removal may find no space.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: the change must not be kept. As [`sync`](Self::sync).
    pub fn end_change(&mut self) -> Result<()> {
        self.sync()?;
        let fills = self.used_with_spare.is_some_and(|used| self.core.space.totals().used >= used);
        let is_filled = fills && !self.core.make_spare_leb()?;
        let is_mountable = self.core.gc_lnum.is_some() && self.core.check_space().is_ok();
        if is_filled || !is_mountable { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// All that is changed in one inode is on flash when this returns (`fsync`).
    ///
    /// # Errors
    /// No such inode, no space, failures of the volume.
    pub fn fsync(&mut self, inode: u32) -> Result<()> {
        self.write_back_inode(inode)?;
        self.core.io.sync_inode(&mut self.core.space, inode)
    }

    /// Work of the CPU since the mount.
    #[must_use]
    pub fn work(&self) -> crate::fs::Work {
        self.compressor.work().and(self.decompressor.work())
    }

    /// Writes what is changed of one inode to the journal; it may stay in write buffers.
    ///
    /// # Errors
    /// No space; failures of the volume.
    pub fn write_back_of(&mut self, inode: u32) -> Result<()> {
        self.require_writable()?;
        self.write_back_inode(inode)
    }

    fn require_writable(&self) -> Result<()> {
        if self.is_read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Sets space aside for an operation, writing back what is cached if there is too little.
    fn acquire(&mut self, request: &BudgetRequest) -> Result<Cost> {
        match self.core.reserve_space(request, self.behaviour.privileged) {
            Err(Error::NoSpace) => {
                self.write_back()?;
                self.core.reserve_space(request, self.behaviour.privileged)
            }
            other => other,
        }
    }

    /// As [`acquire`](Self::acquire) for what frees space in the end and is allowed on a full filesystem.
    fn acquire_if_possible(&mut self, request: &BudgetRequest) -> Result<Cost> {
        // Garbage collection and commits in search of space would take more than a deletion gives.
        if self.core.space.is_overfull() {
            return Ok(Cost::default());
        }
        match self.acquire(request) {
            Err(Error::NoSpace) => Ok(Cost::default()),
            other => other,
        }
    }

    /// Ends the promise of space for an operation: its data are in the journal, or it did not write.
    fn end_budget<T>(&mut self, cost: Cost, outcome: Result<T>) -> Result<T> {
        match outcome {
            Ok(_) => self.core.space.give_back(cost),
            Err(_) => self.core.space.withdraw(cost),
        }
        outcome
    }

    /// With `-o sync`, or where inodes ask for it, an operation ends when it is on flash.
    fn sync_if(&mut self, wanted: bool) -> Result<()> {
        if wanted || self.behaviour.sync { self.core.sync_heads() } else { Ok(()) }
    }
}
