//! Integration tests of the formats, compiled to one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panic")]

mod cfi;
mod common;
mod disk;
mod golden;
mod jedec;
mod lpt;
mod nand_id;
mod onfi;
mod sfdp;
mod sfdp_chips;
mod spec;
mod ubi;
mod ubifs;
