//! `floatgate sweep`.

use crate::common::{self, Failure, Outcome, read_text};
use crate::output;
use crate::outputs::OutputFile;
use crate::terminal::print_note;
use floatgate_config::Library;
use floatgate_host::output::Output;
use floatgate_host::signals;
use floatgate_lab::sweep::{self, Evaluator, Format, Results, Shard, Spec, WriteError};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Size of the largest specification, bytes.
const MOST: u64 = 1 << 20;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate sweep designs.toml -o designs.csv
  floatgate sweep designs.toml -o designs.parquet --checkpoint designs.part
  floatgate sweep designs.toml -o designs.json && floatgate report designs.json -o designs.html
  floatgate sweep designs.toml -o - --format csv | sort -t, -k3 -g
  floatgate sweep designs.toml --shard 1/2 --checkpoint one.part
  floatgate sweep designs.toml --shard 2/2 --checkpoint two.part
  floatgate sweep designs.toml --merge one.part two.part -o designs.csv

designs.toml:
  setup = \"am62a-w35n01jw\"
  constraints = [\"page read KiB/s > 5000\"]
  [space]
  bus.mode = [\"1-1-1\", \"1-1-8\", \"1-8-8\"]
  bus.clock_hz = { from = 10e6, to = 50e6, step = 10e6 }
  [objectives]
  maximise = [\"page read KiB/s\"]
  minimise = [\"bus.clock_hz\"]

[sample] with random = N or latin_hypercube = N, and a seed, measures a sample of designs instead of the grid; ranges then need no step.

measure = \"fs\", \"age\", \"endurance\", \"powercut\" or \"card\" selects another measurement than speed, with its own [options]. [population] measures \
many chips of each design. docs/scale.md describes all keys.")]
pub(crate) struct Args {
    /// TOML file with the specification of the sweep
    #[arg(required_unless_present = "merge")]
    spec: Option<PathBuf>,

    /// File to write: CSV, JSON or Parquet by its extension; `-` is stdout
    #[arg(
        short = 'o',
        long = "output",
        value_name = "OUT.csv|OUT.json|OUT.parquet",
        required_unless_present = "shard"
    )]
    output: Option<OutputFile>,

    /// Format of the output, regardless of its extension
    #[arg(long, value_enum)]
    format: Option<FormatName>,

    /// File that stores each measured design, so that an interrupted sweep can continue
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<OutputFile>,

    /// Measure only share I of N of the designs and store it in --checkpoint, to divide a sweep among machines
    #[arg(long, value_name = "I/N", requires = "checkpoint", conflicts_with_all = ["output", "format"])]
    shard: Option<Shard>,

    /// Merge the checkpoints of all shares into the output, without measuring
    #[arg(long, value_name = "CHECKPOINT", num_args = 1.., conflicts_with_all = ["shard", "checkpoint"])]
    merge: Vec<PathBuf>,
}

/// A format by name.
#[derive(Clone, Copy, clap::ValueEnum)]
enum FormatName {
    Csv,
    Json,
    Parquet,
}

impl Args {
    /// Specification, and checkpoints to merge. With `--merge`, the specification is one of the files after the
    /// option.
    fn inputs(&self) -> Result<(&Path, Vec<PathBuf>), Failure> {
        if let Some(spec) = &self.spec {
            return Ok((spec, self.merge.clone()));
        }
        let is_spec = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "toml");
        let spec = self.merge.iter().find(is_spec).ok_or_else(|| {
            Failure::new(
                "--merge: the specification is missing",
                "name it, too: floatgate sweep SPEC.toml --merge CHECKPOINT.. -o OUT.csv",
            )
        })?;
        Ok((spec, self.merge.iter().filter(|path| *path != spec).cloned().collect()))
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (spec_path, merge) = args.inputs()?;
    let text = read_text(spec_path, MOST, "name a specification in TOML")?;
    let spec = Spec::parse(&spec_path.display().to_string(), &text)?;
    // Relative paths in a file start from its folder.
    let library = Library::built_in().in_folder(spec_path.parent().unwrap_or(Path::new("")));
    let evaluator = || Evaluator::new(Arc::new(library), &spec);
    let Some(path) = &args.output else { return run_shard(args, spec_path, &evaluator()?, &spec) };
    let format = match args.format {
        Some(FormatName::Csv) => Format::Csv,
        Some(FormatName::Json) => Format::Json,
        Some(FormatName::Parquet) => Format::Parquet,
        None => {
            Format::from_extension(path).map_err(|error| Failure::from(error).and("--format names one"))?
        }
    };
    let format = format.available()?;
    let inputs = args.checkpoint.as_deref().into_iter().chain(merge.iter().map(PathBuf::as_path));
    let inputs: Vec<&Path> = [spec_path].into_iter().chain(inputs).collect();
    let mut output = Output::stream(path, &inputs)?;
    let evaluator = evaluator()?;
    let results = if merge.is_empty() {
        let mut results = Results::new(&evaluator, &spec, args.checkpoint.as_deref())?;
        measure(args, &evaluator, &mut results)?;
        results
    } else {
        Results::merged(&evaluator, &spec, &merge)?
    };
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
        print_note(&format!("{screened} of {designs} miss `screen` (column `refused`), the first: {first}"));
    }
    print_note(&results.conclusion().join("\n"));
    let (refused, Some(first)) = results.refused() else { return Ok(ExitCode::SUCCESS) };
    print_note(&format!(
        "{refused} of {designs} cannot be had (column `refused`), the first because: {first}"
    ));
    Ok(ExitCode::FAILURE)
}

/// Measures a share of the designs, and stores it in its checkpoint.
fn run_shard(args: &Args, spec_path: &Path, evaluator: &Evaluator, spec: &Spec) -> Outcome {
    let (Some(shard), Some(path)) = (args.shard, &args.checkpoint) else {
        return Err(Failure::new("there is no output", "name one with -o"));
    };
    let mut results = Results::shard(evaluator, spec, shard, path)?;
    measure(args, evaluator, &mut results)?;
    let numbers = shard.designs(results.designs());
    output::print(&format!(
        "{} has share {shard}: {}, from number {} on, of {}\n`floatgate sweep {} --merge {} .. -o OUT.csv` makes one table of all shares\n",
        path.display(),
        common::count(numbers.len(), "design"),
        numbers.start,
        results.designs(),
        spec_path.display(),
        path.display(),
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Number of designs from which a sweep states it at its start.
const MANY_DESIGNS: usize = 1_000_000;

/// Measures the designs that have no result yet.
fn measure(args: &Args, evaluator: &Evaluator, results: &mut Results) -> Result<(), Failure> {
    if results.designs() >= MANY_DESIGNS && args.shard.is_none() {
        let designs = common::grouped_count(results.designs() as u64, "design");
        print_note(&match &args.checkpoint {
            Some(_) => format!("{designs}; --shard divides them among machines"),
            None => format!("{designs}; without --checkpoint an interruption loses them"),
        });
    }
    signals::set_last_message(match &args.checkpoint {
        Some(path) => format!("interrupted: the same command goes on from {}", path.display()),
        None => {
            "interrupted, and nothing is kept: with --checkpoint FILE the same command goes on where it was"
                .to_owned()
        }
    });
    let start = args.shard.map_or(0, |shard| shard.designs(results.designs()).start);
    let bar = crate::terminal::progress_bar("{wide_bar} {pos} of {len} designs, {per_sec}, {eta} to go");
    bar.set_length((results.end() - start) as u64);
    bar.set_position((results.done() - start) as u64);
    let outcome = sweep::run(evaluator, results, |done| bar.set_position((done - start) as u64));
    bar.finish_and_clear();
    Ok(outcome?)
}
