//! Correction of a page, and detection of erased pages.

use super::Scheme;
use super::sample::is_constant;
use super::stream::all_ff;
use super::stuck::{StuckBit, StuckColumn, bits_of_steps};
use super::trial::{Weights, log2_chances};
use floatgate_ecc::{Uncorrectable, check_erased};

/// Largest number of stuck bits in a step that are tried with both values.
const STUCK_BITS: usize = 8;

/// Number of consecutive steps that remain uncorrectable with all values of their stuck bits. After these steps, the
/// remaining steps of a block are not tried.
const HOPELESS: u32 = 32;

/// Logarithm to base 2 of the probability of an accidental match below which a value of stuck bits is accepted.
const BELIEVED_CHANCE: f64 = -10.0;

/// Stuck bits of a chip, by steps.
struct Stuck {
    steps: Vec<Vec<StuckBit>>,
    /// Probabilities of an accidental match, by the number of corrected bits.
    chances: Vec<f64>,
    /// Number of unsuccessful steps since the last corrected step.
    in_vain: u32,
}

/// Result of decoding a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageState {
    /// Erased, with the number of data and ECC bits that are 0.
    Erased(u32),
    /// Data, with the results in its steps.
    Data,
}

/// True if a raw page is erased, apart from as many bits per step as the code corrects. This is the rule of [`Corrector::correct`], so a merge counts
/// the same steps as a check.
pub(super) fn is_erased_raw(scheme: &Scheme, raw: &[u8]) -> bool {
    let (mut messages, mut ecc) = (Vec::new(), Vec::new());
    scheme.map().extract(raw, &mut messages, &mut ecc);
    let most = scheme.code().strength();
    if scheme.is_randomized() {
        let most = most.saturating_mul(scheme.steps());
        return check_erased(&mut messages, &mut ecc, &mut [], most).is_ok();
    }
    let mut results = vec![Ok(0); scheme.steps() as usize];
    let mut steps = steps(scheme, &mut messages, &mut ecc, &mut results);
    steps.all(|(message, ecc, _)| check_erased(message, ecc, &mut [], most).is_ok())
}

/// Corrector of pages, with memory for one page.
pub(crate) struct Corrector<'a> {
    scheme: &'a Scheme,
    /// Largest number of zero bits in an erased step.
    threshold: u32,
    /// Raw page with its OOB.
    pub(super) raw: Vec<u8>,
    /// Messages of the steps, in order.
    messages: Vec<u8>,
    /// ECC bytes of the page.
    ecc: Vec<u8>,
    /// Number of corrected bits in each step.
    pub(super) steps: Vec<Result<u32, Uncorrectable>>,
    /// Weights of the results for the evidence of the code.
    weights: Weights,
    /// Evidence for the code in the pages since the last [`begin_block`](Self::begin_block), in bits.
    evidence: f64,
    /// Messages and ECC bytes before the correction.
    read: (Vec<u8>, Vec<u8>),
    stuck: Option<Stuck>,
}

impl<'a> Corrector<'a> {
    pub(crate) fn new(scheme: &'a Scheme, threshold: u32) -> Self {
        Self {
            scheme,
            threshold,
            raw: vec![0xFF; scheme.geometry().full_page() as usize],
            messages: Vec::new(),
            ecc: Vec::new(),
            steps: vec![Ok(0); scheme.steps() as usize],
            weights: Weights::new(scheme.code()),
            evidence: 0.0,
            read: (Vec::new(), Vec::new()),
            stuck: None,
        }
    }

    /// The corrector for a chip with stuck columns. In a step that cannot be corrected, the code determines the
    /// values of its stuck bits.
    pub(super) fn with_columns(self, columns: &[StuckColumn]) -> Self {
        if columns.is_empty() {
            return self;
        }
        let (steps, chances) = (bits_of_steps(self.scheme, columns), log2_chances(self.scheme.code()));
        Self { stuck: Some(Stuck { steps, chances, in_vain: 0 }), ..self }
    }

    /// Corrects the page in `self.raw`, which has this number. The page is not randomized again. Uncorrectable steps
    /// are not changed.
    pub(super) fn correct(&mut self, number: u64) -> PageState {
        self.scheme.map().extract(&self.raw, &mut self.messages, &mut self.ecc);
        if self.is_erased() {
            return PageState::Erased(0);
        }
        if self.scheme.is_randomized() {
            let most = self.threshold.saturating_mul(self.scheme.steps());
            if let Ok(bits) = check_erased(&mut self.messages, &mut self.ecc, &mut [], most) {
                self.steps.fill(Ok(0));
                self.scheme.map().put(&mut self.raw, &self.messages, &self.ecc);
                return PageState::Erased(bits);
            }
            self.scheme.randomize(number, &mut self.raw);
            self.scheme.map().extract(&self.raw, &mut self.messages, &mut self.ecc);
        }
        self.read.0.clone_from(&self.messages);
        self.read.1.clone_from(&self.ecc);
        for (message, ecc, result) in steps(self.scheme, &mut self.messages, &mut self.ecc, &mut self.steps) {
            *result = self.scheme.codec().decode(message, ecc);
        }
        self.try_stuck_bits();
        self.rescue_erased();
        // An erased step may belong to the code, so its bitflips are corrected like the bitflips of other steps.
        let is_erased = self.is_erased();
        if !is_erased {
            self.leave_foreign();
        }
        if self.steps.iter().any(|step| *step != Ok(0)) {
            self.scheme.map().put(&mut self.raw, &self.messages, &self.ecc);
        }
        if is_erased { PageState::Erased(self.steps.iter().flatten().sum()) } else { PageState::Data }
    }

    fn is_erased(&self) -> bool {
        all_ff(&self.messages) && all_ff(&self.ecc)
    }

    /// Copies the data of the page in `self.raw`.
    pub(super) fn extract_data(&mut self, data: &mut [u8]) {
        self.scheme.map().extract_data(&mut self.raw, data);
    }

    /// Resets the evidence of the previous block.
    pub(crate) const fn begin_block(&mut self) {
        self.evidence = 0.0;
    }

    /// True if no code, or another code, is likelier for the pages of a block than this code. Such pages must stay as
    /// they were read.
    pub(crate) fn is_foreign(&self) -> bool {
        self.evidence < 0.0
    }

    /// Adds the evidence of a page's steps. If the evidence is against the code, corrections are undone, because they
    /// are accidental matches.
    fn leave_foreign(&mut self) {
        let (read, read_ecc) = &self.read;
        let mut evidence = 0.0;
        let mut rest = read.as_slice();
        for (bytes, step) in self.scheme.map().message_bytes().zip(&self.steps) {
            let (message, later) = rest.split_at(bytes.min(rest.len()));
            rest = later;
            if !is_constant(message) {
                evidence += self.weights.evidence(*step);
            }
        }
        self.evidence += evidence;
        if evidence < 0.0 {
            self.messages.clone_from(read);
            self.ecc.clone_from(read_ecc);
            let changed = self.steps.iter_mut().filter(|step| **step != Ok(0));
            changed.for_each(|step| *step = Err(Uncorrectable));
        }
    }

    /// Corrects a page with its OOB. Returns the number of corrected bits.
    pub(crate) fn correct_with_oob(&mut self, number: u64, page: &mut [u8]) -> u32 {
        self.raw.copy_from_slice(page);
        let bits = match self.correct(number) {
            PageState::Erased(bits) => bits,
            PageState::Data => {
                self.scheme.randomize(number, &mut self.raw);
                self.steps.iter().flatten().sum()
            }
        };
        if bits > 0 {
            page.copy_from_slice(&self.raw);
        }
        bits
    }

    /// Tries both values of stuck bits in steps that the code cannot correct. Stuck bits are also tried in a step
    /// whose corrections may be an accidental match with another codeword.
    fn try_stuck_bits(&mut self) {
        let Some(stuck) = &mut self.stuck else { return };
        let codec = self.scheme.codec();
        let chance = |corrected: u32| stuck.chances.get(corrected as usize).copied().unwrap_or(0.0);
        let mut decoded = self.steps.clone();
        let read = steps(self.scheme, &mut self.read.0, &mut self.read.1, &mut decoded);
        let parts = steps(self.scheme, &mut self.messages, &mut self.ecc, &mut self.steps);
        for (((message, ecc, result), (read, read_ecc, _)), bits) in parts.zip(read).zip(&stuck.steps) {
            if bits.is_empty() || bits.len() > STUCK_BITS {
                continue;
            }
            // Corrections of stuck bits are expected.
            let at_stuck =
                bits.iter().filter(|bit| bit.value(message, ecc) != bit.value(read, read_ecc)).count();
            let elsewhere = result.ok().map(|corrected| corrected.saturating_sub(at_stuck as u32));
            let is_doubtful = match (*result, elsewhere) {
                (Ok(corrected), Some(1..)) => chance(corrected) > BELIEVED_CHANCE,
                (Ok(_), _) => false,
                (Err(_), _) => stuck.in_vain < HOPELESS,
            };
            if !is_doubtful {
                continue;
            }
            let tried = (1..1_u32 << bits.len()).filter_map(|flips| {
                let (mut message, mut ecc) = (read.to_vec(), read_ecc.to_vec());
                let flipped = bits.iter().enumerate().filter(|(at, _)| flips >> at & 1 == 1);
                flipped.for_each(|(_, bit)| bit.flip(&mut message, &mut ecc));
                let corrected = codec.decode(&mut message, &mut ecc).ok()?;
                Some((corrected, flips.count_ones(), message, ecc))
            });
            let best = tried.min_by_key(|(corrected, flips, ..)| (*corrected, *flips));
            let believed = best.filter(|(corrected, ..)| {
                elsewhere.is_none_or(|elsewhere| *corrected < elsewhere)
                    && chance(*corrected) + bits.len() as f64 <= BELIEVED_CHANCE
            });
            match believed {
                Some((corrected, flips, right, right_ecc)) => {
                    message.copy_from_slice(&right);
                    ecc.copy_from_slice(&right_ecc);
                    *result = Ok(corrected + flips);
                    stuck.in_vain = 0;
                }
                None if result.is_err() => stuck.in_vain += 1,
                None => {}
            }
        }
    }

    /// Checks whether steps that the code cannot correct are erased, with more bitflips than the code corrects.
    fn rescue_erased(&mut self) {
        for (message, ecc, result) in steps(self.scheme, &mut self.messages, &mut self.ecc, &mut self.steps) {
            if result.is_err()
                && let Ok(bits) = check_erased(message, ecc, &mut [], self.threshold)
            {
                *result = Ok(bits);
            }
        }
    }
}

/// Messages, ECC bytes and results of steps.
fn steps<'s>(
    scheme: &'s Scheme,
    messages: &'s mut [u8],
    ecc: &'s mut [u8],
    results: &'s mut [Result<u32, Uncorrectable>],
) -> impl Iterator<Item = (&'s mut [u8], &'s mut [u8], &'s mut Result<u32, Uncorrectable>)> {
    let eccs = ecc.chunks_exact_mut(scheme.code().ecc_bytes() as usize);
    let mut rest = messages;
    let messages = scheme.map().message_bytes().map(move |bytes| {
        let all = std::mem::take(&mut rest);
        let (message, later) = all.split_at_mut(bytes.min(all.len()));
        rest = later;
        message
    });
    messages.zip(eccs).zip(results).map(|((message, ecc), result)| (message, ecc, result))
}
