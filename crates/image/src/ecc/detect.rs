//! Which codes and layouts a dump was written with: the usual ones are tried on some of its pages.

use super::codes::{Codes, Reach};
use super::layout::Layout;
use super::regions::{self, RegionEcc, Regions};
use super::sample::{Page, Sample};
use super::trial::{BELIEVED_BITS, Candidate, RunnerUp, Trial};
use super::{PageGeometry, Scheme, Transform};
use rayon::prelude::*;
use serde::Serialize;

/// Candidates that are reported where no code fits.
const REPORTED: usize = 5;

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
    /// The OOB of all pages in the sample is erased.
    #[serde(skip)]
    pub is_oob_blank: bool,
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

/// Tries the usual codes in the usual layouts, or in `layout` alone, on all parts of a dump.
pub fn detect(geometry: &PageGeometry, layout: Option<&Layout>, sample: &Sample) -> Detection {
    Detector::new(geometry, layout).detect(sample)
}

/// The codes in their layouts that are tried on dumps with pages of one geometry. Their tables are made once.
pub struct Detector {
    codes: Codes,
    /// Exchanges of bytes and bits are tried.
    transforms: bool,
}

impl Detector {
    /// The usual codes in the usual layouts, or in `layout` alone.
    pub fn new(geometry: &PageGeometry, layout: Option<&Layout>) -> Self {
        Self { codes: Codes::new(geometry, layout), transforms: false }
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
        let known = regions::find(&self.codes, sample, Reach::Files);
        if known.schemes().next().is_some() {
            // Some parts may need more than the layouts of files.
            let is_all = known.iter().all(|(_, ecc)| !matches!(ecc, RegionEcc::Unknown));
            let regions = if is_all { known } else { regions::find(&self.codes, sample, Reach::All) };
            return self.detection(regions, sample, None);
        }
        let transforms = Transform::ALL.into_iter().filter(|_| self.transforms);
        for transform in transforms {
            let exchanged = sample.transformed(transform);
            let regions = regions::find(&self.codes, &exchanged, Reach::Files);
            if regions.schemes().next().is_some() {
                return self.detection(regions, &exchanged, Some(transform));
            }
        }
        if let Some((detector, regions)) = self.with_keystream(sample) {
            return detector.detection(regions, sample, None);
        }
        self.detection(regions::find(&self.codes, sample, Reach::All), sample, None)
    }

    /// Tries the codes in the layouts of files on the pages of two chips whose bytes alternate in a dump; none where no code fits.
    pub fn detect_two_chips(&self, sample: &Sample) -> Option<Detection> {
        let detection = self.detect_known(sample)?;
        Some(Detection { transform: Some(Transform::TwoChips), ..detection })
    }

    /// Tries only the codes in the layouts of files; none where no code fits.
    pub fn detect_known(&self, sample: &Sample) -> Option<Detection> {
        self.within(sample, Reach::Files)
    }

    /// Tries the codes in the layouts of files on pages whose sizes are a guess. If no code fits at the first places, the rest of the dump is not tried.
    pub fn detect_in_guessed_pages(&self, sample: &Sample) -> Option<Detection> {
        self.within(sample, Reach::FirstPlaces)
    }

    fn within(&self, sample: &Sample, reach: Reach) -> Option<Detection> {
        let regions = regions::find(&self.codes, sample, reach);
        regions.schemes().next()?;
        Some(self.detection(regions, sample, None))
    }

    /// The codes under a randomizer that constant data show.
    fn with_keystream(&self, sample: &Sample) -> Option<(Self, Regions)> {
        for randomizer in sample.keystream.randomizers() {
            let plain = self.codes.schemes().par_iter().filter(|scheme| !scheme.is_randomized());
            let schemes: Vec<Scheme> = plain.filter_map(|scheme| scheme.randomized(&randomizer)).collect();
            let detector = Self { codes: self.codes.replaced(schemes), transforms: false };
            let regions = regions::find(&detector.codes, sample, Reach::Files);
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
        let tried = if may_hold_ecc { self.codes.tried() as u64 } else { 0 };
        let is_oob_blank = sample.has_blank_oob();
        Detection { sampled_pages, tried, candidates, transform, regions, is_oob_blank }
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
        let others: Vec<&Scheme> = self.codes.all().filter(|other| !other.is_same(scheme)).collect();
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
        let mut candidates: Vec<Candidate> = self.codes.schemes().par_iter().map(tried).collect();
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
