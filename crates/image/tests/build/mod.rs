//! Images from directories, tars and volumes, read back by mounting them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

mod directories;
mod fits;
mod foreign;
mod grown;
mod memory;
mod raw;
mod support;
mod tars;
mod volumes;
