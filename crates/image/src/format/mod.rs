//! The part of the formats that no filesystem shares: UBI devices, and the structures of filesystems.

pub(crate) mod mapped;
pub(crate) mod ubi;
pub(crate) mod ubifs;
