//! Simulated flash hardware, and the drivers for it.
//!
//! In the order of a read's data flow:
//!
//! - drivers identify a chip by its id, ONFI page, SFDP or CFI query, and access it only by commands;
//! - an ECC engine encodes each page before a program and corrects it after a read;
//! - a controller ([`spi::SpiController`], [`parallel_nor::NorController`], [`raw_nand::NandController`]) converts operations to time on
//!   the bus;
//! - a chip executes its command set, stricter than silicon ([`violation::Violation`]), on an [`array::Array`].
//!
//! There are four families of chips. [`raw_nand`] and [`spi_nand`] are command sets on top of [`nand`], [`spi_nor`] and [`parallel_nor`] on
//! top of `nor`.
//!
//! [`oracle`] contains the knowledge about a chip that only a simulator has; drivers see only its [`oracle::PageTruth`].
//!
//! Time is modelled by [`timeline`]s: resources that are reserved, and a host thread for which every nanosecond is booked.
//!
//! # Example
//!
//! `floatgate_sim::rig` connects the chip of a setup with controller and driver. This example shows the timelines on which they reserve
//! time.
//!
//! ```
//! use floatgate_device::Timeline;
//! use floatgate_mtd::{Instant, Nanos};
//!
//! let mut bus = Timeline::default();
//! let (_, first) = bus.reserve(Instant::ZERO, Nanos::from_us(10));
//! let (start, _) = bus.reserve(Instant::ZERO, Nanos::from_us(5));
//! assert_eq!(start, first, "one after the other");
//! ```

pub mod array;
pub mod capability;
pub mod cells;
pub mod concat;
pub mod ecc_engine;
pub mod host;
pub mod nand;
mod nor;
pub mod oracle;
pub mod parallel_nor;
pub mod power;
pub mod raw_nand;
pub mod spec;
pub mod spi;
pub mod spi_nand;
pub mod spi_nor;
pub mod timeline;
pub mod units;
pub mod violation;
pub mod wire;

pub use capability::{Otp, OtpArea, OtpRegion, ReadWhileWrite};
pub use timeline::{Host, Record, Resource, Span, Timeline};
pub use violation::Violation;
