//! A result in a form that every renderer shows: the terminal, and the page of `floatgate report`.

use floatgate_mtd::advice::Advice;

/// A result for a person.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Title of the setup or the like; empty where there is none.
    pub title: String,
    /// Lines below the title: the chip, the options, what is about the whole result.
    pub head: Vec<String>,
    /// Conclusion in one to three sentences: the end of the text, the beginning of a page's section, and the line in a summary of several results. Empty where
    /// the first row of a table says it.
    pub conclusion: String,
    /// Sections in the order in which they are read.
    pub sections: Vec<Section>,
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Section {
    /// Sentences, each a line.
    Text(Vec<String>),
    /// Rows and columns.
    Table(Table),
    /// A bar for each count, such as those of a histogram.
    Bars {
        /// Line above the bars.
        caption: String,
        /// The bars from top to bottom.
        bars: Vec<Bar>,
    },
    /// Advice on what to do.
    Advice(Vec<Advice>),
}

/// A bar with its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Name before the bar.
    pub name: String,
    /// Its length.
    pub count: u64,
}

/// A table of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Name by which the table is chosen among those of its study; empty where it is always shown.
    pub key: &'static str,
    /// Line above the table; empty where the report has a single one.
    pub caption: String,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Rows with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Lines below the table: remarks on it.
    pub below: Vec<String>,
    /// True when a page draws it as a scatter plot, too.
    pub plot: bool,
    /// Headings of columns that a narrow terminal leaves out before all others, the least important one first.
    pub minor: Vec<&'static str>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading, with the unit where the cells have none.
    pub heading: &'static str,
    /// Side to which the cells are aligned.
    pub align: Align,
}

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// To the left, for words.
    Left,
    /// To the right, for numbers.
    Right,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words, in one or more lines.
    Text(String),
    /// A number: the exact value, which tables are sorted by, and the text that is shown.
    Number {
        /// The exact value.
        value: f64,
        /// The value as it is shown, with its unit where the heading has none.
        text: String,
    },
}

/// A column of words.
const fn words(heading: &'static str) -> Column {
    Column { heading, align: Align::Left }
}

/// A column of numbers.
const fn numbers(heading: &'static str) -> Column {
    Column { heading, align: Align::Right }
}

impl Table {
    /// A table with columns of words, then of numbers.
    pub fn new(
        columns: &[&'static str],
        columns_of_numbers: &[&'static str],
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        let columns =
            columns.iter().copied().map(words).chain(columns_of_numbers.iter().copied().map(numbers));
        Self { columns: columns.collect(), rows: rows.into_iter().collect(), ..Self::default() }
    }

    /// The table with one more column of words.
    #[must_use]
    pub fn then_words(mut self, heading: &'static str) -> Self {
        self.columns.push(words(heading));
        self
    }

    /// The table with columns that a narrow terminal leaves out before all others.
    #[must_use]
    pub fn with_minor(self, headings: &[&'static str]) -> Self {
        Self { minor: headings.to_vec(), ..self }
    }

    /// The table with a caption.
    #[must_use]
    pub fn titled(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }
}

impl Cell {
    /// A number as it is shown, with its exact value.
    pub fn shown(value: f64, text: impl Into<String>) -> Self {
        Self::Number { value, text: text.into() }
    }

    /// A count, which is shown whole.
    pub fn count(value: impl Into<u64>) -> Self {
        let value = value.into();
        Self::shown(value as f64, value.to_string())
    }

    /// The text that is shown.
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
