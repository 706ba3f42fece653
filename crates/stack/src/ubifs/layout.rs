//! Sizes and areas of a mounted filesystem. They never change while it is mounted.

pub(crate) use crate::fs::NodePos;
use floatgate_media::MediaError;
use floatgate_media::ubifs::{BLOCK_BYTES, Limits, Superblock, SuperblockFlags};

use crate::volume::VolumeGeometry;

/// Size of the largest node outside the index, B: an inode with the maximum attached data, 160 + 4096.
pub(crate) const MAX_NODE_BYTES: u32 = 160 + BLOCK_BYTES;

/// Size of the largest data node, B.
pub(crate) const MAX_DATA_NODE_BYTES: u32 = 48 + BLOCK_BYTES;

/// Size of the smallest node that justifies keeping space, B: a data node with very little data (Linux:
/// `MIN_WRITE_SZ`).
pub(crate) const MIN_WRITE_BYTES: u32 = 48 + 8;

impl NodePos {
    /// Length rounded up to a multiple of 8, B.
    pub const fn aligned_len(self) -> u32 {
        align8(self.len)
    }
}

/// A journal head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Head {
    /// The garbage collector's head.
    Gc = 0,
    /// Inodes, directory entries, attributes.
    Base = 1,
    /// Data of files.
    Data = 2,
}

impl Head {
    /// All journal heads.
    pub const ALL: [Self; 3] = [Self::Gc, Self::Base, Self::Data];

    /// Head by its number in a reference node.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Gc),
            1 => Some(Self::Base),
            2 => Some(Self::Data),
            _ => None,
        }
    }
}

/// Rounds up to a multiple of 8, where nodes begin.
pub(crate) const fn align8(len: u32) -> u32 {
    (len + 7) & !7
}

/// Sizes and areas.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Superblock, with the LEB count grown to the volume.
    pub(crate) superblock: Superblock,
    /// Areas, and the resulting limits of nodes.
    pub(crate) limits: Limits,
    /// Geometry of the volume.
    pub(crate) volume: VolumeGeometry,
    /// Dead space watermark, B: no node fits into a space of this size or less (Linux: `dead_wm`).
    pub(crate) dead_bytes: u32,
    /// Dark space watermark, B: up to this number of bytes may be unusable, because the next node can be larger
    /// (Linux: `dark_wm`).
    pub(crate) dark_bytes: u32,
    /// Bytes of a LEB that large data nodes leave unused.
    pub(crate) leb_overhead: u32,
}

impl Layout {
    /// Layout for a superblock, which is grown to the volume and checked.
    ///
    /// # Errors
    /// Errors of [`Limits::new`].
    pub(crate) fn new(superblock: &Superblock, volume: VolumeGeometry) -> Result<Self, MediaError> {
        let superblock = superblock.grown(volume.lebs);
        let limits = Limits::new(&superblock)?;
        let min_io = superblock.min_io_bytes;
        Ok(Self {
            superblock,
            limits,
            volume,
            dead_bytes: MIN_WRITE_BYTES.next_multiple_of(min_io),
            dark_bytes: MAX_NODE_BYTES.next_multiple_of(min_io),
            leb_overhead: superblock.leb_bytes % MAX_DATA_NODE_BYTES,
        })
    }

    /// LEB size, B.
    pub(crate) const fn leb_bytes(&self) -> u32 {
        self.superblock.leb_bytes
    }

    /// Minimum I/O size, B.
    pub(crate) const fn min_io_bytes(&self) -> u32 {
        self.superblock.min_io_bytes
    }

    /// Size of the smallest index node with alignment, B (Linux: `min_idx_node_sz`).
    pub(crate) fn min_index_node_bytes(&self) -> u32 {
        align8(self.limits.index_bytes(1))
    }

    /// Size of the largest index node with alignment, B (Linux: `max_idx_node_sz`).
    pub(crate) fn max_index_node_bytes(&self) -> u32 {
        align8(self.limits.index_bytes(self.limits.fanout))
    }

    /// True if entries have cookies that distinguish names with the same hash.
    pub(crate) const fn double_hash(&self) -> bool {
        self.superblock.has(SuperblockFlags::DOUBLE_HASH)
    }
}
