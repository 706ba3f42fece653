//! The kernel with PMULL instructions.

use super::{BLOCK, Clmul, Kernel, for_words};
use crate::bch::generator::Words;
use core::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

/// The kernel for a remainder of `words` words if this CPU supports it. PMULL on 64 bits belongs to the feature `aes`.
pub(super) fn kernels(words: usize) -> impl Iterator<Item = Kernel> {
    let has = is_aarch64_feature_detected!("neon") && is_aarch64_feature_detected!("aes");
    has.then_some(for_words!(remainder, words)).flatten().into_iter()
}

/// Product of the low and the high word of a vector.
#[target_feature(enable = "neon,aes")]
fn low_by_high(words: uint64x2_t) -> uint64x2_t {
    vreinterpretq_u64_p128(vmull_p64(vgetq_lane_u64(words, 0), vgetq_lane_u64(words, 1)))
}

/// A vector as a 128-bit number.
#[target_feature(enable = "neon")]
fn number(x: uint64x2_t) -> u128 {
    u128::from(vgetq_lane_u64(x, 1)) << 64 | u128::from(vgetq_lane_u64(x, 0))
}

/// Product of two words as its high and low word.
#[target_feature(enable = "neon,aes")]
fn times(x: u64, y: u64) -> (u64, u64) {
    let product = vmull_p64(x, y);
    ((product >> 64) as u64, product as u64)
}

#[target_feature(enable = "neon,aes")]
fn remainder<const W: usize>(constants: &Clmul, data: &[u8]) -> Words {
    let (mut sums, mut pairs) = ([vdupq_n_u64(0); W], vdupq_n_u64(0));
    let mut head = [0; BLOCK];
    for (block, rows) in constants.blocks::<W>(data, &mut head) {
        for (part, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: the slice has 16 bytes, and no alignment is needed.
            let words = vreinterpretq_u64_u8(vrev64q_u8(unsafe { vld1q_u8(bytes.as_ptr()) }));
            pairs = veorq_u64(pairs, low_by_high(words));
            for (sum, row) in sums.iter_mut().zip(rows) {
                // SAFETY: a row has eight words, and `part` is below 4.
                let row = unsafe { vld1q_u64(row.0.as_ptr().add(2 * part)) };
                *sum = veorq_u64(*sum, low_by_high(veorq_u64(words, row)));
            }
        }
    }
    constants.divide(data.len(), sums.map(|sum| number(sum)), number(pairs), |x, y| times(x, y))
}
