//! A filesystem that is only read: its format, and its description.

use std::fmt;

use serde::Serialize;

use crate::map::probe_match::{Facts, Kind, Value};

/// The format of a filesystem that is only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TreeShape {
    /// Format of the filesystem.
    pub kind: Kind,
}

/// Description of a filesystem that is only read.
#[derive(Clone, Debug, Serialize)]
pub struct TreeInfo {
    /// Format of the filesystem.
    pub kind: Kind,
    /// Properties that the format states.
    pub facts: Facts,
}

impl TreeInfo {
    /// Writes the properties, a line each.
    pub(in crate::format) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.facts.0 {
            let name = name.replace('_', " ");
            match value {
                Value::Text(text) => writeln!(f, "  {name}: {text}")?,
                Value::Number(number) => writeln!(f, "  {name}: {number}")?,
                Value::Real(number) => writeln!(f, "  {name}: {number:.2}")?,
            }
        }
        Ok(())
    }
}
