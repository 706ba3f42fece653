//! `floatgate ecc layouts`.

use crate::common::{Failure, Outcome};
use crate::output::{self, ReportFormat};
use crate::table::Table;
use floatgate_image::ecc::Layout;
use floatgate_image::ecc::layout::LayoutRow;
use floatgate_lab::report::{Concluded, ResultKind};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate ecc layouts
  floatgate ecc layouts omap-bch8
  floatgate ecc layouts omap-bch8 --toml > my-layout.toml
  floatgate ecc layouts --json

Option --layout of `ecc encode`, `ecc decode` and `ecc check` takes the name of a layout, or a file. docs/ecc-layouts.md describes the files.")]
pub(super) struct Args {
    /// Layout to show [default: list all layouts]
    name: Option<String>,

    /// Print the TOML file of the layout
    #[arg(long, requires = "name", conflicts_with_all = ["json", "csv"])]
    toml: bool,

    #[command(flatten)]
    format: ReportFormat,
}

pub(super) fn run(args: &Args) -> Outcome {
    let Some(name) = &args.name else {
        let rows: Vec<LayoutRow> = Layout::all().iter().map(Layout::row).collect();
        let layouts = Layouts { layouts: rows };
        return args
            .format
            .finish(&ResultKind::EccLayouts.of_nothing(), &layouts, "layouts", || list(&layouts));
    };
    let layout = Layout::named(name).map_err(|error| {
        Failure::new(format!("{name}: {error}"), "`floatgate ecc layouts` lists the names")
    })?;
    if args.toml {
        output::print(layout.text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let layouts = Layouts { layouts: vec![layout.row()] };
    args.format.finish(&ResultKind::EccLayouts.of_nothing(), &layouts, "layouts", || show(&layouts))
}

/// Layouts of a result: all layouts of the catalogue, or the named layout.
#[derive(serde::Serialize)]
struct Layouts {
    layouts: Vec<LayoutRow>,
}

/// A catalogue has no conclusion.
impl Concluded for Layouts {}

fn list(layouts: &Layouts) -> String {
    let mut table = Table::new(["layout", "code", "written by"]);
    for row in &layouts.layouts {
        let code = match row.codes.as_slice() {
            [] => "any".to_owned(),
            [code] => code.clone(),
            [first, .., last] => format!("{first} .. {last}"),
        };
        table.row([row.name.clone(), code, row.title.clone()]);
    }
    table.to_string()
}

fn show(layouts: &Layouts) -> String {
    let rows = layouts.layouts.iter().map(|row| {
        let mut lines = vec![
            format!("{}: {}", row.name, row.title),
            format!("source   {}", row.source),
            format!(
                "codes    {}",
                if row.codes.is_empty() { "any".to_owned() } else { row.codes.join(", ") }
            ),
            format!("bits     {} first; mask on the ECC bytes: {}", row.bits, row.inversion),
        ];
        lines.extend((!row.used_by.is_empty()).then(|| format!("used by  {}", row.used_by.join(", "))));
        lines.extend(row.pages.iter().map(|page| {
            let size = |bytes: Option<u32>| bytes.map_or("any".to_owned(), |bytes| bytes.to_string());
            format!("pages    {} + {}: {}", size(page.page_bytes), size(page.oob_bytes), page.pattern)
        }));
        lines.join("\n")
    });
    rows.collect::<Vec<_>>().join("\n\n")
}
