//! Simulated SPI flash for tests of embedded Rust: real chips with their command sets, timing, power cuts and faults, in virtual time.
//!
//! - [`SpiFlash`]: a SPI NOR or NAND at its pins, as [`embedded_hal::spi::SpiDevice`], for tests of chip drivers.
//! - [`Flash`]: a SPI NOR behind a driver, as [`embedded_storage::nor_flash::NorFlash`] and its async version, for tests of filesystems and
//!   stores.
//! - `SdCard` (feature `card`): an SD card in SPI mode at its pins, as a `SpiDevice`, or as a bus and CS#, for tests of card drivers and of
//!   FAT filesystems.
//! - `CardStream` (feature `card`): a card behind its host's driver, as `Read`, `Write` and `Seek` of embedded-io and their async versions.
//!
//! ```
//! use embedded_hal::spi::SpiDevice;
//! use floatgate_hal::SpiFlash;
//!
//! let mut chip = SpiFlash::new("w25q128jv")?;
//! let mut answer = [0x9F, 0, 0, 0];
//! chip.transfer_in_place(&mut answer)?;
//! assert_eq!(answer[1..], [0xEF, 0x40, 0x18]);
//! assert_eq!(chip.violations(), []);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "card")]
mod card;
mod flash;
mod spi;
#[cfg(feature = "card")]
mod stream;
mod wires;

#[cfg(feature = "card")]
pub use card::{CardWires, ContentsError, SdCard};
pub use flash::{Flash, FlashError};
pub use floatgate_device::violation::{Recorded, Violation};
pub use spi::{SpiFlash, SpiWires};
#[cfg(feature = "card")]
pub use stream::{CardStream, StreamError};
pub use wires::{Bus, ChipSelect, Delay};

use floatgate_config::{Config, Library};
use std::sync::LazyLock;

/// The catalogue, which is loaded once.
static LIBRARY: LazyLock<Library> = LazyLock::new(Library::built_in);

/// Reason why a part cannot be used.
#[derive(Debug)]
pub struct OpenError(String);

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

impl OpenError {
    fn new(why: impl ToString) -> Self {
        Self(why.to_string())
    }
}

/// Configuration of a part or setup of the catalogue.
fn config(target: &str) -> Result<Config, OpenError> {
    let setup = LIBRARY.setup(target).map_err(OpenError::new)?;
    LIBRARY.resolve(&setup, &[]).map_err(OpenError::new)
}
