//! Format of YAFFS2: chunks of one page, each with tags (facts of `yaffs_guts.h` and `yaffs_packedtags2.h`).
//!
//! - `tags`: object of a chunk, and its position in the object, with an ECC.
//! - `header`: name and attributes of an object, with its extended attributes.
//! - `shape`: sizes of page and OOB, and the position of the tags, detected in a dump.

mod header;
mod shape;
mod tags;

pub(crate) use header::{Header, ObjectKind, Xattr, emit_xattrs, parse_xattrs};
pub(crate) use shape::{Chunk, Shape, Spare, begins};
pub(crate) use tags::{OBJECT_MAX, SEQUENCE_MIN, TAGS, Tags};

/// Byte order of tags and headers: the byte order of the machine that wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Little-endian.
    Little,
    /// Big-endian.
    Big,
}

impl Order {
    /// Number at an offset; 0 after the end.
    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; 4]);
        match self {
            Self::Little => u32::from_le_bytes(word),
            Self::Big => u32::from_be_bytes(word),
        }
    }

    /// Bytes of a number.
    pub(crate) const fn bytes(self, number: u32) -> [u8; 4] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }

    /// Name for display.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Little => "little endian",
            Self::Big => "big endian",
        }
    }
}

/// Writes a number at an offset, which must be inside `bytes`.
fn put(order: Order, bytes: &mut [u8], at: usize, number: u32) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&order.bytes(number));
    }
}
