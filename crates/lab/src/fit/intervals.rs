//! The interval of each cost: the values for which some choice of the others agrees with every figure as well as the best fit does.
//!
//! These are profile intervals: a cost is fixed and the others are fitted again, further and further away from the best fit, until no choice agrees. So
//! costs that begin or cease to be hidden under the wires are seen. A linear program over the slopes at the best fit says where to begin.

use super::FittedParameter;
use super::least_squares::{Bounds, Effort, minimise, slopes};
use super::linear;
use super::model::Model;
use rayon::prelude::*;

/// Violation of the rows' intervals that is allowed beside that of the best fit, as a share of the time: steps of polls, and what two eraseblocks
/// have otherwise than many.
const SLACK: f64 = 0.002;

/// First step away from a value with which all figures agree, in units of the cost's scale; each further one is twice as long.
const FIRST_STEP: f64 = 0.2;

/// Distance of an end from the last value with which all figures agree, as a share of it or of the cost's scale.
const CLOSE: f64 = 0.1;

/// A refit begins near its end.
const REFIT: Effort = Effort { rounds: 6, enough: 1e-4 };

/// Weight of the place where a refit starts: it decides what the figures do not.
const PULL: f64 = 0.02;

/// A value of a cost, and a choice of all costs with which all figures agree there.
struct Near {
    x: f64,
    at: Vec<f64>,
}

fn logs(times: &[f64]) -> Vec<f64> {
    times.iter().map(|t| t.ln()).collect()
}

/// The intervals of all costs around the `best` fit, which has these `times`.
pub(super) fn of(model: &Model<'_>, keep: &[usize], best: &[f64], times: &[f64]) -> Vec<FittedParameter> {
    let logs = logs(&keep.iter().filter_map(|&row| times.get(row)).copied().collect::<Vec<f64>>());
    let search = Search::new(model, keep, &logs);
    let slopes = search.slopes(best, &logs);
    let one = |i: usize| {
        let p = model.parameters.get(i)?;
        let x = *best.get(i)?;
        let end = |sign: f64| {
            let linear = slopes.as_ref().and_then(|slopes| search.linear_end(best, &logs, slopes, i, sign));
            search.end(best, linear, i, sign)
        };
        let b = search.bounds.get(i)?;
        let (low, high) = rayon::join(|| end(-1.0).unwrap_or(b.low), || end(1.0).unwrap_or(b.high));
        Some(FittedParameter {
            path: p.path.clone(),
            before: p.value,
            value: x * p.scale,
            low: low.min(x) * p.scale,
            high: high.max(x) * p.scale,
            same_effect: slopes.as_ref().map_or_else(Vec::new, |slopes| same_effect(model, slopes, i)),
        })
    };
    (0..best.len()).into_par_iter().filter_map(one).collect()
}

/// Costs whose effects are in the same proportion on all figures as those of cost `i`.
fn same_effect(model: &Model<'_>, slopes: &[Vec<f64>], i: usize) -> Vec<String> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let Some(own) = slopes.get(i) else { return Vec::new() };
    let is_same = |other: &Vec<f64>| {
        let both = dot(own, own) * dot(other, other);
        both > 0.0 && dot(own, other) / both.sqrt() > 0.9999
    };
    let others = slopes.iter().zip(&model.parameters).enumerate();
    others.filter(|(j, (slopes, _))| *j != i && is_same(slopes)).map(|(_, (_, p))| p.path.clone()).collect()
}

/// Figures that must agree, and how well.
struct Search<'m, 'l> {
    model: &'m Model<'l>,
    keep: &'m [usize],
    bounds: Vec<Bounds>,
    /// Logarithms of the shortest and longest time that each figure allows.
    allowed: Vec<(f64, f64)>,
}

impl<'m, 'l> Search<'m, 'l> {
    /// `logs` are those of the times of the best fit.
    fn new(model: &'m Model<'l>, keep: &'m [usize], logs: &[f64]) -> Self {
        let printed: Vec<(f64, f64)> = keep
            .iter()
            .filter_map(|&row| model.interval(row))
            .map(|(low, high)| (low.ln(), high.ln()))
            .collect();
        let outside = |(log, (low, high)): (&f64, &(f64, f64))| (low - log).max(log - high).max(0.0);
        let worst = logs.iter().zip(&printed).map(outside).fold(0.0, f64::max);
        let margin = worst * 1.1 + SLACK;
        let allowed = printed.iter().map(|(low, high)| (low - margin, high + margin)).collect();
        Self { model, keep, bounds: model.bounds(), allowed }
    }

    fn slopes(&self, at: &[f64], now: &[f64]) -> Option<Vec<Vec<f64>>> {
        slopes(at, &self.bounds, now, &|at: &[f64]| Some(logs(&self.model.times_of(at, self.keep)?)))
    }

    fn agrees(&self, logs: &[f64]) -> bool {
        logs.iter().zip(&self.allowed).all(|(log, (low, high))| (*low..=*high).contains(log))
    }

    /// The value of cost `i` in the direction `sign` of `best` from which on no choice of the others agrees with all figures.
    fn end(&self, best: &[f64], linear: Option<Vec<f64>>, i: usize, sign: f64) -> Option<f64> {
        let b = self.bounds.get(i)?;
        let bound = if sign < 0.0 { b.low } else { b.high };
        let mut near = Near { x: *best.get(i)?, at: best.to_vec() };
        if let Some(there) = linear.and_then(|there| self.refit(i, *there.get(i)?, &[there.as_slice(), best]))
        {
            near = there;
        }
        if self.refit(i, bound, &[near.at.as_slice(), best]).is_some() {
            return Some(bound);
        }
        let (mut far, mut step) = (bound, FIRST_STEP);
        while (far - near.x).abs() > CLOSE * near.x.abs().max(1.0) {
            let middle = f64::midpoint(near.x, far);
            let there = near.x + sign * step;
            let x = if (there - near.x).abs() < (middle - near.x).abs() { there } else { middle };
            match self.refit(i, x, &[near.at.as_slice(), best]) {
                Some(found) => (near, step) = (found, step * 2.0),
                None => far = x,
            }
        }
        Some(far)
    }

    /// A choice of the other costs with which all figures agree where cost `i` is `x`, found downhill from one of the `starts`.
    fn refit(&self, i: usize, x: f64, starts: &[&[f64]]) -> Option<Near> {
        let without = |all: &[f64]| {
            let (left, right) = all.split_at(i.min(all.len()));
            left.iter().chain(right.iter().skip(1)).copied().collect::<Vec<f64>>()
        };
        let with = |others: &[f64]| {
            let (left, right) = others.split_at(i.min(others.len()));
            left.iter().chain([&x]).chain(right).copied().collect::<Vec<f64>>()
        };
        let mut bounds = self.bounds.clone();
        bounds.remove(i);
        let mut starts = starts.to_vec();
        starts.dedup();
        starts.iter().find_map(|start| {
            let start = without(start);
            let errors = |others: &[f64]| {
                let times = self.model.times_of(&with(others), self.keep)?;
                // Any agreement will do: it has no error.
                let agrees = self.agrees(&logs(&times));
                let pulls = others.iter().zip(&start).map(|(x, x0)| PULL * (x - x0));
                let errors = self.model.errors(&times, self.keep, others, 0.0);
                let count = self.keep.len();
                let all = errors.into_iter().take(count).chain(pulls);
                Some(all.map(|e| if agrees { 0.0 } else { e }).collect())
            };
            let at = with(&minimise(start.clone(), &bounds, REFIT, errors)?);
            let agrees = self.agrees(&logs(&self.model.times_of(&at, self.keep)?));
            agrees.then_some(Near { x, at })
        })
    }

    /// The costs at the end of cost `i` in the direction `sign`, if the slopes were the same everywhere.
    fn linear_end(
        &self,
        here: &[f64],
        logs: &[f64],
        slopes: &[Vec<f64>],
        i: usize,
        sign: f64,
    ) -> Option<Vec<f64>> {
        let (mut rows, mut limits) = (Vec::new(), Vec::new());
        for (row, (log, (low, high))) in logs.iter().zip(&self.allowed).enumerate() {
            let slope: Vec<f64> = slopes.iter().map(|s| s.get(row).copied().unwrap_or(0.0)).collect();
            let constant = log - slope.iter().zip(here).map(|(s, x)| s * x).sum::<f64>();
            rows.push(slope.iter().map(|s| -s).collect());
            limits.push(constant - low);
            rows.push(slope);
            limits.push(high - constant);
        }
        for (i, b) in self.bounds.iter().enumerate() {
            let unit = |sign: f64| (0..here.len()).map(|j| if i == j { sign } else { 0.0 }).collect();
            rows.push(unit(1.0));
            limits.push(b.high);
            rows.push(unit(-1.0));
            limits.push(-b.low);
        }
        let objective: Vec<f64> = (0..here.len()).map(|j| if i == j { sign } else { 0.0 }).collect();
        linear::maximise(&objective, &rows, &limits)
    }
}
