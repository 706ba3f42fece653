//! A code, ready to encode and decode the steps of a page.

use crate::bch::Bch;
use crate::code::{Code, CodeError};
use crate::hamming;
use alloc::sync::Arc;

/// More errors than the code corrects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more bit errors than the code corrects")]
pub struct Uncorrectable;

/// A codec set up for a code: the bytes that Linux's software NAND engines write. BCH bytes carry the mask that makes an
/// erased step with erased ECC bytes a codeword; so do Hamming's, which are inverted (facts 5).
///
/// Copies share the tables.
#[derive(Clone)]
pub struct Codec {
    code: Code,
    /// None: Hamming, which needs no tables.
    bch: Option<Arc<Bch>>,
}

impl Codec {
    /// # Errors
    /// No such code: see [`Code::check`].
    pub fn new(code: Code) -> Result<Self, CodeError> {
        code.check()?;
        let bch = |polynomial| Bch::for_step(polynomial, code.strength(), code.step_bytes() as usize);
        let bch = code.polynomial()?.map(bch).transpose()?.map(Arc::new);
        Ok(Self { code, bch })
    }

    /// The code.
    pub const fn code(&self) -> Code {
        self.code
    }

    fn check_lengths(&self, data: usize, ecc: usize) {
        assert_eq!(data, self.code.step_bytes() as usize, "bytes of a step");
        assert_eq!(ecc, self.code.ecc_bytes() as usize, "ECC bytes of a step");
    }

    /// Writes the ECC bytes of one step.
    ///
    /// # Panics
    /// When `step` or `ecc` are not of the code's sizes.
    pub fn encode(&self, step: &[u8], ecc: &mut [u8]) {
        self.check_lengths(step.len(), ecc.len());
        match &self.bch {
            Some(bch) => bch.encode(step, ecc),
            None => ecc.copy_from_slice(&self.in_order(hamming::encode(step))),
        }
    }

    /// Repairs one step and its ECC bytes; the number of bits that were wrong, ECC bits included.
    ///
    /// # Errors
    /// `Uncorrectable`; nothing is changed.
    ///
    /// # Panics
    /// As [`encode`](Self::encode).
    pub fn decode(&self, step: &mut [u8], ecc: &mut [u8]) -> Result<u32, Uncorrectable> {
        self.check_lengths(step.len(), ecc.len());
        match &self.bch {
            Some(bch) => bch.decode(step, ecc),
            None => {
                let mut bytes = [0; 3];
                bytes.copy_from_slice(ecc);
                bytes = self.in_order(bytes);
                let result = hamming::decode(step, &mut bytes);
                ecc.copy_from_slice(&self.in_order(bytes));
                result
            }
        }
    }

    /// Hamming bytes of Linux's order in that of the code, and the other way round.
    const fn in_order(&self, [first, second, third]: hamming::Ecc) -> hamming::Ecc {
        match self.code {
            Code::HammingSmartMedia { .. } => [second, first, third],
            _ => [first, second, third],
        }
    }

    fn check_page(&self, page: usize, ecc: usize) {
        let (step_bytes, ecc_bytes) = (self.code.step_bytes() as usize, self.code.ecc_bytes() as usize);
        assert_eq!(page % step_bytes, 0, "whole steps");
        assert_eq!(page / step_bytes * ecc_bytes, ecc, "ECC bytes of a page");
    }

    /// Writes the ECC bytes of all steps of a page, one step's after the other's.
    ///
    /// # Panics
    /// When `page` is not whole steps, or `ecc` is not as long as all their ECC bytes.
    pub fn encode_page(&self, page: &[u8], ecc: &mut [u8]) {
        self.check_page(page.len(), ecc.len());
        let steps = page.chunks_exact(self.code.step_bytes() as usize);
        for (step, ecc) in steps.zip(ecc.chunks_exact_mut(self.code.ecc_bytes() as usize)) {
            self.encode(step, ecc);
        }
    }

    /// Repairs all steps of a page and their ECC bytes; `each` is told the number of a step and its result.
    ///
    /// # Panics
    /// As [`encode_page`](Self::encode_page).
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

impl core::fmt::Debug for Codec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Codec").field(&self.code).finish()
    }
}

/// Codecs go to other threads.
const _: () = {
    const fn shared<T: Clone + Send + Sync>() {}
    shared::<Codec>();
};
