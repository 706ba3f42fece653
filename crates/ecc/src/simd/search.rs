//! The search for roots by bit matrices.
//!
//! Squaring is linear over {0, 1}, so all terms of the locator whose exponents are an odd number o times a power of two are
//! together a linear map of x^o: an m x m matrix of bits. With tables of x^o for all positions (all of them are looked at, as
//! in Chien 1964), one multiplication by a matrix for each odd o is the locator's value (the split of Fedorenko and Trifonov
//! 2002). With GFNI the CPU multiplies 64 bytes by an 8 x 8 matrix at once; with AVX2 it looks up 32 half bytes in tables of
//! their products.

use crate::bch::field::Field;
use crate::bch::roots::Positions;
use alloc::vec::Vec;
use core::arch::x86_64::*;
use std::is_x86_feature_detected;

/// Positions of one run of the inner loop, and vectors that hold their low, or their high, bytes.
const RUN: usize = 256;
const VECTORS: usize = RUN / 64;

/// Low and high bytes of x^o for the positions of a run.
#[derive(Clone)]
#[repr(align(64))]
struct Powers {
    low: [[u8; 64]; VECTORS],
    high: [[u8; 64]; VECTORS],
}

/// A matrix of 16 x 16 bits in quarters: from low to low byte, high to low, low to high, high to high.
type Matrix = [i64; 4];

/// Most odd exponents.
const MAX_ODD: usize = 36;

/// Bits of an element, in whole bytes.
const BITS: usize = 16;

/// What a matrix makes of each value of the four half bytes of an element, low byte and high byte.
type Products = [[u8; 16]; 8];

/// The instructions that a CPU has.
#[derive(Clone, Copy, PartialEq)]
enum Kernel {
    Gfni,
    Avx2,
}

impl Kernel {
    fn of_this_cpu() -> Option<Self> {
        let gfni = is_x86_feature_detected!("gfni")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        let avx2 = is_x86_feature_detected!("avx2").then_some(Self::Avx2);
        if gfni { Some(Self::Gfni) } else { avx2 }
    }
}

/// Tables for the search, on a CPU that has the instructions of `kernel`.
pub(crate) struct Search {
    kernel: Kernel,
    /// Odd exponents up to the strength.
    odd: usize,
    /// For each run of positions, `odd` rows.
    powers: Vec<Powers>,
    /// Number of runs.
    runs: usize,
    /// Row i: logarithms of a^(b * 2^i), for each bit b of an element.
    logs: Vec<[u16; BITS]>,
}

impl Search {
    /// For locators up to degree `strength`, and positions below `bits`.
    pub(crate) fn new(field: &Field, strength: usize, bits: usize) -> Option<Self> {
        Kernel::of_this_cpu().map(|kernel| Self::tables(kernel, field, strength, bits))
    }

    fn tables(kernel: Kernel, field: &Field, strength: usize, bits: usize) -> Self {
        let (odd, runs) = (strength.div_ceil(2), bits.div_ceil(RUN));
        let order = field.order();
        let mut powers =
            alloc::vec![Powers { low: [[0; 64]; VECTORS], high: [[0; 64]; VECTORS] }; odd * runs];
        for (at, row) in powers.iter_mut().enumerate() {
            let (run, exponent) = (at / odd, 2 * (at % odd) + 1);
            for lane in 0..RUN {
                // x = a^-p.
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

    /// The positions p below `bits` with `locator(a^-p) = 0`; their number.
    pub(crate) fn roots(&self, field: &Field, locator: &[u16], bits: usize, out: &mut Positions) -> usize {
        // SAFETY: `new` looked whether the CPU has the instructions.
        match self.kernel {
            Kernel::Gfni => unsafe { self.by_matrices(field, locator, bits, out) },
            Kernel::Avx2 => unsafe { self.by_products(field, locator, bits, out) },
        }
    }

    #[target_feature(enable = "gfni,avx512f,avx512bw,avx512vl")]
    fn by_matrices(&self, field: &Field, locator: &[u16], bits: usize, out: &mut Positions) -> usize {
        let mut matrices = [[0; 4]; MAX_ODD];
        let matrices = &mut matrices[..locator.len() / 2];
        for (at, matrix) in matrices.iter_mut().enumerate() {
            *matrix = transpose(self.columns(field, locator, 2 * at + 1));
        }
        self.collect(locator, bits, out, |powers| multiply(locator[0], matrices, powers))
    }

    #[target_feature(enable = "avx2")]
    fn by_products(&self, field: &Field, locator: &[u16], bits: usize, out: &mut Positions) -> usize {
        let mut tables = [[[0; 16]; 8]; MAX_ODD];
        let tables = &mut tables[..locator.len() / 2];
        for (at, table) in tables.iter_mut().enumerate() {
            *table = products(self.columns(field, locator, 2 * at + 1));
        }
        self.collect(locator, bits, out, |powers| {
            core::array::from_fn(|vector| look_up(locator[0], tables, powers, vector))
        })
    }

    /// Writes the positions at which `zeros` finds the locator to be 0, run by run; their number.
    fn collect(
        &self,
        locator: &[u16],
        bits: usize,
        out: &mut Positions,
        zeros: impl Fn(&[Powers]) -> [u64; VECTORS],
    ) -> usize {
        let (mut found, degree) = (0, locator.len() - 1);
        for (run, powers) in self.powers.chunks_exact(self.odd).enumerate().take(self.runs) {
            for (vector, mut zeros) in zeros(powers).into_iter().enumerate() {
                while zeros != 0 {
                    let position = run * RUN + 64 * vector + zeros.trailing_zeros() as usize;
                    zeros &= zeros - 1;
                    if position < bits && found < degree {
                        out[found] = position as u16;
                        found += 1;
                    }
                }
            }
            if found == degree {
                break;
            }
        }
        found
    }

    /// What the terms with the exponents o, 2 o, 4 o... make of each bit of x^o.
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
}

/// Columns of a matrix to its quarters, as GF2P8AFFINEQB takes them: a byte per row, the last row first.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn transpose(columns: [u16; BITS]) -> Matrix {
    // SAFETY: the columns are 32 bytes, and no alignment is needed.
    let mut columns = unsafe { _mm256_loadu_si256(columns.as_ptr().cast()) };
    let (mut quarters, mut at) = ([0_u64; 4], BITS);
    while at > 0 {
        at -= 1;
        // The highest bit of each column is row `at`.
        let [low, high] = _mm256_movepi16_mask(columns).to_le_bytes();
        columns = _mm256_add_epi16(columns, columns);
        let (half, shift) = (at / 8, 8 * (7 - at % 8));
        quarters[2 * half] |= u64::from(low) << shift;
        quarters[2 * half + 1] |= u64::from(high) << shift;
    }
    quarters.map(u64::cast_signed)
}

/// For the positions of a run, bits that say where the locator is 0.
#[target_feature(enable = "gfni,avx512f,avx512bw")]
fn multiply(constant: u16, matrices: &[Matrix], powers: &[Powers]) -> [u64; VECTORS] {
    const XOR3: i32 = 0x96;
    let [low, high] = constant.to_le_bytes().map(|byte| _mm512_set1_epi8(byte.cast_signed()));
    let mut sums = [(low, high); VECTORS];
    for (matrix, powers) in matrices.iter().zip(powers) {
        let [a, b, c, d] = matrix.map(|quarter| _mm512_set1_epi64(quarter));
        for (at, (low, high)) in sums.iter_mut().enumerate() {
            // SAFETY: both are 64 bytes, aligned to 64.
            let [x, y] = [&powers.low[at], &powers.high[at]]
                .map(|bytes| unsafe { _mm512_load_si512(bytes.as_ptr().cast()) });
            let [xa, yb] = [_mm512_gf2p8affine_epi64_epi8(x, a, 0), _mm512_gf2p8affine_epi64_epi8(y, b, 0)];
            let [xc, yd] = [_mm512_gf2p8affine_epi64_epi8(x, c, 0), _mm512_gf2p8affine_epi64_epi8(y, d, 0)];
            *low = _mm512_ternarylogic_epi64(*low, xa, yb, XOR3);
            *high = _mm512_ternarylogic_epi64(*high, xc, yd, XOR3);
        }
    }
    sums.map(|(low, high)| {
        let any = _mm512_or_si512(low, high);
        _mm512_testn_epi8_mask(any, any)
    })
}

/// What the matrix with these columns makes of each half byte.
fn products(columns: [u16; BITS]) -> Products {
    let mut tables = [[0; 16]; 8];
    for (half, columns) in columns.as_chunks::<4>().0.iter().enumerate() {
        for value in 1..16_usize {
            let without_lowest = value & (value - 1);
            let [low, high] = columns[value.trailing_zeros() as usize].to_le_bytes();
            tables[2 * half][value] = tables[2 * half][without_lowest] ^ low;
            tables[2 * half + 1][value] = tables[2 * half + 1][without_lowest] ^ high;
        }
    }
    tables
}

/// For 64 of the positions of a run, bits that say where the locator is 0.
#[target_feature(enable = "avx2")]
fn look_up(constant: u16, tables: &[Products], powers: &[Powers], vector: usize) -> u64 {
    let [low, high] = constant.to_le_bytes().map(|byte| _mm256_set1_epi8(byte.cast_signed()));
    let half_byte = _mm256_set1_epi8(15);
    let mut sums = [(low, high); 2];
    for (tables, powers) in tables.iter().zip(powers) {
        // SAFETY: a table is 16 bytes, and no alignment is needed.
        let tables = tables
            .each_ref()
            .map(|table| _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) }));
        for (at, (low, high)) in sums.iter_mut().enumerate() {
            // SAFETY: both halves of 64 bytes are 32 bytes, and no alignment is needed.
            let [x, y] = [&powers.low, &powers.high]
                .map(|bytes| unsafe { _mm256_loadu_si256(bytes[vector].as_ptr().add(32 * at).cast()) });
            let halves = [x, _mm256_srli_epi16(x, 4), y, _mm256_srli_epi16(y, 4)];
            for (half, tables) in halves.into_iter().zip(tables.as_chunks::<2>().0) {
                let half = _mm256_and_si256(half, half_byte);
                *low = _mm256_xor_si256(*low, _mm256_shuffle_epi8(tables[0], half));
                *high = _mm256_xor_si256(*high, _mm256_shuffle_epi8(tables[1], half));
            }
        }
    }
    let zero = sums.map(|(low, high)| {
        let is_zero = _mm256_cmpeq_epi8(_mm256_or_si256(low, high), _mm256_setzero_si256());
        u64::from(_mm256_movemask_epi8(is_zero).cast_unsigned())
    });
    zero[1] << 32 | zero[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bch::field::linux_polynomial;
    use crate::code::MAX_STRENGTH;

    /// Every kernel this CPU has, against the definition: the sum of all terms at each position.
    #[test]
    fn searches_find_what_evaluation_finds() {
        let avx2 = is_x86_feature_detected!("avx2").then_some(Kernel::Avx2);
        let kernels: Vec<Kernel> = [Kernel::of_this_cpu(), avx2].into_iter().flatten().collect();
        for (degree, strength, bits) in [(13, 8, 4200), (14, 40, 8752), (15, 72, 32767), (9, 5, 511)] {
            let field = Field::new(linux_polynomial(degree).unwrap()).unwrap();
            let searches = kernels.iter().map(|kernel| Search::tables(*kernel, &field, strength, bits));
            let searches: Vec<Search> = searches.collect();
            for seed in 0..6 {
                // Any polynomial has some roots.
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
