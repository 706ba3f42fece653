//! One page: corrected, or found erased.

use super::Scheme;
use super::detect::{Weights, is_constant};
use super::stream::all_ff;
use floatgate_ecc::{Uncorrectable, check_erased};

/// Result of decoding a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Erased, with the number of data and ECC bits that are not 1.
    Erased(u32),
    /// Data: see the results of its steps.
    Data,
}

/// Corrects pages, with memory for one.
pub(crate) struct Corrector<'a> {
    scheme: &'a Scheme,
    /// Most zero bits of an erased step.
    threshold: u32,
    /// ECC bytes of the page.
    pub(super) ecc: Vec<u8>,
    /// Per step: bits corrected.
    pub(super) steps: Vec<Result<u32, Uncorrectable>>,
    /// Weights of results under a code that was found out.
    weights: Option<Weights>,
    /// Evidence for that code in the pages since the last [`begin_block`](Self::begin_block), in bits.
    evidence: f64,
    /// The page and its ECC bytes as they were read.
    read: (Vec<u8>, Vec<u8>),
}

impl<'a> Corrector<'a> {
    pub(crate) fn new(scheme: &'a Scheme, threshold: u32) -> Self {
        let steps = vec![Ok(0); scheme.steps() as usize];
        let weights = scheme.is_found().then(|| Weights::new(scheme.code()));
        let ecc = vec![0; scheme.ecc_bytes() as usize];
        Self { scheme, threshold, ecc, steps, weights, evidence: 0.0, read: (Vec::new(), Vec::new()) }
    }

    /// Corrects `data` by the bytes in `self.ecc`, and both. Steps that cannot be corrected stay as they are.
    pub(super) fn correct(&mut self, data: &mut [u8]) -> Found {
        if all_ff(data) && all_ff(&self.ecc) {
            return Found::Erased(0);
        }
        if self.weights.is_some() {
            self.read.0.clear();
            self.read.0.extend_from_slice(data);
            self.read.1.clone_from(&self.ecc);
        }
        let steps = &mut self.steps;
        self.scheme.codec().decode_page(data, &mut self.ecc, |step, result| steps[step] = result);
        self.rescue_erased(data);
        // An erased step belongs to the code, so its bitflips are corrected like those of any other.
        if all_ff(data) && all_ff(&self.ecc) {
            return Found::Erased(self.steps.iter().flatten().sum());
        }
        self.leave_foreign(data);
        Found::Data
    }

    /// Forgets the pages of the block before.
    pub(crate) const fn begin_block(&mut self) {
        self.evidence = 0.0;
    }

    /// True when the pages of a block are likelier under no code, or another one, than under a code that was found out. They are to stay as they
    /// were read.
    pub(crate) fn is_foreign(&self) -> bool {
        self.evidence < 0.0
    }

    /// Weighs the steps of a page under a code that was found out. Where more speaks against it corrections are taken back.
    fn leave_foreign(&mut self, data: &mut [u8]) {
        let Some(weights) = &self.weights else { return };
        let (read, read_ecc) = &self.read;
        let tells =
            read.chunks_exact(self.scheme.code().step_bytes() as usize).map(|step| !is_constant(step));
        let told = self.steps.iter().zip(tells).filter(|(_, tells)| *tells);
        let evidence = told.map(|(step, _)| weights.of(*step)).sum::<f64>();
        self.evidence += evidence;
        if evidence < 0.0 {
            data.copy_from_slice(read);
            self.ecc.copy_from_slice(read_ecc);
            let changed = self.steps.iter_mut().filter(|step| **step != Ok(0));
            changed.for_each(|step| *step = Err(Uncorrectable));
        }
    }

    /// As [`correct`](Self::correct), of a page with its OOB, in which only data and ECC bytes change; the number of bits.
    pub(crate) fn correct_with_oob(&mut self, page: &mut [u8]) -> u32 {
        let (data, oob) = page.split_at_mut(self.scheme.geometry().page_bytes as usize);
        self.scheme.layout().take_ecc(oob, &mut self.ecc);
        let bits = match self.correct(data) {
            Found::Erased(bits) => bits,
            Found::Data => self.steps.iter().flatten().sum(),
        };
        if bits > 0 {
            self.scheme.layout().put_ecc(oob, &self.ecc);
        }
        bits
    }

    /// Steps that the code cannot correct may be erased with more bitflips than it corrects.
    fn rescue_erased(&mut self, data: &mut [u8]) {
        let code = self.scheme.code();
        let steps = data.chunks_exact_mut(code.step_bytes() as usize);
        let eccs = self.ecc.chunks_exact_mut(code.ecc_bytes() as usize);
        for ((step, ecc), result) in steps.zip(eccs).zip(&mut self.steps) {
            if result.is_err()
                && let Ok(bits) = check_erased(step, ecc, &mut [], self.threshold)
            {
                *result = Ok(bits);
            }
        }
    }
}
