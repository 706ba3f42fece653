//! Which code and layout a dump was written with: the usual ones are tried on some of its pages.
//!
//! A wrong code may seem to fit: a code of one bit per step "corrects" half of all random steps. So each step is weighed
//! by how unlikely its result would be if the ECC bytes were random: an exact match counts most, many corrected bits of a
//! weak code next to nothing, and an uncorrectable step against. The sum is a log-likelihood ratio in bits.

use super::scheme::usual_layouts;
use super::stream::{Chunk, Dump, Pages, all_ff};
use super::{EccError, PageGeometry, Scheme};
use floatgate_ecc::{Code, LayoutName};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Most pages of a sample.
const SAMPLE: usize = 64;

/// Every so-manieth page of the sample is tried first: one of them comes from each part of the dump.
const FIRST: usize = 8;

/// The other polynomial in use for steps of 1024 bytes, x^14 + x^10 + x^6 + x + 1 (Lin and Costello, Error Control Coding,
/// table of primitive polynomials; Atmel's PMECC has it too). For 512 bytes PMECC takes Linux's.
const OTHER_POLYNOMIAL: u32 = 0x4443;

/// Evidence from which a code is believed, in bits: some 450 codes and layouts are tried, so chance brings 9 bits.
const BELIEVED_BITS: f64 = 40.0;

/// Steps of a dump that its own code cannot correct: worn or half-written pages, other codes in other parts. A guess;
/// what is found does not depend on it much.
const UNCORRECTABLE: f64 = 0.05;

/// Candidates that are reported.
const REPORTED: usize = 5;

/// Pages with data, from everywhere in a dump.
pub struct Sample {
    pages: Vec<Page>,
}

struct Page {
    data: Vec<u8>,
    oob: Vec<u8>,
}

/// Codes and layouts that were tried.
#[derive(Clone, Debug, Serialize)]
pub struct Detection {
    /// Pages that the codes were tried on.
    pub sampled_pages: u64,
    /// Codes and layouts that were tried.
    pub tried: u64,
    /// The best ones, the best first.
    pub candidates: Vec<Candidate>,
}

/// A code in a layout.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// Name of the code.
    pub code: String,
    /// Name of the layout.
    pub layout: String,
    /// Different steps with data that match exactly.
    pub clean: u64,
    /// Those that match when some bits are corrected.
    pub corrected: u64,
    /// Those that do not match.
    pub uncorrectable: u64,
    /// Logarithm to base 2 of how much likelier this is the code than that the ECC bytes are random.
    pub evidence_bits: f64,
    /// True when that is enough.
    pub fits: bool,
    #[serde(skip)]
    scheme: Scheme,
}

impl Detection {
    /// The best candidate whose evidence is good enough.
    pub fn found(&self) -> Option<&Scheme> {
        self.candidates.iter().find(|best| best.fits).map(|best| &best.scheme)
    }
}

/// Picks pages with data from all parts of a dump, which is read once.
///
/// # Errors
/// A dump without a whole page, or without any data; what reading meets.
pub fn sample(
    geometry: &PageGeometry,
    dump: Dump<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Sample, EccError> {
    let mut pages = Pages::new(geometry, 0, dump);
    let (shape, mut chunk) = (pages.shape(), Chunk::default());
    let (mut kept, mut stride, mut with_data, mut seen) = (Vec::new(), 1, 0_usize, 0);
    while pages.next(&mut chunk)? {
        for (data, oob) in (0..chunk.pages).map(|at| shape.page(&chunk, at)) {
            seen += 1;
            if all_ff(data) {
                continue;
            }
            if with_data % stride == 0 {
                kept.push(Page { data: data.to_vec(), oob: oob.to_vec() });
            }
            with_data += 1;
            if kept.len() > SAMPLE {
                // Every other one stays, and from now on as few are added.
                let mut at = 0;
                kept.retain(|_| (at % 2 == 0, at += 1).0);
                stride *= 2;
            }
        }
        progress(pages.offset());
    }
    match (seen, kept.is_empty()) {
        (0, _) => Err(pages.too_short()),
        (_, true) => Err(EccError::AllErased),
        _ => Ok(Sample { pages: in_turns(kept) }),
    }
}

/// Pages from all parts first.
fn in_turns(pages: Vec<Page>) -> Vec<Page> {
    let stride = pages.len().div_ceil(FIRST);
    let mut numbered: Vec<(usize, Page)> = pages.into_iter().enumerate().collect();
    numbered.sort_by_key(|(at, _)| (at % stride, *at));
    numbered.into_iter().map(|(_, page)| page).collect()
}

/// Tries the usual codes in the usual layouts, or in `layout` alone.
pub fn detect(geometry: &PageGeometry, layout: Option<LayoutName>, sample: &Sample) -> Detection {
    let schemes = schemes(geometry, layout);
    let tried = schemes.len() as u64;
    let mut candidates: Vec<Candidate> =
        schemes.into_par_iter().map(|scheme| Trial::new(&scheme).run(sample, scheme)).collect();
    // Stable: among equals the simpler code, which was tried first, stays first.
    candidates.sort_by(|one, other| other.evidence_bits.total_cmp(&one.evidence_bits));
    candidates.truncate(REPORTED);
    Detection { sampled_pages: sample.pages.len() as u64, tried, candidates }
}

/// The codes that fit, each in every layout that is another place for it.
fn schemes(geometry: &PageGeometry, layout: Option<LayoutName>) -> Vec<Scheme> {
    let layout = layout.filter(|name| *name != LayoutName::Linux);
    let hamming =
        [256, 512].map(|step_bytes| [Code::Hamming { step_bytes }, Code::HammingSmartMedia { step_bytes }]);
    let bch = |strength| {
        [
            Code::Bch { strength, step_bytes: 512 },
            Code::Bch { strength, step_bytes: 1024 },
            Code::BchOver { strength, step_bytes: 1024, polynomial: OTHER_POLYNOMIAL },
        ]
    };
    let codes = hamming.into_iter().flatten().chain((1..=floatgate_ecc::code::MAX_STRENGTH).flat_map(bch));
    let codes: Vec<Code> = codes.collect();
    codes.into_par_iter().flat_map_iter(|code| different(geometry, code, layout)).collect()
}

fn different(geometry: &PageGeometry, code: Code, only: Option<LayoutName>) -> Vec<Scheme> {
    let mut schemes: Vec<Scheme> = Vec::new();
    let all = usual_layouts(code).into_iter().chain([LayoutName::Winbond]);
    for name in all.filter(|name| only.is_none_or(|only| only == *name)) {
        let scheme = match schemes.first() {
            Some(first) => first.moved(name),
            None => Scheme::new(geometry.clone(), code, name),
        };
        let Ok(scheme) = scheme else { continue };
        if schemes.iter().all(|other| other.layout() != scheme.layout()) {
            schemes.push(scheme);
        }
    }
    schemes
}

/// A code that is being tried.
struct Trial {
    /// Evidence of a step by its corrected bits.
    decoded: Vec<f64>,
    /// Evidence of a step that the code cannot correct.
    uncorrectable: f64,
    /// Steps that were weighed: the same one proves nothing twice.
    seen: HashSet<u64>,
    clean: u64,
    corrected: u64,
    failed: u64,
    evidence: f64,
}

impl Trial {
    fn new(scheme: &Scheme) -> Self {
        let chances = log2_chances(scheme.code());
        let decoded = chances.iter().map(|chance| libm::log2(1.0 - UNCORRECTABLE) - chance).collect();
        let chance = libm::exp2(chances.last().copied().unwrap_or(0.0));
        // No code corrects every word of random bytes; rounding could say so.
        let uncorrectable = libm::log2(UNCORRECTABLE / (1.0 - chance).max(UNCORRECTABLE));
        Self {
            decoded,
            uncorrectable,
            seen: HashSet::new(),
            clean: 0,
            corrected: 0,
            failed: 0,
            evidence: 0.0,
        }
    }

    fn run(mut self, sample: &Sample, scheme: Scheme) -> Candidate {
        for (at, page) in sample.pages.iter().enumerate() {
            if at >= FIRST && self.evidence < 0.0 {
                break;
            }
            self.page(&scheme, page);
        }
        Candidate {
            code: scheme.code().to_string(),
            layout: scheme.layout_name().to_string(),
            clean: self.clean,
            corrected: self.corrected,
            uncorrectable: self.failed,
            evidence_bits: libm::round(self.evidence),
            fits: self.is_believed(),
            scheme,
        }
    }

    /// True with evidence enough, unless most steps fail and those that do not are corrected ones: a Hamming code does that to the bytes of
    /// another one in another order. A code of a part of the dump has clean steps.
    fn is_believed(&self) -> bool {
        let fails_most = self.failed > self.clean + self.corrected;
        self.evidence >= BELIEVED_BITS && !(fails_most && self.corrected > self.clean)
    }

    fn page(&mut self, scheme: &Scheme, page: &Page) {
        let (mut data, mut ecc) = (page.data.clone(), vec![0; scheme.ecc_bytes() as usize]);
        scheme.layout().take_ecc(&page.oob, &mut ecc);
        let steps = data.chunks_exact_mut(scheme.code().step_bytes() as usize);
        for (step, ecc) in steps.zip(ecc.chunks_exact_mut(scheme.code().ecc_bytes() as usize)) {
            self.step(scheme, step, ecc);
        }
    }

    fn step(&mut self, scheme: &Scheme, step: &mut [u8], ecc: &mut [u8]) {
        if (all_ff(step) && all_ff(ecc)) || !self.seen.insert(key(step, ecc)) {
            return;
        }
        // Data of one repeated byte has Hamming bytes of FFh, as a page without ECC has.
        let proves = !all_ff(ecc);
        let result = scheme.codec().decode(step, ecc);
        if all_ff(step) {
            return;
        }
        match result {
            Ok(0) => self.clean += 1,
            Ok(_) => self.corrected += 1,
            Err(_) => self.failed += 1,
        }
        self.evidence += match result {
            Ok(_) if !proves => 0.0,
            Ok(bits) => self.decoded.get(bits as usize).copied().unwrap_or(0.0),
            Err(_) => self.uncorrectable,
        };
    }
}

fn key(step: &[u8], ecc: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (step, ecc).hash(&mut hasher);
    hasher.finish()
}

/// Logarithm to base 2 of the chance that random ECC bytes match with at most 0, 1, 2 ... bits corrected: codewords of
/// that distance among all words of as many check bits.
fn log2_chances(code: Code) -> Vec<f64> {
    let data_bits = 8 * code.step_bytes();
    let check_bits = match code {
        // Two per address bit.
        Code::Hamming { .. } | Code::HammingSmartMedia { .. } => 2 * data_bits.ilog2(),
        // The degree of the field, 13 for 512 bytes and 14 for 1024, times the strength.
        Code::Bch { strength, step_bytes } | Code::BchOver { strength, step_bytes, .. } => {
            (step_bytes.ilog2() + 4) * strength
        }
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

#[cfg(test)]
mod tests {
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
    fn a_code_that_fails_most_steps_needs_clean_ones() {
        let geometry = PageGeometry::new(2048, 64, None).unwrap();
        let scheme = Scheme::new(geometry, "hamming/512".parse().unwrap(), LayoutName::LargePage).unwrap();
        let believed = |clean, corrected, failed, evidence| {
            Trial { clean, corrected, failed, evidence, ..Trial::new(&scheme) }.is_believed()
        };
        assert!(believed(900, 3, 5, 4000.0) && believed(300, 20, 900, 400.0));
        // Worn: no step is clean.
        assert!(believed(0, 60, 4, 400.0));
        assert!(!believed(2, 169, 477, 41.0) && !believed(900, 3, 5, 39.0));
    }

    #[test]
    fn check_bits_of_codes() {
        let bits = |code: &str| -log2_chances(code.parse().unwrap())[0];
        assert_eq!(
            ["hamming/256", "hamming/512", "bch1/512", "bch4/512"].map(bits),
            [22.0, 24.0, 13.0, 52.0]
        );
        assert_eq!(["bch8/512", "bch24/1024", "bch40/1024"].map(bits), [104.0, 336.0, 560.0]);
    }
}
