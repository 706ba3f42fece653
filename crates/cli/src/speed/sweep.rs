//! `floatgate speed --sweep`.

use super::{Args, bar, kib_s};
use crate::common::{self, Failure, Named, Outcome, SetupArgs};
use crate::table::Table;
use crate::terminal;
use clap::builder::PossibleValuesParser;
use floatgate_config::{Combination, sweep};
use floatgate_lab::certainty::Certainty;
use floatgate_lab::conclusion::rate;
use floatgate_lab::plot;
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_lab::show::number::three;
use floatgate_lab::speed::{Latency, Measured};
use floatgate_lab::speed_run::{self, SpeedRun, Swept};
use serde::Serialize;
use serde_json::{Map, Value};
use std::process::ExitCode;

/// A combination, with its measurement or the reason why it is refused.
#[derive(Serialize)]
struct Row {
    combination: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<SpeedRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    least_certain: Option<Certainty>,
    /// Path and value of each override.
    #[serde(skip)]
    values: Vec<(String, String)>,
}

/// Tests that have a column, by their names for `--sort`, with the titles of the columns.
const TESTS: [(&str, &str); 5] = [
    ("page-read", "page read"),
    ("eraseblock-read", "block read"),
    ("page-write", "page write"),
    ("eraseblock-write", "block write"),
    ("erase", "erase"),
];

/// Tests of a filesystem that have a column.
const FILE_TESTS: [(&str, &str); 5] = [
    ("write-64-kib", "write 64 KiB"),
    ("read-64-kib", "read 64 KiB"),
    ("create-files", "create files"),
    ("attach", "attach"),
    ("mount", "mount"),
];

/// Names that `--sort` accepts.
pub(super) fn test_names() -> PossibleValuesParser {
    PossibleValuesParser::new(TESTS.iter().chain(&FILE_TESTS).map(|(name, _)| *name))
}

pub(super) fn run(args: &Args, setup: &SetupArgs, named: &Named) -> Outcome {
    let combinations = sweep(&named.library, &args.sweep)?;
    let tests = args.tests();
    let columns = if args.fs.is_some() { FILE_TESTS } else { TESTS };
    let by = args.sort.as_deref().unwrap_or(columns[0].0);
    if !columns.iter().any(|(name, _)| *name == by) {
        let names = columns.map(|(name, _)| name).join(", ");
        return Err(Failure::new(
            format!("--sort {by}: this sweep has no such test"),
            format!("sort by {names}"),
        ));
    }
    let outcomes = speed_run::sweep(
        &named.library,
        &named.named.setup,
        (&named.named.own_sets, named.named.corner),
        named.options,
        &tests,
        &combinations,
        args.keep_going,
    )
    .map_err(|error| {
        let others = speed_run::refuses_a_value(&error) && !args.keep_going && combinations.len() > 1;
        let failure = Failure::from(error);
        if others { failure.and("--keep-going measures the other combinations") } else { failure }
    })?;
    let mut rows: Vec<Row> =
        combinations.iter().zip(outcomes).map(|(c, outcome)| Row::new(c, outcome)).collect();
    if let Some(test) = &args.sort {
        // Refused combinations are at the end. Times are not compared, because pages and eraseblocks can differ in
        // size.
        rows.sort_by(|a, b| b.speed(test).total_cmp(&a.speed(test)));
    }
    if let Some(path) = &args.plot {
        plot_rows(path, &rows, &args.sweep, columns[0])?;
    }
    let origin = named.origin(ResultKind::SpeedSweep);
    if args.format.csv {
        let board = named.board().map_or_else(|| setup.setup.display().to_string(), str::to_owned);
        let lines: Vec<Map<String, Value>> = rows.iter().map(|row| row.line(&board)).collect();
        args.format.print_rows(&origin, &lines, String::new)?;
    } else {
        let title = speed_run::title(&named.config()?);
        let swept = Rows { rows: &rows, by };
        args.format.print(&origin, &swept, "rows", || {
            format!("{title}\n{}", text(&rows, &args.sweep, columns, by))
        })?;
    }
    Ok(print_refused(&rows))
}

/// Prints the number of impossible combinations. The exit status is 1 if there are any, as in `floatgate sweep`.
fn print_refused(rows: &[Row]) -> ExitCode {
    let mut reasons = rows.iter().filter_map(|row| row.refused.as_ref());
    let Some(first) = reasons.next() else { return ExitCode::SUCCESS };
    let (refused, all) = (1 + reasons.count(), common::count(rows.len(), "combination"));
    terminal::print_note(&format!(
        "{refused} of {all} cannot be had (`refused`), the first because: {first}"
    ));
    ExitCode::FAILURE
}

impl Row {
    fn new(combination: &Combination, outcome: Result<Swept, String>) -> Self {
        let values = combination.overrides.iter().map(|o| (o.path(), o.value_text().to_owned())).collect();
        let combination = combination.to_string();
        let (run, least_certain, refused) = match outcome {
            Ok(Swept { run, least_certain }) => (Some(run), least_certain, None),
            Err(why) => (None, None, Some(why)),
        };
        Self { combination, run, refused, least_certain, values }
    }

    /// Result of -k.
    fn latency(&self) -> Option<&Latency> {
        self.run.as_ref()?.report.latency.as_ref()
    }

    /// Requests of the setup that are not met, with the reasons.
    fn not_given(&self) -> &[String] {
        self.run.as_ref().map_or(&[], |run| &run.link.not_given)
    }

    /// Text of the least certain input, for a footnote.
    fn doubt(&self) -> Option<String> {
        self.least_certain.as_ref().map(Certainty::to_string)
    }

    /// Result of a test of [`TESTS`].
    fn test(&self, name: &str) -> Option<&Measured> {
        let name = name.replace('-', " ");
        self.run.as_ref()?.report.tests.iter().find(|test| test.name.eq_ignore_ascii_case(&name))
    }

    /// Speed in a test of [`TESTS`], in KiB/s, or in calls per second if no bytes are moved; below 0 if the
    /// combination was refused.
    fn speed(&self, name: &str) -> f64 {
        let of = |test: &Measured| match test.bytes {
            0 => 1e9 / test.ns.max(1) as f64,
            _ => test.exact_kib_s,
        };
        self.test(name).map_or(-1.0, of)
    }

    /// Line of the CSV, with a column for each override and each test.
    fn line(&self, board: &str) -> Map<String, Value> {
        let mut line: Map<String, Value> =
            self.values.iter().map(|(path, value)| (path.clone(), value.clone().into())).collect();
        for test in self.run.iter().flat_map(|run| &run.report.tests) {
            match test.bytes {
                0 => line.insert(format!("{} ms", test.name), (test.ns as f64 / 1e6).into()),
                _ => line.insert(format!("{} KiB/s", test.name), test.exact_kib_s.into()),
            };
        }
        if let Some(latency) = self.latency() {
            line.insert("took_ns".to_owned(), latency.took_ns.into());
            line.insert("read_ended_ns".to_owned(), latency.read_ended_ns.into());
        }
        for (key, value) in [
            ("board", Some(board.to_owned())),
            ("reads", self.run.as_ref().map(|run| run.link.read.clone())),
            ("writes", self.run.as_ref().map(|run| run.link.write.clone())),
            ("not given", Some(self.not_given().join("; "))),
            ("least certain", self.doubt()),
            ("refused", self.refused.clone()),
        ] {
            line.insert(key.to_owned(), value.unwrap_or_default().into());
        }
        line
    }
}

fn text(rows: &[Row], sweeps: &[String], columns: [(&str, &str); 5], by: &str) -> String {
    let best = rows.iter().map(|row| row.speed(by)).fold(0.0, f64::max);
    // The latency of -k has a column if the option is used.
    let with_latency = rows.iter().any(|row| row.latency().is_some());
    let latency_title = with_latency.then_some("read ended after, ms");
    let titles = columns.map(|(_, title)| title);
    let header = ["combination"].into_iter().chain(titles).chain(latency_title).chain(["", "remarks"]);
    let mut table = Table::new(header).numbers(1..=columns.len() + usize::from(with_latency));
    for row in rows {
        let speeds = columns.map(|(name, _)| row.test(name).map_or_else(|| "-".to_owned(), kib_s));
        let is_best = row.speed(by) == best;
        let mark = if is_best { "<- best" } else { "" };
        let remarks = row.refused.clone().unwrap_or_else(|| bottleneck(row, columns[0].0));
        let ended = |latency: &Latency| format!("{:.3}", latency.read_ended_ns as f64 / 1e6);
        let latency = with_latency.then(|| row.latency().map_or_else(|| "-".to_owned(), ended));
        let cells = [row.combination.clone()].into_iter().chain(speeds).chain(latency);
        table.row(cells.chain([mark.to_owned(), remarks]));
    }
    let mut text = format!(
        "KiB/s as flash_speed prints them, sweeping {}; best: the fastest {}\n\n{table}",
        sweeps.join(" and "),
        by.replace('-', " ").replace("kib", "KiB")
    );
    let measured = rows.iter().filter(|row| row.run.is_some()).count();
    let not_given = rows.iter().flat_map(|row| row.not_given().iter().map(move |note| (note.clone(), row)));
    let doubts = rows.iter().filter_map(|row| Some((row.doubt()?, row)));
    let footnotes: Vec<String> = equal_rows(rows)
        .into_iter()
        .chain(footnotes("not given", not_given, measured))
        .chain(footnotes("least certain input", doubts, measured))
        .collect();
    if !footnotes.is_empty() {
        text += "\n\n";
        text += &footnotes.join("\n");
    }
    text
}

/// Footnotes: a line for each distinct text with the names of its rows. A text of all measured rows has no names.
fn footnotes<'a>(label: &str, of_rows: impl Iterator<Item = (String, &'a Row)>, rows: usize) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (text, row) in of_rows {
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(&row.combination),
            None => groups.push((text, vec![&row.combination])),
        }
    }
    let line = |(text, names): (String, Vec<&str>)| match names.len() == rows {
        true => format!("{label}: {text}"),
        false => format!("{label}: {}: {text}", names.join(", ")),
    };
    groups.into_iter().map(line).collect()
}

fn bottleneck(row: &Row, name: &str) -> String {
    row.test(name).map_or_else(String::new, |test| {
        let (phase, _) = test.breakdown_ns.largest();
        format!("{}: {phase} {:.0} %", test.name, test.share(phase) * 100.0)
    })
}

/// Combinations of a sweep as a result. The conclusion names the fastest combination in the test `by`.
#[derive(Serialize)]
struct Rows<'a> {
    rows: &'a [Row],
    #[serde(skip)]
    by: &'a str,
}

impl Concluded for Rows<'_> {
    fn conclusion(&self) -> String {
        conclusion(self.rows, self.by)
    }
}

/// Conclusion from a sweep: the fastest combination in a test, its ratio to the slowest, and the number of impossible
/// combinations.
fn conclusion(rows: &[Row], by: &str) -> String {
    let mut measured: Vec<&Row> = rows.iter().filter(|row| row.test(by).is_some()).collect();
    measured.sort_by(|a, b| b.speed(by).total_cmp(&a.speed(by)));
    let refused = match rows.len() - measured.len() {
        0 => String::new(),
        refused => format!(" {refused} of {} cannot be had.", common::count(rows.len(), "combination")),
    };
    let ([first, .., last] | [first @ last]) = measured[..] else { return refused.trim_start().to_owned() };
    let Some(best) = first.test(by).map(rate) else { return String::new() };
    let name = by.replace('-', " ").replace("kib", "KiB");
    let factor = first.speed(by) / last.speed(by).max(1e-9);
    let beside = if factor > 1.005 {
        format!(", {} times as fast as {}", three(factor), last.combination)
    } else {
        "; no other is slower".to_owned()
    };
    format!("The fastest {name} is {best} with {}{beside}.{refused}", first.combination)
}

/// Text about rows with equal figures in all tests, with one line and the reason for each group of such rows.
fn equal_rows(rows: &[Row]) -> Vec<String> {
    let times = |row: &Row| {
        let run = row.run.as_ref()?;
        Some(run.report.tests.iter().map(|test| test.ns).collect::<Vec<_>>())
    };
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows.iter().filter(|row| row.run.is_some()) {
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| times(first) == times(row))) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.iter().filter(|group| group.len() > 1).map(|group| why_equal(group)).collect()
}

fn why_equal(group: &[&Row]) -> String {
    let names: Vec<&str> = group.iter().map(|row| row.combination.as_str()).collect();
    let links: Vec<_> = group.iter().filter_map(|row| row.run.as_ref()).map(|run| &run.link).collect();
    let why = match links.as_slice() {
        [first, rest @ ..]
            if rest.iter().all(|link| link.read == first.read && link.write == first.write) =>
        {
            format!("the driver uses the same operations, reads {} and writes {}", first.read, first.write)
        }
        _ => "the operations differ, but take the same time".to_owned(),
    };
    format!("equal: {}: {why}", names.join(", "))
}

fn plot_rows(
    path: &std::path::Path,
    rows: &[Row],
    sweeps: &[String],
    (test, test_title): (&str, &str),
) -> Result<(), Failure> {
    let bar = |row: &Row| {
        let note = row.refused.as_ref().map_or_else(String::new, |why| format!("refused: {why}"));
        let bar = row.test(test).map_or(plot::BarRow { note, ..plot::BarRow::default() }, bar);
        plot::BarRow { label: row.combination.clone(), ..bar }
    };
    let bars: Vec<plot::BarRow> = rows.iter().map(bar).collect();
    let scale = plot::Scale::fitting(&bars);
    let mut titles: Vec<&str> =
        rows.iter().filter_map(|row| Some(row.run.as_ref()?.title.as_str())).collect();
    titles.dedup();
    let sweeping = format!("sweeping {}", sweeps.join(" and "));
    // With several chips, the title names none of them.
    let title = if let [one] = titles.as_slice() { one } else { sweeping.as_str() };
    let per_call =
        if test == TESTS[0].0 { "page read, per page".to_owned() } else { format!("{test_title}, per call") };
    common::write_picture(path, &plot::bars(&bars, "settings", (title, &per_call), scale))
}
