//! Open allocation units behind a cache in flash.
//!
//! The cache gives its contents out in the order in which they came, a block at a time: what is written now makes the card write to the allocation
//! units what came a cache's length before. So a number of units are opened one after the other, and when they are in no cache any more, they are
//! written again, the last one first. The first ones are still open; from some unit on each must be opened again, for which another is closed, and the
//! cache pauses longer. Writes in order between them, a block of the cache at least, keep their pauses apart.

use super::caches::{Cache, cache};
use super::open_aus::{MOST, TURN_BYTES};
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

/// Largest cache behind which open allocation units are looked for, B: it is written through several times.
pub(crate) const CACHE_MAX: u64 = 128 << 20;

/// A cache that hides what is done about allocation units: writes that wait until they are on the flash pause about once in a block, like those that
/// do not.
pub(crate) fn hiding_cache(samples: &Samples) -> Option<Cache> {
    let cache = cache(samples).filter(|cache| cache.block_bytes > 0 && cache.bytes <= CACHE_MAX)?;
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
/// Share of long pauses that are shorter than a long pause: what is copied for a unit that is closed differs.
const LONG: f64 = 0.1;
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

    /// Time above that of a write that finds room, ns, of the writes of these tests between two positions.
    fn pauses(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, f64)> + '_ {
        let first = self.all.partition_point(|(_, end)| *end <= from);
        let inside = self.all[first..].iter().take_while(move |(_, end)| *end <= to);
        inside
            .filter(|(sample, _)| is_turn(sample))
            .map(|(sample, end)| (*end, sample.ns as f64 - self.quiet))
    }

    /// Position at which what was written at another comes out of the cache, if that is so much longer than it is taken for.
    fn out(&self, position: u64, late: i64) -> u64 {
        (position + self.cache.bytes).saturating_add_signed(late)
    }

    /// Length of a block, B.
    const fn block(&self) -> i64 {
        self.cache.block_bytes.cast_signed()
    }
}

/// True for a write of the tests of allocation units, and those in order between them.
fn is_turn(sample: &Sample) -> bool {
    sample.bytes == TURN_BYTES
        && matches!(sample.test, Test::Push | Test::OpenLinear | Test::OpenRandom | Test::Fat)
}

/// Units of a test that were written again, and the pauses in which they come out of the cache.
struct Series<'a> {
    writes: &'a Writes<'a>,
    ends: Vec<u64>,
    usual: f64,
    long: f64,
    /// Positions, and how much of the way from a usual to a long pause each pause is.
    shares: Vec<(u64, f64)>,
}

impl<'a> Series<'a> {
    /// `None` when not all has come out of the cache.
    fn of(writes: &'a Writes<'a>, test: Test) -> Option<Self> {
        let ends = writes.ends(test);
        let (first, last) = (*ends.first()?, *ends.last()?);
        let (from, to) =
            (writes.out(first, -2 * writes.block()), writes.out(last, (LATE + 1) * writes.block()));
        let is_out = writes.all.last().is_some_and(|(_, end)| *end >= to);
        if !is_out || ends.len() as u64 > MOST {
            return None;
        }
        // Before the first unit there are only writes in order.
        let usual = writes.usual(from.saturating_sub(writes.cache.bytes), from);
        let pauses = || writes.pauses(from, to);
        let long = quantile(pauses().map(|(_, ns)| ns).filter(|ns| *ns > usual * LONGER), LONG);
        let share = |(end, ns): (u64, f64)| (end, ((ns - usual) / (long - usual)).clamp(0.0, 1.0));
        let shares = if long > usual { pauses().map(share).collect() } else { Vec::new() };
        Some(Self { writes, ends, usual, long, shares })
    }

    /// The number of units that were still open that explains most pauses when the cache is so much longer than it is taken for; and how many pauses it
    /// does not explain.
    fn open(&self, late: i64) -> (u64, f64) {
        let longest = |end: &u64| {
            let from = self.writes.out(*end, late - self.writes.block());
            let first = self.shares.partition_point(|(end, _)| *end <= from);
            let inside = self.shares[first..].iter().take_while(|(at, _)| *at <= self.writes.out(*end, late));
            inside.fold(0.0, |most: f64, (_, share)| most.max(*share))
        };
        // With all units open, every longer pause is unexplained.
        let mut unexplained: f64 = self.shares.iter().map(|(_, share)| share).sum();
        let mut best = (self.ends.len() as u64, unexplained);
        for (open, end) in self.ends.iter().enumerate().rev() {
            unexplained += 1.0 - 2.0 * longest(end);
            if unexplained < best.1 {
                best = (open as u64, unexplained);
            }
        }
        best
    }

    fn counted(&self, late: i64) -> Reopened {
        let (open, unexplained) = self.open(late);
        let all = self.ends.len() as u64;
        let explained = 1.0 - unexplained / all as f64;
        Reopened { open, all, usual: self.usual, long: self.long, late, explained }
    }
}

/// Counts the units in order and in any order that had to be opened again. For both the cache is as long as explains most.
pub(crate) fn reopened(samples: &Samples) -> [Option<Reopened>; 2] {
    let Some(writes) = Writes::of(samples) else { return [None, None] };
    let series = [Test::OpenLinear, Test::OpenRandom].map(|test| Series::of(&writes, test));
    let unexplained = |late: i64| series.iter().flatten().map(|series| series.open(late).1).sum::<f64>();
    let lates = (-writes.block()..=LATE * writes.block()).step_by(TURN_BYTES as usize);
    let all = lates.map(|late| (unexplained(late), late));
    let best = all.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.abs().cmp(&b.1.abs())));
    let late = best.map_or(0, |(_, late)| late);
    series.map(|series| series.map(|series| series.counted(late)))
}

impl Writes<'_> {
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
    let [Some(linear), _] = reopened(samples) else { return Vec::new() };
    let Some(writes) = Writes::of(samples).filter(|_| linear.open < linear.all) else { return Vec::new() };
    let fat = writes.all.iter().filter(|(sample, _)| sample.test == Test::Fat);
    // Where the unit of the writes in order was closed for it, that must be opened again: in the next block at the latest.
    let is_kept = |end: u64| {
        let from = writes.out(end, linear.late - writes.block() * 3 / 2);
        writes
            .pauses(from, writes.out(end, linear.late + writes.block()))
            .all(|(_, ns)| ns < linear.usual * LONGER)
    };
    fat.filter(|(_, end)| is_kept(*end)).map(|(sample, _)| sample.about).collect()
}

/// Pause by the number of units that were written since the one that is written again.
pub(crate) fn costs(samples: &Samples, test: Test) -> Vec<(u64, f64)> {
    let [linear, random] = reopened(samples);
    let counted = if test == Test::OpenLinear { linear } else { random };
    let Some(Reopened { open, all, usual, long, .. }) = counted else { return Vec::new() };
    (1..=all).map(|number| (number, if number > open { long } else { usual })).collect()
}
