//! The common header of all nodes: `docs/spec/jffs2.md#header`.

use super::{Endian, NODE_ALIGN};
use crate::crc;
use crate::error::{MediaError, Reason, require};
use crate::wire::{codes, layout, span};

/// Bit of the node type that is cleared on NOR flash when the node becomes obsolete; the CRC is computed with the bit
/// set.
const ACCURATE: u16 = 0x2000;

/// Upper bits of the node type, which define the handling of unknown nodes.
const COMPATIBILITY: u16 = 0xC000;

/// Value of the compatibility bits that forbids mounting if the node type is unknown.
const INCOMPATIBLE: u16 = 0xC000;

codes! {
    /// Type of a node.
    pub enum NodeType(u16) {
        /// Name of an inode in a directory.
        Dirent = 0xE001,
        /// Attributes of an inode, with a part of its data.
        Inode = 0xE002,
        /// Mark of a completely erased eraseblock; on NAND it is in the OOB area.
        CleanMarker = 0x2003,
        /// Filler up to the end of a page.
        Padding = 0x2004,
        /// List of the nodes of an eraseblock, at its end.
        Summary = 0x2006,
        /// Name and value of an extended attribute.
        Xattr = 0xE008,
        /// Inode that has an extended attribute.
        Xref = 0xE009,
    }
}

impl NodeType {
    /// True for an unknown type that forbids mounting.
    #[must_use]
    pub const fn is_incompatible(self) -> bool {
        matches!(self, Self::Other(code) if code & COMPATIBILITY == INCOMPATIBLE)
    }
}

layout! {
    /// Header of a node as stored on flash.
    pub(super) either_endian struct RawHeader[12] {
        0 => magic: u16,
        2 => node_type: u16,
        4 => len: u32,
        8 => crc: u32,
    }
}

/// Header of a node: its type and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of the node.
    pub node_type: NodeType,
    /// Length of the node without alignment, B.
    pub len: u32,
    /// True if a newer node replaces this node.
    pub obsolete: bool,
}

impl Header {
    /// Bytes of a header.
    pub const SIZE: usize = RawHeader::SIZE;

    /// Reads a header and checks its CRC.
    ///
    /// # Errors
    ///
    /// Too few bytes, another magic number, a wrong CRC, a length shorter than a header.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self, MediaError> {
        let bytes = span(bytes, 0, Self::SIZE)?;
        let raw: RawHeader = endian.decode(bytes, 0);
        let magic = endian.magic_number();
        if raw.magic != magic {
            let (expected, found) = (u32::from(magic), u32::from(raw.magic));
            return Err(Reason::BadMagic { what: "node", expected, found }.at(0));
        }
        let computed = fields_crc(&bytes[..8], endian);
        if computed != raw.crc {
            return Err(Reason::BadCrc32 { what: "header", stored: raw.crc, computed }.at(8));
        }
        require(raw.len as usize >= Self::SIZE, 4, "length of a node", raw.len)?;
        let node_type = NodeType::from_code(raw.node_type | ACCURATE);
        Ok(Self { node_type, len: raw.len, obsolete: raw.node_type & ACCURATE == 0 })
    }

    /// Writes a header to the start of a node; clean markers and padding consist of the header only.
    ///
    /// # Panics
    ///
    /// `out` is shorter than a header.
    pub fn emit(&self, endian: Endian, out: &mut [u8]) {
        let mut node_type = self.node_type.code();
        if self.obsolete {
            node_type &= !ACCURATE;
        }
        let mut raw = RawHeader { magic: endian.magic_number(), node_type, len: self.len, crc: 0 };
        endian.put(&raw, out, 0);
        raw.crc = fields_crc(&out[..8], endian);
        endian.put(&raw, out, 0);
    }

    /// The header of a node that is not obsolete.
    #[must_use]
    pub const fn new(node_type: NodeType, len: u32) -> Self {
        Self { node_type, len, obsolete: false }
    }

    /// The header with the length that Linux assumes. If a clean marker has a wrong length, Linux skips only its header
    /// (`jffs2_scan_eraseblock`), so that the nodes after it are not lost.
    #[must_use]
    pub fn as_scanned(self, bytes: &[u8]) -> Self {
        let end = usize::try_from(self.len).map_or(bytes.len(), |len| len.min(bytes.len()));
        let has_more =
            || bytes.get(Self::SIZE..end).is_some_and(|rest| rest.iter().any(|&byte| byte != 0xFF));
        if self.node_type == NodeType::CleanMarker && has_more() {
            return Self { len: Self::SIZE as u32, ..self };
        }
        self
    }

    /// Distance to the next node, B.
    #[must_use]
    pub fn padded_len(&self) -> u64 {
        u64::from(self.len).next_multiple_of(u64::from(NODE_ALIGN))
    }
}

/// CRC of a node's fixed fields as originally written, with the accurate bit set.
pub(super) fn fields_crc(bytes: &[u8], endian: Endian) -> u32 {
    let high = if endian.is_big() { 2 } else { 3 };
    // No node has more than 64 bytes before the CRC of its fields.
    let mut fields = [0; 64];
    let fields = &mut fields[..bytes.len()];
    fields.copy_from_slice(bytes);
    fields[high] |= (ACCURATE >> 8) as u8;
    crc::jffs2(fields)
}

/// Checks the CRC of a node's fields, which is stored at byte `at` or later.
pub(super) fn check_fields(
    what: &'static str,
    at: usize,
    stored: u32,
    (fields, endian): (&[u8], Endian),
) -> Result<(), MediaError> {
    compare(what, at, stored, fields_crc(fields, endian))
}

/// Checks the CRC at byte `at` of a node.
pub(super) fn check_crc(what: &'static str, at: usize, stored: u32, bytes: &[u8]) -> Result<(), MediaError> {
    compare(what, at, stored, crc::jffs2(bytes))
}

fn compare(what: &'static str, at: usize, stored: u32, computed: u32) -> Result<(), MediaError> {
    if computed == stored { Ok(()) } else { Err(Reason::BadCrc32 { what, stored, computed }.at(at)) }
}
