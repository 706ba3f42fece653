//! Kernels with PCLMULQDQ on 128 bits, and VPCLMULQDQ on 256 and 512 bits.

use super::{BLOCK, Clmul, Kernel, for_words};
use crate::bch::generator::Words;
use core::arch::x86_64::*;
use std::is_x86_feature_detected;

/// Selects the low word of one operand and the high word of the other.
const LOW_BY_HIGH: i32 = 0x10;

/// Kernels for a remainder of `words` words that this CPU supports, the fastest first.
pub(super) fn kernels(words: usize) -> impl Iterator<Item = Kernel> {
    let vector = cfg!(not(floatgate_without_vpclmulqdq)) && is_x86_feature_detected!("vpclmulqdq");
    let avx512 = cfg!(not(floatgate_without_avx512))
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw");
    let has_128 = is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("ssse3");
    let has_256 = has_128 && vector && is_x86_feature_detected!("avx2");
    let has_512 = has_256 && avx512;
    let all = [
        has_512.then_some(for_words!(remainder_512, words)),
        has_256.then_some(for_words!(remainder_256, words)),
        has_128.then_some(for_words!(remainder_128, words)),
    ];
    all.into_iter().flatten().flatten()
}

/// Product of two words as its high and low word.
#[target_feature(enable = "pclmulqdq")]
fn times(x: u64, y: u64) -> (u64, u64) {
    let product =
        _mm_clmulepi64_si128(_mm_set_epi64x(0, x.cast_signed()), _mm_set_epi64x(0, y.cast_signed()), 0);
    let product = number(product);
    ((product >> 64) as u64, product as u64)
}

/// A vector as a 128-bit number.
#[target_feature(enable = "sse2")]
fn number(x: __m128i) -> u128 {
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(x, x)).cast_unsigned();
    u128::from(high) << 64 | u128::from(_mm_cvtsi128_si64(x).cast_unsigned())
}

/// Shuffle mask that loads two big-endian words.
#[target_feature(enable = "sse2")]
fn big_endian() -> __m128i {
    _mm_set_epi64x(0x08090A0B_0C0D0E0F, 0x00010203_04050607)
}

#[target_feature(enable = "pclmulqdq,ssse3")]
fn remainder_128<const W: usize>(constants: &Clmul, data: &[u8]) -> Words {
    let (mut sums, mut pairs) = ([_mm_setzero_si128(); W], _mm_setzero_si128());
    let mut head = [0; BLOCK];
    for (block, rows) in constants.blocks::<W>(data, &mut head) {
        for (part, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: the slice has 16 bytes, and no alignment is needed.
            let words = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
            let words = _mm_shuffle_epi8(words, big_endian());
            pairs = _mm_xor_si128(pairs, _mm_clmulepi64_si128(words, words, LOW_BY_HIGH));
            for (sum, row) in sums.iter_mut().zip(rows) {
                // SAFETY: a row has 64 bytes, aligned to 64, and `part` is below 4.
                let row = unsafe { _mm_load_si128(row.0.as_ptr().cast::<__m128i>().add(part)) };
                let words = _mm_xor_si128(words, row);
                *sum = _mm_xor_si128(*sum, _mm_clmulepi64_si128(words, words, LOW_BY_HIGH));
            }
        }
    }
    constants.divide(data.len(), sums.map(|sum| number(sum)), number(pairs), |x, y| times(x, y))
}

/// Remainder of the data, with 256-bit vectors.
#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq")]
fn remainder_256<const W: usize>(constants: &Clmul, data: &[u8]) -> Words {
    let order = _mm256_broadcastsi128_si256(big_endian());
    let (mut sums, mut pairs) = ([_mm256_setzero_si256(); W], _mm256_setzero_si256());
    let mut head = [0; BLOCK];
    for (block, rows) in constants.blocks::<W>(data, &mut head) {
        for (half, bytes) in block.as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: the slice has 32 bytes, and no alignment is needed.
            let words = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            let words = _mm256_shuffle_epi8(words, order);
            pairs = _mm256_xor_si256(pairs, _mm256_clmulepi64_epi128(words, words, LOW_BY_HIGH));
            for (sum, row) in sums.iter_mut().zip(rows) {
                // SAFETY: a row has 64 bytes, aligned to 64, and `half` is below 2.
                let row = unsafe { _mm256_load_si256(row.0.as_ptr().cast::<__m256i>().add(half)) };
                let words = _mm256_xor_si256(words, row);
                *sum = _mm256_xor_si256(*sum, _mm256_clmulepi64_epi128(words, words, LOW_BY_HIGH));
            }
        }
    }
    constants.divide(data.len(), sums.map(|sum| fold_256(sum)), fold_256(pairs), |x, y| times(x, y))
}

/// Remainder of the data, with 512-bit vectors.
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq,pclmulqdq")]
fn remainder_512<const W: usize>(constants: &Clmul, data: &[u8]) -> Words {
    let order = _mm512_broadcast_i32x4(big_endian());
    let (mut sums, mut pairs) = ([_mm512_setzero_si512(); W], _mm512_setzero_si512());
    let mut head = [0; BLOCK];
    for (block, rows) in constants.blocks::<W>(data, &mut head) {
        // SAFETY: the block has 64 bytes, and no alignment is needed.
        let words = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
        let words = _mm512_shuffle_epi8(words, order);
        pairs = _mm512_xor_si512(pairs, _mm512_clmulepi64_epi128(words, words, LOW_BY_HIGH));
        for (sum, row) in sums.iter_mut().zip(rows) {
            // SAFETY: a row has 64 bytes, aligned to 64.
            let row = unsafe { _mm512_load_si512(row.0.as_ptr().cast()) };
            let words = _mm512_xor_si512(words, row);
            *sum = _mm512_xor_si512(*sum, _mm512_clmulepi64_epi128(words, words, LOW_BY_HIGH));
        }
    }
    constants.divide(data.len(), sums.map(|sum| fold_512(sum)), fold_512(pairs), |x, y| times(x, y))
}

/// Sum of the two products in a vector.
#[target_feature(enable = "avx2")]
fn fold_256(x: __m256i) -> u128 {
    number(_mm_xor_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)))
}

/// Sum of the four products in a vector.
#[target_feature(enable = "avx512f,avx2")]
fn fold_512(x: __m512i) -> u128 {
    fold_256(_mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1)))
}
