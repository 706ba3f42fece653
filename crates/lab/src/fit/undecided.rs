//! Times of the chip that the figures cannot separate from costs of the host, and the next measurement to take.
//!
//! The figures determine the sum of a time of the chip and of the CPU time next to it. The split of this sum follows
//! from the prior distributions of both. A further figure separates them if its time depends on them in another
//! proportion.

use super::model::{MODEL, Model};
use super::posterior::{Matrix, Posterior, Reaction, variance, with_sum};
use crate::papers::Operation;
use crate::speed::Test;
use crate::uncertainty::OF_80_PERCENT;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, set};
use serde::{Deserialize, Serialize};

/// Share of its prior spread that an undecided time of the chip keeps at least.
const OPEN: f64 = 0.5;

/// Share of a figure's time below which the uncertain split between chip and host is ignored.
const MATTERS: f64 = 0.02;

/// Correlation below which a cost counts as an alternative to the chip's time.
const TRADED: f64 = -0.2;

/// Maximum number of costs in the result.
const NAMED: usize = 3;

/// Maximum share of the interval's width that a useful measurement leaves.
const WORTH: f64 = 0.7;

/// A time of the chip that the figures cannot separate from costs of the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Undecided {
    /// Dotted path of the time.
    pub path: String,
    /// Kind of operation to which the time belongs.
    pub operation: Operation,
    /// Fitted time, us.
    pub value: f64,
    /// Half width of the 80 % interval, as a share of the time.
    pub half_width: f64,
    /// Costs that can explain the same figures, the most similar one first.
    pub costs: Vec<String>,
    /// Measurement that separates them; null if no test of `flash_speed` does.
    pub measure: Option<NextFigure>,
}

/// A measurement to take next.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NextFigure {
    /// Name of the test.
    pub name: String,
    /// Overrides under which to measure.
    pub set: Vec<String>,
    /// Half width of the 80 % interval of the chip's time after the measurement, as a share.
    pub half_width: f64,
}

impl Undecided {
    /// Advice on the undecided time, with the measurement to take next.
    pub fn advice(&self) -> Advice {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let open = format!(
            "{} (+-{}) is not told from {}: ",
            self.path,
            percent(self.half_width),
            self.costs.join(", ")
        );
        match &self.measure {
            Some(next) => {
                let measure = advice![open, format!("measure the {} speed", next.name)];
                let condition = |advice: Advice, own: &String| {
                    let (key, value) = own.split_once('=').unwrap_or((own, ""));
                    advice.and(advice![" with ", set(key.to_owned(), value.to_owned())])
                };
                let measure = next.set.iter().fold(measure, condition);
                measure.and(format!(", which narrows it to +-{}", percent(next.half_width)))
            }
            None => advice![
                open,
                "no speed test separates them; measure how long R/B# is low or the status says busy, and state it by a `set` line above the figures: ",
                set(self.path.clone(), "TIME"),
            ],
        }
    }
}

/// Undecided times of the chip. `conditions` are the conditions of possible measurements, and `tests` are their tests.
pub(super) fn find(
    model: &Model<'_>,
    posterior: &Posterior,
    conditions: &[Vec<String>],
    tests: &[Test],
) -> Vec<Undecided> {
    let Some(covariance) = posterior.covariance(&|_| MODEL) else { return Vec::new() };
    let of_condition = |set: &Vec<String>| -> Vec<(Vec<String>, Reaction)> {
        let reactions = posterior.reactions(model, set, tests).unwrap_or_default();
        let new = reactions.into_iter().filter(|reaction| !model.has_figure(set, reaction.test));
        new.map(|reaction| (set.clone(), reaction)).collect()
    };
    let candidates: Vec<(Vec<String>, Reaction)> = conditions.iter().flat_map(of_condition).collect();
    let all = (0..model.parameters.len()).filter_map(|i| {
        one(model, posterior, &covariance, i)
            .map(|found| Undecided { measure: next(&covariance, i, &candidates, found.half_width), ..found })
    });
    all.collect()
}

/// Result for number `i`, if it is an undecided time of the chip.
fn one(model: &Model<'_>, posterior: &Posterior, covariance: &Matrix, i: usize) -> Option<Undecided> {
    let p = model.parameters.get(i).filter(|p| p.is_of_chip() && !p.is_freed())?;
    let operation = p.operation?;
    let row = covariance.get(i)?;
    let deviation = row.get(i)?.sqrt();
    let is_open = deviation > OPEN * posterior.spread(i);
    if !is_open || posterior.slope(i, operation)? * deviation < MATTERS {
        return None;
    }
    let own = |j: usize| covariance.get(j).and_then(|row| row.get(j)).copied().unwrap_or_default().sqrt();
    let correlation = |j: usize| row.get(j).map_or(0.0, |c| c / (deviation * own(j)).max(1e-12));
    let costs = model.parameters.iter().enumerate().filter(|(_, cost)| !cost.is_of_chip());
    let mut traded: Vec<(f64, &str)> = costs
        .map(|(j, cost)| (correlation(j), cost.path.as_str()))
        .filter(|(correlation, _)| *correlation < TRADED)
        .collect();
    traded.sort_by(|a, b| a.0.total_cmp(&b.0));
    let costs: Vec<String> = traded.iter().take(NAMED).map(|(_, path)| (*path).to_owned()).collect();
    let x = posterior.at(i).filter(|x| *x > 0.0 && !costs.is_empty())?;
    Some(Undecided {
        path: p.path.clone(),
        operation,
        value: x * p.scale,
        half_width: OF_80_PERCENT * deviation / x,
        costs,
        measure: None,
    })
}

/// Measurement that narrows the interval of number `i` most, if it is useful.
fn next(
    covariance: &Matrix,
    i: usize,
    candidates: &[(Vec<String>, Reaction)],
    half_width: f64,
) -> Option<NextFigure> {
    let own = *covariance.get(i)?.get(i)?;
    let left = |reaction: &Reaction| {
        let with = with_sum(covariance, &reaction.slopes).get(i).copied().unwrap_or_default();
        let all = MODEL * MODEL + variance(covariance, &reaction.slopes);
        ((own - with * with / all).max(0.0) / own).sqrt()
    };
    let all = candidates.iter().map(|(set, reaction)| (left(reaction), set, reaction.test));
    let (left, set, test) = all.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(left, ..)| *left < WORTH)?;
    Some(NextFigure { name: test.name(), set: set.clone(), half_width: half_width * left })
}
