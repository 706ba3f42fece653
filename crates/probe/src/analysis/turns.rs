//! Exact number of open allocation units behind a cache, for small numbers: units are written round robin, and no other
//! data leaves the cache.

use super::caches::Cache;
use super::train::{Pass, distance, settled_bytes};
use crate::sample::{Sample, Samples, TURN_BYTES, Test};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of units for this test.
pub(crate) const TURNS_MOST: u64 = 8;
/// Share of the pause for one unit below which no unit was closed.
const FREE: f64 = 0.3;
/// Ratio to the pause for one unit above which two units were closed.
const TWO: f64 = 1.5;
/// Ratios to the pause for one unit that clearly indicate one unit, or two.
const CLEARLY_ONE: std::ops::Range<f64> = 0.3..1.35;
const CLEARLY_TWO: std::ops::Range<f64> = 1.65..4.0;
/// Number of extra pauses, besides the first opening of each unit, that show that units were closed for others.
const CLOSED: usize = 2;

/// Passes with queries of a test: the pause for one unit, and the queries with their pauses, ns.
fn passes<'a>(
    samples: &'a Samples,
    cache: &Cache,
    test: Test,
) -> impl Iterator<Item = (f64, Vec<(&'a Sample, f64)>)> {
    let numbers: BTreeSet<u64> = samples.with_test(test).map(|sample| sample.about).collect();
    let cache = *cache;
    numbers.into_iter().map(move |number| {
        let pass = Pass::from_samples(samples, &cache, number);
        let unit_cost = pass.unit_cost();
        let all = pass.queries.iter().zip(&pass.costs).map(|(query, cost)| (query[0], *cost));
        (unit_cost, all.filter(|(first, _)| first.test == test).collect())
    })
}

/// Number of queries in a test whether `units` stay open. A unit that is closed takes its cached data along, and is not
/// opened again until that data has been evicted.
pub(crate) const fn turns(cache: &Cache, units: u64) -> u64 {
    let delay = settled_bytes(cache) / distance(cache);
    units + 4 * if units > delay { units } else { delay }
}

/// Number of units that were written round robin, each backwards, and true if none had to be closed for another.
pub(crate) fn in_turn(samples: &Samples, cache: &Cache) -> Option<(u64, bool)> {
    let (unit_cost, queries) = passes(samples, cache, Test::TurnRandom).last()?;
    let (first, _) = queries.first()?;
    // The round ends when the first unit is written again, at the position before its first write.
    let units =
        1 + queries[1..].iter().position(|(sample, _)| sample.position + TURN_BYTES == first.position)?;
    let closed = queries.iter().filter(|(_, cost)| *cost > FREE * unit_cost).count();
    Some((units as u64, closed < units + CLOSED))
}

/// Positions in units of the FAT area, with true if rewriting the unit together with another one closed no unit.
/// Unclear units are left out. Two units are opened in place of those that are closed, so that their pauses are twice
/// as long.
pub(crate) fn fat(samples: &Samples, cache: &Cache) -> BTreeMap<u64, bool> {
    let Some((unit_cost, queries)) = passes(samples, cache, Test::TurnFat).last() else {
        return BTreeMap::new();
    };
    let parts: Vec<f64> = queries.iter().map(|(_, cost)| cost / unit_cost.max(1.0)).collect();
    let is_clear = |part: &&f64| CLEARLY_ONE.contains(*part) || CLEARLY_TWO.contains(*part);
    if parts.iter().filter(is_clear).count() * 4 < parts.len() * 3 {
        return BTreeMap::new();
    }
    queries.iter().zip(parts).map(|((first, _), part)| (first.position, part < TWO)).collect()
}
