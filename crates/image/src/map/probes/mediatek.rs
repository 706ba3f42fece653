//! MediaTek's bad block layers NMBM and BMT. They remap blocks below all other layers, so that a dump of the raw
//! flash has blocks at other positions than the system sees.

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};
use floatgate_media::crc;

pub(super) const NMBM: Probe =
    Probe { begins: Begins::Magic { at: 0, magics: &[b"NMM0", b"NMM1"], step: 512 }, probe: nmbm };
pub(super) const BMT: Probe =
    Probe { begins: Begins::Magic { at: 0, magics: &[b"BMT\x02"], step: 2048 }, probe: bmt };

/// Size of the header of both NMBM structures, bytes; its checksum is computed with zeros in its field.
const HEADER: u64 = 16;

/// Largest number of blocks in a flash.
const MAX_BLOCKS: u32 = 1 << 16;

fn nmbm(view: &View<'_>) -> Option<ProbeMatch> {
    let head = view.array::<48>(0)?;
    let head = &head[..];
    let (version, size, stored) = (head.le32(4), u64::from(head.le32(8)), head.le32(12));
    if !(HEADER..1 << 20).contains(&size) {
        return None;
    }
    let mut covered = view.bytes(0, usize::try_from(size).ok()?)?;
    covered.get_mut(12..16)?.fill(0);
    // The CRC starts with 0 and is not inverted, or is the CRC-32 of zlib.
    let is_good = crc::jffs2(&covered) == stored || !crc::ubi(&covered) == stored;
    let found =
        ProbeMatch::new(Kind::Nmbm, size).text("version", format!("{}.{}", version & 0xFFFF, version >> 16));
    if head.starts_with(b"NMM0") {
        let found = found
            .text("structure", "signature")
            .number("flash_bytes", head.le64(16))
            .number("block_bytes", head.le32(24))
            .number("page_bytes", head.le32(28))
            .number("management_block", head.le32(36));
        return Some(found.sum_is(is_good));
    }
    let (states, mapping) = (head.le32(20) as usize, head.le32(24) as usize);
    let table = covered.get(mapping..).unwrap_or_default();
    let moved = (0..).zip(table.chunks_exact(4)).take(MAX_BLOCKS as usize).filter(|(block, entry)| {
        let to = entry.le32(0);
        to != *block && to < MAX_BLOCKS
    });
    // Two bits per block; 0 for a bad block.
    let bits = covered.get(states..mapping).unwrap_or_default();
    let blocks = table.len() / 4;
    let is_bad = |block: &usize| bits.get(block / 4).is_some_and(|byte| byte >> (block % 4 * 2) & 3 == 0);
    let bad = (0..blocks.min(bits.len() * 4)).filter(is_bad).count();
    Some(
        found
            .text("structure", "block table")
            .number("write_count", head.le32(16))
            .number("bad_blocks", bad as u64)
            .number("moved_blocks", moved.count() as u64)
            .sum_is(is_good),
    )
}

/// Table of 16-bit numbers: for each block, the block that replaces it.
fn bmt(view: &View<'_>) -> Option<ProbeMatch> {
    let bytes = view.bytes(0, 2048)?;
    let entries: Vec<u16> = bytes[4..].chunks_exact(2).map(|entry| entry.le16(0)).collect();
    // Numbers rise from 0, except for blocks that were moved to the pool at the end.
    let rising = entries.windows(2).filter(|pair| pair[1] == pair[0].wrapping_add(1)).count();
    if entries.first() != Some(&0) || rising < entries.len() / 2 {
        return None;
    }
    let moved = (0_u16..).zip(&entries).filter(|(block, entry)| block != *entry).count();
    Some(
        ProbeMatch::new(Kind::Bmt, 2048)
            .number("version", bytes[3])
            .number("moved_of_first_1022", moved as u64),
    )
}
