//! Each published board is fitted to two of its rows, and its other rows are predicted: the error of a fit to few
//! figures. Each row is also predicted without any row of its board.
//!
//! All pairs of rows of a board are tried. A board counts once, however many rows it has. Costs that were fitted to
//! rows of a board do not apply to that board: the costs in the files of its host and controller replace them. A fitted
//! time of the chip is replaced by the time of the data sheet. The intervals depend on the deviation of boards beyond
//! their numbers. It is estimated for each board from the other boards ([`super::residuals`]).

use super::model::Model;
use super::parameters;
use super::posterior::{OfBoard, Posterior, Reaction, variance};
use super::residuals::{Deviation, Given, Residuals, Sample};
use super::{Block, Figure, Measure, Measurement, solve};
use crate::interval::Interval;
use crate::papers::{Fit, Operation, Paper, Row, Table};
use crate::speed::{SpeedOptions, Test};
use crate::speed_run::for_times;
use floatgate_config::{Kind, Library, Override};
use floatgate_sim::error::Error;
use floatgate_sim::rig::{self, RigOptions};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Minimum number of rows of a board: two are given, and at least one is predicted.
const ROWS_MIN: usize = 3;

/// Maximum error of a row that counts as near, as a ratio.
const NEAR: f64 = 0.15;

/// Number of CPU instructions per operation of the SPI memory layer, on boards with another controller
/// (docs/fidelity.md).
const OF_OTHERS: u32 = 18_000;

/// True for a fitted instruction count of a controller's driver. The count of other boards replaces it.
fn is_counted(fit: &Fit) -> bool {
    fit.parameter == "controller.work.instructions"
}

/// Minimum number of other boards from which deviations are estimated. With fewer boards, the deviations of the file
/// are used.
const OTHERS_MIN: usize = 4;

/// Number of rounds in which deviations are estimated. The variance of the fitted numbers depends on the deviations of
/// the previous round.
const ROUNDS: usize = 3;

/// Result of fitting each board to two of its rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FromTwo {
    /// Predicted rows for all pairs of given rows.
    pub rows: Vec<FromTwoRow>,
    /// Errors by board and kind of operation, and over all boards.
    pub kinds: Vec<ByKind>,
    /// Deviations of boards beyond their fitted numbers, estimated from all rows.
    pub deviations: Vec<EstimatedDeviation>,
}

/// Estimated deviation of boards, with the deviation that `floatgate fit` uses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EstimatedDeviation {
    /// Kind of operation.
    pub operation: Operation,
    /// Kind of the given rows.
    pub from: Given,
    /// Number of boards.
    pub boards: usize,
    /// Standard deviation of the logarithm of the time.
    pub deviation: f64,
    /// Standard deviation in the data file.
    pub stored: f64,
}

/// A row that is predicted from two other rows of its board.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FromTwoRow {
    /// Name of the document.
    pub paper: String,
    /// Name of the board's first table.
    pub board: String,
    /// Given rows as `table/row`: two or none.
    pub given: Vec<String>,
    /// The predicted row.
    pub row: String,
    /// Kind of operation of the predicted row.
    pub operation: Operation,
    /// Kinds of the given rows.
    pub from: Given,
    /// Published figure, KiB/s.
    pub published: f64,
    /// False for a board whose controller or host file has costs that were fitted to its rows.
    pub strict: bool,
    /// Predicted speed, KiB/s.
    pub predicted: f64,
    /// 80 % interval of the predicted speed, KiB/s.
    #[serde(flatten)]
    pub interval: Interval,
    /// Ratio of predicted to published speed, beyond the resolution of the tool, minus 1.
    pub residual: f64,
    /// True if the interval contains the published figure.
    pub holds: bool,
}

/// Errors of one kind of operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ByKind {
    /// Name of the board; null for all strict boards, each of which counts once.
    pub board: Option<String>,
    /// False for a board whose predictions depend on its own rows.
    pub strict: bool,
    /// Kind of operation.
    pub operation: Operation,
    /// Kind of the given rows.
    pub from: Given,
    /// Number of predictions.
    pub predicted: usize,
    /// Median of the absolute residuals.
    pub median: f64,
    /// Largest absolute residual.
    pub worst: f64,
    /// Share of predictions within 15 %.
    pub within_15_percent: f64,
    /// Share of predictions whose interval contains the published figure.
    pub hold: f64,
    /// Median of the half widths of the intervals, as ratios.
    pub half_width: f64,
}

/// A board: all tables with the same setup and overrides.
struct Board<'p> {
    paper: &'p Paper,
    tables: Vec<&'p Table>,
}

/// A row that is a test of `flash_speed`.
struct Subject<'p> {
    table: &'p Table,
    row: &'p Row,
    test: Test,
}

impl Subject<'_> {
    fn name(&self) -> String {
        format!("{}/{}", self.table.name, self.row.row)
    }
}

/// Fits each board of the papers that has at least three rows of `flash_speed` to each pair of these rows.
///
/// # Errors
/// A setup cannot be built.
pub fn from_two(library: &Library, papers: &[Paper]) -> Result<FromTwo, Error> {
    let boards: Vec<Board<'_>> = papers.iter().flat_map(boards).collect();
    let predicted: Result<Vec<Vec<Predicted<'_>>>, Error> =
        boards.par_iter().map(|board| board.predict(library)).collect();
    let predicted = predicted?;
    let families: Vec<&str> = boards.iter().map(Board::family).collect();
    let (all, samples) = estimate(&predicted);
    let own = |(board, of_board): (usize, &Vec<Predicted<'_>>)| {
        let is_other = |sample: &&Sample| families.get(sample.board) != families.get(board);
        let others: Vec<Sample> = samples.iter().filter(is_other).copied().collect();
        let residuals = Residuals::estimated(&others, OTHERS_MIN);
        of_board.iter().flat_map(|one| one.rows(&residuals)).collect::<Vec<_>>()
    };
    let rows: Vec<FromTwoRow> = predicted.par_iter().enumerate().flat_map_iter(own).collect();
    let kinds = by_kind(&rows);
    let stored = Residuals::stored();
    let deviation = |kind: Deviation| EstimatedDeviation {
        stored: stored.of(kind.operation, kind.from),
        operation: kind.operation,
        from: kind.from,
        boards: kind.boards,
        deviation: kind.deviation,
    };
    Ok(FromTwo { rows, kinds, deviations: all.kinds.into_iter().map(deviation).collect() })
}

/// Estimates the deviations of all boards, and the rows from which they follow. Each round computes the variance of the
/// fitted numbers with the deviations of the previous round.
fn estimate(predicted: &[Vec<Predicted<'_>>]) -> (Residuals, Vec<Sample>) {
    let mut residuals = Residuals::stored().clone();
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        let of_board = |(board, all): (usize, &Vec<Predicted<'_>>)| {
            let strict = all.iter().filter(|one| one.board.is_strict());
            strict.flat_map(|one| one.samples(board, &residuals)).collect::<Vec<_>>()
        };
        samples = predicted.par_iter().enumerate().flat_map_iter(of_board).collect();
        residuals = Residuals::estimated(&samples, 1);
    }
    (residuals, samples)
}

/// A fit of a board to some of its rows, with the rows that it predicts.
struct Predicted<'p> {
    board: &'p Board<'p>,
    given: Vec<String>,
    posterior: Posterior,
    rows: Vec<PredictedRow>,
}

/// A predicted row without its interval.
struct PredictedRow {
    name: String,
    operation: Operation,
    /// Overrides of the row.
    set: Vec<String>,
    /// Range of published speeds that the tool prints as the same figure, KiB/s.
    published: (f64, f64),
    reaction: Reaction,
}

impl PredictedRow {
    fn predicted(&self) -> f64 {
        kib_s(self.reaction.ns_per_byte)
    }

    /// Ratio of predicted to published speed, beyond the resolution of the tool.
    fn ratio(&self) -> f64 {
        let (min, max) = self.published;
        self.predicted() / self.predicted().clamp(min, max)
    }
}

impl Predicted<'_> {
    fn samples(&self, board: usize, residuals: &Residuals) -> Vec<Sample> {
        let Some(found) = self.posterior.of_boards(residuals) else { return Vec::new() };
        let one = |row: &PredictedRow| Sample {
            board,
            operation: row.operation,
            from: self.posterior.given(row.operation, &row.set),
            error: row.ratio().ln().abs(),
            variance: variance(&found.covariance, &row.reaction.slopes),
            tension: found.tension,
        };
        self.rows.iter().map(one).collect()
    }

    fn rows(&self, residuals: &Residuals) -> Vec<FromTwoRow> {
        let Some(found) = self.posterior.of_boards(residuals) else { return Vec::new() };
        self.rows.iter().map(|row| self.row(row, &found, residuals)).collect()
    }

    fn row(&self, row: &PredictedRow, found: &OfBoard, residuals: &Residuals) -> FromTwoRow {
        let from = self.posterior.given(row.operation, &row.set);
        let time = row.reaction.interval(found, residuals.of(row.operation, from));
        let interval = Interval { min: kib_s(time.max), max: kib_s(time.min) };
        let (min, max) = row.published;
        FromTwoRow {
            paper: self.board.paper.paper.clone(),
            board: self.board.name(),
            given: self.given.clone(),
            row: row.name.clone(),
            operation: row.operation,
            from,
            published: f64::midpoint(min, max),
            strict: self.board.is_strict(),
            predicted: row.predicted(),
            interval,
            residual: row.ratio() - 1.0,
            holds: interval.min <= max && interval.max >= min,
        }
    }
}

/// Boards of a paper with enough rows.
fn boards(paper: &Paper) -> Vec<Board<'_>> {
    let mut groups: BTreeMap<(&str, &[String]), Vec<&Table>> = BTreeMap::new();
    for table in paper.tables.iter().filter(|table| table.unit == "KiB/s") {
        groups.entry((&table.setup, &table.set)).or_default().push(table);
    }
    let boards = groups.into_values().map(|tables| Board { paper, tables });
    boards.filter(|board| board.subjects().len() >= ROWS_MIN).collect()
}

impl<'p> Board<'p> {
    /// Rows that are tests of `flash_speed`, one for each measure.
    fn subjects(&self) -> Vec<Subject<'p>> {
        let mut all: Vec<Subject<'p>> = Vec::new();
        let rows = self.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (*table, row)));
        for (table, row) in rows {
            let Some(test) = Test::from_name(&row.measure).filter(|_| row.setup.is_none()) else { continue };
            if all.iter().all(|other| (&other.row.measure, &other.row.set) != (&row.measure, &row.set)) {
                all.push(Subject { table, row, test });
            }
        }
        all
    }

    fn name(&self) -> String {
        self.tables.first().map_or_else(String::new, |table| table.name.clone())
    }

    /// Fits of the paper to rows of this board.
    fn fits(&self) -> impl Iterator<Item = &'p Fit> {
        let names: Vec<String> = self.subjects().iter().map(Subject::name).collect();
        self.paper.fits.iter().filter(move |fit| fit.rows.iter().any(|row| names.contains(row)))
    }

    /// True if the board's predictions depend on none of its rows. Values that were fitted to its rows are in the setup
    /// or a part, where they are replaced, or come from other boards.
    fn is_strict(&self) -> bool {
        let is_shared =
            |fit: &Fit| ["controllers/", "hosts/"].iter().any(|folder| fit.file.starts_with(folder));
        let host =
            self.tables.first().is_some_and(|table| table.set.iter().any(|set| set.starts_with("host=")));
        self.fits().all(|fit| !is_shared(fit) || is_counted(fit) || host && fit.file.starts_with("hosts/"))
    }

    /// First word of the setup, or of the table that changes a setup. Boards with the same word may be identical.
    fn family(&self) -> &'p str {
        let Some(table) = self.tables.first() else { return "" };
        let own = if table.set.is_empty() { table.setup.as_str() } else { table.name.as_str() };
        own.split('-').next().unwrap_or_default()
    }

    /// Overrides that restore the board's setup to its state before any of its rows was known.
    fn overrides(&self, library: &Library) -> Vec<String> {
        let own: Vec<&Fit> = self.fits().collect();
        let Some(table) = self.tables.first() else { return Vec::new() };
        let file = format!("setups/{}.toml", table.setup);
        let setup = library.setup(&table.setup).ok().filter(|_| own.iter().any(|fit| fit.file == file));
        let base = |name: &str| {
            let base = setup.as_ref()?.tree().get(&format!("{name}.base"))?.as_text()?;
            Some(format!("{name}={base}"))
        };
        let bases = ["controller", "host"].into_iter().filter_map(base);
        let unmeasured = setup.iter().map(|_| "host.unmeasured=true".to_owned());
        let counted = own.iter().filter(|fit| is_counted(fit));
        let counted = counted.map(|fit| format!("{}={OF_OTHERS}", fit.parameter));
        let of_chip = own.iter().filter_map(|fit| {
            let typical = data_sheet(library, &fit.file, fit.parameter.strip_prefix("chip.")?)?;
            Some(format!("{}={typical}", fit.parameter))
        });
        bases.chain(unmeasured).chain(table.set.iter().cloned()).chain(counted).chain(of_chip).collect()
    }

    fn predict(&'p self, library: &Library) -> Result<Vec<Predicted<'p>>, Error> {
        let Some(table) = self.tables.first() else { return Ok(Vec::new()) };
        let setup = library.setup(&table.setup)?;
        let sets = Override::parse_all(&self.overrides(library))?;
        let config = library.resolve(&setup, &sets)?;
        let options = for_times(RigOptions::default(), &config, &SpeedOptions::default());
        let erase_bytes = rig::wire(library, &config, options)?.device.geometry().erase_bytes;
        let subjects = self.subjects();
        let speeds: Vec<(f64, f64)> = subjects.iter().map(|s| published(s, erase_bytes)).collect();
        let block = |(line, (subject, (min, max))): (usize, (&Subject<'_>, &(f64, f64)))| Block {
            set: subject.row.set.clone(),
            blocks: Some(subject.table.blocks),
            figures: vec![Measurement {
                line,
                measure: Measure::Test(subject.test),
                figure: Figure::NsPerByte(ns_per_byte(*max), ns_per_byte(*min)),
                text: subject.row.row.clone(),
                bytes: None,
                remark: None,
            }],
        };
        let blocks: Vec<Block> = subjects.iter().zip(&speeds).enumerate().map(block).collect();
        let parameters = parameters::of(library, &config, &[])?;
        let model = Model::new(library, &setup, &sets, &blocks, parameters)?;
        if model.rows_count() != subjects.len() {
            return Err(Error::request(
                format!("{}: a row has a test that the device has not", self.name()),
                "correct the measure of the row",
            ));
        }
        let pairs: Vec<(usize, usize)> =
            (0..subjects.len()).flat_map(|a| (a + 1..subjects.len()).map(move |b| (a, b))).collect();
        let of_pair = |&(a, b): &(usize, usize)| self.of_given(&model, &subjects, &speeds, &[a, b]);
        let mut rows: Vec<Predicted<'p>> = pairs.par_iter().filter_map(of_pair).collect();
        rows.extend(self.of_given(&model, &subjects, &speeds, &[]));
        Ok(rows)
    }

    /// Rows other than the given ones, predicted from them.
    fn of_given(
        &'p self,
        model: &Model<'_>,
        subjects: &[Subject<'_>],
        speeds: &[(f64, f64)],
        keep: &[usize],
    ) -> Option<Predicted<'p>> {
        let start = model.start();
        let best = if keep.is_empty() { start } else { solve(model, keep, &start)? };
        let posterior = Posterior::new(model, keep, &best)?;
        let one = |(i, subject): (usize, &Subject<'_>)| {
            let reaction =
                posterior.reactions(model, &subject.row.set, &[subject.test])?.into_iter().next()?;
            Some(PredictedRow {
                name: subject.name(),
                operation: Operation::of_test(subject.test),
                set: subject.row.set.clone(),
                published: *speeds.get(i)?,
                reaction,
            })
        };
        let others = subjects.iter().enumerate().filter(|(i, _)| !keep.contains(i));
        let rows = others.filter_map(one).collect();
        let given = keep.iter().filter_map(|i| subjects.get(*i).map(Subject::name)).collect();
        Some(Predicted { board: self, given, posterior, rows })
    }
}

/// Typical time in the data sheet of a part: the value that its file states before the measured one.
fn data_sheet(library: &Library, file: &str, key: &str) -> Option<f64> {
    let name = file.strip_prefix("parts/")?.strip_suffix(".toml")?;
    let part = library.load(Kind::Part, name).ok()?;
    part.table.extract::<f64>(key).ok()
}

/// Range of exact speeds for which the row's tool prints its figure, KiB/s.
fn published(subject: &Subject<'_>, erase_bytes: u32) -> (f64, f64) {
    let kib = f64::from(subject.table.blocks) * f64::from(erase_bytes) / 1024.0;
    let (min, max) =
        subject.row.published_value().map_or((1.0, 1.0), |says| says.interval(subject.table, Some(kib)));
    (min.max(1e-3), if max.is_finite() { max.max(min) } else { min })
}

fn ns_per_byte(kib_s: f64) -> f64 {
    1e9 / (kib_s * 1024.0)
}

fn kib_s(ns_per_byte: f64) -> f64 {
    1e9 / (ns_per_byte * 1024.0)
}

const KINDS: [Operation; 3] = [Operation::Read, Operation::Program, Operation::Erase];

/// Errors of each board and of all boards, by kind of operation.
fn by_kind(rows: &[FromTwoRow]) -> Vec<ByKind> {
    let mut boards: Vec<&str> = rows.iter().map(|row| row.board.as_str()).collect();
    boards.dedup();
    let mut all = Vec::new();
    for operation in KINDS {
        for from in Given::ALL {
            let of_board = |board: &&str| {
                let own = |row: &&FromTwoRow| {
                    row.board == **board && row.operation == operation && row.from == from
                };
                of_one_board(board, &rows.iter().filter(own).collect::<Vec<_>>())
            };
            let each: Vec<ByKind> = boards.iter().filter_map(of_board).collect();
            let strict: Vec<ByKind> = each.iter().filter(|kind| kind.strict).cloned().collect();
            all.extend(of_all_boards(&strict));
            all.extend(each);
        }
    }
    all.sort_by_key(|kind| kind.board.is_some());
    all
}

fn of_one_board(board: &str, rows: &[&FromTwoRow]) -> Option<ByKind> {
    let first = rows.first()?;
    let sizes: Vec<f64> = rows.iter().map(|row| row.residual.abs()).collect();
    let share = |count: usize| count as f64 / rows.len() as f64;
    Some(ByKind {
        board: Some(board.to_owned()),
        strict: first.strict,
        operation: first.operation,
        from: first.from,
        predicted: rows.len(),
        worst: sizes.iter().copied().fold(0.0, f64::max),
        within_15_percent: share(sizes.iter().filter(|size| **size <= NEAR).count()),
        hold: share(rows.iter().filter(|row| row.holds).count()),
        half_width: median(rows.iter().map(|row| row.interval.half_width()).collect())?,
        median: median(sizes)?,
    })
}

/// Errors over all boards, each of which counts once.
fn of_all_boards(each: &[ByKind]) -> Option<ByKind> {
    let first = each.first()?;
    let mean = |of: fn(&ByKind) -> f64| each.iter().map(of).sum::<f64>() / each.len() as f64;
    Some(ByKind {
        board: None,
        strict: true,
        operation: first.operation,
        from: first.from,
        predicted: each.iter().map(|kind| kind.predicted).sum(),
        median: median(each.iter().map(|kind| kind.median).collect())?,
        worst: each.iter().map(|kind| kind.worst).fold(0.0, f64::max),
        within_15_percent: mean(|kind| kind.within_15_percent),
        hold: mean(|kind| kind.hold),
        half_width: median(each.iter().map(|kind| kind.half_width).collect())?,
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (below, above) = (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*below, *above))
}
