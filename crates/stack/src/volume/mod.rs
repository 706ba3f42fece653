//! Logical eraseblocks (LEBs) as a filesystem sees them, and two volumes without UBI: in memory, and a bare image.

mod bare;
mod check;
mod ram;
#[cfg(test)]
mod tests;

pub use bare::BareVolume;
pub use ram::RamVolume;

use floatgate_mtd::Instant;

/// Sizes of a volume. All in bytes but `lebs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeGeometry {
    /// LEBs of the volume.
    pub lebs: u32,
    /// Usable bytes of a LEB.
    pub leb_bytes: u32,
    /// Smallest write: a page; 1 on NOR.
    pub min_io_bytes: u32,
    /// Most efficient write, a multiple of `min_io_bytes`: a page on NAND, the program buffer on NOR.
    pub max_write_bytes: u32,
    /// Byte of LEB 0 within its PEB, modulo `max_write_bytes`: where large writes should begin.
    pub leb_start: u32,
    /// Writes are refused.
    pub read_only: bool,
}

/// Failure of an operation on a volume, with position and time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("LEB {lnum}, offset {offset:#x}: {fault}")]
pub struct VolumeError {
    /// Kind of failure.
    pub fault: VolumeFault,
    /// The LEB.
    pub lnum: u32,
    /// Byte in the LEB.
    pub offset: u32,
}

/// Kind of failure of an operation on a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeFault {
    /// The flash has more wrong bits than its ECC corrects, or the data of a copied or static LEB fail their CRC. The
    /// buffer holds what was read.
    #[error("the data are damaged beyond the ECC")]
    Uncorrectable,
    /// There is no such LEB, or the bytes reach past its end.
    #[error("{len} bytes are not inside the volume")]
    OutOfRange {
        /// Bytes asked for.
        len: usize,
    },
    /// Offset or length is not a multiple of the smallest write.
    #[error("offset and length must be multiples of {unit} bytes")]
    Misaligned {
        /// The unit, bytes.
        unit: u32,
    },
    /// The volume or the device is read-only.
    #[error("read-only")]
    ReadOnly,
    /// No free physical eraseblock is left.
    #[error("no free eraseblock is left")]
    NoSpace,
    /// The volume is damaged: an update was cut off.
    #[error("an update of the volume was not finished")]
    UpdateMarker,
    /// Bytes that were written before and not erased since.
    #[error("the target is not erased")]
    NotErased,
    /// Power went away.
    #[error("power lost")]
    PowerLost,
    /// A failure of the device below that UBI could not work around.
    #[error("the flash below: {0}")]
    Flash(floatgate_mtd::Error),
    /// The file or memory behind the volume failed.
    #[error("{0}")]
    Host(String),
}

impl VolumeFault {
    /// This fault at a place.
    #[must_use]
    pub const fn at(self, lnum: u32, offset: u32) -> VolumeError {
        VolumeError { fault: self, lnum, offset }
    }
}

/// Logical eraseblocks. `docs/spec/ubi.md` has what stands behind them on flash.
///
/// A LEB that is not mapped reads as 0xFF and is mapped by its first write. Bytes of a LEB are written once, upwards;
/// [`change`](Self::change) replaces a whole LEB.
///
/// **After a power loss** a `write` has left a prefix of its minimal I/O units whole, perhaps one damaged, the others
/// erased. A `change` has left the old LEB or the new one. An `unmap` without [`erase`](Self::erase) may come undone: the
/// LEB may be back with its old contents.
pub trait Volume: Send {
    /// Sizes.
    fn geometry(&self) -> VolumeGeometry;

    /// Reads `buf.len()` bytes at `offset` of a LEB.
    ///
    /// # Errors
    /// [`VolumeFault::Uncorrectable`] with the buffer as read; out of range; failures of the flash.
    fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), VolumeError>;

    /// Writes `data` at `offset`, both multiples of the smallest write, onto erased bytes.
    ///
    /// # Errors
    /// Out of range, misaligned, read-only, no space, power lost.
    fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<(), VolumeError>;

    /// Replaces the contents of a LEB atomically; the rest of it is erased. `data` is a multiple of the smallest write.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn change(&mut self, lnum: u32, data: &[u8]) -> Result<(), VolumeError>;

    /// Maps a LEB to an erased PEB without writing data, so that it is empty even after a power loss.
    ///
    /// # Errors
    /// As [`write`](Self::write); a LEB that is mapped already is an error of the caller ([`VolumeFault::NotErased`]).
    fn map(&mut self, lnum: u32) -> Result<(), VolumeError>;

    /// Unmaps a LEB; its PEB is erased later. The LEB reads as erased from now on.
    ///
    /// # Errors
    /// Out of range, read-only.
    fn unmap(&mut self, lnum: u32) -> Result<(), VolumeError>;

    /// Unmaps a LEB and erases its PEB before it returns, so that a power loss cannot bring it back.
    ///
    /// # Errors
    /// As [`unmap`](Self::unmap), and failures of the flash.
    fn erase(&mut self, lnum: u32) -> Result<(), VolumeError>;

    /// True when a LEB is mapped.
    ///
    /// # Errors
    /// Out of range.
    fn is_mapped(&mut self, lnum: u32) -> Result<bool, VolumeError>;

    /// Whatever was put off (erasing unmapped PEBs, writing to a host's file) is done when this returns.
    ///
    /// # Errors
    /// Failures of the flash.
    fn flush(&mut self) -> Result<(), VolumeError>;

    /// The volume's clock: when the last operation was done.
    fn now(&self) -> Instant;

    /// Lets time pass, up to `now`; the clock never goes back.
    fn wait_until(&mut self, now: Instant);
}

impl core::fmt::Debug for dyn Volume + '_ {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Volume").field(&self.geometry()).finish()
    }
}

/// A pointer to a volume is a volume.
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
