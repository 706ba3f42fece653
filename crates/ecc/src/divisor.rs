//! Tests of words of an unknown code. A codeword of a BCH code that corrects t bits has the roots a, a^3 .. a^(2t-1).

use crate::bch::field::Field;
use crate::code::{CodeError, MAX_STRENGTH};
use alloc::vec::Vec;

/// A field over which words are tested.
pub struct Divisor {
    field: Field,
    polynomial: u32,
    /// Products of X^m and all polynomials of 8 bits, modulo the primitive polynomial.
    table: Vec<u16>,
}

impl Divisor {
    /// The field of a primitive polynomial, whose coefficients are given as bits.
    ///
    /// # Errors
    /// A polynomial that is not primitive, or whose degree is outside 8 to 15.
    pub fn new(polynomial: u32) -> Result<Self, CodeError> {
        let field = Field::new(polynomial)?;
        let degree = field.degree();
        if degree < 8 {
            return Err(CodeError::Field { degree });
        }
        let product = |byte: u32| {
            let shifted = (0..8).rev().fold(byte << degree, |rest, bit| {
                if rest >> (degree + bit) & 1 == 1 { rest ^ polynomial << bit } else { rest }
            });
            shifted as u16
        };
        Ok(Self { field, polynomial, table: (0..256).map(product).collect() })
    }

    /// Degree m of the field.
    pub fn degree(&self) -> u32 {
        self.field.degree()
    }

    /// Primitive polynomial of the field.
    pub const fn polynomial(&self) -> u32 {
        self.polynomial
    }

    /// Remainder of a word modulo the primitive polynomial, computed from the remainder without the last byte. It is 0
    /// for every codeword.
    #[inline]
    pub fn push(&self, rest: u16, byte: u8) -> u16 {
        let degree = self.field.degree();
        let top = usize::from(rest >> (degree - 8));
        let mask = (1_u32 << degree) - 1;
        self.table[top] ^ ((u32::from(rest) << 8) & mask) as u16 ^ u16::from(byte)
    }

    /// Strength of the strongest BCH code that contains a word: the number of its consecutive roots a, a^3, a^5 ..
    pub fn strength(&self, word: &[u8]) -> u32 {
        let roots = (0..MAX_STRENGTH).take_while(|&at| self.is_root(word, 2 * at as usize + 1));
        roots.count() as u32
    }

    fn is_root(&self, word: &[u8], power: usize) -> bool {
        let factor = self.field.exp(power % self.field.order());
        let bits = word.iter().flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1)));
        bits.fold(0, |value, bit| self.field.mul(value, factor) ^ bit) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bch, noise};
    use alloc::vec;

    #[test]
    fn codewords_tell_the_strength_of_their_code() {
        for (polynomial, strength) in [(0x201B, 4), (0x201B, 8), (0x4443, 24), (0x402B, 5), (0x5803, 16)] {
            let (bch, divisor) =
                (Bch::with_polynomial(polynomial, strength).unwrap(), Divisor::new(polynomial).unwrap());
            let data = noise(u64::from(strength), 512);
            let mut ecc = vec![0; bch.ecc_bytes()];
            bch.encode(&data, &mut ecc);
            let mut word = [data, ecc].concat();
            let rest = |word: &[u8]| word.iter().fold(0, |rest, byte| divisor.push(rest, *byte));
            assert_eq!((rest(&word), divisor.strength(&word)), (0, strength));
            word[100] ^= 1;
            assert!(rest(&word) != 0 && divisor.strength(&word) == 0);
        }
    }
}
