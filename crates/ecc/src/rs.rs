//! The Reed-Solomon code of older Qualcomm controllers: 10-bit symbols, one per byte of the message, and eight check symbols.
//!
//! The field polynomial is x^10 + x^3 + 1. The generator has the roots a^1 to a^8, so the code corrects four wrong symbols. The check
//! symbols are packed into ten bytes, from the lowest bit on. Sources: qcom-nandc-pagify, which follows the controller; Lin and Costello,
//! Error Control Coding, chapter 7, for the decoder.

use crate::Uncorrectable;
use alloc::vec::Vec;

/// Primitive polynomial of the field, with coefficients as bits.
const POLYNOMIAL: u32 = 0x409;

/// Number of bits in a symbol.
const SYMBOL_BITS: u32 = 10;

/// Order of the multiplicative group.
const ORDER: usize = 1023;

/// Number of check symbols.
const CHECK: usize = 8;

/// Number of wrong symbols that the code corrects.
pub(crate) const STRENGTH: u32 = 4;

/// Size of the packed check symbols, bytes.
pub(crate) const ECC_BYTES: u32 = 10;

/// Maximum length of a message, bytes.
pub(crate) const MAX_MESSAGE: u32 = (ORDER - CHECK) as u32;

/// A polynomial of degree up to eight: its coefficients, the constant first.
type Poly = [u16; CHECK + 1];

/// Tables of the field and of the generator.
#[derive(Clone)]
pub(crate) struct ReedSolomon {
    exp: Vec<u16>,
    log: Vec<u16>,
    /// Products of each symbol with the coefficients of the generator below its leading one, the highest first.
    products: Vec<[u16; CHECK]>,
}

impl ReedSolomon {
    pub(crate) fn new() -> Self {
        let mut exp = Vec::with_capacity(2 * ORDER);
        let mut log = alloc::vec![0; ORDER + 1];
        let mut value = 1_u32;
        for power in 0..ORDER {
            exp.push(value as u16);
            log[value as usize] = power as u16;
            value <<= 1;
            if value >> SYMBOL_BITS != 0 {
                value ^= POLYNOMIAL;
            }
        }
        exp.extend_from_within(..);
        let mut code = Self { exp, log, products: Vec::new() };
        let mut generator: Poly = [0; CHECK + 1];
        generator[0] = 1;
        for root in 1..=CHECK {
            for at in (0..=CHECK).rev() {
                let below = if at == 0 { 0 } else { generator[at - 1] };
                generator[at] = below ^ code.mul(generator[at], code.exp[root]);
            }
        }
        let product = |symbol: u16| core::array::from_fn(|at| code.mul(symbol, generator[CHECK - 1 - at]));
        code.products = (0..=ORDER as u16).map(product).collect();
        code
    }

    fn mul(&self, one: u16, other: u16) -> u16 {
        if one == 0 || other == 0 {
            return 0;
        }
        self.exp[usize::from(self.log[usize::from(one)]) + usize::from(self.log[usize::from(other)])]
    }

    fn div(&self, one: u16, other: u16) -> u16 {
        if one == 0 {
            return 0;
        }
        let (one, other) =
            (usize::from(self.log[usize::from(one)]), usize::from(self.log[usize::from(other)]));
        self.exp[one + ORDER - other]
    }

    /// Value of a polynomial at a^`power`.
    fn value(&self, poly: &[u16], power: usize) -> u16 {
        let at = self.exp[power % ORDER];
        poly.iter().rev().fold(0, |value, coefficient| self.mul(value, at) ^ coefficient)
    }

    /// Check symbols of a message, the highest first.
    fn remainder(&self, message: &[u8]) -> [u16; CHECK] {
        let mut rest = [0; CHECK];
        for byte in message {
            let products = self.products[usize::from(rest[0] ^ u16::from(*byte))];
            rest.rotate_left(1);
            rest[CHECK - 1] = 0;
            rest.iter_mut().zip(products).for_each(|(rest, product)| *rest ^= product);
        }
        rest
    }

    /// Writes the packed check symbols of a message.
    pub(crate) fn encode(&self, message: &[u8], ecc: &mut [u8]) {
        pack(self.remainder(message), ecc);
    }

    /// Corrects a message and its check symbols, and returns the number of wrong bits.
    ///
    /// # Errors
    /// `Uncorrectable`; message and check symbols stay unchanged.
    pub(crate) fn decode(&self, message: &mut [u8], ecc: &mut [u8]) -> Result<u32, Uncorrectable> {
        let mut stored = unpack(ecc);
        let mut sum = self.remainder(message);
        sum.iter_mut().zip(stored).for_each(|(sum, stored)| *sum ^= stored);
        if sum == [0; CHECK] {
            return Ok(0);
        }
        sum.reverse();
        let syndromes: [u16; CHECK] = core::array::from_fn(|at| self.value(&sum, at + 1));
        let (locator, count) = self.locator(&syndromes)?;
        let errors = self.errors(&syndromes, &locator, message.len() + CHECK);
        // A message symbol has only eight bits, so an error value above FFh is impossible there.
        let is_error =
            |&(place, value): &(usize, u16)| value != 0 && (place < CHECK || value <= u16::from(u8::MAX));
        if errors.len() != count || !errors.iter().all(is_error) {
            return Err(Uncorrectable);
        }
        for &(place, value) in &errors {
            match place.checked_sub(CHECK) {
                Some(after) => message[message.len() - 1 - after] ^= value as u8,
                None => stored[CHECK - 1 - place] ^= value,
            }
        }
        pack(stored, ecc);
        Ok(errors.iter().map(|(_, value)| value.count_ones()).sum())
    }

    /// Error locator, the constant first, and its degree (Berlekamp and Massey).
    fn locator(&self, syndromes: &[u16; CHECK]) -> Result<(Poly, usize), Uncorrectable> {
        let (mut locator, mut before): (Poly, Poly) = ([0; CHECK + 1], [0; CHECK + 1]);
        (locator[0], before[0]) = (1, 1);
        let (mut length, mut shift, mut last) = (0, 1, 1);
        for at in 0..CHECK {
            let discrepancy =
                (1..=length).fold(syndromes[at], |sum, k| sum ^ self.mul(locator[k], syndromes[at - k]));
            if discrepancy == 0 {
                shift += 1;
                continue;
            }
            let factor = self.div(discrepancy, last);
            let old = locator;
            for k in shift..=CHECK {
                locator[k] ^= self.mul(factor, before[k - shift]);
            }
            if 2 * length <= at {
                length = at + 1 - length;
                (before, last, shift) = (old, discrepancy, 1);
            } else {
                shift += 1;
            }
        }
        if length > STRENGTH as usize { Err(Uncorrectable) } else { Ok((locator, length)) }
    }

    /// Positions and values of the errors (Chien and Forney). Positions are counted from the last symbol of a word of `symbols`.
    fn errors(&self, syndromes: &[u16; CHECK], locator: &Poly, symbols: usize) -> Vec<(usize, u16)> {
        let evaluator: Poly = core::array::from_fn(|at| {
            (0..=at.min(CHECK)).fold(0, |sum, k| {
                sum ^ syndromes.get(at - k).map_or(0, |syndrome| self.mul(locator[k], *syndrome))
            })
        });
        let roots = (0..symbols).filter(|place| self.value(locator, ORDER - place % ORDER) == 0);
        roots
            .map(|place| {
                let inverse = ORDER - place;
                // The derivative over a field of characteristic 2 has only the terms of odd powers, each lowered by one.
                let slope: Poly = core::array::from_fn(|at| {
                    if at % 2 == 0 { locator.get(at + 1).copied().unwrap_or(0) } else { 0 }
                });
                // At a double root the derivative is 0: the error value is then 0, and the word stays uncorrectable.
                match self.value(&slope, inverse) {
                    0 => (place, 0),
                    slope => (place, self.div(self.value(&evaluator[..CHECK], inverse), slope)),
                }
            })
            .collect()
    }
}

/// Packs symbols into bytes from the lowest bit on.
fn pack(symbols: [u16; CHECK], ecc: &mut [u8]) {
    let all = symbols.iter().rev().fold(0_u128, |all, symbol| all << SYMBOL_BITS | u128::from(*symbol));
    ecc.iter_mut().zip(all.to_le_bytes()).for_each(|(ecc, byte)| *ecc = byte);
}

fn unpack(ecc: &[u8]) -> [u16; CHECK] {
    let all =
        ecc.iter().take(ECC_BYTES as usize).rev().fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
    core::array::from_fn(|at| (all >> (at as u32 * SYMBOL_BITS)) as u16 & ORDER as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;

    #[test]
    fn four_wrong_symbols_are_repaired_and_five_are_not() {
        let code = ReedSolomon::new();
        for seed in 0..50 {
            let data = noise(seed, 516);
            let mut ecc = [0; ECC_BYTES as usize];
            code.encode(&data, &mut ecc);
            let draws = noise(1000 + seed, 64);
            for wrong in 0..=STRENGTH as usize {
                let (mut got, mut got_ecc) = (data.clone(), ecc);
                for draw in draws.chunks(4).take(wrong) {
                    let at = (usize::from(draw[0]) << 8 | usize::from(draw[1])) % 516;
                    got[at] ^= draw[2] | 1;
                }
                assert!(code.decode(&mut got, &mut got_ecc).is_ok(), "{seed} {wrong}");
                assert!(got == data && got_ecc == ecc, "{seed} {wrong}");
            }
            let (mut got, mut got_ecc) = (data.clone(), ecc);
            got_ecc[0] ^= 0x10;
            got[0] ^= 0x81;
            assert_eq!(code.decode(&mut got, &mut got_ecc), Ok(3));
            assert!(got == data && got_ecc == ecc);
            let mut got = data.clone();
            (0..7).for_each(|at| got[70 * at] ^= 0x5A);
            let before = got.clone();
            if code.decode(&mut got, &mut got_ecc).is_err() {
                assert_eq!(got, before);
            }
        }
    }

    #[test]
    fn symbols_come_back_from_their_bytes() {
        let symbols = [1, 2, 0x3FF, 0x155, 0, 0x2AA, 7, 0x200];
        let mut ecc = [0; ECC_BYTES as usize];
        pack(symbols, &mut ecc);
        assert_eq!((unpack(&ecc), ecc[0], ecc[1]), (symbols, 1, 8));
    }
}
