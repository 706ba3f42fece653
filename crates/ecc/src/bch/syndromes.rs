//! Computes the syndromes, the values of a remainder at the generator's roots.

use super::field::Field;
use super::generator::Words;
use crate::code::MAX_STRENGTH;
use alloc::vec::Vec;

/// Contribution of each group of four bits of a remainder to the odd syndromes: bit p adds a^p, a^3p, a^5p ...
pub(crate) struct OddSyndromes {
    /// Number of syndromes in a row: the strength, padded so that the rows of most codes fill whole vectors.
    lanes: usize,
    /// 16 rows for the values of the highest four bits of the remainder, 16 rows for the next four bits, and so on.
    rows: Vec<u16>,
}

impl OddSyndromes {
    pub(crate) fn new(field: &Field, check_bits: usize, strength: usize) -> Self {
        let lanes = [4, 8, 16, 24, 40].into_iter().find(|lanes| *lanes >= strength).unwrap_or(72);
        let mut rows = alloc::vec![0; check_bits.div_ceil(4) * 16 * lanes];
        for (at, row) in rows.chunks_exact_mut(lanes).enumerate() {
            let (four, value) = (at / 16, at % 16);
            for bit in (0..4).filter(|bit| value & 8 >> bit != 0) {
                let Some(p) = check_bits.checked_sub(4 * four + bit + 1) else { break };
                let powers = (0..strength).map(|j| field.exp((2 * j + 1) * p % field.order()));
                row.iter_mut().zip(powers).for_each(|(sum, power)| *sum ^= power);
            }
        }
        Self { lanes, rows }
    }

    /// The odd syndromes of a remainder whose padding bits are zero.
    pub(crate) fn compute(&self, rest: &Words, out: &mut [u16; MAX_STRENGTH as usize]) {
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
        for (at, rows) in rows.as_chunks::<16>().0.iter().enumerate() {
            let four = rest[at / 16] >> (60 - 4 * (at % 16)) & 15;
            sums.iter_mut().zip(rows[four as usize]).for_each(|(sum, term)| *sum ^= term);
        }
        out[..LANES].copy_from_slice(&sums);
    }
}
