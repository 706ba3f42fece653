//! A code tried on pages, and how much speaks for it.
//!
//! A wrong code may seem to fit: a code of one bit per step "corrects" half of all random steps. So each step
//! is weighed by how unlikely its result would be if the ECC bytes were random. An exact match counts most,
//! many corrected bits of a weak code next to nothing, and an uncorrectable step against the code. The sum is
//! a log-likelihood ratio in bits. The same ECC bytes prove nothing twice: OOB without ECC is often the same
//! on all pages. A code has to explain nearly all steps as well.

use super::Scheme;
use super::sample::{Page, is_constant};
use super::stream::all_ff;
use floatgate_ecc::{Code, Uncorrectable};
use serde::Serialize;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Pages, or steps with data, after which a code is dropped that more speaks against than for.
const FIRST: usize = 4;
const FIRST_STEPS: usize = 32;

/// Evidence from which a code is believed, in bits. A likelihood ratio of 2^40 comes about by chance at most once in 2^40 trials
/// (Markov's inequality); with 450 codes and layouts in 1000 regions that is below one in a million.
pub(super) const BELIEVED_BITS: f64 = 40.0;

/// Steps of every ten that a code must explain to be believed.
const EXPLAINED_OF_TEN: u64 = 9;

/// Steps of a dump that its own code cannot correct: worn or half-written pages, other codes in other parts. A guess;
/// what is found does not depend on it much.
const UNCORRECTABLE: f64 = 0.05;

/// A code in a layout.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// Name of the code.
    pub code: String,
    /// Name of the layout.
    pub layout: String,
    /// File of the layout, if no known one describes the pages.
    pub layout_file: Option<String>,
    /// Different steps with data that match exactly.
    pub clean: u64,
    /// Those that match when some bits are corrected.
    pub corrected: u64,
    /// Those that do not match.
    pub uncorrectable: u64,
    /// Logarithm to base 2 of how much likelier this is the code than that the ECC bytes are random.
    pub evidence_bits: f64,
    /// True when that is enough, and the code explains nearly all steps.
    pub fits: bool,
    /// Probability that this is the code and the layout, 0 to 1: its share among all that were tried, each as likely as the other before. At most 0.9
    /// for a layout that no file describes, and 0.5 for a code that does not fit.
    pub confidence: f64,
    /// The code and layout that explain the same pages next best.
    pub runner_up: Option<RunnerUp>,
    /// Other layouts that have the same data and ECC bytes in the same places, so that they decode alike.
    pub same_as: Vec<String>,
}

/// The next best code in a layout.
#[derive(Clone, Debug, Serialize)]
pub struct RunnerUp {
    /// Name of the code.
    pub code: String,
    /// Name of the layout.
    pub layout: String,
    /// Its evidence on the same pages.
    pub evidence_bits: f64,
}

/// Weights of the results of a step, in bits: logarithms of how much likelier they are under a code than with random ECC bytes.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// By the number of corrected bits.
    decoded: Vec<f64>,
    uncorrectable: f64,
}

impl Weights {
    pub(super) fn new(code: Code) -> Self {
        let chances = log2_chances(code);
        let decoded = chances.iter().map(|chance| libm::log2(1.0 - UNCORRECTABLE) - chance).collect();
        let chance = libm::exp2(chances.last().copied().unwrap_or(0.0));
        // No code corrects every word of random bytes; rounding could say so.
        let uncorrectable = libm::log2(UNCORRECTABLE / (1.0 - chance).max(UNCORRECTABLE));
        Self { decoded, uncorrectable }
    }

    pub(super) fn evidence(&self, result: Result<u32, Uncorrectable>) -> f64 {
        match result {
            Ok(bits) => self.decoded.get(bits as usize).copied().unwrap_or(0.0),
            Err(Uncorrectable) => self.uncorrectable,
        }
    }
}

/// A code that is being tried.
pub(super) struct Trial {
    weights: Weights,
    /// Steps that were weighed: the same one counts once.
    steps: HashSet<u64>,
    /// ECC bytes that were weighed: the same ones prove nothing twice.
    eccs: HashSet<u64>,
    pub(super) clean: u64,
    pub(super) corrected: u64,
    pub(super) failed: u64,
    pub(super) evidence: f64,
}

impl Trial {
    fn new(scheme: &Scheme) -> Self {
        Self {
            weights: Weights::new(scheme.code()),
            steps: HashSet::new(),
            eccs: HashSet::new(),
            clean: 0,
            corrected: 0,
            failed: 0,
            evidence: 0.0,
        }
    }

    /// A code on pages.
    pub(super) fn over(scheme: &Scheme, pages: &[&Page]) -> Self {
        let mut trial = Self::new(scheme);
        pages.iter().for_each(|page| trial.page(scheme, page));
        trial
    }

    /// As [`over`](Self::over), but given up early where more speaks against the code than for it.
    pub(super) fn pruned(scheme: &Scheme, pages: &[&Page]) -> Self {
        let mut trial = Self::new(scheme);
        for (at, page) in pages.iter().enumerate() {
            if (at >= FIRST || trial.steps.len() >= FIRST_STEPS) && trial.evidence < 0.0 {
                break;
            }
            trial.page(scheme, page);
        }
        trial
    }

    pub(super) fn candidate(&self, scheme: &Scheme) -> Candidate {
        Candidate {
            code: scheme.code().to_string(),
            layout: scheme.layout_name().to_string(),
            layout_file: scheme.layout_file().map(str::to_owned),
            clean: self.clean,
            corrected: self.corrected,
            uncorrectable: self.failed,
            evidence_bits: libm::round(self.evidence),
            fits: self.is_believed(),
            confidence: 0.0,
            runner_up: None,
            same_as: Vec::new(),
        }
    }

    /// True with evidence enough, if nearly all steps are explained.
    pub(super) fn is_believed(&self) -> bool {
        let explained = self.clean + self.corrected;
        self.evidence >= BELIEVED_BITS && 10 * explained >= EXPLAINED_OF_TEN * (explained + self.failed)
    }

    /// The evidence, in bits, of a code that is believed.
    pub(super) fn believed_bits(&self) -> Option<f64> {
        self.is_believed().then_some(self.evidence)
    }

    /// True when nothing speaks against the code.
    pub(super) fn is_possible(&self) -> bool {
        self.evidence >= 0.0
    }

    /// True of a few pages under a code that is believed elsewhere: it explains most steps, and that is no chance.
    pub(super) fn explains(&self, bits: f64) -> bool {
        self.evidence >= bits && self.clean + self.corrected >= self.failed
    }

    fn page(&mut self, scheme: &Scheme, page: &Page) {
        if scheme.is_randomized() {
            let mut raw = page.raw.clone();
            scheme.randomize(page.number, &mut raw);
            self.raw(scheme, &raw);
        } else {
            self.raw(scheme, &page.raw);
        }
    }

    fn raw(&mut self, scheme: &Scheme, raw: &[u8]) {
        // Swapped with an OOB byte, or covered with those, the marker of a good block is FFh; else it is a byte of the data.
        if let Some(marker) = scheme.marker_of_good_block().and_then(|byte| raw.get(byte)) {
            self.evidence += if *marker == 0xFF { 1.0 } else { -8.0 };
        }
        let (mut messages, mut ecc) = (Vec::new(), Vec::new());
        scheme.map().extract(raw, &mut messages, &mut ecc);
        let mut rest = messages.as_mut_slice();
        let eccs = ecc.chunks_exact_mut(scheme.code().ecc_bytes() as usize);
        for (bytes, ecc) in scheme.map().message_bytes().zip(eccs) {
            let (message, later) = rest.split_at_mut(bytes.min(rest.len()));
            self.step(scheme, message, ecc);
            rest = later;
        }
    }

    /// Weighs a step. Data of one repeated byte tell nothing: their Hamming bytes are FFh, as a page without ECC has them.
    fn step(&mut self, scheme: &Scheme, step: &mut [u8], ecc: &mut [u8]) {
        if is_constant(step) || !self.steps.insert(key(&(&*step, &*ecc))) {
            return;
        }
        let proves = !all_ff(ecc) && self.eccs.insert(key(&&*ecc));
        let result = scheme.codec().decode(step, ecc);
        // What is corrected to one repeated byte was such data with wrong bits, or an erased step.
        if result.is_ok() && is_constant(step) {
            return;
        }
        match result {
            Ok(0) => self.clean += 1,
            Ok(_) => self.corrected += 1,
            Err(Uncorrectable) => self.failed += 1,
        }
        if proves || result.is_err() {
            self.evidence += self.weights.evidence(result);
        }
    }
}

fn key(bytes: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Logarithm to base 2 of the chance that a step matches by accident with at most 0, 1, 2 ... bits corrected.
/// The ECC bytes then have nothing to do with the data: codewords of that distance among all words of as many
/// check bits.
pub(super) fn log2_chances(code: Code) -> Vec<f64> {
    let data_bits = 8 * code.step_bytes();
    let check_bits = match code {
        // The two parities of a pair are equal, or in all pairs different: only one bit per address bit, and the parity of the step, depend on
        // the data. ECC bytes that are the same for all steps, as zeros, have such pairs; then each step of odd parity is "corrected".
        code if code.is_hamming() => return vec![-f64::from(data_bits.ilog2() + 1), -1.0],
        Code::ReedSolomon { step_bytes, form, .. } => {
            return log2_chances_of_symbols(code, step_bytes, form.message_bits());
        }
        _ => code.ecc_bits(),
    };
    let bits = f64::from(data_bits + check_bits);
    let (mut words, mut within) = (0.0, 0.0);
    let mut chances = vec![-f64::from(check_bits)];
    for errors in 1..=code.strength() {
        words += libm::log2((bits + 1.0 - f64::from(errors)) / f64::from(errors));
        within = words + libm::log2(1.0 + libm::exp2(within - words));
        chances.push((within - f64::from(check_bits)).min(0.0));
    }
    chances
}

/// The same for a code that corrects whole symbols, by the number of bits: as many symbols may be wrong.
fn log2_chances_of_symbols(code: Code, step_bytes: u32, symbol_bits: u32) -> Vec<f64> {
    let symbols = (8 * step_bytes).div_ceil(symbol_bits) + 2 * code.strength();
    let (symbols, check_bits) = (f64::from(symbols), f64::from(code.ecc_bits()));
    let (mut words, mut within) = (0.0, 0.0);
    let mut chances = vec![-check_bits];
    for errors in 1..=code.strength() {
        words += libm::log2((symbols + 1.0 - f64::from(errors)) / f64::from(errors)) + f64::from(symbol_bits);
        within = words + libm::log2(1.0 + libm::exp2(within - words));
        chances.push(within - check_bits);
    }
    chances.resize(1 + 10 * code.strength() as usize, within - check_bits);
    chances
}

#[cfg(test)]
mod tests {
    use super::super::PageGeometry;
    use super::*;

    /// A code of strength t matches random bytes about once in t! times (MacWilliams and Sloane: the density of the
    /// spheres around codewords).
    #[test]
    fn chance_matches_are_one_in_factorial_t() {
        for (code, factorial) in [("bch1/512", 1.0), ("bch4/512", 24.0), ("bch8/512", 40320.0)] {
            let code: Code = code.parse().unwrap();
            let chance = libm::exp2(*log2_chances(code).last().unwrap());
            // Shortened: 4096 data bits of some 8191.
            let shortened = libm::pow(0.5, f64::from(code.strength()));
            assert!((0.8..1.3).contains(&(chance * factorial / shortened)), "{code}: {chance}");
        }
    }

    #[test]
    fn a_code_explains_nine_of_ten_steps_beyond_chance() {
        let geometry = PageGeometry::new(2048, 64, None).unwrap();
        let scheme = Scheme::linux(geometry, "hamming/512".parse().unwrap()).unwrap();
        let believed = |clean, corrected, failed, evidence| {
            Trial { clean, corrected, failed, evidence, ..Trial::new(&scheme) }.is_believed()
        };
        assert!(believed(900, 3, 5, 4000.0) && believed(90, 0, 10, 400.0));
        // Worn: no step is clean.
        assert!(believed(0, 60, 4, 400.0));
        assert!(!believed(300, 20, 900, 400.0) && !believed(89, 0, 11, 4000.0) && !believed(900, 3, 5, 39.0));
    }

    #[test]
    fn bits_that_depend_on_the_data() {
        let bits = |code: &str| -log2_chances(code.parse().unwrap())[0];
        assert_eq!(
            ["hamming/256", "hamming/512", "bch1/512", "bch4/512"].map(bits),
            [12.0, 13.0, 13.0, 52.0]
        );
        assert_eq!(["bch8/512", "bch24/1024", "bch40/1024"].map(bits), [104.0, 336.0, 560.0]);
    }
}
