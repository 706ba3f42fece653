//! Remainders by carry-less multiplication.
//!
//! Word i of the data, counted from the end, stands for a multiple of X^64i; so the remainder is the sum of all words times
//! the remainder of X^64(W + i), which is W words long. These are products of 64 by 64 bits that do not wait for each other.
//! Only their sum, one word longer than a remainder, is divided, by a product with the generator's inverse (Barrett 1986;
//! Gopal et al., Fast CRC Computation Using PCLMULQDQ, Intel 2009).

use crate::bch::generator::{MAX_WORDS, Words, times_x};
use alloc::vec::Vec;
use core::arch::x86_64::*;
use std::is_x86_feature_detected;

/// Bytes of data that one row of constants is for.
const BLOCK: usize = 64;

/// Constants of a block for one word of the remainder: those of the block's eight words, first word first.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Row([u64; 8]);

type Kernel = unsafe fn(&Clmul, &[u8]) -> Words;

/// Constants for the remainder of data, on a CPU that has the instructions of `kernel`.
pub(crate) struct Clmul {
    kernel: Kernel,
    /// For the last block of data first, `words` rows each.
    rows: Vec<Row>,
    /// X^64(W + 1) / generator, without its leading 1.
    inverse: u64,
    /// The generator, left-justified, without its leading 1.
    tail: Words,
}

/// The kernel for a remainder of `$words` words.
macro_rules! for_words {
    ($kernel:ident, $words:expr, $($n:literal)*) => {
        match $words { $($n => Some($kernel::<$n> as Kernel),)* _ => None }
    };
}

fn kernel(words: usize) -> Option<Kernel> {
    let wide = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("vpclmulqdq");
    let narrow = is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("ssse3");
    if wide {
        for_words!(wide_remainder, words, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17)
    } else if narrow {
        for_words!(narrow_remainder, words, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17)
    } else {
        None
    }
}

impl Clmul {
    /// For a generator of `words` words and at most `data_bytes` of data.
    pub(crate) fn new(tail: &[u64], words: usize, data_bytes: usize) -> Option<Self> {
        Some(Self::with_kernel(kernel(words)?, tail, words, data_bytes))
    }

    fn with_kernel(kernel: Kernel, tail: &[u64], words: usize, data_bytes: usize) -> Self {
        let mut rows = alloc::vec![Row::default(); data_bytes.div_ceil(BLOCK) * words];
        let mut power = tail[..words].to_vec();
        let mut inverse = 0;
        for (at, block) in rows.chunks_exact_mut(words).enumerate() {
            for word in (0..8).rev() {
                block.iter_mut().zip(&power).for_each(|(row, power)| row.0[word] = *power);
                let quotient = times_x64(&mut power, tail);
                if (at, word) == (0, 7) {
                    inverse = quotient;
                }
            }
        }
        let mut whole = [0; MAX_WORDS];
        whole[..words].copy_from_slice(&tail[..words]);
        Self { kernel, rows, inverse, tail: whole }
    }

    /// The remainder of `data`, as [`Remainder::of`](crate::bch::remainder::Remainder::of) has it.
    pub(crate) fn of(&self, data: &[u8]) -> Words {
        // SAFETY: `new` looked whether the CPU has the kernel's instructions.
        unsafe { (self.kernel)(self, data) }
    }

    /// Blocks of data with their rows, the last block first. The first block is filled up with zeros before the data.
    fn blocks<'a, const W: usize>(
        &'a self,
        data: &'a [u8],
        head: &'a mut [u8; BLOCK],
    ) -> impl Iterator<Item = (&'a [u8; BLOCK], &'a [Row; W])> {
        let (first, rest) = data.split_at(data.len() % BLOCK);
        head[BLOCK - first.len()..].copy_from_slice(first);
        let head: Option<&[u8; BLOCK]> = (!first.is_empty()).then_some(head);
        let blocks = rest.as_chunks().0.iter().rev().chain(head);
        blocks.zip(self.rows.as_chunks::<W>().0)
    }

    /// Divides a sum of W + 1 words by the generator.
    #[inline(always)]
    fn divide<const W: usize>(
        &self,
        high: u64,
        sum: [u64; W],
        times: impl Fn(u64, u64) -> (u64, u64),
    ) -> Words {
        let quotient = high ^ times(high, self.inverse).0;
        let mut rest = [0; MAX_WORDS];
        rest[..W].copy_from_slice(&sum);
        for word in 0..W {
            let (high, low) = times(quotient, self.tail[word]);
            rest[word] ^= low;
            if word > 0 {
                rest[word - 1] ^= high;
            }
        }
        rest
    }
}

/// X^64 times `rest` modulo the generator; the quotient.
fn times_x64(rest: &mut [u64], tail: &[u64]) -> u64 {
    (0..64).fold(0, |quotient, _| {
        let next = quotient << 1 | rest[0] >> 63;
        times_x(rest, tail);
        next
    })
}

/// Product of two words: its high and its low word.
#[target_feature(enable = "pclmulqdq")]
fn times(x: u64, y: u64) -> (u64, u64) {
    halves(_mm_clmulepi64_si128(_mm_set_epi64x(0, x.cast_signed()), _mm_set_epi64x(0, y.cast_signed()), 0))
}

/// High and low word.
#[target_feature(enable = "sse2")]
fn halves(x: __m128i) -> (u64, u64) {
    let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(x, x));
    (high.cast_unsigned(), _mm_cvtsi128_si64(x).cast_unsigned())
}

/// Products of 128 bits, each one word above the next, laid over each other.
#[target_feature(enable = "sse2")]
fn overlay<const W: usize>(products: [__m128i; W]) -> (u64, [u64; W]) {
    let words = products.map(|product| halves(product));
    let sum = core::array::from_fn(|at| words[at].1 ^ words.get(at + 1).map_or(0, |next| next.0));
    (words[0].0, sum)
}

#[target_feature(enable = "pclmulqdq,ssse3")]
fn narrow_remainder<const W: usize>(constants: &Clmul, data: &[u8]) -> Words {
    let big_endian = _mm_set_epi64x(0x08090A0B_0C0D0E0F, 0x00010203_04050607);
    let mut sums = [_mm_setzero_si128(); W];
    let mut head = [0; BLOCK];
    for (block, rows) in constants.blocks::<W>(data, &mut head) {
        for (part, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: 16 bytes are there, and no alignment is needed.
            let words = _mm_shuffle_epi8(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }, big_endian);
            for (sum, row) in sums.iter_mut().zip(rows) {
                let [first, second] = [row.0[2 * part], row.0[2 * part + 1]].map(u64::cast_signed);
                let row = _mm_set_epi64x(second, first);
                let products = _mm_xor_si128(
                    _mm_clmulepi64_si128(words, row, 0x00),
                    _mm_clmulepi64_si128(words, row, 0x11),
                );
                *sum = _mm_xor_si128(*sum, products);
            }
        }
    }
    let (high, sum) = overlay(sums);
    constants.divide(high, sum, |x, y| times(x, y))
}

/// The same, four times as wide.
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq,pclmulqdq")]
fn wide_remainder<const W: usize>(constants: &Clmul, data: &[u8]) -> Words {
    const XOR3: i32 = 0x96;
    let big_endian = _mm512_broadcast_i32x4(_mm_set_epi64x(0x08090A0B_0C0D0E0F, 0x00010203_04050607));
    let mut sums = [_mm512_setzero_si512(); W];
    let mut head = [0; BLOCK];
    for (block, rows) in constants.blocks::<W>(data, &mut head) {
        // SAFETY: 64 bytes are there, and no alignment is needed.
        let words = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
        let words = _mm512_shuffle_epi8(words, big_endian);
        for (sum, row) in sums.iter_mut().zip(rows) {
            // SAFETY: a row is 64 bytes, aligned to 64.
            let row = unsafe { _mm512_load_si512(row.0.as_ptr().cast()) };
            let [even, odd] =
                [_mm512_clmulepi64_epi128(words, row, 0x00), _mm512_clmulepi64_epi128(words, row, 0x11)];
            *sum = _mm512_ternarylogic_epi64(*sum, even, odd, XOR3);
        }
    }
    let (high, sum) = overlay(sums.map(|sum| fold(sum)));
    constants.divide(high, sum, |x, y| times(x, y))
}

/// The sum of four products.
#[target_feature(enable = "avx512f")]
fn fold(x: __m512i) -> __m128i {
    let half = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bch::field::{Field, linux_polynomial};
    use crate::bch::generator::{generator, tail};
    use crate::bch::remainder::Remainder;
    use crate::noise;

    /// Every kernel this CPU has, every length of remainder, data of many lengths.
    #[test]
    fn remainders_are_those_of_the_portable_path() {
        let field = Field::new(linux_polynomial(15).unwrap()).unwrap();
        for strength in [1, 5, 9, 13, 17, 20, 25, 30, 33, 38, 42, 47, 51, 56, 60, 65, 72] {
            let tail = tail(&generator(&field, strength));
            let words = (15 * strength).div_ceil(64) as usize;
            let portable = Remainder::new(&tail, words);
            let narrow = for_words!(narrow_remainder, words, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17);
            let has_narrow = is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("ssse3");
            for kernel in [kernel(words), narrow.filter(|_| has_narrow)].into_iter().flatten() {
                let clmul = Clmul::with_kernel(kernel, &tail, words, 1100);
                for len in [0, 1, 7, 8, 63, 64, 65, 127, 128, 511, 512, 1024, 1099, 1100] {
                    let data = noise(u64::from(strength), len);
                    assert_eq!(clmul.of(&data), portable.of(&data), "{words} words, {len} bytes");
                }
            }
        }
    }
}
