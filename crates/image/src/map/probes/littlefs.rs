//! LittleFS of version 2: the pair of blocks with the superblock.

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};
use floatgate_media::crc;

/// Offset of the name of the first entry, after the revision and the tag.
const NAME_AT: usize = 8;

pub(super) const PROBE: Probe =
    Probe { begins: Begins::Magic { at: NAME_AT, magics: &[b"littlefs"], step: 128 }, probe };

/// Tags: type of 11 bits, id of 10 bits, length of 10 bits.
const INLINE_STRUCT: u32 = 0x201;
const CRC: u32 = 0x500;
/// Bit of the type field that is not part of the type: the state of the next erased commit.
const CRC_STATE: u32 = 1;
/// Length of an entry that was deleted.
const DELETED: u32 = 0x3FF;

/// Maximum number of bytes of a block that are examined.
const MAX_BLOCK: u64 = 64 << 10;

/// Types of tags that refer to other pairs of blocks: a directory, and the next pair of any kind.
const DIRECTORY_STRUCT: u32 = 0x200;
const TAILS: std::ops::RangeInclusive<u32> = 0x600..=0x601;

/// Number of no block.
const NO_BLOCK: u32 = u32::MAX;

/// Results of the commits of a block.
struct Commit {
    /// Contents of the superblock.
    contents: Vec<u8>,
    /// Blocks of other pairs.
    pairs: Vec<[u32; 2]>,
}

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let Commit { contents, pairs } = commit(view)?;
    let (version, block) = (contents.le32(0), u64::from(contents.le32(4)));
    if block < 128 {
        return None;
    }
    let blocks = u64::from(contents.le32(8));
    let whole = blocks.checked_mul(block)?;
    let before = if is_second(view, block, whole, &pairs) { block } else { 0 };
    let found = ProbeMatch { before, ..ProbeMatch::new(Kind::Littlefs, whole.checked_sub(before)?) };
    Some(
        found
            .text("version", format!("{}.{}", version >> 16, version & 0xFFFF))
            .number("block_bytes", block)
            .number("blocks", blocks)
            .number("name_max", contents.le32(12))
            .sum_is(before == 0 || is_erased(view, before)),
    )
}

/// True if the bytes before an offset are erased, as a power cut may leave the first block.
fn is_erased(view: &View<'_>, before: u64) -> bool {
    let bytes = view.widened(before).zip(usize::try_from(before).ok());
    let bytes = bytes.and_then(|(wider, len)| wider.bytes(0, len));
    bytes.is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0xFF))
}

/// True for the second block of the superblock's pair, if the first block is damaged or erased. This is the case if the positions of other pairs are
/// right only with the first block included, or if the filesystem would otherwise extend beyond the dump.
fn is_second(view: &View<'_>, block: u64, whole: u64, pairs: &[[u32; 2]]) -> bool {
    let Some(wider) = view.widened(block) else { return false };
    let has_superblock =
        |view: &View<'_>| commit(view).is_some_and(|found| u64::from(found.contents.le32(4)) == block);
    let behind = view.slice(block, block);
    if has_superblock(&wider.slice(0, block)) || has_superblock(&behind) {
        return false;
    }
    let is_named = wider.bytes(NAME_AT as u64, 8).is_some_and(|name| {
        let wrong = name.iter().zip(b"littlefs").filter(|(byte, other)| byte != other).count();
        wrong <= 2
    });
    let commits = |view: &View<'_>| {
        let blocks = pairs.iter().flatten().filter(|&&number| number != NO_BLOCK);
        let places = blocks.filter_map(|&number| u64::from(number).checked_mul(block));
        places.filter(|&at| begins_commit(&view.slice(at, block))).count()
    };
    // The second block of the pair has a superblock, or nothing.
    is_named
        || begins_commit(&behind)
        || view.len() < whole && whole <= wider.len()
        || commits(&wider) > commits(view)
}

/// True for a block that begins with a commit, whose CRC is right.
fn begins_commit(view: &View<'_>) -> bool {
    each_tag(view, |_, _| ()).is_some()
}

/// Reads the commits of a block with the superblock.
fn commit(view: &View<'_>) -> Option<Commit> {
    let (mut contents, mut pairs) = (None, Vec::new());
    each_tag(view, |kind, data| {
        if kind == INLINE_STRUCT && contents.is_none() && data.len() >= 16 {
            contents = Some(data.to_vec());
        }
        if (kind == DIRECTORY_STRUCT || TAILS.contains(&kind)) && data.len() >= 8 {
            pairs.push([data.le32(0), data.le32(4)]);
        }
    })?;
    Some(Commit { contents: contents?, pairs })
}

/// Passes the tags of a block's commits to `each`. Returns `None` if the CRC of the first commit is wrong.
fn each_tag(view: &View<'_>, mut each: impl FnMut(u32, &[u8])) -> Option<()> {
    let bytes = view.bytes(0, usize::try_from(MAX_BLOCK.min(view.len())).ok()?)?;
    let (mut at, mut start, mut tag, mut found) = (4, 0, u32::MAX, None);
    while let Some(word) = bytes.get(at..at + 4) {
        tag ^= word.be32(0);
        if tag >> 31 != 0 {
            break;
        }
        let (kind, len) = (tag >> 20 & 0x7FF, tag & 0x3FF);
        let len = if len == DELETED { 0 } else { len as usize };
        let Some(data) = bytes.get(at + 4..at + 4 + len) else { break };
        if kind & !CRC_STATE == CRC {
            if data.len() < 4 || crc::ubi(bytes.get(start..at + 4)?) != data.le32(0) {
                break;
            }
            found = Some(());
            // This bit shows whether the next commit was written.
            tag ^= (kind & CRC_STATE) << 31;
            start = at + 4 + len;
        } else {
            each(kind, data);
        }
        at += 4 + len;
    }
    found
}
