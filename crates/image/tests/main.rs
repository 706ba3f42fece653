//! Integration tests of images, one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panic")]

mod build;
mod ecc;
mod ecc_detect;
mod ecc_join;
mod ecc_layouts;
mod ecc_merge;
mod gpt;
mod jffs2;
mod readonly;
