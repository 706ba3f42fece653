//! [`Counted`]: a wrapper that counts the operations of a device.

use crate::account::Breakdown;
use crate::device::{Done, Mtd, OobMode};
use crate::error::Error;
use crate::geometry::Geometry;
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;

/// Number of operations since the device was wrapped, including failed ones. The counters only
/// increase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Number of read calls, for data or OOB.
    pub reads: u64,
    /// Number of data bytes read.
    pub read_bytes: u64,
    /// Number of program calls, for data or OOB.
    pub programs: u64,
    /// Number of data bytes programmed.
    pub programmed_bytes: u64,
    /// Number of eraseblocks erased.
    pub erases: u64,
}

impl core::ops::Sub for Operations {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            programs: self.programs - earlier.programs,
            programmed_bytes: self.programmed_bytes - earlier.programmed_bytes,
            erases: self.erases - earlier.erases,
        }
    }
}

/// A wrapper that counts operations.
#[derive(Clone, Debug)]
pub struct Counted<D> {
    operations: Operations,
    /// Number of erases of each eraseblock.
    erased: Vec<u32>,
    /// Number of bytes programmed into each eraseblock since its last erase.
    programmed: Vec<u64>,
    device: D,
}

impl<D: Mtd> Counted<D> {
    /// Wraps a device; counters start at zero.
    pub fn new(device: D) -> Self {
        let blocks = device.geometry().blocks() as usize;
        let (operations, erased, programmed) = (Operations::default(), vec![0; blocks], vec![0; blocks]);
        Self { operations, erased, programmed, device }
    }

    /// Operations since the device was wrapped.
    pub const fn operations(&self) -> Operations {
        self.operations
    }

    /// Number of erases of each eraseblock.
    pub fn erased(&self) -> &[u32] {
        &self.erased
    }

    /// Number of bytes programmed into an eraseblock since its last erase; 0 beyond the device.
    pub fn programmed(&self, block: usize) -> u64 {
        self.programmed.get(block).copied().unwrap_or(0)
    }

    /// The wrapped device.
    pub const fn inner(&self) -> &D {
        &self.device
    }

    /// Mutable access to the wrapped device, without counting.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Returns the device and drops the counters.
    pub fn into_inner(self) -> D {
        self.device
    }

    fn read_counts(&mut self, bytes: usize) {
        self.operations.reads += 1;
        self.operations.read_bytes += bytes as u64;
    }

    fn program_counts(&mut self, addr: u64, bytes: usize) {
        let erase_bytes = u64::from(self.device.geometry().erase_bytes.max(1));
        let end = addr.saturating_add(bytes as u64);
        for block in addr / erase_bytes..end.div_ceil(erase_bytes) {
            let start = block * erase_bytes;
            let within = end.min(start + erase_bytes) - addr.max(start);
            if let Some(programmed) =
                usize::try_from(block).ok().and_then(|block| self.programmed.get_mut(block))
            {
                *programmed += within;
            }
        }
        self.operations.programs += 1;
        self.operations.programmed_bytes += bytes as u64;
    }
}

impl<D: Mtd> Mtd for Counted<D> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        self.read_counts(buf.len());
        self.device.read(now, addr, buf)
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        self.program_counts(addr, data.len());
        self.device.write(now, addr, data)
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        let erase_bytes = u64::from(self.geometry().erase_bytes.max(1));
        let first = usize::try_from(addr / erase_bytes).unwrap_or(usize::MAX);
        let blocks = usize::try_from(len / erase_bytes).unwrap_or(usize::MAX);
        self.operations.erases += blocks as u64;
        for count in self.erased.iter_mut().skip(first).take(blocks) {
            *count = count.saturating_add(1);
        }
        self.programmed.iter_mut().skip(first).take(blocks).for_each(|programmed| *programmed = 0);
        self.device.erase(now, addr, len)
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.read_counts(data.len());
        self.device.read_oob(now, addr, data, oob, mode)
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.program_counts(addr, data.len());
        self.device.write_oob(now, addr, data, oob, mode)
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        self.device.is_bad(now, addr)
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        self.device.mark_bad(now, addr)
    }

    fn breakdown(&self) -> Breakdown {
        self.device.breakdown()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::RamFlash;

    #[test]
    fn operations_are_counted() {
        let mut flash = Counted::new(RamFlash::new(Geometry::nand_2048(4)));
        flash.erase(Instant::ZERO, 131_072, 2 * 131_072).unwrap();
        flash.write(Instant::ZERO, 131_072, &[0; 4096]).unwrap();
        let before = flash.operations();
        flash.read(Instant::ZERO, 131_072, &mut [0; 100]).unwrap();
        let read = flash.operations() - before;
        assert_eq!(read, Operations { reads: 1, read_bytes: 100, ..Operations::default() });
        assert_eq!((before.programs, before.programmed_bytes, before.erases), (1, 4096, 2));
        assert_eq!(flash.erased(), [0, 1, 1, 0]);
        assert!(flash.programmed(1) > 0 && flash.programmed(2) == 0);
        flash.erase(Instant::ZERO, 131_072, 131_072).unwrap();
        assert!(flash.programmed(1) == 0 && flash.programmed(100) == 0);
    }
}
