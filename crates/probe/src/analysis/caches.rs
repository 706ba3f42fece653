//! RAM buffer and cache in flash, and the write speed once they are full.

use super::period::{au_candidates, prior};
use super::{tenths, unwritten, us};
use crate::answer::{Answer, Value};
use crate::sample::{Sample, Samples, Test};
use crate::stats::{median, quantile, trimmed_mean};
use floatgate_mtd::size::text as size;
use std::collections::{BTreeMap, BTreeSet};

/// End of the fast start of a series of requests, with the mean times before and after it.
#[derive(Clone, Copy)]
struct Knee {
    bytes: u64,
    before: f64,
    after: f64,
}

/// Fewest requests in which a knee is looked for.
const KNEE_REQUESTS: usize = 32;
/// Factor by which requests are slower behind a knee.
const KNEE_FACTOR: f64 = 1.3;

/// Knee of a series: the point where the cumulative time is farthest below the straight line from the first request to
/// some later one, and all later requests are slower.
fn knee<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> Option<Knee> {
    let most = quantile(samples.clone().map(|sample| sample.ns as f64), 0.999);
    let times: Vec<(u64, f64)> = samples.map(|sample| (sample.bytes, (sample.ns as f64).min(most))).collect();
    let lengths = std::iter::successors(Some(times.len()), |length| Some(length / 2));
    let lengths = lengths.take_while(|length| *length >= KNEE_REQUESTS);
    let knees = lengths.filter_map(|length| {
        let (count, below) = farthest_below(&times[..length])?;
        let (first, rest) = times.split_at(count);
        let mean = |part: &[(u64, f64)]| part.iter().map(|(_, ns)| ns).sum::<f64>() / part.len() as f64;
        let bytes = first.iter().map(|(bytes, _)| bytes).sum();
        Some((Knee { bytes, before: mean(first), after: mean(rest) }, below))
    });
    let visible = knees.filter(|(knee, below)| *below > 0.08 && knee.after > KNEE_FACTOR * knee.before);
    visible.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(knee, _)| knee)
}

/// Number of requests at which the cumulative time is farthest below the straight line, and that distance as a share of
/// the total.
fn farthest_below(times: &[(u64, f64)]) -> Option<(usize, f64)> {
    let total: f64 = times.iter().map(|(_, ns)| ns).sum();
    let (mut sum, mut best) = (0.0, None);
    for (count, (_, ns)) in (1..times.len()).zip(times) {
        sum += ns;
        let below = count as f64 / times.len() as f64 - sum / total;
        if best.is_none_or(|(_, most)| below > most) {
            best = Some((count, below));
        }
    }
    best
}

/// Maximum number of pauses that are evaluated.
const PAUSES_MAX: usize = 16;

/// Length of the fast start of the writes after each pause that has one, and the number of pauses.
fn knees(samples: &Samples) -> (Vec<Knee>, usize) {
    let pauses: BTreeSet<u64> = samples.with_test(Test::Burst).map(|sample| sample.about).collect();
    let pauses: Vec<u64> = pauses.into_iter().take(PAUSES_MAX).collect();
    let of = |pause: &u64| knee(samples.with_test(Test::Burst).filter(|sample| sample.about == *pause));
    (pauses.iter().filter_map(of).collect(), pauses.len())
}

/// Bytes after a pause that RAM or a small cache takes faster than the flash, 0 for none.
pub(crate) fn fast_bytes(samples: &Samples) -> u64 {
    let (knees, pauses) = knees(samples);
    let mut sizes: Vec<f64> = knees.iter().map(|knee| knee.bytes as f64).collect();
    if knees.len() * 2 > pauses { median(&mut sizes) as u64 } else { 0 }
}

/// Minimum slowdown of a sector write when the buffer has no room for its page.
const EVICTED: f64 = 1.12;

/// Median time of a sector write by the number of pages that are written round robin, ns.
fn scatter_costs(samples: &Samples) -> Vec<(u64, f64)> {
    let mut times: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for sample in samples.with_test(Test::Scatter) {
        times.entry(sample.about & u64::from(u32::MAX)).or_default().push(sample.ns as f64);
    }
    times.into_iter().map(|(pages, mut times)| (pages, median(&mut times))).collect()
}

/// True when the last two numbers of pages were more than the buffer holds: more pages would be slow, too.
pub(crate) fn is_beyond_buffer(samples: &Samples) -> bool {
    let costs = scatter_costs(samples);
    let (Some(one), Some(last)) = (costs.first(), costs.len().checked_sub(2)) else { return false };
    costs[last..].iter().all(|(_, ns)| *ns > EVICTED * one.1)
}

/// Number of partly written pages that the RAM buffer can hold, and the time of a sector write with this number and
/// with twice as many pages, ns. `None` unless one page is fast, and writes stay slow beyond some number of pages.
fn scattered(samples: &Samples) -> Option<(u64, f64, f64)> {
    let costs = scatter_costs(samples);
    let limit = EVICTED * costs.first()?.1;
    let room = costs.iter().take_while(|(_, ns)| *ns < limit).count();
    let is_cliff = costs[room..].iter().all(|(_, ns)| *ns > limit);
    let (pages, fast) = costs[room.checked_sub(1)?];
    let slow = costs.get(room)?.1;
    is_cliff.then_some((pages, fast, slow))
}

/// Confidence in the buffer.
const SCATTERED: f64 = 0.8;
/// Confidence in a buffer of one page: a smaller one, with room for less than a page, looks the same.
const ONE_PAGE: f64 = 0.5;
/// Number of pages from which the number of parts that the firmware remembers may be the limit, and not its RAM.
/// The confidence is [`ONE_PAGE`] then.
const MANY_PAGES: u64 = 64;

/// Answer about the RAM buffer for incomplete pages, of the size in `page`.
pub(crate) fn buffer(samples: &Samples, page: &Answer) -> Answer {
    if samples.with_test(Test::Burst).next().is_none() {
        return Answer::unknown("B", 0.0, unwritten(samples));
    }
    let (Some((pages, fast, slow)), Some(bytes)) = (scattered(samples), page.count()) else {
        let reason = match fast_bytes(samples) {
            0 => "not visible: the first writes after a pause are as slow as later ones, and round-robin writes to several pages show no limit".to_owned(),
            bytes => format!("the first {} after a pause are written faster than later ones, by RAM or by a cache", size(bytes)),
        };
        return Answer::unknown("B", 0.0, reason);
    };
    let is_clear = (2..MANY_PAGES).contains(&pages);
    let confidence = page.confidence.min(if is_clear { SCATTERED } else { ONE_PAGE });
    let reason = format!(
        "round-robin sector writes to {pages} page{} of {} take {}, to {} pages {}",
        if pages == 1 { "" } else { "s" },
        size(bytes),
        us(fast),
        2 * pages,
        us(slow)
    );
    Answer::found(Value::Count(pages * bytes), "B", confidence, reason)
}

/// Smallest cache in flash, B; anything less is a buffer.
const CACHE_MIN: u64 = 2 << 20;

/// A cache in flash.
#[derive(Clone, Copy)]
pub(crate) struct Cache {
    /// Capacity, B.
    pub(crate) bytes: u64,
    /// Mean time of a sequential write before the cache is full, ns.
    pub(crate) before: f64,
    /// Mean time of a sequential write when the cache is full, ns.
    pub(crate) after: f64,
    /// Eviction unit, B, if the cache evicts block by block; 0 otherwise.
    pub(crate) block_bytes: u64,
    /// Extra time over a write without a pause above which a write counts as a pause, ns.
    pub(crate) pause: f64,
}

/// Blocks by which the cache may be longer than measured: it may have been partly full at that time.
pub(crate) const LATE: u64 = 3;
/// Relative error of the measured length of a cache block.
const BLOCK_ERROR: f64 = 0.03;
/// Bits of a cell: MLC, TLC.
const BITS: [u64; 2] = [2, 3];

/// Allocation units that the blocks of a cache imply, the most usual first: a block stores one bit a cell and holds a
/// half or a third of a unit.
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

/// End of the cache, and the times of writes before and after it.
pub(crate) fn cache(samples: &Samples) -> Option<Cache> {
    let folding = |test| {
        let times: Vec<(u64, f64)> =
            samples.with_test(test).map(|sample| (sample.bytes, sample.ns as f64)).collect();
        folding(&times)
    };
    let buffer = fast_bytes(samples);
    let knee = || {
        let knee = knee(samples.with_test(Test::Fill))?;
        let Knee { bytes, before, after } = knee;
        (bytes >= CACHE_MIN.max(4 * buffer)).then_some(Cache {
            bytes,
            before,
            after,
            block_bytes: 0,
            pause: 0.0,
        })
    };
    folding(Test::Fill).or_else(|| folding(Test::Through)).or_else(knee)
}

/// Threshold of a pause, as a share of the extra time of the slowest 1 % of writes. Pauses differ, because some also
/// close an allocation unit. If the slowest writes are many times slower than others, the geometric mean is used.
const PAUSE_SHARE: f64 = 0.4;
/// Minimum number of pauses, and minimum share of them at equal distances.
const PAUSES_MIN: usize = 8;
const REGULAR: f64 = 0.75;
/// Minimum capacity of a cache in distances between pauses: it has several blocks.
const BLOCKS_MIN: usize = 3;
/// Minimum slowdown of writes when the cache is full.
const SLOWER: f64 = 1.03;

/// Cache that evicts block by block: from some write on, one write pauses every `block_bytes`.
fn folding(times: &[(u64, f64)]) -> Option<Cache> {
    let middle = quantile(times.iter().map(|(_, ns)| *ns), 0.5);
    let slow = quantile(times.iter().map(|(_, ns)| *ns), 0.99);
    let pause = ((slow * middle).sqrt() - middle).min(PAUSE_SHARE * (slow - middle));
    // If a write pauses, the next write may wait for the same operation. Both count as one pause.
    let is_long = |at: usize| times[at].1 > middle + pause;
    let pauses: Vec<usize> =
        (0..times.len()).filter(|at| is_long(*at) && (*at == 0 || !is_long(at - 1))).collect();
    let gaps: Vec<usize> = pauses.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut lengths: Vec<f64> = gaps.iter().map(|gap| *gap as f64).collect();
    let gap = median(&mut lengths).round().max(2.0);
    let is_near =
        |length: usize, blocks: f64| (length as f64 - blocks * gap).abs() <= blocks * (1.0 + gap / 16.0);
    let regular: Vec<f64> =
        gaps.iter().filter(|length| is_near(**length, 1.0)).map(|length| *length as f64).collect();
    // The mean is not a whole number of writes, because a block may end inside a write.
    let mean_gap = regular.iter().sum::<f64>() / regular.len().max(1) as f64;
    // No pause occurs if the evicted block has no data left. When a card closes an allocation unit, which takes a
    // longer pause, it also evicts the cached data of this unit, which is in up to three blocks.
    let usual = quantile(pauses.iter().map(|at| times[*at].1), 0.5);
    let is_first = |(at, length): &(&usize, &usize)| {
        let blocks = if times[**at].1 > 2.0 * usual { 3 } else { 2 };
        (1..=blocks).any(|blocks| is_near(**length, f64::from(blocks)))
    };
    let first = *pauses.iter().zip(&gaps).find(is_first)?.0;
    let covered = regular.len() as f64 * gap;
    let is_train = pauses.len() >= PAUSES_MIN
        && slow > 1.2 * middle
        && covered > REGULAR * (times.len() - first) as f64
        && first as f64 >= BLOCKS_MIN as f64 * gap;
    if !is_train {
        return None;
    }
    let (begin, rest) = times.split_at(first);
    let mean = |part: &[(u64, f64)]| part.iter().map(|(_, ns)| ns).sum::<f64>() / part.len() as f64;
    let (before, after) = (mean(begin), mean(rest));
    let bytes: u64 = begin.iter().map(|(bytes, _)| bytes).sum();
    let block_bytes = (bytes as f64 / first as f64 * mean_gap) as u64;
    (bytes >= CACHE_MIN && after > SLOWER * before).then_some(Cache {
        bytes,
        before,
        after,
        block_bytes,
        pause,
    })
}

/// Answer about a cache in flash: fast writes before slower ones.
pub(crate) fn slc_cache(samples: &Samples) -> Answer {
    if samples.with_test(Test::Fill).next().is_none() {
        return Answer::unknown("B", 0.0, unwritten(samples));
    }
    match cache(samples) {
        None => Answer::unknown("B", 0.8, "writes in order do not become slower"),
        Some(Cache { bytes, before, after, .. }) => {
            let factor = after / before;
            let reason = format!("after {} in order, writes become {factor:.1} times as slow", size(bytes));
            Answer::found(Value::Count(bytes), "B", 0.7, reason)
        }
    }
}

/// Sequential write speed after the cache is full.
pub(crate) fn write_speed(samples: &Samples) -> Answer {
    let cached = cache(samples).map_or(0, |knee| knee.bytes);
    let last = samples.with_test(Test::Refill).chain(samples.with_test(Test::Fill));
    let first = samples.with_test(Test::Fill).next().map_or(0, |sample| sample.position);
    let rest = last.filter(|sample| sample.position >= first + cached);
    let (bytes, ns) = rest.fold((0, 0), |(bytes, ns), sample| (bytes + sample.bytes, ns + sample.ns));
    if bytes == 0 {
        return Answer::unknown("MB/s", 0.0, unwritten(samples));
    }
    let reason = format!("mean of {} written in order", size(bytes));
    Answer::found(Value::Measure(tenths(bytes as f64 * 1e3 / ns.max(1) as f64)), "MB/s", 0.9, reason)
}

/// Number of final rounds that must agree (SNIA Performance Test Specification).
const WINDOW: usize = 5;

/// Speed of random writes in the last rounds, if they are steady: within a range of 20 % and with a slope of at most 10
/// % over the rounds.
pub(crate) fn steady_state(samples: &Samples) -> Answer {
    let rounds: BTreeSet<u64> = samples.with_test(Test::Random).map(|sample| sample.about).collect();
    let speed = |round: u64| {
        let inside = samples.with_test(Test::Random).filter(move |sample| sample.about == round);
        let bytes = inside.clone().next().map_or(0, |sample| sample.bytes);
        bytes as f64 * 1e3 / trimmed_mean(inside.map(|sample| sample.ns as f64)).max(1.0)
    };
    let Some(before) = rounds.len().checked_sub(WINDOW) else {
        return Answer::unknown("MB/s", 0.0, unwritten(samples));
    };
    let window: Vec<f64> = rounds.iter().skip(before).map(|round| speed(*round)).collect();
    let mean = window.iter().sum::<f64>() / WINDOW as f64;
    let range = window.iter().fold(0.0, |most: f64, speed| most.max((speed - mean).abs())) * 2.0;
    let slope = (2.0 * (window[4] - window[0]) + (window[3] - window[1])) / 10.0 * 4.0;
    let (range, slope) = (range / mean * 100.0, (slope / mean * 100.0).abs());
    if range > 20.0 || slope > 10.0 {
        let reason = format!("not reached in {} rounds: they differ by {range:.0} %", rounds.len());
        return Answer::unknown("MB/s", 0.7, reason);
    }
    let reason = format!("the last {WINDOW} rounds differ by {range:.0} %, their slope is {slope:.0} %");
    Answer::found(Value::Measure((mean * 100.0).round() / 100.0), "MB/s", 0.8, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some pauses close an allocation unit: they are four times as long as others here, forty times as long as a write that finds room.
    #[test]
    fn a_cache_may_pause_for_different_times() {
        let pauses = [34.0, 65.0, 124.0, 45.0, 130.0].iter().cycle();
        let behind = pauses.take(200).flat_map(|pause| [*pause, 13.0].into_iter().chain([2.8; 9]));
        let times: Vec<(u64, f64)> =
            [2.8; 165].into_iter().chain(behind).map(|ms| (128 << 10, ms * 1e6)).collect();
        let Cache { bytes, block_bytes, .. } = folding(&times).unwrap();
        assert_eq!((bytes, block_bytes), (165 * (128 << 10), 11 * (128 << 10)));
    }
}
