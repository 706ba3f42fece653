//! UBIFS over any [`Volume`](crate::Volume).

mod commit;
pub mod compress;
mod core;
mod error;
mod gc;
mod io;
mod journal;
mod layout;
mod mount;
mod space;
mod tnc;
mod wbuf;

pub use error::{Error, Result};
pub use layout::{Head, Place};
