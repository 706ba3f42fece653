//! A SPI NOR behind its driver, as an embedded-storage flash.

use crate::{LIBRARY, OpenError, config};
use embedded_storage::nor_flash as blocking;
use embedded_storage::nor_flash::{ErrorType, NorFlashError, NorFlashErrorKind};
use embedded_storage_async::nor_flash as asynchronous;
use floatgate_device::power::PowerCut;
use floatgate_mtd::{Done, ErrorKind, Instant, Nanos};
use floatgate_sim::rig::{self, Rig, RigOptions};
use std::fmt;

/// Time between power-on and the first command; data sheets state at most this time (tVSL, tPU).
const POWER_UP: Nanos = Nanos::from_ms(10);

/// A NOR flash behind the driver of its board, with eraseblocks of `ERASE` bytes. A clone is an independent flash that shares unchanged
/// blocks; a test of power cuts clones the flash before each operation.
///
/// It is stricter than a RAM mock: a program that would set bits back to 1 fails with [`NotErased`](floatgate_mtd::ErrorKind::NotErased). A
/// byte FFh leaves the flash unchanged, and further bits may be cleared.
#[derive(Clone, Debug)]
pub struct Flash<const ERASE: usize> {
    rig: Rig,
    now: Instant,
}

impl<const ERASE: usize> Flash<ERASE> {
    /// Creates a flash by the name of its part, or of a setup with that part.
    ///
    /// # Errors
    /// The part is unknown, it is not a NOR, or its eraseblocks have another size.
    pub fn new(target: &str) -> Result<Self, OpenError> {
        let mut rig = rig::wire(&LIBRARY, &config(target)?, RigOptions::default()).map_err(OpenError::new)?;
        let geometry = rig.device.geometry();
        if geometry.write_bytes != 1 {
            return Err(OpenError::new(format!("{target} is no NOR: it is written in pages")));
        }
        if geometry.erase_bytes as usize != ERASE {
            let has = geometry.erase_bytes;
            return Err(OpenError::new(format!("{target} has eraseblocks of {has} bytes, not {ERASE}")));
        }
        let now = rig.now();
        Ok(Self { rig, now })
    }

    /// Virtual time in ns.
    pub const fn now_ns(&self) -> u64 {
        self.now.as_ns()
    }

    /// Cuts power in a program or erase, counted from 1 from now on, when a share (0 to 1) of it is done. Every later call fails, until
    /// [`Flash::restore_power`].
    pub fn cut_power(&mut self, operation: u64, share: f64) {
        self.rig.device.power_mut().order(Some(PowerCut::During { operation, share }));
    }

    /// True when power is lost.
    pub fn is_dead(&self) -> bool {
        self.rig.device.power().is_lost()
    }

    /// Restores power; the driver sets up the chip again.
    ///
    /// # Errors
    /// The driver does not find the chip.
    pub fn restore_power(&mut self) -> Result<(), OpenError> {
        self.rig.device.power_mut().order(None);
        self.rig.device.restart().map_err(OpenError::new)?;
        self.now = self.now.max(self.rig.now()) + POWER_UP;
        Ok(())
    }

    /// Executes an operation of the driver. The clock advances even if the operation fails.
    fn run(
        &mut self,
        operation: impl FnOnce(&mut dyn rig::Device, Instant) -> Result<Done, floatgate_mtd::Error>,
    ) -> Result<(), FlashError> {
        let outcome = operation(self.rig.device.as_mut(), self.now);
        let at = outcome.as_ref().map_or_else(|error| error.at, |done| done.at);
        self.now = self.now.max(at);
        outcome.map(drop).map_err(FlashError)
    }

    fn read_at(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), FlashError> {
        self.run(|device, now| device.read(now, offset.into(), bytes))
    }

    fn write_at(&mut self, offset: u32, bytes: &[u8]) -> Result<(), FlashError> {
        self.run(|device, now| device.write(now, offset.into(), bytes))
    }

    fn erase_range(&mut self, from: u32, to: u32) -> Result<(), FlashError> {
        let length = to.checked_sub(from);
        // A range whose end is before its start is outside the device, which the driver reports.
        self.run(|device, now| device.erase(now, from.into(), length.map_or(u64::MAX, u64::from)))
    }

    fn size(&self) -> usize {
        self.rig.device.geometry().size_bytes as usize
    }
}

/// Error of the simulated flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashError(pub floatgate_mtd::Error);

impl fmt::Display for FlashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for FlashError {}

impl NorFlashError for FlashError {
    fn kind(&self) -> NorFlashErrorKind {
        match self.0.kind {
            ErrorKind::OutOfRange { .. } => NorFlashErrorKind::OutOfBounds,
            ErrorKind::Misaligned { .. } => NorFlashErrorKind::NotAligned,
            _ => NorFlashErrorKind::Other,
        }
    }
}

impl<const ERASE: usize> ErrorType for Flash<ERASE> {
    type Error = FlashError;
}

impl<const ERASE: usize> blocking::ReadNorFlash for Flash<ERASE> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), FlashError> {
        self.read_at(offset, bytes)
    }

    fn capacity(&self) -> usize {
        self.size()
    }
}

impl<const ERASE: usize> blocking::NorFlash for Flash<ERASE> {
    const WRITE_SIZE: usize = 1;
    const ERASE_SIZE: usize = ERASE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), FlashError> {
        self.erase_range(from, to)
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), FlashError> {
        self.write_at(offset, bytes)
    }
}

impl<const ERASE: usize> blocking::MultiwriteNorFlash for Flash<ERASE> {}

impl<const ERASE: usize> asynchronous::ReadNorFlash for Flash<ERASE> {
    const READ_SIZE: usize = 1;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), FlashError> {
        self.read_at(offset, bytes)
    }

    fn capacity(&self) -> usize {
        self.size()
    }
}

impl<const ERASE: usize> asynchronous::NorFlash for Flash<ERASE> {
    const WRITE_SIZE: usize = 1;
    const ERASE_SIZE: usize = ERASE;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), FlashError> {
        self.erase_range(from, to)
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), FlashError> {
        self.write_at(offset, bytes)
    }
}

impl<const ERASE: usize> asynchronous::MultiwriteNorFlash for Flash<ERASE> {}
