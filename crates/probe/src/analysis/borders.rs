//! Borders of allocation units and pages: reads across one take longer than reads beside it.

use super::caches::{Cache, cache};
use super::closing;
use super::pairs;
use super::period::{Fit, Point, candidates, fit, prior};
use super::us;
use crate::answer::{Answer, Value};
use crate::sample::{Samples, Test};
use crate::stats::median;
use floatgate_mtd::size::text as size;
use std::collections::BTreeMap;

/// Smallest allocation unit that is told apart from a page, B.
pub(crate) const AU_MIN: u64 = 512 << 10;
/// Largest allocation unit that is searched, B.
const AU_MAX: u64 = 512 << 20;
/// Smallest and largest visible unit, B.
pub(crate) const PAGE_RANGE: (u64, u64) = (1 << 10, 256 << 10);
/// Least deviation of a point, as a share of a read's time: positions differ by that much (see [`crate::Noise`]).
const FLOOR: f64 = 0.003;

/// Smallest allocation unit that is searched in reads, B. Below [`AU_MIN`] it must be several times the page.
const SMALL_AU_MIN: u64 = 64 << 10;
/// Pages of an allocation unit at least.
const PAGES_MIN: u64 = 4;
/// Least pages of a small allocation unit that are told from pieces of a page on its planes.
const SMALL_PAGES: u64 = 8;
/// Confidence in an allocation unit below [`AU_MIN`].
const SMALL: f64 = 0.85;

/// Allocation units below those of [`au_candidates`].
pub(crate) fn small_candidates() -> Vec<u64> {
    candidates(SMALL_AU_MIN, AU_MIN - 1)
}

/// Allocation units that a device of this size may have.
pub(crate) fn au_candidates(capacity: u64) -> Vec<u64> {
    candidates(AU_MIN, AU_MAX.min(capacity / 4))
}

/// Time that a read across a position takes longer than those before and behind it, ns. Each is the shortest of all tries.
pub(crate) fn border_points(samples: &Samples, test: Test) -> Vec<Point> {
    let mut places: BTreeMap<u64, [Option<f64>; 3]> = BTreeMap::new();
    for sample in samples.of(test) {
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

/// Time that the sector behind a position takes longer than the one before it, which was read just before, ns: the page that was read last is still in
/// RAM. Each is the shortest of all tries.
fn pair_points(samples: &Samples, test: Test) -> Vec<Point> {
    let mut places: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    for sample in samples.of(test) {
        let least = &mut places.entry(sample.about).or_insert([f64::INFINITY; 2])
            [usize::from(sample.position == sample.about)];
        *least = least.min(sample.ns as f64);
    }
    let points = places.into_iter().map(|(at, [before, behind])| Point { at, value: behind - before });
    points.filter(|point| point.value.is_finite()).collect()
}

fn floor(samples: &Samples, test: Test) -> f64 {
    let mut times: Vec<f64> = samples.of(test).map(|sample| sample.ns as f64).collect();
    (FLOOR * median(&mut times)).max(1.0)
}

/// Periods of the borders that reads show.
pub(crate) fn read_fit(samples: &Samples) -> Fit {
    let points = border_points(samples, Test::Border);
    let origins = origins(samples);
    fit(&points, &au_candidates(samples.capacity), floor(samples, Test::Border), |_| origins.clone())
}

/// Positions from which borders may be counted.
pub(crate) fn origins(samples: &Samples) -> Vec<u64> {
    let mut origins = vec![0];
    if samples.of(Test::Scan).next().is_some() {
        origins.extend(usual_origins());
        origins.extend(located(samples));
    }
    origins
}

/// Periods of the borders that reads show, those below [`AU_MIN`] among them; `None` where they were not searched.
pub(crate) fn small_fit(samples: &Samples) -> Option<Fit> {
    let mut points = border_points(samples, Test::SmallBorder);
    if points.is_empty() {
        return None;
    }
    points.extend(border_points(samples, Test::Border));
    let periods = [small_candidates(), au_candidates(samples.capacity)].concat();
    let origins = origins(samples);
    Some(fit(&points, &periods, floor(samples, Test::Border), |_| origins.clone()))
}

/// An allocation unit below [`AU_MIN`] that explains reads better than any other, with its confidence. Borders as close as that may be those of pages: then
/// the confidence is 0.
fn small_unit(samples: &Samples) -> Option<(Fit, u64, f64)> {
    let found = small_fit(samples)?;
    let (period, confidence) = visible(&found).filter(|(period, _)| *period < AU_MIN)?;
    let page = page_from(samples, found.origin % period);
    let is_apart = page.count().is_some_and(|page| page * PAGES_MIN <= period);
    let confidence =
        if is_apart { confidence.min(SMALL) * (1.0 - 4.0 * found.unexplained).max(0.3) } else { 0.0 };
    Some((found, period, confidence))
}

/// A multiple of all candidates: origins before the beginning of the device are counted from it.
const ALL_PERIODS: u64 = 315 << 40;
/// Sectors before the partitions of usual tables: DOS, since 2010, SD cards.
const PARTITION_STARTS: [u64; 3] = [63, 2048, 8192];

/// Origins of a device that is a partition of another.
pub(crate) fn usual_origins() -> [u64; 3] {
    PARTITION_STARTS.map(|sectors| ALL_PERIODS - sectors * 512)
}

/// The slowest ranges of a scan first, each as the position behind which and the position up to which it has its border.
pub(crate) fn suspects(samples: &Samples) -> Vec<(u64, u64)> {
    let mut least: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for sample in samples.of(Test::Scan).filter(|sample| sample.about > sample.position) {
        let ns = least.entry((sample.position, sample.about)).or_insert(u64::MAX);
        *ns = (*ns).min(sample.ns);
    }
    let mut slow: Vec<((u64, u64), u64)> = least.into_iter().collect();
    slow.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    slow.into_iter().map(|(range, _)| range).collect()
}

/// Number of suspects that are searched for their border.
pub(crate) const SUSPECTS: usize = 3;

/// Borders that were searched to the sector.
pub(crate) fn located(samples: &Samples) -> Vec<u64> {
    let ranges = suspects(samples).into_iter().take(SUSPECTS).map(|range| narrowed(samples, range));
    ranges.filter(|(low, high)| high - low == 512).map(|(_, high)| high).collect()
}

/// Halves of a range of borders as reads: position and length of each.
pub(crate) fn halves((low, high): (u64, u64)) -> [(u64, u64); 2] {
    let middle = low + ((high - low) / 1024).max(1) * 512;
    [(low, middle + 512 - low), (middle, high + 512 - middle)]
}

/// The range of borders that is left after all bisections: the slower half has the border.
pub(crate) fn narrowed(samples: &Samples, mut range: (u64, u64)) -> (u64, u64) {
    while range.1 - range.0 > 512 {
        let halves = halves(range);
        let least = halves.map(|(position, bytes)| {
            let tries = samples.of(Test::Bisect).filter(|s| (s.position, s.bytes) == (position, bytes));
            tries.map(|sample| sample.ns).min()
        });
        let [Some(left), Some(right)] = least else { break };
        let middle = halves[1].0;
        range = if left > right { (range.0, middle) } else { (middle, range.1) };
    }
    range
}

/// Bytes of a write in the tests that write in order.
pub(crate) const FILL_BYTES: u64 = 128 << 10;

/// Periods of the pauses in writes in order. Their phase is not exact: a buffer delays a pause.
pub(crate) fn write_fit(samples: &Samples) -> Fit {
    let test = if samples.of(Test::Refill).next().is_some() { Test::Refill } else { Test::Fill };
    let points: Vec<Point> =
        samples.of(test).map(|sample| Point { at: sample.position, value: sample.ns as f64 }).collect();
    let slow = slowest(&points);
    let span = points.len() as u64 * FILL_BYTES;
    fit(&points, &candidates(AU_MIN, span / 3), floor(samples, test), |period| {
        slow.iter().map(|at| at % period).collect()
    })
}

/// Positions of the slowest of some points.
fn slowest(points: &[Point]) -> Vec<u64> {
    let mut slow = points.to_vec();
    slow.sort_by(|a, b| b.value.total_cmp(&a.value));
    slow.truncate(6);
    slow.into_iter().map(|point| point.at).collect()
}

/// An allocation unit and one of its borders, to the sector, as closing units shows them.
struct Closed {
    period: u64,
    border: u64,
    confidence: f64,
    /// Writes that show it, in words.
    writes: &'static str,
}

fn closed(samples: &Samples) -> Option<Closed> {
    if let Some((period, border)) = closing::unit(samples) {
        let writes = "writes of a sector, each with others that make the card close what it opened, take longer for contents";
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

/// A border of an allocation unit, to the sector, as far as it is known.
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

/// Jump in deviations of a point below which a period is an accident of which there are many.
const FAINT_STEP: f64 = 1.0;

/// The period that reads show.
fn visible(reads: &Fit) -> Option<(u64, f64)> {
    reads.best().filter(|_| reads.step >= FAINT_STEP * reads.sigma)
}

/// Most confidence in what reads alone show, and in what pauses alone show.
const READS: f64 = 0.97;
const WRITES: f64 = 0.9;
/// As `READS`, where writes found three borders to the sector.
const CLOSING: f64 = 0.95;
/// As `CLOSING`, behind a cache, where pauses depend on what was opened long before.
const PAIRS: f64 = 0.85;
/// Jump in deviations from which on noise, whose tails are longer than those of a normal distribution, does not look like borders.
const CLEAR_STEP: f64 = 8.0;
/// Confidence in what the blocks of a cache tell.
const BEHIND_CACHE: f64 = 0.55;
/// Error of the length of a cache's block, as a share of it.
const BLOCK_ERROR: f64 = 0.03;
/// Bits of a cell: MLC, TLC.
const BITS: [u64; 2] = [2, 3];

/// The allocation unit and its phase.
pub(crate) fn erase_block(samples: &Samples) -> (Answer, Answer) {
    if let Some(closed) = closed(samples) {
        return closed.answers();
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

/// The allocation unit and its phase as reads show them. A period without confidence may be that of pages.
fn from_reads(reads: &Fit, period: u64, confidence: f64) -> (Answer, Answer) {
    let most = if reads.step < CLEAR_STEP * reads.sigma { WRITES } else { READS };
    let confidence = confidence.min(most) * (1.0 - 4.0 * reads.unexplained).max(0.3);
    let origin = reads.origin % period;
    let reason = format!(
        "a read across a multiple of {}{} takes {} longer than one beside it, {} times the noise; other multiples do not",
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

/// A factor in words: with a digit behind the point where that is not nothing.
fn digits(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.1}") } else { format!("{factor:.0}") }
}

/// The allocation unit and its phase when reads do not show them.
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

/// Statement on a period that is not visible. Where reads take longer across all places that were tested, borders may be at all of them.
fn invisible(fit: &Fit) -> String {
    if fit.middle > fit.bound {
        return format!(
            "not visible in reads: one across any place that was tested takes {} longer than one beside it",
            us(fit.middle)
        );
    }
    format!(
        "not visible in reads at the lengths that are tested; any effect there is below {}",
        us(fit.bound)
    )
}

/// Allocation units that a cache's blocks let expect, the most usual one first: with one bit a cell, they hold a half or a third of it.
pub(crate) fn units_behind(samples: &Samples, cache: &Cache) -> Vec<u64> {
    let candidates = au_candidates(samples.capacity);
    let near = |bits: u64| {
        let bytes = (bits * cache.block_bytes) as f64;
        candidates.iter().copied().find(|au| (*au as f64 / bytes - 1.0).abs() < BLOCK_ERROR)
    };
    let mut units: Vec<u64> = BITS.into_iter().filter_map(near).collect();
    units.sort_by(|a, b| prior(*b).total_cmp(&prior(*a)));
    units
}

/// The allocation unit behind a cache: as many of the cache's blocks, which hold one bit a cell, as its own cells have bits.
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

/// Fit of the smallest visible unit to the points of a test; only of such that an allocation unit has several, where one is given.
fn page_fit(samples: &Samples, test: Test, points: &[Point], inside: Option<u64>, origin: u64) -> Fit {
    let mut periods = powers_of_two();
    periods.retain(|period| inside.is_none_or(|unit| period * SMALL_PAGES <= unit));
    // The borders of pages are counted from a border of an allocation unit.
    fit(points, &periods, floor(samples, test), |_| vec![origin])
}

/// Fits to reads across borders, of places that were written and of others.
fn fits_across(samples: &Samples, origin: u64) -> [Fit; 2] {
    [Test::PageWritten, Test::Page]
        .map(|test| page_fit(samples, test, &border_points(samples, test), None, origin))
}

/// Share of the multiples of a page at which a read may take no longer, and most confidence where it does at more of them.
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
    let Some(steps) = PlaneSteps::of(samples, origin) else { return visible };
    let Some(planes) = steps.planes().filter(|planes| visible.count() == Some(planes.piece)) else {
        return visible;
    };
    let confidence = visible.confidence.min(planes.confidence);
    Answer::found(Value::Count(planes.page), "B", confidence, planes.reason)
        .or([(planes.piece, 1.0 - confidence)])
}

/// The smallest visible unit, with borders that are counted from `origin`.
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
    // Borders of small allocation units hide those of the pages inside of them.
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
        let of = if samples.of(Test::PageWritten).next().is_some() { &written } else { &plain };
        return Answer::unknown("B", plain.nothing.min(0.95), invisible(of));
    };
    // A card that maps smaller units than pages has neighbours on one page here and on two there.
    let most = if fit.low_hits > LOW_HITS { MIXED } else { 0.9 };
    let confidence = confidence.min(most) * (1.0 - 4.0 * fit.unexplained).max(0.3);
    let reason = format!(
        "a read {way} a multiple of {} takes {} longer{}; it may be a page, a pair of planes, or what the map places as one",
        size(period),
        us(fit.step),
        if way == "behind" { ", after the sector before it was read" } else { "" }
    );
    Answer::found(Value::Count(period), "B", confidence, reason).or(fit.periods[1..].iter().copied())
}

/// Jumps of reads at multiples of the visible unit, and inside of it. A read across two planes of a page waits for a second transfer, one across two
/// pages for a second read of the array: the visible unit may have smaller steps inside, or be the piece of one plane, with larger steps at the pages.
struct PlaneSteps {
    /// The visible unit, B, and the jump at its borders, ns.
    unit: u64,
    of_unit: f64,
    larger: Fit,
    smaller: Fit,
}

impl PlaneSteps {
    fn of(samples: &Samples, origin: u64) -> Option<Self> {
        let across = fits_across(samples, origin);
        let visible = across.iter().filter_map(|fit| Some((fit, fit.best()?)));
        let (of_unit, (unit, _)) = visible.max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
        let test =
            if samples.of(Test::PageWritten).next().is_some() { Test::PageWritten } else { Test::Page };
        let (at_units, inside): (Vec<Point>, Vec<Point>) =
            border_points(samples, test).into_iter().partition(|point| is_multiple(point.at, unit, origin));
        let step = |points: &[Point], periods: Vec<u64>| {
            let visible = periods.into_iter().filter(|bytes| (PAGE_RANGE.0..=PAGE_RANGE.1).contains(bytes));
            fit(points, &visible.collect::<Vec<_>>(), floor(samples, test), |_| vec![origin])
        };
        let larger = step(&at_units, PLANES.map(|planes| planes * unit).to_vec());
        let smaller = step(&inside, PLANES.map(|planes| unit / planes).to_vec());
        Some(Self { unit, of_unit: of_unit.step, larger, smaller })
    }

    /// The period of a fit, if its jump is not what is left of noise or bus beside that of the visible unit.
    fn best(&self, fit: &Fit) -> Option<(u64, f64)> {
        fit.best().filter(|_| fit.step > PLANE_SHARE * self.of_unit)
    }

    /// The page and its piece on one plane.
    fn planes(&self) -> Option<Planes> {
        let unit = self.unit;
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

/// A page in pieces on several planes.
struct Planes {
    page: u64,
    piece: u64,
    confidence: f64,
    reason: String,
}

/// Planes over which a page lies.
pub(crate) fn planes(samples: &Samples) -> Answer {
    let Some(steps) = PlaneSteps::of(samples, page_origin(samples)) else {
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

/// Most confidence in a page that may be the allocation unit.
const PAGE_OR_UNIT: f64 = 0.4;
/// Most confidence in planes.
const PLANES_CONFIDENCE: f64 = 0.8;

fn is_multiple(at: u64, period: u64, origin: u64) -> bool {
    // The origin may lie behind it.
    (at + period - origin % period).is_multiple_of(period)
}

/// Least step of planes as a share of that of the visible unit: less is what is left of the noise, or the bus.
const PLANE_SHARE: f64 = 0.1;
/// Numbers of planes that chips have.
const PLANES: [u64; 2] = [2, 4];

pub(crate) fn powers_of_two() -> Vec<u64> {
    (PAGE_RANGE.0.trailing_zeros()..=PAGE_RANGE.1.trailing_zeros()).map(|bits| 1 << bits).collect()
}

/// A border of an allocation unit, where one is known; the beginning of the device otherwise.
pub(crate) fn page_origin(samples: &Samples) -> u64 {
    origin(samples).unwrap_or(0)
}
