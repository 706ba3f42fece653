//! Flash under its driver, with a clock of virtual time.

use crate::{Error, Result};
use floatgate_device::power::PowerCut;
use floatgate_mtd::{Breakdown, Done, Geometry, Instant, Mtd, Nanos};
use floatgate_sim::rig::{Device, Rig};
use std::fmt;

/// Duration of an operation, in total and by phase. It is formatted as `96.2 us: array 25.0, data 68.1, cpu 3.10`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationTime {
    /// Time from the call to the end of the operation.
    pub total: Nanos,
    /// The duration by phase; the sum of the phases is the total.
    pub breakdown: Breakdown,
    /// Number of bits that the ECC corrected; always 0 for a card, whose controller does not report them.
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

/// Moment of a power cut: in a program or erase operation, counted from 1 from now on, or after a time.
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
    /// A cut in the program or erase with this number, when half of it is done.
    pub const fn at_operation(operation: u64) -> Self {
        Self { at: At::Operation(operation), share: 0.5 }
    }

    /// A cut after this time.
    pub const fn after(time: Nanos) -> Self {
        Self { at: At::After(time), share: 0.5 }
    }

    /// Sets the share of the operation that is done when power is cut, 0 to 1. It has no meaning for a cut after a time.
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

/// Schedules a power cut on a device.
pub(crate) fn order(device: &mut dyn Device, now: Instant, cut: Cut) -> Result<()> {
    let cut = cut.from(now)?;
    device.power_mut().order(Some(cut));
    Ok(())
}

/// Flash under its driver, with a clock of virtual time: each call begins when the previous call has ended.
///
/// A clone is an independent flash with the same contents. It shares all unchanged blocks with the original.
#[derive(Clone, Debug)]
pub struct Flash {
    pub(crate) rig: Rig,
}

impl Flash {
    pub(crate) const fn of(rig: Rig) -> Self {
        Self { rig }
    }

    /// Sizes of the flash in bytes, and ECC strength.
    pub fn geometry(&self) -> &Geometry {
        self.rig.device.geometry()
    }

    /// Name of the chip.
    pub fn chip(&self) -> &str {
        &self.rig.chip
    }

    /// Time since power-on at the end of the last call.
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

    /// Programs erased flash at a byte address. Address and length must be multiples of [`Geometry::write_bytes`].
    ///
    /// # Errors
    /// [`Error::Flash`]: beyond the end, misaligned, not erased, write protected, the chip reports a failure, no power.
    pub fn write(&mut self, addr: u64, data: &[u8]) -> Result<OperationTime> {
        self.run(|device, now| device.write(now, addr, data))
    }

    /// Erases a block; blocks are numbered from 0.
    ///
    /// # Errors
    /// [`Error::Flash`]: beyond the end, a bad block, write protected, the chip reports a failure, no power.
    pub fn erase_block(&mut self, block: u32) -> Result<OperationTime> {
        let (addr, len) = (self.address(block), self.geometry().erase_bytes.into());
        self.run(|device, now| device.erase(now, addr, len))
    }

    /// Erases all blocks except bad ones, as `flash_erase` does.
    ///
    /// # Errors
    /// The errors of [`erase_block`](Self::erase_block).
    pub fn erase_all(&mut self) -> Result<()> {
        for block in 0..self.geometry().blocks() {
            if !self.is_bad(block)? {
                self.erase_block(block)?;
            }
        }
        Ok(())
    }

    /// Returns true if a block is marked bad.
    ///
    /// # Errors
    /// [`Error::Flash`]: beyond the end, no power.
    pub fn is_bad(&mut self, block: u32) -> Result<bool> {
        let (now, addr) = (self.now(), self.address(block));
        Ok(self.rig.device.is_bad(now, addr)?.0)
    }

    /// Marks a block bad permanently.
    ///
    /// # Errors
    /// [`Error::Flash`]: beyond the end, flash without bad block support, no power.
    pub fn mark_bad(&mut self, block: u32) -> Result<OperationTime> {
        let addr = self.address(block);
        self.run(|device, now| device.mark_bad(now, addr))
    }

    /// Advances virtual time without an operation.
    pub fn wait(&mut self, time: Nanos) {
        let later = self.now() + time;
        self.rig.device.host().resume(later);
    }

    /// Schedules a power cut. The call in which power is lost fails, and so do all calls until [`restart`](Self::restart).
    ///
    /// # Errors
    /// [`Error::Cut`]: operation 0, or a share that is not between 0 and 1.
    pub fn order_cut(&mut self, cut: Cut) -> Result<()> {
        let now = self.now();
        order(self.rig.device.as_mut(), now, cut)
    }

    /// True unless power was lost.
    pub fn is_powered(&self) -> bool {
        !self.rig.device.power().is_lost()
    }

    /// Restores power; the driver sets up the chip, which takes virtual time. A scheduled cut is cancelled.
    ///
    /// # Errors
    /// [`Error::Restart`]: the driver cannot use the chip any more.
    pub fn restart(&mut self) -> Result<()> {
        self.rig.device.restart().map_err(Error::Restart)
    }

    /// The device, whose calls take their start time as an argument. It gives access to OOB, OTP, cells and links, and records the
    /// work of each resource.
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
