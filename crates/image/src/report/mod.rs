//! Reports about an image and its parts: findings of a check, nodes field by field, old versions, losses, raw bytes.

mod check;
mod dumped;
mod loss;
mod raw;
mod revision;

pub use check::{CheckReport, Finding, ImageCheck, Layer, Outcome, PebCounts, Structure, VolumeCheck};
pub(crate) use dumped::hex;
pub use dumped::{Area, DumpTarget, Dumped, Field};
pub use loss::Loss;
pub use raw::RawVolume;
pub(crate) use raw::copy;
pub(crate) use revision::LastNames;
pub use revision::{At, Change, Revision};
