//! Flash storage, simulated in virtual time: what a board's chip, filesystem or card does, and how long each step takes.
//!
//! A [`Setup`] describes a board: chip, controller, driver, host. It makes a [`Flash`], and filesystems on it: `Setup::ubifs` and
//! `Setup::jffs2` format or mount one, which gives an `Fs`. A `Card` is an SD card or eMMC. An `Image` is a file with UBI, UBIFS
//! or JFFS2 in it. Nothing waits and nothing reads a clock: the same program prints the same figures on every machine.
//!
//! ```
#![cfg_attr(feature = "filesystems", doc = include_str!("../examples/first_hour.rs"))]
//! ```
//!
//! # Time
//!
//! Each device carries a clock of virtual time, [`Instant`], that begins with power-on and stands still between calls. Durations are
//! [`Nanos`]. [`OperationTime`] says how long an operation took and where the time went.
//!
//! # Further down
//!
//! The crates below are modules here. `lab` has the benchmarks and studies of the `floatgate` command, [`sim`] makes devices and filesystems of
//! a [`config`], [`device`] has chips, controllers and drivers, `stack` the filesystems, `image` their images, `card` managed flash, [`mtd`] the
//! `Mtd` trait, and `media` the bytes on flash. [`Setup::config`], [`Flash::device`], `Fs::filesystem` and `Card::device` lead there.
//!
//! # Features
//!
//! All are on by default: `cards`, `filesystems`, `images`, and `studies` (with `lab`). Without them there are chips alone, in less than
//! 40 packages.

mod error;
#[cfg(feature = "filesystems")]
mod filesystem;
mod flash;
#[cfg(feature = "cards")]
mod memory_card;
mod setup;

pub use error::{Error, Result};
#[cfg(feature = "filesystems")]
pub use filesystem::{Filesystem, Fs};
pub use flash::{Cut, Flash, OperationTime};
#[cfg(feature = "cards")]
pub use memory_card::Card;
pub use setup::Setup;

#[cfg(feature = "cards")]
pub use floatgate_card as card;
pub use floatgate_config as config;
pub use floatgate_device as device;
#[cfg(feature = "images")]
pub use floatgate_image as image;
#[cfg(feature = "studies")]
pub use floatgate_lab as lab;
#[cfg(feature = "filesystems")]
pub use floatgate_media as media;
pub use floatgate_mtd as mtd;
pub use floatgate_sim as sim;
#[cfg(feature = "filesystems")]
pub use floatgate_stack as stack;

#[cfg(feature = "images")]
pub use floatgate_image::{Access, Image, Selection};
pub use floatgate_mtd::{Breakdown, Geometry, Instant, Nanos, Phase};
#[cfg(feature = "filesystems")]
pub use floatgate_stack::fs::{Attributes, DirEntry, FileType};

/// The example of the crate's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
