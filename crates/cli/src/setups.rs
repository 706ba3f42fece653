//! `floatgate setups`.

use crate::common::{self, Outcome};
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
    name: Option<String>,

    /// Print the setup with everything that it names, as one table
    #[arg(long, requires = "name")]
    resolved: bool,

    /// Machine-readable output (schema: docs/json.md)
    #[arg(long)]
    json: bool,
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
        Some(name) if args.json || args.resolved => {
            let config = library.resolve(&library.setup(name)?, &[])?;
            common::print_json(config.tree())
        }
        Some(name) => {
            // A file of the user's own may be no setup at all.
            library.resolve(&library.setup(name)?, &[])?;
            common::print(library.open(Kind::Setup, name, None)?.content());
            Ok(ExitCode::SUCCESS)
        }
        None => list(&library, args.json),
    }
}

fn list(library: &Library, json: bool) -> Outcome {
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
    if json {
        return common::print_json(&rows);
    }
    let mut table = common::table(["setup", "board and chip", "kind"]);
    for row in &rows {
        table.add_row([&row.name, &row.title, &row.kind]);
    }
    common::print(&table.to_string());
    common::print(
        "\n`floatgate setups NAME` prints the file: save it, change it, and name it wherever a setup goes",
    );
    Ok(ExitCode::SUCCESS)
}
