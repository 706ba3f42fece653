//! Probes of simulated cards whose truth is known.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail by panic and print; Clippy's exception covers only #[test] functions"
)]

mod announced;
mod blind;
mod cached;
mod calibration;
mod fakes;
mod generator;
mod hostile;
mod limits;
mod logs;
mod parts;
