//! Results of consecutive designs by column, as sent by workers and stored in a checkpoint.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Result of a measured design.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// Figures by name; `None` if the design has no value.
    pub(super) figures: Vec<(String, Option<f64>)>,
    pub(super) texts: Vec<(Cow<'static, str>, String)>,
    /// Reason why the design is impossible; it then has no figures.
    pub(super) refused: Option<String>,
}

/// A column: its name, and a value or `None` for each design.
pub(super) type Column<T> = (String, Vec<Option<T>>);

/// Results of consecutive designs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Batch {
    /// Number of the first design.
    pub(super) first: usize,
    pub(super) figures: Vec<Column<f64>>,
    pub(super) texts: Vec<Column<String>>,
    pub(super) refused: Vec<Option<String>>,
}

impl Batch {
    pub(super) fn new(first: usize, records: Vec<Record>) -> Self {
        let count = records.len();
        let mut batch =
            Self { first, figures: Vec::new(), texts: Vec::new(), refused: Vec::with_capacity(count) };
        for (at, record) in records.into_iter().enumerate() {
            for (name, value) in record.figures {
                put(&mut batch.figures, &name, count, at, value);
            }
            for (name, text) in record.texts {
                put(&mut batch.texts, &name, count, at, Some(text));
            }
            batch.refused.push(record.refused);
        }
        batch
    }

    /// Number of designs.
    pub fn len(&self) -> usize {
        self.refused.len()
    }

    /// True if the batch has no designs.
    pub fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    /// JSON text of the batch in one line, without a line feed.
    pub fn to_line(&self) -> String {
        // The conversion cannot fail: the batch contains only texts and finite numbers.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses a batch from its line; `None` for an invalid line.
    pub fn from_line(line: &str) -> Option<Self> {
        let batch: Self = serde_json::from_str(line).ok()?;
        batch.is_whole().then_some(batch)
    }

    /// True if the batch is not empty and each column has one entry per design.
    pub(super) fn is_whole(&self) -> bool {
        let count = self.len();
        let is_whole = self.figures.iter().all(|(_, column)| column.len() == count)
            && self.texts.iter().all(|(_, column)| column.len() == count);
        is_whole && count > 0
    }

    /// Figure of the design at an index of the batch.
    pub(super) fn figure(&self, name: &str, at: usize) -> Option<f64> {
        self.figures.iter().find(|(known, _)| known == name)?.1.get(at).copied().flatten()
    }
}

fn put<T: Clone>(columns: &mut Vec<Column<T>>, name: &str, count: usize, at: usize, value: Option<T>) {
    let place = columns.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
        columns.push((name.to_owned(), vec![None; count]));
        columns.len() - 1
    });
    columns[place].1[at] = value;
}
