//! Power cuts of a [program](crate::Program), such as a shared object ([`load`](crate::load)).
//!
//! [`explore`] first runs the workload without a cut. It then selects operations ([`Mode`]), cuts each of them in a separate run (`run`),
//! and shortens the first failure of each kind to as few steps as possible. Each failure has an [id](RunId), with which [`replay`] repeats
//! it.

mod cut;
mod explore;
mod id;
mod run;

pub use cut::{CutAt, ParseCutError, kind_name, share};
pub use explore::{Error, MinimalFailure, Mode, Options, Report, explore, replay};
pub use id::{History, ParseRunIdError, RunId};
pub use run::{Failure, FailureKind, Load, RunPhase};

/// Maximum number of steps of a workload.
pub const STEPS_MAX: usize = 100_000;

/// Maximum number of power cuts in a run.
pub const CUTS_MAX: usize = 1000;
