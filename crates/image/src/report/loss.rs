//! Data that was not restored.

use std::fmt;

use serde::Serialize;

use crate::words::show_path;

/// Data or attributes that were not restored exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Path in the filesystem; bytes that are not UTF-8 have the form `\xNN`.
    pub path: String,
    /// Description of the loss and its reason.
    pub what: String,
}

impl Loss {
    /// A loss at a path.
    pub fn new(path: &[Vec<u8>], what: impl Into<String>) -> Self {
        Self { path: show_path(path), what: what.into() }
    }
}

/// The root directory stands for the whole filesystem, and its path is not printed.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "/" => f.write_str(&self.what),
            path => write!(f, "{path}: {}", self.what),
        }
    }
}
