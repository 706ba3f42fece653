//! `floatgate papers`.

use crate::common::{self, Failure, Outcome};
use comfy_table::{Cell, Color};
use floatgate_lab::config::{Library, Source};
use floatgate_lab::papers::{self, Paper, Report, ReportPrediction, ReportRow, RowKind, Summary};
use floatgate_lab::plot;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate papers
  floatgate papers P0
  floatgate papers octal
  floatgate papers P3 --seed 7
  floatgate papers --json
  floatgate papers my-measurements.toml

Exit status 1 when a row that is not a declared exception has another residual than its file states.")]
pub(crate) struct Args {
    /// A paper (P0), a table (octal, P0/octal), or the path of a TOML file of your own; all when absent
    #[arg(default_value = "")]
    table: String,

    /// Seed of the chips and blocks in the rows on endurance
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Print only the summary
    #[arg(long)]
    summary: bool,

    /// Machine-readable output (schema: docs/json.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let papers = chosen(&args.table)?;
    let report = papers::compare_seeded(&Library::built_in(), &papers, args.seed)?;
    let code = if report.summary.holds() { ExitCode::SUCCESS } else { ExitCode::from(1) };
    if args.json {
        common::print_json(&report)?;
        return Ok(code);
    }
    if !args.summary {
        show(&papers, &report);
    }
    common::print(&summary(&report.summary));
    let list = |what: &str, keep: &dyn Fn(&ReportRow) -> bool| {
        for row in report.rows.iter().filter(|r| keep(r)) {
            common::print(&format!(
                "{what}: {}/{}/{} {}",
                row.paper,
                row.table,
                row.row,
                percent(row.residual)
            ));
        }
    };
    list("missed", &|row| row.is_missed());
    list("not as stated", &|row| row.is_changed());
    Ok(code)
}

fn chosen(name: &str) -> Result<Vec<Paper>, Failure> {
    let path = std::path::Path::new(name);
    if path.extension().is_none_or(|e| e != "toml") {
        return Ok(papers::select(papers::built_in()?, name)?);
    }
    let paper = papers::read(&Source::read(path)?)?;
    papers::check(&paper)?;
    Ok(vec![paper])
}

fn show(papers: &[Paper], report: &Report) {
    for paper in papers {
        common::print(&format!("{}  {}\n", paper.paper, paper.title));
        for table in &paper.tables {
            let rows: Vec<&ReportRow> =
                report.rows.iter().filter(|r| r.paper == paper.paper && r.table == table.name).collect();
            common::print(&format!("{}: {}, {}", table.name, table.title, table.unit));
            common::print(&format!("{}\n", rows_table(&rows)));
        }
    }
    report.predictions.iter().for_each(prediction);
}

fn rows_table(rows: &[&ReportRow]) -> String {
    let mut table = common::table(["row", "published", "simulated", "residual", "left out", "kind", "setup"]);
    for row in rows {
        let residual = Cell::new(percent(row.residual));
        let residual = if row.is_missed() && common::colour() { residual.fg(Color::Red) } else { residual };
        table.add_row(vec![
            Cell::new(&row.row),
            Cell::new(published(row)),
            Cell::new(figure(row.simulated)),
            residual,
            Cell::new(row.left_out.map_or_else(String::new, percent)),
            Cell::new(kind(row.kind)),
            Cell::new(&row.setup),
        ]);
    }
    common::numbers(&mut table, 1);
    for column in table.column_iter_mut().skip(5) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    let reasons = rows.iter().filter_map(|r| r.reason.as_ref().map(|why| format!("\n  {}: {why}", r.row)));
    reasons.fold(table.to_string(), |text, reason| text + &reason)
}

fn prediction(p: &ReportPrediction) {
    common::print(&format!(
        "{}: {} ({})\n  predicted {} {}, not published\n  {}{}\n",
        p.name,
        p.title,
        p.setup,
        figure(p.simulated.round()),
        p.unit,
        plot::breakdown_text(&p.breakdown_ns, common::width() - 2, common::colour()).replace('\n', "\n  "),
        if p.note.is_empty() { String::new() } else { format!("\n  {}", p.note) }
    ));
}

fn kind(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Fitted => "fitted",
        RowKind::Predicted => "predicted",
        RowKind::Exception => "exception",
    }
}

/// The published figure, or the ends of its range.
fn published(row: &ReportRow) -> String {
    match (row.published_min, row.published_max) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        _ => row.published.to_string(),
    }
}

/// A figure without digits that mean nothing.
fn figure(value: f64) -> String {
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn percent(ratio: f64) -> String {
    // Rounded first: what prints as zero has no sign.
    let tenths = (ratio * 1000.0).round();
    if tenths == 0.0 { "0.0 %".to_owned() } else { format!("{:+.1} %", tenths / 10.0) }
}

fn summary(s: &Summary) -> String {
    let verdict = if s.holds() { "yes" } else { "no" };
    format!(
        "{}: {} predicted, {} fitted by {}, {}\n\
         {} within the resolution of the tool that printed them, {} missed\n\
         {}, of which {} missed\n\
         residuals: median {:.1} % (predicted {:.1} %, fitted without the row {:.1} %), worst {:.1} % ({})\n\
         every residual as stated: {verdict}",
        common::count(s.figures, "figure"),
        s.predicted,
        s.fitted,
        common::count(s.parameters, "parameter"),
        common::count(s.exceptions, "declared exception"),
        s.within,
        s.missed,
        common::count(s.ranges, "range"),
        s.ranges_missed,
        s.median * 100.0,
        s.median_predicted * 100.0,
        s.median_left_out * 100.0,
        s.worst * 100.0,
        s.worst_row
    )
}
