//! The card through its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

mod behaviour;
mod model;
mod power;
mod spi;
mod support;
