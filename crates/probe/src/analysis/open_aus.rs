//! Number of open allocation units: up to that number, units can be written round robin; with one more, each write
//! closes a unit.

use super::behind_cache::{self, Reopened, hiding_cache, is_too_large};
use super::borders::origin;
use super::caches::{Cache, cache, fast_bytes};
use super::turns;
use super::us;
use crate::answer::{Answer, Value};
use crate::sample::{Samples, Test};
use crate::stats::median;
use floatgate_mtd::size::text as size;
use std::collections::BTreeMap;

/// Offset that marks a repeated measurement of the same number of allocation units.
pub(crate) const REPEAT: u64 = 1 << 16;
/// Minimum slowdown when units are closed. Real cards show 2 (SanDisk) to 34.
const CLIFF: f64 = 1.7;
/// Slowdown above which a cliff is certain.
const CLEAR_CLIFF: f64 = 2.5;
/// Share of slow writes although no unit is closed, above which another cause is assumed: a cache too small to be
/// detected.
const PAUSING: f64 = 0.04;
/// Number of allocation units that are tested for belonging to the FAT area.
pub(crate) const FAT_AUS: u64 = 6;
/// Difference of the logarithms of speed that marks an allocation unit of the FAT area: 1.4 times.
const FAT_SPEED: f64 = 0.35;

pub(crate) struct OpenAus {
    pub(crate) linear: Answer,
    pub(crate) random: Answer,
    pub(crate) fat_area: Answer,
}

/// Time of a write by number of allocation units, ns. It is the time of the slowest unit, because a card that can write
/// few units in random order keeps others open. The minimum of each unit counts, which outliers do not change. `number`
/// returns the number of units for a parameter of the test.
fn costs(samples: &Samples, test: Test, number: impl Fn(u64) -> u64) -> BTreeMap<u64, f64> {
    let mut times: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for sample in samples.with_test(test) {
        times.entry(sample.about).or_default().push(sample.ns as f64);
    }
    let cost = |(about, times): (u64, Vec<f64>)| (about, slowest(&times, number(about)));
    times.into_iter().map(cost).collect()
}

/// Number of allocation units in a test that looks for the cliff.
const fn in_turn(about: u64) -> u64 {
    about % REPEAT
}

/// Time of a write by number of allocation units, ns; the shorter time if a number was measured twice.
pub(crate) fn costs_by_number(samples: &Samples, test: Test) -> BTreeMap<u64, f64> {
    if hiding_cache(samples).is_some() {
        return behind_cache::costs(samples, test).into_iter().collect();
    }
    let mut least = BTreeMap::new();
    for (about, cost) in costs(samples, test, in_turn) {
        let least = least.entry(in_turn(about)).or_insert(cost);
        *least = cost.min(*least);
    }
    least
}

/// Maximum over the units of their minimum times, ns.
fn slowest(times: &[f64], units: u64) -> f64 {
    let units = (units.max(1) as usize).min(times.len().max(1));
    let least = |unit: usize| times.iter().skip(unit).step_by(units).copied().fold(f64::INFINITY, f64::min);
    (0..units).map(least).filter(|least| least.is_finite()).fold(0.0, f64::max)
}

/// State of the search for the cliff.
pub(crate) struct Search {
    /// Largest number of allocation units known to stay open, and the time of a write, ns.
    pub(crate) good: Option<(u64, f64)>,
    /// Smallest number known not to stay open, and the time of a write, ns.
    pub(crate) bad: Option<(u64, f64)>,
    costs: BTreeMap<u64, f64>,
    /// Share of writes as slow as with closed units, although no unit should be closed.
    slow: f64,
}

impl Search {
    pub(crate) fn new(samples: &Samples, test: Test) -> Self {
        let costs = costs(samples, test, in_turn);
        // The time of a single unit in random order is compared with the time of a single unit in order.
        let alone = || self::costs(samples, Test::OpenLinear, in_turn).get(&1).copied();
        let mut base = Some(()).filter(|()| test == Test::OpenRandom).and_then(|()| alone());
        let (mut good, mut bad) = (None, None);
        // Occasional delays can only make a number seem slower. Therefore the shorter of two times is used.
        for (aus, cost) in costs_by_number(samples, test) {
            if base.is_some_and(|base: f64| cost > base * CLIFF) {
                bad = Some((aus, cost));
                break;
            }
            base = Some(base.map_or(cost, |base| base.max(cost)));
            good = Some((aus, cost));
        }
        let mut search = Self { good, bad, costs, slow: 0.0 };
        search.slow = search.slow(samples, test);
        search
    }

    /// Share of slow writes with as many units as can be open.
    fn slow(&self, samples: &Samples, test: Test) -> f64 {
        let (Some((good, _)), Some(limit)) = (self.good, self.limit()) else { return 0.0 };
        let open = || samples.with_test(test).filter(|sample| in_turn(sample.about) <= good);
        let slow = open().filter(|sample| sample.ns as f64 > limit).count();
        slow as f64 / open().count().max(1) as f64
    }

    /// Time of a write above which units are closed, ns.
    fn limit(&self) -> Option<f64> {
        Some((self.good?.1 * self.bad?.1).sqrt())
    }

    /// Number of allocation units to measure next, plus [`REPEAT`] if it was measured before. `None` when the search is
    /// complete.
    pub(crate) fn next(&self, most: u64) -> Option<u64> {
        let good = self.good.map_or(0, |(aus, _)| aus);
        match self.bad {
            None if good >= most => None,
            None => Some((good * 2).clamp(1, most)),
            Some((bad, _)) if bad > good + 1 => Some(u64::midpoint(good, bad)),
            Some((bad, _)) => {
                let again = [good, bad].map(|aus| aus + REPEAT);
                again.into_iter().find(|aus| *aus > REPEAT && !self.costs.contains_key(aus))
            }
        }
    }

    /// Confidence in the cliff, from its height and its reproduction.
    fn confidence(&self) -> f64 {
        let (Some((good, low)), Some((bad, high))) = (self.good, self.bad) else { return 0.8 };
        let again = |aus: u64| self.costs.get(&(aus + REPEAT)).copied();
        let Some(limit) = self.limit() else { return 0.8 };
        let agrees =
            again(good).is_none_or(|cost| cost < limit) && again(bad).is_none_or(|cost| cost > limit);
        let is_repeated = again(bad).is_some();
        match high / low {
            _ if !agrees || bad > good + 1 || self.slow > PAUSING => 0.4,
            ratio if ratio >= CLEAR_CLIFF && is_repeated => 0.95,
            ratio if ratio >= CLEAR_CLIFF => 0.85,
            _ => 0.7,
        }
    }
}

/// Allocation units that stay open next to as many others as can be open.
pub(crate) fn kept_aus(samples: &Samples, linear: &Search) -> Vec<u64> {
    let (Some((good, _)), Some(_), Some(limit)) = (linear.good, linear.bad, linear.limit()) else {
        return Vec::new();
    };
    costs(samples, Test::Fat, |_| good + 1)
        .into_iter()
        .filter(|(_, cost)| *cost < limit)
        .map(|(au, _)| au)
        .collect()
}

/// Removes units that cannot be a FAT area. Cards are formatted with only a partition table in the first allocation
/// unit and the FATs from the second on, so the area begins with one of these and has no gap. A later unit that seems
/// to stay open alone is one whose pause was missed.
fn keep_fat_area(kept: &mut Vec<u64>) {
    let first = kept.first().copied().filter(|first| *first < 2);
    let mut expected = first.unwrap_or(u64::MAX);
    kept.retain(|au| {
        let is_next = *au == expected;
        expected = expected.saturating_add(u64::from(is_next));
        is_next
    });
}

/// Allocation units whose speed differs from most others, with the ratio.
fn odd_aus(samples: &Samples) -> Vec<(u64, f64)> {
    let costs = costs(samples, Test::FatSpeed, |_| 1);
    let mut all: Vec<f64> = costs.values().copied().collect();
    let middle = median(&mut all);
    let faster = costs.into_iter().map(|(au, cost)| (au, middle / cost.max(1.0)));
    faster.filter(|(_, factor)| libm::log(*factor).abs() > FAT_SPEED).collect()
}

/// Largest plausible RAM buffer, B.
const RAM_MAX: u64 = 3 << 19;

/// Highest confidence in the number of sequential units: it includes the FAT area, which is measured once.
const ONE_FAT: f64 = 0.9;

/// Answers about open allocation units. `erase_block` is the allocation unit, `phase` the position of the first one;
/// the confidence of the results is limited by theirs.
pub(crate) fn conclude(samples: &Samples, erase_block: &Answer, phase: &Answer) -> OpenAus {
    let (Some(_), Some(au)) = (samples.with_test(Test::OpenLinear).next(), erase_block.count()) else {
        let why = if cache(samples).is_some_and(|cache| is_too_large(&cache, erase_block)) {
            "not measured: the cache in front of them is too large to be written through several times"
        } else if samples.with_test(Test::Fill).next().is_some() && erase_block.value.is_none() {
            "not measured: the allocation unit is not known"
        } else if samples.with_test(Test::Fill).next().is_some() {
            "not measured: the probe ended before, or the device has no room for the test"
        } else {
            "not visible in reads: writes need permission"
        };
        let unknown = |unit| Answer::unknown(unit, 0.0, why);
        return OpenAus { linear: unknown("AUs"), random: unknown("AUs"), fat_area: unknown("B") };
    };
    let odd = odd_aus(samples);
    let (mut answer, mut random, mut kept) = match hiding_cache(samples) {
        Some(cache) => {
            let (linear, random) = behind_cache(samples);
            (linear, random, kept_behind_cache(samples, &cache, au))
        }
        None => {
            let linear = Search::new(samples, Test::OpenLinear);
            let random = Search::new(samples, Test::OpenRandom);
            let kept = kept_aus(samples, &linear);
            // Two kinds of caches hide the closed units although no pauses are expected: a cache whose block size was
            // measured wrongly, and a small cache that looks like a buffer.
            let is_hidden = cache(samples).is_some() || fast_bytes(samples) > RAM_MAX;
            let most = if is_hidden { BEHIND_CACHE_WEAK } else { 1.0 };
            let answer = |search: &Search, test| {
                let answer = answer(search, test);
                Answer { confidence: answer.confidence.min(most), ..answer }
            };
            (answer(&linear, Test::OpenLinear), answer(&random, Test::OpenRandom), kept)
        }
    };
    keep_fat_area(&mut kept);
    // The FAT area cannot be most of the tested units.
    let is_doubtful = kept.len() as u64 * 2 > FAT_AUS;
    if is_doubtful {
        kept.clear();
    }
    // Units that are faster than the others are in a separate area. With a cache, the other units are faster than the
    // units that stay open without the cache.
    let is_apart = |au: &u64| odd.iter().any(|(odd, factor)| odd == au && *factor > 1.0);
    let pinned = kept.iter().filter(|au| !is_apart(au)).count() as u64;
    if let (Some(outside), true) = (answer.count(), pinned > 0) {
        answer.value = Some(Value::Count(outside + pinned));
        answer.reason = format!("{pinned} kept for the FAT area, and {outside} others: {}", answer.reason);
    }
    if is_doubtful {
        answer.confidence = answer.confidence.min(0.4);
    }
    answer.confidence = answer.confidence.min(ONE_FAT);
    limit_by_order(&answer, &mut random);
    let known = if phase.value.is_some() { phase.confidence } else { 1.0 };
    let limited = |answer: Answer| Answer {
        confidence: answer.confidence.min(erase_block.confidence).min(known),
        ..answer
    };
    OpenAus {
        linear: limited(answer),
        random: limited(random),
        fat_area: limited(fat_area(samples, au, &kept, &odd)),
    }
}

/// Highest confidence in contradictory numbers.
const CONTRADICTION: f64 = 0.4;

/// Limits the confidence in a number of random units that exceeds the number of sequential ones: a unit that can be
/// written in random order can also be written in order.
fn limit_by_order(linear: &Answer, random: &mut Answer) {
    let Some(any_order) = random.count() else { return };
    let Some(in_order) = linear.count() else {
        // A cache, for example, can hide the limit in order, and can then also change the limit in random order.
        random.confidence = random.confidence.min(ONE_OF_TWO);
        return;
    };
    if any_order > in_order {
        random.confidence = random.confidence.min(CONTRADICTION);
        random.reason = format!("{}, which contradicts {in_order} in order", random.reason);
    }
}

/// Confidence in numbers behind a cache: if pauses are clearly longer, slightly longer, or not where they are expected.
const BEHIND_CACHE: f64 = 0.9;
const BEHIND_CACHE_WEAK: f64 = 0.7;
/// Minimum ratio of clearly longer pauses.
const CLEAR_PAUSE: f64 = 1.5;
/// Minimum share of pauses of the expected length.
const EXPLAINED: f64 = 0.8;
/// Confidence in one of two numbers that cannot be distinguished.
const ONE_OF_TWO: f64 = 0.65;

/// Number of open units behind a cache, in order and in random order. The sequential writes of the test keep one more
/// unit open. If no other unit can be open at the same time, the measurement does not show whether the last one allows
/// random order; cards that treat all units alike are more usual.
pub(crate) fn behind_cache(samples: &Samples) -> (Answer, Answer) {
    let [linear, random] = behind_cache::reopened(samples);
    let alternations = [&linear, &random].map(|of| of.as_ref().map_or(0.0, |of| of.alternation));
    let (linear, mut random) = (reopened(linear, "in order", 1), reopened(random, "in random order", 0));
    let (Some(all), Some(found)) = (linear.count(), random.count()) else { return (linear, random) };
    if all == 1 {
        alone(&mut random, alternations);
    } else if found > 0 && found + 1 == all {
        random.value = Some(Value::Count(all));
        random.confidence = random.confidence.min(ONE_OF_TWO);
        random.reason =
            format!("{}; one more is open in order meanwhile, which may be one of them", random.reason);
        random = random.or([(found, 1.0 - ONE_OF_TWO)]);
        let in_turn = hiding_cache(samples).and_then(|cache| turns::in_turn(samples, &cache));
        if let Some((units, is_open)) = in_turn.filter(|(units, _)| *units == all) {
            let (units, stay) = if is_open { (units, "stay open") } else { (found, "do not all stay open") };
            let reason = format!(
                "behind the cache, {all} allocation units with round-robin writes in random order {stay}"
            );
            random = Answer::found(Value::Count(units), "AUs", BEHIND_CACHE, reason);
        }
    }
    (linear, random)
}

/// Units of the FAT area that stay open behind a cache, confirmed by the second test if that one is clear.
fn kept_behind_cache(samples: &Samples, cache: &Cache, au: u64) -> Vec<u64> {
    let from = origin(samples).unwrap_or(0);
    let tested = turns::fat(samples, cache);
    let is_closed =
        |kept: &u64| tested.iter().any(|(at, is_open)| !is_open && at.saturating_sub(from) / au == *kept);
    let mut kept = behind_cache::kept_aus(samples);
    kept.retain(|au| !is_closed(au));
    kept
}

/// Ratio of the alternation in random order to that in sequential order, above which both are alike.
const LIKE_IN_ORDER: f64 = 0.75;

/// Decides whether the single open unit can be written in random order. If so, closing it costs as much as in
/// sequential order, and its pauses alternate in the same way. A unit that is written only in order is copied up to the
/// position of the write when it is opened. In this test that is nearly all of it, so little remains to copy when it is
/// closed, and the pauses are even.
fn alone(random: &mut Answer, [in_order, any_order]: [f64; 2]) {
    let is_random = any_order > LIKE_IN_ORDER * in_order;
    random.value = Some(Value::Count(u64::from(is_random)));
    random.confidence = random.confidence.min(BEHIND_CACHE_WEAK);
    let alike = if is_random { "alternate as in order" } else { "do not alternate as in order" };
    random.reason = format!("{}; one is open at a time, and pauses {alike}", random.reason);
}

/// Answer about the number of open units, plus `others` that were open during the test.
fn reopened(counted: Option<Reopened>, order: &str, others: u64) -> Answer {
    let Some(Reopened { open, all, usual, long, explained, .. }) = counted else {
        return Answer::unknown("AUs", 0.0, "not measured");
    };
    if open == all {
        let reason = format!(
            "the cache pauses equally long for each of {all} allocation units written {order} before"
        );
        return Answer::unknown("AUs", 0.8, reason);
    }
    let reason = format!(
        "behind the cache, {open} of {all} allocation units could be continued {order}; for the others it pauses for {} instead of {}",
        us(long),
        us(usual)
    );
    let confidence = match long / usual {
        _ if explained < EXPLAINED => CONTRADICTION,
        ratio if ratio > CLEAR_PAUSE => BEHIND_CACHE,
        _ => BEHIND_CACHE_WEAK,
    };
    Answer::found(Value::Count(open + others), "AUs", confidence, reason).or([])
}

fn answer(search: &Search, test: Test) -> Answer {
    let order = if test == Test::OpenLinear { "in order" } else { "in random order" };
    let most = search.good.map_or(0, |(aus, _)| aus);
    match (search.good, search.bad) {
        (None, None) => Answer::unknown("AUs", 0.0, "not measured"),
        (_, None) => {
            let reason = format!(
                "round-robin writes to {most} allocation units {order} are as fast as to one: the card maps pages, a buffer hides it, or more can be open"
            );
            Answer::unknown("AUs", 0.8, reason)
        }
        (None, Some((_, high))) => {
            let reason = format!(
                "a single allocation unit written {order} takes {} a write, far more than in order",
                us(high)
            );
            Answer::found(Value::Count(0), "AUs", search.confidence(), reason)
        }
        (Some((good, low)), Some((bad, high))) => {
            let reason = format!(
                "a round-robin write to {bad} allocation units {order} takes {}, to {good} {}",
                us(high),
                us(low)
            );
            Answer::found(Value::Count(good), "AUs", search.confidence(), reason).or([])
        }
    }
}

fn fat_area(samples: &Samples, au: u64, kept: &[u64], odd: &[(u64, f64)]) -> Answer {
    if samples.with_test(Test::FatSpeed).next().is_none() {
        return Answer::unknown("B", 0.0, "not measured");
    }
    let mut aus: Vec<u64> = kept.iter().copied().chain(odd.iter().map(|(au, _)| *au)).collect();
    aus.sort_unstable();
    aus.dedup();
    let Some(first) = aus.first() else {
        let reason = format!(
            "the first {FAT_AUS} allocation units are as fast as each other, and each closes another"
        );
        return Answer::unknown("B", 0.8, reason);
    };
    let pinned = if kept.is_empty() { "" } else { "; it stays open when others are written" };
    let speed =
        odd.first().map_or_else(String::new, |(_, factor)| format!("; writes are {factor:.1} times as fast"));
    let reason = format!(
        "{} from {}{pinned}{speed}",
        size(au.saturating_mul(aus.len() as u64)),
        size(first.saturating_mul(au))
    );
    Answer::found(Value::Count(au.saturating_mul(aus.len() as u64)), "B", 0.85, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fat_area_begins_with_the_first_or_second_unit_and_has_no_gap() {
        for (kept, area) in
            [(vec![], vec![]), (vec![1, 2], vec![1, 2]), (vec![0, 1, 3], vec![0, 1]), (vec![2, 3], vec![])]
        {
            let mut left = kept.clone();
            keep_fat_area(&mut left);
            assert_eq!(left, area, "{kept:?}");
        }
    }

    #[test]
    fn more_units_in_any_order_than_in_order_are_doubtful() {
        let found = |aus| Answer::found(Value::Count(aus), "AUs", 0.95, "a cliff".to_owned());
        let confidence = |linear: &Answer, any_order| {
            let mut random = found(any_order);
            limit_by_order(linear, &mut random);
            (random.confidence * 100.0).round() as u64
        };
        assert_eq!(confidence(&found(5), 31), 40);
        assert_eq!(confidence(&found(5), 5), 95);
        // The cause that hides the number in order may also hide this number.
        assert_eq!(confidence(&Answer::unknown("AUs", 0.8, "no cliff"), 31), 65);
    }
}
