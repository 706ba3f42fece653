//! Result in a form that every renderer can show: the terminal, and the page of `floatgate report`.

use super::number::three;
use super::plot::{self, BarRow, Heatmap, Scale};
use floatgate_device::Span;
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
    /// Times by phase of several tests.
    Times(Times),
    /// One operation on the timelines of its resources.
    Waterfall(Waterfall),
    /// Names and values of figures, which a page compares with those of its other results.
    Compared(Vec<(String, Cell)>),
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

/// Times by phase, with a stacked bar for each test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Tests from top to bottom.
    pub rows: Vec<Timed>,
    /// Meaning of a row in a picture: `test`.
    pub noun: &'static str,
    /// Title and subtitle of a picture.
    pub title: (String, String),
    /// True if tables of the report have the figures, so that a terminal does not show the bars.
    pub is_page_only: bool,
}

/// Time of a test by phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timed {
    /// Bar with its name and the note of a picture. A page shows no bar without a time.
    pub bar: BarRow,
    /// Figure of the test, as the end of a sentence that begins with the name of the bar.
    pub figure: String,
    /// Remarks between the figure and the bar, one per line.
    pub above: Vec<String>,
    /// Remarks below the bar, one per line.
    pub below: Vec<Advice>,
    /// True if another row states the figure of this one. Only pictures show the row.
    pub is_folded: bool,
}

/// One operation on the timelines of its resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waterfall {
    /// The operation. A sentence is the operation followed by its duration.
    pub operation: String,
    /// Duration, as the end of that sentence.
    pub duration: String,
    /// Title and subtitle of a picture.
    pub title: (String, String),
    /// Activities of every resource.
    pub spans: Vec<Span>,
    /// Time of the foreground by phase.
    pub breakdown: Breakdown,
}

impl Report {
    /// Picture of the report's bars or of its waterfall, as an SVG document; `None` if it has neither.
    pub fn picture(&self) -> Option<String> {
        self.sections.iter().find_map(|section| match section {
            Section::Times(Times { rows, noun, title: (title, subtitle), .. }) => {
                let bars: Vec<BarRow> = rows.iter().map(|row| row.bar.clone()).collect();
                Some(plot::bars(&bars, noun, (title, subtitle), Scale::fitting(&bars)))
            }
            Section::Waterfall(Waterfall { spans, title: (title, subtitle), .. }) => {
                Some(plot::waterfall_svg(spans, title, subtitle))
            }
            _ => None,
        })
    }
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
    /// True if a terminal does not show the caption, because the rows explain themselves.
    pub is_quiet: bool,
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
    /// True if a terminal does not show the heading, because the cells explain themselves.
    pub is_quiet: bool,
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
    Column { heading: heading.into(), align: Align::Left, is_quiet: false }
}

/// Column of numbers.
fn numbers(heading: impl Into<Cow<'static, str>>) -> Column {
    Column { heading: heading.into(), align: Align::Right, is_quiet: false }
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
    pub fn then_words(mut self, heading: impl Into<Cow<'static, str>>) -> Self {
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

    /// Hides the headings of these columns in a terminal.
    #[must_use]
    pub fn quiet(mut self, headings: &[&str]) -> Self {
        for column in self.columns.iter_mut().filter(|column| headings.contains(&&*column.heading)) {
            column.is_quiet = true;
        }
        self
    }

    /// Sets a caption that a terminal does not show.
    #[must_use]
    pub fn named(self, caption: impl Into<String>) -> Self {
        Self { is_quiet: true, ..self.titled(caption) }
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

    /// Cell with a number, which is displayed with three significant digits.
    pub fn number(value: f64) -> Self {
        Self::shown(value, three(value))
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
