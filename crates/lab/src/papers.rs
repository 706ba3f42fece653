//! Published tables beside what floatgate simulates.
//!
//! A file in `papers/` holds the rows of one document: figure, unit, setup, what to measure, and whether the figure was used to fit a
//! parameter, is predicted, or is an exception with its reason. The `[[fit]]` tables say which parameters were fitted to which rows;
//! a predicted row must not be among them, and a fitted one must.

use crate::config::{ConfigError, Library, Node, Override, Source};
use crate::error::Error;
use crate::keystore::{self, Driver};
use crate::rig::{self, RigOptions};
use crate::speed::{self, SpeedOptions, Test};
use floatgate_mtd::{Breakdown, OobMode, Phase};
use include_dir::{Dir, include_dir};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

static PAPERS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../papers");

/// How a row was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// A parameter was fitted to it.
    Fitted,
    /// Nothing was.
    Predicted,
    /// The model does not explain it; the reason is given.
    Exception,
}

/// One document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Short name: `P0`.
    pub paper: String,
    /// Title, author, year.
    pub title: String,
    /// Its tables.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
    /// Fitted parameters.
    #[serde(default, rename = "fit")]
    pub fits: Vec<Fit>,
    /// What nobody has published yet.
    #[serde(default, rename = "prediction")]
    pub predictions: Vec<Prediction>,
}

/// One table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Short name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Unit of its figures.
    pub unit: String,
    /// Setup of its rows, unless they name their own.
    pub setup: String,
    /// Largest residual of a row that is not an exception.
    #[serde(default = "five_percent")]
    pub tolerance: f64,
    /// Eraseblocks measured (`flash_speed -c`).
    #[serde(default = "ten")]
    pub blocks: u32,
    /// Its rows.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

const fn five_percent() -> f64 {
    0.05
}

const fn ten() -> u32 {
    10
}

/// One published figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name in the table.
    pub row: String,
    /// The figure.
    pub published: f64,
    /// How it was used.
    pub kind: RowKind,
    /// What to measure: a test of `speed`, or one of the measures of this module.
    pub measure: String,
    /// Overrides on the setup.
    #[serde(default)]
    pub set: Vec<String>,
    /// Setup, when not the table's.
    #[serde(default)]
    pub setup: Option<String>,
    /// Block read in the read-while-write test.
    #[serde(default)]
    pub secondary_block: Option<u32>,
    /// Largest residual, when not the table's: the resolution of the figure may be coarser.
    #[serde(default)]
    pub tolerance: Option<f64>,
    /// Why it is an exception, or what is special.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A parameter and the rows it was fitted to.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Dotted path of the parameter.
    pub parameter: String,
    /// The file that holds it.
    pub file: String,
    /// `table/row` names.
    pub rows: Vec<String>,
}

/// A figure that nobody has published.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Short name.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Setup.
    pub setup: String,
    /// What to measure.
    pub measure: String,
    /// Unit.
    pub unit: String,
    /// Overrides on the setup.
    #[serde(default)]
    pub set: Vec<String>,
    /// What stands in its way, if anything.
    #[serde(default)]
    pub note: String,
}

/// One row of the report. Its JSON is stable.
#[derive(Clone, Debug, Serialize)]
pub struct ReportRow {
    /// Short name of the document.
    pub paper: String,
    /// Short name of the table.
    pub table: String,
    /// Name of the row.
    pub row: String,
    /// Unit of both figures.
    pub unit: String,
    /// The published figure.
    pub published: f64,
    /// The simulated figure, rounded as the published one was.
    pub simulated: f64,
    /// simulated / published - 1.
    pub residual: f64,
    /// How the row was used.
    pub kind: RowKind,
    /// Setup and overrides.
    pub setup: String,
    /// Largest residual allowed.
    pub tolerance: f64,
    /// Why it is an exception, or what is special.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ReportRow {
    /// Whether the row is not an exception and lies outside its tolerance.
    pub fn is_outside(&self) -> bool {
        self.kind != RowKind::Exception && self.residual.abs() > self.tolerance
    }
}

/// A prediction with its breakdown.
#[derive(Clone, Debug, Serialize)]
pub struct ReportPrediction {
    /// Short name of the document.
    pub paper: String,
    /// Short name.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Setup and overrides.
    pub setup: String,
    /// Unit.
    pub unit: String,
    /// The exact figure.
    pub simulated: f64,
    /// Where the time goes, ns.
    #[serde(serialize_with = "crate::speed::breakdown_ns")]
    pub breakdown_ns: Breakdown,
    /// What stands in its way, if anything.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The whole comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// All rows.
    pub rows: Vec<ReportRow>,
    /// Their summary.
    pub summary: Summary,
    /// What nobody has published yet.
    pub predictions: Vec<ReportPrediction>,
}

/// The rows in numbers. Exceptions count as rows, not in residuals.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Rows compared.
    pub rows: usize,
    /// Rows that parameters were fitted to.
    pub fitted: usize,
    /// Rows that were predicted.
    pub predicted: usize,
    /// Declared exceptions.
    pub exceptions: usize,
    /// Parameters fitted.
    pub parameters: usize,
    /// Median of the residuals' sizes.
    pub median: f64,
    /// Median over predicted rows alone.
    pub median_predicted: f64,
    /// Largest residual's size.
    pub worst: f64,
    /// The row with the largest residual, `paper/table/row`.
    pub worst_row: String,
    /// Rows outside their tolerance.
    pub outside: usize,
}

impl Summary {
    /// Whether every row that is not an exception is within its tolerance.
    pub fn holds(&self) -> bool {
        self.outside == 0
    }
}

/// The documents of this project.
///
/// # Errors
/// When one of them is not as it should be.
pub fn built_in() -> Result<Vec<Paper>, Error> {
    let mut files: Vec<_> = PAPERS.files().collect();
    files.sort_by_key(|f| f.path());
    let papers: Result<Vec<Paper>, ConfigError> = files
        .into_iter()
        .filter(|f| f.path().extension().is_some_and(|e| e == "toml"))
        .map(|f| read(&Source::bytes(&format!("papers/{}", f.path().display()), f.contents())?))
        .collect();
    let papers = papers?;
    papers.iter().try_for_each(check)?;
    Ok(papers)
}

/// Reads one document.
///
/// # Errors
/// When it is not as it should be.
pub fn read(source: &std::sync::Arc<Source>) -> Result<Paper, ConfigError> {
    Node::parse(source)?.extract("")
}

/// Checks that the figures can be compared, that fitted rows have a fit, and that predicted rows have none.
///
/// # Errors
/// The first row that makes no sense or is not honest about fits.
pub fn check(paper: &Paper) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::asked(format!("{}: {what}", paper.paper), "correct the file"));
    let fitted: Vec<&String> = paper.fits.iter().flat_map(|f| &f.rows).collect();
    let mut names = Vec::new();
    for (table, row) in rows(paper) {
        let name = format!("{}/{}", table.name, row.row);
        if let Some(why) = doubt(table, row).or_else(|| dishonesty(row.kind, row, fitted.contains(&&name))) {
            return wrong(format!("{name} {why}"));
        }
        if names.contains(&name) {
            return wrong(format!("there are two rows {name}"));
        }
        names.push(name);
    }
    if names.is_empty() && paper.predictions.is_empty() {
        return wrong("there is no row to compare".to_owned());
    }
    match fitted.into_iter().find(|name| !names.contains(name)) {
        Some(name) => wrong(format!("a [[fit]] names the row {name:?}, which does not exist")),
        None => Ok(()),
    }
}

/// What makes a row impossible to compare.
fn doubt(table: &Table, row: &Row) -> Option<&'static str> {
    let tolerance = row.tolerance.unwrap_or(table.tolerance);
    match row {
        _ if row.published.is_nan() || row.published <= 0.0 => {
            Some("has a published figure that is not above 0")
        }
        _ if tolerance.is_nan() || tolerance < 0.0 => Some("has a tolerance below 0"),
        _ if table.blocks == 0 => Some("is measured over no block: set blocks to 1 or more"),
        _ => None,
    }
}

/// How a row and the fits contradict each other.
fn dishonesty(kind: RowKind, row: &Row, has_fit: bool) -> Option<&'static str> {
    match kind {
        RowKind::Fitted if !has_fit => Some("is called fitted, but no [[fit]] names it"),
        RowKind::Predicted if has_fit => Some("is called predicted, but a [[fit]] uses it"),
        RowKind::Exception if row.reason.is_none() => Some("is an exception without a reason"),
        _ => None,
    }
}

fn rows(paper: &Paper) -> impl Iterator<Item = (&Table, &Row)> {
    paper.tables.iter().flat_map(|t| t.rows.iter().map(move |r| (t, r)))
}

/// What to run; rows that need the same run share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    setup: String,
    set: Vec<String>,
    measure: String,
    blocks: u32,
    secondary_block: Option<u32>,
}

/// What came out.
#[derive(Clone, Debug)]
enum Outcome {
    Figure { printed: f64, exact: f64, breakdown: Breakdown },
    Keystore(Vec<keystore::Line>),
    Latency(speed::Latency),
}

/// Keeps the tables that `filter` names: a paper (`P0`), a table (`octal`) or both (`P0/octal`). Empty keeps all.
///
/// # Errors
/// When nothing has that name; the help lists what there is.
pub fn select(papers: Vec<Paper>, filter: &str) -> Result<Vec<Paper>, Error> {
    if filter.is_empty() {
        return Ok(papers);
    }
    let known: Vec<String> =
        papers.iter().flat_map(|p| p.tables.iter().map(move |t| format!("{}/{}", p.paper, t.name))).collect();
    let wanted = |paper: &Paper, name: &str| {
        let full = format!("{}/{name}", paper.paper);
        [paper.paper.as_str(), name, &full].iter().any(|n| n.eq_ignore_ascii_case(filter))
    };
    let mut kept = papers;
    for paper in &mut kept {
        let title = paper.paper.clone();
        let whole = title.eq_ignore_ascii_case(filter);
        let copy = paper.clone();
        paper.tables.retain(|t| wanted(&copy, &t.name));
        paper.predictions.retain(|p| whole || wanted(&copy, &p.name));
        let left: Vec<String> = rows(paper).map(|(t, r)| format!("{}/{}", t.name, r.row)).collect();
        paper.fits.retain(|f| f.rows.iter().any(|r| left.contains(r)));
    }
    kept.retain(|p| !p.tables.is_empty() || !p.predictions.is_empty());
    if kept.is_empty() {
        return Err(Error::asked(
            format!("no paper or table is called {filter:?}"),
            format!("there are {}", known.join(", ")),
        ));
    }
    Ok(kept)
}

/// Simulates every row. Rows run on all cores; the result does not depend on their number.
///
/// # Errors
/// When a setup cannot be wired, a measure is unknown, or an operation fails.
pub fn compare(library: &Library, papers: &[Paper]) -> Result<Report, Error> {
    let mut jobs = BTreeSet::new();
    for paper in papers {
        for (table, row) in rows(paper) {
            jobs.insert(job(table, row));
        }
        for prediction in &paper.predictions {
            jobs.insert(prediction_job(prediction));
        }
    }
    let jobs: Vec<Job> = jobs.into_iter().collect();
    let outcomes: Vec<Result<Outcome, Error>> = jobs.par_iter().map(|job| run(library, job)).collect();
    let mut done = BTreeMap::new();
    // In the jobs' order, so that of several errors always the same is reported.
    for (job, outcome) in jobs.into_iter().zip(outcomes) {
        let outcome = outcome.map_err(|error| error.within(place(papers, &job)))?;
        done.insert(job, outcome);
    }
    let mut report = Vec::new();
    let mut predictions = Vec::new();
    for paper in papers {
        for (table, row) in rows(paper) {
            report.push(report_row(paper, table, row, &done)?);
        }
        predictions.extend(paper.predictions.iter().filter_map(|p| report_prediction(paper, p, &done)));
    }
    // A parameter that rows of two documents decided is one parameter.
    let fits = papers.iter().flat_map(|p| &p.fits);
    let parameters = fits.map(|f| (&f.file, &f.parameter)).collect::<BTreeSet<_>>().len();
    Ok(Report { summary: summarise(&report, parameters), rows: report, predictions })
}

/// The first row, or prediction, that needs this job.
fn place(papers: &[Paper], wanted: &Job) -> String {
    let of_rows = papers.iter().flat_map(|p| rows(p).map(move |(t, r)| (p, t, r)));
    let mut of_rows = of_rows.filter(|(_, t, r)| job(t, r) == *wanted);
    let mut predictions = papers.iter().flat_map(|p| p.predictions.iter().map(move |q| (p, q)));
    match (of_rows.next(), predictions.find(|(_, q)| prediction_job(q) == *wanted)) {
        (Some((p, t, r)), _) => format!("{}/{}/{}", p.paper, t.name, r.row),
        (None, Some((p, q))) => format!("{}/{}", p.paper, q.name),
        (None, None) => String::new(),
    }
}

fn job(table: &Table, row: &Row) -> Job {
    Job {
        setup: row.setup.clone().unwrap_or_else(|| table.setup.clone()),
        set: row.set.clone(),
        measure: row.measure.clone(),
        blocks: table.blocks,
        secondary_block: row.secondary_block,
    }
}

fn prediction_job(prediction: &Prediction) -> Job {
    Job {
        setup: prediction.setup.clone(),
        set: prediction.set.clone(),
        measure: prediction.measure.clone(),
        blocks: ten(),
        secondary_block: None,
    }
}

fn setup_text(job: &Job) -> String {
    job.set.iter().fold(job.setup.clone(), |text, set| text + " --set " + set)
}

fn report_row(
    paper: &Paper,
    table: &Table,
    row: &Row,
    done: &BTreeMap<Job, Outcome>,
) -> Result<ReportRow, Error> {
    let job = job(table, row);
    let simulated = match done.get(&job) {
        Some(Outcome::Figure { printed, .. }) => Some(*printed),
        Some(Outcome::Latency(l)) => Some(latency_ms(l, &row.measure)),
        Some(Outcome::Keystore(lines)) => {
            lines.iter().find(|l| l.test == row.row).map(|l| l.ticks_ms() as f64 / 1e3)
        }
        None => None,
    };
    let simulated = simulated.ok_or_else(|| {
        Error::asked(
            format!("{}/{}: {:?} measures no {:?}", paper.paper, table.name, row.measure, row.row),
            "the rows of a keystore table are named as its tests are",
        )
    })?;
    Ok(ReportRow {
        paper: paper.paper.clone(),
        table: table.name.clone(),
        row: row.row.clone(),
        unit: table.unit.clone(),
        published: row.published,
        simulated,
        residual: simulated / row.published - 1.0,
        kind: row.kind,
        setup: setup_text(&job),
        tolerance: row.tolerance.unwrap_or(table.tolerance),
        reason: row.reason.clone(),
    })
}

fn report_prediction(
    paper: &Paper,
    prediction: &Prediction,
    done: &BTreeMap<Job, Outcome>,
) -> Option<ReportPrediction> {
    let job = prediction_job(prediction);
    let Some(Outcome::Figure { exact, breakdown, .. }) = done.get(&job) else { return None };
    Some(ReportPrediction {
        paper: paper.paper.clone(),
        name: prediction.name.clone(),
        title: prediction.title.clone(),
        setup: setup_text(&job),
        unit: prediction.unit.clone(),
        simulated: *exact,
        breakdown_ns: *breakdown,
        note: prediction.note.clone(),
    })
}

/// Whole milliseconds, as the tool prints them.
fn latency_ms(latency: &speed::Latency, measure: &str) -> f64 {
    let ns = if measure == ENDED { latency.read_ended_ns } else { latency.took_ns };
    (ns / 1_000_000) as f64
}

const TOOK: &str = "read while write took";
const ENDED: &str = "read ended after";
const BUS_PAGE: &str = "bus us per page with OOB";
const KEYSTORE_WITH: &str = "keystore with delays";
const KEYSTORE_WITHOUT: &str = "keystore without delays";

fn run(library: &Library, job: &Job) -> Result<Outcome, Error> {
    let setup = library.setup(&job.setup)?;
    let config = library.resolve(&setup, &Override::parse_all(&job.set)?)?;
    let options = SpeedOptions { blocks: job.blocks, ..SpeedOptions::default() };
    match job.measure.as_str() {
        KEYSTORE_WITH => keystore::on(&config, Driver::WithDelays, 0).map(Outcome::Keystore),
        KEYSTORE_WITHOUT => keystore::on(&config, Driver::WithoutDelays, 0).map(Outcome::Keystore),
        BUS_PAGE => bus_page(library, &config),
        TOOK | ENDED => {
            latency(library, &config, &SpeedOptions { secondary_block: job.secondary_block, ..options })
        }
        name => {
            let test = Test::from_name(name).ok_or_else(|| unknown_measure(name))?;
            figure(library, &config, &SpeedOptions { only: Some(test), ..options })
        }
    }
}

fn unknown_measure(name: &str) -> Error {
    let known = [TOOK, ENDED, BUS_PAGE, KEYSTORE_WITH, KEYSTORE_WITHOUT].join(", ");
    Error::asked(
        format!("nothing measures {name:?}"),
        format!(
            "a test of `floatgate speed` (page read, 8 page read, eraseblock write, 4x erase ...), or {known}"
        ),
    )
}

fn figure(
    library: &Library,
    config: &crate::config::Config,
    options: &SpeedOptions,
) -> Result<Outcome, Error> {
    let run = crate::run::measure(library, config, RigOptions::default(), options)?;
    let test = run
        .report
        .tests
        .first()
        .ok_or_else(|| Error::asked("nothing was measured", "choose blocks that exist"))?;
    Ok(Outcome::Figure {
        printed: test.printed_kib_s as f64,
        exact: test.exact_kib_s,
        breakdown: test.breakdown_ns,
    })
}

fn latency(
    library: &Library,
    config: &crate::config::Config,
    options: &SpeedOptions,
) -> Result<Outcome, Error> {
    let only = Some(Test::Erase(1));
    let run = crate::run::measure(
        library,
        config,
        RigOptions::default(),
        &SpeedOptions { only, ..options.clone() },
    )?;
    run.report.latency.map(Outcome::Latency).ok_or_else(|| {
        Error::asked("a read-while-write row names no secondary block", "add secondary_block = N")
    })
}

/// Time on the wires of one page with its OOB.
fn bus_page(library: &Library, config: &crate::config::Config) -> Result<Outcome, Error> {
    let mut rig = rig::wire(library, config, RigOptions::default())?;
    let (page, oob) = (rig.device.geometry().write_bytes, rig.device.geometry().oob_bytes);
    let (mut data, mut spare) = (vec![0; page as usize], vec![0; oob as usize]);
    let outcome = rig.record(|device, now| device.read_oob(now, 0, &mut data, &mut spare, OobMode::Place));
    outcome.0.map_err(Error::flash("reading a page with OOB"))?;
    let read = outcome.1.iter().rev().skip_while(|s| s.phase != Phase::Data);
    let wires = [Phase::Command, Phase::Address, Phase::Dummy, Phase::Data];
    let mut breakdown = Breakdown::default();
    for span in read.take_while(|s| wires.contains(&s.phase)) {
        breakdown.add(span.phase, span.end.since(span.start));
    }
    let us = breakdown.total().as_us_f64();
    Ok(Outcome::Figure { printed: us, exact: us, breakdown })
}

fn summarise(rows: &[ReportRow], parameters: usize) -> Summary {
    let count = |kind| rows.iter().filter(|r| r.kind == kind).count();
    let sizes = |keep: &dyn Fn(&&ReportRow) -> bool| -> Vec<f64> {
        rows.iter().filter(keep).map(|r| r.residual.abs()).collect()
    };
    let worst = rows
        .iter()
        .filter(|r| r.kind != RowKind::Exception)
        .max_by(|a, b| a.residual.abs().total_cmp(&b.residual.abs()));
    Summary {
        rows: rows.len(),
        fitted: count(RowKind::Fitted),
        predicted: count(RowKind::Predicted),
        exceptions: count(RowKind::Exception),
        parameters,
        median: median(sizes(&|r| r.kind != RowKind::Exception)),
        median_predicted: median(sizes(&|r| r.kind == RowKind::Predicted)),
        worst: worst.map_or(0.0, |r| r.residual.abs()),
        worst_row: worst.map_or_else(String::new, |r| format!("{}/{}/{}", r.paper, r.table, r.row)),
        outside: rows.iter().filter(|r| r.is_outside()).count(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper(kind: &str, fit: &str) -> Paper {
        let text = format!(
            "paper = 'X'\ntitle = ''\n[[table]]\nname = 't'\ntitle = ''\nunit = 's'\nsetup = 'none'\n\
             row = [{{ row = 'r', published = 1, kind = '{kind}', measure = 'page read' }}]\n{fit}"
        );
        read(&Source::text("x.toml", &text)).unwrap()
    }

    const FIT: &str = "[[fit]]\nparameter = 'p'\nfile = 'f'\nrows = ['t/r']";

    #[test]
    fn rows_are_honest_about_fits() {
        assert!(check(&paper("fitted", FIT)).is_ok());
        assert!(check(&paper("predicted", "")).is_ok());
        assert!(check(&paper("fitted", "")).is_err());
        assert!(check(&paper("predicted", FIT)).is_err());
        assert!(check(&paper("exception", "")).is_err());
        assert!(check(&paper("fitted", &FIT.replace("t/r", "t/x"))).is_err());
    }

    #[test]
    fn medians() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
    }

    #[test]
    fn unknown_tables_list_what_there_is() {
        let error = select(vec![paper("predicted", "")], "nothing").unwrap_err();
        assert!(format!("{:?}", error.into_report()).contains("X/t"));
    }
}
