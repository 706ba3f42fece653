//! Costs of a board's host and controller, fitted to figures that were measured on it.
//!
//! - `results`: figures from the output of `flash_speed`, dd and U-Boot.
//! - `parameters`: the costs that a kind of setup has.
//! - `model`: the simulated times of all figures for given costs.
//! - `least_squares`: the optimiser; `papers` uses it, too.
//! - `linear`: the smallest and largest value of a cost with which all figures agree.
//! - `hypotheses`: what may be wrong on the board.

mod hypotheses;
pub(crate) mod least_squares;
mod linear;
mod model;
mod parameters;
mod results;

pub use hypotheses::Hypothesis;
pub use parameters::Parameter;
pub use results::{
    Block, FIGURES_MAX, Figure, Measure, Measurement, RESULTS_MAX_BYTES, Results, Unknown, parse,
};

use crate::config::{Library, Override, Setup};
use crate::error::Error;
use crate::speed_run;
use least_squares::{minimise, slopes};
use model::Model;
use rayon::prelude::*;
use serde::Serialize;

/// A figure that no cost explains is farther away than this.
const UNEXPLAINED: f64 = 0.03;

/// Weight of the costs that the setup states: they decide what the figures do not.
const PRIOR: f64 = 0.1;

/// A figure of the board beside the fit.
#[derive(Clone, Debug, Serialize)]
pub struct FittedRow {
    /// Line of the input, from 1.
    pub line: usize,
    /// Name of the measure.
    pub name: String,
    /// Overrides under which it was measured.
    pub set: Vec<String>,
    /// The figure as printed.
    pub measured: String,
    /// Measured time, ns per byte, in the middle of the tool's resolution.
    pub ns_per_byte: f64,
    /// Time of the fitted setup, ns per byte.
    pub fitted_ns_per_byte: f64,
    /// Fitted over measured time beyond the tool's resolution, minus 1.
    pub residual: f64,
    /// The same with the costs as the setup states them.
    pub residual_before: f64,
    /// The same after a fit without this figure; none where too few others are left.
    pub left_out: Option<f64>,
    /// False of erases, which the chip decides and no cost of the host.
    pub fitted: bool,
}

/// A cost as it was fitted.
#[derive(Clone, Debug, Serialize)]
pub struct FittedParameter {
    /// Dotted path.
    pub path: String,
    /// Value that the setup states.
    pub before: f64,
    /// Fitted value.
    pub value: f64,
    /// Smallest value with which all figures agree as well as they can.
    pub low: f64,
    /// Largest one.
    pub high: f64,
    /// Other costs with the same effect on every figure: only the sum is decided.
    pub same_effect: Vec<String>,
}

/// Result of a fit.
#[derive(Clone, Debug, Serialize)]
pub struct FitReport {
    /// Title of the setup.
    pub title: String,
    /// Lines of the input that are understood.
    pub understood: usize,
    /// Lines that are not.
    pub unknown: Vec<Unknown>,
    /// The costs.
    pub parameters: Vec<FittedParameter>,
    /// The figures.
    pub rows: Vec<FittedRow>,
    /// Largest size of the fitted rows' residuals.
    pub worst: f64,
    /// Largest size of the residuals of rows that were left out; none where no row could be.
    pub worst_left_out: Option<f64>,
    /// Median of their sizes.
    pub median_left_out: Option<f64>,
    /// Changes of the board that halve the worst residual, the best first.
    pub hypotheses: Vec<Hypothesis>,
    /// Lines of the figures that no cost explains.
    pub unexplained: Vec<usize>,
}

/// Fits the costs of `setup` to `results`. `free` names further numbers of the setup, which are fitted within 0.5 times their value and
/// their maximum.
///
/// # Errors
/// When the input has no figure, a setup or override is wrong, or a figure cannot be simulated.
pub fn fit(
    library: &Library,
    setup: &Setup,
    sets: &[Override],
    results: &Results,
    free: &[String],
) -> Result<FitReport, Error> {
    let config = library.resolve(setup, sets)?;
    if results.blocks.is_empty() {
        let why = results.unknown.first().map_or(String::new(), |u| format!("; line {}: {}", u.line, u.why));
        return Err(Error::asked(
            format!("the results have no figure{why}"),
            "give output of flash_speed, dd or U-Boot, or lines like `page read 227 us`",
        ));
    }
    let parameters = parameters::of(&config, free)?;
    let model = Model::new(library, setup, sets, &results.blocks, parameters)?;
    let start = model.start();
    let before = model.times(&start)?;
    let (model, before) = model.without_idle(before)?;
    let start = model.start();
    let keep: Vec<usize> = model.fitted();
    if keep.is_empty() {
        return Err(Error::asked(
            "the results have only erases, which the chip decides",
            "give reads or writes, or free chip.timing.t_bers_us.typ",
        ));
    }
    let best = solve(&model, &keep, &start, PRIOR).unwrap_or_else(|| start.clone());
    let times = model.times(&best)?;
    let residuals = model.residuals(&times);
    let worst = size(&residuals, &keep);
    let left_out: Vec<Option<f64>> =
        (0..times.len()).into_par_iter().map(|row| left_out(&model, &keep, &best, row)).collect();
    let mut sizes: Vec<f64> = left_out.iter().flatten().map(|r| r.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let first = model.residuals(&before);
    let rows = model.rows(&times, &residuals, &first, &left_out);
    let unexplained = rows
        .iter()
        .filter(|row| row.fitted && row.residual.abs() > UNEXPLAINED)
        .map(|row| row.line)
        .collect();
    Ok(FitReport {
        title: speed_run::title(&config),
        understood: results.understood,
        unknown: results.unknown.clone(),
        parameters: intervals(&model, &keep, &best, &times),
        rows,
        worst,
        worst_left_out: sizes.last().copied(),
        median_left_out: sizes.get(sizes.len() / 2).copied(),
        hypotheses: hypotheses::explain(library, setup, sets, &config, &results.blocks),
        unexplained,
    })
}

/// The costs that fit the figures `keep` best.
fn solve(model: &Model<'_>, keep: &[usize], start: &[f64], prior: f64) -> Option<Vec<f64>> {
    minimise(start.to_vec(), &model.bounds(), |at| {
        let times = model.times_of(at, keep)?;
        Some(model.errors(&times, keep, at, prior))
    })
}

/// Largest size of the residuals of some rows.
fn size(residuals: &[f64], keep: &[usize]) -> f64 {
    keep.iter().filter_map(|&row| residuals.get(row)).fold(0.0, |worst, r| r.abs().max(worst))
}

/// Residual of a row after a fit without it and without the rows that measure the same.
fn left_out(model: &Model<'_>, keep: &[usize], best: &[f64], row: usize) -> Option<f64> {
    if !keep.contains(&row) {
        return None;
    }
    let others: Vec<usize> = keep.iter().copied().filter(|&other| !model.is_same(row, other)).collect();
    if others.is_empty() {
        return None;
    }
    let without = solve(model, &others, best, PRIOR)?;
    let time = model.times_of(&without, &[row])?;
    model.residual(row, *time.first()?)
}

/// Violation of the rows' intervals that is allowed beside that of the best fit: what the linear model leaves out.
const SLACK: f64 = 0.002;

/// The interval of each cost: the values for which some choice of the others agrees with every figure as well as the best fit does.
fn intervals(model: &Model<'_>, keep: &[usize], best: &[f64], times: &[f64]) -> Vec<FittedParameter> {
    let linear = Linear::new(model, keep, best, times);
    let bounds = model.bounds();
    (0..best.len())
        .filter_map(|i| {
            let p = model.parameters.get(i)?;
            let end = |sign: f64| {
                let mut objective = vec![0.0; best.len()];
                *objective.get_mut(i)? = sign;
                let found = linear.as_ref().and_then(|linear| linear.maximise(&objective));
                found.and_then(|at| at.get(i).copied())
            };
            let b = bounds.get(i)?;
            let (low, high) = (end(-1.0).unwrap_or(b.low), end(1.0).unwrap_or(b.high));
            let x = *best.get(i)?;
            Some(FittedParameter {
                path: p.path.clone(),
                before: p.value,
                value: x * p.scale,
                low: low.min(x) * p.scale,
                high: high.max(x) * p.scale,
                same_effect: linear.as_ref().map_or_else(Vec::new, |l| l.same_effect(model, i)),
            })
        })
        .collect()
}

/// Times near the best fit as linear functions of the costs, and the times that the tools' resolution allows.
struct Linear {
    /// Logarithmic slopes, a row for each cost.
    slopes: Vec<Vec<f64>>,
    constraints: Vec<Vec<f64>>,
    limits: Vec<f64>,
}

impl Linear {
    fn new(model: &Model<'_>, keep: &[usize], best: &[f64], times: &[f64]) -> Option<Self> {
        let logs = |at: &[f64]| Some(model.times_of(at, keep)?.iter().map(|t| t.ln()).collect::<Vec<f64>>());
        let now: Vec<f64> = keep.iter().filter_map(|&row| times.get(row)).map(|t| t.ln()).collect();
        let bounds = model.bounds();
        let slopes = slopes(best, &bounds, &now, &logs)?;
        let row = |i: usize| slopes.iter().map(|s| s.get(i).copied().unwrap_or(0.0)).collect::<Vec<f64>>();
        let (mut constraints, mut limits) = (Vec::new(), Vec::new());
        for (i, &which) in keep.iter().enumerate() {
            let (slope, time) = (row(i), now.get(i)?);
            let constant = time - slope.iter().zip(best).map(|(s, x)| s * x).sum::<f64>();
            let (low, high) = model.interval(which)?;
            constraints.push(slope.clone());
            limits.push(high.ln() - constant);
            constraints.push(slope.iter().map(|s| -s).collect());
            limits.push(constant - low.ln());
        }
        let mut loose: Vec<Vec<f64>> = constraints.clone();
        loose.iter_mut().for_each(|row| row.push(-1.0));
        let mut loose_limits = limits.clone();
        for (i, b) in bounds.iter().enumerate() {
            let mut one = vec![0.0; best.len()];
            *one.get_mut(i)? = 1.0;
            loose.push(one.iter().copied().chain([0.0]).collect());
            loose_limits.push(b.high);
            let below: Vec<f64> = one.iter().map(|x| -x).collect();
            if b.low > 0.0 {
                loose.push(below.iter().copied().chain([0.0]).collect());
                loose_limits.push(-b.low);
                constraints.push(below);
                limits.push(-b.low);
            }
            constraints.push(one);
            limits.push(b.high);
        }
        let least: Vec<f64> = best.iter().map(|_| 0.0).chain([-1.0]).collect();
        let violation = *linear::maximise(&least, &loose, &loose_limits)?.last()?;
        for limit in limits.iter_mut().take(2 * keep.len()) {
            *limit += violation * 1.1 + SLACK;
        }
        Some(Self { slopes, constraints, limits })
    }

    fn maximise(&self, objective: &[f64]) -> Option<Vec<f64>> {
        linear::maximise(objective, &self.constraints, &self.limits)
    }

    /// Costs whose effects are in the same proportion on all figures as those of cost `i`.
    fn same_effect(&self, model: &Model<'_>, i: usize) -> Vec<String> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let Some(own) = self.slopes.get(i) else { return Vec::new() };
        let is_same = |other: &Vec<f64>| {
            let both = dot(own, own) * dot(other, other);
            both > 0.0 && dot(own, other) / both.sqrt() > 0.9999
        };
        let others = self.slopes.iter().zip(&model.parameters).enumerate();
        others
            .filter(|(j, (slopes, _))| *j != i && is_same(slopes))
            .map(|(_, (_, p))| p.path.clone())
            .collect()
    }
}

/// The fitted setup as TOML, over the setup named `base`. `sets` are the overrides with which it was fitted.
pub fn to_toml(report: &FitReport, base: &str, sets: &[Override]) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let mut text = format!(
        "title = {}\nsource = {}\nbase = {}\n",
        quoted(&format!("{}, fitted", report.title)),
        quoted(&format!(
            "floatgate fit to {} figures, the worst {:.1} % away",
            report.rows.iter().filter(|row| row.fitted).count(),
            report.worst * 100.0
        )),
        quoted(base)
    );
    let fitted = |path: &str| report.parameters.iter().any(|p| p.path == path);
    for set in sets.iter().filter(|set| !fitted(&set.path())) {
        let value = set.value_text();
        let is_toml = toml::from_str::<toml::Table>(&format!("x = {value}")).is_ok();
        text += &format!("{} = {}\n", set.path(), if is_toml { value.to_owned() } else { quoted(value) });
    }
    for p in &report.parameters {
        text += &format!(
            "# {} to {}\n{} = {}\n",
            tidy(p.low),
            tidy(p.high),
            p.path,
            parameters::text(&p.path, p.value)
        );
    }
    text
}

/// A number with four digits that mean something.
fn tidy(value: f64) -> String {
    if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
