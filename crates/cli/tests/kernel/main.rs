//! Linux as the judge: its kernel reads what floatgate writes, and floatgate what the kernel writes.
//!
//! Ignored unless asked for, because they boot a kernel: `./test` prepares it (`guest/judge --prepare`) and runs
//! them, `cargo test --test kernel -- --ignored` does it by hand.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

mod card;
#[path = "../../../stack/tests/changes/mod.rs"]
mod changes;
mod chips;
mod ecc;
mod flips;
mod jffs2;
mod judge;
mod judged;
mod live;
mod log;
mod manifest;
mod module;
#[path = "../cli/mounted.rs"]
mod mounted;
mod mtd;
mod ours;
mod tar;
mod ubifs;
mod ubifs_built;
mod ubifs_edited;
mod ubifs_large;
mod ubifs_live;
mod ubifs_mounted;
mod ubifs_reads;
mod ubifs_rebuilt;
mod ubifs_repaired;
mod witness;
mod workload;
