//! The boundary between flash and everything that sits on it.
//!
//! In the order data flows:
//!
//! - [`time`]: virtual time. An operation takes `now` and says when it is done; no layer reads a clock.
//! - [`account`]: where the time went, split over ten [`Phase`]s that add up to the whole.
//! - [`geometry`]: sizes of pages, blocks, OOB areas; [`pairing`]: which pages of an MLC block share their cells.
//! - [`device`]: the [`Mtd`] trait itself, a handful of calls plus the geometry.
//! - [`error`]: what can go wrong, when and where. Corrected bit errors are data, not an error.
//!
//! And wrappers, devices themselves, which go on any device (`D`, `&mut D`, `Box<dyn Mtd>`) in any order:
//!
//! - [`partition`]: a window of whole erase blocks; [`mod@concat`]: several devices end to end; [`slc_mode`]: one page of
//!   each pair of an MLC device.
//! - [`observe`]: tells an observer of every call. Two observers come with it: [`trace`] records the calls,
//!   [`meter`] counts them by [`operation`] with their [`latency`] and breakdown.
//! - [`power_cut`]: power goes away at the operation of choice. [`faults`]: bit errors, bad blocks, operations that fail.
//!
//! [`replace`] moves the data of a failing block. [`ram`] is a device in memory.
#![no_std]

extern crate alloc;

pub mod account;
pub mod concat;
pub mod device;
pub mod error;
pub mod faults;
mod forward;
pub mod geometry;
pub mod latency;
pub mod meter;
pub mod observe;
pub mod operation;
pub mod pairing;
pub mod partition;
pub mod power_cut;
pub mod ram;
mod random;
pub mod replace;
pub mod slc_mode;
pub mod time;
pub mod trace;

#[cfg(test)]
mod composed;
#[cfg(test)]
mod double;

pub use account::{Breakdown, Phase};
pub use concat::{Concat, ConcatError};
pub use device::{Done, Mtd, OobMode, OtpArea, OtpRegion};
pub use error::{Error, ErrorKind};
pub use faults::{FaultPlan, Faults};
pub use geometry::{FlashKind, Geometry};
pub use latency::Latency;
pub use meter::Meter;
pub use operation::Operation;
pub use pairing::{Group, PairPlace, Pairing, PairingError, PairingScheme};
pub use partition::{Partition, PartitionError};
pub use power_cut::{Cut, CutKind, PowerCut, Stage, Tear};
pub use ram::RamFlash;
pub use replace::{Replaced, replace_block};
pub use slc_mode::{SlcMode, SlcModeError};
pub use time::{Instant, Nanos};
pub use trace::Trace;
