//! `floatgate sweep`.

use crate::common::{self, Failure, Outcome, read_text};
use crate::output::tell;
use floatgate_config::Library;
use floatgate_host::output::Output;
use floatgate_host::signals;
use floatgate_lab::sweep::{self, Evaluator, Format, Results, Spec, WriteError};
use indicatif::ProgressBar;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Largest specification, in bytes.
const MOST: u64 = 1 << 20;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate sweep designs.toml -o designs.csv
  floatgate sweep designs.toml -o designs.parquet --checkpoint designs.part
  floatgate sweep designs.toml -o designs.json && floatgate report designs.json -o designs.html
  floatgate sweep designs.toml -o - --format csv | sort -t, -k3 -g

designs.toml:
  setup = \"am62a-w35n01jw\"
  constraints = [\"page read KiB/s > 5000\"]
  [space]
  bus.mode = [\"1-1-1\", \"1-1-8\", \"1-8-8\"]
  bus.clock_hz = { from = 10e6, to = 50e6, step = 10e6 }
  [objectives]
  maximise = [\"page read KiB/s\"]
  minimise = [\"bus.clock_hz\"]

Instead of a grid, [sample] with random = N or latin_hypercube = N, and a seed, draws designs; ranges need no step then.

measure = \"fs\", \"age\", \"endurance\", \"powercut\" or \"card\" measures other things than speed, with [options] of their own; [population] measures \
many chips of each design. docs/scale.md has all keys.")]
pub(crate) struct Args {
    /// Specification in TOML
    spec: PathBuf,

    /// File to write: CSV, JSON or Parquet by its extension; `-` is stdout
    #[arg(short = 'o', long = "output", value_name = "OUT.csv|OUT.json|OUT.parquet")]
    output: PathBuf,

    /// Format of the output, whatever its name
    #[arg(long, value_enum)]
    format: Option<FormatName>,

    /// File that keeps what is measured, so that an interrupted sweep goes on where it was
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

/// A format by name.
#[derive(Clone, Copy, clap::ValueEnum)]
enum FormatName {
    Csv,
    Json,
    Parquet,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let format = match args.format {
        Some(FormatName::Csv) => Format::Csv,
        Some(FormatName::Json) => Format::Json,
        Some(FormatName::Parquet) => Format::Parquet,
        None => Format::of(&args.output).map_err(|error| Failure::from(error).and("--format names one"))?,
    };
    let format = format.available()?;
    let text = read_text(&args.spec, MOST, "name a specification in TOML")?;
    let spec = Spec::parse(&args.spec.display().to_string(), &text)?;
    let inputs: Vec<&Path> = [&args.spec].into_iter().chain(&args.checkpoint).map(PathBuf::as_path).collect();
    let mut output = Output::stream(&args.output, &inputs)?;
    // Paths in a file start from its folder.
    let library = Library::built_in().in_folder(args.spec.parent().unwrap_or(Path::new("")));
    let evaluator = Evaluator::new(Arc::new(library), &spec)?;
    let mut results = Results::new(&evaluator, &spec, args.checkpoint.as_deref())?;
    signals::say_at_the_end(match &args.checkpoint {
        Some(path) => format!("interrupted: the same command goes on from {}", path.display()),
        None => {
            "interrupted, and nothing is kept: with --checkpoint FILE the same command goes on where it was"
                .to_owned()
        }
    });
    let bar = bar(&results);
    let outcome = sweep::run(&evaluator, &mut results, |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    outcome?;
    results.check_measured()?;
    let mut writer = BufWriter::new(&mut output);
    let written = results.write(format, &mut writer).and_then(|()| Ok(writer.flush()?));
    drop(writer);
    match written {
        Ok(()) => {}
        Err(WriteError::Host(error)) => return Err(output.failed(error).into()),
        Err(WriteError::Results(error)) => return Err(error.into()),
        Err(other) => return Err(Failure::new(other, "name another output")),
    }
    common::finish(output)?;
    let designs = common::count(results.designs(), "design");
    if let (screened, Some(first)) = results.screened() {
        tell(&format!("{screened} of {designs} miss `screen` (column `refused`), the first: {first}"));
    }
    tell(&results.conclusion().join("\n"));
    let (refused, Some(first)) = results.refused() else { return Ok(ExitCode::SUCCESS) };
    tell(&format!("{refused} of {designs} cannot be had (column `refused`), the first because: {first}"));
    Ok(ExitCode::FAILURE)
}

/// A bar of designs on a terminal; nothing elsewhere.
fn bar(results: &Results) -> ProgressBar {
    let bar = crate::fs::progress_bar("{wide_bar} {pos} of {len} designs, {per_sec}, {eta} to go");
    bar.set_length(results.designs() as u64);
    bar.set_position(results.done() as u64);
    bar
}
