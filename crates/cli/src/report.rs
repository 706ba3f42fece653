//! `floatgate report`.

use crate::common::{self, Failure, Outcome, read_text};
use crate::output;
use crate::outputs::OutputFile;
use floatgate_config::{Library, Override};
use floatgate_host::output::Output;
use floatgate_lab::card::is_card;
use floatgate_lab::report::Report;
use floatgate_lab::study::{Compare, Context, Registered, SpeedOfCard};
use floatgate_lab::technology::overrides;
use floatgate_sim::rig::RigOptions;
use serde_json::json;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Size of the largest result that is read, bytes.
const MOST: u64 = 256 << 20;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate report am62a-w35n01jw -o report.html
  floatgate report am62a-w35n01jw imx6-mx30lf2g18ac stm32-n25q128a -o boards.html
  floatgate report am62a-w35n01jw --set bus.mode=1-1-8 --title 'Commands on one line' -o - > four.html

If the inputs have several boards, parts or cards, the page begins with their comparison, as by `floatgate compare`. The page needs no network.

Results are files with what another command prints as JSON or CSV. Each list of a result becomes a table.")]
pub(crate) struct Args {
    /// Setups (names or TOML files), and results of commands (files with the extension json or csv)
    #[arg(required = true, value_name = "SETUP|RESULT")]
    inputs: Vec<PathBuf>,

    /// File to write; - is stdout
    #[arg(short = 'o', long = "output", value_name = "FILE.html")]
    output: OutputFile,

    /// Title of the page
    #[arg(long, default_value = "Flash storage report")]
    title: String,

    /// Override a field of all setups and cards that have it, but not of results: --set bus.clock_hz=80e6
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Seed of the differences between chips
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let inputs: Vec<&Path> = args.inputs.iter().map(PathBuf::as_path).collect();
    let mut output = Output::stream(&args.output, &inputs)?;
    let library = Library::built_in();
    let sets = Override::parse_all(&args.set)?;
    if !sets.is_empty() && inputs.iter().all(|path| Input::of(path) != Input::Setup) {
        return Err(Failure::new(
            "--set: there is no setup whose fields it could change",
            "name a setup, or set the fields where the results are measured: `floatgate speed SETUP --set ... --json`",
        ));
    }
    let targets: Vec<&Path> = inputs.iter().copied().filter(|path| Input::of(path) == Input::Setup).collect();
    let mut own = overrides::of_each(&library, &targets, &sets)?.into_iter();
    let options = RigOptions { seed: args.seed, ..RigOptions::default() };
    let mut report = Report::new(&args.title, &command_line());
    open_with_comparison(&mut report, &library, &targets, args)?;
    for path in inputs {
        let name = path.display().to_string();
        let input = Input::of(path);
        let own = if input == Input::Setup { own.next().unwrap_or_default() } else { Vec::new() };
        match input {
            Input::Json => report.add_json(&name, &read_text(path, MOST, "name a file with a result")?)?,
            Input::Csv => report.add_csv(&name, &read_text(path, MOST, "name a file with rows")?)?,
            Input::Parquet => return Err(parquet(&name)),
            Input::Setup if is_card(&library, path) => {
                report.add_json(&name, &speed_of_card(&library, path, &own, args.seed)?)?
            }
            Input::Setup => report.add_setup(&library, &name, &library.setup(path)?, &own, options)?,
        }
    }
    let page = report.html().map_err(Failure::from)?;
    output.write_all(page.as_bytes()).map_err(|error| output.failed(error))?;
    common::finish(output)?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the inputs. If they contain several targets, the targets are compared first, as in `floatgate compare`.
fn open_with_comparison(
    report: &mut Report,
    library: &Library,
    targets: &[&Path],
    args: &Args,
) -> Result<(), Failure> {
    if targets.len() < 2 {
        return Ok(());
    }
    let options = json!({ "targets": targets, "set": args.set, "seed": args.seed });
    let context = Context { library, progress: &|_| (), table: None, plot: None };
    let finished = Registered::run(&Compare, options, &context)?;
    Ok(report.open_with_study("overview", &Compare, &finished.output)?)
}

/// Result of `floatgate speed` for a card, in JSON.
fn speed_of_card(library: &Library, card: &Path, sets: &[Override], seed: u64) -> Result<String, Failure> {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let options = json!({ "card": card, "set": sets, "seed": seed });
    let context = Context { library, progress: &|_| (), table: None, plot: None };
    let finished = Registered::run(&SpeedOfCard, options, &context)?;
    serde_json::to_string(&finished.origin.around(&finished)).map_err(output::bug)
}

/// An input, by its file extension.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    Setup,
    Json,
    Csv,
    Parquet,
}

impl Input {
    fn of(path: &Path) -> Self {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("json") => Self::Json,
            Some("csv") => Self::Csv,
            Some("parquet") => Self::Parquet,
            _ => Self::Setup,
        }
    }
}

/// Refuses a Parquet file.
fn parquet(name: &str) -> Failure {
    let csv = Path::new(name).with_extension("csv");
    let csv = csv.display();
    Failure::new(
        format!("{name}: a report reads JSON and CSV, not Parquet"),
        format!(
            "write the sweep as JSON (`floatgate sweep SPEC -o FILE.json`, at once with the checkpoint that it had), \
             or convert the file: duckdb -c \"COPY (FROM '{name}') TO '{csv}'\""
        ),
    )
}

/// Command line with the quotes that a shell needs.
fn command_line() -> String {
    let word = |word: std::ffi::OsString| {
        let word = word.to_string_lossy().into_owned();
        let is_plain = |c: char| c.is_alphanumeric() || "-_./=,:@%+".contains(c);
        let is_safe = !word.is_empty() && word.chars().all(is_plain);
        if is_safe { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    let words: Vec<String> = std::env::args_os().skip(1).map(word).collect();
    format!("floatgate {}", words.join(" "))
}
