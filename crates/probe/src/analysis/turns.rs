//! Few open allocation units behind a cache in flash: units are written in turn, and nothing else comes out of the cache.

use super::caches::Cache;
use super::open_aus::TURN_BYTES;
use super::train::{Pass, distance, settled_bytes};
use crate::sample::{Sample, Samples, Test};
use std::collections::{BTreeMap, BTreeSet};

/// Most units that are written in turn so.
pub(crate) const TURNS_MOST: u64 = 8;
/// Part of the pause for one unit below which none was closed.
const FREE: f64 = 0.3;
/// Part from which on two were.
const TWO: f64 = 1.5;
/// Pauses, besides those for each unit that is opened first, from which on units are closed for others.
const CLOSED: usize = 2;

/// Passes that have queries of a test, each with the pause for one unit, and with these queries and their pauses, ns.
fn passes<'a>(
    samples: &'a Samples,
    cache: &Cache,
    test: Test,
) -> impl Iterator<Item = (f64, Vec<(&'a Sample, f64)>)> {
    let numbers: BTreeSet<u64> = samples.of(test).map(|sample| sample.about).collect();
    let cache = *cache;
    numbers.into_iter().map(move |number| {
        let pass = Pass::of(samples, &cache, number);
        let unit_cost = pass.unit_cost();
        let all = pass.queries.iter().zip(&pass.costs).map(|(query, cost)| (query[0], *cost));
        (unit_cost, all.filter(|(first, _)| first.test == test).collect())
    })
}

/// Queries of a test whether so many units stay open: when one is closed for another, it takes along what the cache has of it, and is not opened
/// again until that has been given out.
pub(crate) const fn turns(cache: &Cache, units: u64) -> u64 {
    let delay = settled_bytes(cache) / distance(cache);
    units + 4 * if units > delay { units } else { delay }
}

/// The number of units that were written in turn, each backwards, and true when none had to be closed for another.
pub(crate) fn in_turn(samples: &Samples, cache: &Cache) -> Option<(u64, bool)> {
    let (unit_cost, queries) = passes(samples, cache, Test::TurnRandom).last()?;
    let (first, _) = queries.first()?;
    // The first unit comes again at the place before.
    let units =
        1 + queries[1..].iter().position(|(sample, _)| sample.position + TURN_BYTES == first.position)?;
    let closed = queries.iter().filter(|(_, cost)| *cost > FREE * unit_cost).count();
    Some((units as u64, closed < units + CLOSED))
}

/// Units of the FAT area that were written again, each with another unit, and true if no further one was closed for it.
pub(crate) fn fat(samples: &Samples, cache: &Cache) -> BTreeMap<u64, bool> {
    let of_pass = |(unit_cost, queries): (f64, Vec<(&Sample, f64)>)| {
        queries
            .into_iter()
            .map(move |(first, cost)| (first.position, cost < TWO * unit_cost))
            .collect::<Vec<_>>()
    };
    passes(samples, cache, Test::TurnFat).flat_map(of_pass).collect()
}
