//! Sizes of a UBIFS without UBI.

use serde::Serialize;

/// Sizes of the LEBs of a UBIFS without UBI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UbifsShape {
    /// Size of a LEB, bytes.
    pub leb_bytes: u32,
    /// Smallest write, bytes.
    pub min_io_bytes: u32,
}
