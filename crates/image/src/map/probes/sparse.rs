//! Sparse images of Android, with chunks of data, of one value, or without data.

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};

pub(super) const PROBE: Probe =
    Probe { begins: Begins::Magic { at: 0, magics: &[&[0x3A, 0xFF, 0x26, 0xED]], step: 4 }, probe };

/// Largest number of chunks that are examined.
const MAX_CHUNKS: u32 = 1 << 18;

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let header = view.array::<28>(0)?;
    let header = &header[..];
    let (header_bytes, chunk_bytes) = (u64::from(header.le16(8)), u64::from(header.le16(10)));
    let (block, blocks, chunks) = (header.le32(12), header.le32(16), header.le32(20));
    if header.le16(4) != 1 || header_bytes < 28 || chunk_bytes < 12 || block == 0 || !block.is_multiple_of(4)
    {
        return None;
    }
    let (mut at, mut counted) = (header_bytes, 0_u64);
    let mut is_whole = chunks <= MAX_CHUNKS;
    for _ in 0..chunks.min(MAX_CHUNKS) {
        let Some(chunk) = view.array::<12>(at) else {
            is_whole = false;
            break;
        };
        let (kind, bytes) = (chunk[..].le16(0), u64::from(chunk[..].le32(8)));
        if !(0xCAC1..=0xCAC4).contains(&kind) || bytes < chunk_bytes {
            is_whole = false;
            break;
        }
        counted += if kind == 0xCAC4 { 0 } else { u64::from(chunk[..].le32(4)) };
        at += bytes;
    }
    let expanded = u64::from(block) * u64::from(blocks);
    let found = ProbeMatch::new(Kind::Sparse, at.max(header_bytes))
        .number("block_bytes", block)
        .number("expanded_bytes", expanded)
        .number("chunks", chunks);
    Some(if is_whole && counted == u64::from(blocks) { found } else { found.sum_is(false) })
}
