//! Tables as text: all columns if they fit, otherwise fewer columns, or a block of lines per row if not even two
//! columns fit.

use crate::terminal;
use crate::wrap::{self, width, words};
use std::fmt;
use std::ops::RangeBounds;

/// Number of spaces between two columns.
const GAP: usize = 2;

/// Width from which the text of a column is prose that can be wrapped at spaces; shorter texts are names or numbers.
const PROSE: usize = 28;

/// A table, in the layout of the whole command.
///
/// In a pipe each row is one line of any length. On a terminal, prose is wrapped at spaces, and optional columns are
/// omitted if the last column would be too narrow. If the columns are still too wide, more columns are omitted: first
/// the minor columns in their order, then the inner columns from the right. A line below the table names them. Names
/// and numbers are never broken.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Columns that are aligned to the right.
    numbers: Vec<bool>,
    /// Red cells, by row and column.
    red: Vec<(usize, usize)>,
    /// Columns that may be omitted, in the order of their omission.
    optional: Vec<usize>,
    /// Columns that are omitted before all others if the table does not fit, the least important first.
    minor: Vec<usize>,
    /// Width of the terminal, columns; `None` in a pipe.
    limit: Option<usize>,
}

/// Width of the last column below which optional columns are omitted, if its text is wider.
const ROOMY: usize = 40;

impl Table {
    pub(crate) fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        let header: Vec<String> = header.into_iter().map(Into::into).collect();
        let numbers = vec![false; header.len()];
        Self {
            header,
            rows: Vec::new(),
            numbers,
            red: Vec::new(),
            optional: Vec::new(),
            minor: Vec::new(),
            limit: terminal::columns(),
        }
    }

    /// Aligns columns to the right: numbers.
    pub(crate) fn numbers(mut self, columns: impl RangeBounds<usize>) -> Self {
        for (column, right) in self.numbers.iter_mut().enumerate() {
            *right |= columns.contains(&column);
        }
        self
    }

    /// Marks columns as optional on a narrow terminal, in the order of their omission.
    pub(crate) fn optional(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.optional.extend(columns);
        self
    }

    /// Marks columns that are omitted before all others if the table does not fit, the least important first.
    pub(crate) fn minor(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.minor.extend(columns);
        self
    }

    /// True if the last column is wide enough to be read.
    fn is_roomy(&self) -> bool {
        let last = self.header.len().saturating_sub(1);
        let needed = self.rows.iter().filter_map(|row| row.get(last)).map(|cell| widest_line(cell)).max();
        self.widths().is_some_and(|widths| widths.get(last).copied() >= needed.map(|all| all.min(ROOMY)))
    }

    /// True when each row fits on one line of the terminal.
    fn is_wide_enough(&self) -> bool {
        let all = self.unlimited().iter().sum::<usize>() + GAP * self.header.len().saturating_sub(1);
        self.limit.is_none_or(|limit| all <= limit)
    }

    /// The columns in which a row has something, and the first one.
    fn filled(&self) -> Vec<usize> {
        let is_filled = |(column, cells): &(usize, Vec<&str>)| {
            *column == 0 || self.rows.is_empty() || cells.iter().any(|cell| !cell.is_empty())
        };
        self.columns().filter(is_filled).map(|(column, _)| column).collect()
    }

    /// The table as it fits the terminal: without optional columns where it is too narrow. Columns without an entry
    /// are left out first, without a remark.
    fn fitted(&self) -> Self {
        if self.is_wide_enough() {
            return self.clone();
        }
        let mut left = self.filled();
        let mut fitted = self.of_columns(&left);
        for &column in self.optional.iter().filter(|_| self.limit.is_some()) {
            if fitted.is_roomy() {
                break;
            }
            left.retain(|&other| other != column);
            fitted = self.of_columns(&left);
        }
        fitted
    }

    /// The table with only these columns.
    fn of_columns(&self, columns: &[usize]) -> Self {
        let of = |cells: &Vec<String>| columns.iter().filter_map(|&at| cells.get(at).cloned()).collect();
        let place = |column: usize| columns.iter().position(|&at| at == column);
        Self {
            header: of(&self.header),
            rows: self.rows.iter().map(of).collect(),
            numbers: columns.iter().filter_map(|&at| self.numbers.get(at).copied()).collect(),
            red: self.red.iter().filter_map(|&(row, column)| Some((row, place(column)?))).collect(),
            optional: self.optional.iter().filter_map(|&column| place(column)).collect(),
            minor: self.minor.iter().filter_map(|&column| place(column)).collect(),
            limit: self.limit,
        }
    }

    /// Adds a row; missing cells at its end are empty.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.header.len(), String::new());
        self.rows.push(cells);
    }

    /// Marks a cell of the last row as red, if colours are used.
    pub(crate) fn red(&mut self, column: usize) {
        self.red.push((self.rows.len().saturating_sub(1), column));
    }

    fn columns(&self) -> impl Iterator<Item = (usize, Vec<&str>)> {
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        (0..self.header.len()).map(move |column| (column, cells(column).map(String::as_str).collect()))
    }

    /// Width of each column; `None` if the table is too wide even with wrapped texts.
    fn widths(&self) -> Option<Vec<usize>> {
        let header = |column: usize| self.header.get(column).map_or("", String::as_str);
        let most: Vec<usize> = self
            .columns()
            .map(|(column, cells)| {
                cells.iter().map(|cell| widest_line(cell)).max().unwrap_or(0).max(width(header(column)))
            })
            .collect();
        let limit = self.limit?.saturating_sub(GAP * self.header.len().saturating_sub(1));
        if most.iter().sum::<usize>() <= limit {
            return Some(most);
        }
        let mut widths: Vec<usize> = self
            .columns()
            .map(|(column, cells)| {
                cells.iter().map(|cell| least(cell)).max().unwrap_or(0).max(widest_word(header(column)))
            })
            .collect();
        let mut spare = limit.checked_sub(widths.iter().sum())?;
        // The column that lacks most is widened first.
        while spare > 0 {
            let lacking =
                widths.iter_mut().zip(&most).max_by_key(|(width, most)| most.saturating_sub(**width));
            let Some((width, _)) = lacking else { break };
            *width += 1;
            spare -= 1;
        }
        Some(widths)
    }

    /// Widths for one line per row: those of the widest cells.
    fn unlimited(&self) -> Vec<usize> {
        let header = self.header.iter().map(|title| width(title));
        let cells = self
            .columns()
            .map(|(_, cells)| cells.iter().map(|cell| width(&one_line(cell))).max().unwrap_or(0));
        header.zip(cells).map(|(header, cells)| header.max(cells)).collect()
    }

    fn draw(&self, widths: &[usize], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header: Vec<Vec<String>> =
            self.header.iter().zip(widths).map(|(text, &w)| wrapped(text, w)).collect();
        self.draw_row(&header, widths, None, f)?;
        if self.limit.is_some() {
            let rule = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
            writeln!(f, "{}", "─".repeat(rule))?;
        }
        for (number, row) in self.rows.iter().enumerate() {
            let fold = |(text, &width): (&String, &usize)| match self.limit {
                Some(_) => wrapped(text, width),
                None => vec![one_line(text)],
            };
            let cells: Vec<Vec<String>> = row.iter().zip(widths).map(fold).collect();
            if number > 0 {
                writeln!(f)?;
            }
            self.draw_row(&cells, widths, Some(number), f)?;
        }
        Ok(())
    }

    /// Draws the lines of a row or of the header; the last line has no line feed.
    fn draw_row(
        &self,
        cells: &[Vec<String>],
        widths: &[usize],
        number: Option<usize>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut text = String::new();
            let mut at = 0;
            for (column, (cell, &wide)) in cells.iter().zip(widths).enumerate() {
                let part = cell.get(line).map_or("", String::as_str);
                let space = wide.saturating_sub(width(part));
                let right = self.numbers.get(column) == Some(&true);
                if !part.is_empty() {
                    let before = at + if right { space } else { 0 };
                    text += &" ".repeat(before);
                    text += &self.styled(part, number, column);
                    at = if right { 0 } else { space };
                } else {
                    at += wide;
                }
                at += GAP;
            }
            let end = if number.is_some() && line + 1 == height { "" } else { "\n" };
            write!(f, "{text}{end}")?;
        }
        Ok(())
    }

    fn styled(&self, text: &str, row: Option<usize>, column: usize) -> String {
        let red = row.is_some_and(|row| self.red.contains(&(row, column))) && terminal::colour();
        if red { format!("\u{1B}[31m{text}\u{1B}[39m") } else { text.to_owned() }
    }

    /// The table without as many columns as necessary, and the headings of the omitted columns: the minor columns
    /// first, then the inner columns from the right. `None` if the first column and one more do not fit.
    fn narrowed(&self) -> Option<(Self, Vec<&str>)> {
        let last = self.header.len().checked_sub(1)?;
        let inner = (1..last).rev().filter(|column| !self.minor.contains(column));
        let mut left: Vec<usize> = (0..=last).collect();
        for column in self.minor.iter().copied().chain(inner) {
            left.retain(|&other| other != column);
            let narrowed = self.of_columns(&left);
            if left.len() > 1 && narrowed.widths().is_some() {
                let is_out = |column: &usize| !left.contains(column);
                let headings = (0..=last)
                    .filter(is_out)
                    .filter_map(|column| self.header.get(column))
                    .map(String::as_str);
                return Some((narrowed, headings.filter(|heading| !heading.is_empty()).collect()));
            }
        }
        None
    }

    /// Draws a block for each row: its first cell, and below it a line for each other cell.
    fn stack(&self, limit: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles = self.header.iter().skip(1).map(|title| width(title)).max().unwrap_or(0);
        for (number, row) in self.rows.iter().enumerate() {
            let first = row.first().map_or("", String::as_str);
            write!(f, "{}{}", if number == 0 { "" } else { "\n" }, wrapped(first, limit).join("\n"))?;
            for (column, (title, cell)) in self.header.iter().zip(row).enumerate().skip(1) {
                let indent = 2 + titles + GAP;
                for (line, part) in wrapped(cell, limit.saturating_sub(indent).max(1)).iter().enumerate() {
                    let title = if line == 0 { title.as_str() } else { "" };
                    let space = " ".repeat(titles - width(title) + GAP);
                    if !part.is_empty() {
                        write!(f, "\n  {title}{space}{}", self.styled(part, Some(number), column))?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitted = self.fitted();
        match (self.limit, fitted.widths()) {
            (None, _) => self.draw(&self.unlimited(), f),
            (Some(_), Some(widths)) => fitted.draw(&widths, f),
            (Some(limit), None) => match fitted.narrowed() {
                Some((narrowed, left_out)) => {
                    narrowed.draw(&narrowed.widths().unwrap_or_default(), f)?;
                    match &left_out[..] {
                        [] => Ok(()),
                        named => write!(f, "\ncolumns left out: {}", named.join("; ")),
                    }
                }
                None => self.stack(limit, f),
            },
        }
    }
}

fn widest_line(text: &str) -> usize {
    text.lines().map(width).max().unwrap_or(0)
}

fn widest_word(text: &str) -> usize {
    words(text).map(width).max().unwrap_or(0)
}

/// Smallest width of a cell; lines of prose can be wrapped.
fn least(text: &str) -> usize {
    let of = |line: &str| if width(line) > PROSE { widest_word(line).max(PROSE) } else { width(line) };
    text.lines().map(of).max().unwrap_or(0)
}

/// The lines of a cell, joined to one line.
fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("; ")
}

/// Lines of a cell with at most `limit` columns, unless a single word is longer.
fn wrapped(text: &str, limit: usize) -> Vec<String> {
    let lines: Vec<String> = text.lines().flat_map(|line| wrap::wrapped(line, limit)).collect();
    if lines.is_empty() { vec![String::new()] } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(limit: Option<usize>) -> String {
        let mut table =
            Table { limit, ..Table::new(["chip", "cycles until failure", "what it is"]).numbers(1..2) };
        table.row(["mt29f8g08maawc", "9 273 006", "an MLC NAND of 8 Gbit with pages of 2048 bytes"]);
        table.row(["w35n01jw", "65 000", "octal"]);
        table.to_string()
    }

    #[test]
    fn a_pipe_gets_one_line_for_each_row() {
        let text = sample(None);
        assert_eq!(text.lines().count(), 3);
        assert!(
            text.contains(
                "mt29f8g08maawc             9 273 006  an MLC NAND of 8 Gbit with pages of 2048 bytes\n"
            ),
            "{text}"
        );
        assert!(text.lines().all(|line| !line.ends_with(' ')));
    }

    #[test]
    fn prose_and_headers_are_wrapped_and_numbers_are_not() {
        for limit in 20..120 {
            let text = sample(Some(limit));
            let longest = text.lines().map(width).max().unwrap();
            // The narrowest layout is a block with the longest word.
            assert!(longest <= limit.max(36), "{limit}:\n{text}");
            for whole in ["9 273 006", "65 000", "mt29f8g08maawc", "w35n01jw", "8 Gbit"] {
                let is_left_out = text.ends_with("columns left out: cycles until failure");
                if is_left_out && whole.contains(' ') && whole != "8 Gbit" {
                    continue;
                }
                assert!(text.lines().any(|line| line.contains(whole)), "{limit} breaks {whole}:\n{text}");
            }
        }
    }

    #[test]
    fn a_table_that_is_too_wide_becomes_blocks() {
        let text = sample(Some(36));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["mt29f8g08maawc", "  cycles until failure  9 273 006"], "{text}");
        assert!(lines.contains(&"w35n01jw"));
    }

    #[test]
    fn optional_columns_are_left_out_before_the_last_one_is_narrow() {
        let drawn = |limit: usize| {
            let header = ["part", "maker", "sure", "description"];
            let mut table = Table { limit: Some(limit), ..Table::new(header).numbers(2..3).optional([1, 2]) };
            table.row(["w35n01jw", "Winbond", "90 %", "octal SPI NAND of 1 Gbit, 1.8 V, double data rate"]);
            table
                .to_string()
                .lines()
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(drawn(100), "part maker sure description");
        assert_eq!(drawn(60), "part sure description");
        assert_eq!(drawn(52), "part description");
    }

    #[test]
    fn minor_columns_are_left_out_before_all_others() {
        let drawn = |limit: usize| {
            let header = ["row", "published", "residual", "kind", "setup"];
            let mut table = Table { limit: Some(limit), ..Table::new(header).numbers(1..3).minor([4, 3]) };
            table.row(["page read", "5688", "-0.1 %", "predicted", "am62a-w35n01jw --set bus.mode=1-1-8"]);
            table.to_string()
        };
        let heading = |limit| drawn(limit).lines().next().unwrap_or_default().trim_end().to_owned();
        assert_eq!(heading(80), "row        published  residual  kind       setup");
        assert_eq!(heading(50), "row        published  residual  kind");
        assert_eq!(heading(36), "row        published  residual");
        assert!(drawn(36).ends_with("columns left out: kind; setup"), "{}", drawn(36));
    }

    /// A column without an entry is not the reason for which another one is left out.
    #[test]
    fn empty_columns_are_left_out_first_and_unnamed() {
        let header = ["row", "residual", "left out", "setup"];
        let mut table = Table { limit: Some(40), ..Table::new(header).numbers(1..3).minor([3]) };
        table.row(["page read", "-0.1 %", "", "am62a-w35n01jw"]);
        let text = table.to_string();
        assert_eq!(text.lines().next(), Some("row        residual  setup"));
        assert!(!text.contains("left out"), "{text}");
    }

    #[test]
    fn a_list_in_a_cell_is_one_line_in_a_pipe() {
        let mut table = Table { limit: None, ..Table::new(["field", "value"]) };
        table.row(["modes", "1-1-1\n1-1-4"]);
        assert!(table.to_string().ends_with("modes  1-1-1; 1-1-4"));
    }
}
