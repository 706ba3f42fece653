//! A filesystem that is only read: its format, and its description.

use std::fmt;

use serde::Serialize;

use crate::map::probe_match::{Facts, Kind};

/// Format of a filesystem that floatgate can only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TreeShape {
    /// Format of the filesystem.
    pub kind: Kind,
}

/// Description of a filesystem that floatgate can only read.
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
        self.facts.shown().try_for_each(|(name, value)| writeln!(f, "  {name}: {value}"))
    }
}
