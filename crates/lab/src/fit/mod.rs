//! Costs of a board's host and controller and times of its chip, fitted to figures that were measured on it.
//!
//! - `results`: figures from the output of `flash_speed`, dd and U-Boot.
//! - `parameters`: the costs and times that a kind of setup has, with their distributions.
//! - `model`: the simulated times of all figures for given costs.
//! - `least_squares`: the optimiser; `papers` uses it, too.
//! - `intervals`: the smallest and largest value of each cost with which all figures agree; `linear` programs lead there.
//! - `posterior`: the distribution of all numbers after the fit, and the intervals of predicted speeds.
//! - `residuals`: how far boards are from their simulation beyond that, estimated from published ones.
//! - `undecided`: times of the chip that the figures do not tell from costs, and what to measure next.
//! - `from_two`: each published board fitted to two of its rows, and the others predicted.
//! - `hypotheses`: what may be wrong on the board.
//! - `written`: what the user states and no fit changes, and the setup that is written.

mod from_two;
mod hypotheses;
mod intervals;
pub(crate) mod least_squares;
mod linear;
mod model;
mod parameters;
mod posterior;
mod residuals;
mod results;
mod undecided;
mod written;

pub use from_two::{ByKind, EstimatedDeviation, FromTwo, FromTwoRow, from_two};
pub use hypotheses::Hypothesis;
pub use parameters::{Parameter, Prior};
pub use residuals::{Deviation, Given};
pub use results::{
    Block, FIGURES_MAX, Figure, Measure, Measurement, RESULTS_MAX_BYTES, Results, Unknown, parse,
};
pub use undecided::{NextFigure, Undecided};
pub use written::to_toml;

use crate::papers::Operation;
use crate::progress::{Listener, Progress};
use crate::speed::Test;
use crate::speed_run;
use crate::uncertainty::Interval;
use floatgate_config::{Library, Override, Setup};
use floatgate_sim::error::Error;
use least_squares::{Bounds, Effort, minimise, squares};
use model::{Contradiction, Model};
use posterior::{Posterior, Reaction};
use rayon::prelude::*;
use residuals::Residuals;
use serde::Serialize;

/// A figure that no cost explains is farther away than this.
const UNEXPLAINED: f64 = 0.03;

/// Costs with which a figure is farther away than this factor explain nothing.
const ABSURD: f64 = 2.0;

/// Lines that are not understood, of which an error names no more.
const NAMED: usize = 5;

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
    /// False of a row that no fitted number decides.
    pub fitted: bool,
}

/// A cost as it was fitted.
#[derive(Clone, Debug, Serialize)]
pub struct FittedParameter {
    /// Dotted path.
    pub path: String,
    /// Kind of operation whose time it is; null of a cost that all of them share.
    pub operation: Option<Operation>,
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

/// Speed of a test with the fitted setup, and the 80 % interval in which the board's is.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// Name of the test.
    pub name: String,
    /// Kind of operation.
    pub operation: Operation,
    /// Overrides under which it runs: those of the first figure; empty of the fitted setup as it is written.
    pub set: Vec<String>,
    /// Read and write operation under which it runs, with bus mode and clock.
    pub link: String,
    /// Speed, KiB/s.
    pub kib_s: f64,
    /// The interval of the speed, KiB/s.
    #[serde(flatten)]
    pub interval: Interval,
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
    /// Lines `set` of all figures that state a cost or a time of the chip: it is held, and the written setup has it.
    pub held: Vec<String>,
    /// Costs of the setup that were fitted.
    pub parameters: Vec<FittedParameter>,
    /// Figures of the input, with their residuals.
    pub rows: Vec<FittedRow>,
    /// The fitted rows' residual of the largest size.
    pub worst: f64,
    /// The residual of the largest size of rows that were left out; none where no row could be.
    pub worst_left_out: Option<f64>,
    /// Median of their sizes.
    pub median_left_out: Option<f64>,
    /// Changes of the board that halve the worst residual, the best first.
    pub hypotheses: Vec<Hypothesis>,
    /// Lines of the figures that no cost explains.
    pub unexplained: Vec<usize>,
    /// Speeds of `flash_speed`'s tests with the fitted setup, and under the conditions of the first figure where it has any.
    pub predictions: Vec<Prediction>,
    /// Times of the chip that the figures do not tell from costs of the host, with the next measurement to take.
    pub undecided: Vec<Undecided>,
    /// Figures that contradict each other, and reservations about single ones, with their lines.
    pub remarks: Vec<String>,
    /// False when the costs explain nothing: a figure is farther than a factor of two away, each cost is at an end of what is tried, or figures contradict
    /// each other.
    pub usable: bool,
}

/// Steps of the bar for each end of an interval, in fits that begin near their end.
const END_STEPS: u64 = 4;

/// Fits the costs of `setup` to `results`. `free` names further numbers of the setup, which are fitted within 0.5 times their value and
/// their maximum. Numbers that `sets` state are held, unless they are freed. `progress` hears how far it is: a step is a fit.
///
/// # Errors
/// When the input has no figure, a setup or override is wrong, or a figure cannot be simulated.
pub fn fit(
    library: &Library,
    setup: &Setup,
    sets: &[Override],
    results: &Results,
    free: &[String],
    progress: Listener<'_>,
) -> Result<FitReport, Error> {
    if results.blocks.is_empty() {
        library.resolve(setup, sets)?;
        return Err(no_figure(&results.unknown));
    }
    let numbers = parameters::of(library, &library.resolve(setup, sets)?, free)?;
    let held = written::held(&results.blocks, &numbers);
    let sets = &[sets, &Override::parse_all(&held)?].concat();
    let blocks = &written::without(&results.blocks, &held);
    let config = library.resolve(setup, sets)?;
    let parameters = written::open(parameters::of(library, &config, free)?, sets);
    let model = Model::new(library, setup, sets, blocks, parameters.clone())?;
    let mut unknown = [results.unknown.as_slice(), &model.refused].concat();
    unknown.sort_by_key(|unknown| unknown.line);
    let understood = results.understood.saturating_sub(model.refused.len());
    if model.is_empty() {
        return Err(no_figure(&unknown));
    }
    let start = model.start();
    let before = model.times(&start)?;
    let (model, before) = model.without_idle(before)?;
    let start = model.start();
    let keep: Vec<usize> = model.fitted();
    if keep.is_empty() {
        return Err(Error::request(
            "the results have only erases, which the chip decides",
            "give reads or writes, or free chip.timing.t_bers_us.typ",
        ));
    }
    let candidates = hypotheses::candidates(&config);
    let searches = intervals::searches(&model);
    let fits_to_do = STARTS.len() + model.rows_count() + candidates.len();
    progress(Progress::Steps(fits_to_do as u64 + searches * END_STEPS));
    let done = |steps: u64| progress(Progress::Done(steps));
    let fits = solve_from_all(&model, &keep);
    done(STARTS.len() as u64);
    let agrees = |at: &Vec<f64>| size(&model.residuals(at), &keep) == 0.0;
    let best = fits.first().filter(|_| !agrees(&before)).unwrap_or(&start).clone();
    let times = model.times(&best)?;
    let residuals = model.residuals(&times);
    let worst = largest(keep.iter().filter_map(|&row| residuals.get(row).copied())).unwrap_or_default();
    let left_out: Vec<Option<f64>> = (0..times.len())
        .into_par_iter()
        .map(|row| left_out(&model, &keep, &best, row))
        .inspect(|_| done(1))
        .collect();
    let mut sizes: Vec<f64> = left_out.iter().flatten().map(|r| r.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let first = model.residuals(&before);
    let contradictions = model.contradictions();
    let remarks = contradictions.iter().map(contradiction).chain(model.remarks()).collect();
    let mut rows = model.rows(&times, &residuals, &first, &left_out);
    for row in &mut rows {
        let has_it = |block: &&Block| block.figures.iter().any(|figure| figure.line == row.line);
        if let Some(block) = results.blocks.iter().find(has_it) {
            row.set.clone_from(&block.set);
        }
    }
    let unexplained = rows
        .iter()
        .filter(|row| row.fitted && row.residual.abs() > UNEXPLAINED)
        .map(|row| row.line)
        .collect();
    let parameters_found =
        intervals::of(&model, &keep, (&best, &times), &fits, &|ends| done(ends * END_STEPS));
    let whole = Model::new(library, setup, sets, blocks, parameters)?;
    let plain = vec![Vec::new(), whole.first_conditions()];
    let slower = hypotheses::half_clock(&config).map(|set| [whole.first_conditions(), vec![set]].concat());
    let mut conditions: Vec<Vec<String>> = plain.iter().cloned().chain(slower).collect();
    conditions.dedup();
    let whole = conditions.iter().try_fold(whole, |whole, set| whole.with_condition(setup, sets, set))?;
    let after = after(&whole, &model, &keep, &best);
    let predicted = after.as_ref().map_or_else(Vec::new, |after| predictions(&whole, after, plain));
    let undecided = after
        .as_ref()
        .map_or_else(Vec::new, |after| undecided::find(&whole, &after.0, &conditions, &PREDICTED));
    Ok(FitReport {
        title: speed_run::title(&config),
        understood,
        unknown,
        held,
        parameters: parameters_found,
        rows,
        worst,
        worst_left_out: largest(left_out.iter().flatten().copied()),
        median_left_out: sizes.get(sizes.len() / 2).copied(),
        hypotheses: hypotheses::explain(library, setup, sets, candidates, &results.blocks, &done),
        unexplained,
        predictions: predicted,
        undecided,
        remarks,
        usable: !contradictions.iter().any(Contradiction::is_fatal)
            && is_usable(&model, &best, &start, worst),
    })
}

/// Tests of `flash_speed` that are predicted.
const PREDICTED: [Test; 7] = [
    Test::Read(0),
    Test::Read(1),
    Test::Read(2),
    Test::Write(0),
    Test::Write(1),
    Test::Write(2),
    Test::Erase(1),
];

/// Distribution of all numbers after the fit, and the best ones. `whole` has those numbers, too, that change no figure.
fn after(
    whole: &Model<'_>,
    model: &Model<'_>,
    keep: &[usize],
    best: &[f64],
) -> Option<(Posterior, Vec<f64>)> {
    let value = |p: &Parameter| {
        let fitted = model.parameters.iter().position(|one| one.path == p.path);
        fitted.and_then(|i| best.get(i)).copied().unwrap_or(p.value / p.scale)
    };
    let best: Vec<f64> = whole.parameters.iter().map(value).collect();
    Some((Posterior::new(whole, keep, &best)?, best))
}

/// Speeds with the fitted numbers under each set of conditions: as the setup is written, and as the first figure was measured.
fn predictions(
    whole: &Model<'_>,
    (posterior, best): &(Posterior, Vec<f64>),
    mut sets: Vec<Vec<String>>,
) -> Vec<Prediction> {
    let residuals = Residuals::stored();
    let Some(covariance) = posterior.of_boards(residuals) else { return Vec::new() };
    sets.dedup();
    let of_set = |set: Vec<String>| {
        let reactions = posterior.reactions(whole, &set, &PREDICTED).unwrap_or_default();
        let link = whole.link(&set, best).unwrap_or_default();
        let kib_s = |ns: f64| 1e9 / (ns * 1024.0);
        let one = |reaction: &Reaction| {
            let operation = Operation::of_test(reaction.test);
            let own = residuals.of(operation, posterior.given(operation));
            let time = reaction.interval(&covariance, own);
            Prediction {
                name: reaction.test.name(),
                operation,
                set: set.clone(),
                link: link.clone(),
                kib_s: kib_s(reaction.ns_per_byte),
                interval: Interval { min: kib_s(time.max), max: kib_s(time.min) },
            }
        };
        reactions.iter().map(one).collect::<Vec<_>>()
    };
    sets.into_iter().flat_map(of_set).collect()
}

/// The residual of the largest size.
fn largest(residuals: impl Iterator<Item = f64>) -> Option<f64> {
    residuals.max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

/// False when no figure is met, or when all costs have moved to an end of what is tried.
fn is_usable(model: &Model<'_>, best: &[f64], stated: &[f64], worst: f64) -> bool {
    let is_moved_to_end =
        |((x, stated), b): ((&f64, &f64), &Bounds)| x != stated && (*x <= b.low || *x >= b.high);
    let costs = best.iter().zip(stated);
    let is_near = worst > 1.0 / ABSURD - 1.0 && worst < ABSURD - 1.0;
    is_near && (best.is_empty() || !costs.zip(&model.bounds()).all(is_moved_to_end))
}

/// Two runs of one board differ by some percent.
const RUNS_APART: f64 = 0.1;

impl Contradiction {
    /// True when the figures are of no one board.
    fn is_fatal(&self) -> bool {
        self.is_fitted && self.apart > RUNS_APART
    }
}

fn contradiction(found: &Contradiction) -> String {
    let (first, second) = found.lines;
    format!(
        "lines {first} and {second} are the same test under the same settings, and their times are {:.1} % apart beyond the rounding: the fit is between them",
        found.apart * 100.0
    )
}

/// The error of results without a figure: the first lines that are not understood, and why.
fn no_figure(unknown: &[Unknown]) -> Error {
    let named = |u: &Unknown| format!("\n  line {}: {}: {}", u.line, u.why, u.text);
    let mut lines: String = unknown.iter().take(NAMED).map(named).collect();
    if unknown.len() > NAMED {
        lines += &format!("\n  and {} more", unknown.len() - NAMED);
    }
    Error::request(
        format!("the results have no figure{lines}"),
        "give output of flash_speed, dd or U-Boot, or lines like `page read 227 us`",
    )
}

/// The costs that fit the figures `keep` best, by steps downhill from `start`.
fn solve(model: &Model<'_>, keep: &[usize], start: &[f64]) -> Option<Vec<f64>> {
    minimise(start.to_vec(), &model.bounds(), Effort::FULL, |at| {
        let times = model.times_of(at, keep)?;
        Some(model.errors(&times, keep, at))
    })
}

/// Factors of the stated costs from which a fit starts: what the wires hide of small costs has no slope there.
const STARTS: [f64; 3] = [1.0, 0.4, 2.5];

/// The fits from several starts, the best first.
fn solve_from_all(model: &Model<'_>, keep: &[usize]) -> Vec<Vec<f64>> {
    let fit = |factor: &f64| {
        // The chip's times begin where they are most likely.
        let begin = |(x, p): (f64, &Parameter)| if p.is_of_chip() { x } else { x * factor };
        let start: Vec<f64> = model.start().into_iter().zip(&model.parameters).map(begin).collect();
        let best = solve(model, keep, &start)?;
        let times = model.times_of(&best, keep)?;
        Some((squares(&model.errors(&times, keep, &best)), best))
    };
    let mut fits: Vec<_> = STARTS.par_iter().filter_map(fit).collect();
    fits.sort_by(|a, b| a.0.total_cmp(&b.0));
    fits.into_iter().map(|(_, best)| best).collect()
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
    let without = solve(model, &others, best)?;
    let time = model.times_of(&without, &[row])?;
    model.residual(row, *time.first()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_one_test_and_condition_contradict_each_other() {
        let library = Library::built_in();
        let setup = library.setup("imx6-mx30lf2g18ac").unwrap();
        let contradictions = |text: &str| {
            let blocks = parse(text.as_bytes()).blocks;
            let model = Model::new(&library, &setup, &[], &blocks, Vec::new()).unwrap();
            let found = model.contradictions();
            (found.len(), found.iter().any(Contradiction::is_fatal))
        };
        let page = |kib_s: u32| format!("page read speed is {kib_s} KiB/s\n");
        let erase = |ms: u32| format!("erase {ms} ms\n");
        let dd = |unit: &str, ms: u32| {
            format!("dd if=/dev/mtd0 of=/dev/null bs={unit}\n10485760 bytes copied, 0.{ms} s, 5 MB/s\n")
        };
        for (text, expected) in [
            (page(15_600) + &page(7800), (1, true)),
            (page(15_600) + &page(15_000), (1, false)),
            (page(15_600) + &page(13_900), (1, true)),
            (page(15_600) + &page(15_600), (0, false)),
            // The second figure has a coarse resolution, which agrees with both others.
            (page(15_600) + "page read 0.1 ms\n" + &page(13_000), (1, true)),
            // Other settings may well be slower.
            (page(15_600) + "set bus.no_ready_pin=true\n" + &page(15_000), (0, false)),
            (
                "set bus.no_ready_pin=true\n".to_owned()
                    + &page(15_600)
                    + "set bus.no_ready_pin=true\n"
                    + &page(13_000),
                (1, true),
            ),
            // The chip decides erases, and no cost.
            (page(15_600) + &erase(2) + &erase(5), (1, false)),
            // Longer calls cost a little less, which the model leaves out.
            (dd("1M", 620) + &dd("10M", 600), (1, false)),
            (dd("1M", 620) + &dd("10M", 400), (1, true)),
            (dd("1M", 620) + &dd("1M", 600), (1, false)),
        ] {
            assert_eq!(contradictions(&text), expected, "{text}");
        }
    }
}
