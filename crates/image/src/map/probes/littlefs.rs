//! LittleFS of version 2: the pair of blocks with the superblock.

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};
use floatgate_media::crc;

/// Place of the name that the first entry has: behind the revision and the tag.
const NAME_AT: usize = 8;

pub(super) const PROBE: Probe =
    Probe { begins: Begins::Magic { at: NAME_AT, magics: &[b"littlefs"], step: 128 }, probe };

/// Tags: type of 11 bits, id of 10 bits, length of 10 bits.
const INLINE_STRUCT: u32 = 0x201;
const CRC: u32 = 0x500;
/// Bits of the type that do not belong to it: the next erased state.
const CRC_STATE: u32 = 1;
/// Length of an entry that was deleted.
const DELETED: u32 = 0x3FF;

/// Bytes of a block that are looked at.
const MAX_BLOCK: u64 = 64 << 10;

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let (found, block) = superblock(view)?;
    let version = found.le32(0);
    let blocks = u64::from(found.le32(8));
    Some(
        ProbeMatch::new(Kind::Littlefs, blocks.checked_mul(block)?)
            .text("version", format!("{}.{}", version >> 16, version & 0xFFFF))
            .number("block_bytes", block)
            .number("blocks", blocks)
            .number("name_max", found.le32(12))
            .sum_is(true),
    )
}

/// The contents of the superblock, from a commit with a good checksum, and the size of a block.
fn superblock(view: &View<'_>) -> Option<(Vec<u8>, u64)> {
    let bytes = view.bytes(0, usize::try_from(MAX_BLOCK.min(view.len())).ok()?)?;
    let (mut at, mut tag, mut contents) = (4, u32::MAX, None);
    while let Some(word) = bytes.get(at..at + 4) {
        tag ^= word.be32(0);
        if tag >> 31 != 0 {
            return None;
        }
        let (kind, len) = (tag >> 20 & 0x7FF, tag & 0x3FF);
        let len = if len == DELETED { 0 } else { len as usize };
        let data = bytes.get(at + 4..at + 4 + len)?;
        if kind & !CRC_STATE == CRC {
            if crc::ubi(bytes.get(..at + 4)?) != data.get(..4)?.le32(0) {
                return None;
            }
            let contents: Vec<u8> = contents?;
            let block = contents.le32(4);
            return (block >= 128).then_some((contents, block.into()));
        }
        if kind == INLINE_STRUCT && contents.is_none() && len >= 16 {
            contents = Some(data.to_vec());
        }
        at += 4 + len;
    }
    None
}
