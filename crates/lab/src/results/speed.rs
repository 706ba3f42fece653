//! Report of `floatgate speed`.

use super::corrections;
use crate::envelope::{Concluded as _, Reported};
use crate::show::number::three;
use crate::show::plot::BarRow;
use crate::show::report::{Cell, Report, Section, Timed, Times};
use crate::speed::{Latency, Measured};
use crate::speed_run::{Advice, NextOption, SpeedRun, explain};
use floatgate_mtd::advice;
use floatgate_mtd::advice::CommandOption;
use floatgate_mtd::words::{count, grouped};
use floatgate_mtd::{Nanos, Phase};
use floatgate_sim::machine::FilesystemKind;
use serde::Serialize;
use serde_json::Value;

impl Reported for SpeedRun {
    fn report(&self) -> Report {
        let latency = self.report.latency.as_ref().map(|latency| Section::Text(vec![latency_line(latency)]));
        let sections = [Some(Section::Times(times(self))), latency, Some(Section::Compared(compared(self)))];
        Report {
            title: self.title.clone(),
            head: head(self),
            conclusion: self.conclusion(),
            sections: sections.into_iter().flatten().collect(),
        }
    }

    /// A row for each test, and one for the latency of -k.
    fn rows(&self) -> serde_json::Result<Value> {
        let latency =
            self.report.latency.iter().map(|latency| Line::Latency { name: READ_WHILE_WRITE, latency });
        let lines: Vec<Line<'_>> = self.report.tests.iter().map(Line::Test).chain(latency).collect();
        serde_json::to_value(lines)
    }
}

const READ_WHILE_WRITE: &str = "read while write";

/// A line of the CSV.
#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Test(&'a Measured),
    Latency {
        name: &'static str,
        #[serde(flatten)]
        latency: &'a Latency,
    },
}

fn head(run: &SpeedRun) -> Vec<String> {
    let r = &run.report;
    let chip = format!(
        "{}: pages of {} B, eraseblocks of {} KiB, {} {}",
        run.chip,
        r.page_bytes,
        r.eraseblock_bytes / 1024,
        r.good_blocks,
        if r.filesystem.is_some() { "used" } else { "tested" }
    );
    let filesystem = r.filesystem.as_ref().map(|fs| {
        let (name, unit) = match fs.kind {
            FilesystemKind::Ubifs => ("UBIFS", "LEB"),
            FilesystemKind::Jffs2 => ("JFFS2", "eraseblock"),
        };
        let missing = match fs.cpu_is_known {
            true => "",
            false => "; the CPU's time is missing, because the setup does not give the speed of the CPU",
        };
        format!(
            "{name} on {} of {} B, {} MiB free; files of {} KiB{missing}",
            count(fs.lebs.into(), unit),
            fs.leb_bytes,
            fs.free_bytes >> 20,
            fs.file_bytes >> 10
        )
    });
    let links = [chip, format!("reads  {}", run.link.read), format!("writes {}", run.link.write)];
    let notes = run.link.not_given.iter().chain(&run.link.notes).cloned();
    links.into_iter().chain(filesystem).chain(notes).collect()
}

/// Tests, each with its breakdown and advice.
fn times(run: &SpeedRun) -> Times {
    let tests = &run.report.tests;
    let mut folded = 0;
    let row = |(at, test): (usize, &Measured)| {
        let is_folded = folded > 0;
        let equal = if is_folded { &[] } else { equal_erases(tests.get(at..).unwrap_or_default()) };
        folded = if is_folded { folded - 1 } else { equal.len() };
        let advice = run.advice.iter().find(|advice| advice.test == test.name);
        let corrections = corrections(&test.corrected, test.calls);
        let energy = test.mj_per_mib.map(|mj| format!("energy of the chip: {} mJ/MiB", three(mj)));
        Timed {
            bar: bar(test),
            figure: figure(test, equal),
            above: interval(test).into_iter().chain(energy).collect(),
            below: corrections.map(advice::Advice::from).into_iter().chain(advice.map(bottleneck)).collect(),
            is_folded,
        }
    };
    Times {
        rows: tests.iter().enumerate().map(row).collect(),
        noun: "test",
        title: (run.title.clone(), format!("{}: {}", run.chip, run.link.read)),
        is_page_only: false,
    }
}

/// Tests of erases with several blocks per call that are as fast as the first test, if this is an erase.
fn equal_erases(tests: &[Measured]) -> &[Measured] {
    let [first, others @ ..] = tests else { return &[] };
    let is_equal = |test: &&Measured| {
        first.name == "erase" && test.name.ends_with("x erase") && test.printed_kib_s == first.printed_kib_s
    };
    let equal = others.iter().take_while(is_equal).count();
    others.get(..equal).unwrap_or_default()
}

/// Text of the 80 % interval, in which 8 of 10 boards are expected.
fn interval(test: &Measured) -> Option<String> {
    let interval = test.interval?;
    Some(match test.bytes {
        0 => format!("80 % interval: {:.2} to {:.2} ms", interval.min, interval.max),
        _ => {
            // flash_speed counts whole milliseconds, so the figure of a short test may be up to twice the exact one.
            let is_inside = interval.holds(test.printed_kib_s as f64);
            let of = if is_inside { "" } else { " of the exact figure" };
            format!("80 % interval{of}: {:.0} to {:.0} KiB/s", interval.min, interval.max)
        }
    })
}

fn figure(test: &Measured, equal: &[Measured]) -> String {
    if test.bytes == 0 {
        let each = match test.calls {
            1 => String::new(),
            calls => format!("   ({:.2} us for each of {})", test.us_per_call(), grouped(calls)),
        };
        return format!("takes {}{each}", Nanos::from_ns(test.ns));
    }
    let why_zero = match is_too_short(test) {
        true => format!("; under 1 ms flash_speed prints 0: test more blocks, {}", CommandOption::Blocks),
        false => String::new(),
    };
    let others = match equal {
        [] => String::new(),
        [only] => format!("; {} is as fast", only.name),
        [first, .., last] => {
            format!("; {} to {} are as fast", first.name.trim_end_matches(" erase"), last.name)
        }
    };
    format!(
        "speed is {} KiB/s   (exactly {:.1}; {:.2} us each{why_zero}{others})",
        test.printed_kib_s,
        test.exact_kib_s,
        test.us_per_call()
    )
}

/// True if `flash_speed` prints 0, because its clock counts milliseconds.
fn is_too_short(test: &Measured) -> bool {
    test.ns < 1_000_000
}

/// Figure as `flash_speed` prints it, or the exact figure if the test is too short for `flash_speed`.
pub(super) fn kib_s(test: &Measured) -> String {
    if test.bytes == 0 {
        return format!("{:.2} ms", test.ns as f64 / 1e6);
    }
    if is_too_short(test) { format!("~{:.0}", test.exact_kib_s) } else { test.printed_kib_s.to_string() }
}

/// Bar of a test.
pub(super) fn bar(test: &Measured) -> BarRow {
    BarRow {
        label: test.name.clone(),
        note: if test.bytes == 0 {
            format!("{} in all", kib_s(test))
        } else {
            format!("{} KiB/s", kib_s(test))
        },
        breakdown: test.breakdown_ns,
        calls: test.calls,
    }
}

fn bottleneck(advice: &Advice) -> advice::Advice {
    let phase = Phase::ALL.into_iter().find(|p| p.name() == advice.bottleneck).unwrap_or(Phase::Cpu);
    let bottleneck = format!("bottleneck: {}, {:.1} %; ", explain(phase), advice.share_percent);
    let Some(NextOption { set, kib_s, factor }) = &advice.next else {
        return advice! { bottleneck, "no single change of bus or driver gains 1 %" };
    };
    let gain = match kib_s {
        0 => format!(" {set} is x{factor:.2} as fast"),
        _ => format!(" {set} gives {kib_s} KiB/s, x{factor:.2}"),
    };
    advice! { bottleneck, "next: ", CommandOption::Set, gain }
}

fn latency_line(latency: &Latency) -> String {
    format!(
        "{READ_WHILE_WRITE} took {}ms, read ended after {}ms   (exactly {:.3} and {:.3} ms; wrote block {}, read block {})",
        latency.took_ns / 1_000_000,
        latency.read_ended_ns / 1_000_000,
        latency.took_ns as f64 / 1e6,
        latency.read_ended_ns as f64 / 1e6,
        latency.write_block,
        latency.read_block
    )
}

/// Figures that are compared with other results: the speeds, and the bottleneck of reads.
fn compared(run: &SpeedRun) -> Vec<(String, Cell)> {
    let tests = &run.report.tests;
    // Multi-block erases add no information to single-block erases.
    let alone = tests.iter().filter(|test| !test.name.ends_with("x erase"));
    let speed = |test: &Measured| match test.bytes {
        0 => (format!("{} ms", test.name), Cell::number(test.ns as f64 / 1e6)),
        _ => (format!("{} KiB/s", test.name), Cell::number(test.exact_kib_s)),
    };
    // The reads that the conclusion is about.
    let read = tests.iter().find(|test| ["page read", "read 64 KiB"].contains(&test.name.as_str()));
    let name = if read.is_some() { "bottleneck of reads" } else { "bottleneck" };
    let bottleneck = read.or(tests.first()).map(|test| test.breakdown_ns.largest().0.name());
    alone.map(speed).chain(bottleneck.map(|phase| (name.to_owned(), phase.into()))).collect()
}
