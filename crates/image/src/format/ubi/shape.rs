//! Sizes of a UBI device, and the flash that it was made for.

use floatgate_mtd::{FlashKind, Geometry};
use serde::Serialize;

/// Offsets and sizes in a UBI device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UbiShape {
    /// Size of a PEB, bytes.
    pub peb_bytes: u32,
    /// Offset of the VID header in a PEB, bytes.
    pub vid_header_offset: u32,
    /// Offset of the data in a PEB, bytes.
    pub data_offset: u32,
    /// Smallest write, bytes: a page; 1 on NOR. It is a guess without OOB, and without a UBIFS that states it.
    pub min_io_bytes: u32,
}

/// Size of the program buffer that is assumed for NOR, bytes: the page of an SPI NOR chip. Parallel NOR has buffers
/// of 32 to 1024 bytes.
const NOR_BUFFER: u32 = 256;

/// Smallest write of UBIFS on NOR, bytes.
const UBIFS_MIN_IO: u32 = 8;

/// Largest write of a UBIFS without UBI in bytes, derived from its smallest write.
pub(crate) const fn max_write_bytes(min_io_bytes: u32) -> u32 {
    if min_io_bytes == UBIFS_MIN_IO { NOR_BUFFER } else { min_io_bytes }
}

/// Flash for which a UBI device was made, derived from its headers.
pub fn flash_geometry(shape: &UbiShape, len: u64) -> Geometry {
    let min_io = shape.min_io_bytes;
    let is_nor = min_io < 256;
    let kind = if is_nor { FlashKind::Nor } else { FlashKind::SlcNand };
    let size_bytes = len.next_multiple_of(u64::from(shape.peb_bytes));
    Geometry {
        buffer_bytes: if is_nor { NOR_BUFFER } else { min_io },
        sub_page_bytes: sub_page_bytes(shape, min_io),
        ..Geometry::plain(kind, size_bytes, shape.peb_bytes, min_io)
    }
}

fn sub_page_bytes(shape: &UbiShape, min_io: u32) -> u32 {
    let vid = shape.vid_header_offset;
    if vid.is_power_of_two() && vid < min_io { vid } else { min_io }
}
