//! Encoder that computes the remainder of data * X^r modulo the generator of degree r, one word of data at
//! a time.

use super::generator::{MAX_WORDS, Words, times_x};
use alloc::vec;
use alloc::vec::Vec;

/// Tables of the contribution to the remainder of each value of each byte in a data word.
pub(crate) struct Remainder {
    /// Length of a row in words: the remainder padded with zeros to a length that is known at compile time.
    words: usize,
    /// Rows of `words` words: 256 rows for the first byte of a data word, 256 for the second, and so on.
    rows: Vec<u64>,
}

impl Remainder {
    /// Creates the tables for a remainder of `words` words.
    pub(crate) fn new(tail: &Words, words: usize) -> Self {
        let words = [1, 2, 4, 6, 9].into_iter().find(|most| *most >= words).unwrap_or(MAX_WORDS);
        let mut rows = vec![0; 8 * 256 * words];
        let mut power = tail[..words].to_vec();
        for bit in 0..64 {
            // The rows are computed from the last bit of the last byte on.
            let (byte, mask) = (7 - bit / 8, 1 << (bit % 8));
            for value in (0..256).filter(|value| value & mask != 0) {
                let row = &mut rows[(256 * byte + value) * words..][..words];
                row.iter_mut().zip(&power).for_each(|(sum, word)| *sum ^= word);
            }
            times_x(&mut power, tail);
        }
        Self { words, rows }
    }

    /// Remainder of `data`, whose highest coefficient is the highest bit of the first byte.
    pub(crate) fn compute(&self, data: &[u8]) -> Words {
        match self.words {
            1 => self.divide::<1>(data),
            2 => self.divide::<2>(data),
            4 => self.divide::<4>(data),
            6 => self.divide::<6>(data),
            9 => self.divide::<9>(data),
            _ => self.divide::<MAX_WORDS>(data),
        }
    }

    fn divide<const W: usize>(&self, data: &[u8]) -> Words {
        // Zeros before the first byte do not change the remainder.
        let (head, body) = data.split_at(data.len() % 8);
        let mut first = [0; 8];
        first[8 - head.len()..].copy_from_slice(head);
        let rows = self.rows.as_chunks().0;
        let rest = core::iter::once(&first)
            .chain(body.as_chunks().0)
            .fold([0; W], |rest, word| step(rows, rest, *word));
        let mut words = [0; MAX_WORDS];
        words[..W].copy_from_slice(&rest);
        words
    }
}

/// Remainder of `rest` followed by a word of data.
fn step<const W: usize>(rows: &[[u64; W]], rest: [u64; W], data: [u8; 8]) -> [u64; W] {
    let out = (rest[0] ^ u64::from_be_bytes(data)).to_be_bytes();
    let mut next = core::array::from_fn(|at| if at + 1 < W { rest[at + 1] } else { 0 });
    for (rows, value) in rows.as_chunks::<256>().0.iter().zip(out) {
        next.iter_mut().zip(rows[usize::from(value)]).for_each(|(sum, word)| *sum ^= word);
    }
    next
}
