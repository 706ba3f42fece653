//! Result in a form that every renderer can show: the terminal, and the page of `floatgate report`.

use super::plot::Heatmap;
use floatgate_mtd::Breakdown;
use floatgate_mtd::advice::Advice;
use std::borrow::Cow;

/// Report of a result for the user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Title of the setup or another target; empty without a target.
    pub title: String,
    /// Lines below the title: chip, options, and remarks on the whole result.
    pub head: Vec<String>,
    /// Conclusion in one to three sentences. It is at the end of the text, at the start of a section of a page, and in
    /// the summary of several results. Empty if the first row of a table states it.
    pub conclusion: String,
    /// Sections in reading order.
    pub sections: Vec<Section>,
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Section {
    /// Sentences, one per line.
    Text(Vec<String>),
    /// Table of rows and columns.
    Table(Table),
    /// Bars of counts, such as a histogram.
    Bars {
        /// Line above the bars.
        caption: String,
        /// The bars from top to bottom.
        bars: Vec<Bar>,
    },
    /// Advice to the user.
    Advice(Vec<Advice>),
    /// Advice by topic.
    Points(Vec<Point>),
    /// Time by phase, as a stacked bar.
    Phases {
        /// Lines above the bar.
        caption: String,
        /// Time spent in each phase.
        times: Breakdown,
    },
    /// Heat map of ratios, which only a page draws.
    Heat {
        /// Line above the heat map.
        caption: String,
        /// Ratio of each row and column.
        map: Heatmap,
    },
}

/// Advice on one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Topic of the advice.
    pub topic: String,
    /// The advice, in one sentence.
    pub advice: String,
    /// Shell commands that follow the advice.
    pub commands: Vec<String>,
    /// Figures behind the advice.
    pub reasons: Vec<String>,
    /// Findings that would change the advice.
    pub conditions: Vec<String>,
}

/// Bar of a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Name in front of the bar.
    pub name: String,
    /// Length of the bar.
    pub count: u64,
}

/// A table of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Name by which the table is selected among those of its study; empty if it is always shown.
    pub key: &'static str,
    /// Line above the table; empty if the report has only one table.
    pub caption: String,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Rows with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Remarks below the table, one per line.
    pub below: Vec<String>,
    /// True if a page also draws the table as a scatter plot.
    pub plot: bool,
    /// Two columns that should be equal, which are the first axes of this plot.
    pub equal: Option<[&'static str; 2]>,
    /// Cells with a problem, by row and column, which a terminal shows in red.
    pub red: Vec<(usize, usize)>,
    /// True for details that only a page shows.
    pub detail: bool,
    /// Headings of columns that a narrow terminal omits first, the least important one first.
    pub minor: Vec<&'static str>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading, with the unit if the cells have none.
    pub heading: Cow<'static, str>,
    /// Alignment of the cells.
    pub align: Align,
}

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Left, for text.
    Left,
    /// Right, for numbers.
    Right,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text, in one or more lines.
    Text(String),
    /// Number: the exact value, by which tables are sorted, and the displayed text.
    Number {
        /// Exact value.
        value: f64,
        /// Displayed text, with its unit if the heading has none.
        text: String,
    },
}

/// Column of text.
fn words(heading: impl Into<Cow<'static, str>>) -> Column {
    Column { heading: heading.into(), align: Align::Left }
}

/// Column of numbers.
fn numbers(heading: impl Into<Cow<'static, str>>) -> Column {
    Column { heading: heading.into(), align: Align::Right }
}

impl Table {
    /// Creates a table with columns of text, followed by columns of numbers.
    pub fn new(
        columns: &[&'static str],
        columns_of_numbers: &[&'static str],
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        let columns =
            columns.iter().copied().map(words).chain(columns_of_numbers.iter().copied().map(numbers));
        Self { columns: columns.collect(), rows: rows.into_iter().collect(), ..Self::default() }
    }

    /// Adds a column of text.
    #[must_use]
    pub fn then_words(mut self, heading: &'static str) -> Self {
        self.columns.push(words(heading));
        self
    }

    /// Adds columns of numbers whose headings depend on the result.
    #[must_use]
    pub fn then_numbers(mut self, headings: impl IntoIterator<Item = String>) -> Self {
        self.columns.extend(headings.into_iter().map(numbers));
        self
    }

    /// Adds remarks below the table.
    #[must_use]
    pub fn noted(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.below.extend(lines);
        self
    }

    /// Sets the columns that a narrow terminal omits first.
    #[must_use]
    pub fn with_minor(self, headings: &[&'static str]) -> Self {
        Self { minor: headings.to_vec(), ..self }
    }

    /// Sets the caption.
    #[must_use]
    pub fn titled(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }
}

impl Cell {
    /// Cell with a number and its displayed text.
    pub fn shown(value: f64, text: impl Into<String>) -> Self {
        Self::Number { value, text: text.into() }
    }

    /// Cell with a count, which is displayed with all digits.
    pub fn count(value: impl Into<u64>) -> Self {
        let value = value.into();
        Self::shown(value as f64, value.to_string())
    }

    /// Displayed text of the cell.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number { text, .. } => text,
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
