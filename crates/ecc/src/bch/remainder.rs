//! Encoding: the remainder of data * X^r modulo the generator of degree r, a word of data at a time.

use super::generator::{MAX_WORDS, Words, times_x};
use alloc::vec;
use alloc::vec::Vec;

/// For each byte of a word of data, and each value of it, what it leaves.
pub(crate) struct Remainder {
    words: usize,
    /// Rows of `words` words: 256 of the first byte of a data word, 256 of the second, and so on.
    rows: Vec<u64>,
}

impl Remainder {
    /// `words` is the length of the remainder.
    pub(crate) fn new(tail: &[u64], words: usize) -> Self {
        let mut rows = vec![0; 8 * 256 * words];
        let mut power = tail[..words].to_vec();
        for bit in 0..64 {
            // The last bit of the last byte comes first.
            let (byte, mask) = (7 - bit / 8, 1 << (bit % 8));
            for value in (0..256).filter(|value| value & mask != 0) {
                let row = &mut rows[(256 * byte + value) * words..][..words];
                row.iter_mut().zip(&power).for_each(|(sum, word)| *sum ^= word);
            }
            times_x(&mut power, tail);
        }
        Self { words, rows }
    }

    /// The remainder of `data`, first byte and highest bit first.
    pub(crate) fn of(&self, data: &[u8]) -> Words {
        let mut rest = [0; MAX_WORDS];
        // Zeros before the first byte change nothing.
        let (head, body) = data.split_at(data.len() % 8);
        let mut first = [0; 8];
        first[8 - head.len()..].copy_from_slice(head);
        self.step(&mut rest, first);
        body.as_chunks().0.iter().for_each(|word| self.step(&mut rest, *word));
        rest
    }

    /// `rest` becomes what is left of it, followed by a word of data.
    fn step(&self, rest: &mut Words, data: [u8; 8]) {
        let out = (rest[0] ^ u64::from_be_bytes(data)).to_be_bytes();
        rest.copy_within(1..self.words, 0);
        rest[self.words - 1] = 0;
        for (byte, value) in out.into_iter().enumerate() {
            let row = &self.rows[(256 * byte + usize::from(value)) * self.words..][..self.words];
            rest.iter_mut().zip(row).for_each(|(sum, word)| *sum ^= word);
        }
    }
}
