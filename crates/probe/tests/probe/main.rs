//! Probes of simulated cards whose truth is known.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

mod blind;
mod generator;
