//! The common header at the start of every node: `docs/spec/ubifs.md#common-header`.

use super::{
    BLOCK_BYTES, Block, CommitStart, Entry, IndexNode, Inode, MAX_HASH_BYTES, MAX_INODE_DATA, MAX_NAME_BYTES,
    Master, Node, PaddingNode, Reference, SignatureNode, Superblock, Truncation,
};
use crate::crc;
use crate::error::{MediaError, Reason};
use crate::wire::{Wire, codes, layout, room, span};

/// Magic number at the start of every node, as an integer.
const MAGIC: u32 = 0x0610_1831;

/// Magic number at the start of every node, as bytes (Linux: UBIFS_NODE_MAGIC).
pub const NODE_MAGIC: [u8; 4] = MAGIC.to_le_bytes();

/// Value of the magic number in erased flash.
const ERASED: u32 = u32::MAX;

const CRC_AT: usize = 4;
const LEN_AT: usize = 16;
const TYPE_AT: usize = 20;

/// Offset of the first byte that the CRC covers.
const CRC_FROM: usize = 8;

codes! {
    /// Type of a node, its code in the common header.
    pub enum NodeType(u8) {
        /// Inode node.
        Inode = 0,
        /// Data node: a block of a file.
        Data = 1,
        /// Directory entry node.
        Entry = 2,
        /// Name of an extended attribute.
        XattrEntry = 3,
        /// Truncation of a file, in the journal only.
        Truncation = 4,
        /// Padding up to the end of a write.
        Padding = 5,
        /// Superblock node.
        Superblock = 6,
        /// Master node: the state of the last commit.
        Master = 7,
        /// Reference to a LEB of the journal, in the log.
        Reference = 8,
        /// Index node of the B+ tree.
        Index = 9,
        /// Commit start node, in the log.
        CommitStart = 10,
        /// Orphan node: inodes that were unlinked while open.
        Orphan = 11,
        /// Authentication node: an HMAC of the nodes before it.
        Auth = 12,
        /// A signature of the superblock.
        Signature = 13,
    }
}

codes! {
    /// Position of a node in a group of nodes that recovery preserves or drops together.
    pub enum Group(u8) {
        /// Not part of a group.
        None = 0,
        /// Member of a group, followed by further members.
        Member = 1,
        /// Last node of a group.
        Last = 2,
    }
}

impl NodeType {
    /// True when a node of this type can have length `len`, B, including its header.
    ///
    /// The fanout further limits index nodes; the LEB size limits orphan and signature nodes.
    pub(super) const fn allows_len(self, len: usize) -> bool {
        let (min, max) = match self {
            Self::Inode => (Inode::SIZE, Inode::SIZE + MAX_INODE_DATA as usize),
            Self::Data => (Block::SIZE, Block::SIZE + BLOCK_BYTES as usize),
            Self::Entry | Self::XattrEntry => (Entry::SIZE, Entry::SIZE + MAX_NAME_BYTES + 1),
            Self::Truncation => (Truncation::SIZE, Truncation::SIZE),
            Self::Padding => (PaddingNode::SIZE, PaddingNode::SIZE),
            Self::Superblock => (Superblock::SIZE, Superblock::SIZE),
            Self::Master => (Master::SIZE, Master::SIZE),
            Self::Reference => (Reference::SIZE, Reference::SIZE),
            Self::Index => (IndexNode::MIN_BYTES, usize::MAX),
            Self::CommitStart => (CommitStart::SIZE, CommitStart::SIZE),
            Self::Orphan => (HEADER_BYTES + 16, usize::MAX),
            Self::Auth => (HEADER_BYTES, HEADER_BYTES + MAX_HASH_BYTES),
            Self::Signature => (SignatureNode::MIN_BYTES, usize::MAX),
            Self::Other(_) => return false,
        };
        min <= len && len <= max
    }
}

layout! {
    /// Layout of the common header.
    pub(super) struct CommonHeader[24] {
        0 => magic: u32,
        4 => crc: u32,
        8 => sqnum: u64,
        16 => len: u32,
        20 => node_type: NodeType,
        21 => group: Group,
    }
}

/// Size of the common header, bytes.
pub(super) const HEADER_BYTES: usize = CommonHeader::SIZE;

/// Fields of a node's header that are independent of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Sequence number, which increases with every node written; 0 in padding.
    pub sqnum: u64,
    /// Position in a group of nodes that recovery preserves or drops together.
    pub group: Group,
}

impl Stamp {
    /// A node that is not part of a group.
    #[must_use]
    pub const fn new(sqnum: u64) -> Self {
        Self { sqnum, group: Group::None }
    }
}

/// A node with verified magic, type, length and CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Type of the node.
    pub node_type: NodeType,
    /// Sequence number and group.
    pub stamp: Stamp,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses the node at the start of `bytes`, which may be longer than the node.
    ///
    /// # Errors
    ///
    /// [`Reason::Erased`] if the magic number is all ones. Other reasons: a bad magic number, an unknown type, a
    /// length that the type cannot have, too few bytes, a bad CRC.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MediaError> {
        // The erased bytes at the end of a LEB can be too few for a header, so the magic number is checked first.
        check_magic(u32::decode(span(bytes, 0, u32::WIDTH)?, 0))?;
        let header = CommonHeader::decode(span(bytes, 0, HEADER_BYTES)?, 0);
        let node_type = header.node_type.known("node type", TYPE_AT)?;
        let bad = Reason::OutOfRange { field: "node length", value: u64::from(header.len) }.at(LEN_AT);
        let len = usize::try_from(header.len).map_err(|_| bad)?;
        if !node_type.allows_len(len) {
            return Err(bad);
        }
        let bytes = span(bytes, 0, len)?;
        check_crc(bytes, header.crc)?;
        Ok(Self { node_type, stamp: Stamp { sqnum: header.sqnum, group: header.group }, bytes })
    }

    /// The node with its fields parsed.
    ///
    /// # Errors
    ///
    /// Lengths inside the node that contradict the length of the node, or keys that do not match the node type.
    pub fn node(&self) -> Result<Node<'a>, MediaError> {
        Node::from_frame(self)
    }

    /// The bytes of the node, common header included.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

fn check_magic(found: u32) -> Result<(), MediaError> {
    match found {
        MAGIC => Ok(()),
        ERASED => Err(Reason::Erased.at(0)),
        _ => Err(Reason::BadMagic { what: "node", expected: MAGIC, found }.at(0)),
    }
}

fn check_crc(node: &[u8], stored: u32) -> Result<(), MediaError> {
    let computed = node_crc(node);
    if stored == computed {
        return Ok(());
    }
    Err(Reason::BadCrc32 { what: "node", stored, computed }.at(CRC_AT))
}

fn node_crc(node: &[u8]) -> u32 {
    crc::ubi(node.get(CRC_FROM..).unwrap_or(&[]))
}

/// Common operations of all node types.
pub trait NodeBody {
    /// Type of the node.
    fn node_type(&self) -> NodeType;

    /// Length of the node, bytes, including the common header; the next node begins at the next multiple of 8.
    fn node_bytes(&self) -> usize;

    /// Writes the fields behind the common header into `out`, which contains zeros and has the length of the node.
    ///
    /// # Errors
    ///
    /// A value that its field cannot hold.
    fn put_fields(&self, out: &mut [u8]) -> Result<(), MediaError>;

    /// Writes the node to the start of `out` and returns its length.
    ///
    /// # Errors
    ///
    /// No room, more data than a node of its type holds, or a value that its field cannot hold.
    fn emit(&self, stamp: Stamp, out: &mut [u8]) -> Result<usize, MediaError> {
        let len = self.node_bytes();
        let bad = Reason::OutOfRange { field: "node length", value: len as u64 }.at(LEN_AT);
        let node_type = self.node_type();
        let len_field = u32::try_from(len).ok().filter(|_| node_type.allows_len(len)).ok_or(bad)?;
        let out = room(out, len)?;
        out.fill(0);
        let Stamp { sqnum, group } = stamp;
        CommonHeader { magic: MAGIC, crc: 0, sqnum, len: len_field, node_type, group }.put(out, 0);
        self.put_fields(out)?;
        node_crc(out).put(out, CRC_AT);
        Ok(len)
    }
}

/// Defines structs of [`layout!`] nodes without variable parts.
macro_rules! fixed_nodes {
    ($($name:ident => $node_type:ident),* $(,)?) => { $(
        impl $crate::ubifs::NodeBody for $name {
            fn node_type(&self) -> $crate::ubifs::NodeType {
                $crate::ubifs::NodeType::$node_type
            }

            fn node_bytes(&self) -> usize {
                Self::SIZE
            }

            fn put_fields(&self, out: &mut [u8]) -> Result<(), $crate::MediaError> {
                $crate::wire::Wire::put(self, out, 0);
                Ok(())
            }
        }
    )* };
}

pub(super) use fixed_nodes;
