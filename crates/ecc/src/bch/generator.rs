//! Generator polynomials, and polynomials over {0, 1} as arrays of bits.

use super::field::Field;
use alloc::vec;
use alloc::vec::Vec;

/// Coefficients of a remainder, left-justified: bit 63 of word 0 is the highest coefficient.
pub(crate) type Words = [u64; MAX_WORDS];

/// Number of 64-bit words of the longest remainder, which has 15 * 72 bits.
pub(crate) const MAX_WORDS: usize = 17;

/// The generator of the code that corrects `strength` bits: the polynomial over {0, 1} of least degree with the roots a^1
/// to a^(2 * `strength`) (Bose and Ray-Chaudhuri 1960, Hocquenghem 1959). The result is its coefficients, lowest first.
pub(crate) fn generator(field: &Field, strength: u32) -> Vec<bool> {
    let mut generator = vec![true];
    let mut is_root = vec![false; field.order()];
    // Even powers are conjugates of odd powers, so odd ones are sufficient.
    for i in (1..2 * strength as usize).step_by(2) {
        if is_root[i] {
            continue;
        }
        let conjugates = conjugates(field, i);
        conjugates.iter().for_each(|power| is_root[*power] = true);
        generator = product(&generator, &with_roots(field, &conjugates));
    }
    generator
}

/// The exponents i, 2i, 4i ... of the conjugates of a^i: a polynomial over {0, 1} with the root a^i also has the roots
/// a^2i, a^4i ...
fn conjugates(field: &Field, i: usize) -> Vec<usize> {
    let mut powers = vec![i];
    let mut next = 2 * i % field.order();
    while next != i {
        powers.push(next);
        next = 2 * next % field.order();
    }
    powers
}

/// Coefficients of the product of (X + a^i) for all i in `powers`.
fn with_roots(field: &Field, powers: &[usize]) -> Vec<bool> {
    let mut product = vec![1];
    for i in powers {
        let root = field.exp(*i);
        product.push(0);
        for at in (1..product.len()).rev() {
            product[at] = product[at - 1] ^ field.mul(product[at], root);
        }
        product[0] = field.mul(product[0], root);
    }
    product.into_iter().map(|coefficient| coefficient == 1).collect()
}

fn product(x: &[bool], y: &[bool]) -> Vec<bool> {
    let mut product = vec![false; x.len() + y.len() - 1];
    for (i, _) in x.iter().enumerate().filter(|(_, set)| **set) {
        product[i..].iter_mut().zip(y).for_each(|(sum, bit)| *sum ^= bit);
    }
    product
}

/// Coefficients of the generator below its leading 1, left-justified.
pub(crate) fn tail(generator: &[bool]) -> Words {
    let mut words = [0; MAX_WORDS];
    for (at, _) in generator.iter().rev().skip(1).enumerate().filter(|(_, set)| **set) {
        words[at / 64] |= 1 << (63 - at % 64);
    }
    words
}

/// Replaces `rest` by X times `rest`, modulo the generator with this tail.
pub(crate) fn times_x(rest: &mut [u64], tail: &[u64]) {
    let carry = 0_u64.wrapping_sub(rest[0] >> 63);
    for at in 0..rest.len() {
        let next = rest.get(at + 1).map_or(0, |next| next >> 63);
        rest[at] = (rest[at] << 1 | next) ^ (tail[at] & carry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bch::field::linux_polynomial;

    /// Compares with the generators in Lin and Costello, Appendix C, for m = 5. The usual (15, 7) code is too small for
    /// the fields here.
    #[test]
    fn textbook_generators() {
        let field = Field::new(linux_polynomial(5).unwrap()).unwrap();
        let octal = |strength| {
            generator(&field, strength).iter().rev().fold(0, |bits, bit| bits << 1 | u32::from(*bit))
        };
        assert_eq!([1, 2, 3, 5].map(octal), [0o45, 0o3551, 0o107657, 0o5423325]);
    }
}
