//! A SPI chip at its pins.

use crate::{OpenError, Recorded, config};
use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use floatgate_device::power::PowerCut;
use floatgate_device::spi::Width;
use floatgate_mtd::Nanos;
use floatgate_sim::rig::{self, Pins, RigOptions};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A SPI NOR or NAND at its pins. A clone is the same chip, [`SpiFlash::fork`] makes another one.
///
/// A command that the chip does not know reads as FFh and is a violation, not an error: a SPI controller notices nothing, either.
#[derive(Clone, Debug)]
pub struct SpiFlash {
    pins: Arc<Mutex<Pins>>,
}

/// The wires of either kind.
macro_rules! wire {
    ($pins:expr, $wire:ident => $result:expr) => {
        match $pins {
            Pins::SpiNor($wire) => $result,
            Pins::SpiNand($wire) => $result,
            // `SpiFlash::of` lets no other kind in.
            Pins::RawNand(_) | Pins::ParallelNor(_) => Default::default(),
        }
    };
}

impl SpiFlash {
    /// A chip by the name of its part, or of a setup with it.
    ///
    /// # Errors
    /// There is no such part, or it is none on a SPI bus.
    pub fn new(target: &str) -> Result<Self, OpenError> {
        match rig::pins(&config(target)?, RigOptions::default()).map_err(OpenError::new)? {
            Pins::RawNand(_) | Pins::ParallelNor(_) => {
                Err(OpenError::new(format!("{target} is on a parallel bus")))
            }
            pins => Ok(Self { pins: Arc::new(Mutex::new(pins)) }),
        }
    }

    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the clock in Hz; at first it is that of the part's board.
    pub fn set_clock(&mut self, hz: u32) {
        wire!(&mut *self.pins(), wire => wire.set_clock(hz));
    }

    /// Virtual time in ns since the chip was made.
    pub fn now_ns(&self) -> u64 {
        wire!(&*self.pins(), wire => wire.now().as_ns())
    }

    /// A delay on the chip's clock, for a driver that waits.
    pub fn delay(&self) -> Delay {
        Delay(self.clone())
    }

    /// The first violations of the chip's rules.
    pub fn violations(&self) -> Vec<Recorded> {
        wire!(&*self.pins(), wire => wire.violations().kept().to_vec())
    }

    /// Cuts power in the middle of this program or erase, counted from 1 from now on. Without power the chip reads as FFh.
    pub fn cut_power(&mut self, operation: u64) {
        let cut = Some(PowerCut::During { operation, share: 0.5 });
        wire!(&mut *self.pins(), wire => wire.power_mut().order(cut));
    }

    /// True when power is lost.
    pub fn is_dead(&self) -> bool {
        wire!(&*self.pins(), wire => wire.power().is_lost())
    }

    /// Power is back: the chip is as after power-on.
    pub fn restore_power(&mut self) {
        wire!(&mut *self.pins(), wire => wire.power_on());
    }

    /// A copy with contents and clock that goes its own way. What neither changes is shared.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { pins: Arc::new(Mutex::new(self.pins().clone())) }
    }

    fn wait(&mut self, time: Nanos) {
        wire!(&mut *self.pins(), wire => wire.advance(time));
    }
}

impl ErrorType for SpiFlash {
    type Error = Infallible;
}

impl SpiDevice for SpiFlash {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        wire!(&mut *self.pins(), wire => {
            wire.select();
            for operation in operations {
                match operation {
                    Operation::Read(bytes) => wire.read(Width::X1, bytes),
                    Operation::Write(bytes) => wire.write(Width::X1, bytes),
                    Operation::TransferInPlace(bytes) => wire.exchange(bytes),
                    Operation::DelayNs(ns) => wire.advance(Nanos::from_ns((*ns).into())),
                    Operation::Transfer(received, sent) => {
                        let both = received.len().min(sent.len());
                        received[..both].copy_from_slice(&sent[..both]);
                        wire.exchange(&mut received[..both]);
                        wire.write(Width::X1, &sent[both..]);
                        wire.read(Width::X1, &mut received[both..]);
                    }
                }
            }
            wire.deselect();
        });
        Ok(())
    }
}

/// A delay on the clock of a chip.
#[derive(Clone, Debug)]
pub struct Delay(SpiFlash);

impl DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        self.0.wait(Nanos::from_ns(ns.into()));
    }
}
