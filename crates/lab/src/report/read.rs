//! Sections from the JSON of floatgate's commands (docs/json.md).

use super::stored::{StoredKind, kind_of};
use crate::advise::Advice;
use crate::capture_check::CheckedCapture;
use crate::card::powercut::CutReport;
use crate::card::replay::Replay;
use crate::card::serve::ServedCard;
use crate::envelope::{Reported, ResultKind};
use crate::fit::FitReport;
use crate::otp::{OtpBytes, OtpInfo, OtpStep};
use crate::show::page::model::{
    Bar, Cell, Compared, Section, Stretch, Table, Waterfall, heading, number, plain, rows_of, time,
};
use crate::show::report::Report;
use crate::study::Registered;
use floatgate_mtd::Phase;
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
        Kind::Fs => &[("rows", "Filesystems and bare flash"), ("refused", "Tests that cannot be")],
        Kind::FsPartition => &[("rows", "Filesystems by the size of the partition")],
        Kind::Speed => &[("tests", "Tests"), ("advice", "Bottlenecks and what would be faster")],
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
        Kind::Trace | Kind::Setup => &[],
        Kind::SpeedSweep => &[("rows", "Combinations")],
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
    Ok(Section { facts: inputs(value), ..Section::of_report(name, kind, report) })
}

/// Reader of the report of a result; `None` for a kind whose JSON is shown as it is.
pub(super) fn reader(kind: ResultKind) -> Option<fn(&Value) -> serde_json::Result<Report>> {
    fn of<R: Reported>(value: &Value) -> serde_json::Result<Report> {
        R::deserialize(value).map(|result| result.report())
    }
    use ResultKind as Kind;
    Some(match kind {
        Kind::Advise => of::<Advice<String>>,
        Kind::CardPowercut => of::<CutReport>,
        Kind::CardReplay => of::<Replay>,
        Kind::CardServe => of::<ServedCard>,
        Kind::CheckCapture => of::<CheckedCapture>,
        Kind::Fit => of::<FitReport>,
        Kind::OtpInfo => of::<OtpInfo>,
        Kind::OtpRead => of::<OtpBytes>,
        Kind::OtpWrite => of::<OtpStep>,
        _ => return None,
    })
}

/// Inputs of a result, from its envelope.
fn inputs(result: &Value) -> Vec<(String, String)> {
    let fact = |key: &str| {
        let shown = result.get(key).map(cell).unwrap_or_default();
        (!shown.is_empty()).then(|| (heading(key), shown.shown()))
    };
    ["target", "board", "overrides", "seed", "corner", "bad_blocks"].into_iter().filter_map(fact).collect()
}

/// Section for a result of a known kind.
pub(super) fn section_of(name: &str, kind: ResultKind, value: &Value) -> Result<Section, Error> {
    let result = value.as_object().ok_or_else(|| wrong(name, kind, "it is no object"))?;
    if let Some(read) = reader(kind) {
        let report = read(value).map_err(|error| wrong(name, kind, &error.to_string()))?;
        let conclusion = result.get("conclusion").and_then(Value::as_str).map(plain).unwrap_or_default();
        let section = Section::of_report(name, kind.to_string(), report);
        return Ok(Section { conclusion, facts: inputs(value), ..section });
    }
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
    match kind {
        ResultKind::SpeedSweep => sweep_of_speed(name, kind, result),
        _ => object(name, kind, tables, result),
    }
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
        table.folded = kind == ResultKind::Speed;
    }
    facts(result, tables, &mut section);
    section.notes.extend(notes(result));
    section.bars = bars(result);
    if let Some(spans) = result.get("spans") {
        section
            .waterfalls
            .push(waterfall(spans, result).ok_or_else(|| wrong(name, kind, "its spans are none"))?);
    }
    if kind == ResultKind::Speed {
        section.compared.push(compared(&section.heading, result));
    }
    section.sources = least_certain(result);
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
const ELSEWHERE: [&str; 9] =
    ["floatgate", "kind", "spans", "title", "least_certain", "advice", "notes", "objectives", "conclusion"];

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
        let is_listed = ["link.not given", "link.notes", "link.not_given"].contains(&key.as_str());
        if !value.is_empty() && !is_listed {
            let key = key.replace("link.", "link: ");
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
    let link = result.get("link");
    let lists = [
        link.and_then(|link| link.get("not_given")),
        link.and_then(|link| link.get("notes")),
        result.get("notes"),
        result.get("advice"),
    ];
    lists
        .into_iter()
        .flatten()
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(Value::as_str)
        .filter(|note| !is_conclusion(note))
        .map(plain)
        .collect()
}

/// Bars for all rows with a breakdown, and for the result itself.
fn bars(result: &Map<String, Value>) -> Vec<Bar> {
    let lists = ["tests", "rows", "predictions"].into_iter().filter_map(|key| rows(result.get(key)?));
    let all: Vec<&Map<String, Value>> = lists.flatten().chain([result]).collect();
    let speed = |row: &Map<String, Value>| row.get("exact_kib_s").and_then(Value::as_f64);
    let erase = all.iter().find(|row| name_of(row) == "erase").and_then(|row| speed(row));
    // Multi-block erases have the same bar as single-block erases if they are equally fast.
    let is_equal = |row: &Map<String, Value>| {
        erase.zip(speed(row)).is_some_and(|(one, several)| (several / one - 1.0).abs() < AS_FAST)
    };
    let is_other = |row: &&&Map<String, Value>| !(name_of(row).ends_with("x erase") && is_equal(row));
    all.iter().filter(is_other).filter_map(|row| bar(row, result)).collect()
}

/// Relative difference up to which two speeds count as equal.
const AS_FAST: f64 = 0.05;

fn name_of(row: &Map<String, Value>) -> &str {
    row.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn bar(row: &Map<String, Value>, result: &Map<String, Value>) -> Option<Bar> {
    let parts = breakdown(row.get("breakdown_ns")?)?;
    let text = |key: &str| row.get(key).and_then(Value::as_str).map(plain);
    let name = text("name").or_else(|| text("operation")).unwrap_or_default();
    let subject = text("subject").map_or_else(String::new, |subject| format!("{subject}: "));
    Some(Bar {
        advice: advice(result, &name).unwrap_or_default(),
        figure: figure(row),
        name: subject + &name,
        parts,
    })
}

/// Maximum time in a result, ns: integers in JSON fit into 53 bits.
const NS_MAX: u64 = 1 << 53;

fn breakdown(value: &Value) -> Option<Vec<(Phase, u64)>> {
    let times = value.as_object()?;
    let of = |phase: Phase| Some((phase, times.get(phase.name())?.as_u64()?)).filter(|(_, ns)| *ns <= NS_MAX);
    let parts: Vec<(Phase, u64)> = Phase::ALL.into_iter().filter_map(of).filter(|(_, ns)| *ns > 0).collect();
    (!parts.is_empty()).then_some(parts)
}

/// Speed or time of a row, with its unit.
fn figure(row: &Map<String, Value>) -> String {
    let number_of = |key: &str| row.get(key).and_then(Value::as_f64);
    let unit = row.get("unit").and_then(Value::as_str).map(plain);
    let ns = row.get("ns").and_then(Value::as_u64).unwrap_or(0);
    if let (Some(value), Some(unit)) = (number_of("value").or_else(|| number_of("simulated")), unit) {
        return format!("{} {unit}", number(value));
    }
    match number_of("exact_kib_s").filter(|speed| *speed > 0.0) {
        Some(speed) => format!("{} KiB/s", number(speed)),
        None => time(ns),
    }
}

/// Bottleneck, and the change with the largest effect, for a test of `speed`.
fn advice(result: &Map<String, Value>, test: &str) -> Option<String> {
    let all = result.get("advice")?.as_array()?;
    let one = all.iter().find(|one| one.get("test").and_then(Value::as_str) == Some(test))?;
    let bottleneck = one.get("bottleneck")?.as_str()?;
    let phase = Phase::ALL.into_iter().find(|phase| phase.name() == bottleneck)?;
    let share = one.get("share_percent")?.as_f64()?;
    let next = one.get("next").filter(|next| !next.is_null());
    let next = next.and_then(|next| Some((next.get("set")?.as_str()?, next.get("factor")?.as_f64()?)));
    let next = match next {
        Some((set, factor)) => format!("{} is {factor:.2} times as fast", plain(set)),
        None => "no single change of bus or driver gains 1 %".to_owned(),
    };
    Some(format!("Bottleneck: {}, {share:.1} %. Next: {next}.", crate::speed_run::explain(phase)))
}

fn waterfall(spans: &Value, result: &Map<String, Value>) -> Option<Waterfall> {
    let stretch = |span: &Map<String, Value>| {
        let text = |key: &str| span.get(key)?.as_str().map(plain);
        let number = |key: &str| span.get(key)?.as_u64();
        let (start_ns, end_ns) = (number("start_ns")?, number("end_ns")?);
        let is_in_order = start_ns <= end_ns;
        is_in_order.then_some(Stretch {
            resource: text("resource")?,
            phase: Phase::ALL
                .into_iter()
                .find(|phase| Some(phase.name()) == span.get("phase").and_then(Value::as_str))?
                .name()
                .to_owned(),
            start_ns,
            end_ns,
            what: text("what")?,
        })
    };
    let spans = rows(spans)?.into_iter().map(stretch).collect::<Option<Vec<Stretch>>>()?;
    let operation = result.get("operation")?.as_str()?;
    let ns = result.get("ns")?.as_u64()?;
    Some(Waterfall { caption: format!("{} takes {}", plain(operation), time(ns)), spans })
}

/// Figures of a `speed` result that are compared with other results.
fn compared(subject: &str, result: &Map<String, Value>) -> Compared {
    let tests = result.get("tests").and_then(rows).unwrap_or_default();
    // Multi-block erases add no information to single-block erases.
    let is_several = |name: &str| name.contains("x erase ");
    let mut figures: Vec<(String, Cell)> =
        tests.iter().filter_map(|test| speed(test)).filter(|(name, _)| !is_several(name)).collect();
    // The reads that the conclusion of `speed` is about.
    let is_read = |test: &&&Map<String, Value>| ["page read", "read 64 KiB"].contains(&name_of(test));
    let read = tests.iter().find(is_read).or(tests.first());
    let bottleneck = read.and_then(|test| breakdown(test.get("breakdown_ns")?));
    if let Some((phase, _)) = bottleneck.into_iter().flatten().max_by_key(|(_, ns)| *ns) {
        let of = if read.is_some_and(|test| is_read(&test)) { "bottleneck of reads" } else { "bottleneck" };
        figures.push((of.to_owned(), Cell::Text(phase.name().to_owned())));
    }
    Compared { subject: subject.to_owned(), figures }
}

/// Name and speed of a test: KiB/s, or ms if the test moves no bytes.
fn speed(test: &Map<String, Value>) -> Option<(String, Cell)> {
    let name = plain(test.get("name")?.as_str()?);
    match test.get("bytes")?.as_u64()? {
        0 => Some((format!("{name} ms"), Cell::Number(test.get("ns")?.as_f64()? / 1e6))),
        _ => Some((format!("{name} KiB/s"), Cell::Number(test.get("exact_kib_s")?.as_f64()?))),
    }
}

/// Section for the rows of a sweep of `speed`.
fn sweep_of_speed(name: &str, kind: ResultKind, result: &Map<String, Value>) -> Result<Section, Error> {
    let list = result.get("rows").and_then(rows);
    let list = list.ok_or_else(|| wrong(name, kind, "`rows` is no list of rows"))?;
    let mut rows = Vec::new();
    for row in &list {
        let combination = row.get("combination").and_then(Value::as_str);
        let combination = combination.ok_or_else(|| wrong(name, kind, "a row has no `combination`"))?;
        let mut cells = vec![("combination".to_owned(), Cell::Text(plain(combination)))];
        match (row.get("run").and_then(Value::as_object), row.get("refused").and_then(Value::as_str)) {
            (Some(run), _) => cells.extend(compared("", run).figures),
            (None, Some(why)) => cells.push(("refused".to_owned(), Cell::Text(plain(why)))),
            (None, None) => return Err(wrong(name, kind, "a row has neither `run` nor `refused`")),
        }
        rows.push(cells);
    }
    let first = list.iter().find_map(|row| row.get("run")?.as_object());
    let title = first.and_then(|run| run.get("title")?.as_str()).map(plain).filter(|title| !title.is_empty());
    let bars = list.iter().filter_map(|row| {
        let test = row.get("run")?.get("tests")?.as_array()?.first()?.as_object()?;
        let bar = bar(test, &Map::new())?;
        Some(Bar { name: format!("{}, {}", plain(row.get("combination")?.as_str()?), bar.name), ..bar })
    });
    Ok(Section {
        heading: title.unwrap_or_else(|| plain(name)),
        origin: plain(name),
        kind: kind.to_string(),
        conclusion: result.get("conclusion").and_then(Value::as_str).map(plain).unwrap_or_default(),
        facts: vec![("combinations".to_owned(), rows.len().to_string())],
        bars: bars.take(40).collect(),
        tables: vec![Table::of_keyed("Combinations", rows)],
        ..Section::default()
    })
}

/// Table of the least certain value on which the result depends, with its source.
fn least_certain(result: &Map<String, Value>) -> Option<Table> {
    let mut cells = flat(result.get("least_certain")?.as_object()?);
    for (key, cell) in &mut cells {
        if let (true, Cell::Number(share)) = (key == "confidence", &cell) {
            *cell = Cell::Number((share * 100.0).round());
            "confidence (%)".clone_into(key);
        }
    }
    Some(Table {
        plot: false,
        ..Table::of_keyed("The least certain value on which the figures depend", vec![cells])
    })
}
