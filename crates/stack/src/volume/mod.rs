//! Logical eraseblocks (LEBs) of a volume, and two volumes without UBI: in memory, and a bare image.

mod bare;
mod check;
mod ram;
#[cfg(test)]
mod tests;

pub use bare::BareVolume;
pub use ram::RamVolume;

use floatgate_mtd::Instant;

/// Sizes of a volume, in bytes except `lebs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeGeometry {
    /// Number of LEBs.
    pub lebs: u32,
    /// Usable bytes of a LEB.
    pub leb_bytes: u32,
    /// Minimum I/O size: a page; 1 on NOR.
    pub min_io_bytes: u32,
    /// Maximum write size, a multiple of `min_io_bytes`: a page on NAND, the program buffer on NOR.
    pub max_write_bytes: u32,
    /// Offset of LEB data within the PEB, modulo `max_write_bytes`: large writes are aligned to it.
    pub leb_start: u32,
    /// True if writes are refused.
    pub read_only: bool,
}

/// Failure of an operation on a volume, with position and time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("LEB {lnum}, offset {offset:#x}: {fault}")]
pub struct VolumeError {
    /// Kind of failure.
    pub fault: VolumeFault,
    /// Number of the LEB.
    pub lnum: u32,
    /// Offset in the LEB.
    pub offset: u32,
}

/// Kind of failure of an operation on a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeFault {
    /// More wrong bits than the ECC corrects, or a bad CRC of a copied or static LEB. The buffer contains the data as
    /// read.
    #[error("the data are damaged beyond the ECC")]
    Uncorrectable,
    /// The LEB does not exist, or the range extends past its end.
    #[error("{len} bytes are not inside the volume")]
    OutOfRange {
        /// Length of the access, B.
        len: usize,
    },
    /// Offset or length is not a multiple of the minimum I/O size.
    #[error("offset and length must be multiples of {unit} bytes")]
    Misaligned {
        /// Minimum I/O size, B.
        unit: u32,
    },
    /// The volume or the device is read-only.
    #[error("read-only")]
    ReadOnly,
    /// No physical eraseblock is free.
    #[error("no free eraseblock is left")]
    NoSpace,
    /// An update of the volume was interrupted; its data is incomplete.
    #[error("an update of the volume was not finished")]
    UpdateMarker,
    /// The bytes were written before and not erased since.
    #[error("the target is not erased")]
    NotErased,
    /// Power was lost.
    #[error("power lost")]
    PowerLost,
    /// A flash failure that UBI could not work around.
    #[error("the flash below: {0}")]
    Flash(floatgate_mtd::Error),
    /// The file or memory behind the volume failed.
    #[error("{0}")]
    Host(String),
}

impl VolumeFault {
    /// Error with this fault at a position.
    #[must_use]
    pub const fn at(self, lnum: u32, offset: u32) -> VolumeError {
        VolumeError { fault: self, lnum, offset }
    }
}

/// Logical eraseblocks. `docs/spec/ubi.md` specifies their representation on flash.
///
/// An unmapped LEB reads as 0xFF and is mapped by its first write. Bytes of a LEB are written once, in ascending order;
/// [`change`](Self::change) replaces a whole LEB.
///
/// **After a power loss** an interrupted `write` has left a prefix of its minimum I/O units complete, perhaps one
/// damaged, and the others erased. An interrupted `change` has left the old LEB or the new one. An `unmap` without
/// [`erase`](Self::erase) may be reverted: the LEB can reappear with its old contents.
pub trait Volume: Send {
    /// Sizes of the volume.
    fn geometry(&self) -> VolumeGeometry;

    /// Reads `buf.len()` bytes at `offset` of a LEB.
    ///
    /// # Errors
    /// [`VolumeFault::Uncorrectable`] with the buffer as read; out of range; flash failures.
    fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), VolumeError>;

    /// Writes `data` at `offset` onto erased bytes; both are multiples of the minimum I/O size.
    ///
    /// # Errors
    /// Out of range, misaligned, read-only, no space, power lost.
    fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<(), VolumeError>;

    /// Replaces the contents of a LEB atomically; the rest of it is erased. The length of `data` is a multiple of the
    /// minimum I/O size.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    fn change(&mut self, lnum: u32, data: &[u8]) -> Result<(), VolumeError>;

    /// Maps a LEB to an erased PEB without writing data, so that it is empty even after a power loss.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write), and [`VolumeFault::NotErased`] if the LEB is already mapped.
    fn map(&mut self, lnum: u32) -> Result<(), VolumeError>;

    /// Unmaps a LEB, which then reads as erased; its PEB is erased later.
    ///
    /// # Errors
    /// Out of range, read-only.
    fn unmap(&mut self, lnum: u32) -> Result<(), VolumeError>;

    /// Unmaps a LEB and erases its PEB before it returns, so that the LEB cannot reappear after a power loss.
    ///
    /// # Errors
    /// The errors of [`unmap`](Self::unmap), and flash failures.
    fn erase(&mut self, lnum: u32) -> Result<(), VolumeError>;

    /// True when a LEB is mapped.
    ///
    /// # Errors
    /// Out of range.
    fn is_mapped(&mut self, lnum: u32) -> Result<bool, VolumeError>;

    /// Completes deferred work: erases of unmapped PEBs, writes to a host file.
    ///
    /// # Errors
    /// Flash failures.
    fn flush(&mut self) -> Result<(), VolumeError>;

    /// Time at the end of the last operation.
    fn now(&self) -> Instant;

    /// Advances the clock to `now`; it never goes back.
    fn wait_until(&mut self, now: Instant);
}

impl core::fmt::Debug for dyn Volume + '_ {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Volume").field(&self.geometry()).finish()
    }
}

/// Implements `Volume` for pointers to volumes.
macro_rules! forward_volume {
    ($pointer:ty) => {
        impl<V: Volume + ?Sized> Volume for $pointer {
            fn geometry(&self) -> VolumeGeometry {
                (**self).geometry()
            }
            fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), VolumeError> {
                (**self).read(lnum, offset, buf)
            }
            fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<(), VolumeError> {
                (**self).write(lnum, offset, data)
            }
            fn change(&mut self, lnum: u32, data: &[u8]) -> Result<(), VolumeError> {
                (**self).change(lnum, data)
            }
            fn map(&mut self, lnum: u32) -> Result<(), VolumeError> {
                (**self).map(lnum)
            }
            fn unmap(&mut self, lnum: u32) -> Result<(), VolumeError> {
                (**self).unmap(lnum)
            }
            fn erase(&mut self, lnum: u32) -> Result<(), VolumeError> {
                (**self).erase(lnum)
            }
            fn is_mapped(&mut self, lnum: u32) -> Result<bool, VolumeError> {
                (**self).is_mapped(lnum)
            }
            fn flush(&mut self) -> Result<(), VolumeError> {
                (**self).flush()
            }
            fn now(&self) -> Instant {
                (**self).now()
            }
            fn wait_until(&mut self, now: Instant) {
                (**self).wait_until(now);
            }
        }
    };
}

forward_volume!(&mut V);
forward_volume!(Box<V>);
