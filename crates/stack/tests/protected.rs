//! UBIFS with authentication and encryption, from images that `mkfs.ubifs` made.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

#[path = "protected/authentication.rs"]
mod authentication;
#[path = "protected/common.rs"]
mod common;
#[path = "protected/encryption.rs"]
mod encryption;
#[path = "protected/forgery.rs"]
mod forgery;
#[path = "protected/journal.rs"]
mod journal;
#[path = "protected/signer.rs"]
mod signer;
