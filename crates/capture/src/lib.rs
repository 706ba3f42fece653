//! Captures of logic analysers, and traces for their viewers.
//!
//! - [`read`]: extracts the CS# windows from a CSV or VCD file, with one data line in each direction;
//! - [`check`]: runs these commands on a simulated chip;
//! - [`export`]: exports a traced operation as VCD or as JSON for Perfetto.

mod check;
pub mod export;
mod read;

pub use check::{Command, Polls, Report, Wrong, check};
pub use read::{Capture, Channels, Error, Window, read};
