//! Integration tests of the laboratory, one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panic")]

mod age;
mod cards;
mod catalogue;
mod common;
mod concat;
mod config_golden;
mod examples;
mod filesystems;
mod fit;
mod fs_compare;
mod kernel_chips;
mod linux;
mod machine;
mod powercut;
mod published;
mod published_wear;
mod rigs;
mod rigs_random;
mod rigs_state;
mod setup_keys;
mod slc_mode;
mod traces;
mod wear_traces;
mod wire;
