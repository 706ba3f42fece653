//! UBIFS with authentication and encryption, from images that `mkfs.ubifs` made.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

#[path = "ubifs/authentication.rs"]
mod authentication;
#[path = "ubifs/common.rs"]
mod common;
#[path = "ubifs/encryption.rs"]
mod encryption;
#[path = "ubifs/forgery.rs"]
mod forgery;
#[path = "ubifs/journal.rs"]
mod journal;
#[path = "ubifs/signer.rs"]
mod signer;
