//! `floatgate list setups` and `list keys`.

use crate::common::{Failure, Outcome};
use crate::output::{self, ReportFormat};
use crate::table::Table;
use floatgate_config::{Config, Key, Kind, Library, Problem};
use floatgate_lab::report::ResultKind;
use floatgate_lab::{Error, catalogue};
use floatgate_sim::rig::{self, RigOptions};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate list setups
  floatgate list setups am62a-w35n01jw > my-board.toml
  floatgate list setups am62a-w35n01jw --resolved")]
pub(crate) struct Args {
    /// Setup whose file is printed [default: list all setups]
    name: Option<std::path::PathBuf>,

    /// Print the setup together with everything that it refers to, as one complete setup file
    #[arg(long, requires = "name")]
    resolved: bool,

    /// Print the TOML file itself (the default)
    #[arg(long, requires = "name", conflicts_with_all = ["resolved", "json", "csv"])]
    toml: bool,

    /// An earlier name of `list keys`
    #[arg(long, hide = true, value_name = "PATH", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["name", "resolved"])]
    keys: Option<String>,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate list keys
  floatgate list keys chip.timing --json")]
pub(crate) struct KeyArgs {
    /// Key to list, or path whose keys are listed [default: all keys]
    #[arg(value_name = "PATH")]
    keys: Option<String>,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if let Some(path) = &args.keys {
        return list_keys_at(path, args.format);
    }
    let library = Library::built_in();
    let Some(name) = &args.name else { return list(&library, args.format) };
    let config = library.resolve(&library.setup(name)?, &[])?;
    // A file of the user may not be a setup.
    refuse_unknown_keys(&library, &config)?;
    if args.format.is_for_programs() || args.resolved {
        return args.format.finish_whole(&ResultKind::Setup.of(name), config.tree(), "", || config.to_toml());
    }
    output::print(library.open(Kind::Setup, name, None)?.content())?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses keys that no command reads, by reading each table as for a measurement. A setup that cannot be measured is
/// still printed.
fn refuse_unknown_keys(library: &Library, config: &Config) -> Result<(), Failure> {
    let options = RigOptions { stores: false, ..RigOptions::default() };
    let error = rig::wire(library, config, options).err();
    let is_unknown =
        |error: &Error| error.config().is_some_and(|error| error.problem() == Problem::UnknownKey);
    error.filter(is_unknown).map_or(Ok(()), |error| Err(error.into()))
}

/// Lists keys with unit, default and meaning.
pub(crate) fn list_keys(args: &KeyArgs) -> Outcome {
    list_keys_at(args.keys.as_deref().unwrap_or_default(), args.format)
}

/// Lists the keys at and below a dotted path.
fn list_keys_at(path: &str, format: ReportFormat) -> Outcome {
    let below = |key: &Key| {
        path.is_empty()
            || key.key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let keys: Vec<Key> = floatgate_config::keys().into_iter().filter(below).collect();
    if keys.is_empty() {
        let known = floatgate_config::keys();
        let near = floatgate_config::did_you_mean(
            path,
            known
                .iter()
                .map(|key| key.key.as_str())
                .chain(known.iter().filter_map(|key| Some(key.key.rsplit_once('.')?.0))),
        );
        return Err(Failure::new(
            format!("no key is called `{path}`"),
            format!("{near}`floatgate list keys` lists all of them"),
        ));
    }
    let origin = ResultKind::SetupKeys.of_nothing();
    format.finish_rows(&origin, &keys, || {
        let mut text = String::new();
        for section in keys.chunk_by(|a, b| a.section == b.section) {
            let mut table = Table::new(["key", "unit", "default", "meaning"]);
            section.iter().for_each(|key| {
                table.row([key.key.as_str(), key.unit, key.default, key.meaning.as_str()]);
            });
            let title = section.first().map_or("", |key| key.section);
            text += &format!("{}{title}\n{table}\n", if text.is_empty() { "" } else { "\n" });
        }
        text
    })
}

fn list(library: &Library, format: ReportFormat) -> Outcome {
    let rows = catalogue::setups(library)?;
    format.finish_rows(&ResultKind::Setups.of_nothing(), &rows, || {
        let mut table = Table::new(["setup", "board and chip", "kind"]);
        rows.iter().for_each(|row| table.row([&row.name, &row.title, &row.kind]));
        format!(
            "{table}\n\n`floatgate list NAME` prints the file: save it, change it, and name it wherever a setup goes"
        )
    })
}
