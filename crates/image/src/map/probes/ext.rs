//! ext2, ext3 and ext4: the superblock.

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View, crc32c};

/// Offset of the superblock.
const SUPERBLOCK: usize = 1024;

pub(super) const PROBE: Probe = Probe { begins: Begins::Head { step: 512, front: 0, test: begins }, probe };

const MAGIC: u16 = 0xEF53;

/// Features: 64-bit numbers of blocks, extents, a journal, a checksum of the metadata.
const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_EXTENTS: u32 = 0x40;
const COMPAT_JOURNAL: u32 = 4;
const RO_COMPAT_CHECKSUM: u32 = 0x400;

fn begins(head: &[u8]) -> bool {
    head.get(SUPERBLOCK + 56..).is_some_and(|rest| rest.le16(0) == MAGIC && head.le32(SUPERBLOCK + 24) <= 6)
}

/// Flag of a superblock whose groups are counted in clusters.
const RO_COMPAT_BIGALLOC: u32 = 0x200;

/// Group of a copy of the superblock, as stated in the copy, if its fields are consistent.
pub(crate) fn group_of(block: &[u8]) -> Option<u16> {
    let (log, per_group, inodes_per_group) = (block.le32(24), block.le32(32), block.le32(40));
    if block.le16(56) != MAGIC || log > 6 || block.le32(20) > 1 {
        return None;
    }
    let block_bytes = 1024_u64 << log;
    let blocks = blocks(block).checked_sub(block.le32(20).into())?;
    let has_clusters = block.le32(100) & RO_COMPAT_BIGALLOC != 0;
    let is_possible = blocks > 0
        && (1..=8 * block_bytes).contains(&u64::from(inodes_per_group))
        && (has_clusters || (1..=8 * block_bytes).contains(&u64::from(per_group)));
    let agrees = || {
        has_clusters
            || u64::from(block.le32(0)) == u64::from(inodes_per_group) * blocks.div_ceil(per_group.into())
    };
    (is_possible && agrees() && sum_of(block) != Some(false)).then(|| block.le16(90))
}

/// Offset of a group.
pub(crate) fn start_of(block: &[u8], group: u16) -> u64 {
    (u64::from(group) * u64::from(block.le32(32)) + u64::from(block.le32(20))) << (10 + block.le32(24).min(6))
}

fn blocks(block: &[u8]) -> u64 {
    let high = if block.le32(96) & INCOMPAT_64BIT == 0 { 0 } else { u64::from(block.le32(336)) << 32 };
    high | u64::from(block.le32(4))
}

/// Result of the checksum; `None` if the superblock has none.
fn sum_of(block: &[u8]) -> Option<bool> {
    let has_sum = block.le32(100) & RO_COMPAT_CHECKSUM != 0;
    has_sum.then(|| crc32c(u32::MAX, block.get(..1020).unwrap_or_default()) == block.le32(1020))
}

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let block = view.array::<1024>(SUPERBLOCK as u64)?;
    let block = &block[..];
    let (compat, incompat, ro_compat) = (block.le32(92), block.le32(96), block.le32(100));
    let blocks = blocks(block);
    let block_bytes = 1024_u64 << block.le32(24).min(6);
    // With bigalloc a group is counted in clusters.
    let per_group = if ro_compat & RO_COMPAT_BIGALLOC != 0 { block.le32(36) } else { block.le32(32) };
    let is_possible = blocks > 0
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
    let before = before(view, block)?;
    let found = ProbeMatch::new(Kind::Ext, blocks.checked_mul(block_bytes)?.checked_sub(before)?)
        .text("version", version)
        .text("label", block.text(120, 16))
        .number("block_bytes", block_bytes)
        .number("inodes", block.le32(0));
    let found = ProbeMatch { before, ..found };
    // A copy has the state at the time of its creation.
    if before > 0 {
        return Some(found.number("superblock_group", block.le16(90)).sum_is(false));
    }
    let found = found
        .number("free_blocks", block.le32(12))
        .text("state", if block.le16(58) & 1 == 1 { "clean" } else { "not unmounted" });
    Some(found.sum_if_whole(sum_of(block)))
}

/// Number of bytes of the filesystem before a superblock that was found. For a copy, these are the groups before its own group; the first
/// superblock is then damaged.
fn before(view: &View<'_>, block: &[u8]) -> Option<u64> {
    let group = block.le16(90);
    if group == 0 {
        return Some(0);
    }
    let before = start_of(block, group_of(block)?).checked_sub(SUPERBLOCK as u64)?;
    let wider = view.widened(before)?;
    let first = wider.bytes(SUPERBLOCK as u64, 1024)?;
    (group_of(&first) != Some(0)).then_some(before)
}
