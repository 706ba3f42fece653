//! A SPI chip at its pins.

use crate::wires::{Port, Wires, spi_device};
use crate::{Bus, ChipSelect, Delay, OpenError, Recorded, config};
use floatgate_device::power::PowerCut;
use floatgate_device::spi::Width;
use floatgate_mtd::Nanos;
use floatgate_sim::rig::{self, Pins, RigOptions};
use std::sync::MutexGuard;

/// A SPI NOR or NAND at its pins. A clone is another handle of the same chip; [`SpiFlash::fork`] creates an independent chip.
///
/// An unknown command reads as FFh and is recorded as a violation. It is not an error, because a SPI controller does not detect
/// it either.
#[derive(Clone, Debug)]
pub struct SpiFlash {
    port: Port<SpiWires>,
}

/// The wires to a SPI NOR or NAND.
#[derive(Clone, Debug)]
pub struct SpiWires(Pins);

/// Applies an expression to the wires of either kind of chip.
macro_rules! wire {
    ($pins:expr, $wire:ident => $result:expr) => {
        match $pins {
            Pins::SpiNor($wire) => $result,
            Pins::SpiNand($wire) => $result,
            // `SpiFlash::of` accepts only SPI chips.
            Pins::RawNand(_) | Pins::ParallelNor(_) => Default::default(),
        }
    };
}

impl SpiFlash {
    /// Creates a chip by the name of its part, or of a setup with that part.
    ///
    /// # Errors
    /// The part is unknown, or it is not a SPI chip.
    pub fn new(target: &str) -> Result<Self, OpenError> {
        match rig::pins(&config(target)?, RigOptions::default()).map_err(OpenError::new)? {
            Pins::RawNand(_) | Pins::ParallelNor(_) => {
                Err(OpenError::new(format!("{target} is on a parallel bus")))
            }
            pins => Ok(Self { port: Port::new(SpiWires(pins)) }),
        }
    }

    fn wires(&self) -> MutexGuard<'_, SpiWires> {
        self.port.lock()
    }

    /// Sets the SPI clock, Hz. The initial clock is the one of the part's board.
    pub fn set_clock(&mut self, hz: u32) {
        wire!(&mut self.wires().0, wire => wire.set_clock(hz));
    }

    /// Drives the pin WP# of a SPI NOR. While it is low and the bit SRP (SRWD) is set, the status registers cannot be written.
    /// SPI NAND does not have this lock.
    pub fn set_wp_low(&mut self, low: bool) {
        if let Pins::SpiNor(wire) = &mut self.wires().0 {
            wire.chip_mut().set_wp_low(low);
        }
    }

    /// Virtual time since the chip was created, ns.
    pub fn now_ns(&self) -> u64 {
        wire!(&self.wires().0, wire => wire.now().as_ns())
    }

    /// The first recorded violations of the chip's rules.
    pub fn violations(&self) -> Vec<Recorded> {
        wire!(&self.wires().0, wire => wire.violations().recorded().to_vec())
    }

    /// Cuts power in the middle of a program or erase; `operation` is counted from 1 from now on. Without power the chip reads as
    /// FFh.
    pub fn cut_power(&mut self, operation: u64) {
        let cut = Some(PowerCut::During { operation, share: 0.5 });
        wire!(&mut self.wires().0, wire => wire.power_mut().order(cut));
    }

    /// True when power is lost.
    pub fn is_dead(&self) -> bool {
        wire!(&self.wires().0, wire => wire.power().is_lost())
    }

    /// Restores power; the chip is then in its power-on state.
    pub fn restore_power(&mut self) {
        wire!(&mut self.wires().0, wire => wire.power_on());
    }

    /// Creates an independent copy of contents and clock. Both share unchanged blocks.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { port: Port::new(self.wires().clone()) }
    }
}

spi_device!(SpiFlash, SpiWires);

impl Wires for SpiWires {
    fn select(&mut self) {
        wire!(&mut self.0, wire => wire.select());
    }

    fn deselect(&mut self) {
        wire!(&mut self.0, wire => wire.deselect());
    }

    fn write(&mut self, bytes: &[u8]) {
        wire!(&mut self.0, wire => wire.write(Width::X1, bytes));
    }

    fn read(&mut self, bytes: &mut [u8]) {
        wire!(&mut self.0, wire => wire.read(Width::X1, bytes));
    }

    fn exchange(&mut self, bytes: &mut [u8]) {
        wire!(&mut self.0, wire => wire.exchange(bytes));
    }

    fn wait(&mut self, time: Nanos) {
        wire!(&mut self.0, wire => wire.advance(time));
    }
}
