//! Captures of logic analysers, and traces for their viewers.
//!
//! - [`read`]: a CSV or VCD file to the windows of CS# that are in it, one data line in each direction;
//! - [`check`]: what a simulated chip says about these commands;
//! - [`export`]: a traced operation as VCD or as JSON for Perfetto.

mod check;
pub mod export;
mod read;

pub use check::{Command, Polls, Report, Wrong, check};
pub use read::{Capture, Channels, Error, Window, read};
