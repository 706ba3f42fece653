//! The boundary between flash and everything that sits on it.
//!
//! In the order data flows:
//!
//! - [`time`]: virtual time. An operation takes `now` and says when it is done; no layer reads a clock.
//! - [`account`]: where the time went, split over ten [`Phase`]s that add up to the whole.
//! - [`geometry`]: sizes of pages, blocks, OOB areas.
//! - [`device`]: the [`Mtd`] trait itself, a handful of calls plus the geometry.
//! - [`error`]: what can go wrong, when and where. Corrected bit errors are data, not an error.
#![no_std]

extern crate alloc;

pub mod account;
pub mod device;
pub mod error;
pub mod geometry;
pub mod time;

pub use account::{Breakdown, Phase};
pub use device::{Done, Mtd, OobMode, OtpArea, OtpRegion};
pub use error::{Error, ErrorKind};
pub use geometry::{FlashKind, Geometry};
pub use time::{Instant, Nanos};
