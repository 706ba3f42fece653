//! ext2, ext3 and ext4: the superblock.

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View, crc32c};

/// Place of the superblock.
const SUPERBLOCK: usize = 1024;

pub(super) const PROBE: Probe = Probe { begins: Begins::Head { step: 512, test: begins }, probe };

const MAGIC: u16 = 0xEF53;

/// Features: 64-bit numbers of blocks, extents, a journal, a checksum of the metadata.
const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_EXTENTS: u32 = 0x40;
const COMPAT_JOURNAL: u32 = 4;
const RO_COMPAT_CHECKSUM: u32 = 0x400;

fn begins(head: &[u8]) -> bool {
    head.get(SUPERBLOCK + 56..).is_some_and(|rest| rest.le16(0) == MAGIC && head.le32(SUPERBLOCK + 24) <= 6)
}

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let block = view.array::<1024>(SUPERBLOCK as u64)?;
    let block = &block[..];
    let (compat, incompat, ro_compat) = (block.le32(92), block.le32(96), block.le32(100));
    let high = if incompat & INCOMPAT_64BIT == 0 { 0 } else { u64::from(block.le32(336)) << 32 };
    let blocks = high | u64::from(block.le32(4));
    let block_bytes = 1024_u64 << block.le32(24).min(6);
    // With bigalloc a group is counted in clusters.
    let per_group = if ro_compat & 0x200 != 0 { block.le32(36) } else { block.le32(32) };
    // Copies of the superblock state the number of their group.
    let is_possible = blocks > 0
        && block.le16(90) == 0
        && per_group > 0
        && u64::from(per_group) <= 8 * block_bytes
        && block.le32(40) > 0
        && block.le32(20) <= 1;
    if !is_possible {
        return None;
    }
    let version = match () {
        () if incompat & INCOMPAT_EXTENTS != 0 => "ext4",
        () if compat & COMPAT_JOURNAL != 0 => "ext3",
        () => "ext2",
    };
    let found = ProbeMatch::new(Kind::Ext, blocks.checked_mul(block_bytes)?)
        .text("version", version)
        .text("label", block.text(120, 16))
        .number("block_bytes", block_bytes)
        .number("inodes", block.le32(0))
        .number("free_blocks", block.le32(12))
        .text("state", if block.le16(58) & 1 == 1 { "clean" } else { "not unmounted" });
    let has_sum = ro_compat & RO_COMPAT_CHECKSUM != 0;
    Some(found.sum_if_whole(has_sum.then(|| crc32c(u32::MAX, &block[..1020]) == block.le32(1020))))
}
