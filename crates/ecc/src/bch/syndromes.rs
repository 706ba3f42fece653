//! From the remainder of a received word to its values at the generator's roots.

use super::field::Field;
use super::generator::Words;
use crate::code::MAX_STRENGTH;
use alloc::vec::Vec;

/// What each bit of a remainder adds to the odd syndromes: bit p adds a^p, a^3p, a^5p...
pub(crate) struct OddSyndromes {
    /// Syndromes in a row: the strength, and some zeros, so that the rows of most codes are whole vectors.
    lanes: usize,
    /// The first row is that of the highest bit.
    rows: Vec<u16>,
}

impl OddSyndromes {
    pub(crate) fn new(field: &Field, check_bits: usize, strength: usize) -> Self {
        let lanes = [4, 8, 16, 24, 40].into_iter().find(|lanes| *lanes >= strength).unwrap_or(72);
        let mut rows = alloc::vec![0; check_bits * lanes];
        for (row, p) in rows.chunks_exact_mut(lanes).zip((0..check_bits).rev()) {
            row[..strength]
                .iter_mut()
                .enumerate()
                .for_each(|(j, x)| *x = field.exp((2 * j + 1) * p % field.order()));
        }
        Self { lanes, rows }
    }

    /// The odd syndromes of a remainder without bits after the check bits.
    pub(crate) fn of(&self, rest: &Words, out: &mut [u16; MAX_STRENGTH as usize]) {
        match self.lanes {
            4 => self.sum::<4>(rest, out),
            8 => self.sum::<8>(rest, out),
            16 => self.sum::<16>(rest, out),
            24 => self.sum::<24>(rest, out),
            40 => self.sum::<40>(rest, out),
            _ => self.sum::<72>(rest, out),
        }
    }

    fn sum<const LANES: usize>(&self, rest: &Words, out: &mut [u16; MAX_STRENGTH as usize]) {
        let rows = self.rows.as_chunks::<LANES>().0;
        let mut sums = [0; LANES];
        for (word, rows) in rest.iter().zip(rows.chunks(64)) {
            let mut word = *word;
            while word != 0 {
                let bit = word.leading_zeros() as usize;
                word ^= 1 << (63 - bit);
                sums.iter_mut().zip(&rows[bit]).for_each(|(sum, term)| *sum ^= term);
            }
        }
        out[..LANES].copy_from_slice(&sums);
    }
}
