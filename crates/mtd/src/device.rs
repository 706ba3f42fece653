//! The [`Mtd`] trait: the interface of a flash device (Linux: `struct mtd_info`).

use crate::account::Breakdown;
use crate::error::{Error, ErrorKind};
use crate::geometry::Geometry;
use crate::time::Instant;

/// Result of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Time at which the operation ended.
    pub at: Instant,
    /// Maximum number of bits corrected in an ECC step, which Linux compares with the bitflip threshold and reports as
    /// EUCLEAN.
    pub bitflips_max: u32,
    /// Number of corrected bits in all ECC steps.
    pub bitflips: u32,
    /// Number of read retries: repeated page reads with shifted thresholds after an ECC failure.
    pub retries: u32,
}

impl Done {
    /// The result of an operation that ended at `at` without corrected bits.
    pub const fn clean(at: Instant) -> Self {
        Self { at, bitflips_max: 0, bitflips: 0, retries: 0 }
    }

    /// True if the block should be scrubbed: the corrected bits of an ECC step reached the bitflip threshold. In this
    /// case Linux returns -EUCLEAN, and UBI scrubs the block.
    pub const fn wants_scrub(&self, geometry: &Geometry) -> bool {
        geometry.bitflip_threshold > 0 && self.bitflips_max >= geometry.bitflip_threshold
    }

    /// Combined result of two operations: the later time, and the bit errors of both.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self {
            at: self.at.max(next.at),
            bitflips_max: self.bitflips_max.max(next.bitflips_max),
            bitflips: self.bitflips + next.bitflips,
            retries: self.retries + next.retries,
        }
    }
}

/// Placement of OOB bytes in a buffer (Linux: MTD_OPS_RAW, MTD_OPS_PLACE_OOB, MTD_OPS_AUTO_OOB).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OobMode {
    /// All OOB bytes at their physical offsets, without ECC (MTD_OPS_RAW).
    Raw,
    /// All OOB bytes at their physical offsets, with corrected data (MTD_OPS_PLACE_OOB).
    Place,
    /// Only the free OOB bytes, concatenated (MTD_OPS_AUTO_OOB).
    Auto,
}

/// A flash device: read, program, erase, and a time breakdown.
///
/// Every operation takes `now` and returns its end time. If the device is still busy with an earlier operation, the new
/// one starts later; the delay is booked as waiting.
///
/// **After a power loss** in `write`, pages before the interrupted one are complete and later ones untouched. The
/// interrupted page may contain any mix of erased and new bits, and may read differently each time. In `erase`, the
/// interrupted block may read as erased without being completely erased.
///
/// Reads of a device in timing-only mode leave the buffer unchanged.
pub trait Mtd {
    /// Geometry of the device, which is constant.
    fn geometry(&self) -> &Geometry;

    /// Reads `buf.len()` bytes at `addr`, corrected by the ECC.
    ///
    /// # Errors
    /// `OutOfRange`, `Uncorrectable` (the buffer contains the data as read), `Timeout`, `DeviceLost`.
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error>;

    /// Programs `data` at `addr`. Address and length are multiples of the write unit, and the target must be erased.
    ///
    /// # Errors
    /// `OutOfRange`, `Misaligned`, `NotErased`, `ProgramFailed`, `WriteProtected`, `Timeout`.
    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error>;

    /// Erases whole blocks.
    ///
    /// # Errors
    /// `OutOfRange`, `Misaligned`, `BadBlock`, `EraseFailed`, `WriteProtected`, `Timeout`.
    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error>;

    /// Reads one page at `addr` with its OOB. `data` is empty (OOB only) or has the length of a page. `oob` has at most
    /// the OOB size; in [`OobMode::Auto`] at most the number of free bytes.
    ///
    /// # Errors
    /// The errors of [`Mtd::read`], and `Unsupported` on devices without OOB.
    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let _ = (data, oob, mode);
        Err(ErrorKind::Unsupported("this device has no OOB area").at(addr, now))
    }

    /// Programs one page with its OOB; for the arguments see [`Mtd::read_oob`].
    ///
    /// # Errors
    /// The errors of [`Mtd::write`], and `Unsupported` on devices without OOB.
    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let _ = (data, oob, mode);
        Err(ErrorKind::Unsupported("this device has no OOB area").at(addr, now))
    }

    /// Tells whether the block at `addr` is marked bad, and returns the time at which the driver has this information.
    ///
    /// # Errors
    /// `OutOfRange`; read errors of the marker.
    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        let _ = addr;
        Ok((false, now))
    }

    /// Marks the block at `addr` bad permanently.
    ///
    /// # Errors
    /// `OutOfRange`; program errors of the marker; `Unsupported` on devices without bad blocks.
    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        Err(ErrorKind::Unsupported("blocks of this device cannot be marked bad").at(addr, now))
    }

    /// Time breakdown of the foreground since power-on. The cost of an operation is the difference of two readings,
    /// which adds up to the operation's duration.
    fn breakdown(&self) -> Breakdown;
}

impl core::fmt::Debug for dyn Mtd + '_ {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Mtd").field(self.geometry()).finish()
    }
}

/// Checks that `[addr, addr + len)` lies inside a device of `size` bytes.
///
/// # Errors
/// `OutOfRange`.
pub fn check_range(now: Instant, addr: u64, len: u64, size: u64) -> Result<(), Error> {
    match addr.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(ErrorKind::OutOfRange { len, size }.at(addr, now)),
    }
}

/// Checks that `addr` and `len` are multiples of `unit`.
///
/// # Errors
/// `Misaligned`.
pub fn check_aligned(now: Instant, addr: u64, len: u64, unit: u32) -> Result<(), Error> {
    if addr.is_multiple_of(u64::from(unit)) && len.is_multiple_of(u64::from(unit)) {
        Ok(())
    } else {
        Err(ErrorKind::Misaligned { unit }.at(addr, now))
    }
}
