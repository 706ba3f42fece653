//! What the subcommands share: options, failures, tables, output.

use comfy_table::{ContentArrangement, Table, TableComponent, presets};
use floatgate_lab::config::{Config, ConfigError, Library, Override, Setup};
use floatgate_lab::output::{Output, OutputError, is_stdout};
use floatgate_lab::rig::RigOptions;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

/// What a subcommand ends with.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// Names a setup and changes it.
#[derive(clap::Args, Clone)]
pub(crate) struct SetupArgs {
    /// A setup's name (see `floatgate setups`), or the path of a TOML file
    pub(crate) setup: String,

    /// Override any field of the setup, its chip, controller or host: --set bus.clock_hz=80e6 --set chip=w25n01jw
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    /// Seed of everything that varies from chip to chip (factory bad blocks, slow blocks)
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,

    /// Blocks that are bad from the factory, at places that follow from the seed (NAND)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) bad_blocks: u32,
}

/// A setup as named on the command line.
pub(crate) struct Named {
    pub(crate) library: Library,
    pub(crate) setup: Setup,
    pub(crate) sets: Vec<Override>,
    pub(crate) options: RigOptions,
}

impl SetupArgs {
    pub(crate) fn open(&self) -> Result<Named, Failure> {
        let library = Library::built_in();
        let setup = library.setup(&self.setup)?;
        let sets = Override::parse_all(&self.set)?;
        Ok(Named {
            library,
            setup,
            sets,
            options: RigOptions { seed: self.seed, bad_blocks: self.bad_blocks, ..RigOptions::default() },
        })
    }
}

impl Named {
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        Ok(self.library.resolve(&self.setup, &self.sets)?)
    }
}

/// Why a subcommand gave up: wrong usage or unreadable input.
pub(crate) struct Failure {
    report: miette::Report,
}

impl Failure {
    pub(crate) fn new(message: impl std::fmt::Display, help: impl std::fmt::Display) -> Self {
        Self { report: miette::miette!(help = help.to_string(), "{message}") }
    }

    /// Prints the failure; the exit code for wrong usage or input.
    pub(crate) fn report(self) -> ExitCode {
        tell(&format!("{:?}", self.report));
        ExitCode::from(2)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        floatgate_lab::Error::from(error).into()
    }
}

impl From<floatgate_lab::Error> for Failure {
    fn from(error: floatgate_lab::Error) -> Self {
        Self { report: error.into_report() }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        Self::new(&error, error.help())
    }
}

impl From<floatgate_lab::rig::RigError> for Failure {
    fn from(error: floatgate_lab::rig::RigError) -> Self {
        floatgate_lab::Error::from(error).into()
    }
}

/// Prints to stdout. A closed pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = out.write_all(b"\n");
    }
}

pub(crate) fn print_json<T: Serialize>(value: &T) -> Outcome {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&text),
        Err(e) => return Err(Failure::new(e, "this is a bug in floatgate: please report it")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file whole or not at all, and says so.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let mut output = Output::stream(path, &[])?;
    output.write_all(text.as_bytes()).map_err(|error| output.failed(error))?;
    finish(output)
}

/// Puts a complete output in its place, and says so.
pub(crate) fn finish(output: Output) -> Result<(), Failure> {
    let name = output.name().to_owned();
    output.finish()?;
    if !is_stdout(&name) {
        tell(&format!("wrote {}", name.display()));
    }
    Ok(())
}

/// Prints to stderr. A closed pipe (`2>&1 | head`) is not an error.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A table as the whole command draws them.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    // No lines between the rows.
    for part in [
        TableComponent::HorizontalLines,
        TableComponent::MiddleIntersections,
        TableComponent::LeftBorderIntersections,
        TableComponent::RightBorderIntersections,
    ] {
        table.remove_style(part);
    }
    table.set_width(u16::try_from(width()).unwrap_or(u16::MAX));
    table.set_header(header);
    table
}

/// Aligns the columns from `from` on to the right: numbers.
pub(crate) fn numbers(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
}

/// What COLUMNS says, else the columns of the terminal, else 110.
pub(crate) fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let columns = told.or_else(|| Table::new().width().map(usize::from));
    columns.unwrap_or(110).clamp(60, 400)
}

/// Whether to colour: on a terminal, unless NO_COLOR is set.
pub(crate) fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Groups the digits of a number by threes: 34133 becomes "34 133".
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// A number with what is counted: `1 row`, `2 rows`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
