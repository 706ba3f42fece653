//! UBIFS: nodes, keys, the LEB properties tree.
//!
//! Reading has layers with separate errors. [`Frame::parse`] finds a node by its common header and checks its CRC;
//! [`Frame::node`] turns it into a [`Node`]; [`Node::check`] compares the fields with the [`Limits`] set by the
//! [`Superblock`]. Nodes are written by [`NodeBody::emit`]. Nodes borrow names and data from the bytes they were read
//! from. The [`lpt`] packs its nodes bit by bit and has a separate module.
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

/// Newest version of the format.
pub const FORMAT_VERSION: u32 = 5;

/// Nodes begin at multiples of this many bytes.
pub const NODE_ALIGN: u32 = 8;

/// Maximum number of file bytes in a data node.
pub const BLOCK_BYTES: u32 = 4096;

/// Maximum size of the data attached to an inode: a symbolic link's target, an extended attribute's value.
pub const MAX_INODE_DATA: u32 = BLOCK_BYTES;

/// Largest size of a file, bytes: as many blocks as a key can number.
pub const MAX_FILE_BYTES: u64 = (1 << 29) * BLOCK_BYTES as u64;

/// Longest name, bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// Inode of the root directory.
pub const ROOT_INODE: u32 = 1;

/// First inode number given to files.
pub const FIRST_INODE: u32 = 64;

/// Highest inode number that is allocated.
pub const INODE_WATERMARK: u64 = 0xFFFF_FF00;

/// Longest hash or HMAC, bytes (SHA-512).
pub const MAX_HASH_BYTES: usize = 64;

/// Journal heads that hold no file data: of the garbage collector and of inodes and directories.
pub const NON_DATA_HEADS: u32 = 2;

/// LEB of the superblock.
pub const SUPERBLOCK_LEB: u32 = 0;

/// First of the two LEBs with master nodes.
pub const MASTER_LEB: u32 = 1;

/// First LEB of the log.
pub const LOG_LEB: u32 = 3;

/// Minimum size of data that is compressed, B.
pub const MIN_COMPRESS_BYTES: usize = 128;

/// Minimum number of bytes that compression must save.
pub const MIN_COMPRESS_GAIN: usize = 64;

/// Smallest LEB, bytes.
pub const MIN_LEB_BYTES: u32 = 15 * 1024;
