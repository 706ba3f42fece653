//! Open allocation units behind a cache in flash.
//!
//! The cache gives its contents out in the order in which they came, a block at a time: what is written now makes the card write to the allocation
//! units what came a cache's length before. So a number of units are opened one after the other, and when they are in no cache any more, they are
//! written again, the last one first. The first ones are still open; from some unit on each must be opened again, for which another is closed, and the
//! cache pauses longer. Writes in order between them, a block of the cache at least, keep their pauses apart.

use super::caches::{Cache, cache};
use super::open_aus::TURN_BYTES;
use crate::sample::{Kind, Sample, Samples, Test};
use crate::stats::quantile;

/// Writes in order behind each unit that is written again; those of the FAT area are further apart, as each must be told from the next.
pub(crate) const fn gap_writes(cache: &Cache, test: Test) -> u64 {
    let blocks = if matches!(test, Test::Fat) { FAT_BLOCKS } else { 1 };
    cache.block_bytes.div_ceil(TURN_BYTES) * blocks
}

const FAT_BLOCKS: u64 = 3;
/// Blocks that a cache may be longer than it is taken for: it may have been filled in part when that was measured.
const LATE: i64 = 3;

/// Writes in order after which nothing written before is in the cache, and as many pauses follow for comparison.
pub(crate) const fn push_writes(cache: &Cache) -> u64 {
    (cache.bytes + (2 * LATE as u64 + 4) * cache.block_bytes).div_ceil(TURN_BYTES)
}

/// A cache that hides what is done about allocation units: writes that wait until they are on the flash pause about once in a block, like those that
/// do not.
pub(crate) fn hiding_cache(samples: &Samples) -> Option<Cache> {
    let cache = cache(samples).filter(|cache| cache.block_bytes > 0)?;
    let times = || samples.of(Test::Push).map(|sample| sample.ns as f64);
    let limit = quantile(times(), 0.5) + cache.pause;
    let pauses = times().filter(|ns| *ns > limit).count() as u64 * cache.block_bytes;
    let written = times().count() as u64 * TURN_BYTES;
    (written > 0 && (written * 3 / 5..=2 * written).contains(&pauses)).then_some(cache)
}

/// What is known about units that were written again.
pub(crate) struct Reopened {
    /// Units that were still open, of all that were written again.
    pub(crate) open: u64,
    pub(crate) all: u64,
    /// Usual pause and pause for a unit that is opened again, ns; the latter is 0 when there is none.
    pub(crate) usual: f64,
    pub(crate) long: f64,
    /// Bytes by which the cache is longer than it is taken for.
    late: i64,
    /// Share of the pauses that are as long as this number of open units lets expect.
    pub(crate) explained: f64,
}

/// Factor of the usual pause from which on one is longer.
const LONGER: f64 = 1.2;
/// Share of long pauses that a long pause is not longer than: what is copied for a unit that is closed differs.
const LONG: f64 = 0.25;
/// Share of usual pauses that a usual pause is not shorter than: some begin a unit of the writes in order.
const USUAL: f64 = 0.8;
/// Share of writes that find room in the cache: fewer than one in three blocks of the smallest have.
const QUIET: f64 = 0.3;

/// Writes with the bytes written up to the end of each.
struct Writes<'a> {
    all: Vec<(&'a Sample, u64)>,
    /// Time of a write that finds room, ns.
    quiet: f64,
    cache: Cache,
}

impl<'a> Writes<'a> {
    fn of(samples: &'a Samples) -> Option<Self> {
        let mut written = 0;
        let count = |sample: &'a Sample| {
            written += sample.bytes;
            (sample, written)
        };
        let all: Vec<(&Sample, u64)> =
            samples.all.iter().filter(|sample| sample.kind == Kind::Write).map(count).collect();
        let turns = all.iter().filter(|(sample, _)| is_turn(sample));
        let quiet = quantile(turns.map(|(sample, _)| sample.ns as f64), QUIET);
        Some(Self { all, quiet, cache: hiding_cache(samples)? })
    }

    /// Bytes written up to the end of each write of a test.
    fn ends(&self, test: Test) -> Vec<u64> {
        self.all.iter().filter(|(sample, _)| sample.test == test).map(|(_, end)| *end).collect()
    }

    /// Time above that of a write that finds room, ns, of the writes between two positions.
    fn pauses(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, f64)> + '_ {
        let inside = self.all.iter().filter(move |(_, end)| (from + 1..=to).contains(end));
        inside.map(|(sample, end)| (*end, sample.ns as f64 - self.quiet))
    }

    /// Position at which what was written at another comes out of the cache, if that is so much longer than it is taken for.
    fn out(&self, position: u64, late: i64) -> u64 {
        (position + self.cache.bytes).saturating_add_signed(late)
    }

    /// Length of a block, B.
    const fn block(&self) -> i64 {
        self.cache.block_bytes as i64
    }
}

/// True for a write of the tests of allocation units, and those in order between them.
fn is_turn(sample: &Sample) -> bool {
    sample.bytes == TURN_BYTES
        && matches!(sample.test, Test::Push | Test::OpenLinear | Test::OpenRandom | Test::Fat)
}

/// Counts the units of a test that had to be opened again; `None` when not all has come out of the cache.
pub(crate) fn reopened(samples: &Samples, test: Test) -> Option<Reopened> {
    let writes = Writes::of(samples)?;
    let ends = writes.ends(test);
    let (first, last) = (*ends.first()?, *ends.last()?);
    let (from, to) = (writes.out(first, -2 * writes.block()), writes.out(last, (LATE + 1) * writes.block()));
    writes.all.last().filter(|(_, end)| *end >= to)?;
    // Before the first unit there are only writes in order.
    let usual = writes.usual(from - writes.cache.bytes, from);
    let longer = |ns: &f64| *ns > usual * LONGER;
    let long = quantile(writes.pauses(from, to).map(|(_, ns)| ns).filter(longer), LONG);
    let all = ends.len() as u64;
    if long == 0.0 {
        return Some(Reopened { open: all, all, usual, long, late: 0, explained: 1.0 });
    }
    // How much of the way from a usual to a long pause each is.
    let pauses: Vec<(u64, f64)> = writes
        .pauses(from, to)
        .map(|(end, ns)| (end, ((ns - usual) / (long - usual)).min(1.0)))
        .filter(|(_, share)| *share > 0.0)
        .collect();
    let lates = (-writes.block()..=LATE * writes.block()).step_by(TURN_BYTES as usize);
    let ways = lates.flat_map(|late| (0..=ends.len()).map(move |open| (late, open)));
    let ways = ways.map(|(late, open)| (writes.unexplained(&pauses, &ends[open..], late), late, open as u64));
    let better =
        |a: &(f64, i64, u64), b: &(f64, i64, u64)| a.0.total_cmp(&b.0).then(a.1.abs().cmp(&b.1.abs()));
    let (unexplained, late, open) = ways.min_by(better)?;
    Some(Reopened { open, all, usual, long, late, explained: 1.0 - unexplained / all as f64 })
}

impl Writes<'_> {
    /// Pauses that are not as long as expected when the units of `again` are opened again, and the cache is so much longer.
    fn unexplained(&self, pauses: &[(u64, f64)], again: &[u64], late: i64) -> f64 {
        let longest = |end: &u64| {
            let range = self.out(*end, late - self.block()) + 1..=self.out(*end, late);
            let inside = pauses.iter().filter(|(end, _)| range.contains(end));
            inside.fold(0.0, |most: f64, (_, share)| most.max(*share))
        };
        let found: f64 = again.iter().map(longest).sum();
        pauses.iter().map(|(_, share)| share).sum::<f64>() - found + (again.len() as f64 - found)
    }

    /// Usual pause, ns, between two positions: there are as many as blocks of the cache.
    fn usual(&self, from: u64, to: u64) -> f64 {
        let mut all: Vec<f64> = self.pauses(from, to).map(|(_, ns)| ns).collect();
        all.sort_by(f64::total_cmp);
        let blocks = ((to - from) / self.cache.block_bytes.max(1)) as f64;
        let place = all.len().saturating_sub(1 + (blocks * (1.0 - USUAL)) as usize);
        all.get(place).copied().unwrap_or(0.0).max(1.0)
    }
}

/// Units of the FAT area that need not be opened again, beside more others than can be open.
pub(crate) fn kept_aus(samples: &Samples) -> Vec<u64> {
    let Some((writes, linear)) = Writes::of(samples).zip(reopened(samples, Test::OpenLinear)) else {
        return Vec::new();
    };
    if linear.open == linear.all {
        return Vec::new();
    }
    let fat = writes.all.iter().filter(|(sample, _)| sample.test == Test::Fat);
    // Where the unit of the writes in order was closed for it, that must be opened again: in the next block at the latest.
    let is_kept = |end: u64| {
        let mut pauses = writes.pauses(
            writes.out(end, linear.late - writes.block() * 3 / 2),
            writes.out(end, linear.late + writes.block()),
        );
        pauses.all(|(_, ns)| ns < linear.usual * LONGER)
    };
    fat.filter(|(_, end)| is_kept(*end)).map(|(sample, _)| sample.about).collect()
}

/// Pause by the number of units that were written since the one that is written again.
pub(crate) fn costs(samples: &Samples, test: Test) -> Vec<(u64, f64)> {
    let Some(Reopened { open, all, usual, long, .. }) = reopened(samples, test) else { return Vec::new() };
    (1..=all).map(|number| (number, if number > open { long } else { usual })).collect()
}
