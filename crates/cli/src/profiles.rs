//! `floatgate list controllers` and `floatgate list hosts`: the profiles that setups are based on.

use crate::common::{Failure, Outcome};
use crate::output::{self, ReportFormat};
use crate::table::Table;
use floatgate_config::{About, Kind, Library};
use floatgate_lab::report::ResultKind;
use serde::Serialize;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Profile whose file is printed [default: list all names]
    name: Option<String>,

    /// Print the TOML file itself (the default)
    #[arg(long, requires = "name", conflicts_with_all = ["json", "csv"])]
    toml: bool,

    /// Print the file together with all values that it inherits from its `base`
    #[arg(long, requires = "name", conflicts_with_all = ["json", "csv", "toml"])]
    resolved: bool,

    #[command(flatten)]
    format: ReportFormat,
}

/// A profile in the list, or the named profile.
#[derive(Serialize)]
struct Row {
    name: String,
    title: String,
    lowest_confidence: f64,
}

/// Lists profiles. `kinds` has at least one kind; the first is the kind that setups name.
pub(crate) fn run(result: ResultKind, kinds: &[Kind], args: &Args) -> Outcome {
    let library = Library::built_in();
    let row = |kind: Kind, name: &str| -> Result<Row, Failure> {
        let about: About = library.load(kind, name)?.head.extract("")?;
        let lowest_confidence = about.sources.iter().map(|source| source.confidence).fold(1.0, f64::min);
        Ok(Row { name: name.to_owned(), title: about.title, lowest_confidence })
    };
    if let Some(name) = &args.name {
        let is_known = |kind: &&Kind| library.load(**kind, name).is_ok();
        let kind = kinds.iter().find(is_known).or(kinds.first()).copied().unwrap_or(Kind::Host);
        let row = row(kind, name)?;
        if args.format.is_for_programs() {
            return args.format.finish_rows(&result.of(name), &[row], String::new);
        }
        match args.resolved {
            true => output::print(&library.load(kind, name)?.to_toml(kind))?,
            false => output::print(library.open(kind, name, None)?.content())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let names = kinds.iter().flat_map(|kind| library.names(*kind).map(move |name| (*kind, name)));
    let rows: Vec<Row> = names.map(|(kind, name)| row(kind, name)).collect::<Result<_, _>>()?;
    args.format.finish_rows(&result.of_nothing(), &rows, || {
        let key = kinds.first().map_or("", |kind| kind.noun());
        let mut table = Table::new([key, "least sure", "title"]).numbers(1..2);
        for row in &rows {
            table.row([
                row.name.clone(),
                format!("{:.0} %", row.lowest_confidence * 100.0),
                row.title.clone(),
            ]);
        }
        let cards: Vec<&str> = kinds.iter().skip(1).flat_map(|kind| library.names(*kind)).collect();
        let of_cards = if cards.is_empty() {
            String::new()
        } else {
            format!("; `run --host` takes {}", cards.join(", "))
        };
        format!(
            "{table}\n\n`floatgate list NAME` prints the file; a setup takes it as `{key}.base`{of_cards}"
        )
    })
}
