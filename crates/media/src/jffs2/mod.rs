//! JFFS2: nodes and eraseblock summaries, in either byte order.
//!
//! A JFFS2 is a log of nodes without an index: whoever mounts it reads all eraseblocks. Each node begins at a multiple of
//! [`NODE_ALIGN`] bytes with a [`Header`], whose CRC says that its length can be trusted; the CRCs of fields, name and data
//! are apart, so that a node can be found without reading its data. Integers are in the byte order of the machine that the
//! filesystem is for: [`Endian`] goes along.
//!
//! Tables of the bytes: `docs/spec/jffs2.md`. Source of the facts: Linux 6.12, `include/uapi/linux/jffs2.h`, `fs/jffs2`.

mod acl;
mod body;
mod dirent;
mod header;
mod inode;
mod summary;
mod xattr;

pub use acl::{AclEntries, acl_bytes, emit_acl};
pub use body::Body;
pub use dirent::{Dirent, DirentNode, dirent_type, file_type};
pub use header::{Header, NodeType};
pub use inode::{Compressor, Inode, device_number, emit_device_number};
pub use summary::{Entry, Summary, SummaryMarker, emit_summary};
pub use xattr::{Xattr, XattrNode, XattrPrefix, Xref};

use crate::wire::{BigWire, Wire};

/// First two bytes of a node, as a number.
pub const MAGIC: u16 = 0x1985;

/// Nodes begin at multiples of this many bytes.
pub const NODE_ALIGN: u32 = 4;

/// Most bytes at the end of a page that Linux fills with zeros instead of a padding node: those of a header
/// (`__jffs2_flush_wbuf` in `fs/jffs2/wbuf.c`). No node with a content is as short.
pub const ZERO_FILL: usize = Header::SIZE;

/// Inode of the root directory.
pub const ROOT_INODE: u32 = 1;

/// Byte order of a filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Endian {
    /// The least significant byte first.
    #[default]
    Little,
    /// The most significant byte first.
    Big,
}

impl Endian {
    /// The byte order in which the first two bytes are [`MAGIC`].
    #[must_use]
    pub fn of_magic(bytes: &[u8]) -> Option<Self> {
        match *bytes.first_chunk::<2>()? {
            [0x85, 0x19] => Some(Self::Little),
            [0x19, 0x85] => Some(Self::Big),
            _ => None,
        }
    }

    /// The first two bytes of a node.
    #[must_use]
    pub const fn magic(self) -> [u8; 2] {
        match self {
            Self::Little => MAGIC.to_le_bytes(),
            Self::Big => MAGIC.to_be_bytes(),
        }
    }

    /// A value at byte `at`; bytes past the end read as zero.
    fn take<T: Wire + BigWire>(self, bytes: &[u8], at: usize) -> T {
        match self {
            Self::Little => Wire::take(bytes, at),
            Self::Big => BigWire::take(bytes, at),
        }
    }

    /// Writes a value at byte `at`.
    fn put<T: Wire + BigWire>(self, value: &T, bytes: &mut [u8], at: usize) {
        match self {
            Self::Little => Wire::put(value, bytes, at),
            Self::Big => BigWire::put(value, bytes, at),
        }
    }
}
