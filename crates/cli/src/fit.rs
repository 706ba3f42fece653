//! `floatgate fit`.

use crate::common::{self, Failure, Outcome};
use crate::fs::{SHARE, with_progress};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::table::Table;
use crate::terminal;
use floatgate_config::{Library, Override};
use floatgate_host::open::open_input;
use floatgate_host::output::is_stdout;
use floatgate_lab::fit::{
    self, FitReport, FittedParameter, FittedRow, Hypothesis, Prediction, RESULTS_MAX_BYTES,
};
use floatgate_lab::report::ResultKind;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Largest number of lines without a known figure that the report lists.
const LISTED: usize = 10;

#[derive(clap::Args)]
#[command(after_help = "fit reads the measured figures from a text file with any of these lines:
  - output of flash_speed or of the kernel's mtd_speedtest, with or without dmesg's time stamps
  - output of dd (`16777216 bytes (16.0MB) copied, 2.71 seconds`), with the command or the records above it
  - output of a shell's `time`, such as `real 0m 1.86s`, with the command line of dd above it (`# time dd if=/dev/mtd4 of=/dev/null bs=10M count=1`)
  - output of U-Boot's `time sf read`, `time nand read`, `time mtd read` and `sf update`
  - lines of your own: `page read 227 us`, `eraseblock write 3.4 MiB/s`
  - `set bus.mode=1-1-1`: condition of the lines that follow
  - `blocks 16`: number of eraseblocks that flash_speed moved

Examples:
  floatgate fit imx6-mx30lf2g18ac flash_speed.txt
  floatgate fit imx6-mx30lf2g18ac flash_speed.txt -o fitted.toml
  floatgate fit imx6-mx30lf2g18ac flash_speed.txt --free chip.timing.t_prog_us.typ --json")]
pub(crate) struct Args {
    /// Setup of the board: a name (see `floatgate list setups`), or the path of a TOML file
    setup: PathBuf,

    /// Text file with the measured figures; - is stdin
    results: PathBuf,

    /// Override any field of the setup: --set bus.clock_hz=80e6; costs and times that are set in this way are not fitted, unless
    /// --free names them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Also fit this number of the setup, such as `chip.timing.t_prog_us.typ`, from half of its value to its maximum (repeatable)
    #[arg(long, value_name = "KEY")]
    free: Vec<String>,

    /// Write the fitted setup to this file
    #[arg(short = 'o', long = "output", value_name = "OUT.toml")]
    output: Option<OutputFile>,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let library = Library::built_in();
    let setup = library.setup(&args.setup)?;
    let sets = Override::parse_all(&args.set)?;
    let base = args.output.as_deref().map(|output| base_of(&args.setup, output)).transpose()?;
    let results = fit::parse(&read(&args.results)?);
    let report =
        with_progress(SHARE, |progress| fit::fit(&library, &setup, &sets, &results, &args.free, progress))?;
    if let (Some(output), Some(base), true) = (&args.output, base, report.usable) {
        let text = fit::to_toml(&report, &library, (&setup, &base), &sets)?;
        common::write_file(output, &text)?;
    }
    let origin = ResultKind::Fit.of_setup(&args.setup, &setup).with(&args.set);
    let is_on_stdout = args.output.as_deref().is_some_and(is_stdout);
    let shown = if is_on_stdout && report.usable && !args.format.is_for_programs() {
        // Stdout contains only the setup.
        terminal::print_note(&show(&args.results, &report));
        ExitCode::SUCCESS
    } else {
        args.format.finish(&origin, &report, "rows", || show(&args.results, &report))?
    };
    match &args.output {
        _ if report.usable => Ok(shown),
        Some(output) => Err(Failure::new(
            format!("{}: not written: {UNUSABLE}", output.display()),
            "correct the figures, the setup, or what is wrong on the board",
        )),
        None => Ok(ExitCode::FAILURE),
    }
}

const INTERVALS: &str = "These intervals follow from the figures. `floatgate speed` with the written setup does not know the figures, and its intervals are wider: believe these.\n";

const UNUSABLE: &str = "no costs explain the figures";

/// Reads the results as bytes, because their encoding is unknown.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let help = "name a text file with what flash_speed, dd or U-Boot printed";
    let mut bytes = Vec::new();
    let opened: std::io::Result<Box<dyn std::io::Read>> =
        if path == Path::new("-") { Ok(Box::new(std::io::stdin())) } else { open_input(path) };
    match opened.and_then(|file| file.take(RESULTS_MAX_BYTES + 1).read_to_end(&mut bytes)) {
        Ok(read) if read as u64 > RESULTS_MAX_BYTES => Err(Failure::new(
            format!("{}: larger than {} MiB", path.display(), RESULTS_MAX_BYTES >> 20),
            help,
        )),
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::new(format!("{}: {error}", path.display()), help)),
    }
}

/// Name of the setup in the output: the name of a built-in setup, or the absolute path of a file.
fn base_of(setup: &Path, output: &Path) -> Result<String, Failure> {
    let text = setup.to_string_lossy();
    if !text.contains(['/', '\\']) && !text.ends_with(".toml") {
        return Ok(text.into_owned());
    }
    let failed = |error| Failure::new(format!("{}: {error}", setup.display()), "name a setup that exists");
    let whole = setup.canonicalize().map_err(failed)?;
    if output.canonicalize().is_ok_and(|output| output == whole) {
        return Err(Failure::new(
            format!("{}: the output would replace the setup that it is based on", output.display()),
            "name another file with -o",
        ));
    }
    Ok(whole.to_string_lossy().into_owned())
}

fn show(path: &Path, report: &FitReport) -> String {
    let mut text = format!(
        "{}\n{} understood, {} not taken\n",
        report.title,
        common::count(report.understood, "line"),
        report.unknown.len()
    );
    for unknown in report.unknown.iter().take(LISTED) {
        text += &format!("  {}:{}: {}: {}\n", path.display(), unknown.line, unknown.why, unknown.text);
    }
    if !report.held.is_empty() {
        text += &format!("held as the `set` lines state: {}\n", report.held.join(", "));
    }
    text += &format!("\n{}\n", costs(&report.parameters));
    text += &same_effects(&report.parameters);
    text += &format!("\n{}\n", rows(&report.rows));
    text +=
        &report.remarks.iter().map(|remark| format!("{}: {remark}\n", path.display())).collect::<String>();
    text += &format!("worst residual {}", percent(report.worst));
    if let (Some(median), Some(worst)) = (report.median_left_out, report.worst_left_out) {
        text += &format!(
            "; each figure predicted by the others: median {}, worst {}",
            percent(median).trim_start_matches('+'),
            percent(worst)
        );
    }
    text.push('\n');
    // Costs that do not explain the figures do not predict other figures.
    if report.usable && report.unexplained.is_empty() {
        text += &predictions(&report.predictions);
        text += INTERVALS;
    }
    text += &report.undecided.iter().map(|one| format!("{}\n", one.advice())).collect::<String>();
    text += &report.hypotheses.iter().map(hypothesis).collect::<String>();
    if !report.usable {
        text += &format!("{UNUSABLE}: the fitted ones are of no use\n");
    }
    for line in &report.unexplained {
        text += &format!("no cost explains the figure of {}:{line}\n", path.display());
    }
    text
}

/// Text about costs that have the same effect on all figures, with a line for each group of such costs.
fn same_effects(parameters: &[FittedParameter]) -> String {
    let mut named: Vec<&str> = Vec::new();
    let mut text = String::new();
    for p in parameters.iter().filter(|p| !p.same_effect.is_empty()) {
        if named.contains(&p.path.as_str()) {
            continue;
        }
        named.push(&p.path);
        named.extend(p.same_effect.iter().map(String::as_str));
        text += &format!(
            "{} and {} have the same effect on all figures: only their sum is decided\n",
            p.path,
            p.same_effect.join(", ")
        );
    }
    text
}

/// Text of the speeds that the fitted setup predicts, also under the conditions of the figures.
fn predictions(all: &[Prediction]) -> String {
    let mut text = String::new();
    let mut rest = all;
    while let Some(first) = rest.first() {
        let (own, others) = rest.split_at(rest.iter().take_while(|p| p.set == first.set).count());
        let mut table = Table::new(["test", "KiB/s", "80 % interval"]).numbers(1..2);
        for p in own {
            let interval = format!("{:.0} to {:.0}", p.interval.min, p.interval.max);
            table.row([p.name.clone(), format!("{:.0}", p.kib_s), interval]);
        }
        let of = with_conditions("the fitted setup", &first.set);
        text += &format!("\nspeeds of {of}: {}\n{table}\n", first.link);
        rest = others;
    }
    text
}

/// Name of a test, with the conditions in the lines `set` of the results.
fn with_conditions(name: &str, set: &[String]) -> String {
    set.iter().fold(name.to_owned(), |name, set| name + ", " + set)
}

fn costs(parameters: &[FittedParameter]) -> String {
    let mut table = Table::new(["cost", "of", "stated", "fitted", "at least", "at most"]).numbers(2..);
    for p in parameters {
        let operation = p.operation.map_or("all", |operation| operation.name()).to_owned();
        let numbers = [p.before, p.value, p.low, p.high].map(|value| format!("{value:.2}"));
        table.row([p.path.clone(), operation].into_iter().chain(numbers));
    }
    table.to_string()
}

fn rows(rows: &[FittedRow]) -> String {
    let header = ["line", "figure", "measured", "as stated", "fitted", "left out", ""];
    let mut table = Table::new(header).numbers(2..6);
    for row in rows {
        let left_out = row.left_out.map_or_else(String::new, percent);
        let note = if row.fitted { "" } else { "not fitted" };
        table.row([
            row.line.to_string(),
            with_conditions(&row.name, &row.set),
            row.measured.clone(),
            percent(row.residual_before),
            percent(row.residual),
            left_out,
            note.to_owned(),
        ]);
    }
    table.to_string()
}

fn hypothesis(h: &Hypothesis) -> String {
    format!(
        "may be wrong on the board: {} ({}): with plausible costs the worst figure is {} away, not {}\n",
        h.what,
        h.set.join(", "),
        percent(h.worst).trim_start_matches('+'),
        percent(h.worst_before).trim_start_matches('+')
    )
}

/// Text of the ratio of simulated to measured time, minus 1, in percent.
fn percent(ratio: f64) -> String {
    let tenths = (ratio * 1000.0).round();
    if tenths == 0.0 { "0.0 %".to_owned() } else { format!("{:+.1} %", tenths / 10.0) }
}
