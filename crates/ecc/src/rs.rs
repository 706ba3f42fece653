//! Reed-Solomon codes of controllers. A codeword consists of symbols that are larger than a byte, and ends with check
//! symbols.
//!
//! All codes have the roots a^1 to a^2t, so they correct t wrong symbols. They differ in their field, and in the conversion of bytes to
//! symbols ([`RsForm`]; Lin and Costello, Error Control Coding, chapter 7, for the decoder).

use crate::code::Uncorrectable;
use crate::form::{BitOrder, RsForm};
use alloc::vec::Vec;

/// Maximum number of check symbols.
const MAX_CHECK: usize = 16;

/// A polynomial of at most `MAX_CHECK` coefficients and one, the constant first.
type Poly = [u16; MAX_CHECK + 1];

/// Tables of the field and of the generator.
pub(crate) struct ReedSolomon {
    form: RsForm,
    bits: BitOrder,
    /// Number of check symbols.
    check: usize,
    /// Order of the multiplicative group.
    order: usize,
    exp: Vec<u16>,
    log: Vec<u16>,
    /// Products of each symbol value with the coefficients of the generator, in descending order, without the leading
    /// coefficient.
    products: Vec<[u16; MAX_CHECK]>,
}

/// Sequence of symbols that are packed into bytes without gaps.
#[derive(Clone, Copy)]
struct Symbols {
    width: u32,
    bits: BitOrder,
}

impl Symbols {
    /// Byte and mask of a bit of a symbol; bit 0 is the lowest.
    const fn place(self, symbol: usize, bit: u32) -> (usize, u8) {
        let at = match self.bits {
            BitOrder::Lsb => symbol * self.width as usize + bit as usize,
            BitOrder::Msb => symbol * self.width as usize + (self.width - 1 - bit) as usize,
        };
        let shift = match self.bits {
            BitOrder::Lsb => at % 8,
            BitOrder::Msb => 7 - at % 8,
        };
        (at / 8, 1 << shift)
    }

    /// Value of a symbol; bits after the end of the bytes are 0.
    fn get(self, bytes: &[u8], symbol: usize) -> u16 {
        (0..self.width).fold(0, |value, bit| {
            let (byte, mask) = self.place(symbol, bit);
            let is_set = bytes.get(byte).is_some_and(|byte| byte & mask != 0);
            value | u16::from(is_set) << bit
        })
    }

    /// Inverts those bits of a symbol that are 1 in `value`. Returns false if one of them is after the end of the
    /// bytes.
    fn flip(self, bytes: &mut [u8], symbol: usize, value: u16) -> bool {
        (0..self.width).filter(|bit| value >> bit & 1 == 1).all(|bit| {
            let (byte, mask) = self.place(symbol, bit);
            bytes.get_mut(byte).map(|byte| *byte ^= mask).is_some()
        })
    }

    /// True if all bits of a symbol that are 1 in `value` are within the bytes.
    fn holds(self, bytes: usize, symbol: usize, value: u16) -> bool {
        (0..self.width).filter(|bit| value >> bit & 1 == 1).all(|bit| self.place(symbol, bit).0 < bytes)
    }
}

impl ReedSolomon {
    /// The code that corrects `strength` symbols; `bits` is the order of packed bits.
    pub(crate) fn new(form: RsForm, strength: u32, bits: BitOrder) -> Self {
        let check = (2 * strength as usize).min(MAX_CHECK);
        let order = (1_usize << form.symbol_bits()) - 1;
        let mut exp = Vec::with_capacity(2 * order);
        let mut log = alloc::vec![0; order + 1];
        let mut value = 1_u32;
        for power in 0..order {
            exp.push(value as u16);
            log[value as usize & order] = power as u16;
            value <<= 1;
            if value >> form.symbol_bits() != 0 {
                value ^= u32::from(form.polynomial());
            }
        }
        exp.extend_from_within(..);
        // 10-bit check symbols are stored from the lowest bit on.
        let bits = if form.symbol_bits() == 10 { BitOrder::Lsb } else { bits };
        let mut code = Self { form, bits, check, order, exp, log, products: Vec::new() };
        let mut generator: Poly = [0; MAX_CHECK + 1];
        generator[0] = 1;
        for root in 1..=check {
            for at in (0..=check).rev() {
                let below = if at == 0 { 0 } else { generator[at - 1] };
                generator[at] = below ^ code.mul(generator[at], code.exp[root]);
            }
        }
        let product = |symbol: u16| {
            core::array::from_fn(|at| {
                check.checked_sub(1 + at).map_or(0, |power| code.mul(symbol, generator[power]))
            })
        };
        code.products = (0..=order as u16).map(product).collect();
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
        self.exp[one + self.order - other]
    }

    /// Value of a polynomial at a^`power`.
    fn value(&self, poly: &[u16], power: usize) -> u16 {
        let at = self.exp[power % self.order];
        poly.iter().rev().fold(0, |value, coefficient| self.mul(value, at) ^ coefficient)
    }

    const fn packed(&self) -> Symbols {
        Symbols { width: self.form.symbol_bits(), bits: self.bits }
    }

    /// Symbols of a message of `bytes` bytes.
    const fn symbols(&self, bytes: usize) -> usize {
        (8 * bytes).div_ceil(self.form.message_bits() as usize)
    }

    /// Power of the symbol of a message that is number `at`.
    const fn message_power(&self, at: usize, symbols: usize) -> usize {
        match self.form {
            RsForm::Qualcomm | RsForm::Davinci | RsForm::Packed { is_full: false, .. } => {
                self.check + symbols - 1 - at
            }
            RsForm::Kirkwood => self.check + at,
            RsForm::Packed { is_full: true, .. } => self.order - 1 - at,
        }
    }

    /// Number of the symbol of a message with a power, the reverse of [`message_power`](Self::message_power).
    fn message_symbol(&self, power: usize, symbols: usize) -> Option<usize> {
        let at = match self.form {
            RsForm::Qualcomm | RsForm::Davinci | RsForm::Packed { is_full: false, .. } => {
                (self.check + symbols - 1).checked_sub(power)?
            }
            RsForm::Kirkwood => power.checked_sub(self.check)?,
            RsForm::Packed { is_full: true, .. } => (self.order - 1).checked_sub(power)?,
        };
        (at < symbols).then_some(at)
    }

    /// Number of the stored check symbol with a power.
    const fn check_symbol(&self, power: usize) -> usize {
        match self.form {
            RsForm::Qualcomm | RsForm::Packed { .. } => self.check - 1 - power,
            RsForm::Davinci | RsForm::Kirkwood => power,
        }
    }

    /// Check symbols of a message, the highest power first.
    fn remainder(&self, message: &[u8]) -> [u16; MAX_CHECK] {
        let mut rest = [0; MAX_CHECK];
        let mut push = |symbol: u16| {
            let products = self.products[usize::from(rest[0] ^ symbol)];
            rest.rotate_left(1);
            rest[MAX_CHECK - 1] = 0;
            rest.iter_mut().zip(products).for_each(|(rest, product)| *rest ^= product);
        };
        match self.form {
            RsForm::Qualcomm | RsForm::Davinci => message.iter().for_each(|byte| push(u16::from(*byte))),
            RsForm::Kirkwood => message.iter().rev().for_each(|byte| push(u16::from(*byte))),
            RsForm::Packed { is_full, .. } => {
                let (packed, symbols) = (self.packed(), self.symbols(message.len()));
                (0..symbols).for_each(|at| push(packed.get(message, at)));
                let zeros = if is_full { self.order.saturating_sub(self.check + symbols) } else { 0 };
                (0..zeros).for_each(|_| push(0));
            }
        }
        rest
    }

    /// Writes the check symbols of a message. A step of FFh gets check bytes FFh, as in Linux's driver for Ingenic's engine.
    pub(crate) fn encode(&self, message: &[u8], ecc: &mut [u8]) {
        if self.leaves_erased() && is_erased(message) {
            ecc.fill(0xFF);
        } else {
            self.put_check(message, ecc);
        }
    }

    /// True when an erased step has erased ECC bytes.
    const fn leaves_erased(&self) -> bool {
        matches!(self.form, RsForm::Packed { is_full: true, .. })
    }

    fn put_check(&self, message: &[u8], ecc: &mut [u8]) {
        ecc.fill(0);
        let rest = self.remainder(message);
        for power in 0..self.check {
            self.packed().flip(ecc, self.check_symbol(power), rest[self.check - 1 - power]);
        }
    }

    /// Corrects a message and its check symbols, and returns the number of wrong bits.
    ///
    /// # Errors
    /// `Uncorrectable`; message and check symbols stay unchanged.
    pub(crate) fn decode(&self, message: &mut [u8], ecc: &mut [u8]) -> Result<u32, Uncorrectable> {
        if self.leaves_erased() && is_erased(message) && is_erased(ecc) {
            return Ok(0);
        }
        let (packed, symbols) = (self.packed(), self.symbols(message.len()));
        let rest = self.remainder(message);
        // The lowest power first.
        let mut sum = [0; MAX_CHECK];
        for power in 0..self.check {
            sum[power] = rest[self.check - 1 - power] ^ packed.get(ecc, self.check_symbol(power));
        }
        if sum == [0; MAX_CHECK] {
            return Ok(0);
        }
        let syndromes: [u16; MAX_CHECK] =
            core::array::from_fn(|at| if at < self.check { self.value(&sum, at + 1) } else { 0 });
        let (locator, count) = self.locator(&syndromes)?;
        let powers = (0..self.check).chain((0..symbols).map(|at| self.message_power(at, symbols)));
        let errors = self.errors(&syndromes, &locator, powers);
        let is_error = |&(power, value): &(usize, u16)| {
            value != 0
                && match self.message_symbol(power, symbols) {
                    _ if power < self.check => true,
                    // Bits of a symbol that the message does not have are not wrong.
                    Some(at) if self.form.message_bits() == self.form.symbol_bits() => {
                        packed.holds(message.len(), at, value)
                    }
                    Some(_) => value <= u16::from(u8::MAX),
                    None => false,
                }
        };
        if errors.len() != count || !errors.iter().all(is_error) {
            return Err(Uncorrectable);
        }
        for &(power, value) in &errors {
            match self.message_symbol(power, symbols).filter(|_| power >= self.check) {
                None => {
                    packed.flip(ecc, self.check_symbol(power), value);
                }
                Some(at) if self.form.message_bits() == self.form.symbol_bits() => {
                    packed.flip(message, at, value);
                }
                Some(at) => message[at] ^= value as u8,
            }
        }
        Ok(errors.iter().map(|(_, value)| value.count_ones()).sum())
    }

    /// Error locator, the constant first, and its degree (Berlekamp and Massey).
    fn locator(&self, syndromes: &[u16; MAX_CHECK]) -> Result<(Poly, usize), Uncorrectable> {
        let (mut locator, mut before): (Poly, Poly) = ([0; MAX_CHECK + 1], [0; MAX_CHECK + 1]);
        (locator[0], before[0]) = (1, 1);
        let (mut length, mut shift, mut last) = (0, 1, 1);
        for at in 0..self.check {
            let discrepancy =
                (1..=length).fold(syndromes[at], |sum, k| sum ^ self.mul(locator[k], syndromes[at - k]));
            if discrepancy == 0 {
                shift += 1;
                continue;
            }
            let factor = self.div(discrepancy, last);
            let old = locator;
            for k in shift..=self.check {
                locator[k] ^= self.mul(factor, before[k - shift]);
            }
            if 2 * length <= at {
                length = at + 1 - length;
                (before, last, shift) = (old, discrepancy, 1);
            } else {
                shift += 1;
            }
        }
        if length > self.check / 2 { Err(Uncorrectable) } else { Ok((locator, length)) }
    }

    /// Positions and values of the errors among the positions of the word, by the algorithms of Chien and Forney.
    fn errors(
        &self,
        syndromes: &[u16; MAX_CHECK],
        locator: &Poly,
        powers: impl Iterator<Item = usize>,
    ) -> Vec<(usize, u16)> {
        let evaluator: Poly = core::array::from_fn(|at| {
            if at >= self.check {
                return 0;
            }
            (0..=at).fold(0, |sum, k| sum ^ self.mul(locator[k], syndromes[at - k]))
        });
        let terms = locator.iter().rposition(|term| *term != 0).map_or(0, |last| last + 1);
        let roots =
            powers.filter(|power| self.value(&locator[..terms], self.order - power % self.order) == 0);
        roots
            .map(|power| {
                let inverse = self.order - power;
                // Derivative in a field of characteristic 2: only the odd powers remain, each lower by one.
                let slope: Poly = core::array::from_fn(|at| {
                    if at % 2 == 0 { locator.get(at + 1).copied().unwrap_or(0) } else { 0 }
                });
                // At a double root the derivative is 0. The error value is then 0, and the word is uncorrectable.
                match self.value(&slope, inverse) {
                    0 => (power, 0),
                    slope => (power, self.div(self.value(&evaluator[..self.check], inverse), slope)),
                }
            })
            .collect()
    }
}

fn is_erased(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xFF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::POLYNOMIAL_9;
    use crate::noise;

    const FORMS: [(RsForm, u32, BitOrder); 8] = [
        (RsForm::Qualcomm, 4, BitOrder::Msb),
        (RsForm::Davinci, 4, BitOrder::Msb),
        (RsForm::Kirkwood, 4, BitOrder::Msb),
        (RsForm::Packed { polynomial: 0x211, is_full: true }, 4, BitOrder::Lsb),
        (RsForm::Packed { polynomial: 0x211, is_full: false }, 4, BitOrder::Lsb),
        (RsForm::Packed { polynomial: 0x221, is_full: false }, 6, BitOrder::Msb),
        (RsForm::Packed { polynomial: 0x211, is_full: false }, 8, BitOrder::Msb),
        (RsForm::Packed { polynomial: 0x221, is_full: true }, 8, BitOrder::Lsb),
    ];

    #[test]
    fn as_many_wrong_symbols_as_the_strength_are_repaired_and_more_are_not() {
        for (seed, (form, strength, bits)) in (0..).zip(FORMS.into_iter().cycle().take(32)) {
            let code = ReedSolomon::new(form, strength, bits);
            let data = noise(seed, 516);
            let mut ecc = alloc::vec![0; form.check_bits(strength).div_ceil(8) as usize];
            code.encode(&data, &mut ecc);
            let draws = noise(1000 + seed, 64);
            for wrong in 0..=strength as usize {
                let (mut got, mut got_ecc) = (data.clone(), ecc.clone());
                for draw in draws.chunks(4).take(wrong) {
                    let at = (usize::from(draw[0]) << 8 | usize::from(draw[1])) % 516;
                    // A byte belongs to two packed symbols, a bit to only one.
                    got[at] ^= if form.symbol_bits() == 9 { 1 << (draw[2] % 8) } else { draw[2] | 1 };
                }
                assert!(code.decode(&mut got, &mut got_ecc).is_ok(), "{form:?} {seed} {wrong}");
                assert!(got == data && got_ecc == ecc, "{form:?} {seed} {wrong}");
            }
            let (mut got, mut got_ecc) = (data.clone(), ecc.clone());
            got_ecc[0] ^= 0x10;
            got[0] ^= 0x41;
            assert_eq!(code.decode(&mut got, &mut got_ecc), Ok(3), "{form:?}");
            assert!(got == data && got_ecc == ecc);
            let mut got = data.clone();
            (0..=2 * strength as usize).for_each(|at| got[25 * at] ^= 0x5A);
            let before = got.clone();
            if code.decode(&mut got, &mut got_ecc).is_err() {
                assert_eq!(got, before);
            }
        }
    }

    #[test]
    fn symbols_come_back_from_their_bits() {
        for bits in [BitOrder::Lsb, BitOrder::Msb] {
            for (width, bytes) in [(10, 10), (9, 9)] {
                let symbols = Symbols { width, bits };
                let values = [1, 2, 0x1FF, 0x155, 0, 0x0AA, 7, 0x100];
                let mut packed = alloc::vec![0; bytes];
                for (at, value) in values.into_iter().enumerate() {
                    assert!(symbols.flip(&mut packed, at, value));
                }
                assert_eq!(core::array::from_fn(|at| symbols.get(&packed, at)), values);
                assert!(!symbols.holds(bytes, 8, 1) && symbols.holds(bytes, 7, 0x1FF));
            }
        }
    }

    /// ECC bytes of 512 bytes FFh that Ingenic's engine computes (Linux 6.12, jz4740_ecc.c).
    #[test]
    fn a_step_of_ones_has_the_ecc_bytes_of_ingenic() {
        let form = RsForm::Packed { polynomial: POLYNOMIAL_9, is_full: true };
        let (code, mut ecc) = (ReedSolomon::new(form, 4, BitOrder::Lsb), [0; 9]);
        code.put_check(&[0xFF; 512], &mut ecc);
        assert_eq!(ecc, [0xCD, 0x9D, 0x90, 0x58, 0xF4, 0x8B, 0xFF, 0xB7, 0x6F]);
        // Linux writes FFh in their place.
        code.encode(&[0xFF; 512], &mut ecc);
        assert_eq!((ecc, code.decode(&mut [0xFF; 512], &mut ecc.clone())), ([0xFF; 9], Ok(0)));
    }

    /// The expected check symbols are the coefficients of the generator in OpenOCD's `ecc_kw.c`, which lists them as powers of a. The
    /// message is a single 1 in the last byte.
    #[test]
    fn the_generator_is_that_of_kirkwood() {
        let powers = [0x024, 0x237, 0x193, 0x197, 0x25F, 0x18E, 0x181, 0x21C];
        let code = ReedSolomon::new(RsForm::Kirkwood, 4, BitOrder::Lsb);
        let mut message = [0; 512];
        message[0] = 1;
        let mut ecc = [0; 10];
        code.encode(&message, &mut ecc);
        let symbols = Symbols { width: 10, bits: BitOrder::Lsb };
        let got: [u16; 8] = core::array::from_fn(|at| symbols.get(&ecc, at));
        assert_eq!(got, powers.map(|power: usize| code.exp[power]));
        // DaVinci's code is the same with the bytes in the other order.
        let mut other = [0; 10];
        message.reverse();
        ReedSolomon::new(RsForm::Davinci, 4, BitOrder::Lsb).encode(&message, &mut other);
        assert_eq!(other, ecc);
    }
}
