//! Counting open allocation units behind a cache in flash.
//!
//! The cache is a FIFO of blocks: a write makes the card move the data that was written one cache length earlier to its
//! allocation units. The test opens a number of units one after the other, waits until the cache no longer holds them,
//! and writes them again, the last one first. Units that are still open cost nothing extra. From some unit on, each
//! must be opened again, which closes another one, and the cache pauses longer. Each rewrite starts at the beginning of
//! its own cache block, so that the pauses do not overlap.

use super::caches::{Cache, LATE, cache};
use crate::answer::Answer;
use crate::sample::{AUS_MOST, Kind, Sample, Samples, TURN_BYTES, Test};
use crate::stats::quantile;

/// Blocks between rewrites of units in the FAT area. They span more than one allocation unit, so that a unit of the
/// sequential writes that was closed by the test counts as written in random order.
pub(crate) const FAT_BLOCKS: u64 = 5;
/// Blocks after the last unit of a test whose pauses may still include part of its cost.
const SETTLED: usize = 2;

/// Number of sequential writes that flush all earlier data out of the cache, plus some usual pauses for comparison.
pub(crate) const fn push_writes(cache: &Cache) -> u64 {
    (cache.bytes + (2 * LATE + 4) * cache.block_bytes).div_ceil(TURN_BYTES)
}

/// Largest cache behind which open allocation units are looked for, B: it is written through several times.
pub(crate) const CACHE_MAX: u64 = 128 << 20;
/// Like `CACHE_MAX` where the allocation unit is a guess, which is not worth as many writes, B.
const CACHE_MAX_OF_GUESS: u64 = 64 << 20;
/// Confidence in an allocation unit below which it is a guess.
pub(crate) const GUESS: f64 = 0.6;

/// True for a cache too large to count open allocation units behind it.
pub(crate) fn is_too_large(cache: &Cache, erase_block: &Answer) -> bool {
    cache.bytes > if erase_block.confidence < GUESS { CACHE_MAX_OF_GUESS } else { CACHE_MAX }
}

/// The cache, if it hides open and closed allocation units: synchronous writes then pause about once a block, like
/// asynchronous ones.
pub(crate) fn hiding_cache(samples: &Samples) -> Option<Cache> {
    let cache = cache(samples).filter(|cache| cache.block_bytes > 0 && cache.bytes <= CACHE_MAX)?;
    let times = || samples.with_test(Test::Push).map(|sample| sample.ns);
    let limit = pause_ns(samples, &cache, Test::Push);
    let pauses = times().filter(|ns| *ns > limit).count() as u64 * cache.block_bytes;
    let written = times().count() as u64 * TURN_BYTES;
    (written > 0 && (written * 3 / 5..=2 * written).contains(&pauses)).then_some(cache)
}

/// Time of a write in this test above which the write waited for the cache to evict a block, ns.
pub(crate) fn pause_ns(samples: &Samples, cache: &Cache, test: Test) -> u64 {
    (quantile(samples.with_test(test).map(|sample| sample.ns as f64), 0.5) + cache.pause) as u64
}

/// Statistics of the units that were written again.
pub(crate) struct Reopened {
    /// Number of units that were still open, and number of units written again.
    pub(crate) open: u64,
    pub(crate) all: u64,
    /// Median pause of a unit that is still open, and of a unit that must be opened again, ns. The latter is 0 without
    /// such units.
    pub(crate) usual: f64,
    pub(crate) long: f64,
    /// Share of the pauses whose length matches this number of open units.
    pub(crate) explained: f64,
    /// Median absolute logarithm of the ratio of consecutive pauses.
    pub(crate) alternation: f64,
}

/// Ratio to the usual pause above which a pause is longer than usual.
const LONGER: f64 = 1.1;
/// Quantile of the usual pauses that is used as their upper bound.
const USUAL: f64 = 0.9;
/// Quantile of the long pauses that is used as their lower bound: the amount copied when a unit is closed varies.
const LONG: f64 = 0.1;
/// Quantile of write times that counts as a write without a pause: even with the smallest block, fewer than one write
/// in three pauses.
const QUIET: f64 = 0.3;
/// Largest number of apparently open units when really only one can be open, and the alternation of the pauses that
/// tells the two cases apart.
const ALONE: usize = 2;
const ALTERNATE: f64 = 0.55;
/// Upper limit of the logarithm of the ratio of two pauses: a larger ratio is no stronger evidence of an edge.
const CLEAR_EDGE: f64 = 0.7;
/// Share of a usual pause below which a write did not pause.
const NONE: f64 = 0.25;
/// Share of a block after which the next pause may follow: writes to uncached areas shorten the distance.
const NEXT: f64 = 0.75;

/// Bytes after a pause within which a slow write does not count as the next pause.
pub(crate) fn next_bytes(cache: &Cache) -> u64 {
    (cache.block_bytes as f64 * NEXT) as u64
}

/// Cache blocks that were filled by the tests of allocation units. The first write of each block pauses while the card
/// empties the oldest one.
struct Blocks<'a> {
    /// Writes of these tests, each with the number of its block.
    writes: Vec<(&'a Sample, usize)>,
    /// Pause of each block, ns: its time above a write without a pause.
    pauses: Vec<f64>,
    /// Distance in blocks between a write and its eviction.
    depth: usize,
}

impl<'a> Blocks<'a> {
    fn from_samples(samples: &'a Samples) -> Option<Self> {
        let cache = hiding_cache(samples)?;
        // Queries of other tests, before or after these tests, are in other blocks and are left out.
        let opened = samples.all.iter().position(|sample| sample.test == Test::OpenLinear)?;
        let is_loop = |sample: &Sample| sample.test == Test::Loop;
        let before = samples.all[..opened].iter().rposition(is_loop).unwrap_or(0);
        let end = samples.all[opened..].iter().position(is_loop).map_or(samples.all.len(), |at| opened + at);
        let first = before + samples.all[before..].iter().position(|sample| sample.test == Test::Push)?;
        let turns = samples.all[first..end].iter().filter(|sample| is_turn(sample));
        let single = turns.clone().filter(|sample| sample.bytes == TURN_BYTES);
        let quiet = quantile(single.map(|sample| sample.ns as f64), QUIET);
        let block = cache.block_bytes as f64;
        let (mut writes, mut pauses) = (Vec::new(), Vec::new());
        // Number of the block that last began with a pause, and number of bytes since then. No pause occurs if the
        // evicted block has no data left.
        let (mut number, mut since) = (0, 0.0);
        for sample in turns {
            let pause = sample.ns as f64 - quiet * (sample.bytes as f64 / TURN_BYTES as f64);
            if since > next_bytes(&cache) as f64 && pause > cache.pause {
                number += libm::round(since / block) as usize;
                since = 0.0;
            }
            let inside = number + (since / block) as usize;
            pauses.resize(pauses.len().max(inside + 1), 0.0);
            pauses[inside] += pause.max(0.0);
            writes.push((sample, inside));
            since += sample.bytes as f64;
        }
        let mut blocks = Self { writes, pauses, depth: 0 };
        let depth = (libm::round(cache.bytes as f64 / block) as usize).max(1);
        let depths = depth - 1..=depth + LATE as usize;
        let usual = quantile(blocks.pauses.iter().copied(), 0.5).max(1.0);
        let edges = depths.map(|depth| (depth, blocks.edges(depth, usual)));
        blocks.depth = edges.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(depth, |(depth, _)| depth);
        Some(blocks)
    }

    /// Units of a test that were written again, each with its block, in order.
    fn again(&self, test: Test) -> impl Iterator<Item = (u64, usize)> + '_ {
        let of_test = self.writes.iter().filter(move |(sample, _)| sample.test == test);
        of_test.map(|(sample, block)| (sample.about, *block))
    }

    /// Evidence for an eviction distance of `depth` blocks: a sum of logarithms of ratios. They are the ratios by which
    /// pauses grow at the first unit opened in random order, and by which they shrink after the last rewrite of each
    /// test. `usual` is the shortest pause that counts, ns.
    fn edges(&self, depth: usize, usual: f64) -> f64 {
        let pause = |block: usize| libm::log(self.pauses.get(block).copied().unwrap_or(0.0).max(usual));
        let tests = [Test::OpenLinear, Test::OpenRandom];
        // The ratio of each edge is limited, because the first units may be opened without closing another unit, so
        // that the largest ratio can belong to a later unit.
        let edge = |block: usize, beside: usize| (pause(block) - pause(beside)).min(CLEAR_EDGE);
        let last = tests.into_iter().filter_map(|test| self.again(test).last());
        let ends: f64 = last.map(|(_, block)| edge(block + depth, block + depth + 1)).sum();
        let opened = self.opened(Test::OpenRandom);
        ends + opened.map_or(0.0, |block| edge(block + depth, block + depth - 1))
    }

    /// Block in which the first unit of a test was opened.
    fn opened(&self, test: Test) -> Option<usize> {
        let (_, again) = self.again(test).next()?;
        let is_before = |(sample, block): &&(&Sample, usize)| sample.test == Test::WarmUp && *block < again;
        let opened = self.writes.iter().rev().filter(is_before).take(self.again(test).count());
        opened.last().map(|(_, block)| *block)
    }

    /// Pause during which the data written in `block` is evicted, ns.
    fn out(&self, block: usize) -> Option<f64> {
        self.pauses.get(block + self.depth).copied()
    }

    /// Pauses of blocks that hold only sequential writes, before the first unit was written again.
    fn usual(&self, test: Test) -> Option<&[f64]> {
        let first = self.writes.iter().position(|(sample, _)| sample.test == test)?;
        let (_, last) = self.writes[..first].iter().rev().find(|(sample, _)| sample.test == Test::WarmUp)?;
        self.pauses.get(last + 1 + SETTLED + self.depth..self.writes[first].1 + self.depth)
    }

    /// Counts the units of a test that had to be opened again. `None` if some of the data is still in the cache.
    fn reopened(&self, test: Test) -> Option<Reopened> {
        let usual = self.usual(test)?;
        let mut again: Vec<f64> =
            self.again(test).map(|(_, block)| self.out(block)).collect::<Option<_>>()?;
        let all = again.len() as u64;
        if all > AUS_MOST || usual.is_empty() {
            return None;
        }
        let alternation = alternation(&again[ALONE.min(again.len())..]);
        share_out(&mut again, quantile(usual.iter().copied(), 0.5) * NONE);
        // The pauses are split where both parts vary least: the first pauses are as long as usual, and the others are
        // longer.
        let least = quantile(usual.iter().copied(), 0.5).max(1.0);
        let logs: Vec<f64> = usual.iter().chain(&again).map(|ns| libm::log(ns.max(least))).collect();
        let splits = (0..again.len()).map(|open| {
            let (short, long) = logs.split_at(usual.len() + open);
            (open, spread(short) + spread(long))
        });
        let open = splits.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(open, _)| open);
        let usual = quantile(usual.iter().chain(&again[..open]).copied(), USUAL);
        let is_alone = open <= ALONE && self::alternation(&again[open..]) > ALTERNATE;
        let open = if is_alone { 0 } else { open };
        let long = quantile(again[open..].iter().copied().filter(|ns| *ns > usual), LONG);
        if quantile(again[open..].iter().copied(), 0.5) < usual * LONGER {
            return Some(Reopened { open: all, all, usual, long: 0.0, explained: 1.0, alternation });
        }
        let limit = f64::midpoint(usual, long);
        let right = again.iter().enumerate().filter(|(unit, ns)| (**ns > limit) == (*unit >= open)).count();
        let explained = right as f64 / all as f64;
        Some(Reopened { open: open as u64, all, usual, long, explained, alternation })
    }
}

/// Spreads a pause evenly over the pauses after it that are shorter than `none`: those units were still in the cache
/// when they were closed, and were written in the same pause.
fn share_out(pauses: &mut [f64], none: f64) {
    let mut first = 0;
    while first < pauses.len() {
        let count = 1 + pauses[first + 1..].iter().take_while(|ns| **ns < none).count();
        let mean = pauses[first..first + count].iter().sum::<f64>() / count as f64;
        pauses[first..first + count].fill(mean);
        first += count;
    }
}

/// Median absolute logarithm of the ratio of consecutive pauses.
///
/// If only one unit can be open, each rewrite closes the unit of the sequential writes, and the card writes all cached
/// data of that unit at once. Every second or third pause is then short; the others are long, because the next
/// sequential write closes the rewritten unit.
fn alternation(pauses: &[f64]) -> f64 {
    let factors = pauses.windows(2).map(|two| libm::log(two[1].max(1.0) / two[0].max(1.0)).abs());
    quantile(factors, 0.5)
}

/// Sum of the squares of the differences from the mean.
fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.iter().map(|value| (value - mean) * (value - mean)).sum()
}

/// True for a write of the allocation unit tests, or a sequential write between them.
fn is_turn(sample: &Sample) -> bool {
    sample.kind == Kind::Write
        && matches!(
            sample.test,
            Test::Push | Test::WarmUp | Test::OpenLinear | Test::OpenRandom | Test::Fat | Test::FatSpeed
        )
}

/// Statistics of the units written in order and in random order.
pub(crate) fn reopened(samples: &Samples) -> [Option<Reopened>; 2] {
    let Some(blocks) = Blocks::from_samples(samples) else { return [None, None] };
    [Test::OpenLinear, Test::OpenRandom].map(|test| blocks.reopened(test))
}

/// Units of the FAT area that stay open although more other units are written than can be open.
pub(crate) fn kept_aus(samples: &Samples) -> Vec<u64> {
    let Some(blocks) = Blocks::from_samples(samples) else { return Vec::new() };
    let Some(linear) = blocks.reopened(Test::OpenLinear).filter(|linear| linear.open < linear.all) else {
        return Vec::new();
    };
    let limit = f64::midpoint(linear.usual, linear.long);
    // If the rewrite closed the unit of the sequential writes, this unit is opened again in the next block at the
    // latest. Therefore both blocks are compared.
    let is_kept = |block: usize| {
        let around = blocks.pauses.get(block + blocks.depth..=block + blocks.depth + 1);
        around.is_some_and(|around| around.iter().all(|ns| *ns < limit))
    };
    blocks.again(Test::Fat).filter(|(_, block)| is_kept(*block)).map(|(au, _)| au).collect()
}

/// Pause by the number of other units that were written before the rewrite.
pub(crate) fn costs(samples: &Samples, test: Test) -> Vec<(u64, f64)> {
    let [linear, random] = reopened(samples);
    let counted = if test == Test::OpenLinear { linear } else { random };
    let Some(Reopened { open, all, usual, long, .. }) = counted else { return Vec::new() };
    (1..=all).map(|number| (number, if number > open { long } else { usual })).collect()
}
