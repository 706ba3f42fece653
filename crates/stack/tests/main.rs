//! Integration tests of UBI, UBIFS and JFFS2, one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail by panic")]

mod changes;
mod jffs2;
mod jffs2_live;
mod large;
mod limits;
mod protected;
mod ubi;
mod ubifs;
