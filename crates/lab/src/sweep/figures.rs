//! Figures that a measurement returns.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A figure of one chip.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(super) enum Figure {
    /// A quantity in its own unit.
    Value(f64),
    /// Number of events among tries; the figure is their share.
    Share { hits: u64, tries: u64 },
}

/// Figures of one chip, and its text values.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct ChipFigures {
    pub(super) figures: Vec<(String, Figure)>,
    pub(super) texts: Vec<(Cow<'static, str>, String)>,
}
