//! `floatgate conformance`: a score card of a driver in C.

use crate::common::{self, Failure, Outcome};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::printed::Output;
use crate::table::Table;
use crate::terminal;
use floatgate_config::{Library, Override};
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_program::conformance::{self, Check, Checked, Error, Verdict};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate conformance --list

The driver is a shared object with the functions floatgate_driver_* of floatgate.h. It sends its commands to the pins of a simulated chip:

    cc -shared -fPIC -I crates/capi/include -o nor_driver.so \\
      crates/capi/examples/nor_driver.c
    floatgate conformance w25q128jv w25q256jv --driver ./nor_driver.so --junit card.xml

Each check runs on its own chip, in its own process. docs/conformance.md explains the checks. A failed check is followed by the last lines that the driver printed. \
Exit status 1: a check failed.")]
pub(crate) struct Args {
    /// Parts that the driver claims to support, or setups with these parts
    #[arg(required_unless_present = "list")]
    parts: Vec<PathBuf>,

    /// Shared object with the driver under test
    #[arg(long, value_name = "DRIVER.so", required_unless_present = "list")]
    driver: Option<PathBuf>,

    /// Override any field of the setups and their chips
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Time limit of a check, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = common::time_limit)]
    time_limit: f64,

    /// Write the score card as JUnit XML, for CI servers
    #[arg(long, value_name = "FILE.xml")]
    junit: Option<OutputFile>,

    /// Print all output of the driver on stderr
    #[arg(short, long)]
    verbose: bool,

    /// List the checks
    #[arg(long, conflicts_with_all = ["parts", "driver", "junit", "verbose"])]
    list: bool,

    #[command(flatten)]
    format: ReportFormat,
}

/// A check of a part.
#[derive(Serialize)]
struct Row {
    part: String,
    check: &'static str,
    #[serde(flatten)]
    verdict: Verdict,
    /// Output of the driver in a failed check.
    #[serde(flatten)]
    output: Output,
}

impl Row {
    fn new(part: &str, checked: Checked) -> Self {
        let Checked { check, verdict, printed } = checked;
        let output = if matches!(verdict, Verdict::Failed(_)) { printed.into() } else { Output::default() };
        Self { part: part.to_owned(), check: name(check), verdict, output }
    }
}

/// Scorecard of a driver: numbers of verdicts, and a row for each check.
#[derive(Serialize)]
struct Card {
    driver: String,
    passed: usize,
    failed: usize,
    skipped: usize,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let Some(driver) = &args.driver else { return list(args) };
    let library = Library::built_in();
    let sets = Override::parse_all(&args.set)?;
    let limit = Duration::from_secs_f64(args.time_limit);
    refuse_repeated(&args.parts)?;
    let mut rows = Vec::new();
    for part in &args.parts {
        let config = library.resolve(&library.setup(part)?, &sets)?;
        let part = part.display().to_string();
        let mut on_printed = |check, line: &str| {
            if args.verbose {
                terminal::print_stderr(&format!("{part}: {}: {line}", name(check)));
            }
        };
        let all = conformance::check(driver, &config, limit, &mut on_printed).map_err(failure)?;
        rows.extend(all.into_iter().map(|checked| Row::new(&part, checked)));
    }
    let card = Card::new(driver, rows);
    if let Some(path) = &args.junit {
        common::write_file(path, &card.junit())?;
    }
    let origin = args
        .parts
        .first()
        .map_or_else(|| ResultKind::Conformance.of_nothing(), |part| ResultKind::Conformance.of(part));
    args.format.print(&origin.with(&args.set), &card, "rows", || card.text())?;
    Ok(if card.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Refuses a part that is named twice, because the scorecard has a column for each name.
fn refuse_repeated(parts: &[PathBuf]) -> Result<(), Failure> {
    let repeated = parts.iter().enumerate().find(|(at, part)| parts.iter().take(*at).any(|one| one == *part));
    match repeated {
        None => Ok(()),
        Some((_, part)) => {
            Err(Failure::new(format!("{} is named twice", part.display()), "name each part once"))
        }
    }
}

/// Lists the checks, without a driver.
fn list(args: &Args) -> Outcome {
    let rows: Vec<CheckRow> = Check::ALL
        .into_iter()
        .map(|check| CheckRow { check: name(check), passes_when: describe(check) })
        .collect();
    args.format.finish_rows(&ResultKind::ConformanceChecks.of_nothing(), &rows, || {
        let mut table = Table::new(["check", "passes when"]);
        for row in &rows {
            table.row([row.check, row.passes_when]);
        }
        table.to_string()
    })
}

#[derive(Serialize)]
struct CheckRow {
    check: &'static str,
    passes_when: &'static str,
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Config(error) => error.into(),
        Error::Load(_) => Failure::new(
            error,
            "build it with `cc -shared -fPIC`, with the functions floatgate_driver_* of floatgate.h (docs/conformance.md)",
        ),
        Error::Rig(error) => error.into(),
        Error::Process(_) => Failure::new(error, "end other processes"),
    }
}

const fn name(check: Check) -> &'static str {
    match check {
        Check::Found => "found by id",
        Check::Geometry => "geometry",
        Check::Program => "program",
        Check::Read => "read",
        Check::Erase => "erase",
        Check::Polling => "polling",
        Check::NoViolation => "no violation",
        Check::BadBlocks => "bad blocks",
        Check::WrongBit => "1 bit corrected",
        Check::Uncorrectable => "uncorrectable reported",
        Check::FailedBlock => "failed block reported",
        Check::CutInProgram => "cut in program",
        Check::CutInErase => "cut in erase",
        Check::AddressMode => "address mode left",
        Check::LockedBlock => "locked block reported",
    }
}

const fn describe(check: Check) -> &'static str {
    match check {
        Check::Found => "the probe finds the chip",
        Check::Geometry => "size, eraseblock and page are those of the chip",
        Check::Program => "all bytes of a page are in the array after a program, at the end of the chip",
        Check::Read => "a read returns the bytes of the array",
        Check::Erase => "an erase erases its whole block and no other",
        Check::Polling => "the chip is ready when a program or erase returns",
        Check::NoViolation => "probe, program, read, erase and release break no rule of the chip",
        Check::BadBlocks => "factory bad blocks are known as bad, and others as good",
        Check::WrongBit => "a read corrects a wrong bit",
        Check::Uncorrectable => "a read of 2000 wrong bits returns an error",
        Check::FailedBlock => "a program or erase that the chip reports as failed returns an error",
        Check::CutInProgram => {
            "the chip can be probed, erased, programmed and read after a power cut in a program"
        }
        Check::CutInErase => {
            "the chip can be probed, erased, programmed and read after a power cut in an erase"
        }
        Check::AddressMode => {
            "READ 03h with three address bytes works after the release, as boot ROMs send it"
        }
        Check::LockedBlock => "a program of a block that the status register locks returns an error",
    }
}

impl Concluded for Card {
    /// Number of checks that failed.
    fn conclusion(&self) -> String {
        let driver = &self.driver;
        match self.failed {
            0 => format!("{driver}: all {} passed.", common::count(self.passed, "check")),
            failed => format!("{driver}: {} failed, {} passed.", common::count(failed, "check"), self.passed),
        }
    }
}

impl Card {
    fn new(driver: &Path, rows: Vec<Row>) -> Self {
        let count = |of: fn(&Verdict) -> bool| rows.iter().filter(|row| of(&row.verdict)).count();
        let passed = count(|verdict| *verdict == Verdict::Passed);
        let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let skipped = rows.len() - passed - failed;
        Self { driver: driver.display().to_string(), passed, failed, skipped, rows }
    }

    fn text(&self) -> String {
        let mut parts: Vec<&str> = self.rows.iter().map(|row| row.part.as_str()).collect();
        parts.dedup();
        let mut table = Table::new(std::iter::once("check").chain(parts.iter().copied()));
        for check in Check::ALL.map(name) {
            let of = self.rows.iter().filter(|row| row.check == check);
            table.row(std::iter::once(check).chain(of.map(|row| match row.verdict {
                Verdict::Passed => "ok",
                Verdict::Failed(_) => "FAILED",
                Verdict::Skipped(_) => "-",
            })));
        }
        let failures = self.rows.iter().filter_map(|row| match &row.verdict {
            Verdict::Failed(why) => {
                Some(format!("\n{}: {}: {why}{}", row.part, row.check, row.output.text()))
            }
            _ => None,
        });
        let skipped: BTreeSet<&str> = self
            .rows
            .iter()
            .filter_map(|row| match &row.verdict {
                Verdict::Skipped(why) => Some(why.as_str()),
                _ => None,
            })
            .collect();
        let legend: String = skipped.iter().map(|why| format!("-: skipped, as {why}\n")).collect();
        format!("{table}\n{legend}{}", failures.collect::<String>())
    }

    fn junit(&self) -> String {
        let case = |row: &Row| {
            let inside = match &row.verdict {
                Verdict::Passed => String::new(),
                Verdict::Failed(why) if row.output.last.is_empty() => {
                    format!("<failure message=\"{}\"/>", xml(why))
                }
                Verdict::Failed(why) => {
                    let lines: Vec<String> = row.output.last.iter().map(|line| xml(line)).collect();
                    let lines = lines.join("\n");
                    format!("<failure message=\"{}\"/><system-out>{lines}</system-out>", xml(why))
                }
                Verdict::Skipped(why) => format!("<skipped message=\"{}\"/>", xml(why)),
            };
            format!(
                "  <testcase classname=\"{}\" name=\"{}\">{inside}</testcase>\n",
                xml(&row.part),
                xml(row.check)
            )
        };
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}</testsuite>\n",
            xml(&self.driver),
            self.rows.len(),
            self.failed,
            self.skipped,
            self.rows.iter().map(case).collect::<String>()
        )
    }
}

/// Text in an XML attribute. Characters that XML does not allow are replaced.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            control if control.is_control() => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    out
}
