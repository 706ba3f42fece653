//! Queries behind a cache in flash: writes of which each has a pause of its own.
//!
//! The cache is filled up with writes to a range that is shorter than it: these are replaced before the cache gives them out, so that it pauses for the
//! queries alone. A block of the cache stays as long as something else is in it, and the oldest one is emptied for a new one: each pause comes the same
//! number of bytes behind its query, as long as queries, or single sectors in their place, come at the same distance. How many bytes, marks show with which
//! each pass of queries begins.

use super::behind_cache::LATE;
use super::caches::Cache;
use super::open_aus::TURN_BYTES;
use crate::sample::{SECTOR, Sample, Samples, Test};
use crate::stats::quantile;

/// Units that a mark opens, more than a query; and those that are opened one after the other at the beginning of a pass, which no queries do.
const MARK: u64 = 4;
/// A card may take the time of a long pause for one in which it has nothing to do, and give out what comes next, which is no query then.
pub(crate) const MARKS: [u64; 4] = [MARK, 1, MARK, 1];
/// Logarithm of the factor between the pause of the mark and the longest one of a query from which on it is clear.
const CLEAR_MARK: f64 = 0.5;
/// Weight of the distances from the middle.
const APART_WEIGHT: f64 = 4.0;
/// Blocks of a cache that are left for queries.
const MARGIN: u64 = 2;
/// Part of the blocks whose pauses tell that a range does not stay in the cache.
const PAUSES_PART: u64 = 3;
/// Most queries times delays that are tried.
const TRIED_MAX: u64 = 1 << 23;
/// Powers of two: units that a card may map, B: each sector takes one of the cache.
const MAPPED: std::ops::RangeInclusive<u32> = 12..=17;

/// Bytes from a query to the next, its own not counted: each has blocks of the cache of its own.
pub(crate) const fn distance(cache: &Cache) -> u64 {
    (2 * cache.block_bytes).next_multiple_of(TURN_BYTES)
}

/// Longest range that may stay in the cache, B.
pub(crate) const fn loop_bytes(cache: &Cache) -> u64 {
    cache.bytes.saturating_sub(MARGIN * cache.block_bytes) / TURN_BYTES * TURN_BYTES
}

/// The range that is written, B, as long as it is certain to stay in the cache beside the queries; `None` when that was not seen for `bytes`: the cache
/// pauses for a part of the blocks at least, in the second half of the writes of pass 0.
pub(crate) fn staying_bytes(samples: &Samples, cache: &Cache, bytes: u64) -> Option<u64> {
    let loops: Vec<u64> =
        samples.of(Test::Loop).filter(|sample| sample.about == 0).map(|sample| sample.ns).collect();
    let last = &loops[loops.len().saturating_sub((bytes / TURN_BYTES) as usize)..];
    let quiet = quantile(last.iter().map(|ns| *ns as f64), 0.3);
    let pauses = last.iter().filter(|ns| **ns as f64 > quiet + cache.pause).count() as u64;
    let is_silent = pauses * cache.block_bytes * PAUSES_PART < bytes;
    is_silent
        .then_some(bytes.saturating_sub(MARGIN * cache.block_bytes).max(bytes / 2) / TURN_BYTES * TURN_BYTES)
}

/// Bytes after which nothing written before is in the cache.
pub(crate) const fn settled_bytes(cache: &Cache) -> u64 {
    cache.bytes + (LATE + 2) * cache.block_bytes
}

/// Kind of a write of a pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Query,
    Filler,
    Loop,
}

impl Part {
    const fn of(sample: &Sample) -> Option<Self> {
        match sample.test {
            Test::Pair | Test::TurnRandom | Test::TurnFat => Some(Self::Query),
            Test::Loop if sample.bytes == SECTOR => Some(Self::Filler),
            Test::Loop => Some(Self::Loop),
            _ => None,
        }
    }
}

/// A pass of queries.
pub(crate) struct Pass<'a> {
    /// Writes of each query.
    pub(crate) queries: Vec<Vec<&'a Sample>>,
    /// Pause of each mark, and of each query, ns.
    pub(crate) marks: Vec<f64>,
    pub(crate) costs: Vec<f64>,
}

/// Number of the last pass that has queries of a test.
pub(crate) fn last_pass(samples: &Samples, test: Test) -> Option<u64> {
    samples.of(test).last().map(|sample| sample.about)
}

impl<'a> Pass<'a> {
    pub(crate) fn of(samples: &'a Samples, cache: &Cache, pass: u64) -> Self {
        let parts = samples.all.iter().filter(|sample| sample.about == pass);
        let parts: Vec<(Part, &Sample)> =
            parts.filter_map(|sample| Some((Part::of(sample)?, sample))).collect();
        let queries: Vec<Vec<&Sample>> = parts
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|chunk| chunk[0].0 == Part::Query)
            .map(|chunk| chunk.iter().map(|(_, sample)| *sample).collect())
            .collect();
        let loops = parts.iter().filter(|(part, _)| *part == Part::Loop);
        let quiet = quantile(loops.map(|(_, sample)| sample.ns as f64), 0.5);
        let mut marks = costs(&parts, quiet, cache);
        let costs = marks.split_off(MARKS.len().min(marks.len()));
        Self { queries, marks, costs }
    }

    /// Pause for one unit, ns.
    pub(crate) fn unit_cost(&self) -> f64 {
        let marks = MARKS.iter().zip(&self.marks).filter(|(units, _)| **units == MARK);
        let (units, ns) = marks.fold((0, 0.0), |(units, sum), (more, ns)| (units + more, sum + ns));
        ns / units.max(1) as f64
    }
}

/// Pauses of the marks and of all queries, ns, each so many bytes behind it: the delay for which marks are clear, and pauses are near the middle of what
/// is counted. `quiet` is the time of a write that does not pause.
fn costs(parts: &[(Part, &Sample)], quiet: f64, cache: &Cache) -> Vec<f64> {
    let quarter = (cache.block_bytes / 4).max(1);
    let delays = 4 * (2 * cache.bytes / cache.block_bytes.max(1) + LATE);
    let queries = parts.iter().filter(|(part, _)| *part == Part::Query).count() as u64;
    // No probe has as many: samples that somebody wrote are not worth the time.
    if queries.saturating_mul(delays) > TRIED_MAX {
        return Vec::new();
    }
    let likely = MAPPED.flat_map(|bits| {
        let (pauses, places) = by_bytes(parts, quiet, 1 << bits);
        (0..delays).map(move |delay| split(&pauses, &places, delay * quarter, distance(cache)))
    });
    let clearness = |(costs, apart): &(Vec<f64>, f64)| {
        let (marks, queries) = costs.split_at(MARKS.len().min(costs.len()));
        let is_mark = |(units, _): &(&u64, &f64)| **units == MARK;
        let (of_mark, others): (Vec<_>, Vec<_>) = MARKS.iter().zip(marks).partition(is_mark);
        let mark = of_mark.iter().fold(f64::INFINITY, |least, (_, ns)| ns.min(least));
        let others = others.into_iter().map(|(_, ns)| ns);
        let most = queries.iter().chain(others).copied().fold(1.0, f64::max);
        libm::log(mark.max(1.0) / most).min(CLEAR_MARK) - APART_WEIGHT * apart
    };
    let best = likely.max_by(|a, b: &(Vec<f64>, f64)| clearness(a).total_cmp(&clearness(b)));
    best.map_or_else(Vec::new, |(costs, _)| costs)
}

/// Pauses by bytes of the cache that were written before, where each sector takes so many, and the places of the marks and the queries. A sector takes less
/// time than a write of the range, and what is left of it is the same in all queries.
fn by_bytes(parts: &[(Part, &Sample)], quiet: f64, mapped: u64) -> (Vec<(u64, f64)>, Vec<u64>) {
    let (mut written, mut fillers, mut before) = (0, 0, Part::Loop);
    let (mut marks, mut queries) = (Vec::new(), Vec::new());
    let at = |(part, sample): &(Part, &Sample)| {
        let at = written;
        match *part {
            Part::Query if before != Part::Query => queries.push(at),
            // A pass begins with its marks.
            Part::Filler => {
                let begins = (0..MARKS.len()).any(|mark| MARKS[..mark].iter().sum::<u64>() == fillers);
                marks.extend(begins.then_some(at));
                fillers += 1;
            }
            _ => {}
        }
        before = *part;
        written += sample.bytes.max(mapped);
        (at, (sample.ns as f64 - quiet).max(0.0))
    };
    let pauses = parts.iter().map(at).collect();
    marks.extend(queries);
    (pauses, marks)
}

/// Sums of the pauses, ns, that are about `delay` bytes behind each of some places, and the mean square of their distances from that, as a part of the
/// square of `distance`, which is from a place to the next.
fn split(pauses: &[(u64, f64)], places: &[u64], delay: u64, distance: u64) -> (Vec<f64>, f64) {
    let (mut apart, mut all) = (0.0, 0.0);
    let mut sum = |place: &u64| {
        let from = place + delay;
        let begin = pauses.partition_point(|(at, _)| *at < from);
        let inside = pauses[begin..].iter().take_while(|(at, _)| *at < from + distance);
        let sum = inside.clone().map(|(_, ns)| ns).sum::<f64>();
        let part = |at: u64| (at - from) as f64 / distance as f64 - 0.5;
        apart += inside.map(|(at, ns)| ns * part(*at) * part(*at)).sum::<f64>();
        all += sum;
        sum
    };
    let sums = places.iter().map(&mut sum).collect();
    (sums, apart / f64::max(all, 1.0))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sample::Kind;

    /// Time of a write that finds room, of one that begins a block, and for each unit that is closed, ns.
    const QUIET: u64 = 3_000_000;
    const UNIT: u64 = 100_000_000;
    /// Blocks of the cache.
    const BLOCKS: u64 = 6;

    pub(crate) const CACHE: Cache =
        Cache { bytes: BLOCKS << 20, before: 3e6, after: 1e7, block_bytes: 1 << 20, pause: 2e6 };

    /// A pass behind a cache of six blocks that gives out what was written a cache's length before: its marks, and then the sectors of each query, of which so
    /// many units are closed.
    pub(crate) fn pass(samples: &mut Samples, pass: u64, test: Test, queries: &[(&[u64], u64)]) {
        let filler = |units: u64| (Test::Loop, vec![0; units as usize], units);
        let marks = MARKS.map(filler).into_iter();
        let queries = queries.iter().map(|(sectors, units)| (test, sectors.to_vec(), *units));
        let all: Vec<_> = marks.chain(queries).chain([1; 6].map(filler)).collect();
        let write = |samples: &mut Samples, test, position, bytes, ns| {
            let sample = Sample { test, about: pass, kind: Kind::Write, position, bytes, ns, found: None };
            samples.all.push(sample);
        };
        let writes = distance(&CACHE) / TURN_BYTES;
        for (number, (test, sectors, _)) in all.iter().enumerate() {
            for sector in sectors {
                write(samples, *test, *sector, SECTOR, QUIET / 10);
            }
            // What comes out in these blocks was written as many blocks before.
            let out = number.checked_sub((BLOCKS / 2) as usize).map_or(1, |before| all[before].2);
            for at in 0..writes {
                let pause = if at == writes / 2 { out * UNIT } else { 0 };
                write(samples, Test::Loop, at * TURN_BYTES, TURN_BYTES, QUIET + pause);
            }
        }
    }

    #[test]
    fn each_query_has_the_pause_a_cache_behind_it() {
        let mut samples = Samples::default();
        let sectors = [512, 1024];
        let units = [2, 2, 1, 1, 2, 1, 1, 1];
        pass(&mut samples, 1, Test::Pair, &units.map(|units| (&sectors[..], units)));
        let found = Pass::of(&samples, &CACHE, 1);
        assert_eq!(found.unit_cost(), UNIT as f64);
        assert_eq!(found.costs, units.map(|units| (units * UNIT) as f64));
        assert_eq!(found.queries.len(), units.len());
    }

    /// A file of samples that somebody wrote may have a cache of any length.
    #[test]
    fn pauses_behind_an_impossible_cache_are_not_looked_for() {
        let mut samples = Samples::default();
        pass(&mut samples, 1, Test::Pair, &[(&[512, 1024][..], 1); 8]);
        let found = Pass::of(&samples, &Cache { bytes: 1 << 40, ..CACHE }, 1);
        assert!(found.costs.is_empty());
    }
}
