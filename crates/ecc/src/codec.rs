//! Encoder and decoder of a code for the steps of a page.

use crate::bch::Bch;
use crate::code::{self, Code, CodeError, Uncorrectable};
use crate::form::{BitOrder, Variant};
use crate::hamming;
use crate::rs::ReedSolomon;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A codec that by default writes the same bytes as Linux's software NAND engines. BCH bytes are masked so that an
/// erased step with erased ECC bytes is a codeword; Hamming bytes are inverted for the same reason (facts 5).
///
/// Copies share the tables.
#[derive(Clone)]
pub struct Codec {
    code: Code,
    variant: Variant,
    engine: Engine,
}

/// Tables of the code.
#[derive(Clone)]
enum Engine {
    Bch(Arc<Bch>),
    ReedSolomon(Arc<ReedSolomon>),
    /// Hamming codes need no tables.
    Hamming,
}

impl Codec {
    /// A codec in the representation of Linux.
    ///
    /// # Errors
    /// The code is impossible: see [`Code::check`].
    pub fn new(code: Code) -> Result<Self, CodeError> {
        Self::with(code, Variant::default())
    }

    /// A codec in the representation of a controller. Hamming codes have only one representation.
    ///
    /// # Errors
    /// The code is impossible, or the step with its extra bytes is too long.
    pub fn with(code: Code, variant: Variant) -> Result<Self, CodeError> {
        code.check()?;
        let message = code.step_bytes().saturating_add(variant.extra_bytes);
        let bch = |polynomial| {
            let message = message.saturating_add(u32::from(variant.ends_with_check_bits));
            code::check_length(code.degree(), message, code.strength())?;
            Bch::for_step(polynomial, code.strength(), message as usize, variant.inversion)
        };
        let engine = match (code, code.polynomial()?) {
            (_, Some(polynomial)) => Engine::Bch(Arc::new(bch(polynomial)?)),
            (Code::ReedSolomon { strength, form, .. }, None) => {
                code::check_rs_message(strength, form, message)?;
                Engine::ReedSolomon(Arc::new(ReedSolomon::new(form, strength, variant.bits)))
            }
            (_, None) => Engine::Hamming,
        };
        Ok(Self { code, variant, engine })
    }

    /// Representation of the code.
    pub const fn variant(&self) -> Variant {
        self.variant
    }

    /// Code of the codec.
    pub const fn code(&self) -> Code {
        self.code
    }

    fn check_lengths(&self, data: usize, ecc: usize) {
        let most = (self.code.step_bytes() + self.variant.extra_bytes) as usize;
        assert!(data == most || data < most && !self.code.is_hamming(), "bytes of a step");
        assert_eq!(ecc, self.code.ecc_bytes() as usize, "ECC bytes of a step");
    }

    /// Writes the ECC bytes of one step.
    ///
    /// # Panics
    /// `step` or `ecc` has a wrong length for the code.
    pub fn encode(&self, step: &[u8], ecc: &mut [u8]) {
        self.check_lengths(step.len(), ecc.len());
        match &self.engine {
            Engine::Bch(bch) if self.padding() > 0 => {
                let (message, mut check) = self.joined(step, ecc);
                bch.encode(&message, &mut check);
                self.put_check_bits(&check, ecc);
            }
            Engine::Bch(bch) if self.variant.bits == BitOrder::Lsb => {
                bch.encode(&reversed(step), ecc);
                reverse(ecc);
            }
            Engine::Bch(bch) => bch.encode(step, ecc),
            Engine::ReedSolomon(code) => code.encode(step, ecc),
            Engine::Hamming => ecc.copy_from_slice(&self.in_order(hamming::encode(step))),
        }
    }

    /// Corrects one step and its ECC bytes, and returns the number of corrected bits, including ECC bits.
    ///
    /// # Errors
    /// `Uncorrectable`; step and ECC bytes stay unchanged.
    ///
    /// # Panics
    /// In the same cases as [`encode`](Self::encode).
    pub fn decode(&self, step: &mut [u8], ecc: &mut [u8]) -> Result<u32, Uncorrectable> {
        self.check_lengths(step.len(), ecc.len());
        match &self.engine {
            Engine::Bch(bch) if self.padding() > 0 => {
                let (mut message, mut check) = self.joined(step, ecc);
                let bits = bch.decode(&mut message, &mut check)?;
                let padding = self.padding();
                if message[0] >> (8 - padding) != 0 {
                    return Err(Uncorrectable);
                }
                for (byte, pair) in step.iter_mut().zip(message.windows(2)) {
                    *byte = pair[0] << padding | pair[1] >> (8 - padding);
                }
                ecc[0] = message[message.len() - 1] << (8 - padding);
                self.put_check_bits(&check, ecc);
                Ok(bits)
            }
            Engine::Bch(bch) if self.variant.bits == BitOrder::Lsb => {
                let (mut message, mut check) = (reversed(step), reversed(ecc));
                let bits = bch.decode(&mut message, &mut check)?;
                if bits > 0 {
                    message.iter().zip(step).for_each(|(right, byte)| *byte = right.reverse_bits());
                    check.iter().zip(ecc).for_each(|(right, byte)| *byte = right.reverse_bits());
                }
                Ok(bits)
            }
            Engine::Bch(bch) => bch.decode(step, ecc),
            Engine::ReedSolomon(code) => code.decode(step, ecc),
            Engine::Hamming => {
                let mut bytes = [0; 3];
                bytes.copy_from_slice(ecc);
                bytes = self.in_linux_order(bytes);
                let result = hamming::decode(step, &mut bytes);
                ecc.copy_from_slice(&self.in_order(bytes));
                result
            }
        }
    }

    /// Number of bits in the first ECC byte that belong to the message.
    const fn padding(&self) -> u32 {
        if self.variant.ends_with_check_bits { 8 * self.code.ecc_bytes() - self.code.ecc_bits() } else { 0 }
    }

    /// The message and the check bits. The message is padded with zeros and ends with its bits from the first ECC
    /// byte; the check bits are shifted to start at the first bit.
    fn joined(&self, step: &[u8], ecc: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let padding = self.padding();
        let shifted = |bytes: &[u8]| -> Vec<u8> {
            let before = core::iter::once(0).chain(bytes.iter().copied());
            before.zip(bytes).map(|(before, byte)| before << (8 - padding) | byte >> padding).collect()
        };
        let mut message = shifted(step);
        let last = step.last().copied().unwrap_or(0);
        message.push(last << (8 - padding) | ecc[0] >> (8 - padding));
        let after = ecc.iter().skip(1).copied().chain([0]);
        let check = ecc.iter().zip(after).map(|(byte, after)| byte << padding | after >> (8 - padding));
        (message, check.collect())
    }

    /// Writes the check bits behind the message bits in the first ECC byte.
    fn put_check_bits(&self, check: &[u8], ecc: &mut [u8]) {
        let padding = self.padding();
        let mut before = ecc[0] >> (8 - padding);
        for (ecc, byte) in ecc.iter_mut().zip(check) {
            *ecc = before << (8 - padding) | byte >> padding;
            before = *byte;
        }
    }

    /// Converts Hamming bytes from Linux's order to the code's order.
    fn in_order(&self, ecc: hamming::Ecc) -> hamming::Ecc {
        let [first, second, third] = ecc;
        match self.code {
            Code::HammingSmartMedia { .. } => [second, first, third],
            Code::HammingWords { order } => hamming::arrange(ecc, order),
            _ => ecc,
        }
    }

    /// Hamming bytes of the code in Linux's order.
    fn in_linux_order(&self, ecc: hamming::Ecc) -> hamming::Ecc {
        let [first, second, third] = ecc;
        match self.code {
            Code::HammingSmartMedia { .. } => [second, first, third],
            Code::HammingWords { order } => hamming::from_arranged(ecc, order),
            _ => ecc,
        }
    }

    fn check_page(&self, page: usize, ecc: usize) {
        let (step_bytes, ecc_bytes) = (self.code.step_bytes() as usize, self.code.ecc_bytes() as usize);
        assert_eq!(page % step_bytes, 0, "whole steps");
        assert_eq!(page / step_bytes * ecc_bytes, ecc, "ECC bytes of a page");
    }

    /// Writes the ECC bytes of all steps of a page, one after another.
    ///
    /// # Panics
    /// `page` is not a whole number of steps, or `ecc` has another length than all their ECC bytes.
    pub fn encode_page(&self, page: &[u8], ecc: &mut [u8]) {
        self.check_page(page.len(), ecc.len());
        let steps = page.chunks_exact(self.code.step_bytes() as usize);
        for (step, ecc) in steps.zip(ecc.chunks_exact_mut(self.code.ecc_bytes() as usize)) {
            self.encode(step, ecc);
        }
    }

    /// Corrects all steps of a page and their ECC bytes, and calls `each` with the number and the result of each
    /// step.
    ///
    /// # Panics
    /// In the same cases as [`encode_page`](Self::encode_page).
    pub fn decode_page(
        &self,
        page: &mut [u8],
        ecc: &mut [u8],
        mut each: impl FnMut(usize, Result<u32, Uncorrectable>),
    ) {
        self.check_page(page.len(), ecc.len());
        let steps = page.chunks_exact_mut(self.code.step_bytes() as usize);
        let eccs = ecc.chunks_exact_mut(self.code.ecc_bytes() as usize);
        for (at, (step, ecc)) in steps.zip(eccs).enumerate() {
            each(at, self.decode(step, ecc));
        }
    }
}

/// Reverses the bits of each byte.
fn reversed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte.reverse_bits()).collect()
}

fn reverse(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = byte.reverse_bits());
}

impl core::fmt::Debug for Codec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Codec").field(&self.code).field(&self.variant).finish()
    }
}

/// Asserts that codecs can be sent to other threads.
const _: () = {
    const fn shared<T: Clone + Send + Sync>() {}
    shared::<Codec>();
};
