//! Sizes and areas of a mounted filesystem. They never change while it is mounted.

pub(crate) use crate::fs::NodePos;
use floatgate_media::MediaError;
use floatgate_media::ubifs::{BLOCK_BYTES, Limits, Superblock, SuperblockFlags};

use crate::volume::VolumeGeometry;

/// Bytes of the largest node that is not of the index: an inode with all it can have attached, 160 + 4096.
pub(crate) const MAX_NODE_BYTES: u32 = 160 + BLOCK_BYTES;

/// Bytes of the largest data node.
pub(crate) const MAX_DATA_NODE_BYTES: u32 = 48 + BLOCK_BYTES;

/// Bytes of the smallest node worth room for: a data node with next to nothing in it. Linux: `MIN_WRITE_SZ`.
pub(crate) const MIN_WRITE_BYTES: u32 = 48 + 8;

impl NodePos {
    /// Bytes with the alignment to 8 that follows.
    pub const fn aligned_len(self) -> u32 {
        align8(self.len)
    }
}

/// A journal head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Head {
    /// Head of the garbage collector.
    Gc = 0,
    /// Inodes, directory entries, attributes.
    Base = 1,
    /// Data of files.
    Data = 2,
}

impl Head {
    /// All journal heads.
    pub const ALL: [Self; 3] = [Self::Gc, Self::Base, Self::Data];

    /// The head of a reference node.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Gc),
            1 => Some(Self::Base),
            2 => Some(Self::Data),
            _ => None,
        }
    }
}

/// Rounded up to a multiple of 8, where nodes begin.
pub(crate) const fn align8(len: u32) -> u32 {
    (len + 7) & !7
}

/// Sizes and areas.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The superblock, grown to the volume.
    pub(crate) superblock: Superblock,
    /// Areas, and what they allow nodes.
    pub(crate) limits: Limits,
    /// The volume.
    pub(crate) volume: VolumeGeometry,
    /// Free or dirty space up to this many bytes in a LEB is dead: no node fits. Linux: `dead_wm`.
    pub(crate) dead_bytes: u32,
    /// Space up to this many bytes may not be usable: the next node can be larger. Linux: `dark_wm`.
    pub(crate) dark_bytes: u32,
    /// Bytes of a LEB that large data nodes leave unused.
    pub(crate) leb_overhead: u32,
}

impl Layout {
    /// From a superblock, which is grown to the volume and checked.
    ///
    /// # Errors
    /// The error of [`Limits::new`].
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

    /// Bytes of a LEB.
    pub(crate) const fn leb_bytes(&self) -> u32 {
        self.superblock.leb_bytes
    }

    /// Smallest write.
    pub(crate) const fn min_io_bytes(&self) -> u32 {
        self.superblock.min_io_bytes
    }

    /// Bytes of the smallest index node, with its alignment. Linux: `min_idx_node_sz`.
    pub(crate) fn min_index_node_bytes(&self) -> u32 {
        align8(self.limits.index_bytes(1))
    }

    /// Bytes of the largest index node, with its alignment. Linux: `max_idx_node_sz`.
    pub(crate) fn max_index_node_bytes(&self) -> u32 {
        align8(self.limits.index_bytes(self.limits.fanout))
    }

    /// True when entries carry cookies that tell names with one hash apart.
    pub(crate) const fn double_hash(&self) -> bool {
        self.superblock.has(SuperblockFlags::DOUBLE_HASH)
    }
}
