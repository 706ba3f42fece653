//! Which codes and layouts a dump was written with: the usual ones are tried on some of its pages.
//!
//! A wrong code may seem to fit: a code of one bit per step "corrects" half of all random steps. So each step
//! is weighed by how unlikely its result would be if the ECC bytes were random. An exact match counts most,
//! many corrected bits of a weak code next to nothing, and an uncorrectable step against the code. The sum is
//! a log-likelihood ratio in bits. The same ECC bytes prove nothing twice: OOB without ECC is often the same
//! on all pages. A code has to explain nearly all steps as well.

use super::keystream::Keystream;
use super::layout::Layout;
use super::regions::{self, RegionEcc, Regions};
use super::scheme::linux_layouts;
use super::stream::{Chunk, Dump, Grouping, Pages, all_ff};
use super::{EccError, PageGeometry, Scheme, Transform};
use floatgate_ecc::{Code, Uncorrectable};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

/// Most pages that a code is tried on.
const TRIED: usize = 64;

/// Pages after which a code is dropped that more speaks against than for.
const FIRST: usize = 4;

/// Bytes of the pages that are kept of a group, unless the sample becomes too large.
const KEPT_BYTES: usize = 8192;

/// Most bytes of a sample.
const SAMPLE_BYTES: usize = 64 << 20;

/// Bytes of the smallest step.
const PIECE: usize = 256;

/// Most zero bits of an erased piece.
const ERASED_BITFLIPS: u32 = 16;

/// The other polynomial in use for steps of 1024 bytes, x^14 + x^10 + x^6 + x + 1 (Lin and Costello, Error Control Coding,
/// table of primitive polynomials; Atmel's PMECC has it too). For 512 bytes PMECC takes Linux's.
const OTHER_POLYNOMIAL: u32 = 0x4443;

/// Evidence from which a code is believed, in bits. A likelihood ratio of 2^40 comes about by chance at most once in 2^40 trials
/// (Markov's inequality); with 450 codes and layouts in 1000 regions that is below one in a million.
const BELIEVED_BITS: f64 = 40.0;

/// Steps of every ten that a code must explain to be believed.
const EXPLAINED_OF_TEN: u64 = 9;

/// Steps of a dump that its own code cannot correct: worn or half-written pages, other codes in other parts. A guess;
/// what is found does not depend on it much.
const UNCORRECTABLE: f64 = 0.05;

/// Candidates that are reported where no code fits.
const REPORTED: usize = 5;

/// Pages with data, from everywhere in a dump.
pub struct Sample {
    /// In the order of the dump.
    pub(super) groups: Vec<Group>,
    /// Pages of the dump in each group: a block, or several of a large dump.
    pub(super) group_pages: u64,
    /// Pages that are kept of a group.
    kept: usize,
    /// Bytes of the pages.
    bytes: usize,
    /// Randomizers that constant data show.
    keystream: Keystream,
}

/// Pages next to each other, of which some are kept.
#[derive(Default)]
pub(super) struct Group {
    /// Those with the most data, the first one first.
    pub(super) pages: Vec<Page>,
    /// It has a bad block marker.
    pub(super) is_marked: bool,
}

/// A page with data.
pub(super) struct Page {
    /// Number in the dump.
    number: u64,
    /// Data, then OOB.
    pub(super) raw: Vec<u8>,
    /// Bytes of the data.
    page_bytes: usize,
    /// Pieces of the data that are not one repeated byte.
    pieces: usize,
}

/// Codes and layouts that were tried.
#[derive(Clone, Debug, Serialize)]
pub struct Detection {
    /// Pages in the sample.
    pub sampled_pages: u64,
    /// Codes and layouts that were tried.
    pub tried: u64,
    /// The codes that were found, in the order of the dump; if there are none, those that come nearest.
    pub candidates: Vec<Candidate>,
    /// Exchange of bytes or bits under which the codes fit; none where they fit the dump as it is.
    pub transform: Option<Transform>,
    /// The parts of the dump that they protect.
    #[serde(skip)]
    pub regions: Regions,
}

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

impl Detection {
    /// The first code that was found.
    pub fn found(&self) -> Option<&Scheme> {
        self.regions.schemes().next()
    }

    /// Best code of a worn dump where none fits: the evidence for it is strong, but steps have more wrong bits than it corrects.
    pub fn worn(&self) -> Option<&Candidate> {
        let best = self.candidates.first().filter(|_| self.found().is_none())?;
        (best.evidence_bits >= BELIEVED_BITS).then_some(best)
    }
}

/// Picks pages with data from all parts of a dump, which is read once.
///
/// # Errors
/// A dump without a whole page, without any data, or with too little of it; what reading meets.
pub fn sample(
    geometry: &PageGeometry,
    dump: Dump<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Sample, EccError> {
    let mut pages = Pages::new(geometry, 0, dump);
    let (shape, mut chunk) = (pages.shape(), Chunk::default());
    let group_pages = Grouping::new(geometry).pages as u64;
    let kept = (KEPT_BYTES / geometry.page_bytes as usize).max(2);
    let keystream = Keystream::new(geometry.pages_per_block);
    let mut sample = Sample { groups: Vec::new(), group_pages, kept, bytes: 0, keystream };
    let (mut number, mut is_erased) = (0_u64, true);
    let marker = &geometry.marker;
    let tells_bad = geometry.pages_per_block.is_some() && shape.has_markers();
    while pages.next(&mut chunk)? {
        for (data, oob) in (0..chunk.pages).map(|at| shape.page(&chunk, at)) {
            is_erased = is_erased && all_ff(data);
            let has_marker =
                tells_bad && marker.pages.iter().any(|page| u64::from(*page) == number % group_pages);
            let is_marked = has_marker && oob.get(marker.byte as usize).is_some_and(|byte| *byte != 0xFF);
            sample.add(number, (data, oob), is_marked);
            number += 1;
        }
        progress(pages.offset());
    }
    match number {
        0 => Err(pages.too_short()),
        _ if is_erased => Err(EccError::AllErased),
        _ if sample.groups.iter().all(|group| group.pages.is_empty()) => Err(EccError::TooLittle),
        _ => Ok(sample),
    }
}

impl Sample {
    fn add(&mut self, number: u64, (data, oob): (&[u8], &[u8]), is_marked: bool) {
        let at = usize::try_from(number / self.group_pages).unwrap_or(usize::MAX);
        if self.groups.len() <= at {
            self.groups.push(Group::default());
        }
        let Some(group) = self.groups.last_mut() else { return };
        group.is_marked |= is_marked;
        let pieces =
            data.chunks(PIECE).filter(|piece| !is_constant(piece) && !is_nearly_erased(piece)).count();
        // Randomized pages have no constant pieces.
        if pieces * PIECE == data.len() {
            self.keystream.add(number, data);
        }
        let least = group.pages.iter().map(|page| page.pieces).min().unwrap_or(0);
        if pieces == 0 || group.pages.len() >= self.kept && pieces <= least {
            return;
        }
        group.pages.push(Page { number, raw: [data, oob].concat(), page_bytes: data.len(), pieces });
        self.bytes += data.len() + oob.len();
        self.bytes -= group.keep(self.kept);
        if self.bytes > SAMPLE_BYTES {
            self.shrink();
        }
    }

    /// Keeps fewer pages of each group, or makes larger groups of them.
    fn shrink(&mut self) {
        if self.kept > 1 {
            self.kept /= 2;
        } else {
            self.group_pages *= 2;
            let mut groups = std::mem::take(&mut self.groups).into_iter();
            while let Some(mut group) = groups.next() {
                if let Some(next) = groups.next() {
                    group.is_marked &= next.is_marked;
                    group.pages.extend(next.pages);
                }
                self.groups.push(group);
            }
        }
        let kept = self.kept;
        self.groups.iter_mut().for_each(|group| {
            group.keep(kept);
        });
        let pages = self.groups.iter().flat_map(|group| &group.pages);
        self.bytes = pages.map(|page| page.raw.len()).sum();
    }

    /// The pages with their bytes or bits exchanged.
    fn transformed(&self, transform: Transform) -> Self {
        let page = |page: &Page| {
            let mut raw = page.raw.clone();
            transform.apply(&mut raw);
            Page { raw, ..*page }
        };
        let group = |group: &Group| Group { pages: group.pages.iter().map(page).collect(), ..*group };
        let groups = self.groups.iter().map(group).collect();
        Self { groups, keystream: self.keystream.clone(), ..*self }
    }

    /// Pages from all parts of some groups, as many as a code is tried on.
    pub(super) fn spread(&self, groups: impl Iterator<Item = usize>) -> Vec<&Page> {
        let groups = groups.filter_map(|at| self.groups.get(at));
        let pages: Vec<&Page> = groups.flat_map(|group| &group.pages).collect();
        let stride = pages.len().div_ceil(TRIED).max(1);
        pages.into_iter().step_by(stride).collect()
    }
}

impl Page {
    pub(super) fn data(&self) -> &[u8] {
        self.raw.get(..self.page_bytes).unwrap_or(&[])
    }

    pub(super) fn oob(&self) -> &[u8] {
        self.raw.get(self.page_bytes..).unwrap_or(&[])
    }
}

impl Group {
    /// Keeps the pages with the most data; the number of bytes that are dropped.
    fn keep(&mut self, most: usize) -> usize {
        self.pages.sort_by_key(|page| std::cmp::Reverse(page.pieces));
        let dropped: usize = self.pages.iter().skip(most).map(|page| page.raw.len()).sum();
        self.pages.truncate(most);
        dropped
    }
}

/// True of erased flash with a few wrong bits.
fn is_nearly_erased(piece: &[u8]) -> bool {
    let mut zeros = 0;
    // In parts, so that data are left after the first.
    piece.chunks(32).all(|part| {
        zeros += part.iter().map(|byte| byte.count_zeros()).sum::<u32>();
        zeros <= ERASED_BITFLIPS
    })
}

/// True when all bytes are the same.
pub(super) fn is_constant(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| Some(byte) == bytes.first())
}

/// Tries the usual codes in the usual layouts, or in `layout` alone, on all parts of a dump.
pub fn detect(geometry: &PageGeometry, layout: Option<&Layout>, sample: &Sample) -> Detection {
    Detector::new(geometry, layout).detect(sample)
}

/// Codes that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Those in the layouts of files.
    Files,
    /// Also parameters that the sources of these leave open, and undescribed layouts.
    All,
}

/// The codes in their layouts that are tried on dumps with pages of one geometry. Their tables are made once.
pub struct Detector {
    pub(super) geometry: PageGeometry,
    layout: Option<Layout>,
    /// Exchanges of bytes and bits are tried.
    transforms: bool,
    schemes: OnceLock<Vec<Scheme>>,
    alternatives: OnceLock<Vec<Scheme>>,
}

impl Detector {
    /// The usual codes in the usual layouts, or in `layout` alone.
    pub fn new(geometry: &PageGeometry, layout: Option<&Layout>) -> Self {
        Self {
            geometry: geometry.clone(),
            layout: layout.cloned(),
            transforms: false,
            schemes: OnceLock::new(),
            alternatives: OnceLock::new(),
        }
    }

    /// Also tries the dump with its bytes or bits exchanged. Whoever reads the dump then applies the exchange that was found.
    #[must_use]
    pub fn with_transforms(self) -> Self {
        Self { transforms: true, ..self }
    }

    /// Tries the codes on all parts of a dump.
    pub fn detect(&self, sample: &Sample) -> Detection {
        if !regions::hold_ecc(&sample.groups) {
            return self.detection(Regions::one(RegionEcc::None), sample, None);
        }
        let known = regions::find(self, sample, Reach::Files);
        if known.schemes().next().is_some() {
            // Some parts may need more than the layouts of files.
            let is_all = known.iter().all(|(_, ecc)| !matches!(ecc, RegionEcc::Unknown));
            let regions = if is_all { known } else { regions::find(self, sample, Reach::All) };
            return self.detection(regions, sample, None);
        }
        let transforms = Transform::ALL.into_iter().filter(|_| self.transforms);
        for transform in transforms {
            let exchanged = sample.transformed(transform);
            let regions = regions::find(self, &exchanged, Reach::Files);
            if regions.schemes().next().is_some() {
                return self.detection(regions, &exchanged, Some(transform));
            }
        }
        if let Some((detector, regions)) = self.with_keystream(sample) {
            return detector.detection(regions, sample, None);
        }
        self.detection(regions::find(self, sample, Reach::All), sample, None)
    }

    /// Tries the codes in the layouts of files on the pages of two chips whose bytes alternate in a dump; none where no code fits.
    pub fn detect_two_chips(&self, sample: &Sample) -> Option<Detection> {
        let detection = self.detect_known(sample);
        detection.found().is_some().then_some(Detection { transform: Some(Transform::TwoChips), ..detection })
    }

    /// Tries only the codes in the layouts of files.
    pub(super) fn detect_known(&self, sample: &Sample) -> Detection {
        self.detection(regions::find(self, sample, Reach::Files), sample, None)
    }

    /// The codes under a randomizer that constant data show.
    fn with_keystream(&self, sample: &Sample) -> Option<(Self, Regions)> {
        for randomizer in sample.keystream.randomizers() {
            let plain = self.schemes().par_iter().filter(|scheme| !scheme.is_randomized());
            let schemes: Vec<Scheme> = plain.filter_map(|scheme| scheme.randomized(&randomizer)).collect();
            let detector = Self {
                geometry: self.geometry.clone(),
                layout: self.layout.clone(),
                transforms: false,
                schemes: OnceLock::from(schemes),
                alternatives: OnceLock::from(Vec::new()),
            };
            let regions = regions::find(&detector, sample, Reach::Files);
            if regions.schemes().next().is_some() {
                return Some((detector, regions));
            }
        }
        None
    }

    fn detection(&self, regions: Regions, sample: &Sample, transform: Option<Transform>) -> Detection {
        let may_hold_ecc = regions::hold_ecc(&sample.groups);
        let sampled_pages = sample.groups.iter().map(|group| group.pages.len() as u64).sum();
        let mut candidates = self.found(&regions, sample);
        if candidates.is_empty() && may_hold_ecc {
            candidates = self.nearest(sample);
        }
        let tried = if may_hold_ecc { self.tried() as u64 } else { 0 };
        Detection { sampled_pages, tried, candidates, transform, regions }
    }

    /// Codes in the layouts of files.
    pub(super) fn schemes(&self) -> &[Scheme] {
        self.schemes.get_or_init(|| schemes(&self.geometry, self.layout.as_ref()))
    }

    /// The same layouts with what their sources leave open.
    pub(super) fn alternatives(&self) -> &[Scheme] {
        self.alternatives.get_or_init(|| alternatives(&self.geometry, self.layout.as_ref()))
    }

    /// True when layouts that no file describes are looked for.
    pub(super) const fn searches(&self) -> bool {
        self.layout.is_none()
    }

    fn tried(&self) -> usize {
        self.schemes().len() + self.alternatives.get().map_or(0, Vec::len)
    }

    /// The codes of regions, each once.
    fn found(&self, regions: &Regions, sample: &Sample) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = Vec::new();
        for (pages, ecc) in regions.iter() {
            let RegionEcc::Code(scheme) = ecc else { continue };
            let group = |page: u64| usize::try_from(page / sample.group_pages).unwrap_or(usize::MAX);
            let groups = group(pages.start)..group(pages.end).min(sample.groups.len());
            let pages = sample.spread(groups);
            let trial = Trial::over(scheme, &pages);
            let (code, layout) = (scheme.code().to_string(), scheme.layout_name());
            match candidates.iter_mut().find(|other| other.code == code && other.layout == layout) {
                Some(other) => {
                    other.clean += trial.clean;
                    other.corrected += trial.corrected;
                    other.uncorrectable += trial.failed;
                    other.evidence_bits += libm::round(trial.evidence);
                }
                None => candidates.push(self.compared(scheme, &trial, &pages)),
            }
        }
        candidates
    }

    /// A code with the others that were tried on the same pages.
    fn compared(&self, scheme: &Scheme, trial: &Trial, pages: &[&Page]) -> Candidate {
        let alternatives = self.alternatives.get().map_or(&[][..], Vec::as_slice);
        let all: Vec<&Scheme> = self.schemes().iter().chain(alternatives).collect();
        let others: Vec<&Scheme> = all.into_iter().filter(|other| !other.is_same(scheme)).collect();
        let evidence: Vec<f64> =
            others.par_iter().map(|other| Trial::pruned(other, pages).evidence).collect();
        let best = evidence.iter().zip(&others).max_by(|one, other| one.0.total_cmp(other.0));
        let runner_up = best.map(|(evidence, other)| RunnerUp {
            code: other.code().to_string(),
            layout: other.layout_name().to_owned(),
            evidence_bits: libm::round(*evidence),
        });
        let most = match scheme.layout_file() {
            Some(_) if !scheme.layout_name().contains('(') => MOST_FOUND,
            _ => MOST,
        };
        let confidence = confidence(trial.evidence, &evidence).min(most);
        Candidate { confidence, runner_up, same_as: same_as(scheme), ..trial.candidate(scheme) }
    }

    /// The codes for which most speaks, none of which is believed.
    fn nearest(&self, sample: &Sample) -> Vec<Candidate> {
        let pages = sample.spread(0..sample.groups.len());
        let tried = |scheme: &Scheme| Trial::pruned(scheme, &pages).candidate(scheme);
        let mut candidates: Vec<Candidate> = self.schemes().par_iter().map(tried).collect();
        // Stable: among equals the simpler code, which was tried first, stays first.
        candidates.sort_by(|one, other| other.evidence_bits.total_cmp(&one.evidence_bits));
        let evidence: Vec<f64> = candidates.iter().map(|candidate| candidate.evidence_bits).collect();
        candidates.truncate(REPORTED);
        for (at, candidate) in candidates.iter_mut().enumerate() {
            let others: Vec<f64> = evidence
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
                .map(|(_, bits)| *bits)
                .collect();
            candidate.confidence = confidence(candidate.evidence_bits, &others).min(MOST_UNFIT);
            // A code that no region has does not fit, whatever a few pages say.
            candidate.fits = false;
        }
        candidates
    }
}

/// Names of the other layouts that put a scheme's code into the same bits.
fn same_as(scheme: &Scheme) -> Vec<String> {
    let takes = |layout: &&Layout| layout.codes().is_empty() || layout.codes().contains(&scheme.code());
    let others = Layout::all().iter().filter(takes).filter(|layout| *layout.name != *scheme.layout_name());
    let same = others.filter(|layout| scheme.moved(layout).is_ok_and(|other| other.is_same(scheme)));
    same.map(|layout| layout.name.to_string()).collect()
}

/// Most confidence in a code, in a layout that no file describes, and in a code that does not fit.
const MOST: f64 = 0.999_999;
const MOST_FOUND: f64 = 0.9;
const MOST_UNFIT: f64 = 0.5;

/// Share of a code among all that were tried, each as likely as the other before; random ECC bytes are as likely as all codes together.
fn confidence(evidence: f64, others: &[f64]) -> f64 {
    let against = |other: f64| libm::exp2((other - evidence).clamp(-1000.0, 1000.0));
    let random = libm::log2(others.len() as f64 + 1.0);
    let sum = others.iter().map(|other| against(*other)).sum::<f64>() + against(random);
    let share = 1.0 / (1.0 + sum);
    libm::floor(share * 1e6) / 1e6
}

/// The codes that fit, each in every layout that is another place for it.
fn schemes(geometry: &PageGeometry, layout: Option<&Layout>) -> Vec<Scheme> {
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
    let general = codes.into_par_iter().flat_map_iter(|code| different(geometry, code, layout));
    // A controller has its own codes.
    let controllers = layout.map_or_else(|| Layout::all().iter().collect(), |layout| vec![layout]);
    let scheme = |layout: &Layout, code: &Code| Scheme::new(geometry.clone(), *code, layout).ok();
    let of_controllers = controllers.into_par_iter().flat_map_iter(|layout: &Layout| {
        layout.codes().iter().filter_map(|code| scheme(layout, code)).collect::<Vec<_>>()
    });
    general.chain(of_controllers).collect()
}

/// Layouts with what their sources leave open.
fn alternatives(geometry: &PageGeometry, layout: Option<&Layout>) -> Vec<Scheme> {
    let layouts: Vec<&Layout> = layout.map_or_else(|| Layout::all().iter().collect(), |layout| vec![layout]);
    let of_layout = |layout: &Layout| {
        let scheme = |(layout, code): (Layout, Code)| Scheme::new(geometry.clone(), code, &layout).ok();
        layout.alternatives().into_iter().filter_map(scheme).collect::<Vec<_>>()
    };
    layouts.into_par_iter().flat_map_iter(of_layout).collect()
}

/// A code in every layout that goes with any, each place once.
fn different(geometry: &PageGeometry, code: Code, only: Option<&Layout>) -> Vec<Scheme> {
    let mut schemes: Vec<Scheme> = Vec::new();
    let usual = linux_layouts(code).into_iter().filter_map(|name| Layout::named(name).ok());
    let layouts = only.into_iter().chain(usual.chain(Layout::all()).filter(|_| only.is_none()));
    for layout in layouts.filter(|layout| layout.codes().is_empty()) {
        let scheme = match schemes.first() {
            Some(first) => first.moved(layout),
            None => Scheme::new(geometry.clone(), code, layout),
        };
        let Ok(scheme) = scheme else { continue };
        if schemes.iter().all(|other| !other.is_same(&scheme)) {
            schemes.push(scheme);
        }
    }
    schemes
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
    clean: u64,
    corrected: u64,
    failed: u64,
    evidence: f64,
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
            if at >= FIRST && trial.evidence < 0.0 {
                break;
            }
            trial.page(scheme, page);
        }
        trial
    }

    fn candidate(&self, scheme: &Scheme) -> Candidate {
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
