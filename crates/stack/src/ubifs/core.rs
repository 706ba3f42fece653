//! State of a mounted filesystem without files and names.

use super::auth::{Authentication, Verifier};
use super::error::{Error, Result};
use super::io::Io;
use super::journal::Log;
use super::limits::Limits;
use super::mount::findings::Findings;
use super::mount::orphans::Orphans;
use super::space::Space;
use super::tnc::Tnc;
use crate::volume::Volume;
use floatgate_media::ubifs::Master;
use std::collections::BTreeMap;

/// A mounted filesystem without files and names: nodes, index, space, journal.
#[derive(Clone, Debug)]
pub(crate) struct Core<V: ?Sized> {
    /// LEB properties.
    pub(crate) space: Space,
    /// The index (TNC).
    pub(crate) tnc: Tnc,
    /// Buds and the log.
    pub(crate) log: Log,
    /// Orphans: inodes without a name.
    pub(crate) orphans: Orphans,
    /// The master node of the last commit.
    pub(crate) master: Master,
    /// Offset of the next master node in the master LEBs.
    pub(crate) master_offset: u32,
    /// LEB reserved for the garbage collector.
    pub(crate) gc_lnum: Option<u32>,
    /// Highest inode number in use.
    pub(crate) highest_inode: u64,
    /// Sizes of files whose inode is older than their data, by inode, as found by recovery in a read-only mount. They
    /// replace the inodes' sizes.
    pub(crate) sizes: BTreeMap<u32, u64>,
    /// Set while an image is built: the first commit shrinks the filesystem to the last used LEB plus this number of
    /// LEBs.
    pub(crate) room_behind_data: Option<u32>,
    /// Authentication status; `None` without authentication.
    pub(crate) authentication: Option<Authentication>,
    /// Verifier of hashes, if the mount verifies them.
    pub(crate) verifier: Option<Verifier>,
    /// Damage found by a forgiving mount.
    pub(crate) findings: Findings,
    /// Limits of searches for space; the index has its own cache limits.
    pub(crate) limits: Limits,
    /// Volume, write buffers and sequence numbers.
    pub(crate) io: Io<V>,
}

forward_to_dyn!(Core: Volume);

impl<V: Volume + 'static> Core<V> {
    /// Drops the state in memory without writing.
    pub(crate) fn into_volume(self) -> V {
        self.io.into_volume()
    }

    /// Unmounts and returns the volume.
    ///
    /// # Errors
    /// The errors of [`end`](Core::end). The volume is returned in both cases.
    pub(crate) fn unmount(mut self) -> core::result::Result<V, (Error, V)> {
        match self.end() {
            Ok(()) => Ok(self.into_volume()),
            Err(error) => Err((error, self.into_volume())),
        }
    }
}

impl Core<dyn Volume> {
    /// Sets the limits of caches and attempts.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.tnc.keep_entries(limits.entries);
    }

    /// Flushes the write buffers of all journal heads; does not commit the index.
    pub(crate) fn sync_heads(&mut self) -> Result<()> {
        self.io.sync_heads(&mut self.space)
    }
}
