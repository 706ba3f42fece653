//! The [`BlockDevice`] trait: flash behind a translation layer, such as SD cards and eMMC.

use crate::account::Breakdown;
use crate::time::Instant;

/// Size of a sector in bytes, the unit of every address and length.
pub const SECTOR_BYTES: usize = 512;

/// A failed request: kind, sector, and the virtual time at which the host detected the failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at sector {lba}")]
pub struct BlockError {
    /// Kind of failure.
    pub kind: BlockErrorKind,
    /// First sector of the request, or the sector that failed.
    pub lba: u64,
    /// Time at which the host detected the failure.
    pub at: Instant,
}

/// Kind of failure of a request to a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockErrorKind {
    /// The range extends beyond the device.
    #[error("the range of {count} sectors ends beyond the device, which has {capacity} sectors")]
    OutOfRange {
        /// Number of requested sectors.
        count: u64,
        /// Capacity of the device in sectors.
        capacity: u64,
    },
    /// The length of a buffer is not a multiple of the sector size.
    #[error("a buffer of {len} bytes is not a whole number of sectors")]
    PartialSector {
        /// Length of the buffer in bytes.
        len: usize,
    },
    /// Power was lost; the device works again after power-on.
    #[error("power lost")]
    PowerLost,
    /// The device is worn out: no spare blocks are left, and it is read-only.
    #[error("the device is worn out and read-only")]
    WornOut,
    /// More bit errors than the device's ECC corrects.
    #[error("uncorrectable bit errors")]
    Uncorrectable,
    /// The device lost data that it needs to start, and no longer responds to requests.
    #[error("the device does not answer any more")]
    Dead,
    /// The host timed out before the device finished. The data may or may not be written.
    #[error("the device takes longer than the host waits")]
    TimedOut,
    /// A temporary file with part of a simulated device's data cannot be read.
    #[error("the temporary file of the simulation cannot be read")]
    HostFile,
}

impl BlockErrorKind {
    /// The error of this kind at sector `lba`, detected at `at`.
    pub const fn at(self, lba: u64, at: Instant) -> BlockError {
        BlockError { kind: self, lba, at }
    }
}

/// A device with rewritable sectors: read, write, discard, flush, and a time breakdown.
///
/// Every request takes `now` and returns the time at which the host sees its end. A busy device starts the request
/// later; the delay is booked as waiting.
///
/// **After a power loss** every sector contains its data at the end of the last [`flush`](Self::flush), or any data
/// written to it later. A discard counts as a write of zeros.
///
/// Reads of a device in timing-only mode leave the buffer unchanged. Sectors that were never written read as zeros.
pub trait BlockDevice {
    /// Capacity in sectors, as reported to the host.
    fn capacity(&self) -> u64;

    /// Reads whole sectors from `lba`.
    ///
    /// # Errors
    /// `OutOfRange`, `PartialSector`, `Uncorrectable`, `PowerLost`.
    fn read(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError>;

    /// Writes whole sectors to `lba`. The data may still be in the device's volatile buffer afterwards.
    ///
    /// # Errors
    /// `OutOfRange`, `PartialSector`, `WornOut`, `PowerLost`.
    fn write(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError>;

    /// Discards the data of `count` sectors, which then read as zeros until they are written.
    ///
    /// # Errors
    /// `OutOfRange`, `PowerLost`.
    fn discard(&mut self, now: Instant, lba: u64, count: u64) -> Result<Instant, BlockError>;

    /// Waits until all written data is on flash.
    ///
    /// # Errors
    /// `WornOut`, `PowerLost`.
    fn flush(&mut self, now: Instant) -> Result<Instant, BlockError>;

    /// Time breakdown of the host since power-on; the cost of a request is the difference of two readings.
    fn breakdown(&self) -> Breakdown;
}

/// Number of sectors of a buffer at `lba` on a device of `capacity` sectors.
///
/// # Errors
/// `PartialSector`, `OutOfRange`.
pub fn check_sectors(now: Instant, lba: u64, len: usize, capacity: u64) -> Result<u64, BlockError> {
    if !len.is_multiple_of(SECTOR_BYTES) {
        return Err(BlockErrorKind::PartialSector { len }.at(lba, now));
    }
    let count = (len / SECTOR_BYTES) as u64;
    check_count(now, lba, count, capacity).map(|()| count)
}

/// Checks that `count` sectors from `lba` lie inside a device of `capacity` sectors.
///
/// # Errors
/// `OutOfRange`.
pub fn check_count(now: Instant, lba: u64, count: u64, capacity: u64) -> Result<(), BlockError> {
    match lba.checked_add(count) {
        Some(end) if end <= capacity => Ok(()),
        _ => Err(BlockErrorKind::OutOfRange { count, capacity }.at(lba, now)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn ranges_are_checked_without_overflow() {
        let check = |lba, len| check_sectors(Instant::ZERO, lba, len, 8);
        assert_eq!(check(6, 1024), Ok(2));
        assert_eq!(check(8, 0), Ok(0));
        assert_eq!(check(0, 100).unwrap_err().kind, BlockErrorKind::PartialSector { len: 100 });
        assert_eq!(
            check(7, 1024).unwrap_err().to_string(),
            "the range of 2 sectors ends beyond the device, which has 8 sectors at sector 7"
        );
        assert!(check(u64::MAX, 512).is_err());
    }
}
