//! Sections from the JSON of floatgate's commands (docs/json.md).

use super::stored::{StoredKind, kind_of};
use crate::envelope::ResultKind;
use crate::results::report_of;
use crate::show::page::model::{Cell, Section, Table, heading, number, plain, rows_of};
use crate::show::plot::BarRow;
use crate::show::report::{Report, Timed};
use crate::stored;
use crate::study::Registered;
use floatgate_mtd::Nanos;
use floatgate_mtd::size::text as size;
use floatgate_sim::error::Error;
use serde_json::{Map, Value};

/// Help text for JSON that cannot be shown.
pub(super) const HELP: &str = "give what a command of floatgate printed as JSON";

/// Paths and captions of the lists in a result that become tables; the first list always exists. `None` for a result
/// whose lists have no captions of their own ([`lists`]).
pub(super) const fn tables(kind: ResultKind) -> Option<&'static [(&'static str, &'static str)]> {
    use ResultKind as Kind;
    Some(match kind {
        Kind::Sweep => &[("rows", "Designs"), ("sensitivity", "Sensitivity: shares of the variance")],
        Kind::Powercut => {
            &[("kinds", "Kinds of cuts"), ("by_step", "Cuts by step"), ("failures", "Failures")]
        }
        Kind::PowercutProgram => &[("failures", "Failures")],
        Kind::Conformance => &[("rows", "Checks of the parts")],
        Kind::ConformanceChecks => &[("rows", "Checks")],
        Kind::EccAdvise => &[("codes", "Codes")],
        Kind::EccLayouts => &[("layouts", "Layouts of pages")],
        Kind::Probe => &[("answers", "Answers")],
        Kind::ServeModule => &[
            ("chosen", "Operations that the kernel chose"),
            ("violations", "Violations of the chip's rules"),
        ],
        Kind::ServeSerprog => &[("violations", "Violations of the chip's rules")],
        Kind::CardInfo => &[("registers", "Registers")],
        Kind::Part => &[("source", "Sources of the values")],
        Kind::Setup => &[],
        Kind::Setups => &[("rows", "Setups")],
        Kind::SetupKeys => &[("rows", "Keys of setups")],
        Kind::Parts => &[("rows", "Parts")],
        Kind::PartsConfidence => &[("rows", "Values by confidence")],
        Kind::PartConfidence => &[("rows", "Values that are not sure")],
        Kind::Controllers | Kind::Hosts => &[("rows", "Profiles")],
        Kind::CardRun => &[("rows", "Filesystems under their workloads")],
        _ => return None,
    })
}

/// Paths and captions of all lists of rows in a result, and of the lists in these rows.
fn lists(result: &Map<String, Value>) -> Vec<(String, String)> {
    let has_rows = |value: &Value| rows(value).is_some_and(|rows| !rows.is_empty());
    let mut paths: Vec<String> = Vec::new();
    for (key, value) in result.iter().filter(|(_, value)| has_rows(value)) {
        paths.push(key.clone());
        for (inner, value) in rows(value).into_iter().flatten().flatten() {
            let path = format!("{key}.{inner}");
            if has_rows(value) && !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    let caption = |path: &String| {
        let words = path.replace('.', ": ").replace('_', " ");
        let mut letters = words.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    };
    paths.iter().map(|path| (path.clone(), plain(&caption(path)))).collect()
}

/// Section for the output of a command.
pub(super) fn section(name: &str, value: &Value) -> Result<Section, Error> {
    if let Some(section) = columns(name, value) {
        return Ok(section);
    }
    match kind_of(value).map_err(|error| error.of_file(name))? {
        StoredKind::Study(study, kind) => section_of_study(name, kind, study, value),
        StoredKind::Other(kind) => section_of(name, kind, value),
    }
}

/// Section for the result of a study, made from its report.
pub(super) fn section_of_study(
    name: &str,
    kind: String,
    study: &dyn Registered,
    value: &Value,
) -> Result<Section, Error> {
    let report = study.report(value.clone()).map_err(|error| wrong(name, &kind, &error.to_string()))?;
    Ok(section_of_report(name, kind, report, value))
}

/// Members of the envelope that name the inputs of a result.
const INPUTS: [&str; 6] = ["target", "board", "overrides", "seed", "corner", "bad_blocks"];

/// Section for a report, with the conclusion and the inputs in the envelope of its result.
fn section_of_report(name: &str, kind: String, report: Report, value: &Value) -> Section {
    let mut section = Section::of_report(name, kind, report);
    if let Some(conclusion) = value.get("conclusion").and_then(Value::as_str) {
        section.conclusion = plain(conclusion);
    }
    let inputs = INPUTS.into_iter().filter_map(|key| Some((key.to_owned(), value.get(key)?.clone())));
    facts(&inputs.collect(), &[], &mut section);
    section
}

/// Folded table of the rows of a result, with all their columns; `None` without rows.
pub(super) fn all_rows(rows: &Value) -> Option<Table> {
    let mut table = Table::of_keyed("All figures", rows_at(rows, "")?);
    table.folded = true;
    table.plot = false;
    (!table.rows.is_empty()).then_some(table)
}

/// Section for a result of a known kind.
pub(super) fn section_of(name: &str, kind: ResultKind, value: &Value) -> Result<Section, Error> {
    if let Some(read) = report_of(kind, value) {
        let (report, rows) = read.map_err(|error| wrong(name, kind, &error.to_string()))?;
        let mut section = section_of_report(name, kind.to_string(), report, value);
        section.tables.extend(all_rows(&rows).filter(|_| section.waterfalls.is_empty()));
        return Ok(section);
    }
    let result = value.as_object().ok_or_else(|| wrong(name, kind, "it is no object"))?;
    let Some(tables) = tables(kind) else {
        let lists = lists(result);
        let lists: Vec<(&str, &str)> = lists.iter().map(|(path, caption)| (&**path, &**caption)).collect();
        return object(name, kind, &lists, result);
    };
    if let Some((path, _)) = tables.first() {
        let key = path.split('.').next().unwrap_or_default();
        if !result.contains_key(key) {
            return Err(wrong(name, kind, &format!("`{key}` is missing")));
        }
    }
    object(name, kind, tables, result)
}

fn wrong(name: &str, kind: impl std::fmt::Display, what: &str) -> Error {
    Error::request(format!("{name}: a result of the kind `{kind}`, but {what}"), HELP)
}

fn object(
    name: &str,
    kind: ResultKind,
    tables: &[(&str, &str)],
    result: &Map<String, Value>,
) -> Result<Section, Error> {
    let text = |key: &str| result.get(key).and_then(Value::as_str).map(plain);
    let title =
        ["title", "card", "chip", "target"].into_iter().find_map(text).filter(|title| !title.is_empty());
    let mut section = Section {
        heading: title.unwrap_or_else(|| plain(name)),
        origin: plain(name),
        kind: kind.to_string(),
        conclusion: text("conclusion").unwrap_or_default(),
        ..Section::default()
    };
    for (path, caption) in tables {
        section.tables.extend(table(name, kind, result, path, caption)?);
    }
    for table in &mut section.tables {
        table.in_readable_units();
        table.objectives = objectives(result);
    }
    facts(result, tables, &mut section);
    section.notes.extend(notes(result));
    section.bars = bars(result);
    Ok(section)
}

/// Section for the columns of a sweep, as `to_dict()` returns them in Python.
fn columns(name: &str, value: &Value) -> Option<Section> {
    let columns: Vec<_> = value
        .as_object()?
        .iter()
        .map(|(key, column)| Some((key, column.as_array()?)))
        .collect::<Option<_>>()?;
    let (_, first) = columns.first()?;
    columns.iter().find(|(key, _)| *key == "pareto")?;
    let row = |at: usize| {
        let cells = columns.iter().map(|(key, column)| (plain(key), column.get(at).map(cell)));
        cells.map(|(key, cell)| (key, cell.unwrap_or_default())).collect()
    };
    Some(of_rows(name, ResultKind::Sweep, (0..first.len()).map(row).collect()))
}

/// Section that is a table.
fn of_rows(name: &str, kind: ResultKind, rows: Vec<Cells>) -> Section {
    Section {
        heading: plain(name),
        origin: plain(name),
        kind: kind.to_string(),
        facts: vec![("rows".to_owned(), rows.len().to_string())],
        tables: vec![Table::of_keyed(&rows_of(name), rows)],
        ..Section::default()
    }
}

/// Objective columns of a sweep: those of which more is better, and those of which less is.
fn objectives(result: &Map<String, Value>) -> Vec<(String, bool)> {
    let of = |key: &str, more: bool| {
        let columns = result.get("objectives").and_then(|all| all.get(key)).and_then(Value::as_array);
        columns.into_iter().flatten().filter_map(move |column| Some((column.as_str()?.to_owned(), more)))
    };
    of("minimise", false).chain(of("maximise", true)).collect()
}

/// Table of the rows at a path; `None` if there are no rows.
fn table(
    name: &str,
    kind: ResultKind,
    result: &Map<String, Value>,
    path: &str,
    caption: &str,
) -> Result<Option<Table>, Error> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let cells = match result.get(first) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => {
            rows_at(value, rest).ok_or_else(|| wrong(name, kind, &format!("`{path}` is no list of rows")))?
        }
    };
    let mut table = Table::of_keyed(caption, cells);
    // Other lists contain rows of different tests, which must not be compared with each other.
    table.plot &= kind == ResultKind::Sweep && path == "rows";
    Ok((!table.rows.is_empty()).then_some(table))
}

fn rows(value: &Value) -> Option<Vec<&Map<String, Value>>> {
    value.as_array()?.iter().map(Value::as_object).collect()
}

/// Cells of a row, with their headings.
type Cells = Vec<(String, Cell)>;

/// Rows at a path. If they are nested in rows of a list, each begins with the first cell of the outer row.
fn rows_at(value: &Value, path: &str) -> Option<Vec<Cells>> {
    if path.is_empty() {
        return Some(named_rows(value)?.into_iter().map(|(name, row)| named(name, flat(row))).collect());
    }
    let Value::Array(outer) = value else {
        let (key, rest) = path.split_once('.').unwrap_or((path, ""));
        return value.get(key).map_or(Some(Vec::new()), |value| rows_at(value, rest));
    };
    let mut all = Vec::new();
    for row in outer {
        let first = flat(row.as_object()?).into_iter().take(1);
        let inner = rows_at(row, path)?.into_iter();
        all.extend(inner.map(|cells| first.clone().chain(cells).collect::<Cells>()));
    }
    Some(all)
}

/// A row and, if it is a member of an object, its key.
type NamedRow<'a> = (Option<&'a str>, &'a Map<String, Value>);

/// Rows of a list, or members of an object with their keys.
fn named_rows(value: &Value) -> Option<Vec<NamedRow<'_>>> {
    match value {
        Value::Object(all) => {
            all.iter().map(|(key, row)| Some((Some(key.as_str()), row.as_object()?))).collect()
        }
        list => Some(rows(list)?.into_iter().map(|row| (None, row)).collect()),
    }
}

/// Cells preceded by the name of their row.
fn named(name: Option<&str>, mut cells: Cells) -> Cells {
    if let Some(name) = name {
        cells.insert(0, ("name".to_owned(), Cell::Text(plain(&heading(name)))));
    }
    cells
}

/// Cells of a row, with their headings. Breakdowns are drawn instead, and lists of objects are left out.
fn flat(row: &Map<String, Value>) -> Cells {
    let mut cells = Vec::new();
    flatten("", row, &mut cells);
    cells
}

fn flatten(prefix: &str, row: &Map<String, Value>, cells: &mut Cells) {
    for (key, value) in row.iter().filter(|(key, _)| *key != "breakdown_ns") {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Object(inner) => flatten(&path, inner, cells),
            Value::Array(list) if list.iter().any(|item| item.is_object() || item.is_array()) => {}
            scalar => cells.push((plain(&heading(&path)), cell(scalar))),
        }
    }
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null | Value::Object(_) => Cell::Empty,
        Value::Bool(truth) => Cell::Text(truth.to_string()),
        Value::Number(number) => Cell::of_number(&number.to_string()).unwrap_or_default(),
        Value::String(text) => Cell::Text(plain(text)),
        Value::Array(list) => {
            let texts: Vec<String> = list.iter().map(|item| cell(item).shown()).collect();
            let has_sentences = texts.iter().any(|text| text.contains(' '));
            let are_numbers = list.iter().all(Value::is_number);
            Cell::Text(texts.join(if has_sentences {
                "; "
            } else if are_numbers {
                ", "
            } else {
                " "
            }))
        }
    }
}

/// Members that are not listed as facts: those of the envelope that name the result, and those that the section shows
/// elsewhere.
const ELSEWHERE: [&str; 7] = ["floatgate", "kind", "title", "advice", "notes", "objectives", "conclusion"];

/// Adds the facts of a section: scalars of the result that are in no table, and empty lists.
fn facts(result: &Map<String, Value>, tables: &[(&str, &str)], section: &mut Section) {
    let of_tables = |key: &str| tables.iter().any(|(path, _)| path.split('.').next() == Some(key));
    let others: Map<String, Value> = result
        .iter()
        .filter(|(key, value)| {
            let is_shown = !of_tables(key) || *key == "life" || is_empty_list(value);
            is_shown && !ELSEWHERE.contains(&key.as_str()) && (*key != "overrides" || !is_empty_list(value))
        })
        .map(|(key, value)| (key.clone(), if is_empty_list(value) { "none".into() } else { value.clone() }))
        .collect();
    for (key, value) in flat(&others) {
        if !value.is_empty() {
            section.facts.push(match (key.strip_suffix(" (bytes)"), value.bytes()) {
                (Some(name), Some(bytes)) => (name.to_owned(), size(bytes)),
                _ => (key, value.shown()),
            });
        }
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Remarks of the result.
fn notes(result: &Map<String, Value>) -> Vec<String> {
    // The conclusion may repeat one of the remarks, as a sentence.
    let conclusion = result.get("conclusion").and_then(Value::as_str).unwrap_or_default();
    let is_conclusion = |note: &&str| {
        let tail = |text: &str| text.trim_end_matches('.').chars().skip(1).collect::<String>();
        !conclusion.is_empty() && tail(note) == tail(conclusion)
    };
    [result.get("notes"), result.get("advice")]
        .into_iter()
        .flatten()
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(Value::as_str)
        .filter(|note| !is_conclusion(note))
        .map(plain)
        .collect()
}

/// Bars for all predictions, which have a breakdown.
fn bars(result: &Map<String, Value>) -> Vec<Timed> {
    let predictions = result.get("predictions").and_then(rows).unwrap_or_default();
    predictions.into_iter().filter_map(bar).collect()
}

fn bar(row: &Map<String, Value>) -> Option<Timed> {
    let text = |key: &str| row.get(key).and_then(Value::as_str).map(plain).unwrap_or_default();
    let breakdown = stored::breakdown(row.get("breakdown_ns")?).ok()?;
    let figure = format!("{} {}", number(row.get("simulated")?.as_f64()?), text("unit"));
    let bar = BarRow { label: text("name"), breakdown, ..BarRow::default() };
    (breakdown.total() > Nanos::ZERO).then(|| Timed { bar, figure, ..Timed::default() })
}
