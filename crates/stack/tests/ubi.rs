//! UBI over flash in memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail by panic and say why it was skipped; Clippy's exception covers only #[test] functions"
)]

mod basics;
mod common;
mod cuts;
mod fastmap;
mod found;
mod model;
mod random;
mod ubinize;
mod update;
