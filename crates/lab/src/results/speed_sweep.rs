//! Result of `floatgate speed --sweep` and its report.

use super::speed;
use crate::certainty::Certainty;
use crate::conclusion::rate;
use crate::envelope::{Concluded, Reported};
use crate::show::number::three;
use crate::show::plot::BarRow;
use crate::show::report::{Cell, Report, Section, Table, Timed, Times};
use crate::speed::{Latency, Measured};
use crate::speed_run::{SpeedRun, Swept};
use floatgate_config::Combination;
use floatgate_mtd::words::count;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Measurements of all combinations of a sweep.
#[derive(Serialize, Deserialize)]
pub struct SpeedSweep {
    /// Combinations, in the order of the report.
    pub rows: Vec<SweepRow>,
    /// Texts of the request, which JSON has in its envelope.
    #[serde(skip)]
    view: SweepView,
}

/// A combination, with its measurement or the reason why it is refused.
#[derive(Serialize, Deserialize)]
pub struct SweepRow {
    /// Overrides of the combination.
    pub combination: String,
    /// Measurement of the combination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<SpeedRun>,
    /// Reason why the combination is impossible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Least certain value on which the times depend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_certain: Option<Certainty>,
    /// Path and value of each override.
    #[serde(skip)]
    values: Vec<(String, String)>,
}

/// Parts of the request of a sweep that its report shows.
#[derive(Clone, Debug, Default)]
pub struct SweepView {
    /// Title of the setup.
    pub title: String,
    /// Name of the board or setup, for the CSV.
    pub board: String,
    /// Values of `--sweep`.
    pub sweeps: Vec<String>,
    /// Name of the test by which the rows are sorted, the fastest first; `None` for the order of the combinations.
    pub sort: Option<String>,
}

/// Names of tests that have a column, for `--sort`, with the titles of the columns.
type Columns = [(&'static str, &'static str); 5];

const TESTS: Columns = [
    ("page-read", "page read"),
    ("eraseblock-read", "block read"),
    ("page-write", "page write"),
    ("eraseblock-write", "block write"),
    ("erase", "erase"),
];

const FILE_TESTS: Columns = [
    ("write-64-kib", "write 64 KiB"),
    ("read-64-kib", "read 64 KiB"),
    ("create-files", "create files"),
    ("attach", "attach"),
    ("mount", "mount"),
];

/// Names that `--sort` accepts.
pub fn test_names() -> impl Iterator<Item = &'static str> {
    TESTS.into_iter().chain(FILE_TESTS).map(|(name, _)| name)
}

/// Tests that have a column in a sweep of the flash or of a filesystem, with their titles.
pub const fn columns(is_filesystem: bool) -> Columns {
    if is_filesystem { FILE_TESTS } else { TESTS }
}

/// Name of a test in sentences.
fn words(name: &str) -> String {
    name.replace('-', " ").replace("kib", "KiB")
}

impl SpeedSweep {
    /// Result of measured combinations, sorted as requested.
    pub fn new(combinations: &[Combination], outcomes: Vec<Result<Swept, String>>, view: SweepView) -> Self {
        let mut rows: Vec<SweepRow> =
            combinations.iter().zip(outcomes).map(|(c, outcome)| SweepRow::new(c, outcome)).collect();
        if let Some(test) = &view.sort {
            // Refused combinations are at the end. Times are not compared, because pages and eraseblocks can differ
            // in size.
            rows.sort_by(|a, b| b.speed(test).total_cmp(&a.speed(test)));
        }
        Self { rows, view }
    }

    /// Reasons of the impossible combinations.
    pub fn refused(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(|row| row.refused.as_deref())
    }

    fn runs(&self) -> impl Iterator<Item = &SpeedRun> {
        self.rows.iter().filter_map(|row| row.run.as_ref())
    }

    fn columns(&self) -> Columns {
        columns(self.runs().any(|run| run.report.filesystem.is_some()))
    }

    /// Test by which the fastest combination is chosen.
    fn by(&self) -> &str {
        self.view.sort.as_deref().unwrap_or(self.columns()[0].0)
    }
}

impl SweepRow {
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

    /// Result of a test of [`columns`].
    fn test(&self, name: &str) -> Option<&Measured> {
        let name = name.replace('-', " ");
        self.run.as_ref()?.report.tests.iter().find(|test| test.name.eq_ignore_ascii_case(&name))
    }

    /// Speed in a test of [`columns`], in KiB/s, or in calls per second if no bytes are moved; below 0 if the
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
        let values = self.values.iter().map(|(path, value)| (path.clone(), value.clone().into()));
        let mut line: Map<String, Value> = values.collect();
        // A stored row has only the text of its overrides.
        if line.is_empty() {
            line.insert("combination".to_owned(), self.combination.clone().into());
        }
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

impl Reported for SpeedSweep {
    fn report(&self) -> Report {
        let by = words(self.by());
        let sweeping = match &self.view.sweeps[..] {
            [] => String::new(),
            sweeps => format!(", sweeping {}", sweeps.join(" and ")),
        };
        let title = match self.view.title.as_str() {
            "" => self.runs().next().map_or("", |run| &run.title),
            title => title,
        };
        Report {
            title: title.to_owned(),
            head: vec![format!("KiB/s as flash_speed prints them{sweeping}; best: the fastest {by}")],
            conclusion: self.conclusion(),
            sections: vec![
                Section::Table(table(self)),
                Section::Text(remarks(&self.rows)),
                Section::Times(times(self)),
            ],
        }
    }

    fn rows(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self.rows.iter().map(|row| row.line(&self.view.board)).collect::<Vec<_>>())
    }
}

fn table(sweep: &SpeedSweep) -> Table {
    let (columns, by) = (sweep.columns(), sweep.by());
    let best = sweep.rows.iter().map(|row| row.speed(by)).fold(0.0, f64::max);
    let missing = || Cell::from("-");
    // The latency of -k has a column if the option is used.
    let with_latency = sweep.rows.iter().any(|row| row.latency().is_some());
    let row = |row: &SweepRow| {
        let speed = |test: &Measured| {
            let exact = if test.bytes == 0 { test.ns as f64 / 1e6 } else { test.exact_kib_s };
            Cell::shown(exact, speed::kib_s(test))
        };
        let speeds = columns.map(|(name, _)| row.test(name).map_or_else(missing, speed));
        let ended = |latency: &Latency| {
            let ms = latency.read_ended_ns as f64 / 1e6;
            Cell::shown(ms, format!("{ms:.3}"))
        };
        let latency = with_latency.then(|| row.latency().map_or_else(missing, ended));
        let mark = if row.speed(by) == best { "<- best" } else { "" };
        let remarks = row.refused.clone().unwrap_or_else(|| bottleneck(row, columns[0].0));
        let cells = std::iter::once(row.combination.as_str().into()).chain(speeds).chain(latency);
        cells.chain([mark.into(), remarks.into()]).collect()
    };
    let titles = columns.map(|(_, title)| title).into_iter();
    let numbers: Vec<&str> = titles.chain(with_latency.then_some("read ended after, ms")).collect();
    let rows = sweep.rows.iter().map(row);
    let table = Table::new(&["combination"], &numbers, rows).then_words("mark").then_words("remarks");
    table.quiet(&["mark"]).named("Combinations")
}

/// Remarks below the table: equal rows, unmet requests, and the least certain inputs.
fn remarks(rows: &[SweepRow]) -> Vec<String> {
    let measured = rows.iter().filter(|row| row.run.is_some()).count();
    let not_given = rows.iter().flat_map(|row| row.not_given().iter().map(move |note| (note.clone(), row)));
    let doubts = rows.iter().filter_map(|row| Some((row.doubt()?, row)));
    equal_rows(rows)
        .into_iter()
        .chain(footnotes("not given", not_given, measured))
        .chain(footnotes("least certain input", doubts, measured))
        .collect()
}

/// Footnotes: a line for each distinct text with the names of its rows. A text of all measured rows has no names.
fn footnotes<'a>(
    label: &str,
    of_rows: impl Iterator<Item = (String, &'a SweepRow)>,
    rows: usize,
) -> Vec<String> {
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

fn bottleneck(row: &SweepRow, name: &str) -> String {
    row.test(name).map_or_else(String::new, |test| {
        let (phase, _) = test.breakdown_ns.largest();
        format!("{}: {phase} {:.0} %", test.name, test.share(phase) * 100.0)
    })
}

impl Concluded for SpeedSweep {
    /// States the fastest combination in a test, its ratio to the slowest, and the number of impossible combinations.
    fn conclusion(&self) -> String {
        let (rows, by) = (&self.rows, self.by());
        let mut measured: Vec<&SweepRow> = rows.iter().filter(|row| row.test(by).is_some()).collect();
        measured.sort_by(|a, b| b.speed(by).total_cmp(&a.speed(by)));
        let refused = match rows.len() - measured.len() {
            0 => String::new(),
            refused => format!(" {refused} of {} cannot be had.", count(rows.len() as u64, "combination")),
        };
        let ([first, .., last] | [first @ last]) = measured[..] else {
            return refused.trim_start().to_owned();
        };
        let Some(best) = first.test(by).map(rate) else { return String::new() };
        let factor = first.speed(by) / last.speed(by).max(1e-9);
        let beside = if factor > 1.005 {
            format!(", {} times as fast as {}", three(factor), last.combination)
        } else {
            "; no other is slower".to_owned()
        };
        format!("The fastest {} is {best} with {}{beside}.{refused}", words(by), first.combination)
    }
}

/// Text about rows with equal figures in all tests, with one line and the reason for each group of such rows.
fn equal_rows(rows: &[SweepRow]) -> Vec<String> {
    let times = |row: &SweepRow| {
        let run = row.run.as_ref()?;
        Some(run.report.tests.iter().map(|test| test.ns).collect::<Vec<_>>())
    };
    let mut groups: Vec<Vec<&SweepRow>> = Vec::new();
    for row in rows.iter().filter(|row| row.run.is_some()) {
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| times(first) == times(row))) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.iter().filter(|group| group.len() > 1).map(|group| why_equal(group)).collect()
}

fn why_equal(group: &[&SweepRow]) -> String {
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

/// Bar of each combination in the first test that has a column.
fn times(sweep: &SpeedSweep) -> Times {
    let (name, title) = sweep.columns()[0];
    let row = |row: &SweepRow| {
        let note = row.refused.as_ref().map_or_else(String::new, |why| format!("refused: {why}"));
        let bar = row.test(name).map_or(BarRow { note, ..BarRow::default() }, speed::bar);
        let figure = format!("{}: {}", words(name), bar.note);
        Timed { bar: BarRow { label: row.combination.clone(), ..bar }, figure, ..Timed::default() }
    };
    let mut titles: Vec<&str> = sweep.runs().map(|run| run.title.as_str()).collect();
    titles.dedup();
    // With several chips, the title names none of them.
    let of_all = match titles[..] {
        [one] => one.to_owned(),
        _ => format!("sweeping {}", sweep.view.sweeps.join(" and ")),
    };
    let per_call = match name {
        "page-read" => "page read, per page".to_owned(),
        _ => format!("{title}, per call"),
    };
    Times {
        rows: sweep.rows.iter().map(row).collect(),
        noun: "settings",
        title: (of_all, per_call),
        is_page_only: true,
    }
}
