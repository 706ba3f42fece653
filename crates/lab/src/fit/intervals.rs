//! Interval of each cost: all values for which some choice of the other costs agrees with every figure as well as the
//! best fit does.
//!
//! These are profile intervals: a cost is fixed and the others are fitted again, further and further from the best fit,
//! until no choice agrees. In this way costs are found that the bus transfer hides only in a part of the range. A
//! linear program over the slopes at the best fit gives the starting point.
//!
//! Polls make steps in the times, so choices that agree can lie in several separate regions. Each search therefore
//! starts from all known choices that agree and from the stated costs. The results of all searches are the starting
//! points of the next round.

use super::FittedParameter;
use super::least_squares::{Bounds, Effort, minimise, slopes};
use super::linear;
use super::model::Model;
use rayon::prelude::*;

/// Allowed violation of the rows' intervals beyond the violation of the best fit, as a share of the time. It covers the
/// steps of polls, and the difference between two eraseblocks and many.
const SLACK: f64 = 0.002;

/// First step away from a value with which all figures agree, in units of the cost's scale. Each further step is twice
/// as long.
const FIRST_STEP: f64 = 0.2;

/// Distance of an end from the last value with which all figures agree, as a share of that value or of the cost's
/// scale.
const CLOSE: f64 = 0.1;

/// Effort of a refit, which starts near its end.
const REFIT: Effort = Effort { rounds: 6, enough: 1e-4 };

/// Weight of the starting point of a refit: it determines the costs that the figures do not.
const PULL: f64 = 0.02;

/// Distance from the ends of an allowed range at which a refit aims, as a share of the range's width.
const INSIDE: f64 = 0.05;

/// Number of rounds of searches, each of which starts from the results of the previous round.
const ROUNDS: usize = 3;

/// Value of a cost, and a choice of all costs with this value with which all figures agree.
#[derive(Clone)]
struct Near {
    x: f64,
    at: Vec<f64>,
}

/// One end of the interval of a cost: the last choice that agrees, and the value beyond it that is used as the end.
#[derive(Clone)]
struct End {
    near: Near,
    end: f64,
}

fn logs(times: &[f64]) -> Vec<f64> {
    times.iter().map(|t| t.ln()).collect()
}

/// Distance of a logarithm from the middle of the allowed range, as a share of the range's width.
fn from_middle(log: f64, (low, high): (f64, f64)) -> f64 {
    2.0 * (log - f64::midpoint(low, high)) / (high - low)
}

/// Distance of a logarithm from the allowed range, plus a small margin inside it, as a share of the range's width.
fn outside(log: f64, (low, high): (f64, f64)) -> f64 {
    let inside = INSIDE * (high - low);
    4.0 * ((log - high + inside).max(0.0) - (low + inside - log).max(0.0)) / (high - low)
}

/// Maximum number of searches for ends of intervals.
pub(super) fn searches(model: &Model<'_>) -> u64 {
    (2 * ROUNDS * model.parameters.len()) as u64
}

/// Intervals of all costs around the `best` fit, which has these `times`. `others` are fits from other starting points.
/// `done` is called with the number of finished searches.
pub(super) fn of(
    model: &Model<'_>,
    keep: &[usize],
    (best, times): (&[f64], &[f64]),
    others: &[Vec<f64>],
    done: &(dyn Fn(u64) + Sync),
) -> Vec<FittedParameter> {
    let logs = logs(&keep.iter().filter_map(|&row| times.get(row)).copied().collect::<Vec<f64>>());
    let search = Search::new(model, keep, &logs);
    let slopes = search.slopes(best, &logs);
    let ends = search.all_ends(best, &logs, slopes.as_deref(), others, done);
    let one = |(i, (low, high)): (usize, &(End, End))| {
        let p = model.parameters.get(i)?;
        let x = *best.get(i)?;
        Some(FittedParameter {
            path: p.path.clone(),
            operation: p.operation,
            before: p.value,
            value: x * p.scale,
            low: low.end.min(x) * p.scale,
            high: high.end.max(x) * p.scale,
            same_effect: slopes.as_ref().map_or_else(Vec::new, |slopes| same_effect(model, slopes, i)),
        })
    };
    ends.iter().enumerate().filter_map(one).collect()
}

/// Paths of the costs whose effects on all figures are proportional to the effects of cost `i`.
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

/// Distance of an end from `x`, the last value with which all figures agree.
fn close(x: f64) -> f64 {
    CLOSE * x.abs().max(1.0)
}

/// True if an end of `new` is beyond the same end of `old`.
fn is_farther(new: &(End, End), old: &(End, End)) -> bool {
    new.0.end < old.0.end || new.1.end > old.1.end
}

/// Figures that must agree, and their tolerances.
struct Search<'m, 'l> {
    model: &'m Model<'l>,
    keep: &'m [usize],
    bounds: Vec<Bounds>,
    /// Logarithms of the shortest and longest time that each figure allows.
    allowed: Vec<(f64, f64)>,
}

impl<'m, 'l> Search<'m, 'l> {
    /// Creates a search; `logs` are the logarithms of the times of the best fit.
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

    /// Finds both ends of the intervals of all costs.
    fn all_ends(
        &self,
        best: &[f64],
        logs: &[f64],
        slopes: Option<&[Vec<f64>]>,
        others: &[Vec<f64>],
        done: &(dyn Fn(u64) + Sync),
    ) -> Vec<(End, End)> {
        let stated = self.model.start();
        let agreeing = others.iter().chain([&stated]).filter(|at| self.agrees_at(at)).cloned();
        let mut known: Vec<Vec<f64>> = [best.to_vec()].into_iter().chain(agreeing).collect();
        let linear =
            |i: usize, sign: f64| slopes.and_then(|slopes| self.linear_end(best, logs, slopes, i, sign));
        let starts: Vec<Vec<f64>> =
            [best.to_vec(), stated].into_iter().chain(others.iter().cloned()).collect();
        let mut ends: Vec<(End, End)> = Vec::new();
        for round in 1..=ROUNDS {
            let one = |i: usize| {
                let before = ends.get(i);
                let end = |sign: f64, before: Option<&End>| {
                    let end = self.end(&known, &starts, || linear(i, sign), (i, sign), before);
                    done(1);
                    end
                };
                rayon::join(|| end(-1.0, before.map(|b| &b.0)), || end(1.0, before.map(|b| &b.1)))
            };
            let found: Vec<(End, End)> = (0..best.len()).into_par_iter().map(one).collect();
            known =
                found.iter().flat_map(|(low, high)| [low.near.at.clone(), high.near.at.clone()]).collect();
            let is_last =
                found.iter().zip(&ends).filter(|(new, old)| !is_farther(new, old)).count() == best.len();
            ends = found;
            if is_last {
                done((2 * (ROUNDS - round) * best.len()) as u64);
                break;
            }
        }
        ends
    }

    fn agrees_at(&self, at: &[f64]) -> bool {
        self.model.times_of(at, self.keep).is_some_and(|times| self.agrees(&logs(&times)))
    }

    /// End of cost `i` in the direction `sign`: beyond it, no choice of the other costs agrees with all figures. The
    /// search continues from the farthest `known` choice that agrees. If this choice is no farther than the one that
    /// the previous search `before` found, the result of that search is returned.
    fn end<L: FnOnce() -> Option<Vec<f64>>>(
        &self,
        known: &[Vec<f64>],
        starts: &[Vec<f64>],
        linear: L,
        (i, sign): (usize, f64),
        before: Option<&End>,
    ) -> End {
        let value = |at: &[f64]| at.get(i).copied().unwrap_or_default();
        let farthest = known.iter().max_by(|a, b| (sign * value(a)).total_cmp(&(sign * value(b))));
        let at = farthest.cloned().unwrap_or_default();
        let mut near = Near { x: value(&at), at };
        if let Some(before) = before.filter(|before| sign * (near.x - before.near.x) <= close(before.near.x))
        {
            return before.clone();
        }
        let from = |near: &Near| -> Vec<Vec<f64>> { [&near.at].into_iter().chain(starts).cloned().collect() };
        let b = self.bounds.get(i).copied().unwrap_or(Bounds::NONE);
        let bound = if sign < 0.0 { b.low } else { b.high };
        let linear = linear().filter(|there| sign * (value(there) - near.x) > 0.0);
        if let Some(there) = linear {
            let all: Vec<Vec<f64>> = [there.clone()].into_iter().chain(from(&near)).collect();
            near = self.refit(i, value(&there), &all).unwrap_or(near);
        }
        if let Some(there) = self.refit(i, bound, &from(&near)) {
            return End { near: there, end: bound };
        }
        let (mut far, mut step) = (bound, FIRST_STEP);
        while (far - near.x).abs() > close(near.x) {
            let middle = f64::midpoint(near.x, far);
            let there = near.x + sign * step;
            let x = if (there - near.x).abs() < (middle - near.x).abs() { there } else { middle };
            match self.refit(i, x, &from(&near)) {
                Some(found) => (near, step) = (found, step * 2.0),
                None => far = x,
            }
        }
        End { near, end: far }
    }

    /// Choice of the other costs with which all figures agree if cost `i` is `x`, found by descent from one of
    /// `starts`. The first descent aims at the middle of the allowed ranges. Its least squares may lie outside although
    /// an allowed point exists, so a second descent minimises the distance from the ranges.
    fn refit(&self, i: usize, x: f64, starts: &[Vec<f64>]) -> Option<Near> {
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
        let mut starts: Vec<Vec<f64>> = starts.iter().map(|start| without(start)).collect();
        starts.dedup();
        starts.iter().find_map(|start| {
            let downhill = |from: Vec<f64>, error: &dyn Fn(f64, (f64, f64)) -> f64| {
                let errors = |others: &[f64]| {
                    let logs = logs(&self.model.times_of(&with(others), self.keep)?);
                    // Any choice that agrees is sufficient, so its error is 0.
                    let agrees = self.agrees(&logs);
                    let errors = logs.iter().zip(&self.allowed).map(|(log, allowed)| error(*log, *allowed));
                    let pulls = others.iter().zip(start).map(|(x, x0)| PULL * (x - x0));
                    Some(errors.chain(pulls).map(|e| if agrees { 0.0 } else { e }).collect())
                };
                minimise(from, &bounds, REFIT, errors)
            };
            let near =
                |others: &[f64]| Some(Near { x, at: with(others) }).filter(|near| self.agrees_at(&near.at));
            let middle = downhill(start.clone(), &from_middle)?;
            near(&middle).or_else(|| near(&downhill(middle, &outside)?))
        })
    }

    /// Costs at the end of cost `i` in the direction `sign`, if the slopes were the same everywhere.
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
