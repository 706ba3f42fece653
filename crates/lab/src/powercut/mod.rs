//! Power cuts: a filesystem on simulated flash loses power at every operation, and again during recovery. All synced
//! data must exist afterwards.
//!
//! In the order of an exploration: a seed determines the parameters of the filesystem (`filesystem`) and the workload
//! (`workload`). The workload is recorded once (`record`): before each step the whole device is copied, which is cheap
//! because blocks are copy-on-write. The possible states after a power cut in that step are stored with the copy
//! (`expected`).
//!
//! From there, each flash operation is cut, before it or in the middle of it ([`CutKind`]). Power is restored, and the
//! filesystem is mounted, compared, used and mounted again (`cut_run`). [`Options`] select the operations to cut, and a
//! [`Report`] contains the results. Every failure has an [id](RunId) that replays it on any machine with any number of
//! threads.

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

pub use chip::{Flash, Powered};
pub use explore::{MakeFlash, Progress, explore, explore_on, on_threads, replay, replay_on};
pub use filesystem::describe;
pub use flash::{SetupFlash, erased, leb_start, shrunk};
pub use floatgate_mtd::power_cut::{CutKind, Stage};
pub use id::{CutAt, End, FlashId, MAX_CUTS, MAX_STEPS, ParseIdError, RunId};
pub use options::{Mode, Options, SecondCut};
pub use record::WorkloadError;
pub use report::{Failure, Report, StepCounts};
pub use summary::Summary;
