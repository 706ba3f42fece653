//! The least certain value on which a result depends.
//!
//! To test whether a result depends on a value, the value is changed and the result is computed again.

use floatgate_config::{About, Config, ConfigError, Kind, Library, Node, Override, Part, Setup, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// A value with its file and its confidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certainty {
    /// Dotted path of the value.
    pub field: String,
    /// File that holds the value.
    pub file: String,
    /// Probability that the value is right, 0 to 1.
    pub confidence: f64,
    /// Source of the value.
    pub from: String,
}

impl std::fmt::Display for Certainty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { field, file, confidence, from } = self;
        let meaning = meaning(field).map_or_else(String::new, |meaning| format!(" ({meaning})"));
        write!(f, "{field}{meaning} of {file}, {:.0} % sure: {from}", confidence * 100.0)
    }
}

/// First part of the documentation of a key.
fn meaning(field: &str) -> Option<String> {
    // A typical and a longest time share the documentation of their key.
    let key = field.strip_suffix(".typ").or_else(|| field.strip_suffix(".max")).unwrap_or(field);
    let known = floatgate_config::keys().into_iter().find(|known| known.key == key)?;
    let end = known.meaning.find([':', ';', '.', '(', ',']).unwrap_or(known.meaning.len());
    Some(known.meaning[..end].trim().to_owned()).filter(|meaning| !meaning.is_empty())
}

/// Tables whose numbers are times, rates and costs.
const TABLES: [&str; 4] = ["chip.timing", "chip.erase", "controller", "host"];

/// Least certain number on which the result `answer` depends. Values from the setup or the user count as certain.
///
/// # Errors
/// A setup or a file cannot be read.
pub fn least_certain<T: PartialEq>(
    library: &Library,
    setup: &Setup,
    sets: &[Override],
    answer: impl Fn(&Config) -> Option<T>,
) -> Result<Option<Certainty>, ConfigError> {
    let config = library.resolve(setup, sets)?;
    let before = answer(&config);
    let depends = |field: &str, node: &Node| {
        changed(node).into_iter().any(|value| {
            let mut all = sets.to_vec();
            let Ok(set) = Override::parse(&format!("{field}={value}"), all.len() + 1) else { return false };
            all.push(set);
            let after = library.resolve(setup, &all).ok().and_then(|config| answer(&config));
            after.is_some() && after != before
        })
    };
    let mut all = numbers(library, &Heads::default(), &config, &TABLES)?;
    all.sort_by(|a, b| a.0.confidence.total_cmp(&b.0.confidence));
    Ok(all.into_iter().find(|(value, node)| depends(&value.field, node)).map(|(value, _)| value))
}

/// Costs of software and controller for each call, page and operation. Other numbers are ignored for the time of a
/// test.
const COSTS: [&str; 9] = [
    "host.call_us",
    "host.page_us",
    "host.copy_ns_per_kb",
    "host.wakeup_us",
    "controller.exec",
    "controller.op_cost",
    "controller.step_us",
    "controller.rx",
    "controller.tx",
];

/// Lowest confidence among the costs of software and controller; 1 if the setup or the user states all of them.
///
/// # Errors
/// A file cannot be read.
pub fn of_costs(library: &Library, heads: &Heads, config: &Config) -> Result<f64, ConfigError> {
    let all = numbers(library, heads, config, &COSTS)?;
    Ok(all.into_iter().map(|(value, _)| value.confidence).fold(1.0, f64::min))
}

/// A value of a part, controller or host with its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced {
    /// Path, source and confidence of the value.
    pub certainty: Certainty,
    /// The value as TOML.
    pub value: String,
}

/// All values of chip, controller and host that have a source, in ascending order of confidence.
///
/// # Errors
/// A file cannot be read.
pub fn sources(library: &Library, config: &Config) -> Result<Vec<Sourced>, ConfigError> {
    let mut all: Vec<Sourced> = numbers(library, &Heads::default(), config, &["chip", "controller", "host"])?
        .into_iter()
        .map(|(certainty, node)| Sourced { value: text(node), certainty })
        .collect();
    all.sort_by(|a, b| a.certainty.confidence.total_cmp(&b.certainty.confidence));
    Ok(all)
}

/// Text of a value, as a person writes it.
fn text(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => text.as_ref().to_owned(),
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => x.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Table(_) => "a table".to_owned(),
    }
}

/// Values in these tables of a setup's files, with their sources.
fn numbers<'a>(
    library: &Library,
    heads: &Heads,
    config: &'a Config,
    tables: &[&str],
) -> Result<Vec<(Certainty, &'a Node)>, ConfigError> {
    let mut all = Vec::new();
    for &table in tables {
        for field in config.tree().get(table).map_or_else(Vec::new, |node| node.leaves(table)) {
            let Some(node) = config.tree().get(&field) else { continue };
            let file = node.origin.source.name();
            if let Some(source) = heads.read(library, file)?.source_of(&field) {
                let (confidence, from) = (source.confidence, source.from.clone());
                all.push((Certainty { file: file.to_owned(), confidence, from, field }, node));
            }
        }
    }
    Ok(all)
}

/// Heads of the files of one library. Each file is read once.
#[derive(Debug, Default)]
pub struct Heads(RwLock<BTreeMap<String, Arc<About>>>);

impl Heads {
    fn read(&self, library: &Library, file: &str) -> Result<Arc<About>, ConfigError> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(file) {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(about(library, file)?);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(file.to_owned(), Arc::clone(&read));
        Ok(read)
    }
}

/// Head of a file of the library. Other files, such as the setup itself, have no sources.
fn about(library: &Library, file: &str) -> Result<About, ConfigError> {
    for kind in [Kind::Part, Kind::Controller, Kind::Host] {
        let name = file.strip_prefix(kind.folder()).and_then(|rest| rest.strip_prefix('/'));
        let name = name.and_then(|name| name.strip_suffix(".toml"));
        if let Some(name) = name.filter(|name| library.has(kind, name)) {
            let head = library.load(kind, name)?.head;
            if kind == Kind::Part {
                let Part { sources, .. } = head.extract("")?;
                return Ok(About { sources, ..About::default() });
            }
            return head.extract("");
        }
    }
    Ok(About::default())
}

/// Test values that replace a number: half of it and, if that value is refused, twice the number.
fn changed(node: &Node) -> Vec<String> {
    match node.value {
        Value::Integer(0) => vec!["1".to_owned(), "1000".to_owned()],
        Value::Integer(n) => vec![(n / 2).to_string(), n.saturating_mul(2).to_string()],
        Value::Float(x) => vec![(x / 2.0).to_string(), (x * 2.0).to_string()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Operation, trace};
    use floatgate_sim::rig::RigOptions;

    fn least(setup: &str, sets: &[&str], operation: Operation) -> Certainty {
        let library = Library::built_in();
        let setup = library.setup(setup).unwrap();
        let sets = Override::parse_all(sets).unwrap();
        let ns = |config: &Config| {
            trace(&library, config, RigOptions::default(), operation).ok().map(|traced| traced.ns)
        };
        least_certain(&library, &setup, &sets, ns).unwrap().unwrap()
    }

    /// An erase does not depend on the time of a program, even if that time is uncertain.
    #[test]
    fn only_values_count_on_which_the_answer_depends() {
        let read = least("imx6-mx30lf2g18ac", &[], Operation::ReadPage);
        let known = ["host.call_us=1", "host.page_us=6", "host.instruction_ps=568"];
        let erase = least("imx6-mx30lf2g18ac", &known, Operation::Erase);
        assert!(read.field.starts_with("host.") && read.confidence < 0.5, "{read:?}");
        assert!(!erase.field.starts_with("host."), "what the user gives is taken as certain: {erase:?}");
        for (operation, wrong) in [(Operation::Erase, "t_prog_us"), (Operation::WritePage, "t_bers_us")] {
            assert!(!least("imx6-mx30lf2g18ac", &known, operation).field.contains(wrong));
        }
    }
}
