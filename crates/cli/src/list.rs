//! `floatgate list`: contents of the catalogue.

use crate::common::{Failure, Outcome};
use crate::output::{self, ReportFormat, bug};
use crate::table::Table;
use crate::{parts, profiles, setups};
use floatgate_config::{Kind, Library};
use floatgate_lab::card::shipped;
use floatgate_lab::report::{self, ResultKind};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "floatgate list [OPTIONS] [COMMAND]\n       floatgate list NAME [--toml | --resolved | --json]\n       floatgate list CARD --registers",
    after_help = "Examples:
  floatgate list
  floatgate list w35n01jw
  floatgate list am62a-w35n01jw > my-board.toml
  floatgate list kingston-class-10 --registers
  floatgate list parts --kind spi-nand
  floatgate list keys bus.mode

NAME is an entry of any list. For a part, setup, controller or host, the options of its list also apply."
)]
pub(crate) struct Args {
    /// A name of any list
    #[arg(hide = true)]
    name: Option<PathBuf>,

    /// Options of the lists of parts, setups, controllers and hosts. A name that has them here is in none of these lists
    #[arg(long = "toml", aliases = ["resolved", "confidence"], requires = "name", hide = true)]
    _of_lists: bool,

    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    format: ReportFormat,
}

const LISTS: [&str; 7] = ["parts", "setups", "controllers", "hosts", "keys", "traces", "schemas"];

#[derive(clap::Subcommand)]
enum What {
    /// Chips and cards
    Parts(parts::Args),
    /// Boards ready to run, each with its chip, controller and host
    Setups(setups::Args),
    /// Controllers that setups are based on
    #[command(
        after_help = "Examples:\n  floatgate list controllers\n  floatgate list controllers cadence-qspi-am62a"
    )]
    Controllers(profiles::Args),
    /// Hosts that setups are based on: costs of calls, drivers and copies
    #[command(after_help = "Examples:\n  floatgate list hosts\n  floatgate list hosts linux-am62a")]
    Hosts(profiles::Args),
    /// Keys of setups, parts, controllers and hosts
    Keys(setups::KeyArgs),
    /// Filesystem traces that are included in floatgate
    #[command(
        after_help = "Examples:\n  floatgate list traces\n  floatgate run a1-32g --trace ext4-postmark"
    )]
    Traces(TraceArgs),
    /// JSON Schemas of the results that `--json` prints
    #[command(after_help = "Examples:
  floatgate list schemas
  floatgate list schemas speed > speed.schema.json
  floatgate list schemas all > floatgate.schema.json

KIND is the value of the key `kind` in a result; `all` has every kind.")]
    Schemas(SchemaArgs),
}

#[derive(clap::Args)]
struct SchemaArgs {
    /// Print the schema of this kind of result, or of `all`
    #[arg(value_name = "KIND", conflicts_with = "csv")]
    kind: Option<String>,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(clap::Args)]
struct TraceArgs {
    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if let Some(name) = &args.name {
        return Err(unknown(name));
    }
    match &args.what {
        None => overview(args.format),
        Some(What::Parts(args)) => parts::run(args),
        Some(What::Setups(args)) => setups::run(args),
        Some(What::Controllers(args)) => controllers(args),
        Some(What::Hosts(args)) => hosts(args),
        Some(What::Keys(args)) => setups::list_keys(args),
        Some(What::Traces(args)) => traces(args.format),
        Some(What::Schemas(args)) => schemas(args),
    }
}

/// Failure for a name that is in no list, with similar names. A name that is in a list selects the command of that list
/// ([`crate::forms`]).
fn unknown(name: &Path) -> Failure {
    if let Some(id) = name.to_str().filter(|name| is_id(name)) {
        return Failure::new(
            format!("no chip of the catalogue has the id {id}"),
            "`floatgate identify` tells the maker of an id; docs/chips.md tells how to add a chip",
        );
    }
    let library = Library::built_in();
    let near = floatgate_config::did_you_mean(
        &name.to_string_lossy(),
        Kind::ALL.into_iter().flat_map(|kind| library.names(kind)).chain(LISTS),
    );
    Failure::new(
        format!("{} is no name of the catalogue, and no file of a setup or part", name.display()),
        format!("{near}`floatgate list` names the lists"),
    )
}

/// True for the bytes of an id, two hexadecimal digits each, with hyphens.
fn is_id(name: &str) -> bool {
    let is_byte = |byte: &str| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit());
    name.contains('-') && name.split('-').all(is_byte)
}

pub(crate) fn controllers(args: &profiles::Args) -> Outcome {
    profiles::run(ResultKind::Controllers, &[Kind::Controller], args)
}

pub(crate) fn hosts(args: &profiles::Args) -> Outcome {
    profiles::run(ResultKind::Hosts, &[Kind::Host, Kind::CardHost], args)
}

/// A list of the catalogue.
#[derive(Serialize)]
struct ListRow {
    list: &'static str,
    names: usize,
    what: &'static str,
}

fn overview(format: ReportFormat) -> Outcome {
    let library = Library::built_in();
    let names = |kinds: &[Kind]| kinds.iter().map(|kind| library.names(*kind).count()).sum();
    let row = |list, names, what| ListRow { list, names, what };
    let rows = [
        row("parts", names(&[Kind::Part, Kind::Card]), "chips and cards"),
        row("setups", names(&[Kind::Setup]), "boards"),
        row("controllers", names(&[Kind::Controller]), "controllers that setups are based on"),
        row("hosts", names(&[Kind::Host, Kind::CardHost]), "hosts that setups are based on"),
        row("keys", floatgate_config::keys().len(), "keys of setups, parts, controllers and hosts"),
        row(
            "traces",
            shipped::all_traces().len(),
            "traces of filesystems, for `floatgate run CARD --trace NAME`",
        ),
        row("schemas", report::documented_kinds().len(), "JSON Schemas of results"),
    ];
    format.finish_rows(&ResultKind::Lists.of_nothing(), &rows, || {
        let mut table = Table::new(["list", "names", "what it has"]).numbers(1..2);
        rows.iter()
            .for_each(|row| table.row([row.list.to_owned(), row.names.to_string(), row.what.to_owned()]));
        format!("{table}\n\n`floatgate list LIST` prints one of them, `floatgate list NAME` one of its names")
    })
}

/// A trace that is part of floatgate.
#[derive(Serialize)]
struct TraceRow {
    trace: String,
    filesystem: &'static str,
    workload: &'static str,
    files: Option<u64>,
}

fn traces(format: ReportFormat) -> Outcome {
    let row = |trace: shipped::ShippedTrace| TraceRow {
        trace: trace.name(),
        filesystem: trace.filesystem,
        workload: trace.workload,
        files: trace.files,
    };
    let rows: Vec<TraceRow> = shipped::all_traces().into_iter().map(row).collect();
    let default = shipped::traces().len();
    format.finish_rows(&ResultKind::Traces.of_nothing(), &rows, || {
        let mut table = Table::new(["trace", "filesystem", "workload", "files made"]).numbers(3..4);
        for row in &rows {
            let files = row.files.map_or_else(String::new, |files| files.to_string());
            table.row([row.trace.clone(), row.filesystem.to_owned(), row.workload.to_owned(), files]);
        }
        format!(
            "{table}\n\n`floatgate run CARD --trace NAME` replays one on a card, `floatgate life CARD --trace NAME` wears one out. \
             The first {default} are compared by default; `--workload`, `--fill` and `--discard` of `floatgate fs CARD` choose the others."
        )
    })
}

/// A kind of result that has a schema.
#[derive(Serialize)]
struct SchemaRow {
    kind: &'static str,
    title: &'static str,
}

fn schemas(args: &SchemaArgs) -> Outcome {
    let kinds = report::documented_kinds();
    let Some(kind) = &args.kind else {
        let rows: Vec<SchemaRow> =
            kinds.iter().map(|known| SchemaRow { kind: known.kind, title: known.title }).collect();
        return args.format.finish_rows(&ResultKind::Schemas.of_nothing(), &rows, || {
            let mut table = Table::new(["kind", "section of docs/json.md"]);
            rows.iter().for_each(|row| table.row([row.kind.to_owned(), row.title.to_owned()]));
            format!("{table}\n\n`floatgate list schemas KIND` prints the JSON Schema of one, `list schemas all` of all")
        });
    };
    let schema = match kind.as_str() {
        "all" => report::schema_of_all(),
        kind => report::schema_of(kind).ok_or_else(|| {
            let near = floatgate_config::did_you_mean(kind, kinds.iter().map(|known| known.kind));
            Failure::new(
                format!("no result is of the kind {kind:?}"),
                format!("{near}`floatgate list schemas` names the kinds"),
            )
        })?,
    };
    output::print(&serde_json::to_string_pretty(&schema).map_err(bug)?)?;
    Ok(ExitCode::SUCCESS)
}
