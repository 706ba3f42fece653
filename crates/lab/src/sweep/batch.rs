//! Results of consecutive designs, by column: what workers send, and what a checkpoint keeps.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A measured design.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// None where the design has no value in a column of its.
    pub(super) figures: Vec<(String, Option<f64>)>,
    pub(super) texts: Vec<(Cow<'static, str>, String)>,
    /// Reason for which the design cannot be; then there are no figures.
    pub(super) refused: Option<String>,
}

/// A column: its name, and a value for each design that has one.
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

    /// True without any design.
    pub fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    /// The batch as a line of JSON, without its end.
    pub fn to_line(&self) -> String {
        // Texts and finite numbers: there is nothing that JSON does not have.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A batch from its line; `None` for a line that is not valid.
    pub fn from_line(line: &str) -> Option<Self> {
        let batch: Self = serde_json::from_str(line).ok()?;
        batch.is_whole().then_some(batch)
    }

    /// True when each column has a place for each of one or more designs.
    pub(super) fn is_whole(&self) -> bool {
        let count = self.len();
        let is_whole = self.figures.iter().all(|(_, column)| column.len() == count)
            && self.texts.iter().all(|(_, column)| column.len() == count);
        is_whole && count > 0
    }

    /// A figure of the design at a place of the batch.
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
