//! Study `floatgate papers`.

use super::report::{Cell, Section, Table};
use super::{Context, Picture, Report, Study};
use crate::envelope::{Concluded as _, Origin};
use crate::fit::{ByKind, EstimatedDeviation, FromTwo, from_two};
use crate::papers::{
    self, ByOperation, Paper, Refit, ReportPrediction, ReportRow, RowKind, Summary, compare_seeded, named,
    refit,
};
use crate::progress::Progress;
use crate::show::number::{short, signed_percent};
use floatgate_mtd::words::count;
use floatgate_sim::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, to_value};
use std::path::{Path, PathBuf};

/// Study of published tables.
pub struct Papers;

/// Compare published tables with the simulation
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate papers
  floatgate papers P0
  floatgate papers octal
  floatgate papers P0 --plot p0.svg
  floatgate papers P3 --seed 7
  floatgate papers boards --refit
  floatgate papers samd21 --from-two
  floatgate papers --json
  floatgate papers my-measurements.toml

Simulates the rows of published tables, and compares the results. Exit status 1: a row has another residual than its file states, and is not a declared exception.")
)]
pub struct PapersOptions {
    /// Paper (P0), table (octal, P0/octal), or path of your own TOML file [default: all papers]
    table: Option<PathBuf>,

    /// Seed of the chips and blocks in the endurance rows
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    seed: u64,

    /// Print only the summary
    #[cfg_attr(feature = "command", arg(long))]
    summary: bool,

    /// Fit the parameters again to the rows from which they were fitted, starting from the values in the files, and print both
    #[cfg_attr(feature = "command", arg(long, conflicts_with_all = ["seed", "summary", "plot"]))]
    refit: bool,

    /// Fit each board to each pair of its rows, predict its other rows, and print errors and intervals by kind of operation
    #[cfg_attr(feature = "command", arg(long, conflicts_with_all = ["seed", "summary", "plot", "refit"]))]
    from_two: bool,
}

/// Result in one of the forms of the study.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PapersOutput {
    /// Published and simulated figures.
    Compared(Box<ComparedPapers>),
    /// Parameters that were fitted again.
    Refit(Refit),
    /// Rows that are predicted from two others of their board.
    FromTwo(FromTwo),
}

/// Published and simulated figures, with their documents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparedPapers {
    #[serde(flatten)]
    compared: papers::Report,
    /// The documents; the built-in ones for a result that is read.
    #[serde(skip, default = "built_in")]
    papers: Vec<Paper>,
    #[serde(skip)]
    is_summary: bool,
}

fn built_in() -> Vec<Paper> {
    papers::built_in().unwrap_or_default()
}

const REFIT: &str = "refit";
const FROM_TWO: &str = "from-two";

impl Study for Papers {
    type Options = PapersOptions;
    type Output = PapersOutput;

    const NAME: &'static str = "papers";
    const STEPS: &'static str = "runs";
    const FORMS: &'static [&'static str] = &["", REFIT, FROM_TWO];
    const PLOT: Option<(&'static str, &'static str)> =
        Some(("FILE.svg", "Draw published figures over simulated figures, one panel for each table"));

    fn origin(options: &PapersOptions, kind: Origin) -> Origin {
        let is_seeded = !options.refit && !options.from_two;
        let kind = options.table.iter().fold(kind, |kind, table| kind.about(table));
        if is_seeded { kind.seeded(options.seed) } else { kind }
    }

    fn run(options: &PapersOptions, context: &Context<'_>) -> Result<PapersOutput, Error> {
        let papers = named(options.table.as_deref())?;
        if options.refit {
            return Ok(PapersOutput::Refit(refit(context.library, &papers)));
        }
        if options.from_two {
            return from_two(context.library, &papers).map(PapersOutput::FromTwo);
        }
        let progress = |_, all| {
            (context.progress)(Progress::Steps(all as u64));
            (context.progress)(Progress::Done(1));
        };
        let compared = compare_seeded(context.library, &papers, options.seed, &progress)?;
        let is_summary = options.summary;
        Ok(PapersOutput::Compared(Box::new(ComparedPapers { compared, papers, is_summary })))
    }

    fn report(output: &PapersOutput) -> Report {
        match output {
            PapersOutput::Compared(compared) => compared.report(),
            PapersOutput::Refit(refit) => of_refit(refit),
            PapersOutput::FromTwo(from_two) => of_from_two(from_two),
        }
    }

    fn rows(output: &PapersOutput, _table: Option<&str>) -> serde_json::Result<Value> {
        match output {
            PapersOutput::Compared(compared) => to_value(&compared.compared.rows),
            PapersOutput::Refit(refit) => to_value(&refit.parameters),
            PapersOutput::FromTwo(from_two) => to_value(&from_two.kinds),
        }
    }

    fn form(output: &PapersOutput) -> &'static str {
        match output {
            PapersOutput::Compared(_) => "",
            PapersOutput::Refit(_) => REFIT,
            PapersOutput::FromTwo(_) => FROM_TWO,
        }
    }

    fn pictures(output: &PapersOutput, path: &Path) -> Result<Vec<Picture>, Error> {
        let PapersOutput::Compared(all) = output else { return Ok(Vec::new()) };
        Ok(vec![Picture { path: path.to_owned(), svg: papers::picture(&all.papers, &all.compared) }])
    }

    fn found_problem(output: &PapersOutput) -> bool {
        matches!(output, PapersOutput::Compared(all) if !all.compared.summary.holds())
    }
}

impl ComparedPapers {
    fn report(&self) -> Report {
        let papers::Report { rows, summary, predictions } = &self.compared;
        let mut sections = Vec::new();
        if !self.is_summary {
            sections.push(Section::Table(all_rows(rows)));
            sections.extend(self.papers.iter().flat_map(|paper| of_paper(paper, rows)));
            sections.extend(predictions.iter().map(prediction));
        }
        let list = |what: &'static str, keep: fn(&ReportRow) -> bool| {
            let line = move |row: &ReportRow| {
                let residual = signed_percent(row.residual);
                format!("{what}: {}/{}/{} {residual}", row.paper, row.table, row.row)
            };
            rows.iter().filter(move |row| keep(row)).map(line)
        };
        let missed = list("missed", ReportRow::is_missed).chain(list("not as stated", ReportRow::is_changed));
        sections.push(Section::Text(of_summary(summary).into_iter().chain(missed).collect()));
        Report { sections, conclusion: self.compared.conclusion(), ..Report::default() }
    }
}

/// Table of all rows for a page, which also draws it.
fn all_rows(rows: &[ReportRow]) -> Table {
    let row = |row: &ReportRow| {
        let names = [&row.paper, &row.table, &row.row].map(|name| Cell::from(name.as_str()));
        names.into_iter().chain(figures(row)).chain([row.unit.as_str().into()]).collect()
    };
    let table = Table::new(&["paper", "table", "row"], &FIGURES, rows.iter().map(row)).then_words("unit");
    Table { detail: true, plot: true, equal: Some(["published", "simulated"]), ..table }
        .titled("Published and simulated figures")
}

/// Headings of [`figures`].
const FIGURES: [&str; 4] = ["published", "simulated", "residual", "left out"];

fn figures(row: &ReportRow) -> [Cell; 4] {
    let percent = |ratio: f64| Cell::shown(ratio, signed_percent(ratio));
    [
        Cell::shown(row.published, published(row)),
        Cell::shown(row.simulated, short(row.simulated)),
        percent(row.residual),
        row.left_out.map_or_else(|| "".into(), percent),
    ]
}

/// Title of a document, and its tables that have rows.
fn of_paper(paper: &Paper, rows: &[ReportRow]) -> Vec<Section> {
    let tables = paper.tables.iter().filter_map(|table| {
        let is_own = |row: &&ReportRow| row.paper == paper.paper && row.table == table.name;
        let own: Vec<&ReportRow> = rows.iter().filter(is_own).collect();
        (!own.is_empty()).then(|| Section::Table(of_table(table, &own)))
    });
    let mut sections: Vec<Section> = tables.collect();
    if !sections.is_empty() {
        sections.insert(0, Section::Text(vec![format!("{}  {}", paper.paper, paper.title)]));
    }
    sections
}

/// Table of the rows, without the values that all rows share.
fn of_table(of: &papers::Table, rows: &[&ReportRow]) -> Table {
    let set = of.set_text();
    let shared = (!set.is_empty()).then(|| format!("  all with{set}"));
    let note = of.note.as_ref().map(|note| format!("  {note}"));
    let caption =
        std::iter::once(format!("{}: {}, {}", of.name, of.title, of.unit)).chain(shared).chain(note);
    let row = |row: &&ReportRow| {
        let setup = row.setup.replacen(&set, "", 1);
        let last = [kind(row.kind).into(), setup.into()];
        std::iter::once(Cell::from(row.row.as_str())).chain(figures(row)).chain(last).collect()
    };
    let residual = FIGURES.len() - 1;
    let red = rows.iter().enumerate().filter(|(_, row)| row.is_missed()).map(|(at, _)| (at, residual));
    let own = rows.iter().filter(|row| row.reason != of.note);
    let reasons = own.filter_map(|row| Some(format!("  {}: {}", row.row, row.reason.as_ref()?)));
    let table = Table::new(&["row"], &FIGURES, rows.iter().map(row)).then_words("kind").then_words("setup");
    Table { red: red.collect(), ..table }
        .with_minor(&["setup", "left out", "kind"])
        .titled(caption.collect::<Vec<_>>().join("\n"))
        .noted(reasons)
}

fn prediction(p: &ReportPrediction) -> Section {
    let note = if p.note.is_empty() { String::new() } else { format!("\n  {}", p.note) };
    let caption = format!(
        "{}: {} ({})\n  predicted {} {}, not published{note}",
        p.name,
        p.title,
        p.setup,
        short(p.simulated.round()),
        p.unit
    );
    Section::Phases { caption, times: p.breakdown_ns }
}

const fn kind(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Fitted => "fitted",
        RowKind::Predicted => "predicted",
        RowKind::Direction => "direction",
        RowKind::ByConstruction => "by construction",
        RowKind::Exception => "exception",
    }
}

/// Published figure: a value, a range, or a single limit.
fn published(row: &ReportRow) -> String {
    match (row.published_min, row.published_max) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        _ => row.published.to_string(),
    }
}

fn of_summary(s: &Summary) -> Vec<String> {
    let verdict = if s.holds() { "yes" } else { "no" };
    let counted = |n: usize, what: &str| count(n as u64, what);
    let worst =
        s.worst.map_or_else(|| "-".to_owned(), |worst| format!("{} ({})", size(Some(worst)), s.worst_row));
    let mut lines = vec![
        format!(
            "{}: {} predicted, {} fitted by {}, {}",
            counted(s.figures, "figure"),
            s.predicted,
            s.fitted,
            counted(s.parameters, "parameter"),
            counted(s.exceptions, "declared exception")
        ),
        format!(
            "{} within the resolution of the tool that printed them, {} within the tolerance, {} missed, {} of them predicted",
            s.within, s.tolerated, s.missed, s.predicted_missed
        ),
        format!(
            "{}, {} missed; {}, {} missed; {} that the model cannot miss",
            counted(s.ranges, "range"),
            s.ranges_missed,
            counted(s.directions, "direction"),
            s.directions_missed,
            counted(s.by_construction, "row")
        ),
        format!(
            "residuals: median {} (predicted {}, fitted without the row {}), worst {worst}",
            size(s.median),
            size(s.median_predicted),
            size(s.median_left_out)
        ),
    ];
    lines.extend(s.by_operation.iter().map(by_operation));
    lines.push(format!("every residual as stated: {verdict}"));
    lines
}

/// Line about the predicted rows of an operation.
fn by_operation(by: &ByOperation) -> String {
    let intervals = match by.intervals {
        0 => String::new(),
        all => format!(
            "; 80 % intervals hold {} of {all}, half of them within +-{}",
            by.hold,
            size(by.half_width)
        ),
    };
    let rows = count(by.predicted as u64, "predicted row");
    format!("{}: {rows}, median {}{intervals}", by.operation.name(), size(by.median))
}

/// Size of a residual in percent; a dash if no row has one.
fn size(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0))
}

/// Residuals and values that the files state, beside those of a new fit.
fn of_refit(refit: &Refit) -> Report {
    if refit.parameters.is_empty() {
        let conclusion = "No parameter was fitted to these rows.".to_owned();
        return Report { conclusion, ..Report::default() };
    }
    let number = |value: f64| Cell::shown(value, short(value));
    let percent = |ratio: f64| Cell::shown(ratio, signed_percent(ratio));
    let parameters = refit
        .parameters
        .iter()
        .map(|p| vec![p.file.as_str().into(), p.path.as_str().into(), number(p.stated), number(p.fitted)]);
    let rows = refit.rows.iter().map(|row| {
        let name = format!("{}/{}", row.paper, row.row);
        vec![name.into(), percent(row.residual_stated), percent(row.residual)]
    });
    let tables = [
        Table::new(&["file", "parameter"], &["stated", "fitted"], parameters),
        Table::new(&["row"], &["as stated", "fitted"], rows),
    ];
    Report { sections: tables.map(Section::Table).into(), ..Report::default() }
}

/// Errors of rows that are predicted from two other rows of their board.
fn of_from_two(result: &FromTwo) -> Report {
    if result.kinds.is_empty() {
        let conclusion = "No board has three rows of flash_speed's tests.".to_owned();
        return Report { conclusion, ..Report::default() };
    }
    let numbers = ["number", "median", "worst", "within 15 %", "intervals hold", "half width"];
    let kinds = Table::new(&["board", "kind", "given"], &numbers, result.kinds.iter().map(of_kind));
    let deviations = result.deviations.iter().map(of_deviation);
    let deviations = Table::new(&["boards deviate", "given"], &["boards", "by", "fit uses"], deviations);
    let sections = [kinds, deviations].map(Section::Table).into();
    Report { sections, conclusion: result.conclusion(), ..Report::default() }
}

/// Row of the errors of a kind. A board is marked if its own rows were used for its predictions.
fn of_kind(kind: &ByKind) -> Vec<Cell> {
    let board = match &kind.board {
        None => "all, each once".to_owned(),
        Some(board) if kind.strict => board.clone(),
        Some(board) => format!("{board} (not strict)"),
    };
    let tenths = |share: f64| Cell::shown(share, size(Some(share)));
    let whole = |share: f64| Cell::shown(share, format!("{:.0} %", share * 100.0));
    vec![
        board.into(),
        kind.operation.name().into(),
        kind.from.text().into(),
        Cell::count(kind.predicted as u64),
        tenths(kind.median),
        tenths(kind.worst),
        whole(kind.within_15_percent),
        whole(kind.hold),
        Cell::shown(kind.half_width, format!("+-{:.0} %", kind.half_width * 100.0)),
    ]
}

/// Row of the deviation of boards beyond the deviations that their numbers explain: the estimated value, and the value
/// that `fit` uses.
fn of_deviation(one: &EstimatedDeviation) -> Vec<Cell> {
    let size = |ratio: f64| Cell::shown(ratio, size(Some(ratio)));
    vec![
        one.operation.name().into(),
        one.from.text().into(),
        Cell::count(one.boards as u64),
        size(one.deviation),
        size(one.stored),
    ]
}
