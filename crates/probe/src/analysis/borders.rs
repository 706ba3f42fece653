//! Borders of allocation units and pages: reads across one take longer than reads beside it.

use super::caches::{Cache, cache, units_behind};
use super::closing;
use super::pairs;
use super::period::{AU_MIN, Fit, Point, au_candidates, candidates, fit};
use super::us;
use crate::answer::{Answer, Value};
use crate::sample::{Samples, Test};
use crate::stats::median;
use floatgate_mtd::size::text as size;
use std::collections::BTreeMap;

/// Smallest and largest visible unit that counts as a page, B.
pub(crate) const PAGE_RANGE: (u64, u64) = (1 << 10, 256 << 10);
/// Minimum standard deviation of a point, as a share of the read time: positions differ by that much (see
/// [`crate::Noise`]).
const FLOOR: f64 = 0.003;

/// Smallest allocation unit that reads are searched for, B. Below [`AU_MIN`] it must be several pages.
const SMALL_AU_MIN: u64 = 64 << 10;
/// Minimum number of pages in an allocation unit.
const PAGES_MIN: u64 = 4;
/// Minimum number of pages in a small allocation unit: fewer could be the pieces of one page on several planes.
const SMALL_PAGES: u64 = 8;
/// Confidence in an allocation unit below [`AU_MIN`].
const SMALL: f64 = 0.85;

/// Allocation units below those of [`au_candidates`].
pub(crate) fn small_candidates() -> Vec<u64> {
    candidates(SMALL_AU_MIN, AU_MIN - 1)
}

/// Extra time of a read across a position over reads before and after it, ns. Each time is the minimum of all tries.
pub(crate) fn border_points(samples: &Samples, test: Test) -> Vec<Point> {
    let mut places: BTreeMap<u64, [Option<f64>; 3]> = BTreeMap::new();
    for sample in samples.with_test(test) {
        let role = match sample.about.checked_sub(sample.position) {
            Some(0) => 2,
            Some(before) if before < sample.bytes => 1,
            _ => 0,
        };
        let least = &mut places.entry(sample.about).or_default()[role];
        let ns = sample.ns as f64;
        *least = Some(least.map_or(ns, |least| least.min(ns)));
    }
    let point = |(at, times): (&u64, &[Option<f64>; 3])| {
        let [Some(pre), Some(on), Some(post)] = *times else { return None };
        Some(Point { at: *at, value: on - f64::midpoint(pre, post) })
    };
    places.iter().filter_map(point).collect()
}

/// Extra time of the sector after a position over the sector before it, ns. That one was read just before, so its page
/// is still in RAM. Each time is the minimum of all tries.
fn pair_points(samples: &Samples, test: Test) -> Vec<Point> {
    let mut places: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    for sample in samples.with_test(test) {
        let least = &mut places.entry(sample.about).or_insert([f64::INFINITY; 2])
            [usize::from(sample.position == sample.about)];
        *least = least.min(sample.ns as f64);
    }
    let points = places.into_iter().map(|(at, [before, behind])| Point { at, value: behind - before });
    points.filter(|point| point.value.is_finite()).collect()
}

fn floor(samples: &Samples, test: Test) -> f64 {
    let mut times: Vec<f64> = samples.with_test(test).map(|sample| sample.ns as f64).collect();
    (FLOOR * median(&mut times)).max(1.0)
}

/// Periods of the borders that reads show.
pub(crate) fn read_fit(samples: &Samples) -> Fit {
    let make = || {
        let points = border_points(samples, Test::Border);
        let origins = origins(samples);
        fit(&points, &au_candidates(samples.capacity), floor(samples, Test::Border), |_| origins.clone())
    };
    samples.fits.read.of(samples.all.len(), || Some(make())).unwrap_or_else(make)
}

/// Positions from which borders may be counted.
pub(crate) fn origins(samples: &Samples) -> Vec<u64> {
    let mut origins = vec![0];
    if samples.with_test(Test::Scan).next().is_some() {
        origins.extend(usual_origins());
        origins.extend(located(samples));
    }
    origins
}

/// Periods of the borders that reads show, including those below [`AU_MIN`]. `None` if small units were not measured.
pub(crate) fn small_fit(samples: &Samples) -> Option<Fit> {
    samples.fits.small.of(samples.all.len(), || made_small_fit(samples))
}

fn made_small_fit(samples: &Samples) -> Option<Fit> {
    let mut points = border_points(samples, Test::SmallBorder);
    if points.is_empty() {
        return None;
    }
    points.extend(border_points(samples, Test::Border));
    let periods = [small_candidates(), au_candidates(samples.capacity)].concat();
    let origins = origins(samples);
    Some(fit(&points, &periods, floor(samples, Test::Border), |_| origins.clone()))
}

/// Allocation unit below [`AU_MIN`] that explains the reads better than any other, with its confidence. The confidence
/// is 0 if the borders may be those of pages.
fn small_unit(samples: &Samples) -> Option<(Fit, u64, f64)> {
    let found = small_fit(samples)?;
    let (period, confidence) = visible(&found).filter(|(period, _)| *period < AU_MIN)?;
    let page = page_from(samples, found.origin % period);
    let is_apart = page.count().is_some_and(|page| page * PAGES_MIN <= period);
    let confidence =
        if is_apart { confidence.min(SMALL) * (1.0 - 4.0 * found.unexplained).max(0.3) } else { 0.0 };
    Some((found, period, confidence))
}

/// Multiple of all candidate periods, B. Adding it keeps origins before the start of the device positive.
const ALL_PERIODS: u64 = 315 << 40;
/// Sectors before the partitions of usual tables: DOS, since 2010, SD cards.
const PARTITION_STARTS: [u64; 3] = [63, 2048, 8192];

/// Possible origins of a device that is a partition of another.
pub(crate) fn usual_origins() -> [u64; 3] {
    PARTITION_STARTS.map(|sectors| ALL_PERIODS - sectors * 512)
}

/// Slowest ranges of a scan, the slowest first. A border lies after the first and at or before the second position of
/// each.
pub(crate) fn suspects(samples: &Samples) -> Vec<(u64, u64)> {
    let mut least: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for sample in samples.with_test(Test::Scan).filter(|sample| sample.about > sample.position) {
        let ns = least.entry((sample.position, sample.about)).or_insert(u64::MAX);
        *ns = (*ns).min(sample.ns);
    }
    let mut slow: Vec<((u64, u64), u64)> = least.into_iter().collect();
    slow.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    slow.into_iter().map(|(range, _)| range).collect()
}

/// Number of suspects that are searched for their border.
pub(crate) const SUSPECTS: usize = 3;

/// Borders that were located to the sector.
pub(crate) fn located(samples: &Samples) -> Vec<u64> {
    let ranges = suspects(samples).into_iter().take(SUSPECTS).map(|range| narrowed(samples, range));
    ranges.filter(|(low, high)| high - low == 512).map(|(_, high)| high).collect()
}

/// Two reads, position and length, that split a range around a border.
pub(crate) fn halves((low, high): (u64, u64)) -> [(u64, u64); 2] {
    let middle = low + ((high - low) / 1024).max(1) * 512;
    [(low, middle + 512 - low), (middle, high + 512 - middle)]
}

/// Range of the border after all bisections: the slower half contains it.
pub(crate) fn narrowed(samples: &Samples, mut range: (u64, u64)) -> (u64, u64) {
    while range.1 - range.0 > 512 {
        let halves = halves(range);
        let least = halves.map(|(position, bytes)| {
            let tries =
                samples.with_test(Test::Bisect).filter(|s| (s.position, s.bytes) == (position, bytes));
            tries.map(|sample| sample.ns).min()
        });
        let [Some(left), Some(right)] = least else { break };
        let middle = halves[1].0;
        range = if left > right { (range.0, middle) } else { (middle, range.1) };
    }
    range
}

/// Length of a write in the sequential tests, B.
pub(crate) const FILL_BYTES: u64 = 128 << 10;

/// Periods of the pauses in sequential writes. Their phase is inexact, because a buffer delays a pause.
pub(crate) fn write_fit(samples: &Samples) -> Fit {
    let test = if samples.with_test(Test::Refill).next().is_some() { Test::Refill } else { Test::Fill };
    let points: Vec<Point> = samples
        .with_test(test)
        .map(|sample| Point { at: sample.position, value: sample.ns as f64 })
        .collect();
    let slow = slowest(&points);
    let span = points.len() as u64 * FILL_BYTES;
    fit(&points, &candidates(AU_MIN, span / 3), floor(samples, test), |period| {
        slow.iter().map(|at| at % period).collect()
    })
}

/// Positions of the slowest points.
fn slowest(points: &[Point]) -> Vec<u64> {
    let mut slow = points.to_vec();
    slow.sort_by(|a, b| b.value.total_cmp(&a.value));
    slow.truncate(6);
    slow.into_iter().map(|point| point.at).collect()
}

/// Allocation unit and one of its borders, exact to the sector, found by closing units.
struct Closed {
    period: u64,
    border: u64,
    confidence: f64,
    /// Kind of writes that show it, for the reason.
    writes: &'static str,
}

fn closed(samples: &Samples) -> Option<Closed> {
    if let Some((period, border)) = closing::unit(samples) {
        let writes = "sector writes, each after writes that close the opened unit, take longer where more data must be copied";
        return Some(Closed { period, border, confidence: CLOSING, writes });
    }
    let cache = cache(samples).filter(|cache| cache.block_bytes > 0)?;
    let (period, border) = pairs::unit(samples, &cache)?;
    let writes = "the cache pauses longer for two sectors that are not";
    Some(Closed { period, border, confidence: PAIRS, writes })
}

impl Closed {
    /// The allocation unit and its phase.
    fn answers(&self) -> (Answer, Answer) {
        let Self { period, border, confidence, writes } = *self;
        let reason = format!("{writes} between borders that are {} apart", size(period));
        let block = Answer::found(Value::Count(period), "B", confidence, reason);
        let reason = format!("one of these borders is at byte {border}");
        (block, Answer::found(Value::Count(border % period), "B", confidence, reason))
    }
}

/// Border of an allocation unit, exact to the sector, if known.
pub(crate) fn origin(samples: &Samples) -> Option<u64> {
    if let Some(Closed { period, border, .. }) = closed(samples) {
        return Some(border % period);
    }
    if let Some((fit, period, _)) = small_unit(samples) {
        return Some(fit.origin % period);
    }
    let reads = read_fit(samples);
    visible(&reads).map(|(period, _)| reads.origin % period)
}

/// Step in standard deviations below which a period is likely to be chance: many candidates are tried.
const FAINT_STEP: f64 = 1.0;

/// Period that reads show, with its probability.
fn visible(reads: &Fit) -> Option<(u64, f64)> {
    reads.best().filter(|_| reads.step >= FAINT_STEP * reads.sigma)
}

/// Highest confidence in results from reads alone or from pauses alone.
const READS: f64 = 0.97;
const WRITES: f64 = 0.9;
/// Like `READS`, where closing units found three borders exact to the sector.
const CLOSING: f64 = 0.95;
/// Like `CLOSING`, behind a cache, where a pause depends on units opened much earlier.
const PAIRS: f64 = 0.85;
/// Step in standard deviations above which a border is not confused with noise, whose tails are longer than those of a
/// normal distribution.
const CLEAR_STEP: f64 = 8.0;
/// Confidence in an allocation unit inferred from the blocks of a cache.
const BEHIND_CACHE: f64 = 0.55;
/// Size of a device below which reads and pauses show no allocation unit: it has sixteen of the smallest one, [`AU_MIN`].
const TINY: u64 = 16 * AU_MIN;

/// The allocation unit and its phase.
pub(crate) fn erase_block(samples: &Samples) -> (Answer, Answer) {
    if let Some(closed) = closed(samples) {
        return closed.answers();
    }
    if (1..TINY).contains(&samples.capacity) {
        let reason = format!(
            "a device of {} has too few borders to tell them from chance: {} are needed",
            size(samples.capacity),
            size(TINY)
        );
        return (
            Answer::unknown("B", 0.0, reason),
            Answer::unknown("B", 0.0, "the allocation unit is not known"),
        );
    }
    if let Some((fit, period, confidence)) = small_unit(samples) {
        return from_reads(&fit, period, confidence);
    }
    let reads = read_fit(samples);
    match visible(&reads).filter(|(_, confidence)| *confidence > 0.3) {
        Some((period, confidence)) => from_reads(&reads, period, confidence),
        None => from_writes(samples, &reads),
    }
}

/// Allocation unit and its phase from reads. A period with confidence 0 may be a page.
fn from_reads(reads: &Fit, period: u64, confidence: f64) -> (Answer, Answer) {
    let most = if reads.step < CLEAR_STEP * reads.sigma { WRITES } else { READS };
    let confidence = confidence.min(most) * (1.0 - 4.0 * reads.unexplained).max(0.3);
    let origin = reads.origin % period;
    let reason = format!(
        "a read across a multiple of {}{} takes {} longer than one next to it, {} times the noise; other multiples do not",
        size(period),
        if origin == 0 { String::new() } else { format!(" from {origin} B") },
        us(reads.step),
        digits(reads.step / reads.sigma)
    );
    if confidence <= 0.0 {
        let reason = format!("{reason}: it is the allocation unit, or a page");
        let unknown = Answer::unknown("B", 0.0, reason).or([(period, 0.5)]);
        return (unknown, Answer::unknown("B", 0.0, "the allocation unit is not known"));
    }
    let others = reads.periods[1..].iter().copied();
    let block = Answer::found(Value::Count(period), "B", confidence, reason).or(others);
    let reason = if origin == 0 {
        "the first border is the beginning of the device".to_owned()
    } else {
        format!("borders are {origin} B behind the multiples of {}", size(period))
    };
    (block, Answer::found(Value::Count(origin), "B", confidence, reason))
}

/// Factor as text, with one decimal unless it is zero.
fn digits(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.1}") } else { format!("{factor:.0}") }
}

/// Allocation unit and its phase from writes, when reads do not show them.
fn from_writes(samples: &Samples, reads: &Fit) -> (Answer, Answer) {
    let is_measured = !border_points(samples, Test::Border).is_empty();
    let invisible = match is_measured {
        false => "not measured".to_owned(),
        true => invisible(reads),
    };
    if let Some(cache) = cache(samples).filter(|cache| cache.block_bytes > 0) {
        return (from_cache(samples, &cache, &invisible), Answer::unknown("B", 0.0, "no border is visible"));
    }
    let writes = write_fit(samples);
    let Some((period, confidence)) = writes.best() else {
        let sure = if is_measured { reads.nothing.min(0.95) } else { 0.0 };
        let unknown = Answer::unknown("B", sure, invisible);
        return (unknown, Answer::unknown("B", 0.0, "no border is visible"));
    };
    let reason = format!("{invisible}; writes in order pause for {} every {}", us(writes.step), size(period));
    let others = writes.periods[1..].iter().copied();
    let confidence = confidence.min(WRITES) * (1.0 - 4.0 * writes.unexplained).max(0.3);
    let block = Answer::found(Value::Count(period), "B", confidence, reason).or(others);
    let why = "no border is visible in reads, and a buffer delays pauses of writes";
    (block, Answer::unknown("B", 0.0, why))
}

/// Reason for a period that is not visible. If reads are slower at all tested positions, all of them may be borders.
fn invisible(fit: &Fit) -> String {
    if fit.middle > fit.bound {
        return format!(
            "not visible in reads: a read across any tested address takes {} longer than one next to it",
            us(fit.middle)
        );
    }
    format!("not visible in reads of the tested lengths; any effect is below {}", us(fit.bound))
}

/// Allocation unit behind a cache: the size of a cache block, which stores one bit a cell, times the bits that the main
/// cells store.
fn from_cache(samples: &Samples, cache: &Cache, invisible: &str) -> Answer {
    let units = units_behind(samples, cache);
    let Some(unit) = units.first() else { return Answer::unknown("B", 0.0, invisible) };
    let reason = format!(
        "{invisible}; the cache makes room {} at a time, with one bit a cell; others hold two or three",
        size(cache.block_bytes)
    );
    let others = units[1..].iter().map(|unit| (*unit, 1.0 - BEHIND_CACHE));
    Answer::found(Value::Count(*unit), "B", BEHIND_CACHE, reason).or(others)
}

/// Fit of the smallest visible unit to the points of a test. If an allocation unit is given, only sizes of which it
/// holds several are tried.
fn page_fit(samples: &Samples, test: Test, points: &[Point], inside: Option<u64>, origin: u64) -> Fit {
    let mut periods = powers_of_two();
    periods.retain(|period| inside.is_none_or(|unit| period * SMALL_PAGES <= unit));
    // The borders of pages are counted from a border of an allocation unit.
    fit(points, &periods, floor(samples, test), |_| vec![origin])
}

/// Fits to reads across borders: at positions that the probe wrote, and at others.
fn fits_across(samples: &Samples, origin: u64) -> [Fit; 2] {
    [Test::PageWritten, Test::Page]
        .map(|test| page_fit(samples, test, &border_points(samples, test), None, origin))
}

/// Share of page multiples at which a read may be no slower. Above it, the confidence is limited to the second value.
const LOW_HITS: f64 = 0.2;
const MIXED: f64 = 0.4;

/// The smallest visible unit.
pub(crate) fn page(samples: &Samples) -> Answer {
    let origin = page_origin(samples);
    let visible = page_from(samples, origin);
    if let Some((_, unit, confidence)) = small_unit(samples)
        && confidence <= 0.0
        && visible.count() == Some(unit)
    {
        let reason = format!("{}; or it is the allocation unit", visible.reason);
        return Answer { confidence: visible.confidence.min(PAGE_OR_UNIT), reason, ..visible };
    }
    let Some(steps) = PlaneSteps::from_samples(samples, origin) else { return visible };
    let Some(planes) = steps.planes().filter(|planes| visible.count() == Some(planes.piece)) else {
        return visible;
    };
    let confidence = visible.confidence.min(planes.confidence);
    Answer::found(Value::Count(planes.page), "B", confidence, planes.reason)
        .or([(planes.piece, 1.0 - confidence)])
}

/// Smallest visible unit, with borders counted from `origin`.
fn page_from(samples: &Samples, origin: u64) -> Answer {
    let across = [Test::PageWritten, Test::Page].map(|test| (test, border_points(samples, test)));
    let pairs = [Test::PagePairWritten, Test::PagePair].map(|test| (test, pair_points(samples, test)));
    let best = |below: Option<u64>| {
        let ways = [(&across, "across"), (&pairs, "behind")];
        let tests = ways.into_iter().flat_map(|(tests, way)| tests.iter().map(move |test| (test, way)));
        let fits = tests.map(|((test, points), way)| {
            let inside = |point: &&Point| below.is_none_or(|unit| !is_multiple(point.at, unit, origin));
            let points: Vec<Point> = points.iter().filter(inside).copied().collect();
            (page_fit(samples, *test, &points, below, origin), way)
        });
        let visible = fits.filter_map(|(fit, way)| Some((fit.best()?, fit, way)));
        visible.max_by(|a, b| a.0.1.total_cmp(&b.0.1))
    };
    // Borders of small allocation units hide the borders of their pages. Therefore the second search leaves out
    // positions on borders of units.
    let largest = best(None);
    let unit = largest.as_ref().filter(|((unit, _), ..)| *unit >= SMALL_AU_MIN);
    let pages = unit.and_then(|((unit, _), of_unit, _)| {
        best(Some(*unit))
            .filter(|(_, fit, _)| fit.step > PLANE_SHARE * of_unit.step && fit.low_hits <= LOW_HITS)
    });
    let Some(((period, confidence), fit, way)) = pages.or(largest) else {
        if [Test::PageWritten, Test::Page].iter().all(|test| border_points(samples, *test).is_empty()) {
            return Answer::unknown("B", 0.0, "not measured");
        }
        let [written, plain] = fits_across(samples, origin);
        let of = if samples.with_test(Test::PageWritten).next().is_some() { &written } else { &plain };
        return Answer::unknown("B", plain.nothing.min(0.95), invisible(of));
    };
    // If the map unit is smaller than a page, neighbouring map units can be on the same page at one position, and on
    // two pages at another.
    let most = if fit.low_hits > LOW_HITS { MIXED } else { 0.9 };
    let confidence = confidence.min(most) * (1.0 - 4.0 * fit.unexplained).max(0.3);
    let reason = format!(
        "a read {way} a multiple of {} takes {} longer{}; it may be a page, a pair of planes, or a map unit",
        size(period),
        us(fit.step),
        if way == "behind" { ", after the sector before it was read" } else { "" }
    );
    Answer::found(Value::Count(period), "B", confidence, reason).or(fit.periods[1..].iter().copied())
}

/// Steps of reads at multiples of the visible unit and inside it.
///
/// A read across two planes of a page needs a second transfer; a read across two pages needs a second array read. So
/// the visible unit may be a page with smaller steps inside it, or the piece of one plane with larger steps at page
/// borders.
///
/// The sector behind a border, read after the one before it, needs an array read at each plane of a page. So pieces that are
/// smaller than the visible unit are those of its planes.
struct PlaneSteps {
    /// Visible unit, B, its probability, and the step at its borders, ns.
    unit: u64,
    confidence: f64,
    of_unit: f64,
    /// Smallest unit that neighbouring sectors show, with its probability.
    neighbours: Option<(u64, f64)>,
    larger: Fit,
    smaller: Fit,
}

impl PlaneSteps {
    fn from_samples(samples: &Samples, origin: u64) -> Option<Self> {
        let across = fits_across(samples, origin);
        let visible = across.iter().filter_map(|fit| Some((fit, fit.best()?)));
        let (of_unit, (unit, confidence)) = visible.max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
        let pairs = [Test::PagePairWritten, Test::PagePair].map(|test| {
            let fit = page_fit(samples, test, &pair_points(samples, test), None, origin);
            fit.best().filter(|_| fit.low_hits <= LOW_HITS)
        });
        let neighbours = pairs.into_iter().flatten().max_by(|a, b| a.1.total_cmp(&b.1));
        let test = if samples.with_test(Test::PageWritten).next().is_some() {
            Test::PageWritten
        } else {
            Test::Page
        };
        let (at_units, inside): (Vec<Point>, Vec<Point>) =
            border_points(samples, test).into_iter().partition(|point| is_multiple(point.at, unit, origin));
        let step = |points: &[Point], periods: Vec<u64>| {
            let visible = periods.into_iter().filter(|bytes| (PAGE_RANGE.0..=PAGE_RANGE.1).contains(bytes));
            fit(points, &visible.collect::<Vec<_>>(), floor(samples, test), |_| vec![origin])
        };
        let larger = step(&at_units, PLANES.map(|planes| planes * unit).to_vec());
        let smaller = step(&inside, PLANES.map(|planes| unit / planes).to_vec());
        Some(Self { unit, confidence, of_unit: of_unit.step, neighbours, larger, smaller })
    }

    /// Best period of a fit, if its step is too large to be noise or bus time compared with the step of the visible
    /// unit.
    fn best(&self, fit: &Fit) -> Option<(u64, f64)> {
        fit.best().filter(|_| fit.step > PLANE_SHARE * self.of_unit)
    }

    /// The page and its piece on one plane.
    fn planes(&self) -> Option<Planes> {
        let unit = self.unit;
        let is_split =
            |(piece, _): &(u64, f64)| PLANES.contains(&(unit / piece)) && unit.is_multiple_of(*piece);
        if let Some((piece, confidence)) = self.neighbours.filter(is_split) {
            let reason = format!(
                "a read across a multiple of {} takes longer, and of neighbouring sectors the second one at each multiple of {}: pieces of a page on several planes",
                size(unit),
                size(piece)
            );
            let confidence = confidence.min(self.confidence).min(PLANES_CONFIDENCE);
            return Some(Planes { page: unit, piece, confidence, reason });
        }
        if let Some((page, confidence)) = self.best(&self.larger) {
            let reason = format!(
                "units of {} have borders that take {} longer at every multiple of {}: pages of several planes, or of a die",
                size(unit),
                us(self.larger.step),
                size(page)
            );
            return Some(Planes { page, piece: unit, confidence: confidence.min(PLANES_CONFIDENCE), reason });
        }
        let (piece, confidence) = self.best(&self.smaller)?;
        let reason = format!(
            "inside of units of {}, a read across a multiple of {} takes {} longer: pieces of a page on several planes",
            size(unit),
            size(piece),
            us(self.smaller.step)
        );
        Some(Planes { page: unit, piece, confidence: confidence.min(PLANES_CONFIDENCE), reason })
    }
}

/// A page that is split across planes.
struct Planes {
    page: u64,
    piece: u64,
    confidence: f64,
    reason: String,
}

/// Number of planes that a page spans.
pub(crate) fn planes(samples: &Samples) -> Answer {
    let Some(steps) = PlaneSteps::from_samples(samples, page_origin(samples)) else {
        return Answer::unknown("", 0.0, "not visible: the page is not known");
    };
    if let Some(Planes { page, piece, confidence, reason }) = steps.planes() {
        return Answer::found(Value::Count(page / piece), "", confidence, reason);
    }
    let PlaneSteps { unit, larger, smaller, .. } = &steps;
    let reason = format!(
        "not visible: borders inside of units of {} and of several of them take as long as others, any difference is below {}",
        size(*unit),
        us(larger.bound.max(smaller.bound))
    );
    Answer::unknown("", larger.nothing.min(smaller.nothing).min(0.9), reason)
}

/// Highest confidence in a page that may be the allocation unit.
const PAGE_OR_UNIT: f64 = 0.4;
/// Highest confidence in the number of planes.
const PLANES_CONFIDENCE: f64 = 0.8;

fn is_multiple(at: u64, period: u64, origin: u64) -> bool {
    // The origin may be larger than the position.
    (at + period - origin % period).is_multiple_of(period)
}

/// Smallest step at plane borders, as a share of the step of the visible unit. Smaller steps are noise or bus time.
const PLANE_SHARE: f64 = 0.1;
/// Numbers of planes that chips have.
const PLANES: [u64; 2] = [2, 4];

pub(crate) fn powers_of_two() -> Vec<u64> {
    (PAGE_RANGE.0.trailing_zeros()..=PAGE_RANGE.1.trailing_zeros()).map(|bits| 1 << bits).collect()
}

/// Border of an allocation unit if one is known, otherwise the start of the device.
pub(crate) fn page_origin(samples: &Samples) -> u64 {
    origin(samples).unwrap_or(0)
}
