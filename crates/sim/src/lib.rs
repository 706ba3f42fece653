//! From a configuration to what works: flash behind its driver, a card, a mounted filesystem, and the host before them.
//!
//! - [`rig`]: a setup wired: chip, controller, driver; [`partition`]: how the device is used.
//! - [`machine`]: UBI, UBIFS or JFFS2 on it; [`vfs`], [`page_cache`], [`cpu`] and [`mtdblock`]: what stands between them and a program.
//! - [`card`]: SD cards and eMMC; [`card_state`]: empty, used and full ones.
//! - [`programmer`]: a SPI NOR in the socket of a programmer, byte by byte; [`linux_bus`]: a chip for Linux's own drivers; both are a [`socket`] for the chip.
//! - [`firmware`]: a microcontroller in place of a host with Linux.

#[cfg(feature = "cards")]
pub mod card;
#[cfg(feature = "cards")]
pub mod card_state;
#[cfg(feature = "filesystems")]
pub mod cpu;
pub mod error;
pub mod firmware;
#[cfg(feature = "filesystems")]
mod kernel_memory;
pub mod linux_bus;
#[cfg(feature = "filesystems")]
pub mod machine;
#[cfg(feature = "filesystems")]
pub mod mtdblock;
#[cfg(feature = "filesystems")]
pub mod page_cache;
pub mod partition;
pub mod programmer;
pub mod rig;
pub mod socket;
#[cfg(feature = "filesystems")]
pub mod vfs;

pub use error::Error;
