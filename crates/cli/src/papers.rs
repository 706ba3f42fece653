//! `floatgate papers`.

use crate::common::{self, Failure, Outcome};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::table::Table;
use crate::terminal::{self, progress_bar};
use floatgate_config::{Library, Source};
use floatgate_lab::fit::{self, ByKind, EstimatedDeviation};
use floatgate_lab::papers::{
    self, ByOperation, Paper, Report, ReportPrediction, ReportRow, RowKind, Summary,
};
use floatgate_lab::plot;
use floatgate_lab::report::{Origin, ResultKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate papers
  floatgate papers P0
  floatgate papers octal
  floatgate papers P0 --plot p0.svg
  floatgate papers P3 --seed 7
  floatgate papers boards --refit
  floatgate papers samd21 --from-two
  floatgate papers --json
  floatgate papers my-measurements.toml

Simulates the rows of published tables, and compares the results. Exit status 1: a row has another residual than its file states, and is not a declared exception.")]
pub(crate) struct Args {
    /// Paper (P0), table (octal, P0/octal), or path of your own TOML file [default: all papers]
    table: Option<PathBuf>,

    /// Seed of the chips and blocks in the endurance rows
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Print only the summary
    #[arg(long)]
    summary: bool,

    /// Fit the parameters again to the rows from which they were fitted, starting from the values in the files, and print both
    #[arg(long, conflicts_with_all = ["seed", "summary", "plot"])]
    refit: bool,

    /// Fit each board to each pair of its rows, predict its other rows, and print errors and intervals by kind of operation
    #[arg(long, conflicts_with_all = ["seed", "summary", "plot", "refit"])]
    from_two: bool,

    /// Draw published figures over simulated figures, one panel for each table
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<OutputFile>,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    common::check_plot(args.plot.as_deref())?;
    let papers = chosen(args.table.as_deref().unwrap_or(Path::new("")))?;
    let origin =
        |kind: ResultKind| args.table.as_ref().map_or_else(|| kind.of_nothing(), |table| kind.of(table));
    if args.refit {
        return refit(&papers, &origin(ResultKind::PapersRefit), args.format);
    }
    if args.from_two {
        return from_two(&papers, &origin(ResultKind::PapersFromTwo), args.format);
    }
    let bar = progress_bar("{wide_bar} {pos} of {len} runs, {eta} left");
    let report = papers::compare_seeded(&Library::built_in(), &papers, args.seed, &|over, all| {
        bar.set_length(all as u64);
        bar.set_position(over as u64);
    });
    bar.finish_and_clear();
    let report = report?;
    if let Some(path) = &args.plot {
        common::write_picture(path, &papers::picture(&papers, &report))?;
    }
    let code = if report.summary.holds() { ExitCode::SUCCESS } else { ExitCode::from(1) };
    let origin = origin(ResultKind::Papers).seeded(args.seed);
    args.format.print(&origin, &report, "rows", || {
        let mut text = if args.summary { String::new() } else { show(&papers, &report) };
        text += &summary(&report.summary);
        let mut list = |what: &str, keep: &dyn Fn(&ReportRow) -> bool| {
            for row in report.rows.iter().filter(|r| keep(r)) {
                text +=
                    &format!("\n{what}: {}/{}/{} {}", row.paper, row.table, row.row, percent(row.residual));
            }
        };
        list("missed", &|row| row.is_missed());
        list("not as stated", &|row| row.is_changed());
        text
    })?;
    Ok(code)
}

/// Residuals and values that the files state, compared with the values of a new fit.
fn refit(papers: &[Paper], origin: &Origin, format: ReportFormat) -> Outcome {
    let fit = papers::refit(&Library::built_in(), papers);
    format.finish(origin, &fit, "parameters", || {
        if fit.parameters.is_empty() {
            return "no parameter was fitted to these rows".to_owned();
        }
        let mut parameters = Table::new(["file", "parameter", "stated", "fitted"]).numbers(2..4);
        for p in &fit.parameters {
            parameters.row([p.file.clone(), p.path.clone(), figure(p.stated), figure(p.fitted)]);
        }
        let mut rows = Table::new(["row", "as stated", "fitted"]).numbers(1..3);
        for row in &fit.rows {
            let name = format!("{}/{}", row.paper, row.row);
            rows.row([name, percent(row.residual_stated), percent(row.residual)]);
        }
        format!("{parameters}\n\n{rows}")
    })
}

/// Errors of rows that are predicted from two other rows of their board.
fn from_two(papers: &[Paper], origin: &Origin, format: ReportFormat) -> Outcome {
    let result = fit::from_two(&Library::built_in(), papers)?;
    format.finish(origin, &result, "kinds", || {
        if result.kinds.is_empty() {
            return "no board has three rows of flash_speed's tests".to_owned();
        }
        let header = [
            "board",
            "kind",
            "given",
            "number",
            "median",
            "worst",
            "within 15 %",
            "intervals hold",
            "half width",
        ];
        let mut table = Table::new(header).numbers(3..9);
        for kind in &result.kinds {
            table.row([
                board_of(kind),
                kind.operation.name().to_owned(),
                kind.from.text().to_owned(),
                kind.predicted.to_string(),
                percent(kind.median).trim_start_matches('+').to_owned(),
                percent(kind.worst).trim_start_matches('+').to_owned(),
                format!("{:.0} %", kind.within_15_percent * 100.0),
                format!("{:.0} %", kind.hold * 100.0),
                format!("+-{:.0} %", kind.half_width * 100.0),
            ]);
        }
        format!("{table}\n\n{}", deviations(&result.deviations))
    })
}

/// Name of the board, with a mark if its own rows were used for its predictions.
fn board_of(kind: &ByKind) -> String {
    match &kind.board {
        None => "all, each once".to_owned(),
        Some(board) if kind.strict => board.clone(),
        Some(board) => format!("{board} (not strict)"),
    }
}

/// Deviations of boards beyond the deviations that their numbers explain: the estimated values, and the values that
/// `fit` uses.
fn deviations(all: &[EstimatedDeviation]) -> String {
    let mut table = Table::new(["boards deviate", "given", "boards", "by", "fit uses"]).numbers(2..5);
    for one in all {
        table.row([
            one.operation.name().to_owned(),
            one.from.text().to_owned(),
            one.boards.to_string(),
            size(Some(one.deviation)),
            size(Some(one.stored)),
        ]);
    }
    table.to_string()
}

/// Documents that a name selects: a paper, a table, or a file.
fn chosen(name: &Path) -> Result<Vec<Paper>, Failure> {
    match name.to_str() {
        Some(name) if !name.ends_with(".toml") => Ok(papers::select(papers::built_in()?, name)?),
        _ => {
            let paper = papers::read(&Source::read(name)?)?;
            papers::check(&paper)?;
            Ok(vec![paper])
        }
    }
}

fn show(papers: &[Paper], report: &Report) -> String {
    let mut text = String::new();
    for paper in papers {
        text += &format!("{}  {}\n\n", paper.paper, paper.title);
        for table in &paper.tables {
            let rows: Vec<&ReportRow> =
                report.rows.iter().filter(|r| r.paper == paper.paper && r.table == table.name).collect();
            text += &format!("{}: {}, {}\n", table.name, table.title, table.unit);
            text += &of_all_rows(table);
            text += &format!("{}\n\n", rows_table(table, &rows));
        }
    }
    report.predictions.iter().fold(text, |text, p| text + &prediction(p))
}

/// Overrides and the note that all rows of a table share, with one line each.
fn of_all_rows(table: &papers::Table) -> String {
    let set = Some(table.set_text()).filter(|set| !set.is_empty()).map(|set| format!("  all with{set}\n"));
    let note = table.note.as_ref().map(|note| format!("  {note}\n"));
    set.into_iter().chain(note).collect()
}

/// Table of the rows, without the values that all rows share.
fn rows_table(of: &papers::Table, rows: &[&ReportRow]) -> String {
    let header = ["row", "published", "simulated", "residual", "left out", "kind", "setup"];
    let mut table = Table::new(header).numbers(1..5).minor([6, 4, 5]);
    for row in rows {
        let (published, simulated) = (published(row), figure(row.simulated));
        let left_out = row.left_out.map_or_else(String::new, percent);
        let kind = kind(row.kind).to_owned();
        let residual = percent(row.residual);
        let setup = row.setup.replacen(&of.set_text(), "", 1);
        table.row([row.row.clone(), published, simulated, residual, left_out, kind, setup]);
        if row.is_missed() {
            table.red(3);
        }
    }
    let own = rows.iter().filter(|r| r.reason != of.note);
    let reasons = own.filter_map(|r| r.reason.as_ref().map(|why| format!("\n  {}: {why}", r.row)));
    reasons.fold(table.to_string(), |text, reason| text + &reason)
}

fn prediction(p: &ReportPrediction) -> String {
    format!(
        "{}: {} ({})\n  predicted {} {}, not published\n  {}{}\n\n",
        p.name,
        p.title,
        p.setup,
        figure(p.simulated.round()),
        p.unit,
        plot::breakdown_text(&p.breakdown_ns, terminal::width() - 2, terminal::colour())
            .replace('\n', "\n  "),
        if p.note.is_empty() { String::new() } else { format!("\n  {}", p.note) }
    )
}

fn kind(kind: RowKind) -> &'static str {
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

/// Text of a figure without insignificant digits.
fn figure(value: f64) -> String {
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn percent(ratio: f64) -> String {
    // Rounded before formatting, so that a printed zero has no sign.
    let tenths = (ratio * 1000.0).round();
    if tenths == 0.0 { "0.0 %".to_owned() } else { format!("{:+.1} %", tenths / 10.0) }
}

fn summary(s: &Summary) -> String {
    let verdict = if s.holds() { "yes" } else { "no" };
    format!(
        "{}: {} predicted, {} fitted by {}, {}\n\
         {} within the resolution of the tool that printed them, {} within the tolerance, {} missed, {} of them predicted\n\
         {}, {} missed; {}, {} missed; {} that the model cannot miss\n\
         residuals: median {} (predicted {}, fitted without the row {}), worst {}\n\
{}\
         every residual as stated: {verdict}",
        common::count(s.figures, "figure"),
        s.predicted,
        s.fitted,
        common::count(s.parameters, "parameter"),
        common::count(s.exceptions, "declared exception"),
        s.within,
        s.tolerated,
        s.missed,
        s.predicted_missed,
        common::count(s.ranges, "range"),
        s.ranges_missed,
        common::count(s.directions, "direction"),
        s.directions_missed,
        common::count(s.by_construction, "row"),
        size(s.median),
        size(s.median_predicted),
        size(s.median_left_out),
        s.worst.map_or_else(|| "-".to_owned(), |worst| format!("{} ({})", size(Some(worst)), s.worst_row)),
        s.by_operation.iter().map(by_operation).collect::<String>()
    )
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
    let rows = common::count(by.predicted, "predicted row");
    format!("{}: {rows}, median {}{intervals}\n", by.operation.name(), size(by.median))
}

/// Size of a residual in percent; a dash if no row has one.
fn size(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0))
}
