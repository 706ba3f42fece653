//! Queries behind a cache in flash: writes that each cause a separate pause.
//!
//! The cache is kept full by writes to a loop, a range shorter than the cache. Data of the loop is overwritten before
//! it would be evicted, so that only queries cause pauses. A cache block stays until it is the oldest one and holds
//! data from outside the loop. So each pause follows its query after a fixed number of bytes, provided that queries, or
//! single sectors in their place, come at equal distances. Marks at the start of each pass show that number of bytes.

use super::caches::{Cache, LATE};
use crate::sample::{SECTOR, Sample, Samples, TURN_BYTES, Test};
use crate::stats::quantile;

/// Number of units that a mark opens: more than a query. The same number opens units one after the other at the start
/// of a pass, which queries never do.
const MARK: u64 = 4;
/// Number of units of each mark. There are two marks with a short query after each, because a card may evict the next
/// block during a long pause as if it were idle.
pub(crate) const MARKS: [u64; 4] = [MARK, 1, MARK, 1];
/// Minimum logarithm of the ratio of the pause of a mark to the longest pause of a query.
const CLEAR_MARK: f64 = 0.5;
/// Weight of the distance of pauses from the expected position.
const APART_WEIGHT: f64 = 4.0;
/// Cache blocks reserved for queries.
const MARGIN: u64 = 2;
/// Divisor of the blocks whose pauses show that the loop does not stay in the cache.
const PAUSES_PART: u64 = 3;
/// Maximum product of queries and delays that are tried.
const TRIED_MAX: u64 = 1 << 23;
/// Binary logarithms of the possible map units, B: each sector occupies one map unit of the cache.
const MAPPED: std::ops::RangeInclusive<u32> = 12..=17;

/// Distance between queries, B, without the query itself: every query has its own cache blocks.
pub(crate) const fn distance(cache: &Cache) -> u64 {
    (2 * cache.block_bytes).next_multiple_of(TURN_BYTES)
}

/// Longest loop that may stay in the cache, B.
pub(crate) const fn loop_bytes(cache: &Cache) -> u64 {
    cache.bytes.saturating_sub(MARGIN * cache.block_bytes) / TURN_BYTES * TURN_BYTES
}

/// Length of the loop that certainly stays in the cache next to the queries, B. `None` if a loop of `bytes` does not:
/// the cache still pauses in the second half of the writes of pass 0.
pub(crate) fn staying_bytes(samples: &Samples, cache: &Cache, bytes: u64) -> Option<u64> {
    let loops: Vec<u64> =
        samples.with_test(Test::Loop).filter(|sample| sample.about == 0).map(|sample| sample.ns).collect();
    let last = &loops[loops.len().saturating_sub((bytes / TURN_BYTES) as usize)..];
    let quiet = quantile(last.iter().map(|ns| *ns as f64), 0.3);
    let pauses = last.iter().filter(|ns| **ns as f64 > quiet + cache.pause).count() as u64;
    let is_silent = pauses * cache.block_bytes * PAUSES_PART < bytes;
    is_silent
        .then_some(bytes.saturating_sub(MARGIN * cache.block_bytes).max(bytes / 2) / TURN_BYTES * TURN_BYTES)
}

/// Bytes of writes that flush all earlier data out of the cache.
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
    const fn from_sample(sample: &Sample) -> Option<Self> {
        match sample.test {
            Test::Pair | Test::TurnRandom | Test::TurnFat => Some(Self::Query),
            Test::Loop if sample.bytes == SECTOR => Some(Self::Filler),
            Test::Loop => Some(Self::Loop),
            _ => None,
        }
    }
}

/// Writes of one pass of queries.
pub(crate) struct Pass<'a> {
    /// Writes of each query.
    pub(crate) queries: Vec<Vec<&'a Sample>>,
    /// Pause of each mark, then of each query, ns.
    pub(crate) marks: Vec<f64>,
    pub(crate) costs: Vec<f64>,
}

/// Number of the last pass that has queries of a test.
pub(crate) fn last_pass(samples: &Samples, test: Test) -> Option<u64> {
    samples.with_test(test).last().map(|sample| sample.about)
}

impl<'a> Pass<'a> {
    pub(crate) fn from_samples(samples: &'a Samples, cache: &Cache, pass: u64) -> Self {
        let parts = samples.all.iter().filter(|sample| sample.about == pass);
        let parts: Vec<(Part, &Sample)> =
            parts.filter_map(|sample| Some((Part::from_sample(sample)?, sample))).collect();
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

/// Pauses of the marks and of all queries, ns. The delay between query and pause is the one for which marks are clear
/// and pauses are central in their window. `quiet` is the time of a write without a pause.
fn costs(parts: &[(Part, &Sample)], quiet: f64, cache: &Cache) -> Vec<f64> {
    let quarter = (cache.block_bytes / 4).max(1);
    let delays = 4 * (2 * cache.bytes / cache.block_bytes.max(1) + LATE);
    let queries = parts.iter().filter(|(part, _)| *part == Part::Query).count() as u64;
    // No probe makes so many queries. A file with more queries was not written by a probe, and would take too much
    // time.
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

/// Pauses by the number of cache bytes written before them if a sector occupies `mapped` bytes, and the positions of
/// the marks and queries. A sector write takes less time than a loop write; the remaining extra time is equal in all
/// queries.
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

/// Sums of the pauses about `delay` bytes after each of `places`, ns, and the mean squared deviation of their positions
/// from that delay, as a share of the squared `distance` between two places.
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

    /// Times of a simulated write: without a pause, at the beginning of a block, and extra for each unit that is
    /// closed, ns.
    const QUIET: u64 = 3_000_000;
    const UNIT: u64 = 100_000_000;
    /// Number of cache blocks.
    const BLOCKS: u64 = 6;

    pub(crate) const CACHE: Cache =
        Cache { bytes: BLOCKS << 20, before: 3e6, after: 1e7, block_bytes: 1 << 20, pause: 2e6 };

    /// Samples of a pass behind a cache of six blocks that evicts in FIFO order: the marks, then the sectors of each
    /// query with the number of units that it closes.
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
        let found = Pass::from_samples(&samples, &CACHE, 1);
        assert_eq!(found.unit_cost(), UNIT as f64);
        assert_eq!(found.costs, units.map(|units| (units * UNIT) as f64));
        assert_eq!(found.queries.len(), units.len());
    }

    /// A file of samples may state a cache of any length.
    #[test]
    fn pauses_behind_an_impossible_cache_are_not_looked_for() {
        let mut samples = Samples::default();
        pass(&mut samples, 1, Test::Pair, &[(&[512, 1024][..], 1); 8]);
        let found = Pass::from_samples(&samples, &Cache { bytes: 1 << 40, ..CACHE }, 1);
        assert!(found.costs.is_empty());
    }
}
