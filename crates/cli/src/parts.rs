//! `floatgate parts`.

use crate::common::{self, Outcome};
use floatgate_lab::config::{Kind, Library, Node, Part};
use serde::Serialize;
use serde_json::Value;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate parts
  floatgate parts --kind spi-nand
  floatgate parts w35n01jw
  floatgate parts w35n01jw --toml > my-chip.toml")]
pub(crate) struct Args {
    /// Show this chip, every number with its source; all names when absent
    name: Option<String>,

    /// Only chips of this kind
    #[arg(long, value_parser = ["spi-nand", "spi-nor", "raw-nand", "parallel-nor"])]
    kind: Option<String>,

    /// Print the file itself
    #[arg(long, requires = "name")]
    toml: bool,

    /// Machine-readable output (schema: docs/json.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let library = Library::built_in();
    match &args.name {
        Some(name) if args.toml => {
            common::print(library.open(Kind::Part, name, None)?.content());
            Ok(ExitCode::SUCCESS)
        }
        Some(name) => show(&library, name, args.json),
        None => list(&library, args),
    }
}

#[derive(Serialize)]
struct Row {
    part: String,
    name: String,
    maker: String,
    kind: String,
    title: String,
    lowest_confidence: f64,
}

fn list(library: &Library, args: &Args) -> Outcome {
    let mut rows = Vec::new();
    for part in library.names(Kind::Part) {
        let head: Part = library.load(Kind::Part, part)?.head.extract("")?;
        if args.kind.as_ref().is_some_and(|kind| *kind != head.kind) {
            continue;
        }
        let lowest_confidence = head.sources.iter().map(|s| s.confidence).fold(1.0, f64::min);
        let Part { kind, name, maker, title, .. } = head;
        rows.push(Row { part: part.to_owned(), name, maker, kind, title, lowest_confidence });
    }
    if args.json {
        return common::print_json(&rows);
    }
    let mut table = common::table(["part", "maker", "kind", "what", "least sure"]);
    for row in &rows {
        let sure = format!("{:.0} %", row.lowest_confidence * 100.0);
        table.add_row([&row.part, &row.maker, &row.kind, &row.title, &sure]);
    }
    common::print(&format!(
        "{table}\n\n{} parts; `floatgate parts NAME` shows one with its sources",
        rows.len()
    ));
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    part: Part,
    chip: serde_json::Value,
}

fn show(library: &Library, name: &str, json: bool) -> Outcome {
    let loaded = library.load(Kind::Part, name)?;
    let part: Part = loaded.head.extract("")?;
    if json {
        let chip = serde_json::to_value(&loaded.table).unwrap_or_default();
        return common::print_json(&Shown { part, chip });
    }
    common::print(&format!("{} {}: {} ({})", part.maker, part.name, part.title, part.kind));
    let mut table = common::table(["field", "value", "source"]);
    for path in loaded.table.leaves("chip") {
        let value = path.strip_prefix("chip.").and_then(|inside| loaded.table.get(inside));
        table.add_row([path.clone(), value.map_or_else(String::new, text), sources(&part, &path)]);
    }
    common::print(&table.to_string());
    for (number, source) in (1..).zip(&part.sources) {
        common::print(&format!("[{number}] {:.0} %: {}", source.confidence * 100.0, source.from));
    }
    Ok(ExitCode::SUCCESS)
}

/// A value on one line; of a list of tables one line each.
fn text(node: &Node) -> String {
    match serde_json::to_value(node).unwrap_or_default() {
        Value::Array(rows) if rows.iter().any(Value::is_object) => {
            rows.iter().map(row_text).collect::<Vec<_>>().join("\n")
        }
        other => plain(&other),
    }
}

fn row_text(row: &Value) -> String {
    let Value::Object(fields) = row else { return plain(row) };
    let field = |(key, value): (&String, &Value)| match (key.as_str(), value.as_u64()) {
        ("mode", _) => plain(value),
        ("opcode", Some(opcode)) => format!("{opcode:02X}h"),
        _ => format!("{key} {}", plain(value)),
    };
    let (mut mode, rest): (Vec<_>, Vec<_>) = fields.iter().partition(|(key, _)| *key == "mode");
    mode.extend(rest);
    mode.into_iter().map(field).collect::<Vec<_>>().join(", ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn sources(part: &Part, path: &str) -> String {
    let covering = (1..).zip(&part.sources).filter(|(_, s)| s.covers(path));
    covering.map(|(number, _)| format!("[{number}]")).collect::<Vec<_>>().join(" ")
}
