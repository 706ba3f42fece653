//! `floatgate setups`.

use crate::common::Outcome;
use crate::output::{self, ReportFormat};
use crate::table::Table;
use floatgate_lab::config::{Kind, Library};
use serde::Serialize;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate setups
  floatgate setups am62a-w35n01jw > my-board.toml
  floatgate setups am62a-w35n01jw --resolved")]
pub(crate) struct Args {
    /// Print this setup's file; all names when absent
    name: Option<std::path::PathBuf>,

    /// Print the setup with everything that it names, as one table
    #[arg(long, requires = "name")]
    resolved: bool,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(Serialize)]
struct Row {
    name: String,
    title: String,
    chip: String,
    kind: String,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let library = Library::built_in();
    match &args.name {
        Some(name) if args.format.is_for_programs() || args.resolved => {
            let config = library.resolve(&library.setup(name)?, &[])?;
            let format = if args.format.csv { args.format } else { ReportFormat { json: true, csv: false } };
            format.finish(config.tree(), "", String::new)
        }
        Some(name) => {
            // A file of the user's own may be no setup at all.
            library.resolve(&library.setup(name)?, &[])?;
            output::print(library.open(Kind::Setup, name, None)?.content())?;
            Ok(ExitCode::SUCCESS)
        }
        None => list(&library, args.format),
    }
}

fn list(library: &Library, format: ReportFormat) -> Outcome {
    let mut rows = Vec::new();
    for name in library.names(Kind::Setup) {
        let config = library.resolve(&library.setup(name)?, &[])?;
        rows.push(Row {
            name: name.to_owned(),
            title: floatgate_lab::run::title(&config),
            chip: config.part().name.clone(),
            kind: config.part().kind.clone(),
        });
    }
    format.finish(&rows, "", || {
        let mut table = Table::new(["setup", "board and chip", "kind"]);
        rows.iter().for_each(|row| table.row([&row.name, &row.title, &row.kind]));
        format!(
            "{table}\n\n`floatgate setups NAME` prints the file: save it, change it, and name it wherever a setup goes"
        )
    })
}
