//! LZO1X encoder: `docs/spec/lzo1x.md#instructions`.

use super::matches::{Copy, triple};
use super::{CHAIN, FIRST_RUN, MEDIUM_LEN, PAIR_DISTANCE, RUN, SHORT_DISTANCE, SHORT_LEN, TRAILING};

/// Appends a block's instructions.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start }
    }

    /// Writes literals: counted in the previous copy, or by their own instruction.
    #[allow(clippy::cast_possible_truncation)] // each arm bounds its number
    pub(super) fn literals(&mut self, data: &[u8]) {
        let count = data.len();
        match count {
            0 => return,
            1..=FIRST_RUN if self.out.len() == self.start => self.out.push(17 + count as u8),
            1..=TRAILING => self.count_in_copy(count as u8),
            4..=RUN => self.out.push((count - TRAILING) as u8),
            _ => self.long(0, count - RUN),
        }
        self.out.extend_from_slice(data);
    }

    /// Stores the count of up to three literals in the second to last byte of a copy.
    fn count_in_copy(&mut self, count: u8) {
        let at = self.out.len().saturating_sub(2);
        if let Some(byte) = self.out.get_mut(at) {
            *byte |= count;
        }
    }

    /// Writes a copy after literals with the shortest possible instruction.
    #[allow(clippy::cast_possible_truncation)] // each field is masked or bounded
    pub(super) fn copy(&mut self, literals: usize, copy: Copy) {
        let (len, distance) = (copy.len(), copy.distance());
        let back = distance.wrapping_sub(1);
        let nearest = [back << 2 & 0xC, back >> 2];
        let short = match len {
            2 if distance <= PAIR_DISTANCE => nearest,
            3 if literals > TRAILING && triple(distance) => [nearest[0], nearest[1] - SHORT_DISTANCE / 4],
            3..=SHORT_LEN if distance <= SHORT_DISTANCE => [(len - 1) << 5 | back << 2 & 0x1C, back >> 3],
            _ => return self.far(len, back),
        };
        self.out.extend(short.map(|byte| byte as u8));
    }

    /// Writes a copy of any length and distance.
    #[allow(clippy::cast_possible_truncation)] // a block is shorter than 16 KiB
    fn far(&mut self, len: usize, back: usize) {
        match len {
            0..=MEDIUM_LEN => self.out.push(0x20 | len.saturating_sub(2) as u8),
            _ => self.long(0x20, len - MEDIUM_LEN),
        }
        self.out.extend(((back << 2) as u16).to_le_bytes());
    }

    /// Writes an instruction with a length extension: a zero byte for each 255, then the rest, 1 to 255.
    #[allow(clippy::cast_possible_truncation)] // the rest is below 256
    fn long(&mut self, code: u8, length: usize) {
        let zeros = length.saturating_sub(1) / CHAIN;
        self.out.push(code);
        self.out.resize(self.out.len() + zeros, 0);
        self.out.push((length - zeros * CHAIN) as u8);
    }

    /// Writes the end-of-stream marker.
    pub(super) fn end(self) {
        self.out.extend([0x11, 0, 0]);
    }
}
