//! EROFS: the superblock.

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View, crc32c};

/// Offset of the superblock.
const SUPERBLOCK: u64 = 1024;

pub(super) const PROBE: Probe = Probe {
    begins: Begins::Magic { at: SUPERBLOCK as usize, magics: &[&[0xE2, 0xE1, 0xF5, 0xE0]], step: 512 },
    probe,
};

/// Compatible feature: the superblock has a checksum.
const HAS_CHECKSUM: u32 = 1;

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let block = view.bytes(SUPERBLOCK, 128)?;
    let bits = block[12];
    if !(9..=16).contains(&bits) {
        return None;
    }
    let block_bytes = 1_u64 << bits;
    let blocks = u64::from(block.le32(36));
    if blocks == 0 {
        return None;
    }
    let found = ProbeMatch::new(Kind::Erofs, blocks << bits)
        .number("block_bytes", block_bytes)
        .number("inodes", block.le64(16))
        .number("time", block.le64(24))
        .text("label", block.text(64, 16));
    if block.le32(8) & HAS_CHECKSUM == 0 {
        return Some(found);
    }
    // The remaining part of the block with the superblock, or a whole block if it is smaller.
    let covered = if block_bytes > SUPERBLOCK { block_bytes - SUPERBLOCK } else { block_bytes };
    let sum = view.bytes(SUPERBLOCK, usize::try_from(covered).ok()?).map(|mut bytes| {
        let stored = bytes.le32(4);
        bytes[4..8].fill(0);
        crc32c(u32::MAX, &bytes) == stored
    });
    Some(found.sum_if_whole(sum))
}
