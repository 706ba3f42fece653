//! `floatgate controllers` and `floatgate hosts`: the profiles that setups are based on.

use crate::common::{Failure, Outcome};
use crate::output::{self, ReportFormat};
use crate::table::Table;
use floatgate_lab::config::{About, Kind, Library};
use serde::Serialize;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print the file of this profile; all names when absent
    name: Option<String>,

    #[command(flatten)]
    format: ReportFormat,
}

/// A profile in the list, or the one that is named.
#[derive(Serialize)]
struct Row {
    name: String,
    title: String,
    lowest_confidence: f64,
}

pub(crate) fn run(kind: Kind, args: &Args) -> Outcome {
    let library = Library::built_in();
    let row = |name: &str| -> Result<Row, Failure> {
        let about: About = library.load(kind, name)?.head.extract("")?;
        let lowest_confidence = about.sources.iter().map(|source| source.confidence).fold(1.0, f64::min);
        Ok(Row { name: name.to_owned(), title: about.title, lowest_confidence })
    };
    if let Some(name) = &args.name {
        let row = row(name)?;
        if args.format.is_for_programs() {
            return args.format.finish(&[row], "", String::new);
        }
        output::print(library.open(kind, name, None)?.content())?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Row> = library.names(kind).map(row).collect::<Result<_, _>>()?;
    args.format.finish(&rows, "", || {
        let mut table = Table::new([kind.noun(), "least sure", "title"]).numbers(1..2);
        for row in &rows {
            table.row([
                row.name.clone(),
                format!("{:.0} %", row.lowest_confidence * 100.0),
                row.title.clone(),
            ]);
        }
        let key = kind.noun();
        format!("{table}\n\n`floatgate {key}s NAME` prints the file; a setup takes it as `{key}.base`")
    })
}
