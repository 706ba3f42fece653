//! Sections from CSV files.

use crate::show::csv::records;
use crate::show::page::model::{Cell, Row, Section, Table, plain, rows_of};
use floatgate_sim::error::Error;

/// Help text for a CSV that cannot be shown.
const HELP: &str = "give a CSV file as floatgate prints it: a header line, and rows with as many fields";

/// Section with the rows of a CSV file (RFC 4180, also with LF line ends).
pub(super) fn section(name: &str, text: &str) -> Result<Section, Error> {
    let refuse = |message: String| Error::request(format!("{name}: {message}"), HELP);
    // Spreadsheets write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = records(text).map_err(refuse)?.into_iter();
    let columns = records.next().ok_or_else(|| refuse("an empty file".to_owned()))?;
    if columns.iter().any(|column| column.trim().is_empty()) {
        return Err(refuse("a column has no name".to_owned()));
    }
    let mut rows = Vec::new();
    for (number, record) in (2..).zip(records) {
        if record.len() != columns.len() {
            let (has, wants) = (record.len(), columns.len());
            return Err(refuse(format!("row {number} has {has} fields, the header has {wants}")));
        }
        rows.push(Row { cells: record.iter().map(|field| cell(field)).collect(), marked: false });
    }
    if rows.is_empty() {
        return Err(refuse("no rows".to_owned()));
    }
    let caption = rows_of(name);
    let columns = columns.iter().map(|column| plain(column)).collect();
    let table = Table { caption, columns, rows, ..Table::default() }.without_empty_columns();
    Ok(Section {
        heading: plain(name),
        origin: plain(name),
        kind: "CSV".to_owned(),
        facts: vec![("rows".to_owned(), table.rows.len().to_string())],
        tables: vec![table],
        ..Section::default()
    })
}

fn cell(field: &str) -> Cell {
    let digits = field.trim_start_matches(['+', '-']);
    // A number with leading zeros is a name, such as a serial number.
    let is_name = digits.starts_with('0') && digits[1..].starts_with(|c: char| c.is_ascii_digit());
    match Cell::of_number(field).filter(|_| !is_name) {
        Some(cell) => cell,
        None if field.is_empty() => Cell::Empty,
        None => Cell::Text(plain(field)),
    }
}
