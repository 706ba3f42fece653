//! SquashFS 4: the superblock.

use super::{Begins, Probe, padded};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};

pub(super) const PROBE: Probe = Probe { begins: Begins::Magic { at: 0, magics: &[b"hsqs"], step: 1 }, probe };

/// Names of the compressors 1 to 6.
const COMPRESSORS: [&str; 6] = ["gzip", "lzma", "lzo", "xz", "lz4", "zstd"];

/// Size of the largest metadata block, which the field before the block states, bytes.
const METADATA_MAX: u16 = 8192;

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let block = view.array::<96>(0)?;
    let block = &block[..];
    let (major, minor) = (block.le16(28), block.le16(30));
    let (block_bytes, log) = (block.le32(12), block.le16(22));
    let used = block.le64(40);
    let (inodes, directories) = (block.le64(64), block.le64(72));
    let is_possible = major == 4
        && (12..=20).contains(&log)
        && block_bytes == 1 << log
        && (96..=inodes).contains(&96)
        && inodes < directories
        && directories < used;
    if !is_possible {
        return None;
    }
    let compressor = usize::from(block.le16(20)).checked_sub(1).and_then(|at| COMPRESSORS.get(at));
    let found = ProbeMatch::new(Kind::Squashfs, padded(view, used))
        .text("version", format!("{major}.{minor}"))
        .text("compressor", compressor.copied().unwrap_or("unknown"))
        .number("block_bytes", block_bytes)
        .number("inodes", block.le32(4))
        .number("time", block.le32(8))
        .number("used_bytes", used);
    // The inode table begins with the length of its first block. The highest bit of the length is set for
    // uncompressed data.
    let metadata = view.array::<2>(inodes).map(|bytes| u16::from_le_bytes(bytes) & 0x7FFF);
    match metadata {
        Some(len) if len == 0 || len > METADATA_MAX => Some(found.sum_is(false)),
        _ => Some(found),
    }
}
