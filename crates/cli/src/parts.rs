//! `floatgate parts`.

use crate::common::{self, Failure, Outcome};
use floatgate_lab::config::{Kind, Library, Loaded, Node, Part, Provenance};
use serde::Serialize;
use serde_json::Value;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate parts
  floatgate parts --kind spi-nand
  floatgate parts w35n01jw
  floatgate parts w35n01jw --toml > my-chip.toml
  floatgate parts --confidence
  floatgate parts w25n02jw --confidence")]
pub(crate) struct Args {
    /// Show this chip, every number with its source; all names when absent
    name: Option<String>,

    /// Only chips of this kind
    #[arg(long, conflicts_with = "name", value_parser = ["spi-nand", "spi-nor", "raw-nand", "parallel-nor"])]
    kind: Option<String>,

    /// Print the file itself
    #[arg(long, requires = "name", conflicts_with = "json")]
    toml: bool,

    /// Count the numbers of each chip by confidence; with NAME, list those below 90 % with their sources
    #[arg(long, conflicts_with = "toml")]
    confidence: bool,

    /// Machine-readable output (schema: docs/json.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let library = Library::built_in();
    match &args.name {
        Some(name) if args.toml => {
            library.load(Kind::Part, name)?;
            common::print(library.open(Kind::Part, name, None)?.content());
            Ok(ExitCode::SUCCESS)
        }
        Some(name) if args.confidence => list_uncertain(&library, name, args.json),
        Some(name) => show(&library, name, args.json),
        None if args.confidence => count_by_confidence(&library, args),
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

/// The parts that `--kind` leaves.
fn chosen<'a>(library: &'a Library, args: &Args) -> Result<Vec<(&'a str, Loaded, Part)>, Failure> {
    let mut parts = Vec::new();
    for name in library.names(Kind::Part) {
        let loaded = library.load(Kind::Part, name)?;
        let head: Part = loaded.head.extract("")?;
        if args.kind.as_ref().is_none_or(|kind| *kind == head.kind) {
            parts.push((name, loaded, head));
        }
    }
    Ok(parts)
}

fn list(library: &Library, args: &Args) -> Outcome {
    let mut rows = Vec::new();
    for (part, _, head) in chosen(library, args)? {
        let lowest_confidence = head.sources.iter().map(|s| s.confidence).fold(1.0, f64::min);
        let Part { kind, name, maker, title, .. } = head;
        rows.push(Row { part: part.to_owned(), name, maker, kind, title, lowest_confidence });
    }
    if args.json {
        return common::print_json(&rows);
    }
    let mut table = common::table(["part", "maker", "kind", "what", "least sure"]);
    for row in &rows {
        let sure = percent(row.lowest_confidence);
        table.add_row([&row.part, &row.maker, &row.kind, &row.title, &sure]);
    }
    common::print(&format!(
        "{table}\n\n{} parts; `floatgate parts NAME` shows one with its sources",
        rows.len()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Confidence from which a number counts as sure: read in a data sheet, a kernel table or a maker's driver.
const SURE: f64 = 0.9;
/// Confidence below which a number counts as doubtful: most are from memory or assumed.
const DOUBTFUL: f64 = 0.7;

/// How many numbers of a part are how sure.
#[derive(Default, Serialize)]
struct Counts {
    part: String,
    fields: usize,
    sure: usize,
    likely: usize,
    doubtful: usize,
    lowest_confidence: f64,
}

impl Counts {
    fn of(name: &str, confidences: &[f64]) -> Self {
        let fields = confidences.len();
        let sure = confidences.iter().filter(|c| **c >= SURE).count();
        let doubtful = confidences.iter().filter(|c| **c < DOUBTFUL).count();
        let lowest_confidence = confidences.iter().copied().fold(1.0, f64::min);
        let part = name.to_owned();
        Self { part, fields, sure, likely: fields - sure - doubtful, doubtful, lowest_confidence }
    }

    fn cells(&self) -> [String; 6] {
        let [fields, sure, likely, doubtful] =
            [self.fields, self.sure, self.likely, self.doubtful].map(|n| n.to_string());
        [self.part.clone(), fields, sure, likely, doubtful, percent(self.lowest_confidence)]
    }
}

fn count_by_confidence(library: &Library, args: &Args) -> Outcome {
    let mut all = Vec::new();
    let mut rows = Vec::new();
    for (name, loaded, part) in chosen(library, args)? {
        let confidences: Vec<f64> = fields(&loaded, &part).map(|(_, source)| source.confidence).collect();
        rows.push(Counts::of(name, &confidences));
        all.extend(confidences);
    }
    if args.json {
        return common::print_json(&rows);
    }
    rows.push(Counts::of("all", &all));
    let mut table =
        common::table(["part", "fields", "90 % or more", "70 to 89 %", "below 70 %", "least sure"]);
    for row in &rows {
        table.add_row(row.cells());
    }
    common::print(&format!(
        "{table}\n\nA confidence is the probability that a value is right: 90 % or more when it was read in a data sheet, a kernel\n\
         table or a maker's driver. `floatgate parts NAME --confidence` lists what is below, with its source."
    ));
    Ok(ExitCode::SUCCESS)
}

/// The values of a part with their sources. Values without a source are left out; a test refuses such parts.
fn fields<'a>(loaded: &'a Loaded, part: &'a Part) -> impl Iterator<Item = (String, &'a Provenance)> {
    let paths = loaded.table.leaves("chip").into_iter();
    paths.filter_map(|path| part.source_of(&path).map(|source| (path, source)))
}

/// A value that is not sure.
#[derive(Serialize)]
struct Uncertain {
    field: String,
    value: Value,
    confidence: f64,
    from: String,
}

fn list_uncertain(library: &Library, name: &str, json: bool) -> Outcome {
    let loaded = library.load(Kind::Part, name)?;
    let part: Part = loaded.head.extract("")?;
    let mut rows: Vec<Uncertain> = fields(&loaded, &part)
        .filter(|(_, source)| source.confidence < SURE)
        .map(|(field, source)| Uncertain {
            value: value_at(&loaded, &field)
                .map(|v| serde_json::to_value(v).unwrap_or_default())
                .unwrap_or_default(),
            field,
            confidence: source.confidence,
            from: source.from.clone(),
        })
        .collect();
    rows.sort_by(|a, b| a.confidence.total_cmp(&b.confidence));
    if json {
        return common::print_json(&rows);
    }
    let count = fields(&loaded, &part).count();
    common::print(&format!(
        "{} {}: {} of {count} values have a confidence below {}",
        part.maker,
        part.name,
        rows.len(),
        percent(SURE)
    ));
    let mut table = common::table(["field", "value", "sure", "source"]);
    for row in &rows {
        let value = value_at(&loaded, &row.field).map(text).unwrap_or_default();
        table.add_row([&row.field, &value, &percent(row.confidence), &row.from]);
    }
    if !rows.is_empty() {
        common::print(&table.to_string());
    }
    Ok(ExitCode::SUCCESS)
}

fn percent(confidence: f64) -> String {
    format!("{:.0} %", confidence * 100.0)
}

/// The value at the full path of a field, as in `chip.timing.t_rd_us`.
fn value_at<'a>(loaded: &'a Loaded, path: &str) -> Option<&'a Node> {
    path.strip_prefix("chip.").and_then(|inside| loaded.table.get(inside))
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
        let value = value_at(&loaded, &path);
        let shown = if path == "chip.id" { value.map(hex) } else { value.map(text) };
        table.add_row([path.clone(), shown.unwrap_or_default(), sources(&part, &path)]);
    }
    common::print(&table.to_string());
    for (number, source) in (1..).zip(&part.sources) {
        common::print(&format!("[{number}] {}: {}", percent(source.confidence), source.from));
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

/// The bytes of an id, as data sheets write them.
fn hex(node: &Node) -> String {
    match serde_json::to_value(node).unwrap_or_default() {
        Value::Array(bytes) if bytes.iter().all(Value::is_u64) => {
            let bytes = bytes.iter().filter_map(Value::as_u64).map(|byte| format!("{byte:02X}h"));
            bytes.collect::<Vec<_>>().join(" ")
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
