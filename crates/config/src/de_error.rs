//! Errors of serde visitors, before message and position are added.

use super::error::{ConfigError, Problem};
use super::nearest::{did_you_mean, listed};
use super::node::{Node, describe_text, join, unknown_key};
use serde::de::{self, Expected, Unexpected};
use std::fmt;

/// A serde error whose position is not known yet.
#[derive(Debug)]
pub(super) struct DeError {
    kind: Kind,
    /// The node at fault and the position in it; `None` until it is known.
    at: Option<Box<(Node, ErrorPosition)>>,
    /// Keys on the path up from the node at fault, innermost first.
    path: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Message(String),
    UnknownKey { key: String, known: &'static [&'static str] },
    UnknownVariant { found: String, known: &'static [&'static str] },
    MissingKey(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ErrorPosition {
    Key,
    Value,
}

impl DeError {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, at: None, path: Vec::new() }
    }

    /// Sets the position, unless an inner level has set it.
    pub(super) fn at(mut self, node: &Node, position: ErrorPosition) -> Self {
        self.at.get_or_insert_with(|| Box::new((node.clone(), position)));
        self
    }

    pub(super) fn within(mut self, key: impl Into<String>) -> Self {
        self.path.push(key.into());
        self
    }

    pub(super) fn into_config(self, base: &str) -> ConfigError {
        let path = self.path.iter().rev().fold(base.to_owned(), |path, key| join(&path, key));
        let Some((node, position)) = self.at.as_deref() else {
            return ConfigError::new(Problem::WrongValue, self.to_string()).path(path);
        };
        let place = match position {
            ErrorPosition::Key => node.origin.key_place(),
            ErrorPosition::Value => node.place_of_fault(&path),
        };
        match &self.kind {
            Kind::UnknownKey { key, known } if *position == ErrorPosition::Key => {
                unknown_key(&path, key, known, node)
            }
            Kind::MissingKey(key) => missing_key(node, &path, key),
            Kind::UnknownVariant { found, known } => {
                let best = did_you_mean(found, known.iter().copied());
                node.wrong(&path, &self).at(place).help(format!("{best}one of {}", listed(known)))
            }
            _ => node.wrong(&path, &self).at(place),
        }
    }
}

impl fmt::Display for DeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Message(message) => f.write_str(message),
            Kind::UnknownKey { key, .. } => write!(f, "unknown key `{key}`"),
            Kind::UnknownVariant { found, .. } => write!(f, "unknown value {found:?}"),
            Kind::MissingKey(key) => write!(f, "missing key `{key}`"),
        }
    }
}

impl std::error::Error for DeError {}

impl de::Error for DeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Kind::Message(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let message = format!("expected {}, found {}", expectation(expected), finding(found));
        Self::new(Kind::Message(message))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(found: usize, expected: &dyn Expected) -> Self {
        Self::new(Kind::Message(format!("expected {}, found {found} elements", expectation(expected))))
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        Self::new(Kind::UnknownVariant { found: found.to_owned(), known })
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Self::new(Kind::UnknownKey { key: key.to_owned(), known })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(Kind::MissingKey(key))
    }

    fn duplicate_field(key: &'static str) -> Self {
        Self::new(Kind::Message(format!("`{key}` is given twice")))
    }
}

/// The expectation of a serde visitor as text for users who do not know Rust.
fn expectation(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    let range =
        |low: &dyn fmt::Display, high: &dyn fmt::Display| format!("a whole number from {low} to {high}");
    match text.as_str() {
        "u8" => range(&0, &u8::MAX),
        "u16" => range(&0, &u16::MAX),
        "u32" => range(&0, &u32::MAX),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "i8" => range(&i8::MIN, &i8::MAX),
        "i16" => range(&i16::MIN, &i16::MAX),
        "i32" => range(&i32::MIN, &i32::MAX),
        "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "text in quotes".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}

fn finding(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(b) => b.to_string(),
        Unexpected::Signed(n) => format!("the number {n}"),
        Unexpected::Unsigned(n) => format!("the number {n}"),
        Unexpected::Float(x) => format!("the number {x:?}"),
        Unexpected::Str(text) => describe_text(text),
        Unexpected::Seq => "an array".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        other => other.to_string(),
    }
}

/// Error for a missing key in a table.
pub(super) fn missing_key(table: &Node, path: &str, key: &str) -> ConfigError {
    let message = match path {
        "" => format!("missing key `{key}`"),
        path => format!("missing key `{key}` in [{path}]"),
    };
    let error = ConfigError::new(Problem::MissingKey, message).path(join(path, key));
    error.at(table.origin.value_place()).label("this table")
}
