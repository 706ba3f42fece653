//! JFFS2: nodes and eraseblock summaries, in either byte order.
//!
//! A JFFS2 is a log of nodes without an index: a mount reads all eraseblocks. Each node begins at a multiple of
//! [`NODE_ALIGN`] bytes with a [`Header`], whose CRC protects its length. The CRCs of fields, name and data are
//! separate, so that a node can be found without reading its data. Integers are in the byte order of the target
//! machine: [`Endian`] is passed along.
//!
//! Tables of the bytes: `docs/spec/jffs2.md`. Source of the facts: Linux 6.12, `include/uapi/linux/jffs2.h`,
//! `fs/jffs2`.

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

/// Maximum number of bytes at the end of a page that Linux fills with zeros instead of a padding node: the size of a
/// header (`__jffs2_flush_wbuf` in `fs/jffs2/wbuf.c`). No node with content is that short.
pub const ZERO_FILL: usize = Header::SIZE;

/// Inode of the root directory.
pub const ROOT_INODE: u32 = 1;

/// Magic number of the first JFFS2 of 2001, in place of [`MAGIC`]. Layouts and CRCs are the same. Linux ignores such
/// nodes.
pub const OLD_MAGIC: u16 = 0x1984;

/// Byte order and magic number of a filesystem on flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Endian {
    /// The least significant byte first.
    #[default]
    Little,
    /// The most significant byte first.
    Big,
    /// The least significant byte first, with [`OLD_MAGIC`].
    OldLittle,
    /// The most significant byte first, with [`OLD_MAGIC`].
    OldBig,
}

impl Endian {
    /// All combinations of byte order and magic number.
    pub const ALL: [Self; 4] = [Self::Little, Self::Big, Self::OldLittle, Self::OldBig];

    /// The variant whose magic number the first two bytes are.
    #[must_use]
    pub fn of_magic(bytes: &[u8]) -> Option<Self> {
        let magic = bytes.first_chunk::<2>()?;
        Self::ALL.into_iter().find(|endian| endian.magic() == *magic)
    }

    /// The first two bytes of a node: the magic number in this byte order.
    #[must_use]
    pub const fn magic(self) -> [u8; 2] {
        let number = self.magic_number();
        if self.is_big() { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    /// The magic number as an integer.
    #[must_use]
    pub const fn magic_number(self) -> u16 {
        if self.is_old() { OLD_MAGIC } else { MAGIC }
    }

    /// True when the most significant byte comes first.
    #[must_use]
    pub const fn is_big(self) -> bool {
        matches!(self, Self::Big | Self::OldBig)
    }

    /// True for a filesystem with [`OLD_MAGIC`].
    #[must_use]
    pub const fn is_old(self) -> bool {
        matches!(self, Self::OldLittle | Self::OldBig)
    }

    /// A value at byte `at`; bytes past the end read as zero.
    fn decode<T: Wire + BigWire>(self, bytes: &[u8], at: usize) -> T {
        if self.is_big() { BigWire::decode(bytes, at) } else { Wire::decode(bytes, at) }
    }

    /// Writes a value at byte `at`.
    fn put<T: Wire + BigWire>(self, value: &T, bytes: &mut [u8], at: usize) {
        if self.is_big() { BigWire::put(value, bytes, at) } else { Wire::put(value, bytes, at) }
    }
}
