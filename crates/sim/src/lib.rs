//! Simulated systems built from a configuration: flash behind its driver, a card, a mounted filesystem, and the host.
//!
//! - [`rig`]: connects chip, controller and driver of a setup; [`partition`]: partitions of the device.
//! - [`machine`]: UBI, UBIFS or JFFS2 on a rig; [`vfs`], [`page_cache`], [`cpu`] and [`mtdblock`]: the layers between them
//!   and a program.
//! - [`card`]: SD cards and eMMC; [`card_state`]: empty, used and full cards.
//! - [`programmer`]: a SPI or parallel NOR in the socket of a programmer, accessed byte by byte; [`linux_bus`]: a chip for
//!   Linux's own drivers. Both implement [`socket`].
//! - [`firmware`]: a microcontroller instead of a host with Linux.

#[cfg(feature = "cards")]
pub mod card;
#[cfg(feature = "cards")]
pub mod card_state;
#[cfg(feature = "filesystems")]
pub mod cpu;
pub mod error;
#[cfg(feature = "filesystems")]
mod filesystem;
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
