//! Limits that a superblock sets for the fields of other nodes.

use core::ops::{Range, RangeInclusive};

use super::index::IndexNode;
use super::{Branch, LOG_LEB, NON_DATA_HEADS, Superblock, SuperblockFlags, lpt};
use crate::error::MediaError;

/// Areas and sizes of a filesystem whose superblock has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Size of a LEB, bytes.
    pub leb_bytes: u32,
    /// Minimum I/O unit, bytes.
    pub min_io_bytes: u32,
    /// Number of LEBs of the filesystem.
    pub leb_count: u32,
    /// LEBs of the log area.
    pub log: Range<u32>,
    /// LEBs of the LEB properties tree (LPT).
    pub lpt: Range<u32>,
    /// LEBs of the orphan area.
    pub orphans: Range<u32>,
    /// LEBs of the main area.
    pub main: Range<u32>,
    /// Number of journal heads.
    pub heads: u32,
    /// Maximum number of children of an index node.
    pub fanout: u32,
    /// Length of a hash in index branches, bytes; 0 without authentication.
    pub hash_bytes: usize,
    /// Sizes of the LEB properties tree.
    pub lpt_geometry: lpt::Geometry,
}

impl Limits {
    /// The limits that a superblock sets.
    ///
    /// # Errors
    ///
    /// The error of [`Superblock::check`], or an LPT area too small for the LPT.
    pub fn new(superblock: &Superblock) -> Result<Self, MediaError> {
        superblock.check()?;
        let log = LOG_LEB..LOG_LEB + superblock.log_lebs;
        let lpt = log.end..log.end + superblock.lpt_lebs;
        let orphans = lpt.end..lpt.end + superblock.orphan_lebs;
        let main = orphans.end..superblock.leb_count;
        let lpt_geometry = lpt::Geometry::new(&lpt::Parameters {
            first_lnum: lpt.start,
            lebs: superblock.lpt_lebs,
            main: main.clone(),
            max_leb_count: superblock.max_leb_count,
            leb_bytes: superblock.leb_bytes,
            min_io_bytes: superblock.min_io_bytes,
            lsave_count: superblock.lsave_count,
            big: superblock.has(SuperblockFlags::BIG_LPT),
        });
        lpt_geometry.check().map_err(|reason| reason.at(60))?;
        Ok(Self {
            leb_bytes: superblock.leb_bytes,
            min_io_bytes: superblock.min_io_bytes,
            leb_count: superblock.leb_count,
            log,
            lpt,
            orphans,
            main,
            heads: NON_DATA_HEADS + superblock.data_heads,
            fanout: superblock.fanout,
            hash_bytes: superblock.hash_bytes(),
            lpt_geometry,
        })
    }

    /// Number of LEBs in the main area.
    #[must_use]
    pub const fn main_lebs(&self) -> u32 {
        self.main.end - self.main.start
    }

    /// Size of the main area, bytes.
    #[must_use]
    pub const fn main_bytes(&self) -> u64 {
        self.main_lebs() as u64 * self.leb_bytes as u64
    }

    /// Minimum and maximum size of an index node, bytes.
    #[must_use]
    pub fn index_lengths(&self) -> RangeInclusive<u32> {
        self.index_bytes(1)..=self.index_bytes(self.fanout)
    }

    /// Size of an index node with this number of children, B.
    #[must_use]
    pub fn index_bytes(&self, children: u32) -> u32 {
        let bytes = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let head = bytes(IndexNode::MIN_BYTES - Branch::bytes(0));
        head.saturating_add(children.saturating_mul(bytes(Branch::bytes(self.hash_bytes))))
    }
}
