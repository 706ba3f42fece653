//! `floatgate sweep`.

use crate::common::{self, Failure, Outcome, read_text};
use crate::output;
use floatgate_image::output::Output;
use floatgate_lab::config::{Library, Override};
use floatgate_lab::sweep::{self, Checkpoint, Spec, Table};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Largest specification, in bytes.
const MOST: u64 = 1 << 20;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate sweep designs.toml -o designs.csv
  floatgate sweep designs.toml -o designs.json --checkpoint designs.part
  floatgate report designs.json -o designs.html

designs.toml:
  setup = \"am62a-w35n01jw\"
  constraints = [\"page read KiB/s > 5000\"]
  [space]
  \"bus.mode\" = [\"1-1-1\", \"1-1-8\", \"1-8-8\"]
  \"bus.clock_hz\" = { from = 10e6, to = 50e6, step = 10e6 }
  [objectives]
  maximise = [\"page read KiB/s\"]
  minimise = [\"bus.clock_hz\"]

Instead of a grid, [sample] with random = N or latin_hypercube = N, and a seed, draws designs; ranges need no step then.")]
pub(crate) struct Args {
    /// Specification in TOML
    spec: PathBuf,

    /// File to write, CSV or JSON by its extension
    #[arg(short = 'o', long = "output", value_name = "OUT.csv|OUT.json")]
    output: PathBuf,

    /// File that keeps what is measured, so that an interrupted sweep goes on where it was
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let is_json = match args.output.extension().and_then(|extension| extension.to_str()) {
        Some("json") => true,
        Some("csv") => false,
        _ => {
            let message = format!("{}: neither CSV nor JSON", args.output.display());
            return Err(Failure::new(message, "name a file that ends in .csv or .json"));
        }
    };
    let text = read_text(&args.spec, MOST, "name a specification in TOML")?;
    let spec = Spec::parse(&args.spec.display().to_string(), &text)?;
    let library = Library::built_in();
    let inputs: Vec<&Path> = [&args.spec].into_iter().chain(&args.checkpoint).map(PathBuf::as_path).collect();
    let output = Output::stream(&args.output, &inputs)?;
    let mut checkpoint = match &args.checkpoint {
        Some(path) => Checkpoint::open(path, &subject(&library, &spec, &text)?)?,
        None => Checkpoint::in_memory(),
    };
    let bar = bar();
    let table = sweep::run(&library, &spec, &mut checkpoint, |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let table = table?;
    let mut writer = BufWriter::new(output.file());
    let written = if is_json { json_to(&mut writer, &table) } else { csv_to(&mut writer, &table) };
    written.and_then(|()| writer.flush()).map_err(|error| output.failed(error))?;
    drop(writer);
    common::finish(output)?;
    Ok(ExitCode::SUCCESS)
}

/// Everything that the figures depend on: version, specification and the setup with its files.
fn subject(library: &Library, spec: &Spec, text: &str) -> Result<String, Failure> {
    let config = library.resolve(&library.setup(&spec.setup)?, &Override::parse_all(&spec.set)?)?;
    Ok(format!("{}\n{text}\n{}", env!("CARGO_PKG_VERSION"), config.to_toml()))
}

/// A count of designs on a terminal; nothing elsewhere.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{pos} designs in {elapsed}, {per_sec}");
    ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn csv_to(out: &mut impl Write, table: &Table) -> std::io::Result<()> {
    let line = |cells: Vec<String>| format!("{}\n", cells.join(","));
    out.write_all(line(table.columns.iter().map(|name| output::quoted(name)).collect()).as_bytes())?;
    for row in &table.rows {
        let cells = row.iter().map(|cell| output::quoted(&output::scalar(cell))).collect();
        out.write_all(line(cells).as_bytes())?;
    }
    Ok(())
}

/// A JSON object with a line for each design.
fn json_to(out: &mut impl Write, table: &Table) -> std::io::Result<()> {
    let (front, feasible) = table.counts();
    let (setup, measure) = (json!(table.setup), json!(table.measure));
    let designs = table.rows.len();
    write!(
        out,
        "{{\"setup\": {setup}, \"measure\": {measure}, \"designs\": {designs}, \"feasible\": {feasible}, \"pareto\": {front},\n\"sensitivity\": {},\n\"rows\": [",
        json!(table.sensitivity)
    )?;
    for (number, row) in table.keyed().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        write!(out, "{comma}\n{}", Value::Object(row))?;
    }
    writeln!(out, "\n]}}")
}
