//! Search for allocation unit borders by writes alone, exact to the sector.
//!
//! When a card closes an allocation unit, it copies the data that the unit held before. So the test fills part of one
//! unit, writes one sector at a candidate position, and then writes to enough other units that the card must close the
//! unit of that sector. These writes together take longer if the position is in the filled unit. The first position
//! after which they are fast again is the end of the unit.

use super::period::au_candidates;
use crate::sample::{AUS_MOST, SECTOR, Sample, Samples, Test};
use crate::stats::{deviation, quantile};
use std::collections::BTreeMap;

/// Minimum and maximum data written into a unit, B; the minimum is half the smallest allocation unit.
pub(crate) const CONTENT_MIN: u64 = 256 << 10;
pub(crate) const CONTENT_MAX: u64 = 8 << 20;
/// Tries per position; the fastest one counts.
pub(crate) const TRIES: usize = 2;
/// Maximum number of borders to find: two give the allocation unit, and the third must be where they predict it, or it
/// replaces one of them.
pub(crate) const BORDERS: usize = 8;
/// Number of positions after which it is decided whether the data in a unit is visible.
const POSITIONS_MIN: usize = 4;
/// Minimum extra time for the data, in standard deviations of a time without data, and as a share of that time.
const CLEAR: f64 = 8.0;
const CLEAR_SHARE: f64 = 0.15;
/// Share of the tries that may have less extra time.
const FEW: f64 = 0.25;
/// Index of the try with data and of the try without data in a [`Three`].
const INSIDE: usize = 1;
const OUTSIDE: usize = 2;

/// Times of a position and of two reference positions, one in the filled unit and one in an empty unit, ns. Each is the
/// weighted sum of the write and the writes that close its unit, and the minimum of all tries.
#[derive(Clone, Copy, Debug)]
struct Times {
    position: f64,
    inside: f64,
    outside: f64,
}

impl Times {
    /// Extra time for the data in the unit, ns.
    fn added(&self) -> f64 {
        self.inside - self.outside
    }

    /// True when the position is in a unit with this extra time or more. Some cards copy only a part of the data, or
    /// copy all of it twice.
    fn is_inside(&self, added: f64) -> bool {
        self.position - self.outside > added / 2.0
    }
}

/// Times of one try, ns: the write to the position, then the writes to the other units.
type Try = [f64; 1 + AUS_MOST as usize];

/// Position with its three tries: at the position, at the last sector of the data, and in an empty unit.
type Three = (u64, [Try; 3]);

/// All tries of the search whose data ends with the sector at `last`.
fn tries(samples: &Samples, last: u64) -> Vec<Three> {
    let writes = samples.all.iter().filter(|sample| matches!(sample.test, Test::Inside | Test::Close));
    let writes: Vec<&Sample> = writes.filter(|sample| sample.about == last).collect();
    let tries = writes.chunks_exact(3 * (1 + AUS_MOST as usize)).map(|three| {
        let at = |number: usize, write: usize| three[number * (1 + AUS_MOST as usize) + write].ns as f64;
        (three[0].position, [0, 1, 2].map(|number| std::array::from_fn(|write| at(number, write))))
    });
    tries.collect()
}

/// Weight of each write of a try, proportional to the extra time that it shows. A card closes a unit always at the same
/// one or two of these writes; the other writes only add noise.
fn weights(tries: &[Three]) -> Try {
    let middle =
        |number: usize, write: usize| quantile(tries.iter().map(|(_, three)| three[number][write]), 0.5);
    let added: Try = std::array::from_fn(|write| (middle(INSIDE, write) - middle(OUTSIDE, write)).max(0.0));
    let most = added.iter().copied().fold(0.0, f64::max);
    if most > 0.0 { added.map(|ns| ns / most) } else { [1.0; 1 + AUS_MOST as usize] }
}

/// Times by position, for data that ends with the sector at `last`.
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

/// State of the search for the end of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Position to try next.
    Try(u64),
    /// First byte after the unit.
    At(u64),
}

/// Next step in the search for the end of the unit whose data ends with the sector at `last`. The sector at `far` is in
/// a later unit.
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

/// Extra time for the data, as a multiple of the time needed to detect a border. `None` before enough positions were
/// tried.
pub(crate) fn clearness(samples: &Samples, last: u64) -> Option<f64> {
    let times = times(samples, last);
    let added = quantile(times.values().map(Times::added), FEW);
    let outside: Vec<f64> = times.values().map(|times| times.outside).collect();
    let middle = quantile(outside.iter().copied(), 0.5);
    let noise = deviation(outside.iter().map(|ns| ns - middle));
    let needed = (CLEAR * noise).max(CLEAR_SHARE * middle).max(1.0);
    (times.len() >= POSITIONS_MIN).then_some(added / needed)
}

/// Borders found, in ascending order, each with the last sector of the data before it.
pub(crate) fn borders(samples: &Samples) -> Vec<(u64, u64)> {
    let mut tried: BTreeMap<u64, u64> = BTreeMap::new();
    for sample in samples.with_test(Test::Inside) {
        let far = tried.entry(sample.about).or_insert(0);
        *far = sample.position.max(*far);
    }
    let ends = tried.into_iter().map(|(last, far)| (last, end(samples, last, far)));
    ends.filter_map(|(last, end)| if let End::At(border) = end { Some((border, last)) } else { None })
        .collect()
}

/// Allocation unit and one of its borders. Data that fills a whole unit hides its end, and the end of the data is
/// mistaken for it.
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

    /// Samples of a card with allocation units of `au` bytes from `origin`, searched like the probe does, with 256 KiB
    /// of data.
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
                    samples.all.extend([write(Test::Close, 1_000_000)].repeat(AUS_MOST as usize));
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

    /// Data longer than half of the apparent unit may span several units.
    #[test]
    fn contents_that_may_fill_a_unit_tell_none() {
        assert_eq!(unit(&searched(1 << 30, 256 << 10)), None);
    }
}
