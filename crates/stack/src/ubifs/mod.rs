//! UBIFS over any [`Volume`](crate::Volume).

mod auth;
mod check;
mod commit;
pub mod compress;
mod core;
mod error;
mod files;
mod filesystem;
mod gc;
mod io;
mod journal;
mod layout;
mod limits;
mod mount;
mod reclaim;
mod scan;
mod space;
#[cfg(test)]
mod stress;
mod structure;
mod survey;
#[cfg(test)]
mod testing;
mod tnc;
mod wbuf;

pub use auth::{AuthKey, Authenticate, Authentication, Checked};
pub use check::Inconsistency;
pub use error::{Error, Result};
pub use files::{Behaviour, Ubifs};
pub use layout::Head;
pub use limits::Limits;
pub use mount::{
    FormatOptions, FormatStyle, MIN_LEBS, MasterState, MountOptions, check_units, least_lebs, probe,
};
pub use structure::Structure;
pub use survey::{
    Change, Child, DataBlock, Event, File, Moment, Problem, Severity, StoredBlock, Survey, Tree, entry_bytes,
};
