//! Greedy matching in one pass, for blocks that a caller waits for: uses the first match that a hash of four bytes
//! finds.
//!
//! Linux has the same trade-off: the kernel compresses with `lzo1x_1`, mkfs.ubifs with `lzo1x_999`.

use super::matches::{Bytes, Copy, LastPositions};
use super::write::Writer;

/// Minimum length of a match, B: the bytes covered by the hash.
const SHORTEST: usize = 4;

/// Literals since the last copy after which every second position is skipped, then two of three, and so on. This saves
/// time on incompressible data.
const LITERALS_PER_SKIP: usize = 32;

/// A greedy compressor with its tables.
pub(super) struct Greedy {
    bytes: Bytes,
    last: LastPositions<4, 4096>,
}

impl Default for Greedy {
    fn default() -> Self {
        Self { bytes: Bytes::EMPTY, last: LastPositions([0; _]) }
    }
}

impl Greedy {
    /// Appends `data`, at most a block, compressed.
    pub(super) fn compress(&mut self, data: &[u8], out: &mut Vec<u8>) {
        let len = self.bytes.set(data);
        self.last.0.fill(0);
        let mut writer = Writer::new(out);
        // The search starts at 1: position 0 marks an empty table entry, and no bytes precede it.
        let (mut at, mut written) = (1, 0);
        while at + SHORTEST <= len {
            let Some(copy) = self.search(at, len - at) else {
                at += 1 + (at - written) / LITERALS_PER_SKIP;
                continue;
            };
            writer.literals(&data[written..at]);
            writer.copy(at - written, copy);
            at += copy.len();
            written = at;
        }
        writer.literals(&data[written..len]);
        writer.end();
    }

    /// Copy from the last position with the same hash, if its first bytes are equal.
    #[inline(always)]
    fn search(&mut self, at: usize, room: usize) -> Option<Copy> {
        let here = self.bytes.word(at);
        let from = self.last.replace(at, here);
        let common = (self.bytes.word(from) ^ here).trailing_zeros() as usize / 8;
        if common < SHORTEST {
            return None;
        }
        let len = if common < 8 { common } else { self.bytes.extent(from, at, 8) };
        Some(Copy::new(len.min(room), at - from))
    }
}
