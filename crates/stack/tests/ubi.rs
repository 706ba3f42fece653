//! UBI over flash in memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail by panic and say why it was skipped; Clippy's exception covers only #[test] functions"
)]

#[path = "ubi/basics.rs"]
mod basics;
#[path = "ubi/common.rs"]
mod common;
#[path = "ubi/cuts.rs"]
mod cuts;
#[path = "ubi/fastmap.rs"]
mod fastmap;
#[path = "ubi/found.rs"]
mod found;
#[path = "ubi/model.rs"]
mod model;
#[path = "ubi/random.rs"]
mod random;
#[path = "ubi/ubinize.rs"]
mod ubinize;
#[path = "ubi/update.rs"]
mod update;
