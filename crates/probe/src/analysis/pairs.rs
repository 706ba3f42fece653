//! Borders of allocation units behind a cache in flash, exact to the sector.
//!
//! Two sectors half an allocation unit apart are in one unit or in two. If they are in two units, the card must open
//! both, closes two others, and copies the data of both.

use super::caches::{Cache, units_behind};
use super::train::{Pass, last_pass};
use crate::sample::{SECTOR, Sample, Samples, Test};
use crate::stats::quantile;

/// Maximum number of parts of a range that is searched for a border.
pub(crate) const PARTS: u64 = 16;
/// Minimum number of parts.
pub(crate) const PARTS_MIN: u64 = 4;
/// Minimum pause as a share of the median one: every query must have a pause.
const NONE: f64 = 0.05;
/// Parts around the best one that remain after the first pass. The cost of opening a unit, and of closing it much
/// later, depends on the position.
const AROUND: u64 = 2;
/// Minimum ratio of the shortest pause for two units to the longest pause for one unit.
const APART: f64 = 1.15;
/// Number of pairs in the pass that verifies a border.
const CHECKS: u64 = 8;
/// Denominator of the share of queries that may contradict a border because something delayed the card: one ninth.
const ODD: usize = 9;

/// True when the pauses for two units are longer than all pauses for one unit, except for a few.
fn are_apart(costs: &[f64], crosses: &[bool]) -> bool {
    let of = |is_two: bool| {
        let all = costs.iter().zip(crosses).filter(move |(_, crosses)| **crosses == is_two);
        let mut all: Vec<f64> = all.map(|(ns, _)| *ns).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (one, two) = (of(false), of(true));
    let (Some(long), Some(short)) = (one.iter().rev().nth(one.len() / ODD), two.get(two.len() / ODD)) else {
        return false;
    };
    *short > long * APART
}

/// Sum of squared deviations of the logarithms from the mean of their group. Infinite if the pauses for two units are
/// the shorter ones.
fn spread(costs: &[f64], crosses: &[bool]) -> f64 {
    let of = |is_two: bool| {
        let logs = costs.iter().zip(crosses).filter(|(_, crosses)| **crosses == is_two);
        let logs: Vec<f64> = logs.map(|(ns, _)| libm::log(ns.max(1.0))).collect();
        let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        (mean, logs.iter().map(|log| (log - mean) * (log - mean)).sum::<f64>())
    };
    let ((one, apart), (two, apart_of_two)) = (of(false), of(true));
    if two < one { f64::INFINITY } else { apart + apart_of_two }
}

/// Pairs of a pass that looks for the border in a range of `bytes`, as distances from its beginning. Every pair is in
/// another unit; the range is the same in each.
pub(crate) fn pairs(au: u64, bytes: u64, parts: u64) -> Vec<[u64; 2]> {
    let step = step(bytes, parts);
    // If the range is a whole unit, the pair after the last part equals the first pair.
    let last = if bytes >= au { parts } else { bytes.div_ceil(step) + 1 };
    (0..last).map(|number| [number * step, number * step + au / 2]).collect()
}

/// Bytes of a part of a range.
const fn step(bytes: u64, parts: u64) -> u64 {
    bytes.div_ceil(parts * SECTOR) * SECTOR
}

/// Part of the range that contains the border. `None` if the pauses do not show it.
pub(crate) fn narrowed(
    samples: &Samples,
    cache: &Cache,
    pass: u64,
    au: u64,
    (low, bytes): (u64, u64),
    parts: u64,
) -> Option<(u64, u64)> {
    let costs = Pass::from_samples(samples, cache, pass).costs;
    let least = quantile(costs.iter().copied(), 0.5) * NONE;
    if costs.iter().any(|ns| *ns < least) {
        return None;
    }
    let step = step(bytes, parts);
    // For a border in the middle of this part: true for each pair with the border between its two sectors.
    let crosses = |part: u64| -> Vec<bool> {
        let border = part * step + step / 2;
        (0..costs.len() as u64).map(|number| (border + au - number * step) % au < au / 2).collect()
    };
    let all = (0..bytes.div_ceil(step)).map(|part| (part, crosses(part)));
    let (part, crosses) = all.min_by(|a, b| spread(&costs, &a.1).total_cmp(&spread(&costs, &b.1)))?;
    if bytes >= au {
        return Some((low + (au + part * step - AROUND * step) % au, (2 * AROUND + 1) * step));
    }
    // A card that continues a unit in order closes it as soon as its last page is written, so that one closed unit is
    // missing in the pauses. The range is therefore one part longer.
    let further = if step > SECTOR { 2 * step } else { step };
    are_apart(&costs, &crosses).then_some((low + part * step, further))
}

/// Pairs of the pass that verifies a border, as distances from the sector before it. Pairs start alternately twice
/// before and twice after the border, because alternating single pairs would look like marks.
pub(crate) fn checks(au: u64) -> Vec<[u64; 2]> {
    (0..CHECKS).map(|number| number / 2 % 2 * SECTOR).map(|place| [place, place + au / 2]).collect()
}

/// Allocation unit and one of its borders, if the last pass verified them.
pub(crate) fn unit(samples: &Samples, cache: &Cache) -> Option<(u64, u64)> {
    let pass = Pass::from_samples(samples, cache, last_pass(samples, Test::Pair)?);
    let [first, second] = pass.queries.first()?[..] else { return None };
    let au = 2 * second.position.checked_sub(first.position)?;
    let border = first.position + SECTOR;
    let from = |position: u64| position.checked_sub(border - SECTOR).map(|distance| distance % au.max(1));
    let checks = checks(au);
    let is_like = |(query, pair): (&Vec<&Sample>, &[u64; 2])| from(query[0].position) == Some(pair[0]);
    let is_check = units_behind(samples, cache).contains(&au)
        && pass.queries.len() == checks.len()
        && pass.queries.iter().zip(&checks).all(is_like);
    let crosses: Vec<bool> = checks.iter().map(|pair| pair[0] == 0).collect();
    (is_check && are_apart(&pass.costs, &crosses)).then_some((au, border))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::train::tests::{CACHE, pass};

    const AU: u64 = 2 << 20;

    /// Samples of a pass on a card with borders after `border`. The pairs are as many units apart as in a real probe.
    fn searched(samples: &mut Samples, number: u64, low: u64, found: &[[u64; 2]], border: u64) {
        let sectors = |(unit, pair): (usize, &[u64; 2])| pair.map(|place| low + place + 2 * unit as u64 * AU);
        let all: Vec<[u64; 2]> = found.iter().enumerate().map(sectors).collect();
        let unit = |sector: u64| (sector + AU - border) / AU;
        let units = |pair: &[u64; 2]| 1 + unit(pair[1]) - unit(pair[0]);
        let queries: Vec<(&[u64], u64)> = all.iter().map(|pair| (&pair[..], units(pair))).collect();
        pass(samples, number, Test::Pair, &queries);
    }

    #[test]
    fn passes_narrow_a_border_down_to_the_sector() {
        for border in [SECTOR, 63 * SECTOR, AU / 2, AU / 2 + SECTOR, AU - SECTOR] {
            let mut samples = Samples { capacity: 1 << 34, ..Samples::default() };
            let (mut range, mut number) = ((0, AU), 1);
            while range.1 > SECTOR {
                searched(&mut samples, number, range.0, &pairs(AU, range.1, PARTS), border);
                range = narrowed(&samples, &CACHE, number, AU, range, PARTS).unwrap();
                number += 1;
            }
            searched(&mut samples, number, range.0, &checks(AU), border);
            let (au, found) = unit(&samples, &CACHE).unwrap();
            assert_eq!((au, found % AU), (AU, border % AU));
        }
    }

    /// A border that is one sector off is not verified.
    #[test]
    fn a_check_beside_a_border_finds_none() {
        for border in [AU / 2, AU / 2 + 2 * SECTOR] {
            let mut samples = Samples { capacity: 1 << 34, ..Samples::default() };
            searched(&mut samples, 1, AU / 2, &checks(AU), border);
            assert_eq!(unit(&samples, &CACHE), None);
        }
    }
}
