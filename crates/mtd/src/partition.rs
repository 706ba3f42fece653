//! Partitions: a range of whole eraseblocks of a device as a device.

use crate::account::Breakdown;
use crate::device::{Done, Mtd, OobMode, check_range};
use crate::error::Error;
use crate::geometry::Geometry;
use crate::time::Instant;

/// Reason why a range of a device cannot be a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// Start or length is not a multiple of the eraseblock size.
    #[error(
        "start {start:#x} and length {len:#x} must be multiples of the eraseblock ({erase_bytes:#x} bytes)"
    )]
    Misaligned {
        /// Requested start, B.
        start: u64,
        /// Requested length, B.
        len: u64,
        /// Eraseblock size, B.
        erase_bytes: u32,
    },
    /// The range extends beyond the device.
    #[error("start {start:#x} and length {len:#x} reach beyond the end of the device ({size:#x} bytes)")]
    BeyondEnd {
        /// Requested start, B.
        start: u64,
        /// Requested length, B.
        len: u64,
        /// Size of the device in bytes.
        size: u64,
    },
    /// The range is empty.
    #[error("a partition has at least one eraseblock")]
    Empty,
}

/// A range of whole eraseblocks of a device. Addresses, including those in errors, are relative to its start.
#[derive(Clone, Debug)]
pub struct Partition<D> {
    inner: D,
    start: u64,
    geometry: Geometry,
}

impl<D: Mtd> Partition<D> {
    /// The range `[start, start + len)` of `inner`, in bytes.
    ///
    /// # Errors
    /// [`PartitionError`] if the range is empty, not made of whole eraseblocks, or extends beyond the device.
    pub fn new(inner: D, start: u64, len: u64) -> Result<Self, PartitionError> {
        let whole = inner.geometry();
        let (size, erase_bytes) = (whole.size_bytes, whole.erase_bytes);
        let unit = u64::from(erase_bytes);
        if len == 0 {
            return Err(PartitionError::Empty);
        }
        if !start.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err(PartitionError::Misaligned { start, len, erase_bytes });
        }
        if start.checked_add(len).is_none_or(|end| end > size) {
            return Err(PartitionError::BeyondEnd { start, len, size });
        }
        let partition_of = Some(whole.chip_bytes());
        let geometry = Geometry { size_bytes: len, partition_of, ..whole.clone() };
        Ok(Self { inner, start, geometry })
    }

    /// Offset of the range on the device, bytes.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// The underlying device.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Mutable access to the underlying device, also outside the range.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Returns the underlying device.
    pub fn into_inner(self) -> D {
        self.inner
    }

    /// Device address of `addr`; an error if `[addr, addr + len)` is not inside the range.
    fn place(&self, now: Instant, addr: u64, len: u64) -> Result<u64, Error> {
        check_range(now, addr, len, self.geometry.size_bytes)?;
        Ok(self.start + addr)
    }

    /// Device error with its address relative to the range.
    fn relative(&self, mut error: Error) -> Error {
        error.addr = error.addr.saturating_sub(self.start);
        error
    }
}

impl<D: Mtd> Mtd for Partition<D> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        let addr = self.place(now, addr, buf.len() as u64)?;
        self.inner.read(now, addr, buf).map_err(|e| self.relative(e))
    }

    #[inline]
    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        let addr = self.place(now, addr, data.len() as u64)?;
        self.inner.write(now, addr, data).map_err(|e| self.relative(e))
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        let addr = self.place(now, addr, len)?;
        self.inner.erase(now, addr, len).map_err(|e| self.relative(e))
    }

    #[inline]
    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let addr = self.place(now, addr, u64::from(self.geometry.write_bytes))?;
        self.inner.read_oob(now, addr, data, oob, mode).map_err(|e| self.relative(e))
    }

    #[inline]
    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let addr = self.place(now, addr, u64::from(self.geometry.write_bytes))?;
        self.inner.write_oob(now, addr, data, oob, mode).map_err(|e| self.relative(e))
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        let addr = self.place(now, addr, 1)?;
        self.inner.is_bad(now, addr).map_err(|e| self.relative(e))
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        let addr = self.place(now, addr, 1)?;
        self.inner.mark_bad(now, addr).map_err(|e| self.relative(e))
    }

    fn breakdown(&self) -> Breakdown {
        self.inner.breakdown()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::{Double, at};
    use crate::error::ErrorKind;

    #[test]
    fn windows_are_made_of_whole_blocks_of_the_device() {
        let size = Double::SIZE;
        let new = |start, len| Partition::new(Double::new(), start, len).map(|p| p.start());
        assert_eq!(new(256, 512), Ok(256));
        assert_eq!(new(0, 0), Err(PartitionError::Empty));
        let erase_bytes = 256;
        assert_eq!(new(128, 256), Err(PartitionError::Misaligned { start: 128, len: 256, erase_bytes }));
        assert_eq!(new(256, 128), Err(PartitionError::Misaligned { start: 256, len: 128, erase_bytes }));
        assert_eq!(new(256, size), Err(PartitionError::BeyondEnd { start: 256, len: size, size }));
        let start = u64::MAX - 255;
        assert_eq!(new(start, 256), Err(PartitionError::BeyondEnd { start, len: 256, size }));
    }

    #[test]
    fn addresses_count_from_the_start_in_errors_too() {
        let mut part = Partition::new(Double::new(), 512, 512).unwrap();
        part.write(at(0), 64, &[1; 64]).unwrap();
        let mut out = [0; 64];
        part.inner_mut().read(at(0), 512 + 64, &mut out).unwrap();
        assert_eq!(out, [1; 64]);
        let again = part.write(at(0), 64, &[1; 64]).unwrap_err();
        assert_eq!((again.kind, again.addr), (ErrorKind::NotErased, 64));
        let beyond = part.read(at(0), 480, &mut out).unwrap_err();
        assert_eq!(beyond.kind, ErrorKind::OutOfRange { len: 64, size: 512 });
        assert_eq!(part.erase(at(0), 512, 256).unwrap_err().addr, 512);
    }

    #[test]
    fn bad_blocks_and_oob_go_to_the_right_place() {
        let mut part = Partition::new(Double::new(), 256, 512).unwrap();
        part.mark_bad(at(0), 256).unwrap();
        assert!(part.inner_mut().is_bad(at(0), 512).unwrap().0);
        assert!(!part.is_bad(at(0), 0).unwrap().0);
        assert_eq!(part.erase(at(0), 256, 256).unwrap_err().kind, ErrorKind::BadBlock);
        part.write_oob(at(0), 0, &[], &[7; 4], OobMode::Place).unwrap();
        let mut oob = [0; 4];
        part.inner_mut().read_oob(at(0), 256, &mut [], &mut oob, OobMode::Place).unwrap();
        assert_eq!(oob, [7; 4]);
        assert!(part.is_bad(at(0), 512).is_err());
    }
}
