//! UBIFS with authentication and encryption, in images made by `mkfs.ubifs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

mod authentication;
mod common;
mod encryption;
mod forgery;
mod journal;
mod signer;
