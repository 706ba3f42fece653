//! Fit of a board's costs (host and controller) and chip times to figures that were measured on the board.
//!
//! - `results`: reads figures from the output of `flash_speed`, dd and U-Boot.
//! - `parameters`: costs and times of a kind of setup, with their distributions.
//! - `model`: simulated times of all figures for given costs.
//! - `least_squares`: the optimiser, which `papers` also uses.
//! - `intervals`: lowest and highest value of each cost with which all figures agree; `linear`: linear programs for it.
//! - `posterior`: distribution of all numbers after the fit, and intervals of predicted speeds.
//! - `residuals`: deviation of boards from their simulation beyond that, estimated from published boards.
//! - `undecided`: times of the chip that the figures cannot separate from costs, and the next measurement to take.
//! - `from_two`: each published board fitted to two of its rows, and its other rows predicted.
//! - `hypotheses`: possible faults of the board.
//! - `shown`: the report of a fit.
//! - `written`: values that the user states and no fit changes, and the resulting setup file.

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
mod shown;
mod undecided;
mod written;

pub use from_two::{ByKind, EstimatedDeviation, FromTwo, FromTwoRow, from_two};
pub use hypotheses::Hypothesis;
pub use parameters::{Parameter, Prior};
pub use residuals::{Deviation, Given};
pub use results::{
    Block, FIGURES_MAX, Figure, Measure, Measurement, RESULTS_MAX_BYTES, Results, Unknown, parse,
};
pub use shown::UNUSABLE;
pub use undecided::{NextFigure, Undecided};
pub use written::to_toml;

use crate::interval::Interval;
use crate::papers::Operation;
use crate::progress::{Listener, Progress};
use crate::speed::Test;
use crate::speed_run;
use floatgate_config::{Library, Override, Setup};
use floatgate_sim::error::Error;
use least_squares::{Bounds, Effort, minimise, squares};
use model::{Contradiction, Model};
use posterior::{Posterior, Reaction};
use rayon::prelude::*;
use residuals::Residuals;
use serde::{Deserialize, Serialize};

/// Residual above which a figure counts as unexplained by any cost, as a ratio.
const UNEXPLAINED: f64 = 0.03;

/// Factor between simulated and measured time above which the costs explain nothing.
const ABSURD: f64 = 2.0;

/// Maximum number of unknown lines in an error message.
const NAMED: usize = 5;

/// A figure of the board with its result in the fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FittedRow {
    /// Line of the input, from 1.
    pub line: usize,
    /// Overrides under which the figure was measured.
    pub name: String,
    /// Overrides under which it was measured.
    pub set: Vec<String>,
    /// The figure as printed.
    pub measured: String,
    /// Measured time, ns per byte, in the middle of the tool's resolution.
    pub ns_per_byte: f64,
    /// Time with the fitted setup, ns per byte.
    pub fitted_ns_per_byte: f64,
    /// Ratio of fitted to measured time, beyond the tool's resolution, minus 1.
    pub residual: f64,
    /// Residual with the costs of the unfitted setup.
    pub residual_before: f64,
    /// Residual after a fit without this figure; `None` if too few other figures remain.
    pub left_out: Option<f64>,
    /// False for a row that determines no fitted number.
    pub fitted: bool,
}

/// A fitted cost or time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FittedParameter {
    /// Dotted path of the number.
    pub path: String,
    /// Kind of operation to which the time belongs; null for a cost of all operations.
    pub operation: Option<Operation>,
    /// Value in the setup before the fit.
    pub before: f64,
    /// Fitted value.
    pub value: f64,
    /// Lowest value with which all figures agree as well as possible.
    pub low: f64,
    /// Highest value with which all figures agree as well as possible.
    pub high: f64,
    /// Other costs with the same effect on every figure, of which only the sum is determined.
    pub same_effect: Vec<String>,
}

/// Speed of a test with the fitted setup, and the 80 % interval of the board's speed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prediction {
    /// Name of the test.
    pub name: String,
    /// Kind of operation.
    pub operation: Operation,
    /// Overrides for the test: those of the first figure, or none for the fitted setup as written.
    pub set: Vec<String>,
    /// Read and write operation of the test, with bus mode and clock.
    pub link: String,
    /// Speed, KiB/s.
    pub kib_s: f64,
    /// 80 % interval of the speed, KiB/s.
    #[serde(flatten)]
    pub interval: Interval,
}

/// Result of a fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FitReport {
    /// Title of the setup.
    pub title: String,
    /// Number of input lines that are understood.
    pub understood: usize,
    /// Input lines that are not understood.
    pub unknown: Vec<Unknown>,
    /// `set` lines that all figures share and that state a cost or chip time. Such a value is not fitted, and the
    /// written setup contains it.
    pub held: Vec<String>,
    /// Costs of the setup that were fitted.
    pub parameters: Vec<FittedParameter>,
    /// Figures of the input, with their residuals.
    pub rows: Vec<FittedRow>,
    /// Largest residual of a fitted row.
    pub worst: f64,
    /// Largest residual of a row that was left out of its fit; `None` if no row could be left out.
    pub worst_left_out: Option<f64>,
    /// Median of the absolute residuals of rows that were left out.
    pub median_left_out: Option<f64>,
    /// Changes of the board that halve the worst residual, the best first.
    pub hypotheses: Vec<Hypothesis>,
    /// Line numbers of the figures that no cost explains.
    pub unexplained: Vec<usize>,
    /// Speeds of `flash_speed`'s tests with the fitted setup. If the first figure has conditions, also under these.
    pub predictions: Vec<Prediction>,
    /// Times of the chip that the figures cannot separate from costs of the host, each with the next measurement to
    /// take.
    pub undecided: Vec<Undecided>,
    /// Remarks with line numbers: figures that contradict each other, and reservations about single figures.
    pub remarks: Vec<String>,
    /// False if the costs explain nothing: a figure is wrong by more than a factor of two, each cost is at an end of
    /// its range, or figures contradict each other.
    pub usable: bool,
    /// Name of the input, for references to its lines; empty in a result that was read.
    #[serde(skip)]
    pub source: String,
}

/// Number of steps of the progress bar for each end of an interval.
const END_STEPS: u64 = 4;

/// Fits the costs of `setup` to `results`. `free` names further numbers of the setup, which are fitted between half
/// their value and their maximum. Numbers in `sets` are not fitted, unless they are in `free`. `progress` receives the
/// number of fits made.
///
/// # Errors
/// The input has no figure; a setup or override is wrong; a figure cannot be simulated.
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
    let too_fast = model.too_fast(ABSURD);
    let blocks = &written::without_lines(blocks, &too_fast);
    let model = match too_fast.is_empty() {
        true => model,
        false => Model::new(library, setup, sets, blocks, parameters.clone())?,
    };
    let impossible = [model.refused.as_slice(), &too_fast].concat();
    let mut unknown = [results.unknown.as_slice(), &impossible].concat();
    unknown.sort_by_key(|unknown| unknown.line);
    let understood = results.understood.saturating_sub(impossible.len());
    if model.is_empty() {
        return Err(no_figure(&unknown));
    }
    // Hypotheses may change what the `set` lines of all figures state.
    let all_blocks = written::without_lines(&results.blocks, &too_fast);
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
        hypotheses: hypotheses::explain(library, setup, sets, candidates, &all_blocks, &done),
        unexplained,
        predictions: predicted,
        undecided,
        remarks,
        source: String::new(),
        usable: !contradictions.iter().any(Contradiction::is_fatal)
            && is_usable(&model, &best, &start, worst),
    })
}

/// Tests of `flash_speed` whose speeds are predicted.
const PREDICTED: [Test; 7] = [
    Test::Read(0),
    Test::Read(1),
    Test::Read(2),
    Test::Write(0),
    Test::Write(1),
    Test::Write(2),
    Test::Erase(1),
];

/// Distribution and best values of all numbers after the fit. `whole` also contains the numbers that change no figure.
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

/// Speeds with the fitted numbers: with the setup as written, and under the conditions of the first figure.
fn predictions(
    whole: &Model<'_>,
    (posterior, best): &(Posterior, Vec<f64>),
    mut sets: Vec<Vec<String>>,
) -> Vec<Prediction> {
    let residuals = Residuals::stored();
    let Some(board) = posterior.of_boards(residuals) else { return Vec::new() };
    sets.dedup();
    let of_set = |set: Vec<String>| {
        let reactions = posterior.reactions(whole, &set, &PREDICTED).unwrap_or_default();
        let link = whole.link(&set, best).unwrap_or_default();
        let kib_s = |ns: f64| 1e9 / (ns * 1024.0);
        let one = |reaction: &Reaction| {
            let operation = Operation::of_test(reaction.test);
            let own = residuals.of(operation, posterior.given(operation, &set));
            let time = reaction.interval(&board, own);
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

/// Residual with the largest absolute value.
fn largest(residuals: impl Iterator<Item = f64>) -> Option<f64> {
    residuals.max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

/// False if no figure is explained, or if all costs are at an end of their ranges.
fn is_usable(model: &Model<'_>, best: &[f64], stated: &[f64], worst: f64) -> bool {
    let is_moved_to_end =
        |((x, stated), b): ((&f64, &f64), &Bounds)| x != stated && (*x <= b.low || *x >= b.high);
    let costs = best.iter().zip(stated);
    let is_near = worst > 1.0 / ABSURD - 1.0 && worst < ABSURD - 1.0;
    is_near && (best.is_empty() || !costs.zip(&model.bounds()).all(is_moved_to_end))
}

/// Difference of two figures of the same test above which they count as contradictory, as a ratio. Two runs on one
/// board differ by some percent.
const RUNS_APART: f64 = 0.1;

impl Contradiction {
    /// True if the figures cannot be of one board.
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

/// Error for results without a figure: the first lines that are not understood, with the reasons.
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

/// Costs that fit the figures `keep` best, found by descent from `start`.
fn solve(model: &Model<'_>, keep: &[usize], start: &[f64]) -> Option<Vec<f64>> {
    minimise(start.to_vec(), &model.bounds(), Effort::FULL, |at| {
        let times = model.times_of(at, keep)?;
        Some(model.errors(&times, keep, at))
    })
}

/// Factors of the stated costs at which fits start. A small cost that the bus transfer hides has no slope, so several
/// starts are needed.
const STARTS: [f64; 3] = [1.0, 0.4, 2.5];

/// Results of the fits from all starts, the best first.
fn solve_from_all(model: &Model<'_>, keep: &[usize]) -> Vec<Vec<f64>> {
    let fit = |factor: &f64| {
        // Times of the chip start at their most likely values.
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

/// Largest absolute residual of the rows `keep`.
fn size(residuals: &[f64], keep: &[usize]) -> f64 {
    keep.iter().filter_map(|&row| residuals.get(row)).fold(0.0, |worst, r| r.abs().max(worst))
}

/// Residual of a row after a fit without this row and without other rows of the same measure.
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

    /// Figures beyond what the chip can do are lines that are not used, whatever the costs are; fast ones are figures.
    #[test]
    fn a_figure_that_is_impossible_for_the_chip_is_not_used() {
        let library = Library::built_in();
        let setup = library.setup("ma35d1-w25n02jw").unwrap();
        let fitted = |text: &str| fit(&library, &setup, &[], &parse(text.as_bytes()), &[], &|_| ());
        let error =
            fitted("page read speed is 99999999 KiB/s\npage read 0.001 us\n").unwrap_err().to_string();
        assert_eq!(
            error.matches("faster than the chip and its bus, which allow at most").count(),
            2,
            "{error}"
        );
        let config = library.resolve(&setup, &[]).unwrap();
        let parameters = parameters::of(&library, &config, &[]).unwrap();
        let lines = |text: &str| {
            let blocks = parse(text.as_bytes()).blocks;
            let model = Model::new(&library, &setup, &[], &blocks, parameters.clone()).unwrap();
            let found = model.too_fast(ABSURD);
            let left: usize =
                written::without_lines(&blocks, &found).iter().map(|block| block.figures.len()).sum();
            (found.iter().map(|unknown| unknown.line).collect::<Vec<_>>(), left)
        };
        let text = "page read speed is 1368 KiB/s\neraseblock write speed is 900000 KiB/s\nerase 0.001 ms\n";
        assert_eq!(lines(text), (vec![2, 3], 1));
        assert_eq!(lines("page read speed is 1 KiB/s\npage read speed is 3000 KiB/s\n"), (vec![], 2));
    }

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
            // The second figure has a coarse resolution that agrees with both others.
            (page(15_600) + "page read 0.1 ms\n" + &page(13_000), (1, true)),
            // Figures under other settings may be slower.
            (page(15_600) + "set bus.no_ready_pin=true\n" + &page(15_000), (0, false)),
            (
                "set bus.no_ready_pin=true\n".to_owned()
                    + &page(15_600)
                    + "set bus.no_ready_pin=true\n"
                    + &page(13_000),
                (1, true),
            ),
            // Only the chip determines erase times, not a cost.
            (page(15_600) + &erase(2) + &erase(5), (1, false)),
            // Longer calls take slightly less time, which the model does not contain.
            (dd("1M", 620) + &dd("10M", 600), (1, false)),
            (dd("1M", 620) + &dd("10M", 400), (1, true)),
            (dd("1M", 620) + &dd("1M", 600), (1, false)),
        ] {
            assert_eq!(contradictions(&text), expected, "{text}");
        }
    }
}
