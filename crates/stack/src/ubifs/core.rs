//! The state of a mounted filesystem below files and names.

use super::auth::{Authentication, Verifier};
use super::error::{Error, Result};
use super::io::Io;
use super::journal::Log;
use super::limits::Limits;
use super::mount::{Findings, Orphans};
use super::space::Space;
use super::tnc::Tnc;
use crate::volume::Volume;
use floatgate_media::ubifs::Master;
use std::collections::BTreeMap;

/// A mounted filesystem without files and names: nodes, the index, space, the journal.
#[derive(Clone, Debug)]
pub(crate) struct Core<V: ?Sized> {
    /// LEB properties.
    pub(crate) space: Space,
    /// The index.
    pub(crate) tnc: Tnc,
    /// Buds and the log.
    pub(crate) log: Log,
    /// Inodes without a name.
    pub(crate) orphans: Orphans,
    /// The master node of the last commit.
    pub(crate) master: Master,
    /// Where the next master node goes in the master LEBs.
    pub(crate) master_offset: u32,
    /// The LEB kept for the garbage collector.
    pub(crate) gc_lnum: Option<u32>,
    /// The highest inode number given out.
    pub(crate) highest_inode: u64,
    /// Sizes of files whose inodes say less than their data reach, by inode: what recovery found while mounted read-only. They
    /// count instead of the inodes'.
    pub(crate) sizes: BTreeMap<u32, u64>,
    /// An image is built: the first commit makes the filesystem end behind the last LEB that is used and room for so many.
    pub(crate) room_behind_data: Option<u32>,
    /// The state of the filesystem's authentication; `None` without authentication.
    pub(crate) authentication: Option<Authentication>,
    /// Verifies hashes, if the mount is to.
    pub(crate) verifier: Option<Verifier>,
    /// Damage that a forgiving mount has found.
    pub(crate) findings: Findings,
    /// The number of searches for space; of caches the index has its own.
    pub(crate) limits: Limits,
    /// Volume, write buffers, sequence numbers.
    pub(crate) io: Io<V>,
}

forward_to_dyn!(Core: Volume);

impl<V: Volume + 'static> Core<V> {
    /// Ends a filesystem's life in memory; nothing is written.
    pub(crate) fn into_volume(self) -> V {
        self.io.into_volume()
    }

    /// Ends a mount in order.
    ///
    /// # Errors
    /// As [`end`](Core::end); the volume comes back either way.
    pub(crate) fn unmount(mut self) -> core::result::Result<V, (Error, V)> {
        match self.end() {
            Ok(()) => Ok(self.into_volume()),
            Err(error) => Err((error, self.into_volume())),
        }
    }
}

impl Core<dyn Volume> {
    /// Sets the limits of caches and attempts from now on.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.tnc.keep_entries(limits.entries);
    }

    /// Everything that heads hold is on flash when this returns; the index is not committed.
    pub(crate) fn sync_heads(&mut self) -> Result<()> {
        self.io.sync_heads(&mut self.space)
    }
}
