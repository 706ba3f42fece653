//! Tree of a configuration text: values with their positions.

use super::error::{ConfigError, Problem};
use super::nearest::{listed, nearest, other_unit};
use super::source::{Origin, SourceSpan};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table: nodes by key. Copies share keys and texts, because a setup copies the tables of all referenced files.
pub type Table = BTreeMap<Arc<str>, Node>;

/// A value with its position.
#[derive(Clone, Debug)]
pub struct Node {
    /// The parsed value.
    pub value: Value,
    /// Position of the value. A merged table has the position of its lowest layer.
    pub origin: Origin,
}

/// A TOML value. Dates are stored as text, because no quantity here is a date.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string, or a date as text.
    Text(Arc<str>),
    /// Integer value.
    Integer(i64),
    /// Floating-point value.
    Float(f64),
    /// Boolean value.
    Bool(bool),
    /// The elements of an array, in order.
    Array(Vec<Node>),
    /// The values of a table by key.
    Table(Table),
}

impl Value {
    /// Description of the value for messages, such as `the text "x"` or `an array`.
    pub fn describe(&self) -> String {
        match self {
            Self::Text(text) => describe_text(text),
            Self::Integer(n) => format!("the number {n}"),
            Self::Float(x) => format!("the number {x}"),
            Self::Bool(b) => b.to_string(),
            Self::Array(_) => "an array".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }
}

/// Description of a text, shortened if long.
pub(super) fn describe_text(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        None => format!("the text {text:?}"),
        Some((end, _)) => format!("the text {:?}...", &text[..end]),
    }
}

impl Node {
    /// An empty table.
    pub(super) fn table(origin: Origin) -> Self {
        Self { value: Value::Table(Table::new()), origin }
    }

    /// Entries of a table.
    pub fn as_table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    /// Mutable entries of a table.
    pub fn as_table_mut(&mut self) -> Option<&mut Table> {
        if let Value::Table(table) = &mut self.value { Some(table) } else { None }
    }

    /// The text, if the value is a text.
    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// Child node: the entry of a table, or the element of an array by its index.
    pub fn child(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(table) => table.get(key),
            Value::Array(elements) => elements.get(key.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// Node at a dotted path; the empty path is the node itself.
    pub fn get(&self, path: &str) -> Option<&Self> {
        keys(path).try_fold(self, Self::child)
    }

    /// Dotted paths of all values below this node that are not tables, for a check that each has a source.
    pub fn leaves(&self, path: &str) -> Vec<String> {
        match self.as_table() {
            Some(table) => table.iter().flat_map(|(key, node)| node.leaves(&join(path, key))).collect(),
            None => vec![path.to_owned()],
        }
    }

    /// Merges `upper` over this node. Tables are merged key by key; any other value is replaced.
    #[must_use]
    pub fn merge(self, upper: Self) -> Self {
        match (self.value, upper.value) {
            (Value::Table(mut table), Value::Table(over)) => {
                for (key, node) in over {
                    let merged = match table.remove(&key) {
                        Some(lower) => lower.merge(node),
                        None => node,
                    };
                    table.insert(key, merged);
                }
                Self { value: Value::Table(table), origin: self.origin }
            }
            (_, value) => Self { value, origin: upper.origin },
        }
    }

    /// Rejects keys that are not among `known`. `path` is the path of this table.
    ///
    /// # Errors
    /// The first unknown key in the order of the text; a node that is not a table.
    pub fn only_keys(&self, path: &str, known: &[&str]) -> Result<(), ConfigError> {
        let Some(table) = self.as_table() else {
            return Err(self.wrong(path, format!("expected a table, found {}", self.value.describe())));
        };
        let unknown = table.iter().filter(|(key, _)| !known.contains(&key.as_ref()));
        match unknown.min_by_key(|(_, node)| node.origin.key.start) {
            None => Ok(()),
            Some((key, node)) => Err(unknown_key(path, key, known, node)),
        }
    }

    /// The error [`Problem::WrongValue`] at this node, whose path is `path`.
    pub fn wrong(&self, path: &str, message: impl std::fmt::Display) -> ConfigError {
        let message = if path.is_empty() { message.to_string() } else { format!("`{path}`: {message}") };
        ConfigError::new(Problem::WrongValue, message).path(path).at(self.place_of_fault(path))
    }

    /// Position of the wrong value in this node, whose path is `path`. A merged table has the position of its lowest layer, but the fault
    /// is in the layer above that changed it.
    pub(super) fn place_of_fault(&self, path: &str) -> SourceSpan {
        let is_above = |node: &&Self| !Arc::ptr_eq(&node.origin.source, &self.origin.source);
        let own = |node: &&Self| (!node.origin.source.is_argument(), node.origin.value.start);
        let leaves = if path.is_empty() { Vec::new() } else { self.values() };
        let at_fault = leaves.into_iter().filter(is_above).min_by_key(own);
        at_fault.unwrap_or(self).origin.value_place()
    }

    /// All values below this node that are not tables.
    fn values(&self) -> Vec<&Self> {
        self.as_table().map_or_else(|| vec![self], |table| table.values().flat_map(Self::values).collect())
    }
}

/// The keys of a dotted path.
pub(super) fn keys(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|key| !key.is_empty())
}

/// A path with one more key.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Text(text) => s.serialize_str(text),
            Value::Integer(n) => s.serialize_i64(*n),
            Value::Float(x) => s.serialize_f64(*x),
            Value::Bool(b) => s.serialize_bool(*b),
            Value::Array(elements) => s.collect_seq(elements),
            Value::Table(table) => s.collect_map(table.iter().map(|(key, node)| (key.as_ref(), node))),
        }
    }
}

/// Error for an unknown key.
pub(super) fn unknown_key(path: &str, key: &str, known: &[&str], node: &Node) -> ConfigError {
    let error = ConfigError::new(Problem::UnknownKey, unknown_key_message(path, key))
        .path(join(path, key))
        .at(node.origin.key_place())
        .label("unknown key");
    let number = match &node.value {
        Value::Integer(n) => Some(n.to_string()),
        Value::Float(x) => Some(x.to_string()),
        _ => None,
    };
    if let Some(help) = other_unit(key, known, number.as_deref()) {
        return error.help(help);
    }
    let others = before_merging(path).iter().filter(|key| !known.contains(key));
    let known = &known.iter().chain(others).copied().collect::<Vec<&str>>()[..];
    match nearest(key, known.iter().copied(), 1).first() {
        Some(best) => error.help(format!("did you mean `{best}`? valid keys: {}", listed(known))),
        None if known.is_empty() => error.help("this table has no keys"),
        None => error.help(format!("valid keys: {}", listed(known))),
    }
}

/// Keys of a table in a file that do not exist any more when the files are merged.
const fn before_merging(path: &str) -> &'static [&'static str] {
    match path.as_bytes() {
        b"host" => &["base", "profile", "cpu"],
        b"controller" => &["base", "profile", "work"],
        b"chip" => &["base", "profile"],
        _ => &[],
    }
}

fn unknown_key_message(path: &str, key: &str) -> String {
    if path.is_empty() { format!("unknown key `{key}`") } else { format!("unknown key `{key}` in [{path}]") }
}
