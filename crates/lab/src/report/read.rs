//! The JSON of floatgate's commands (docs/json.md) as sections.

use super::model::{Bar, Cell, Compared, Section, Stretch, Table, Waterfall, heading, plain, time};
use crate::error::Error;
use floatgate_mtd::Phase;
use serde_json::{Map, Value};

/// Help for JSON that cannot be shown.
pub(super) const HELP: &str = "give what a command of floatgate printed as JSON: speed, fs, age, trace, endurance, powercut, papers, sweep, fit, probe, advise, ecc advise, card info, speed, replay, run, compare, powercut or amplification, keystore, parts, setups, controllers or hosts";

/// A kind of result: the command that prints it, keys by which it is known, and the lists that become tables.
struct Kind {
    command: &'static str,
    keys: &'static [&'static str],
    tables: &'static [(&'static str, &'static str)],
}

const KINDS: [Kind; 20] = [
    Kind {
        command: "sweep",
        keys: &["measure", "designs", "rows"],
        tables: &[("rows", "Designs"), ("sensitivity", "Sensitivity: shares of the variance")],
    },
    Kind { command: "trace", keys: &["operation", "spans"], tables: &[] },
    Kind {
        command: "fs",
        keys: &["flash_bytes", "rows"],
        tables: &[("rows", "Filesystems and bare flash"), ("refused", "Tests that cannot be")],
    },
    Kind { command: "card speed", keys: &["card", "open_aus", "tests"], tables: &[("tests", "Requests")] },
    Kind {
        command: "speed",
        keys: &["link", "chip", "tests"],
        tables: &[("tests", "Tests"), ("advice", "Bottlenecks and what would be faster")],
    },
    Kind { command: "card replay", keys: &["card", "time_us", "read"], tables: &[] },
    Kind {
        command: "endurance",
        keys: &["nominal_cycles", "life"],
        tables: &[
            ("blocks", "Blocks"),
            ("life.histogram", "Histogram of lives"),
            ("trace.points", "Times of the block with the median life"),
        ],
    },
    Kind {
        command: "papers",
        keys: &["rows", "summary"],
        tables: &[("rows", "Published and simulated figures"), ("predictions", "Predictions")],
    },
    Kind {
        command: "powercut",
        keys: &["flash", "workloads", "by_step"],
        tables: &[("kinds", "Kinds of cuts"), ("by_step", "Cuts by step"), ("failures", "Failures")],
    },
    Kind {
        command: "card powercut",
        keys: &["card", "recovery_cuts", "failures"],
        tables: &[("failures", "Failures")],
    },
    Kind {
        command: "age",
        keys: &["runs"],
        tables: &[("runs", "Runs"), ("runs.lives", "Lives of the chips")],
    },
    Kind {
        command: "keystore",
        keys: &["with_delays", "without_delays"],
        tables: &[("with_delays", "With delays"), ("without_delays", "Without delays")],
    },
    Kind {
        command: "fit",
        keys: &["understood", "parameters", "rows"],
        tables: &[
            ("parameters", "Costs, as stated and as fitted"),
            ("rows", "Measured figures"),
            ("hypotheses", "What may be wrong on the board"),
            ("unknown", "Lines that were not understood"),
        ],
    },
    Kind { command: "ecc advise", keys: &["use", "codes"], tables: &[("codes", "Codes")] },
    Kind { command: "probe", keys: &["answers"], tables: &[("answers", "Answers")] },
    Kind { command: "advise", keys: &["target", "points"], tables: &[("points", "Advice")] },
    Kind { command: "card info", keys: &["card", "registers"], tables: &[("registers", "Registers")] },
    Kind {
        command: "card compare",
        keys: &["cells", "cards"],
        tables: &[
            ("cards", "Advice for each card"),
            ("cards.filesystems", "Filesystems of each card"),
            ("cells", "Cards, filesystems and workloads"),
        ],
    },
    Kind {
        command: "parts",
        keys: &["maker", "kind", "source"],
        tables: &[("source", "Sources of the values")],
    },
    Kind { command: "setups", keys: &["part", "chip", "controller"], tables: &[] },
];

/// Results that are lists: the command, and the keys that each row has.
const LISTS: [(&str, &[&str]); 9] = [
    ("setups", &["name", "title", "chip", "kind"]),
    ("setups, keys", &["section", "key", "meaning"]),
    ("parts", &["part", "maker", "lowest_confidence"]),
    ("parts, values by confidence", &["part", "fields", "sure"]),
    ("parts, values that are not sure", &["field", "value", "confidence"]),
    ("controllers or hosts", &["name", "title", "lowest_confidence"]),
    ("endurance", &["nominal_cycles", "life"]),
    ("card run", &["filesystem", "workload", "verdict"]),
    ("card amplification", &["collector", "over_provisioning_percent"]),
];

/// Commands whose rows are drawn as a scatter plot, too.
const PLOTTED: [&str; 2] = ["sweep", "papers"];

/// A section of what a command printed.
pub(super) fn section(name: &str, value: &Value) -> Result<Section, Error> {
    match value {
        Value::Array(rows) => list(name, rows),
        Value::Object(result) => object(name, result),
        _ => Err(no_result(name)),
    }
}

fn no_result(name: &str) -> Error {
    Error::asked(format!("{name}: JSON, but not a result of floatgate"), HELP)
}

fn wrong(name: &str, kind: &str, what: &str) -> Error {
    Error::asked(format!("{name}: it looks like a result of `{kind}`, but {what}"), HELP)
}

fn kind_of(result: &Map<String, Value>) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.keys.iter().all(|key| result.contains_key(*key)))
}

/// Name of the command that printed some JSON, as far as reports know it.
pub fn command_of(json: &Value) -> Option<&'static str> {
    json.as_object().and_then(kind_of).map(|kind| kind.command)
}

fn object(name: &str, result: &Map<String, Value>) -> Result<Section, Error> {
    let Some(kind) = kind_of(result) else { return of_python(name, result) };
    let runs = (kind.command == "age").then(|| runs_in_words(result));
    let result = runs.as_ref().unwrap_or(result);
    let text = |key: &str| result.get(key).and_then(Value::as_str).map(plain);
    let title =
        ["title", "card", "chip", "target"].into_iter().find_map(text).filter(|title| !title.is_empty());
    let mut section = Section {
        heading: title.unwrap_or_else(|| plain(name)),
        origin: plain(name),
        kind: kind.command.to_owned(),
        ..Section::default()
    };
    for (path, caption) in kind.tables {
        section.tables.extend(table(name, kind, result, path, caption)?);
    }
    for table in &mut section.tables {
        table.objectives = objectives(result);
    }
    facts(result, kind, &mut section);
    section.notes.extend(notes(result));
    section.bars = bars(result);
    if let Some(spans) = result.get("spans") {
        section
            .waterfalls
            .push(waterfall(spans, result).ok_or_else(|| wrong(name, kind.command, "its spans are none"))?);
    }
    if kind.command == "speed" {
        section.compared.push(compared(&section.heading, result));
    }
    section.sources = least_certain(result);
    Ok(section)
}

/// A section of what `to_dict()` gives in Python: a list under its name, or the columns of a sweep.
fn of_python(name: &str, result: &Map<String, Value>) -> Result<Section, Error> {
    let columns: Option<Vec<_>> =
        result.iter().map(|(key, column)| Some((key, column.as_array()?))).collect();
    match columns.as_deref() {
        Some([(_, rows)]) => list(name, rows),
        Some(columns @ [(_, first), ..]) if columns.iter().any(|(key, _)| *key == "pareto") => {
            let row = |at: usize| {
                let cells = columns.iter().map(|(key, column)| (plain(key), column.get(at).map(cell)));
                cells.map(|(key, cell)| (key, cell.unwrap_or_default())).collect()
            };
            Ok(of_rows(name, "sweep", (0..first.len()).map(row).collect()))
        }
        _ => Err(no_result(name)),
    }
}

/// A section that is a table.
fn of_rows(name: &str, kind: &str, rows: Vec<Cells>) -> Section {
    Section {
        heading: plain(name),
        origin: plain(name),
        kind: kind.to_owned(),
        facts: vec![("rows".to_owned(), rows.len().to_string())],
        tables: vec![Table::of_keyed(&format!("Rows of {}", plain(name)), rows)],
        ..Section::default()
    }
}

/// Columns of a sweep of which more is better, and those of which less is.
fn objectives(result: &Map<String, Value>) -> Vec<(String, bool)> {
    let of = |key: &str, more: bool| {
        let columns = result.get("objectives").and_then(|all| all.get(key)).and_then(Value::as_array);
        columns.into_iter().flatten().filter_map(move |column| Some((column.as_str()?.to_owned(), more)))
    };
    of("minimise", false).chain(of("maximise", true)).collect()
}

/// The rows at a path; none where there are none.
fn table(
    name: &str,
    kind: &Kind,
    result: &Map<String, Value>,
    path: &str,
    caption: &str,
) -> Result<Option<Table>, Error> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let cells = match result.get(first) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => rows_at(value, rest)
            .ok_or_else(|| wrong(name, kind.command, &format!("`{path}` is no list of rows")))?,
    };
    let mut table = Table::of_keyed(caption, cells);
    // Rows of other lists are different tests, which are not to be compared with each other.
    table.equal = (kind.command == "papers").then_some(["published", "simulated"]);
    table.plot &= PLOTTED.contains(&kind.command) && path == "rows" || kind.command == "card speed";
    Ok((!table.rows.is_empty()).then_some(table))
}

fn rows(value: &Value) -> Option<Vec<&Map<String, Value>>> {
    value.as_array()?.iter().map(Value::as_object).collect()
}

/// Cells of a row by heading.
type Cells = Vec<(String, Cell)>;

/// The rows at a path, of which those in rows of a list have the first cell of that row before them.
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

/// The runs of `age` as a reader takes them: scrubbed `never`, `2 of 5` survived, the ends of an interval.
fn runs_in_words(result: &Map<String, Value>) -> Map<String, Value> {
    let or = |value: Option<&Value>, word: &str| match value {
        None | Some(Value::Null) => Value::from(word),
        Some(value) => value.clone(),
    };
    let in_words = |run: &Map<String, Value>| {
        // What tells one run from another stands first.
        let mut words = Map::from_iter([("scrub_days".to_owned(), or(run.get("scrub_days"), "never"))]);
        words.extend(run.iter().filter(|(key, _)| *key != "scrub_days").map(|(k, v)| (k.clone(), v.clone())));
        let lives = run.get("lives").and_then(Value::as_array).map_or(0, Vec::len);
        if let Some(survived) = run.get("survived") {
            words.insert("survived".to_owned(), format!("{survived} of {lives}").into());
        }
        if let Some([low, high]) = run.get("probability").and_then(Value::as_array).map(Vec::as_slice) {
            let interval = format!("{} to {}", shown(&cell(low)), shown(&cell(high)));
            words.insert("probability".to_owned(), interval.into());
        }
        let lives = words.get_mut("lives").and_then(Value::as_array_mut).into_iter().flatten();
        for life in lives.filter_map(Value::as_object_mut) {
            let failure = or(life.get("failure"), "none");
            life.insert("failure".to_owned(), failure);
        }
        Value::from(words)
    };
    let mut result = result.clone();
    for run in result.get_mut("runs").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(words) = run.as_object().map(in_words) {
            *run = words;
        }
    }
    result
}

/// A row, and its key where it is that of an object.
type NamedRow<'a> = (Option<&'a str>, &'a Map<String, Value>);

/// Rows of a list, or those of an object with their keys.
fn named_rows(value: &Value) -> Option<Vec<NamedRow<'_>>> {
    match value {
        Value::Object(all) => {
            all.iter().map(|(key, row)| Some((Some(key.as_str()), row.as_object()?))).collect()
        }
        list => Some(rows(list)?.into_iter().map(|row| (None, row)).collect()),
    }
}

/// Cells with the name of their row before them.
fn named(name: Option<&str>, mut cells: Cells) -> Cells {
    if let Some(name) = name {
        cells.insert(0, ("name".to_owned(), Cell::Text(plain(&heading(name)))));
    }
    cells
}

/// Cells of a row by heading. Breakdowns are drawn instead, and lists of objects have no place in a cell.
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
            let texts: Vec<String> = list.iter().map(|item| shown(&cell(item))).collect();
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

/// A cell as text.
pub(super) fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Text(text) => text.clone(),
        Cell::Number(n) => number(*n),
    }
}

/// A number with as many decimals as a reader needs: six significant digits; `1.5e-9` where zeros would hide them.
fn number(n: f64) -> String {
    if n.fract() == 0.0 && n.abs() < 1e15 {
        return format!("{n:.0}");
    }
    let (text, power) = match format!("{n:.5e}").split_once('e') {
        Some((digits, power)) if n.abs() < 1e-4 => (digits.to_owned(), format!("e{power}")),
        _ => {
            let digits = 5 - n.abs().log10().floor().min(5.0) as i32;
            (format!("{n:.*}", usize::try_from(digits).unwrap_or(0)), String::new())
        }
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{power}")
}

/// Scalars of the result that stand in no table, and lists without an entry.
fn facts(result: &Map<String, Value>, kind: &Kind, section: &mut Section) {
    let of_tables = |key: &str| kind.tables.iter().any(|(path, _)| path.split('.').next() == Some(key));
    let others: Map<String, Value> = result
        .iter()
        .filter(|(key, value)| {
            (!of_tables(key) || *key == "life" || is_empty_list(value))
                && !["spans", "title", "least_certain", "advice", "notes", "objectives"]
                    .contains(&key.as_str())
        })
        .map(|(key, value)| (key.clone(), if is_empty_list(value) { "none".into() } else { value.clone() }))
        .collect();
    for (key, value) in flat(&others) {
        let is_listed = ["link.not given", "link.notes", "link.not_given"].contains(&key.as_str());
        if !value.is_empty() && !is_listed {
            section.facts.push((key.replace("link.", "link: "), shown(&value)));
        }
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Remarks of the result.
fn notes(result: &Map<String, Value>) -> Vec<String> {
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
        .map(plain)
        .collect()
}

/// A bar for each row that has a breakdown, and one for the result itself.
fn bars(result: &Map<String, Value>) -> Vec<Bar> {
    let lists = ["tests", "rows", "predictions"].into_iter().filter_map(|key| rows(result.get(key)?));
    lists.flatten().chain([result]).filter_map(|row| bar(row, result)).collect()
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

fn breakdown(value: &Value) -> Option<Vec<(Phase, u64)>> {
    let times = value.as_object()?;
    let of = |phase: Phase| Some((phase, times.get(phase.name())?.as_u64()?));
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

/// Bottleneck and the change that helps most, of a test of `speed`.
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

/// Figures of a `speed` that are compared with those of others.
fn compared(subject: &str, result: &Map<String, Value>) -> Compared {
    let tests = result.get("tests").and_then(rows).unwrap_or_default();
    let mut figures: Vec<(String, Cell)> = tests.iter().filter_map(|test| speed(test)).collect();
    let bottleneck = tests.first().and_then(|test| breakdown(test.get("breakdown_ns")?));
    if let Some((phase, _)) = bottleneck.into_iter().flatten().max_by_key(|(_, ns)| *ns) {
        figures.push(("bottleneck".to_owned(), Cell::Text(phase.name().to_owned())));
    }
    Compared { subject: subject.to_owned(), figures }
}

/// Name and speed of a test: KiB/s, or ms where no bytes are moved.
fn speed(test: &Map<String, Value>) -> Option<(String, Cell)> {
    let name = plain(test.get("name")?.as_str()?);
    match test.get("bytes")?.as_u64()? {
        0 => Some((format!("{name} ms"), Cell::Number(test.get("ns")?.as_f64()? / 1e6))),
        _ => Some((format!("{name} KiB/s"), Cell::Number(test.get("exact_kib_s")?.as_f64()?))),
    }
}

/// A section of a list of rows.
fn list(name: &str, all: &[Value]) -> Result<Section, Error> {
    let has = |keys: &[&str]| {
        let mut rows = all.iter().map(Value::as_object);
        rows.all(|row| row.is_some_and(|row| keys.iter().all(|key| row.contains_key(*key))))
    };
    match LISTS.iter().find(|(_, keys)| !all.is_empty() && has(keys)) {
        Some((command, _)) => {
            let cells = all.iter().filter_map(Value::as_object).map(flat).collect();
            let mut section = of_rows(name, command, cells);
            section.tables.iter_mut().for_each(|table| table.plot = false);
            Ok(section)
        }
        None => sweep_of_speed(name, all),
    }
}

/// The rows of a sweep of `speed`.
fn sweep_of_speed(name: &str, list: &[Value]) -> Result<Section, Error> {
    let kind = "speed, swept";
    let mut rows = Vec::new();
    for item in list {
        let row = item.as_object().ok_or_else(|| no_result(name))?;
        let combination = row.get("combination").and_then(Value::as_str).ok_or_else(|| no_result(name))?;
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
    if rows.is_empty() {
        return Err(no_result(name));
    }
    let bars = list.iter().filter_map(|row| {
        let test = row.get("run")?.get("tests")?.as_array()?.first()?.as_object()?;
        let bar = bar(test, &Map::new())?;
        Some(Bar { name: format!("{}, {}", plain(row.get("combination")?.as_str()?), bar.name), ..bar })
    });
    Ok(Section {
        heading: title.unwrap_or_else(|| plain(name)),
        origin: plain(name),
        kind: kind.to_owned(),
        facts: vec![("combinations".to_owned(), rows.len().to_string())],
        bars: bars.take(40).collect(),
        tables: vec![Table::of_keyed("Combinations", rows)],
        ..Section::default()
    })
}

/// The least certain value on which the result depends, as its source.
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
