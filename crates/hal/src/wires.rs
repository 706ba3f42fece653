//! A SPI device at its pins: the traits of embedded-hal, blocking and async, for chips and cards.
//!
//! [`Wires`] is the interface of chips and cards. [`Port`] is a shared handle of a device: `SpiDevice` drives CS#; [`Bus`] and
//! [`ChipSelect`] are for drivers that drive CS# themselves.

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{self, OutputPin};
use embedded_hal::spi::{ErrorType, Operation, SpiBus};
use embedded_hal_async as asynchronous;
use floatgate_mtd::Nanos;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The lines of a SPI device: CS#, clock, and a data line in each direction.
pub(crate) trait Wires {
    /// Drives CS# low, which begins a transaction.
    fn select(&mut self);
    /// Drives CS# high, which ends the transaction.
    fn deselect(&mut self);
    /// Sends bytes to the chip.
    fn write(&mut self, bytes: &[u8]);
    /// Receives bytes from the chip.
    fn read(&mut self, bytes: &mut [u8]);
    /// Sends and receives bytes at the same time.
    fn exchange(&mut self, bytes: &mut [u8]);
    /// Advances virtual time by `time`, with an idle bus.
    fn wait(&mut self, time: Nanos);
}

/// Sends and receives at the same time; the longer of the two continues alone.
fn transfer(wires: &mut dyn Wires, received: &mut [u8], sent: &[u8]) {
    let both = received.len().min(sent.len());
    received[..both].copy_from_slice(&sent[..both]);
    wires.exchange(&mut received[..both]);
    wires.write(&sent[both..]);
    wires.read(&mut received[both..]);
}

/// Executes operations in one CS# window.
fn transaction(wires: &mut dyn Wires, operations: &mut [Operation<'_, u8>]) {
    wires.select();
    for operation in operations {
        match operation {
            Operation::Read(bytes) => wires.read(bytes),
            Operation::Write(bytes) => wires.write(bytes),
            Operation::TransferInPlace(bytes) => wires.exchange(bytes),
            Operation::DelayNs(ns) => wires.wait(Nanos::from_ns((*ns).into())),
            Operation::Transfer(received, sent) => transfer(wires, received, sent),
        }
    }
    wires.deselect();
}

/// A SPI device that several handles share.
#[derive(Debug)]
pub(crate) struct Port<W>(Arc<Mutex<W>>);

impl<W> Clone for Port<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W> Port<W> {
    pub(crate) fn new(wires: W) -> Self {
        Self(Arc::new(Mutex::new(wires)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, W> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Wires> Port<W> {
    pub(crate) fn transaction(&self, operations: &mut [Operation<'_, u8>]) {
        transaction(&mut *self.lock(), operations);
    }
}

/// Implements the functions that all SPI devices have.
macro_rules! spi_device {
    ($device:ty, $wires:ty) => {
        impl $device {
            /// A delay on the virtual clock of the device, for drivers that wait.
            pub fn delay(&self) -> Delay<$wires> {
                Delay(self.port.clone())
            }

            /// Clock and data lines without CS#, for a driver that owns the bus. [`Self::chip_select`] returns CS#.
            pub fn bus(&self) -> Bus<$wires> {
                Bus(self.port.clone())
            }

            /// The CS# line alone.
            pub fn chip_select(&self) -> ChipSelect<$wires> {
                ChipSelect(self.port.clone())
            }
        }

        impl embedded_hal::spi::ErrorType for $device {
            type Error = std::convert::Infallible;
        }

        impl embedded_hal::spi::SpiDevice for $device {
            fn transaction(
                &mut self,
                operations: &mut [embedded_hal::spi::Operation<'_, u8>],
            ) -> Result<(), std::convert::Infallible> {
                self.port.transaction(operations);
                Ok(())
            }
        }

        impl embedded_hal_async::spi::SpiDevice for $device {
            async fn transaction(
                &mut self,
                operations: &mut [embedded_hal::spi::Operation<'_, u8>],
            ) -> Result<(), std::convert::Infallible> {
                self.port.transaction(operations);
                Ok(())
            }
        }
    };
}
pub(crate) use spi_device;

/// A delay on the virtual clock of a device.
#[derive(Clone, Debug)]
pub struct Delay<W>(pub(crate) Port<W>);

impl<W: Wires> DelayNs for Delay<W> {
    fn delay_ns(&mut self, ns: u32) {
        self.0.lock().wait(Nanos::from_ns(ns.into()));
    }
}

impl<W: Wires> asynchronous::delay::DelayNs for Delay<W> {
    async fn delay_ns(&mut self, ns: u32) {
        DelayNs::delay_ns(self, ns);
    }
}

/// Clock and data lines of a device, without CS#.
#[derive(Clone, Debug)]
pub struct Bus<W>(pub(crate) Port<W>);

impl<W> ErrorType for Bus<W> {
    type Error = Infallible;
}

impl<W: Wires> SpiBus for Bus<W> {
    fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        self.0.lock().read(words);
        Ok(())
    }

    fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        self.0.lock().write(words);
        Ok(())
    }

    fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), Infallible> {
        transfer(&mut *self.0.lock(), read, write);
        Ok(())
    }

    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        self.0.lock().exchange(words);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<W: Wires> asynchronous::spi::SpiBus for Bus<W> {
    async fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        SpiBus::read(self, words)
    }

    async fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        SpiBus::write(self, words)
    }

    async fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), Infallible> {
        SpiBus::transfer(self, read, write)
    }

    async fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        SpiBus::transfer_in_place(self, words)
    }

    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// CS# line of a device; low selects it.
#[derive(Clone, Debug)]
pub struct ChipSelect<W>(pub(crate) Port<W>);

impl<W> digital::ErrorType for ChipSelect<W> {
    type Error = Infallible;
}

impl<W: Wires> OutputPin for ChipSelect<W> {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.0.lock().select();
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        self.0.lock().deselect();
        Ok(())
    }
}
