//! Search for roots by bit matrices.
//!
//! Squaring is linear over {0, 1}. Therefore all terms of the locator whose exponents are an odd number o times a power
//! of two form a linear map of x^o: an m x m matrix of bits. With tables of x^o for all positions, one matrix
//! multiplication for each odd o gives the locator's value (the split of Fedorenko and Trifonov 2002). All positions
//! are tried, as in Chien 1964.
//!
//! With GFNI the CPU multiplies 64 bytes by an 8 x 8 matrix at once. With AVX2 or NEON it looks up half bytes in tables
//! of their products, 32 or 16 at once.

use crate::bch::field::Field;
use alloc::vec::Vec;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64::kernels;
#[cfg(target_arch = "x86_64")]
use x86_64::kernels;

/// Positions per run of the inner loop, and number of vectors for their low or high bytes.
const RUN: usize = 256;
const VECTORS: usize = RUN / 64;

/// Low and high bytes of x^o for the positions of a run.
#[derive(Clone)]
#[repr(align(64))]
struct Powers {
    low: [[u8; 64]; VECTORS],
    high: [[u8; 64]; VECTORS],
}

/// Maximum number of odd exponents.
const MAX_ODD: usize = 36;

/// Number of bits of an element, in whole bytes.
const BITS: usize = 16;

/// Products of a matrix and each value of the four half bytes of an element, as low byte and high byte.
type Products = [[u8; 16]; 8];

/// A search with one instruction set; arguments as in [`Search::roots`].
type Kernel = unsafe fn(&Search, &Field, &[u16], usize, &mut [u16]) -> usize;

/// Tables for the search, on a CPU that has the instructions of `kernel`.
pub(crate) struct Search {
    kernel: Kernel,
    /// Number of odd exponents up to the strength.
    odd: usize,
    /// Powers of x for each run of positions, `odd` rows per run.
    powers: Vec<Powers>,
    /// Number of runs of positions.
    runs: usize,
    /// Row i contains the logarithms of a^(b * 2^i) for each bit b of an element.
    logs: Vec<[u16; BITS]>,
}

impl Search {
    /// Tables for locators up to degree `strength`, and positions below `bits`.
    pub(crate) fn new(field: &Field, strength: usize, bits: usize) -> Option<Self> {
        kernels().next().map(|kernel| Self::tables(kernel, field, strength, bits))
    }

    fn tables(kernel: Kernel, field: &Field, strength: usize, bits: usize) -> Self {
        let (odd, runs) = (strength.div_ceil(2), bits.div_ceil(RUN));
        let order = field.order();
        let mut powers =
            alloc::vec![Powers { low: [[0; 64]; VECTORS], high: [[0; 64]; VECTORS] }; odd * runs];
        for (at, row) in powers.iter_mut().enumerate() {
            let (run, exponent) = (at / odd, 2 * (at % odd) + 1);
            for lane in 0..RUN {
                // The element for position p is x = a^-p.
                let log = (run * RUN + lane) * exponent % order;
                let [low, high] = field.exp(order - log).to_le_bytes();
                row.low[lane / 64][lane % 64] = low;
                row.high[lane / 64][lane % 64] = high;
            }
        }
        let log = |power: usize, bit: usize| ((bit << power) % order) as u16;
        let logs = (0..=strength.ilog2() as usize).map(|power| core::array::from_fn(|bit| log(power, bit)));
        Self { kernel, odd, powers, runs, logs: logs.collect() }
    }

    /// Writes the lowest positions p below `bits` with `locator(a^-p) = 0` until `out` is full, and returns their
    /// number.
    pub(crate) fn roots(&self, field: &Field, locator: &[u16], bits: usize, out: &mut [u16]) -> usize {
        // SAFETY: `kernels` returns only kernels whose instructions the CPU supports.
        unsafe { (self.kernel)(self, field, locator, bits, out) }
    }

    /// Writes the positions at which `zeros` reports a zero of the locator, run by run, until `out` is full. Returns
    /// their number.
    #[inline(always)]
    fn collect(&self, bits: usize, out: &mut [u16], zeros: impl Fn(&[Powers]) -> [u64; VECTORS]) -> usize {
        let mut found = 0;
        for (run, powers) in self.powers.chunks_exact(self.odd).enumerate().take(self.runs) {
            for (vector, mut zeros) in zeros(powers).into_iter().enumerate() {
                while zeros != 0 {
                    let position = run * RUN + 64 * vector + zeros.trailing_zeros() as usize;
                    zeros &= zeros - 1;
                    if position < bits && found < out.len() {
                        out[found] = position as u16;
                        found += 1;
                    }
                }
            }
            if found == out.len() {
                break;
            }
        }
        found
    }

    /// The sum of the terms with the exponents o, 2 o, 4 o... for each bit of x^o.
    fn columns(&self, field: &Field, locator: &[u16], odd: usize) -> [u16; BITS] {
        let mut columns = [0; BITS];
        for (power, logs) in self.logs.iter().enumerate() {
            let Some(coefficient) = locator.get(odd << power) else { break };
            let factor = field.log(*coefficient);
            for (column, log) in columns.iter_mut().zip(logs) {
                *column ^= field.exp(factor + usize::from(*log));
            }
        }
        columns
    }

    /// Products of the matrix of each odd exponent.
    fn products(&self, field: &Field, locator: &[u16]) -> [Products; MAX_ODD] {
        let mut tables = [[[0; 16]; 8]; MAX_ODD];
        for (at, table) in tables[..locator.len() / 2].iter_mut().enumerate() {
            *table = products(self.columns(field, locator, 2 * at + 1));
        }
        tables
    }
}

/// Mask of the half-byte values in which a bit is set, for each bit.
const WITH_BIT: [[u8; 16]; 4] = {
    let mut masks = [[0; 16]; 4];
    let mut at = 0;
    while at < 64 {
        masks[at / 16][at % 16] = if (at % 16) >> (at / 16) & 1 == 1 { 0xFF } else { 0 };
        at += 1;
    }
    masks
};

/// Products of the matrix with these columns and each half byte.
fn products(columns: [u16; BITS]) -> Products {
    let mut tables = [[0; 16]; 8];
    for (columns, tables) in columns.as_chunks::<4>().0.iter().zip(tables.as_chunks_mut::<2>().0) {
        for (column, mask) in columns.iter().zip(&WITH_BIT) {
            for (table, byte) in tables.iter_mut().zip(column.to_le_bytes()) {
                table.iter_mut().zip(mask).for_each(|(product, mask)| *product ^= mask & byte);
            }
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bch::field::linux_polynomial;
    use crate::code::MAX_STRENGTH;

    /// Compares every kernel that this CPU supports with the definition: the sum of all terms at each position.
    #[test]
    fn searches_find_what_evaluation_finds() {
        for (degree, strength, bits) in [(13, 8, 4200), (14, 40, 8752), (15, 72, 32767), (9, 5, 511)] {
            let field = Field::new(linux_polynomial(degree).unwrap()).unwrap();
            let searches = kernels().map(|kernel| Search::tables(kernel, &field, strength, bits));
            let searches: Vec<Search> = searches.collect();
            for seed in 0..6 {
                // The test needs no particular polynomial, because any polynomial has some roots.
                let noise = crate::noise(seed, 2 * strength + 2);
                let order = field.order() as u16;
                let polynomial: Vec<u16> =
                    noise.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes) & order).collect();
                let value = |position: usize| {
                    let x = field.exp((field.order() - position) % field.order());
                    polynomial.iter().rev().fold(0, |sum, term| field.mul(sum, x) ^ term)
                };
                let expected: Vec<u16> = (0..bits)
                    .filter(|position| value(*position) == 0)
                    .map(|position| position as u16)
                    .collect();
                for search in &searches {
                    let mut out = [0; MAX_STRENGTH as usize];
                    let found = search.roots(&field, &polynomial, bits, &mut out);
                    assert_eq!(out[..found], expected);
                }
            }
        }
    }
}
