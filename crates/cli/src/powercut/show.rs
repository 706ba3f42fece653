//! Output of a power-cut exploration, as text and JSON.

use std::time::Duration;

use floatgate_lab::powercut::{self, Failure, FlashId, Mode, Options, Report, RunId};
use floatgate_lab::report::Concluded;
use floatgate_mtd::Geometry;
use floatgate_sim::machine::FilesystemKind;
use serde::Serialize;

use super::Args;
use crate::common;
use crate::table::Table;

/// Largest number of failures that the text shows.
const SHOWN: usize = 10;

/// Text of a campaign's report: parameters and results.
pub(super) fn text(args: &Args, geometry: &Geometry, options: &Options, report: &Report) -> String {
    let mut text = head(geometry, options, report);
    text += &format!("{}\n\n", table(report));
    text += &end(args, report);
    text
}

/// Name of the layer whose power is cut.
const fn cut_site(options: &Options) -> &'static str {
    match options.flash {
        FlashId::Ram(_) => "flash in memory",
        FlashId::Chip { .. } => "the simulated chip",
    }
}

fn head(geometry: &Geometry, options: &Options, report: &Report) -> String {
    let mut text = format!(
        "{}: {} eraseblocks of {} KiB, pages of {} B, sub-pages of {} B",
        cut_site(options),
        geometry.blocks(),
        geometry.erase_bytes / 1024,
        geometry.write_bytes,
        geometry.sub_page_bytes
    );
    if options.faults {
        text += ", with faults";
    }
    let (seed, steps) = (options.seed, options.steps);
    text += &match options.mode {
        Mode::Random(_) => {
            let workloads = common::count(report.workloads as usize, "workload");
            format!("\n{workloads} of {}, seeds from {seed} on", common::count(steps, "step"))
        }
        _ => {
            let steps = common::count(steps, "step");
            format!("\na workload of {steps}, seed {seed}: {}", powercut::describe(options.fs, seed))
        }
    };
    let plural = if report.operations == 1 { "" } else { "s" };
    text += &format!(", {} flash operation{plural}\n", common::grouped(report.operations));
    let first: Vec<String> =
        report.kinds().map(|(kind, runs)| format!("{} {kind}", common::grouped(runs))).collect();
    if report.cuts > 0 {
        let again = report.cuts.saturating_sub(report.runs);
        text += &format!(
            "{} in {}: first {}; {} in recoveries\n",
            common::grouped_count(report.cuts, "cut"),
            common::grouped_count(report.runs, "run"),
            first.join(", "),
            common::grouped(again)
        );
    }
    text += &fewer_than_asked(options, report);
    if options.fs == FilesystemKind::Ubifs {
        text += &linux_differs(geometry);
    }
    text += "found: names as at an earlier moment, before the step, after it; recovery: flash operations on average and at most\n\n";
    text
}

/// Note for a campaign with fewer runs than its mode requires.
fn fewer_than_asked(options: &Options, report: &Report) -> String {
    let runs = match options.mode {
        Mode::Linear(cuts) => (cuts, report.operations.min(cuts)),
        Mode::Random(cuts) => (cuts, report.runs),
        _ => return String::new(),
    };
    match runs {
        (asked, done) if done < asked => format!(
            "{} first cuts were asked for: the workload has operations for {} only\n",
            common::grouped(asked),
            common::grouped(done)
        ),
        _ => String::new(),
    }
}

/// Note for a geometry with which Linux may refuse a filesystem that is mounted here.
fn linux_differs(geometry: &Geometry) -> String {
    match powercut::leb_start(geometry) {
        0 => String::new(),
        start => format!(
            "LEBs begin {start} bytes after the start of a program of {} bytes: Linux's UBIFS does not allow for that, and may refuse to mount after such cuts\n",
            geometry.buffer_bytes
        ),
    }
}

/// Note about larger sectors, which replaced sectors of the setup that are too small.
pub(super) fn larger_sectors(too_small_bytes: u32, erase_bytes: u32) -> String {
    format!(
        "eraseblocks of {} KiB are too small for UBIFS: sectors of {} KiB are used, as by Linux without CONFIG_MTD_SPI_NOR_USE_4K_SECTORS",
        too_small_bytes >> 10,
        erase_bytes >> 10
    )
}

/// Table with a row for each kind of step.
fn table(report: &Report) -> Table {
    let header = ["step", "runs", "cuts", "earlier", "before", "after", "recovery", "at most", "failures"];
    let mut table = Table::new(header).numbers(1..);
    for (step, counts) in &report.steps {
        let good = counts.runs - counts.failures;
        let mean = counts.recovery_operations.checked_div(good).unwrap_or(0);
        let numbers = [
            counts.runs,
            counts.cuts,
            counts.found_earlier,
            counts.found_before,
            counts.found_after,
            mean,
            counts.recovery_operations_max,
            counts.failures,
        ];
        let row = std::iter::once((*step).to_owned()).chain(numbers.map(common::grouped));
        table.row(row);
    }
    table
}

fn end(args: &Args, report: &Report) -> String {
    let mut text = String::new();
    if report.bad_pebs_max > 0 {
        text += &format!("at most {}\n", common::count(report.bad_pebs_max as usize, "bad eraseblock"));
    }
    for failure in report.failures.iter().take(SHOWN) {
        text += &failed(args, failure);
    }
    if report.failure_count > 0 {
        let runs = common::grouped_count(report.runs, "run");
        text += &format!("{} of {runs} failed", common::grouped(report.failure_count));
    }
    text
}

fn failed(args: &Args, failure: &Failure) -> String {
    let Failure { id, step, what } = failure;
    format!("FAILED at step {step}\n  {what}\n  floatgate powercut {}--replay {id}\n", args.of_chip(id))
}

/// Text of the duration and of the number of cuts per second.
pub(super) fn rate(cuts: u64, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    format!("{} in {seconds:.2} s, {:.0} a second", common::grouped_count(cuts, "cut"), cuts as f64 / seconds)
}

/// The report of a single run is one line, and needs no conclusion.
impl Concluded for ReplayedJson<'_> {}

/// Text about a repeated run.
pub(super) fn replayed(args: &Args, id: &RunId, failure: Option<&Failure>) -> String {
    match failure {
        Some(failure) => failed(args, failure),
        None => format!("{id}: nothing was lost"),
    }
}

#[derive(Serialize)]
pub(super) struct ReplayedJson<'a> {
    id: String,
    failure: Option<&'a Failure>,
}

/// JSON of a repeated run.
pub(super) fn replayed_json<'a>(id: &RunId, failure: Option<&'a Failure>) -> ReplayedJson<'a> {
    ReplayedJson { id: id.to_string(), failure }
}
