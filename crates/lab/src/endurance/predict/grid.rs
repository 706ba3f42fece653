//! Probability distributions of a block's life, as weights on a grid.

use super::steps::{Reading, Segment, Steps, evidence, normal_below, segments};
use super::{Interval, log_life};
use floatgate_device::cells::Wear;

/// Number of cells of a grid.
const CELLS: u32 = 250;

/// Weights of the cells of a uniform grid.
struct Grid {
    from: f64,
    step: f64,
    weights: Vec<f64>,
}

impl Grid {
    /// Computes the weights at the middles of the cells between `from` and `to`. A first grid finds the range
    /// with most of the weight, and the second one covers that range.
    fn new(from: f64, to: f64, weight: impl Fn(f64) -> f64) -> Option<Self> {
        let coarse = Self::even(from, to, &weight)?;
        let most = coarse.weights.iter().copied().fold(0.0, f64::max);
        let heavy = |w: &f64| *w > most * 1e-9;
        let first = coarse.weights.iter().position(heavy)?;
        let last = coarse.weights.iter().rposition(heavy)?;
        let edge = |cell: f64| coarse.from + cell * coarse.step;
        let within = (edge(first as f64 - 1.0).max(from), edge(last as f64 + 2.0).min(to));
        Self::even(within.0, within.1, &weight)
    }

    fn even(from: f64, to: f64, weight: impl Fn(f64) -> f64) -> Option<Self> {
        let step = (to - from) / f64::from(CELLS);
        let weights: Vec<f64> = (0..CELLS).map(|i| weight(from + (f64::from(i) + 0.5) * step)).collect();
        let sum: f64 = weights.iter().sum();
        let weights = weights.into_iter().map(|w| w / sum).collect();
        (sum > 0.0 && sum.is_finite() && step > 0.0).then_some(Self { from, step, weights })
    }

    /// Value below which this share of the weight lies.
    fn quantile(&self, share: f64) -> f64 {
        let mut below = 0.0;
        for (i, weight) in (0..).zip(&self.weights) {
            if below + weight >= share && *weight > 0.0 {
                return self.from + (f64::from(i) + (share - below) / weight) * self.step;
            }
            below += weight;
        }
        self.from + f64::from(CELLS) * self.step
    }

    /// Middle and weight of each cell.
    fn cells(&self) -> impl Iterator<Item = (f64, f64)> {
        let middle = |i: u32| self.from + (f64::from(i) + 0.5) * self.step;
        (0..).zip(&self.weights).map(move |(i, weight)| (middle(i), *weight))
    }
}

/// Pulse counts of one operation, each with the wear at which it was read.
fn seen(readings: &[Reading], of: fn(&Reading) -> Option<u32>) -> Vec<(f64, u32)> {
    readings.iter().filter_map(|r| Some((r.wear?, of(r)?))).collect()
}

fn pace_spread(wear: &Wear) -> f64 {
    wear.spec().pace_spread.max(1e-4)
}

/// Distribution for a block whose cycles were counted, over the logarithm of its life.
pub(super) struct Counted(Grid);

impl Counted {
    /// Computes the distribution; `None` if the readings are impossible.
    pub(super) fn new(wear: &Wear, steps: &Steps, readings: &[Reading], now: f64) -> Option<Self> {
        let (centre, spread) = log_life(wear);
        let pace = pace_spread(wear);
        let of: [Vec<Segment>; 2] = [
            segments(&steps.program, &seen(readings, |r| r.saved)),
            segments(&steps.erase, &seen(readings, |r| r.added)),
        ];
        // The block is still alive, however unlikely that is.
        let from = (centre - 6.0 * spread).max(libm::log(now.max(1.0)));
        let to = (centre + 6.0 * spread).max(from + spread);
        let weight = |u: f64| {
            let z = (u - centre) / spread;
            // Factor exp(-u): of a longer life, a smaller share is spent at this age.
            libm::exp(-z * z / 2.0 - (u - from)) * of.iter().map(|s| evidence(s, u, pace)).product::<f64>()
        };
        Grid::new(from, to, weight).map(Self)
    }

    /// Interval of a monotone function of the life.
    pub(super) fn interval(&self, of: impl Fn(f64) -> f64) -> Interval {
        let at = |share| of(libm::exp(self.0.quantile(share)));
        Interval { median: at(0.5), low: at(0.05), high: at(0.95) }
    }
}

/// Distribution for a block whose cycles were not counted, over the used share of its life.
pub(super) struct Aged(Grid);

impl Aged {
    /// Computes the distribution from the last reading. Without their cycles, earlier readings add no
    /// information.
    pub(super) fn new(wear: &Wear, steps: &Steps, readings: &[Reading]) -> Option<Self> {
        let last = readings.last()?;
        let pace = pace_spread(wear);
        // The wear counts as 1, so that the scale is the pace divided by the used share of the life.
        let of = [(&steps.program, last.saved), (&steps.erase, last.added)];
        let of = of.map(|(steps, seen)| segments(steps, &seen.map_or_else(Vec::new, |n| vec![(1.0, n)])));
        let weight = |x: f64| of.iter().map(|s| evidence(s, -libm::log(x), pace)).product::<f64>();
        Grid::new(0.0, 1.0, weight).map(Self)
    }

    pub(super) fn used(&self) -> Interval {
        let at = |share| self.0.quantile(share);
        Interval { median: at(0.5), low: at(0.05), high: at(0.95) }
    }

    /// Remaining wear. The life is distributed as for any block of the chip, and the remaining share of it is
    /// known.
    pub(super) fn remaining(&self, wear: &Wear) -> Interval {
        let (centre, spread) = log_life(wear);
        let below = |log_left: f64| {
            let cell = |(x, weight): (f64, f64)| {
                weight * normal_below((log_left - libm::log(1.0 - x) - centre) / spread)
            };
            self.0.cells().map(cell).sum::<f64>()
        };
        let at = |share: f64| {
            let (mut low, mut high) = (centre - 30.0 - 8.0 * spread, centre + 8.0 * spread);
            for _ in 0..60 {
                let middle = f64::midpoint(low, high);
                if below(middle) < share { low = middle } else { high = middle }
            }
            libm::exp(high)
        };
        Interval { median: at(0.5), low: at(0.05), high: at(0.95) }
    }
}
