//! Tests of the library from the view of a program that uses it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod card;
mod errors;
mod examples;
mod files;
mod flash;
mod power;

use floatgate::Setup;

/// A board with a small partition of SPI NAND.
fn small() -> Setup {
    Setup::named("am62a-nopm-w35n01jw").unwrap().with("partition.size=8MiB").unwrap()
}
