//! Tests that the examples run without an error.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "../../../examples/bad_block.rs"]
mod bad_block;
#[path = "../../../examples/power_cut.rs"]
mod power_cut;
#[path = "../../../examples/read_page.rs"]
mod read_page;
#[path = "../../../examples/ubifs_on_a_chip.rs"]
mod ubifs_on_a_chip;

#[test]
fn a_page_is_read() {
    read_page::main().unwrap();
}

#[test]
fn blocks_are_bad() {
    bad_block::main().unwrap();
}

#[test]
fn power_goes_away_in_a_program() {
    power_cut::main().unwrap();
}

#[test]
fn a_filesystem_is_mounted_again() {
    ubifs_on_a_chip::main().unwrap();
}
