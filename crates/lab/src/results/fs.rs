//! Reports of `floatgate fs`.

use crate::envelope::{Concluded as _, Reported};
use crate::fs_compare::{BySize, FsComparison, Row, Subject, Test};
use crate::show::number::three;
use crate::show::plot::BarRow;
use crate::show::report::{Cell, Report, Section, Table, Timed, Times};
use floatgate_mtd::Nanos;
use floatgate_mtd::advice::Advice;
use floatgate_mtd::size::text as size;
use floatgate_sim::rig::Link;
use serde_json::Value;

impl Reported for FsComparison {
    fn report(&self) -> Report {
        let refused = self.refused.iter().map(|refused| {
            format!("not measured: {} {}: {}", refused.subject.name(), refused.test.name(), refused.why)
        });
        let mut sections: Vec<Section> =
            Test::ALL.into_iter().flat_map(|test| of_test(self, test)).map(Section::Table).collect();
        sections.extend([
            Section::Text(refused.collect()),
            advice(self.other_advice()),
            Section::Times(times(self)),
        ]);
        Report { title: self.title.clone(), head: head(self), conclusion: self.conclusion(), sections }
    }

    fn rows(&self) -> serde_json::Result<Value> {
        serde_json::to_value(&self.rows)
    }
}

fn advice<'a>(sentences: impl Iterator<Item = &'a str>) -> Section {
    Section::Advice(sentences.map(|sentence| Advice::from(sentence.to_owned())).collect())
}

fn head(compared: &FsComparison) -> Vec<String> {
    let chip = format!(
        "{}: {} KiB in eraseblocks of {} KiB",
        compared.chip,
        compared.flash_bytes / 1024,
        compared.eraseblock_bytes / 1024
    );
    let mut programs: Vec<&str> = compared
        .rows
        .iter()
        .filter(|row| matches!(row.subject, Subject::Own(_)))
        .map(|row| row.subject.name())
        .collect();
    programs.dedup();
    let programs = programs.into_iter().map(|name| {
        format!("the time of {name} itself on the CPU is not counted, only that of system calls, copies and the driver")
    });
    let links = links(&compared.link, compared.cpu_is_known);
    std::iter::once(chip).chain(links).chain(programs).collect()
}

/// Operations with which the driver reads and writes, with a remark if the CPU's time is unknown.
fn links(link: &Link, cpu_is_known: bool) -> impl Iterator<Item = String> {
    const UNKNOWN: &str =
        "the CPU's time for compression, checksums and copies is missing: the host has no instruction_ps";
    let unknown = (!cpu_is_known).then(|| UNKNOWN.to_owned());
    [format!("reads  {}", link.read), format!("writes {}", link.write)].into_iter().chain(unknown)
}

/// Text of a figure with three significant digits; KiB are rounded to whole numbers.
fn figure(row: &Row) -> String {
    match row.unit {
        "KiB" => format!("{:.0} KiB", row.value),
        unit => format!("{} {unit}", three(row.value)),
    }
}

/// Tables of a test: figures by subject, and the flash operations of rows that write.
fn of_test(compared: &FsComparison, test: Test) -> Vec<Table> {
    let rows: Vec<&Row> = compared.rows.iter().filter(|row| row.test == test).collect();
    let mut subjects: Vec<Subject> = rows.iter().map(|row| row.subject).collect();
    subjects.sort();
    subjects.dedup();
    if rows.is_empty() {
        return Vec::new();
    }
    let row = |name: &str| {
        let cell = |subject: &Subject| {
            let found = rows.iter().find(|row| row.subject == *subject && row.name == name);
            found.map_or_else(|| "".into(), |row| Cell::shown(row.value, figure(row)))
        };
        std::iter::once(name.into()).chain(subjects.iter().map(cell)).collect()
    };
    let columns: Vec<&'static str> = subjects.iter().map(|subject| subject.name()).collect();
    let rows_of = names(&rows, &subjects).into_iter().map(row);
    let figures = Table {
        below: intervals(&rows, &subjects).into_iter().collect(),
        ..Table::new(&["case"], &columns, rows_of).quiet(&["case"]).named(format!("Test {}", test.name()))
    };
    let details = details(&rows).map(|table| table.named(format!("Flash operations of {}", test.name())));
    std::iter::once(figures).chain(details).collect()
}

/// Widest 80 % interval of the figures of each subject.
fn intervals(rows: &[&Row], subjects: &[Subject]) -> Option<String> {
    let widest = |subject: &Subject| {
        let own = rows.iter().filter(|row| row.subject == *subject && row.value > 0.0);
        let ends = own.filter_map(|row| Some((row.interval?.min / row.value, row.interval?.max / row.value)));
        let (min, max) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some(format!("{} -{:.0} to +{:.0} %", subject.name(), (1.0 - min) * 100.0, (max - 1.0) * 100.0))
    };
    let all: Vec<String> = subjects.iter().filter_map(widest).collect();
    (!all.is_empty()).then(|| format!("80 % intervals, at most: {}", all.join(", ")))
}

/// Names of all rows, in the order of the subject with the most rows.
fn names<'a>(rows: &[&'a Row], subjects: &[Subject]) -> Vec<&'a str> {
    let of = |subject: Subject| rows.iter().filter(move |row| row.subject == subject);
    let most = subjects.iter().copied().max_by_key(|&subject| of(subject).count());
    let first = most.into_iter().flat_map(of);
    let mut names: Vec<&str> = Vec::new();
    for row in first.chain(rows) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    names
}

/// Flash operations of the rows that write; `None` if no row does.
fn details(rows: &[&Row]) -> Option<Table> {
    let row = |row: &&&Row| {
        let time = |ns: u64| Cell::shown(ns as f64 / 1e9, Nanos::from_ns(ns).to_string());
        let programmed = row.flash.programmed_bytes / 1024;
        vec![
            row.name.as_str().into(),
            row.subject.name().into(),
            row.returned_ns.map_or_else(|| "".into(), time),
            Cell::shown(programmed as f64, format!("{programmed} KiB")),
            Cell::number(row.write_amplification.unwrap_or(0.0)),
            Cell::count(row.flash.erases),
            Cell::count(row.flash.most_erased),
            row.bottleneck.unwrap_or("").into(),
        ]
    };
    let writing: Vec<&&Row> = rows.iter().filter(|row| row.write_amplification.is_some()).collect();
    let columns = ["before fsync", "programmed", "per byte", "erased", "most of one"];
    let words = ["case", "subject"];
    let table = Table::new(&words, &columns, writing.iter().map(row)).then_words("bottleneck");
    (!writing.is_empty()).then(|| table.quiet(&words))
}

/// Bars of all figures that are times or speeds.
fn times(compared: &FsComparison) -> Times {
    let row = |row: &Row| Timed {
        bar: BarRow {
            label: format!("{} {}", row.subject.name(), row.name),
            note: if row.unit == "s" { String::new() } else { figure(row) },
            breakdown: row.breakdown_ns,
            calls: 1,
        },
        figure: figure(row),
        ..Timed::default()
    };
    Times {
        rows: compared.rows.iter().filter(|row| row.ns > 0).map(row).collect(),
        noun: "row",
        title: (compared.title.clone(), compared.chip.clone()),
        is_page_only: true,
    }
}

impl Reported for BySize {
    fn report(&self) -> Report {
        let chip = format!("{}: eraseblocks of {} KiB", self.chip, self.eraseblock_bytes / 1024);
        let full = format!(
            "mounted full: files of 8 KiB of random bytes take {} % of the free space",
            self.fill_percent
        );
        Report {
            title: self.title.clone(),
            head: std::iter::once(chip).chain(links(&self.link, self.cpu_is_known)).collect(),
            conclusion: self.conclusion(),
            sections: vec![
                Section::Table(by_size(self)),
                Section::Text(vec![full]),
                advice(self.other_advice()),
            ],
        }
    }

    fn rows(&self) -> serde_json::Result<Value> {
        serde_json::to_value(&self.rows)
    }
}

fn by_size(compared: &BySize) -> Table {
    let cell = |value: Option<f64>, text: fn(f64) -> String| {
        value.map_or_else(|| "".into(), |value| Cell::shown(value, text(value)))
    };
    let kib = |value| cell(value, |kib| format!("{kib:.0} KiB"));
    let seconds = |value| cell(value, |s| format!("{} s", three(s)));
    let rows = compared.rows.iter().map(|row| {
        let why_not = row.why_not.as_deref().unwrap_or("");
        vec![
            size(row.partition_bytes).into(),
            row.subject.name().into(),
            kib(row.free_kib),
            seconds(row.mounted_s),
            seconds(row.usable_s),
            kib(row.memory_kib),
            if row.is_advised { "advised" } else { why_not }.into(),
        ]
    });
    let columns = ["free after mkfs", "mounted full", "all files usable", "kernel memory"];
    let table = Table::new(&["partition", "filesystem"], &columns, rows).then_words("advice");
    table.quiet(&["filesystem", "advice"]).named("Filesystems by the size of the partition")
}
