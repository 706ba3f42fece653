//! Periods: the multiples of a length, from some origin, at which a value jumps.
//!
//! Each candidate period splits the points into those on its multiples and the others. The better the two medians
//! explain all values, the more probable the candidate is. A single median for all points represents the candidate
//! "nothing is visible". Weights follow from the Bayesian information criterion (Schwarz 1978); losses are bounded, so
//! that no outlier decides.

use crate::stats::{deviation, median};
use std::sync::{Mutex, PoisonError};

/// A value at a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) at: u64,
    pub(crate) value: f64,
}

/// A model of the points: one median for the multiples of a period, and one for the others.
#[derive(Clone, Copy, Debug)]
struct Split {
    period: u64,
    origin: u64,
    low: f64,
    high: f64,
    loss: f64,
}

/// Result of a search for periods.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    /// Periods with their probabilities, the most probable first, without the candidate "nothing".
    pub(crate) periods: Vec<(u64, f64)>,
    /// Origin of the most probable period.
    pub(crate) origin: u64,
    /// Probability that nothing is visible.
    pub(crate) nothing: f64,
    /// Jump of the most probable period.
    pub(crate) step: f64,
    /// Standard deviation of a point.
    pub(crate) sigma: f64,
    /// Largest jump that noise could hide.
    pub(crate) bound: f64,
    /// Median of all values.
    pub(crate) middle: f64,
    /// Share of points that contradict the most probable period.
    pub(crate) unexplained: f64,
    /// Share of the points on its multiples whose value is no higher than at other points.
    pub(crate) low_hits: f64,
}

impl Fit {
    /// The most probable period with its probability, if it is more probable than "nothing".
    pub(crate) fn best(&self) -> Option<(u64, f64)> {
        self.periods.first().copied().filter(|(_, probability)| *probability > self.nothing)
    }
}

/// A fit that several questions need. It is made again when there are more samples.
#[derive(Debug, Default)]
pub(crate) struct KeptFit(Mutex<Option<(usize, Option<Fit>)>>);

impl KeptFit {
    /// The fit to this number of samples.
    pub(crate) fn of(&self, samples: usize, make: impl FnOnce() -> Option<Fit>) -> Option<Fit> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, fit)) = kept().as_ref().filter(|(count, _)| *count == samples) {
            return fit.clone();
        }
        let fit = make();
        *kept() = Some((samples, fit.clone()));
        fit
    }
}

/// Samples with the same requests are equal, whatever was made of them.
impl PartialEq for KeptFit {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for KeptFit {}

/// Samples that change from now on have fits of their own.
impl Clone for KeptFit {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Upper bound of the loss of a point, in squared standard deviations.
const LOSS_MAX: f64 = 9.0;
/// Minimum number of points in a group.
pub(crate) const GROUP_MIN: usize = 3;
/// Prior probability that nothing is visible.
const NOTHING: f64 = 0.3;
/// Divisor of the losses: points are not independent, since neighbours share causes.
const TEMPER: f64 = 1.3;

/// Prior probability of a period: powers of two are usual, three times a power of two occurs with TLC.
pub(crate) fn prior(period: u64) -> f64 {
    match period >> period.trailing_zeros() {
        1 => 1.0,
        3 => 0.3,
        _ => 0.1,
    }
}

/// Candidate periods 1, 3, 5, 7 and 9 times 2^k between two lengths.
pub(crate) fn candidates(from: u64, to: u64) -> Vec<u64> {
    let all = (9..40).flat_map(|k| [1, 3, 5, 7, 9].map(|odd| odd << k));
    let mut all: Vec<u64> = all.filter(|period| (from..=to).contains(period)).collect();
    all.sort_unstable();
    all
}

/// Smallest allocation unit that can be distinguished from a page, B.
pub(crate) const AU_MIN: u64 = 512 << 10;
/// Largest allocation unit that is searched, B.
const AU_MAX: u64 = 512 << 20;

/// Allocation units that a device of this capacity may have.
pub(crate) fn au_candidates(capacity: u64) -> Vec<u64> {
    candidates(AU_MIN, AU_MAX.min(capacity / 4))
}

/// Searches for periods from each of `origins`. `floor` is the minimum standard deviation of a point.
pub(crate) fn fit(
    points: &[Point],
    periods: &[u64],
    floor: f64,
    origins: impl FnMut(u64) -> Vec<u64>,
) -> Fit {
    fit_usual(points, periods, floor, origins, prior)
}

/// Searches for periods like [`fit`], with a prior probability for each period.
pub(crate) fn fit_usual(
    points: &[Point],
    periods: &[u64],
    floor: f64,
    mut origins: impl FnMut(u64) -> Vec<u64>,
    prior: impl Fn(u64) -> f64,
) -> Fit {
    let mut values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let middle = median(&mut values);
    let mut splits = Vec::new();
    for period in periods {
        splits.extend(origins(*period).into_iter().filter_map(|origin| split(points, *period, origin)));
    }
    let alone = deviation(values.iter().map(|value| value - middle));
    let sigma = splits.iter().map(|split| spread(points, split)).fold(alone, f64::min).max(floor);
    for split in &mut splits {
        split.loss = points.iter().map(|point| loss(residual(point, split), sigma)).sum();
    }
    let nothing = values.iter().map(|value| loss(value - middle, sigma)).sum();
    Fit { middle, ..weigh(points, splits, nothing, sigma, prior) }
}

fn loss(residual: f64, sigma: f64) -> f64 {
    (residual / sigma).powi(2).min(LOSS_MAX)
}

fn is_hit(point: &Point, period: u64, origin: u64) -> bool {
    // The origin may be larger than the position of the point.
    (point.at + period - origin % period).is_multiple_of(period)
}

fn split(points: &[Point], period: u64, origin: u64) -> Option<Split> {
    let (mut hits, mut others) = (Vec::new(), Vec::with_capacity(points.len()));
    for point in points {
        if is_hit(point, period, origin) { &mut hits } else { &mut others }.push(point.value);
    }
    if hits.len() < GROUP_MIN || others.len() < GROUP_MIN {
        return None;
    }
    let (high, low) = (median(&mut hits), median(&mut others));
    (high > low).then_some(Split { period, origin, low, high, loss: 0.0 })
}

fn residual(point: &Point, split: &Split) -> f64 {
    point.value - if is_hit(point, split.period, split.origin) { split.high } else { split.low }
}

fn spread(points: &[Point], split: &Split) -> f64 {
    deviation(points.iter().map(|point| residual(point, split)))
}

fn weigh(
    points: &[Point],
    mut splits: Vec<Split>,
    nothing: f64,
    sigma: f64,
    prior: impl Fn(u64) -> f64,
) -> Fit {
    splits.sort_by(|a, b| a.loss.total_cmp(&b.loss));
    let mut seen = Vec::new();
    splits.retain(|split| {
        let is_new = !seen.contains(&split.period);
        seen.push(split.period);
        is_new
    });
    // A period has one more parameter than "nothing is visible": the jump.
    let penalty = libm::log(points.len().max(1) as f64);
    let least = splits.first().map_or(nothing, |split| (split.loss + penalty).min(nothing));
    let weight = |loss: f64| libm::exp(-(loss - least) / (2.0 * TEMPER));
    let priors: f64 = splits.iter().map(|split| prior(split.period)).sum::<f64>().max(1.0);
    let mut periods: Vec<(u64, f64)> = splits
        .iter()
        .map(|split| {
            (split.period, (1.0 - NOTHING) * prior(split.period) / priors * weight(split.loss + penalty))
        })
        .collect();
    let nothing = NOTHING * weight(nothing);
    let sum = nothing + periods.iter().map(|(_, weight)| weight).sum::<f64>();
    periods.iter_mut().for_each(|(_, weight)| *weight /= sum);
    periods.sort_by(|a, b| b.1.total_cmp(&a.1));
    let best = periods.first().and_then(|best| splits.iter().find(|split| split.period == best.0));
    let lost = best
        .map_or(0, |best| points.iter().filter(|point| residual(point, best).abs() > 6.0 * sigma).count());
    let hits = |best: &Split| {
        let hits = points.iter().filter(|point| is_hit(point, best.period, best.origin));
        let is_low = |point: &&Point| point.value < f64::midpoint(best.low, best.high);
        hits.clone().filter(is_low).count() as f64 / hits.count().max(1) as f64
    };
    // Three standard errors of the mean of a small group of points.
    let bound = 3.0 * sigma / (points.len().clamp(4, 36) as f64).sqrt() * 2.0;
    Fit {
        origin: best.map_or(0, |best| best.origin),
        step: best.map_or(0.0, |best| best.high - best.low),
        periods,
        nothing: nothing / sum,
        sigma,
        bound,
        middle: 0.0,
        unexplained: lost as f64 / points.len().max(1) as f64,
        low_hits: best.map_or(0.0, hits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floatgate_mtd::random::Random;

    const MIB: u64 = 1 << 20;

    /// Points at multiples of all candidates, with a jump at those of `period` from `origin` and normal noise of deviation 1.
    fn points(period: u64, origin: u64, step: f64) -> Vec<Point> {
        let mut chance = Random::new(period + 7);
        let all =
            candidates(MIB, 64 * MIB).into_iter().flat_map(|p| [1, 11, 13, 17, 19].map(|m| origin + p * m));
        all.map(|at| {
            let jump = if (at - origin).is_multiple_of(period) { step } else { 0.0 };
            Point { at, value: jump + chance.normal() }
        })
        .collect()
    }

    #[test]
    fn a_period_is_found_with_its_odd_factor() {
        for period in [2 * MIB, 3 * MIB, 8 * MIB, 10 * MIB, 24 * MIB] {
            let found = fit(&points(period, 512, 6.0), &candidates(MIB, 64 * MIB), 0.1, |_| vec![512]);
            let (best, confidence) = found.best().unwrap();
            assert_eq!(best, period);
            assert!(confidence > 0.9, "{confidence}");
            assert!((found.step - 6.0).abs() < 1.0);
        }
    }

    #[test]
    fn noise_has_no_period() {
        let found = fit(&points(2 * MIB, 0, 0.0), &candidates(MIB, 64 * MIB), 0.1, |_| vec![0]);
        assert!(found.nothing > 0.5, "{found:?}");
        assert_eq!(found.best(), None);
    }

    #[test]
    fn no_points_have_no_period() {
        assert_eq!(fit(&[], &candidates(MIB, 8 * MIB), 0.0, |_| vec![0]).best(), None);
    }
}
