//! Remainders by carry-less multiplication.
//!
//! Word i of the data, counted from the end, is the coefficient of X^64i. Therefore the remainder is the sum of all words
//! multiplied by the remainder of X^64(W + i), which has W words. These are independent products of 64 by 64 bits. Only their
//! sum, one word longer than a remainder, is divided, by a product with the generator's inverse (Barrett 1986; Gopal et al.,
//! Fast CRC Computation Using PCLMULQDQ, Intel 2009).
//!
//! One multiplication is used for two words x and y with their constants c and d, as in Winograd 1968 (A New Algorithm for
//! Inner Product): xc + yd = (x + d)(y + c) + xy + cd. The products xy are the same for all W words of the remainder, and the
//! products cd are precomputed.

use crate::bch::generator::{MAX_WORDS, Words, times_x};
use alloc::vec::Vec;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64::kernels;
#[cfg(target_arch = "x86_64")]
use x86_64::kernels;

/// Number of data bytes that one row of constants covers.
const BLOCK: usize = 64;

/// Constants of a block for one word of the remainder: one constant for each of the block's eight words. The two constants of
/// a pair of words are swapped, so that each word is added to the constant of the other.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Row([u64; 8]);

/// A function that divides data by the generator, for a fixed number of words and an instruction set.
type Kernel = unsafe fn(&Clmul, &[u8]) -> Words;

/// Constants for the remainder of data, on a CPU that has the instructions of `kernel`.
pub(crate) struct Clmul {
    kernel: Kernel,
    /// Rows of constants, `words` per block, starting with the last block of data.
    rows: Vec<Row>,
    /// Sums of the products of all pairs of constants, `words` for each number of blocks from 0 on.
    products: Vec<u128>,
    /// Quotient X^64(W + 1) / generator, without its leading 1.
    inverse: u64,
    /// Coefficients of the generator below its leading 1, left-justified.
    tail: Words,
}

/// The instance of function `$kernel` for a remainder of `$words` words.
macro_rules! for_words {
    ($kernel:ident, $words:expr) => {
        for_words!($kernel, $words, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17)
    };
    ($kernel:ident, $words:expr, $($n:literal)*) => {
        match $words { $($n => Some($kernel::<$n> as Kernel),)* _ => None }
    };
}
use for_words;

impl Clmul {
    /// Constants for a generator of `words` words and at most `data_bytes` of data.
    pub(crate) fn new(tail: &[u64], words: usize, data_bytes: usize) -> Option<Self> {
        let kernel = kernels(words).next()?;
        Some(Self::with_kernel(kernel, tail, words, data_bytes))
    }

    fn with_kernel(kernel: Kernel, tail: &[u64], words: usize, data_bytes: usize) -> Self {
        let blocks = data_bytes.div_ceil(BLOCK);
        let mut rows = alloc::vec![Row::default(); blocks * words];
        let mut power = tail[..words].to_vec();
        let mut inverse = 0;
        for (at, block) in rows.chunks_exact_mut(words).enumerate() {
            for word in (0..8).rev() {
                block.iter_mut().zip(&power).for_each(|(row, power)| row.0[word ^ 1] = *power);
                let quotient = times_x64(&mut power, tail);
                if (at, word) == (0, 7) {
                    inverse = quotient;
                }
            }
        }
        let mut products = alloc::vec![0; (blocks + 1) * words];
        for (at, row) in rows.iter().enumerate() {
            let pairs = row.0.as_chunks::<2>().0.iter();
            products[at + words] = pairs.fold(products[at], |sum, [c, d]| sum ^ product(*c, *d));
        }
        let mut whole = [0; MAX_WORDS];
        whole[..words].copy_from_slice(&tail[..words]);
        Self { kernel, rows, products, inverse, tail: whole }
    }

    /// Remainder of `data`, as [`Remainder::compute`](crate::bch::remainder::Remainder::compute).
    pub(crate) fn compute(&self, data: &[u8]) -> Words {
        // SAFETY: `kernels` returns only kernels whose instructions the CPU supports.
        unsafe { (self.kernel)(self, data) }
    }

    /// Blocks of data with their rows of constants, the last block first. The first block is padded with leading zeros.
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

    /// The remainder, from the sums of (x + d)(y + c) for its words and the sum of xy. `times` multiplies two words and
    /// returns the high and the low word.
    #[inline(always)]
    fn divide<const W: usize>(
        &self,
        data_bytes: usize,
        sums: [u128; W],
        pairs: u128,
        times: impl Fn(u64, u64) -> (u64, u64),
    ) -> Words {
        let products = &self.products.as_chunks::<W>().0[data_bytes.div_ceil(BLOCK)];
        let sums: [u128; W] = core::array::from_fn(|at| sums[at] ^ products[at] ^ pairs);
        // Each sum is shifted by one word against the next.
        let high = |at: usize| (sums[at] >> 64) as u64;
        let quotient = high(0) ^ times(high(0), self.inverse).0;
        let mut rest = [0; MAX_WORDS];
        for (at, rest) in rest[..W].iter_mut().enumerate() {
            *rest = sums[at] as u64 ^ if at + 1 < W { high(at + 1) } else { 0 };
        }
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

/// Multiplies `rest` by X^64 modulo the generator, and returns the quotient.
fn times_x64(rest: &mut [u64], tail: &[u64]) -> u64 {
    (0..64).fold(0, |quotient, _| {
        let next = quotient << 1 | rest[0] >> 63;
        times_x(rest, tail);
        next
    })
}

/// Carry-less product of two words.
fn product(x: u64, y: u64) -> u128 {
    (0..64).filter(|bit| y >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u128::from(x) << bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bch::field::{Field, linux_polynomial};
    use crate::bch::generator::{generator, tail};
    use crate::bch::remainder::Remainder;
    use crate::noise;

    /// Compares every kernel that this CPU supports with the portable path, for every length of remainder and many lengths of
    /// data.
    #[test]
    fn remainders_are_those_of_the_portable_path() {
        let field = Field::new(linux_polynomial(15).unwrap()).unwrap();
        for strength in [1, 5, 9, 13, 17, 20, 25, 30, 33, 38, 42, 47, 51, 56, 60, 65, 72] {
            let tail = tail(&generator(&field, strength));
            let words = (15 * strength).div_ceil(64) as usize;
            let portable = Remainder::new(&tail, words);
            for kernel in kernels(words) {
                let clmul = Clmul::with_kernel(kernel, &tail, words, 1100);
                for len in [0, 1, 7, 8, 63, 64, 65, 127, 128, 511, 512, 1024, 1099, 1100] {
                    let data = noise(u64::from(strength), len);
                    assert_eq!(clmul.compute(&data), portable.compute(&data), "{words} words, {len} bytes");
                }
            }
        }
    }
}
