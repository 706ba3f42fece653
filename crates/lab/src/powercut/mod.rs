//! Power cuts: a filesystem on simulated flash loses power at every operation, and again while it recovers, and has to come
//! back with everything that was brought to flash.
//!
//! In the order of an exploration: a seed says what the filesystem is like (`filesystem`) and what is done with it (`workload`).
//! The workload is recorded once (`record`): before each step the whole device is kept (blocks are
//! copy-on-write, so that this costs little). What may be found when power goes away in that step is kept
//! with it (`state`). From there each flash operation is cut, before it or in the middle of it ([`CutKind`]),
//! power comes back, the filesystem is mounted, compared, used and mounted again (`run`). [`Options`] say
//! which operations are cut, a [`Report`] what came of it; every failure has an [id](RunId) that replays it
//! alone, on any machine with any number of threads.

mod chip;
mod cut_run;
mod expected;
mod explore;
mod filesystem;
mod flash;
mod id;
mod options;
mod record;
mod report;
mod summary;
mod workload;

pub use chip::Powered;
pub use explore::{MakeFlash, Progress, explore, explore_on, on_threads, replay, replay_on};
pub use filesystem::describe;
pub use flash::{Flash, SetupFlash, erased, leb_start, shrunk};
pub use floatgate_mtd::power_cut::{CutKind, Stage};
pub use id::{CutAt, End, FlashId, MAX_CUTS, MAX_STEPS, ParseIdError, RunId};
pub use options::{Mode, Options, SecondCut};
pub use record::WorkloadError;
pub use report::{Failure, Report, StepCounts};
pub use summary::Summary;
