//! Integration tests of the codes, compiled to one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panic")]

mod common;
mod correction;
mod vectors;
