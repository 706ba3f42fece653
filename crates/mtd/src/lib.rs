//! The interface between flash devices and the software above them.
//!
//! In data-flow order:
//!
//! - [`time`]: virtual time. An operation takes `now` and returns its end time; no layer reads a clock.
//! - [`account`]: time breakdown into ten [`Phase`]s that add up to the total.
//! - [`geometry`]: sizes of pages, blocks, OOB areas; [`pairing`]: pages of an MLC block that share cells.
//! - [`device`]: the [`Mtd`] trait, a few calls plus the geometry.
//! - [`block_device`]: the [`BlockDevice`] trait, sectors behind a translation layer: SD cards and eMMC.
//! - [`error`]: errors with address and time. Corrected bit errors are part of the result, not an error.
//!
//! Wrappers implement the same traits and can wrap any device (`D`, `&mut D`, `Box<dyn Mtd>`) in any order:
//!
//! - [`partition`]: a range of whole eraseblocks; [`slc_mode`]: one page of each pair of an MLC device.
//! - [`mod@concat`]: several devices as one.
//! - [`counted`]: counts operations.
//! - [`power_cut`]: cuts power at a chosen operation. [`faults`]: bit errors, bad blocks, failing operations.
//!
//! [`ram`] is a device in memory. [`size`] parses and formats sizes, [`words`] formats numbers with their nouns,
//! [`mod@advice`] contains advice in error messages.
//!
//! # Example
//!
//! ```
//! use floatgate_mtd::{Cut, CutKind, Geometry, Instant, Mtd, PowerCut, RamFlash, Stage};
//!
//! let mut flash = PowerCut::new(RamFlash::new(Geometry::nand_2048(8)));
//! flash.order(Some(Cut { operation: 1, kind: CutKind::During(Stage::Middle), seed: 1 }));
//! let lost = flash.write(Instant::ZERO, 0, &[0; 2048]).unwrap_err();
//! assert_eq!(lost.to_string(), "power lost at 0x0");
//! flash.power_on();
//! let mut page = [0; 2048];
//! let read = flash.read(lost.at, 0, &mut page);
//! assert!(read.is_err() || page != [0; 2048], "the page is torn");
//! ```
#![no_std]

extern crate alloc;

pub mod account;
pub mod advice;
pub mod block_device;
pub mod concat;
pub mod counted;
pub mod device;
pub mod error;
pub mod faults;
mod forward;
pub mod geometry;
pub mod pairing;
pub mod partition;
pub mod power_cut;
mod program_unit;
pub mod ram;
pub mod random;
pub mod size;
pub mod slc_mode;
pub mod time;
pub mod words;

#[cfg(test)]
mod composed;
#[cfg(test)]
mod double;

pub use account::{Breakdown, Phase};
pub use block_device::{BlockDevice, BlockError, BlockErrorKind, SECTOR_BYTES};
pub use concat::{Concat, ConcatError};
pub use counted::{Counted, Operations};
pub use device::{Done, Mtd, OobMode};
pub use error::{Error, ErrorKind};
pub use faults::{FaultPlan, Faults};
pub use geometry::{FlashKind, Geometry};
pub use pairing::{Group, PairPosition, Pairing, PairingError, PairingScheme};
pub use partition::{Partition, PartitionError};
pub use power_cut::{Cut, CutKind, Interrupted, PowerCut, Stage, Tear};
pub use ram::RamFlash;
pub use slc_mode::{SlcMode, SlcModeError};
pub use time::{Instant, Nanos};
