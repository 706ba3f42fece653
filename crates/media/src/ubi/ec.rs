//! The erase counter (EC) header, first in every PEB: `docs/spec/ubi.md#erase-counter-header`.

use super::header::{HEADER_BYTES, Kind, ReadFlips, open, seal};
use super::{Geometry, MAX_ERASE_COUNT};
use crate::error::{MediaError, require};
use crate::wire::{BigWire, layout};

/// Magic number of an EC header (Linux: UBI_EC_HDR_MAGIC).
pub const EC_MAGIC: [u8; 4] = *b"UBI#";

const KIND: Kind = Kind { name: "EC header", magic: u32::from_be_bytes(EC_MAGIC) };

const ERASE_COUNT_AT: usize = 8;
const VID_HEADER_OFFSET_AT: usize = 16;
const DATA_OFFSET_AT: usize = 20;

layout! {
    /// The erase counter header.
    ///
    /// Magic, version and CRC are not fields, because they are derived from the other bytes.
    pub big_endian struct EcHeader[64] {
        /// Number of erases of the PEB, at most [`MAX_ERASE_COUNT`].
        8 => erase_count: u64,
        /// Offset of the VID header in the PEB, bytes.
        16 => vid_header_offset: u32,
        /// Offset of the data in the PEB, bytes.
        20 => data_offset: u32,
        /// Image sequence number, the same in every PEB of an image; 0 matches any number.
        24 => image_seq: u32,
    }
}

const _: () = assert!(EcHeader::SIZE == HEADER_BYTES);

impl EcHeader {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// Erased, erased with bitflips, bad magic, bad CRC, wrong version, erase counter too high.
    pub fn parse(bytes: &[u8], flips: ReadFlips) -> Result<Self, MediaError> {
        let header = Self::decode(open(bytes, &KIND, flips)?, 0);
        let count = header.erase_count;
        require(count <= MAX_ERASE_COUNT, ERASE_COUNT_AT, "erase counter", count)?;
        Ok(header)
    }

    /// Writes the header.
    #[must_use]
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        seal(self, &KIND)
    }

    /// A header for a PEB of this geometry.
    #[must_use]
    pub const fn new(erase_count: u64, image_seq: u32, geometry: &Geometry) -> Self {
        let vid_header_offset = geometry.vid_header_offset();
        Self { erase_count, vid_header_offset, data_offset: geometry.data_offset(), image_seq }
    }

    /// Compares the offsets with the device's geometry.
    ///
    /// # Errors
    ///
    /// The first offset that differs.
    pub fn check(&self, geometry: &Geometry) -> Result<(), MediaError> {
        let (vid, data) = (self.vid_header_offset, self.data_offset);
        require(vid == geometry.vid_header_offset(), VID_HEADER_OFFSET_AT, "VID header offset", vid)?;
        require(data == geometry.data_offset(), DATA_OFFSET_AT, "data offset", data)
    }
}
