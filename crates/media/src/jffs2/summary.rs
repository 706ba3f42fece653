//! Summaries: a list of an eraseblock's nodes at its end, so that a mount need not read the whole eraseblock:
//! `docs/spec/jffs2.md#summary`.

use super::header::{NodeType, check_crc};
use super::{Dirent, DirentNode, Endian, Header, Inode, Xattr, XattrNode, Xref};
use crate::crc;
use crate::error::{MediaError, Reason};
use crate::wire::{layout, span};

const SUM_CRC_AT: usize = 24;
const NODE_CRC_AT: usize = 28;

layout! {
    /// Last 8 bytes of an eraseblock with a summary.
    pub either_endian struct SummaryMarker[8] {
        /// Offset of the summary node in the eraseblock, bytes.
        0 => offset: u32,
        /// Magic number: [`MAGIC`](Self::MAGIC).
        4 => magic: u32,
    }
}

impl SummaryMarker {
    /// Magic number at the end of an eraseblock that has a summary.
    pub const MAGIC: u32 = 0x0285_1885;

    /// The marker in the last bytes of an eraseblock, if there is one.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::SIZE], endian: Endian) -> Option<Self> {
        let marker: Self = endian.decode(bytes, 0);
        (marker.magic == Self::MAGIC).then_some(marker)
    }
}

layout! {
    /// A summary node without its header and its list.
    either_endian struct RawSummary[32] {
        12 => entries: u32,
        16 => clean_marker: u32,
        20 => padded: u32,
        24 => sum_crc: u32,
        28 => node_crc: u32,
    }
}

layout! {
    either_endian struct RawInode[18] {
        0 => node_type: u16,
        2 => inode: u32,
        6 => version: u32,
        10 => offset: u32,
        14 => len: u32,
    }
}

layout! {
    either_endian struct RawDirent[24] {
        0 => node_type: u16,
        2 => len: u32,
        6 => offset: u32,
        10 => parent: u32,
        14 => version: u32,
        18 => inode: u32,
        22 => name_len: u8,
        23 => dirent_type: u8,
    }
}

layout! {
    either_endian struct RawXattr[18] {
        0 => node_type: u16,
        2 => xid: u32,
        6 => version: u32,
        10 => offset: u32,
        14 => len: u32,
    }
}

layout! {
    either_endian struct RawXref[6] {
        0 => node_type: u16,
        2 => offset: u32,
    }
}

/// Entry of a node in a summary. Offsets are relative to the start of the eraseblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry<'a> {
    /// An inode node.
    Inode {
        /// Inode number.
        inode: u32,
        /// Version of the node.
        version: u32,
        /// Offset of the node, bytes.
        offset: u32,
        /// Length of the node, bytes.
        len: u32,
    },
    /// A dirent node.
    Dirent {
        /// Inode of the directory.
        parent: u32,
        /// Version of the node.
        version: u32,
        /// Inode number that the name refers to; 0 if the name was removed.
        inode: u32,
        /// Type of the file in `readdir` encoding.
        dirent_type: u8,
        /// Offset of the node, bytes.
        offset: u32,
        /// Length of the node, bytes.
        len: u32,
        /// Name in the directory.
        name: &'a [u8],
    },
    /// An xattr node.
    Xattr {
        /// Number (xid) of the attribute.
        xid: u32,
        /// Version of the node.
        version: u32,
        /// Offset of the node, bytes.
        offset: u32,
        /// Length of the node, bytes.
        len: u32,
    },
    /// An xref node.
    Xref {
        /// Offset of the node, bytes.
        offset: u32,
    },
}

impl<'a> Entry<'a> {
    /// Entry of a node at an offset in its eraseblock. `None` for nodes that summaries do not list, and for nodes with
    /// a wrong CRC other than the data CRC.
    #[must_use]
    pub fn of_node(header: &Header, node: &'a [u8], offset: u32, endian: Endian) -> Option<Self> {
        let len = header.len;
        match header.node_type {
            _ if header.obsolete => None,
            NodeType::Inode => {
                let Inode { inode, version, .. } = Inode::parse(node, endian).ok()?;
                Some(Self::Inode { inode, version, offset, len })
            }
            NodeType::Dirent => {
                let DirentNode { dirent, name } = DirentNode::parse(node, endian).ok()?;
                let Dirent { parent, version, inode, dirent_type, .. } = dirent;
                Some(Self::Dirent { parent, version, inode, dirent_type, offset, len, name })
            }
            NodeType::Xattr => {
                let Xattr { xid, version, .. } = XattrNode::parse(node, endian).ok()?.xattr;
                Some(Self::Xattr { xid, version, offset, len })
            }
            NodeType::Xref => Xref::parse(node, endian).ok().map(|_| Self::Xref { offset }),
            _ => None,
        }
    }
}

impl Entry<'_> {
    /// Offset of the node in its eraseblock, bytes.
    #[must_use]
    pub const fn offset(&self) -> u32 {
        match *self {
            Self::Inode { offset, .. }
            | Self::Dirent { offset, .. }
            | Self::Xattr { offset, .. }
            | Self::Xref { offset } => offset,
        }
    }

    /// Size of the entry in a summary, bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        match self {
            Self::Inode { .. } => RawInode::SIZE,
            Self::Dirent { name, .. } => RawDirent::SIZE + name.len(),
            Self::Xattr { .. } => RawXattr::SIZE,
            Self::Xref { .. } => RawXref::SIZE,
        }
    }

    /// Writes the entry.
    ///
    /// # Panics
    ///
    /// `out` is not as long as the entry; a name of more than 255 bytes.
    pub fn emit(&self, endian: Endian, out: &mut [u8]) {
        match *self {
            Self::Inode { inode, version, offset, len } => {
                endian.put(
                    &RawInode { node_type: NodeType::Inode.code(), inode, version, offset, len },
                    out,
                    0,
                );
            }
            Self::Dirent { parent, version, inode, dirent_type, offset, len, name } => {
                assert!(name.len() <= usize::from(u8::MAX));
                let (node_type, name_len) = (NodeType::Dirent.code(), name.len() as u8);
                let raw = RawDirent { node_type, len, offset, parent, version, inode, name_len, dirent_type };
                endian.put(&raw, out, 0);
                out[RawDirent::SIZE..].copy_from_slice(name);
            }
            Self::Xattr { xid, version, offset, len } => {
                endian.put(
                    &RawXattr { node_type: NodeType::Xattr.code(), xid, version, offset, len },
                    out,
                    0,
                );
            }
            Self::Xref { offset } => {
                endian.put(&RawXref { node_type: NodeType::Xref.code(), offset }, out, 0);
            }
        }
    }
}

/// Size of a summary without its list, B: the fields, and the marker at the end.
const BESIDE_LIST: usize = RawSummary::SIZE + SummaryMarker::SIZE;

/// Writes a summary to `out`, the last bytes of an eraseblock, which start at byte `offset` of the eraseblock. `list`
/// contains `count` entries; unused bytes are set to 0xFF.
///
/// # Panics
///
/// `out` is shorter than the list plus [`Summary::BESIDE_LIST`] bytes.
pub fn emit_summary(
    (entries, list): (u32, &[u8]),
    clean_marker: u32,
    offset: u32,
    endian: Endian,
    out: &mut [u8],
) {
    assert!(list.len() + BESIDE_LIST <= out.len());
    let marker_at = out.len() - SummaryMarker::SIZE;
    out[RawSummary::SIZE..marker_at].fill(0xFF);
    out[RawSummary::SIZE..][..list.len()].copy_from_slice(list);
    endian.put(&SummaryMarker { offset, magic: SummaryMarker::MAGIC }, out, marker_at);
    let sum_crc = crc::jffs2(&out[RawSummary::SIZE..]);
    let len = out.len() as u32;
    endian.put(&RawSummary { entries, clean_marker, padded: 0, sum_crc, node_crc: 0 }, out, 0);
    Header::new(NodeType::Summary, len).emit(endian, out);
    let node_crc = crc::jffs2(&out[..SUM_CRC_AT]);
    endian.put(&node_crc, out, NODE_CRC_AT);
}

/// A summary node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary<'a> {
    endian: Endian,
    entries: u32,
    list: &'a [u8],
}

impl<'a> Summary<'a> {
    /// Size of a summary without its list of entries, B.
    pub const BESIDE_LIST: usize = BESIDE_LIST;

    /// Reads a summary from the bytes between its beginning and the end of the eraseblock, and checks its CRCs.
    ///
    /// # Errors
    ///
    /// Too few bytes, a wrong CRC, a node of another type or length.
    pub fn parse(bytes: &'a [u8], endian: Endian) -> Result<Self, MediaError> {
        let header = Header::parse(bytes, endian)?;
        if header.node_type != NodeType::Summary || header.len as usize != bytes.len() {
            return Err(Reason::Inconsistent { what: "no summary that ends with the eraseblock" }.at(0));
        }
        let fields = span(bytes, 0, RawSummary::SIZE)?;
        let raw: RawSummary = endian.decode(fields, 0);
        check_crc("summary", NODE_CRC_AT, raw.node_crc, &fields[..SUM_CRC_AT])?;
        let list = &bytes[RawSummary::SIZE..];
        check_crc("list of the summary", SUM_CRC_AT, raw.sum_crc, list)?;
        Ok(Self { endian, entries: raw.entries, list })
    }

    /// Entries of the eraseblock's nodes, in stored order. The first damaged entry yields an error and ends the
    /// iteration.
    pub fn entries(&self) -> impl Iterator<Item = Result<Entry<'a>, MediaError>> {
        let (endian, list) = (self.endian, self.list);
        let (mut at, mut left) = (0, self.entries);
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let entry = entry(endian, list, at);
            match entry {
                Ok((_, next)) => at = next,
                Err(_) => left = 0,
            }
            Some(entry.map(|(entry, _)| entry))
        })
    }
}

/// The entry at byte `at` of the list, and the offset of the next entry.
fn entry(endian: Endian, list: &[u8], at: usize) -> Result<(Entry<'_>, usize), MediaError> {
    let node_type = NodeType::from_code(endian.decode(span(list, at, 2)?, 0));
    Ok(match node_type {
        NodeType::Inode => {
            let raw: RawInode = endian.decode(span(list, at, RawInode::SIZE)?, 0);
            let entry =
                Entry::Inode { inode: raw.inode, version: raw.version, offset: raw.offset, len: raw.len };
            (entry, at + RawInode::SIZE)
        }
        NodeType::Dirent => {
            let raw: RawDirent = endian.decode(span(list, at, RawDirent::SIZE)?, 0);
            let name = span(list, at + RawDirent::SIZE, usize::from(raw.name_len))?;
            let RawDirent { parent, version, inode, dirent_type, offset, len, .. } = raw;
            let entry = Entry::Dirent { parent, version, inode, dirent_type, offset, len, name };
            (entry, at + RawDirent::SIZE + name.len())
        }
        NodeType::Xattr => {
            let raw: RawXattr = endian.decode(span(list, at, RawXattr::SIZE)?, 0);
            let RawXattr { xid, version, offset, len, .. } = raw;
            (Entry::Xattr { xid, version, offset, len }, at + RawXattr::SIZE)
        }
        NodeType::Xref => {
            let raw: RawXref = endian.decode(span(list, at, RawXref::SIZE)?, 0);
            (Entry::Xref { offset: raw.offset }, at + RawXref::SIZE)
        }
        other => {
            return Err(Reason::UnknownCode { what: "node in a summary", code: other.code().into() }.at(at));
        }
    })
}
