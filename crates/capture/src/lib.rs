//! Captures of logic analysers, and export of traces to their viewers.
//!
//! - [`read`]: extracts the CS# windows from a CSV or VCD file or a session of sigrok;
//! - [`check`]: runs the commands of a capture on a simulated chip;
//! - [`export`]: exports a traced operation as VCD or as JSON for Perfetto;
//! - [`pins`]: exports the signals at the pins of a serial chip.

mod check;
mod error;
pub mod export;
pub mod pins;
mod read;
mod sigrok;

pub use check::{BrokenRule, Command, Polls, Report, check};
pub use error::Error;
pub use read::{Capture, Channels, Window, read};
