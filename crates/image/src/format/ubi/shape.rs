//! Sizes of a UBI device.

use serde::Serialize;

/// Offsets and sizes in a UBI device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UbiShape {
    /// Bytes of a PEB.
    pub peb_bytes: u32,
    /// Byte in a PEB where the VID header begins.
    pub vid_header_offset: u32,
    /// Byte in a PEB where data begin.
    pub data_offset: u32,
    /// Smallest write, bytes: a page; 1 on NOR. A guess unless there is OOB, or a UBIFS that tells.
    pub min_io_bytes: u32,
}
