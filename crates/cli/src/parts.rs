//! `floatgate list parts`.

use crate::common::{Failure, Outcome, count};
use crate::output::{self, ReportFormat};
use crate::table::Table;
use floatgate_config::{ChipKind, Kind, Library, Loaded, Node, Part, Provenance};
use floatgate_lab::card::is_card;
use floatgate_lab::catalogue::PartRow;
use floatgate_lab::report::{Concluded, ResultKind};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate list parts
  floatgate list parts --kind spi-nand
  floatgate list parts --maker Winbond
  floatgate list ef-aa-21
  floatgate list w35n01jw
  floatgate list w35n01jw --toml > my-chip.toml
  floatgate list parts --kind sd-card
  floatgate list sandisk-extreme --json
  floatgate list parts --confidence
  floatgate list w25n02jw --confidence")]
pub(crate) struct Args {
    /// Chip or card to show, every number with its source. A chip is found by its part number or by its id, such as ef-aa-21. Without a
    /// name, the parts with their own times are listed
    name: Option<PathBuf>,

    /// List only chips or cards of this kind
    #[arg(long, conflicts_with = "name", value_parser = clap::builder::PossibleValuesParser::new(kinds()))]
    kind: Option<String>,

    /// List only chips or cards of this maker
    #[arg(long, conflicts_with = "name")]
    maker: Option<String>,

    /// List every chip, also chips that are known only from the kernel's tables
    #[arg(long, conflicts_with = "name")]
    all: bool,

    /// Print the TOML file itself
    #[arg(long, requires = "name", conflicts_with_all = ["json", "csv"])]
    toml: bool,

    /// Print the file together with all values that it inherits from its `base`
    #[arg(long, requires = "name", conflicts_with_all = ["json", "csv", "toml", "confidence"])]
    resolved: bool,

    /// Count the numbers of each chip by confidence, or of each card with --kind sd-card or emmc. With NAME, list the numbers below 90 % with their sources
    #[arg(long, conflicts_with = "toml")]
    confidence: bool,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let library = Library::built_in();
    match &args.name {
        Some(name) => {
            let kind = kind_of(&library, name);
            let loaded = library.load(kind, name)?;
            check(&library, name, &loaded)?;
            if args.toml {
                output::print(library.open(kind, name, None)?.content())?;
            } else if args.resolved {
                output::print(&loaded.to_toml(kind))?;
            } else if args.confidence {
                return list_uncertain(&loaded, name, args.format);
            } else {
                return show(loaded, name, args.format);
            }
            Ok(ExitCode::SUCCESS)
        }
        None if args.confidence => count_by_confidence(&library, args),
        None => list(&library, args),
    }
}

/// Kinds of cards.
const CARD_KINDS: [&str; 2] = ["sd-card", "emmc"];

/// Values of `--kind`.
fn kinds() -> Vec<&'static str> {
    ChipKind::ALL.map(ChipKind::name).into_iter().chain(CARD_KINDS).collect()
}

/// Kind of the file with this name: card if a card has the name, otherwise chip.
fn kind_of(library: &Library, name: &Path) -> Kind {
    if is_card(library, name) { Kind::Card } else { Kind::Part }
}

/// Refuses a file with keys or values that no chip or card has.
fn check(library: &Library, name: &Path, loaded: &Loaded) -> Result<(), Failure> {
    match kind_of(library, name) {
        Kind::Card => drop(floatgate_lab::card::load(library, name, &[])?),
        _ => drop(loaded.chip()?),
    }
    Ok(())
}

/// Name of the table in a part's file that contains its values.
fn table_of(part: &Part) -> &'static str {
    if ChipKind::named(&part.kind).is_some() { "chip" } else { "card" }
}

/// Parts that match `--kind` and `--maker`.
fn chosen<'a>(library: &'a Library, args: &Args) -> Result<Vec<(&'a str, Loaded, Part)>, Failure> {
    let names = |kind| library.names(kind).map(move |name| (kind, name));
    let kernel = library.kernel_parts().filter(|chip| {
        let is_kind = args.kind.as_ref().is_none_or(|kind| kind == chip.kind.name());
        args.wants_kernel() && is_kind && chip.refusal().is_none()
    });
    let mut chips: Vec<(Kind, &str)> =
        names(Kind::Part).chain(kernel.map(|chip| (Kind::Part, chip.key))).collect();
    chips.sort_unstable();
    let mut parts = Vec::new();
    for (kind, name) in chips.into_iter().chain(names(Kind::Card)) {
        let loaded = library.load(kind, name)?;
        let head: Part = loaded.head.extract("")?;
        let is_kind = args.kind.as_ref().is_none_or(|kind| *kind == head.kind);
        if is_kind && args.maker.as_ref().is_none_or(|maker| head.maker.eq_ignore_ascii_case(maker)) {
            parts.push((name, loaded, head));
        }
    }
    Ok(parts)
}

impl Args {
    /// True if the chips in the kernel's tables are also listed.
    const fn wants_kernel(&self) -> bool {
        self.all || self.kind.is_some() || self.maker.is_some()
    }
}

fn list(library: &Library, args: &Args) -> Outcome {
    let rows: Vec<PartRow> =
        chosen(library, args)?.into_iter().map(|(part, _, head)| PartRow::new(part, head)).collect();
    args.format.finish_rows(&ResultKind::Parts.of_nothing(), &rows, || {
        let header = ["part", "maker", "kind", "least sure", "description"];
        let mut table = Table::new(header).numbers(3..4).optional([3, 1]);
        for row in &rows {
            let sure = percent(row.lowest_confidence);
            table.row([&row.part, &row.maker, &row.kind, &sure, &row.title]);
        }
        let parts = count(rows.len(), "part");
        let text = format!("{table}\n\n{parts}; `floatgate list NAME` shows one with its sources");
        let of_family = rows.iter().filter(|row| !row.times.are_own()).count();
        match (args.wants_kernel(), of_family) {
            (true, 0) => text,
            (true, n) => format!(
                "{text}\n{} from the kernel's tables: times of the family, not of the part (least sure 30 %)",
                count(n, "part")
            ),
            (false, _) => {
                let more = library.kernel_parts().filter(|chip| chip.refusal().is_none());
                let kernel = library.kernel_parts().next().map_or("", |chip| chip.kernel());
                format!(
                    "{text}\n{} more are known from the tables of Linux {kernel}; --all, --kind and --maker list them",
                    count(more.count(), "chip")
                )
            }
        }
    })
}

/// Confidence from which a value counts as sure: it was read in a data sheet, a kernel table or a maker's driver.
const SURE: f64 = 0.9;
/// Confidence below which a value counts as doubtful: most of these values are assumed or from memory.
const DOUBTFUL: f64 = 0.7;

/// Number of values of a part by confidence.
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
    let of_chips = |part: &Part| args.kind.is_some() || table_of(part) == "chip";
    for (name, loaded, part) in chosen(library, args)?.into_iter().filter(|(.., part)| of_chips(part)) {
        let confidences: Vec<f64> = fields(&loaded, &part).map(|(_, source)| source.confidence).collect();
        rows.push(Counts::of(name, &confidences));
        all.extend(confidences);
    }
    args.format.finish_rows(&ResultKind::PartsConfidence.of_nothing(), &rows, || {
        let header = ["part", "fields", "90 % or more", "70 to 89 %", "below 70 %", "least sure"];
        let mut table = Table::new(header).numbers(1..);
        rows.iter().chain([&Counts::of("all", &all)]).for_each(|row| table.row(row.cells()));
        format!(
            "{table}\n\nA confidence is the probability that a value is right: 90 % or more when it was read in a data sheet, a kernel\n\
             table or a maker's driver. `floatgate list NAME --confidence` lists what is below, with its source."
        )
    })
}

/// Values of a part with their sources. Values without a source are omitted; a test refuses such parts.
fn fields<'a>(loaded: &'a Loaded, part: &'a Part) -> impl Iterator<Item = (String, &'a Provenance)> {
    let paths = loaded.table.leaves(table_of(part)).into_iter();
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

fn list_uncertain(loaded: &Loaded, name: &Path, format: ReportFormat) -> Outcome {
    let part: Part = loaded.head.extract("")?;
    let mut rows: Vec<Uncertain> = fields(loaded, &part)
        .filter(|(_, source)| source.confidence < SURE)
        .map(|(field, source)| Uncertain {
            value: value_at(loaded, &field)
                .map(|v| serde_json::to_value(v).unwrap_or_default())
                .unwrap_or_default(),
            field,
            confidence: source.confidence,
            from: source.from.clone(),
        })
        .collect();
    rows.sort_by(|a, b| a.confidence.total_cmp(&b.confidence));
    format.finish_rows(&ResultKind::PartConfidence.of(name), &rows, || {
        let (all, sure) = (fields(loaded, &part).count(), percent(SURE));
        let (maker, name) = (&part.maker, &part.name);
        let head = format!("{maker} {name}: {} of {all} values have a confidence below {sure}", rows.len());
        let mut table = Table::new(["field", "sure", "value", "source"]).numbers(1..2);
        for row in &rows {
            let value = value_at(loaded, &row.field).map(text).unwrap_or_default();
            table.row([&row.field, &percent(row.confidence), &value, &row.from]);
        }
        if rows.is_empty() { head } else { format!("{head}\n\n{table}") }
    })
}

fn percent(confidence: f64) -> String {
    format!("{:.0} %", confidence * 100.0)
}

/// Value at the full path of a field, such as `chip.timing.t_rd_us`.
fn value_at<'a>(loaded: &'a Loaded, path: &str) -> Option<&'a Node> {
    path.split_once('.').map(|(_, inside)| inside).and_then(|inside| loaded.table.get(inside))
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    part: Part,
    #[serde(skip_serializing_if = "Option::is_none")]
    chip: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    card: Option<Value>,
}

fn show(loaded: Loaded, name: &Path, format: ReportFormat) -> Outcome {
    let part: Part = loaded.head.extract("")?;
    let fields: Vec<Field> = loaded
        .table
        .leaves(table_of(&part))
        .into_iter()
        .map(|path| {
            let value = value_at(&loaded, &path);
            let shown = if path == "chip.id" { value.map(hex) } else { value.map(text) };
            let inside = path.split_once('.').map_or("", |(_, inside)| inside);
            let (before, sources) = loaded.sources_at(&part, inside);
            let confidence = Provenance::closest_of(sources, &path).map(|source| source.confidence);
            let covering = (before + 1..).zip(sources).filter(|(_, source)| source.covers(&path));
            let covering: Vec<_> = covering.map(|(number, _)| format!("[{number}]")).collect();
            let source =
                if before > 0 && covering.is_empty() { "this file".to_owned() } else { covering.join(" ") };
            Field { field: path, value: shown.unwrap_or_default(), confidence, source }
        })
        .collect();
    let origin = ResultKind::Part.of(name);
    if format.csv {
        return format.finish_rows(&origin, &fields, String::new);
    }
    let is_card = table_of(&part) == "card";
    let table = serde_json::to_value(&loaded.table).ok();
    let (card, chip) = if is_card { (table, None) } else { (None, table) };
    let shown = Shown { part, chip, card };
    format.finish(&origin, &shown, "", || page(&shown.part, &fields))
}

/// A page of the catalogue has no conclusion.
impl Concluded for Shown {}

/// A value of the chip, in the form of the table.
#[derive(Serialize)]
struct Field {
    field: String,
    value: String,
    confidence: Option<f64>,
    source: String,
}

fn page(part: &Part, fields: &[Field]) -> String {
    let mut table = Table::new(["field", "source", "value"]);
    fields.iter().for_each(|field| table.row([&field.field, &field.source, &field.value]));
    let mut text = format!("{} {}: {} ({})\n\n{table}\n\n", part.maker, part.name, part.title, part.kind);
    for (number, source) in (1..).zip(&part.sources) {
        text += &format!("[{number}] {}: {}\n", percent(source.confidence), source.from);
    }
    text
}

/// Text of a value: one line, or for a list of tables one line per table.
fn text(node: &Node) -> String {
    match serde_json::to_value(node).unwrap_or_default() {
        Value::Array(rows) if rows.iter().any(Value::is_object) => {
            rows.iter().map(row_text).collect::<Vec<_>>().join("\n")
        }
        other => plain(&other),
    }
}

/// Bytes of an ID in the notation of data sheets.
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
