//! UBIFS: nodes, keys, the LEB properties tree.
//!
//! Reading has three layers with separate errors. [`Frame::parse`] finds a node by its common header and checks its
//! CRC. [`Frame::node`] parses it to a [`Node`]. [`Node::check`] compares the fields with the [`Limits`] set by the
//! [`Superblock`]. [`NodeBody::emit`] writes nodes. A node borrows names and data from the bytes it was read from. The
//! nodes of the [`lpt`] are packed bit by bit; they are in a separate module.
//!
//! Integers are little-endian. Tables of the bytes: `docs/spec/ubifs.md`. Source of the facts: Linux 6.12, `fs/ubifs`.

mod auth;
mod data;
mod entry;
mod header;
mod index;
mod inode;
mod journal;
mod key;
mod limits;
pub mod lpt;
mod master;
mod node;
mod padding;
mod superblock;

pub use auth::{AuthNode, HashAlgorithm, SignatureNode, SignatureType, hmac_parts};
pub use data::{Block, DataNode};
pub use entry::{Entry, EntryNode};
pub use header::{Frame, Group, NODE_MAGIC, NodeBody, NodeType, Stamp};
pub use index::{Branch, IndexNode};
pub use inode::{Inode, InodeNode};
pub use journal::{CommitStart, OrphanNode, Reference, Truncation};
pub use key::{Key, KeyHash, KeyType};
pub use limits::Limits;
pub use master::{Master, MasterFlags};
pub use node::Node;
pub use padding::{PADDING_BYTE, PaddingNode, pad, padding_bytes};
pub use superblock::{Superblock, SuperblockFlags};

/// Newest version of the UBIFS format.
pub const FORMAT_VERSION: u32 = 5;

/// Nodes begin at multiples of this many bytes.
pub const NODE_ALIGN: u32 = 8;

/// Maximum number of file bytes in a data node.
pub const BLOCK_BYTES: u32 = 4096;

/// Maximum size of the data attached to an inode, bytes: a symbolic link's target or an extended attribute's value.
pub const MAX_INODE_DATA: u32 = BLOCK_BYTES;

/// Maximum size of a file, bytes: the number of blocks that a key can address.
pub const MAX_FILE_BYTES: u64 = (1 << 29) * BLOCK_BYTES as u64;

/// Maximum length of a name, bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// Inode of the root directory.
pub const ROOT_INODE: u32 = 1;

/// First inode number of files other than the root directory.
pub const FIRST_INODE: u32 = 64;

/// Highest inode number that is assigned.
pub const INODE_WATERMARK: u64 = 0xFFFF_FF00;

/// Maximum length of a hash or HMAC, bytes (SHA-512).
pub const MAX_HASH_BYTES: usize = 64;

/// Number of journal heads that hold no file data: the garbage collector's head and the head of inodes and
/// directories.
pub const NON_DATA_HEADS: u32 = 2;

/// Number of the LEB with the superblock.
pub const SUPERBLOCK_LEB: u32 = 0;

/// Number of the first of the two LEBs with master nodes.
pub const MASTER_LEB: u32 = 1;

/// Number of the first LEB of the log.
pub const LOG_LEB: u32 = 3;

/// Minimum size of data that is compressed, B.
pub const MIN_COMPRESS_BYTES: usize = 128;

/// Minimum saving of compression, bytes; otherwise the data is stored uncompressed.
pub const MIN_COMPRESS_GAIN: usize = 64;

/// Minimum size of a LEB, bytes.
pub const MIN_LEB_BYTES: u32 = 15 * 1024;
