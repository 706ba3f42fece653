//! Power cuts: a filesystem on simulated flash loses power at every operation, and again while it recovers, and has to come
//! back with everything that was brought to flash.
//!
//! The [`workload`] runs once, and before each step the whole device is kept: blocks are copy-on-write, so that this costs little.
//! From there each flash operation of the step is cut, before it or in the middle of it ([`CutKind`]), power comes back, and what
//! is found is compared with what may be there (`state`). Every failure has an [`id`](CutId) that replays it alone.

mod explore;
mod id;
mod random;
mod state;
pub mod workload;

pub use explore::{Failure, Mode, Options, Report, SecondCut, WorkloadError, explore, replay};
pub use floatgate_mtd::power_cut::CutKind;
pub use id::{CutId, ParseIdError};
