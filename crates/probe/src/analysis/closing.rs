//! Borders of allocation units that only writes show, to the sector.
//!
//! A card copies what an allocation unit has when it closes it, now or when it was opened. So one unit gets contents, and a write to a position is followed
//! by writes to so many other units that the card must close what the first opened: all of them together take longer where the position is in the unit
//! that has contents. From that unit on there is one position from which on they are short: its end.

use super::borders::au_candidates;
use super::open_aus::MOST;
use crate::sample::{SECTOR, Sample, Samples, Test};
use crate::stats::{deviation, quantile};
use std::collections::BTreeMap;

/// Fewest contents of a unit, B: half of those of the smallest one. Most of them.
pub(crate) const CONTENT_MIN: u64 = 256 << 10;
pub(crate) const CONTENT_MAX: u64 = 8 << 20;
/// Times that a position is tried; the shortest counts.
pub(crate) const TRIES: usize = 2;
/// Most borders that are looked for: two tell the allocation unit, the third must be where it tells, or is the second of two again.
pub(crate) const BORDERS: usize = 8;
/// Positions after which it is known whether contents are visible.
const POSITIONS_MIN: usize = 4;
/// Least time that contents must add, in deviations of a time without, and as a share of it.
const CLEAR: f64 = 8.0;
const CLEAR_SHARE: f64 = 0.15;
/// Share of the tries in which contents may add less.
const FEW: f64 = 0.25;
/// Numbers of the tries with contents and without among three.
const INSIDE: usize = 1;
const OUTSIDE: usize = 2;

/// Times of a position and of two others, in the unit that has contents and in one that has none, ns: each of a write together with those that close
/// what it opened, each with its weight, and the shortest of all tries.
#[derive(Clone, Copy, Debug)]
struct Times {
    position: f64,
    inside: f64,
    outside: f64,
}

impl Times {
    /// Time that contents add, ns.
    fn added(&self) -> f64 {
        self.inside - self.outside
    }

    /// True when the position is in a unit whose contents add so much, or more: some cards copy a part of them only, or all of them twice.
    fn is_inside(&self, added: f64) -> bool {
        self.position - self.outside > added / 2.0
    }
}

/// Times of a write to a position and of those to the other units behind it, ns.
type Try = [f64; 1 + MOST as usize];

/// Three tries: of a position, of the sector with which the contents end, and of one in a unit without.
type Three = (u64, [Try; 3]);

/// All tries; the contents end with the sector at `last`.
fn tries(samples: &Samples, last: u64) -> Vec<Three> {
    let writes = samples.all.iter().filter(|sample| matches!(sample.test, Test::Inside | Test::Close));
    let writes: Vec<&Sample> = writes.filter(|sample| sample.about == last).collect();
    let tries = writes.chunks_exact(3 * (1 + MOST as usize)).map(|three| {
        let at = |number: usize, write: usize| three[number * (1 + MOST as usize) + write].ns as f64;
        (three[0].position, [0, 1, 2].map(|number| std::array::from_fn(|write| at(number, write))))
    });
    tries.collect()
}

/// Weight of each write of a try: what contents add to it, as a part of the most that they add to one. A card closes what was opened at the same one of
/// these writes, or two, and the others say nothing but noise.
fn weights(tries: &[Three]) -> Try {
    let middle =
        |number: usize, write: usize| quantile(tries.iter().map(|(_, three)| three[number][write]), 0.5);
    let added: Try = std::array::from_fn(|write| (middle(INSIDE, write) - middle(OUTSIDE, write)).max(0.0));
    let most = added.iter().copied().fold(0.0, f64::max);
    if most > 0.0 { added.map(|ns| ns / most) } else { [1.0; 1 + MOST as usize] }
}

/// Times by position; the contents end with the sector at `last`.
fn times(samples: &Samples, last: u64) -> BTreeMap<u64, Times> {
    let tries = tries(samples, last);
    let weights = weights(&tries);
    let mut all = BTreeMap::new();
    for (at, three) in tries {
        let [position, inside, outside] =
            three.map(|times| times.iter().zip(&weights).map(|(ns, weight)| ns * weight).sum::<f64>());
        let least = all.entry(at).or_insert(Times { position, inside, outside });
        least.position = least.position.min(position);
        least.inside = least.inside.min(inside);
        least.outside = least.outside.min(outside);
    }
    all
}

/// Result of a search for the end of a unit so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A position to try.
    Try(u64),
    /// First byte behind the unit.
    At(u64),
}

/// The end of the unit whose contents end with the sector at `last`; the sector at `far` is in another one behind it.
pub(crate) fn end(samples: &Samples, last: u64, far: u64) -> End {
    let times = times(samples, last);
    let added = quantile(times.values().map(Times::added), FEW);
    let behind =
        times.iter().find(|(_, times)| !times.is_inside(added)).map_or(far, |(position, _)| *position);
    let inside = times.range(..behind).next_back().map_or(last, |(position, _)| *position);
    match behind.saturating_sub(inside) {
        SECTOR => End::At(behind),
        distance => End::Try(inside + distance / (2 * SECTOR) * SECTOR),
    }
}

/// Time that contents add, as a share of the one that is needed to see a border; `None` before enough positions were tried.
pub(crate) fn clearness(samples: &Samples, last: u64) -> Option<f64> {
    let times = times(samples, last);
    let added = quantile(times.values().map(Times::added), FEW);
    let outside: Vec<f64> = times.values().map(|times| times.outside).collect();
    let middle = quantile(outside.iter().copied(), 0.5);
    let noise = deviation(outside.iter().map(|ns| ns - middle));
    let needed = (CLEAR * noise).max(CLEAR_SHARE * middle).max(1.0);
    (times.len() >= POSITIONS_MIN).then_some(added / needed)
}

/// Borders that were found, in ascending order, each with the sector with which the contents before it end.
pub(crate) fn borders(samples: &Samples) -> Vec<(u64, u64)> {
    let mut tried: BTreeMap<u64, u64> = BTreeMap::new();
    for sample in samples.of(Test::Inside) {
        let far = tried.entry(sample.about).or_insert(0);
        *far = sample.position.max(*far);
    }
    let ends = tried.into_iter().map(|(last, far)| (last, end(samples, last, far)));
    ends.filter_map(|(last, end)| if let End::At(border) = end { Some((border, last)) } else { None })
        .collect()
}

/// The allocation unit and one of its borders. Contents that fill it hide its end, and are taken for it.
pub(crate) fn unit(samples: &Samples) -> Option<(u64, u64)> {
    let [.., (first, _), (second, _), (third, last)] = borders(samples)[..] else { return None };
    let au = second.checked_sub(first)?;
    let content = last.checked_sub(second)?;
    let is_seen = third.checked_sub(second) == Some(au) && 2 * (content / SECTOR + 1) <= au / SECTOR;
    (is_seen && au_candidates(samples.capacity).contains(&au)).then_some((au, first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Kind;

    /// Samples of a card with allocation units of `au` bytes from `origin` on, searched as the probe does with contents of 256 KiB.
    fn searched(origin: u64, au: u64) -> Samples {
        let unit_of = |position: u64| (position - origin) / au;
        let mut samples = Samples { capacity: 1 << 35, ..Samples::default() };
        let (mut begin, far) = (origin + 100 * SECTOR, origin + 64 * au);
        for _ in 0..3 {
            let last = begin + CONTENT_MIN - SECTOR;
            while let End::Try(position) = end(&samples, last, far) {
                for position in [position, last, far].repeat(TRIES) {
                    let ns = if unit_of(position) == unit_of(last) { 30_000_000 } else { 1_000_000 };
                    let write = |test, ns| Sample {
                        test,
                        about: last,
                        kind: Kind::Write,
                        position,
                        bytes: SECTOR,
                        ns,
                        found: None,
                    };
                    samples.all.push(write(Test::Inside, ns));
                    samples.all.extend([write(Test::Close, 1_000_000)].repeat(MOST as usize));
                }
            }
            begin = borders(&samples).last().unwrap().0;
        }
        samples
    }

    #[test]
    fn three_borders_tell_a_unit_to_the_sector() {
        for (origin, au) in
            [(777 * SECTOR, 4 << 20), (0, 1 << 20), (63 * SECTOR, 24 << 20), (SECTOR, 5 << 18)]
        {
            let samples = searched(1 << 30 | origin, au);
            let (found, border) = unit(&samples).unwrap();
            assert_eq!((found, (border - (1 << 30 | origin)) % au), (au, 0));
            let last = borders(&samples)[0].1;
            assert!(clearness(&samples, last).unwrap() > 1.0);
        }
    }

    /// Contents that are longer than half of what they tell may fill several units.
    #[test]
    fn contents_that_may_fill_a_unit_tell_none() {
        assert_eq!(unit(&searched(1 << 30, 256 << 10)), None);
    }
}
