//! Power cuts of a [program](crate::Program), such as a shared object ([`load`](crate::load)).
//!
//! [`explore`] rehearses the workload without a cut, chooses operations ([`Mode`]), cuts each in a run of its own (`run`), and shortens the
//! first failure of each kind to the fewest steps. Each failure has an [id](RunId) that [`replay`] repeats.

mod cut;
mod explore;
mod id;
mod run;

pub use cut::{CutAt, ParseCutError, kind_name, share};
pub use explore::{Error, MinimalFailure, Mode, Options, Report, explore, replay};
pub use id::{History, ParseRunIdError, RunId};
pub use run::{Failure, FailureKind, Load, RunPhase};

/// Steps of a workload at most.
pub const STEPS_MAX: usize = 100_000;

/// Power cuts of a run at most.
pub const CUTS_MAX: usize = 1000;
