//! Simulated flash hardware, and the drivers that speak to it.
//!
//! In the order a read travels:
//!
//! - drivers discover a chip by its own id, ONFI page, SFDP or CFI query and speak only commands to it;
//! - an ECC engine prepares and finishes each page;
//! - a controller ([`spi::SpiController`], [`parallel_nor::NorController`], [`raw_nand::NandController`]) turns operations into time on the bus;
//! - a chip executes its command set, stricter than silicon ([`violation::Violation`]), on an [`array::Array`].
//!
//! Four families: [`raw_nand`] and [`spi_nand`] are command sets over what [`nand`] holds, [`spi_nor`] and [`parallel_nor`] over `nor`.
//!
//! [`oracle`] holds the knowledge that only a simulator has of a chip; of it a driver sees [`oracle::PageTruth`] alone.
//!
//! Time is kept by [`timeline`]s: resources that are reserved, and a host thread whose every nanosecond is booked.
//! # Example
//!
//! A chip of a setup, with controller and driver, is wired by `floatgate_sim::rig`; here is what they reserve time on.
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
