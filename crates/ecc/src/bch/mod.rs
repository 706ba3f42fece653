//! Binary BCH codes (Bose and Ray-Chaudhuri 1960, Hocquenghem 1959), bit for bit compatible with Linux's BCH library.
//!
//! A word of bits is a polynomial: the first byte's highest bit is the highest coefficient. A codeword consists of
//! data and check bits, and is a multiple of the generator polynomial. The roots of the generator are a^1 to a^2t in a
//! field of 2^m elements ([`field`], [`generator`]).
//!
//! - Encoding computes the remainder of a division by the generator ([`remainder`]).
//! - A received word with the remainder 0 is a codeword. Otherwise the values of the remainder at the roots, the
//!   syndromes, depend on the errors alone: S_j is the sum of a^jp over the wrong bits p.
//! - The error locator, the polynomial with the roots a^-p, is computed from the syndromes ([`locator`]).
//! - Its roots are the positions of the wrong bits ([`roots`]). They are found by formula ([`small`]), or after
//!   splitting the locator into factors ([`trace`]).

pub(crate) mod field;
pub(crate) mod generator;
mod locator;
pub(crate) mod remainder;
pub(crate) mod roots;
mod small;
mod syndromes;
mod trace;

use crate::Uncorrectable;
use crate::code::{self, CodeError, MAX_STRENGTH};
use crate::form::Inversion;
use crate::simd::Clmul;
use field::Field;
use generator::{MAX_WORDS, Words};
use locator::Locator;
use remainder::Remainder;
use roots::Roots;
use syndromes::OddSyndromes;

/// Number of syndromes of the strongest code.
const MAX_SYNDROMES: usize = 2 * MAX_STRENGTH as usize;

/// A BCH code for data of any length up to a maximum. It computes the ECC bytes of Linux's `bch_encode`, before any
/// mask.
pub struct Bch {
    field: Field,
    strength: u32,
    /// Degree of the generator, which is the number of check bits.
    check_bits: usize,
    ecc_bytes: usize,
    max_data_bytes: usize,
    encoder: Encoder,
    roots: Roots,
    odd_syndromes: OddSyndromes,
    /// Mask added to the ECC bytes; 0 except in a [`Codec`](crate::Codec).
    mask: Words,
}

impl Bch {
    /// The code over the field of 2^`m` elements that corrects `t` bits, with the default primitive polynomial of
    /// Linux: 8219 (0x201B) for m = 13, 16427 (0x402B) for m = 14.
    ///
    /// # Errors
    /// m not in 5 to 15, t not in 1 to 72, or no room for data.
    pub fn new(m: u32, t: u32) -> Result<Self, CodeError> {
        Self::with_polynomial(field::linux_polynomial(m)?, t)
    }

    /// The code with another primitive polynomial, whose coefficients are given as bits, for example 17475 (0x4443)
    /// for m = 14.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new), and a polynomial that is not primitive.
    pub fn with_polynomial(polynomial: u32, t: u32) -> Result<Self, CodeError> {
        Self::build(polynomial, t, usize::MAX)
    }

    /// The code for steps of a fixed size, with smaller tables and a mask for all ECC bytes.
    pub(crate) fn for_step(
        polynomial: u32,
        t: u32,
        step_bytes: usize,
        inversion: Inversion,
    ) -> Result<Self, CodeError> {
        let mut bch = Self::build(polynomial, t, step_bytes)?;
        bch.mask = match inversion {
            Inversion::Erased => bch.encoder.remainder(&alloc::vec![0xFF; step_bytes]).map(|word| !word),
            Inversion::None => [0; MAX_WORDS],
            Inversion::All => [u64::MAX; MAX_WORDS],
        };
        Ok(bch)
    }

    fn build(polynomial: u32, t: u32, most_data_bytes: usize) -> Result<Self, CodeError> {
        let field = Field::new(polynomial)?;
        code::check_bch(field.degree(), t)?;
        let generator = generator::generator(&field, t);
        let tail = generator::tail(&generator);
        let (bits, check_bits) = (field.degree() * t, generator.len() - 1);
        let max_data_bytes = most_data_bytes.min((field.order() - check_bits) / 8);
        Ok(Self {
            strength: t,
            check_bits,
            ecc_bytes: bits.div_ceil(8) as usize,
            max_data_bytes,
            encoder: Encoder::new(&tail, bits.div_ceil(64) as usize, max_data_bytes),
            roots: Roots::new(&field, t as usize, 8 * max_data_bytes + check_bits),
            odd_syndromes: OddSyndromes::new(&field, check_bits, t as usize),
            mask: [0; MAX_WORDS],
            field,
        })
    }

    /// Maximum number of bits that the code corrects.
    pub const fn strength(&self) -> u32 {
        self.strength
    }

    /// Number of ECC bytes: m * t bits, rounded up to whole bytes.
    pub const fn ecc_bytes(&self) -> usize {
        self.ecc_bytes
    }

    /// Maximum number of data bytes.
    pub const fn max_data_bytes(&self) -> usize {
        self.max_data_bytes
    }

    fn check_lengths(&self, data: usize, ecc: usize) {
        assert!(data <= self.max_data_bytes, "{data} data bytes in a code for {}", self.max_data_bytes);
        assert_eq!(ecc, self.ecc_bytes, "ECC bytes");
    }

    /// Writes the ECC bytes of `data`.
    ///
    /// # Panics
    /// `data` is longer than [`max_data_bytes`](Self::max_data_bytes), or the length of `ecc` is not
    /// [`ecc_bytes`](Self::ecc_bytes).
    pub fn encode(&self, data: &[u8], ecc: &mut [u8]) {
        self.check_lengths(data.len(), ecc.len());
        self.store(&self.encoder.remainder(data), ecc);
    }

    fn store(&self, rest: &Words, ecc: &mut [u8]) {
        for (bytes, (word, mask)) in ecc.chunks_mut(8).zip(rest.iter().zip(&self.mask)) {
            bytes.copy_from_slice(&(word ^ mask).to_be_bytes()[..bytes.len()]);
        }
    }

    /// Corrects `data` and `ecc`, and returns the number of corrected bits. Padding bits of the last ECC byte are set
    /// to their encoded value and are not counted.
    ///
    /// # Errors
    /// `Uncorrectable`: more errors than the code corrects, unless they result in another correctable word. Data and
    /// ECC bytes stay unchanged.
    ///
    /// # Panics
    /// In the same cases as [`encode`](Self::encode).
    pub fn decode(&self, data: &mut [u8], ecc: &mut [u8]) -> Result<u32, Uncorrectable> {
        self.check_lengths(data.len(), ecc.len());
        let right = self.encoder.remainder(data);
        let mut wrong = self.difference(&right, ecc);
        if wrong.iter().all(|word| *word == 0) {
            return Ok(0);
        }
        self.clear_padding(&mut wrong);
        let flipped = self.repair(&wrong, data, ecc)?;
        self.write_padding(ecc);
        Ok(flipped)
    }

    /// Difference between the check bits computed from the data and the received check bits.
    fn difference(&self, right: &Words, ecc: &[u8]) -> Words {
        let mut wrong = [0; MAX_WORDS];
        let (whole, rest) = ecc.as_chunks();
        let right = right.iter().zip(&self.mask).map(|(word, mask)| word ^ mask);
        let last = rest.iter().rev().fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56);
        let received = whole.iter().map(|bytes| u64::from_be_bytes(*bytes)).chain([last]);
        for (wrong, (right, received)) in wrong.iter_mut().zip(right.zip(received)) {
            *wrong = right ^ received;
        }
        if let Some(word) = wrong.get_mut(whole.len()) {
            *word &= !(u64::MAX >> (8 * rest.len()));
        }
        wrong
    }

    /// Clears the padding after the check bits.
    fn clear_padding(&self, wrong: &mut Words) {
        for (at, word) in wrong.iter_mut().enumerate() {
            let left = self.check_bits.saturating_sub(64 * at);
            if left < 64 {
                *word &= !(u64::MAX >> left);
            }
        }
    }

    fn write_padding(&self, ecc: &mut [u8]) {
        for (at, byte) in ecc.iter_mut().enumerate().skip(self.check_bits / 8) {
            let unused = 0xFF >> self.check_bits.saturating_sub(8 * at);
            let mask = self.mask[at / 8].to_be_bytes()[at % 8];
            *byte = *byte & !unused | mask & unused;
        }
    }

    /// Flips the wrong bits and returns their number.
    fn repair(&self, wrong: &Words, data: &mut [u8], ecc: &mut [u8]) -> Result<u32, Uncorrectable> {
        let mut syndromes = [0; MAX_SYNDROMES];
        let syndromes = &mut syndromes[..2 * self.strength as usize];
        self.syndromes(wrong, syndromes);
        let mut locator = Locator::new();
        locator.generate(&self.field, syndromes)?;
        let bits = 8 * data.len() + self.check_bits;
        let mut positions = [0; MAX_STRENGTH as usize];
        let found = self.roots.find(&self.field, locator.coefficients(), bits, &mut positions)?;
        for position in found {
            self.flip(usize::from(*position), data, ecc);
        }
        Ok(found.len() as u32)
    }

    /// Flips the bit whose value is the coefficient of X^`position`.
    fn flip(&self, position: usize, data: &mut [u8], ecc: &mut [u8]) {
        let (bytes, bit) = match self.check_bits.checked_sub(position + 1) {
            Some(bit) => (ecc, bit),
            None => {
                let bit = 8 * data.len() - 1 - (position - self.check_bits);
                (data, bit)
            }
        };
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
    }

    /// Syndromes of a remainder: its values at a^1 to a^2t. S_2j is the square of S_j, because the coefficients are 0
    /// or 1.
    fn syndromes(&self, rest: &Words, out: &mut [u16]) {
        let mut odd = [0; MAX_STRENGTH as usize];
        self.odd_syndromes.compute(rest, &mut odd);
        for j in 0..out.len() {
            out[j] = if j % 2 == 0 { odd[j / 2] } else { self.field.square(out[j / 2]) };
        }
    }
}

/// Encoder, which divides data by the generator.
enum Encoder {
    Portable(Remainder),
    Clmul(Clmul),
}

impl Encoder {
    fn new(tail: &Words, words: usize, data_bytes: usize) -> Self {
        Clmul::new(tail, words, data_bytes)
            .map_or_else(|| Self::Portable(Remainder::new(tail, words)), Self::Clmul)
    }

    fn remainder(&self, data: &[u8]) -> Words {
        match self {
            Self::Portable(remainder) => remainder.compute(data),
            Self::Clmul(clmul) => clmul.compute(data),
        }
    }
}
