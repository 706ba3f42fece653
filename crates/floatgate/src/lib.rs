//! Flash storage, simulated in virtual time: the behaviour of a board's chip, filesystem or card, and the duration of each step.
//!
//! A [`Setup`] describes a board: chip, controller, driver, host. It creates a [`Flash`]. `Setup::ubifs` and `Setup::jffs2` format or mount
//! a filesystem on it, an `Fs`. A `Card` is an SD card or eMMC. An `Image` is a file that contains UBI, UBIFS or JFFS2. No call sleeps or
//! reads a clock: the same program prints the same figures on every machine.
//!
//! ```
#![cfg_attr(feature = "filesystems", doc = include_str!("../examples/first_hour.rs"))]
//! ```
//!
//! # Time
//!
//! Each device has a clock of virtual time, [`Instant`], which starts at power-on and stands still between calls. Durations are [`Nanos`].
//! [`OperationTime`] contains the duration of an operation, in total and by phase.
//!
//! # Lower layers
//!
//! The lower crates are modules here. `lab` contains the benchmarks and studies of the `floatgate` command. [`sim`] creates devices and
//! filesystems from a [`config`]. [`device`] contains chips, controllers and drivers, `stack` the filesystems, `image` their images, `card`
//! managed flash, [`mtd`] the `Mtd` trait, and `media` the bytes on flash. [`Setup::config`], [`Flash::device`], `Fs::filesystem` and
//! `Card::device` give access to them.
//!
//! # Features
//!
//! All features are enabled by default: `cards`, `filesystems`, `images`, and `studies` (with `lab`). Without them the crate contains only
//! chips and needs fewer than 40 packages.

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

/// Runs the example on the crate's page as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
