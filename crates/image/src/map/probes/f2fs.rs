//! F2FS: the superblock.

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};
use floatgate_media::crc;

/// Offset of the superblock; the next block contains a copy.
const SUPERBLOCK: u64 = 1024;

const MAGIC: u32 = 0xF2F5_2010;

pub(super) const PROBE: Probe = Probe {
    begins: Begins::Magic { at: SUPERBLOCK as usize, magics: &[&MAGIC.to_le_bytes()], step: 512 },
    probe,
};

/// Position of the label, in UTF-16.
const LABEL: std::ops::Range<usize> = 124..124 + 64;

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let block = view.bytes(SUPERBLOCK, 3072)?;
    let log = block.le32(16);
    let blocks = block.le64(36);
    if log != 12 && log != 14 || blocks == 0 {
        return None;
    }
    let units: Vec<u16> =
        block.get(LABEL)?.chunks_exact(2).map(|unit| unit.le16(0)).take_while(|&unit| unit != 0).collect();
    let found = ProbeMatch::new(Kind::F2fs, blocks.checked_mul(1 << log)?)
        .text("version", format!("{}.{}", block.le16(4), block.le16(6)))
        .text("label", String::from_utf16_lossy(&units))
        .number("block_bytes", 1_u64 << log)
        .number("blocks", blocks);
    let sum_at = block.le32(32) as usize;
    let covered = block.get(..sum_at).filter(|_| sum_at > 0);
    Some(found.sum_if_whole(covered.map(|covered| crc::ubi_update(MAGIC, covered) == block.le32(sum_at))))
}
