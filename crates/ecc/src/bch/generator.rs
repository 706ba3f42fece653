//! Generator polynomials, and polynomials over {0, 1} as rows of bits.

use super::field::Field;
use alloc::vec;
use alloc::vec::Vec;

/// A remainder, left-justified: bit 63 of word 0 is the highest coefficient.
pub(crate) type Words = [u64; MAX_WORDS];

/// Words of the longest remainder: 15 * 72 bits.
pub(crate) const MAX_WORDS: usize = 17;

/// The generator of the code that corrects `strength` bits: the polynomial over {0, 1} of least degree with the roots a^1
/// to a^(2 * `strength`) (Bose and Ray-Chaudhuri 1960, Hocquenghem 1959). Coefficients, lowest first.
pub(crate) fn generator(field: &Field, strength: u32) -> Vec<bool> {
    let mut generator = vec![true];
    let mut is_root = vec![false; field.order()];
    // Even powers are conjugates of odd ones.
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

/// The powers i, 2i, 4i...: with a^i, a polynomial over {0, 1} has the roots a^2i, a^4i...
fn conjugates(field: &Field, i: usize) -> Vec<usize> {
    let mut powers = vec![i];
    let mut next = 2 * i % field.order();
    while next != i {
        powers.push(next);
        next = 2 * next % field.order();
    }
    powers
}

/// The product of all (X + a^i).
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

/// Generator without its leading 1, left-justified.
pub(crate) fn tail(generator: &[bool]) -> Words {
    let mut words = [0; MAX_WORDS];
    for (at, _) in generator.iter().rev().skip(1).enumerate().filter(|(_, set)| **set) {
        words[at / 64] |= 1 << (63 - at % 64);
    }
    words
}

/// X times `rest`, modulo the generator with this tail.
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

    /// The textbook's (15, 7) code is below the smallest field here; these are of Lin and Costello, Appendix C, for m = 5.
    #[test]
    fn textbook_generators() {
        let field = Field::new(linux_polynomial(5).unwrap()).unwrap();
        let octal = |strength| {
            generator(&field, strength).iter().rev().fold(0, |bits, bit| bits << 1 | u32::from(*bit))
        };
        assert_eq!([1, 2, 3, 5].map(octal), [0o45, 0o3551, 0o107657, 0o5423325]);
    }
}
