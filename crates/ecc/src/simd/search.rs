//! The search for roots by bit matrices.
//!
//! Squaring is linear over {0, 1}, so all terms of the locator whose exponents are an odd number o times a power of two are
//! together a linear map of x^o: an m x m matrix of bits. With tables of x^o for all positions, one multiplication by a
//! matrix for each odd o is the locator's value (the split of Fedorenko and Trifonov 2002), and the CPU multiplies 64 bytes
//! by an 8 x 8 matrix at once.

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

/// Tables for the search, on a CPU that has the instructions.
pub(crate) struct Search {
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
        let has = is_x86_feature_detected!("gfni")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        has.then(|| Self::tables(field, strength, bits))
    }

    fn tables(field: &Field, strength: usize, bits: usize) -> Self {
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
        Self { odd, powers, runs, logs: logs.collect() }
    }

    /// The positions p below `bits` with `locator(a^-p) = 0`; their number.
    pub(crate) fn roots(&self, field: &Field, locator: &[u16], bits: usize, out: &mut Positions) -> usize {
        // SAFETY: `new` looked whether the CPU has the instructions.
        unsafe { self.scan(field, locator, bits, out) }
    }

    #[target_feature(enable = "gfni,avx512f,avx512bw,avx512vl")]
    fn scan(&self, field: &Field, locator: &[u16], bits: usize, out: &mut Positions) -> usize {
        let mut matrices = [[0; 4]; MAX_ODD];
        let matrices = &mut matrices[..(locator.len() / 2).min(self.odd)];
        for (at, matrix) in matrices.iter_mut().enumerate() {
            *matrix = transpose(self.columns(field, locator, 2 * at + 1));
        }
        let mut found = 0;
        for (run, powers) in self.powers.chunks_exact(self.odd).enumerate().take(self.runs) {
            for (vector, mut zeros) in values(locator[0], matrices, powers).into_iter().enumerate() {
                while zeros != 0 {
                    let position = run * RUN + 64 * vector + zeros.trailing_zeros() as usize;
                    zeros &= zeros - 1;
                    if position < bits && found < locator.len() - 1 {
                        out[found] = position as u16;
                        found += 1;
                    }
                }
            }
            if found == locator.len() - 1 {
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
fn values(constant: u16, matrices: &[Matrix], powers: &[Powers]) -> [u64; VECTORS] {
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
