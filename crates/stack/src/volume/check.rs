//! Argument checks common to all volumes.

use super::{VolumeError, VolumeFault, VolumeGeometry};

impl VolumeGeometry {
    /// Checks that `[offset, offset + len)` lies in a LEB of the volume.
    ///
    /// # Errors
    /// [`VolumeFault::OutOfRange`].
    pub fn check_range(&self, lnum: u32, offset: u32, len: usize) -> Result<(), VolumeError> {
        let end = u64::from(offset).checked_add(len as u64);
        if lnum < self.lebs && end.is_some_and(|end| end <= u64::from(self.leb_bytes)) {
            return Ok(());
        }
        Err(VolumeFault::OutOfRange { len }.at(lnum, offset))
    }

    /// Checks the arguments of a write, except that the target is erased.
    ///
    /// # Errors
    /// [`VolumeFault::OutOfRange`], [`VolumeFault::ReadOnly`], [`VolumeFault::Misaligned`].
    pub fn check_write(&self, lnum: u32, offset: u32, len: usize) -> Result<(), VolumeError> {
        self.check_change(lnum, offset, len)?;
        let unit = self.min_io_bytes.max(1);
        if offset.is_multiple_of(unit) && (len as u64).is_multiple_of(u64::from(unit)) {
            return Ok(());
        }
        Err(VolumeFault::Misaligned { unit }.at(lnum, offset))
    }

    /// Checks that a LEB exists and may be changed.
    ///
    /// # Errors
    /// [`VolumeFault::OutOfRange`], [`VolumeFault::ReadOnly`].
    pub fn check_change(&self, lnum: u32, offset: u32, len: usize) -> Result<(), VolumeError> {
        self.check_range(lnum, offset, len)?;
        if self.read_only { Err(VolumeFault::ReadOnly.at(lnum, offset)) } else { Ok(()) }
    }
}
