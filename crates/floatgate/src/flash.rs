//! Flash under its driver, with its clock.

use crate::{Error, Result};
use floatgate_device::power::PowerCut;
use floatgate_mtd::{Breakdown, Done, Geometry, Instant, Mtd, Nanos};
use floatgate_sim::rig::{Device, Rig};
use std::fmt;

/// The time that an operation took, and where it went. It prints as `96.2 us: array 25.0, data 68.1, cpu 3.10`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationTime {
    /// Time from the call to its end.
    pub total: Nanos,
    /// The same time by phase; its sum is the total.
    pub breakdown: Breakdown,
    /// Bits that the ECC corrected; of a card always 0, as its controller hides them.
    pub bitflips: u32,
}

impl fmt::Display for OperationTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.breakdown)?;
        match self.bitflips {
            0 => Ok(()),
            1 => f.write_str("; 1 bit corrected"),
            bits => write!(f, "; {bits} bits corrected"),
        }
    }
}

/// Moment at which power goes away: in a program or erase, counted from 1 from now on, or after a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    at: At,
    share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Operation(u64),
    After(Nanos),
}

impl Cut {
    /// Power goes in the program or erase of this number, when half of it is over.
    pub const fn at_operation(operation: u64) -> Self {
        Self { at: At::Operation(operation), share: 0.5 }
    }

    /// Power goes after this time.
    pub const fn after(time: Nanos) -> Self {
        Self { at: At::After(time), share: 0.5 }
    }

    /// Share of the operation that is over when power goes, 0 to 1. A cut after a time has none.
    #[must_use]
    pub const fn share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    fn from(self, now: Instant) -> Result<PowerCut> {
        let Self { at, share } = self;
        match at {
            At::Operation(0) => Err(Error::Cut("at operation 0: they are counted from 1".to_owned())),
            _ if !(0.0..=1.0).contains(&share) => Err(Error::Cut(format!("at {share} of an operation"))),
            At::Operation(operation) => Ok(PowerCut::During { operation, share }),
            At::After(time) => Ok(PowerCut::At(now + time)),
        }
    }
}

/// Orders a power cut on a device.
pub(crate) fn order(device: &mut dyn Device, now: Instant, cut: Cut) -> Result<()> {
    let cut = cut.from(now)?;
    device.power_mut().order(Some(cut));
    Ok(())
}

/// Flash under its driver, with its clock: each call begins when the one before has ended.
///
/// A clone is a second flash with the same contents that goes its own way; blocks that neither changes are shared.
#[derive(Clone, Debug)]
pub struct Flash {
    pub(crate) rig: Rig,
}

impl Flash {
    pub(crate) const fn of(rig: Rig) -> Self {
        Self { rig }
    }

    /// Sizes of the flash in bytes, and the strength of its ECC.
    pub fn geometry(&self) -> &Geometry {
        self.rig.device.geometry()
    }

    /// Name of the chip.
    pub fn chip(&self) -> &str {
        &self.rig.chip
    }

    /// Time since power-on at which the last call ended.
    pub fn now(&mut self) -> Instant {
        self.rig.now()
    }

    /// Reads `buf.len()` bytes at a byte address, corrected by the ECC.
    ///
    /// # Errors
    /// [`Error::Flash`]: beyond the end, more wrong bits than the ECC corrects, no power.
    pub fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<OperationTime> {
        self.run(|device, now| device.read(now, addr, buf))
    }

    /// Programs erased flash at a byte address; address and length are multiples of [`Geometry::write_bytes`].
    ///
    /// # Errors
    /// [`Error::Flash`]: beyond the end, misaligned, not erased, write protected, the chip reports a failure, no power.
    pub fn write(&mut self, addr: u64, data: &[u8]) -> Result<OperationTime> {
        self.run(|device, now| device.write(now, addr, data))
    }

    /// Erases a block by its number, from 0.
    ///
    /// # Errors
    /// [`Error::Flash`]: beyond the end, a bad block, write protected, the chip reports a failure, no power.
    pub fn erase_block(&mut self, block: u32) -> Result<OperationTime> {
        let (addr, len) = (self.address(block), self.geometry().erase_bytes.into());
        self.run(|device, now| device.erase(now, addr, len))
    }

    /// Erases all blocks that are not bad, as `flash_erase` does.
    ///
    /// # Errors
    /// As [`erase_block`](Self::erase_block).
    pub fn erase_all(&mut self) -> Result<()> {
        for block in 0..self.geometry().blocks() {
            if !self.is_bad(block)? {
                self.erase_block(block)?;
            }
        }
        Ok(())
    }

    /// True when a block is marked bad.
    ///
    /// # Errors
    /// [`Error::Flash`]: beyond the end, no power.
    pub fn is_bad(&mut self, block: u32) -> Result<bool> {
        let (now, addr) = (self.now(), self.address(block));
        Ok(self.rig.device.is_bad(now, addr)?.0)
    }

    /// Marks a block bad, for good.
    ///
    /// # Errors
    /// [`Error::Flash`]: beyond the end, flash that has no bad blocks, no power.
    pub fn mark_bad(&mut self, block: u32) -> Result<OperationTime> {
        let addr = self.address(block);
        self.run(|device, now| device.mark_bad(now, addr))
    }

    /// Lets time pass without a call.
    pub fn wait(&mut self, time: Nanos) {
        let later = self.now() + time;
        self.rig.device.host().resume(later);
    }

    /// Orders a power cut. The call in which power goes fails, and so do those after it until [`restart`](Self::restart).
    ///
    /// # Errors
    /// [`Error::Cut`]: operation 0, or a share that is not from 0 to 1.
    pub fn order_cut(&mut self, cut: Cut) -> Result<()> {
        let now = self.now();
        order(self.rig.device.as_mut(), now, cut)
    }

    /// True while there is power.
    pub fn is_powered(&self) -> bool {
        !self.rig.device.power().is_lost()
    }

    /// Switches power on again; the driver sets the chip up, which takes time. An ordered cut is forgotten.
    ///
    /// # Errors
    /// [`Error::Restart`]: the driver cannot use the chip any more.
    pub fn restart(&mut self) -> Result<()> {
        self.rig.device.restart().map_err(Error::Restart)
    }

    /// The device, whose calls take the time at which they begin: for OOB, OTP, cells, links and records of what each resource does.
    pub fn device(&mut self) -> &mut dyn Device {
        self.rig.device.as_mut()
    }

    fn address(&self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.geometry().erase_bytes)
    }

    fn run(
        &mut self,
        operation: impl FnOnce(&mut dyn Device, Instant) -> std::result::Result<Done, floatgate_mtd::Error>,
    ) -> Result<OperationTime> {
        let (start, before) = (self.now(), self.rig.device.breakdown());
        let done = operation(self.rig.device.as_mut(), start)?;
        let breakdown = self.rig.device.breakdown() - before;
        Ok(OperationTime { total: done.at.since(start), breakdown, bitflips: done.bitflips })
    }
}
