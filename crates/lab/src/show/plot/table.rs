//! Numbered table below a waterfall in the terminal.

use super::axis;
use super::lanes::{Lanes, Repeated, name, repeats};
use super::pen::Pen;
use floatgate_device::timeline::Span;
use floatgate_mtd::{Nanos, Phase};

/// A column: its heading, its alignment, and its rank for removal if the line is too long (0: never removed).
struct Column {
    head: String,
    right: bool,
    goes: u8,
}

/// A line: text per column, and the phase whose colour precedes its name.
struct Row {
    words: [String; COLUMNS],
    phase: Option<Phase>,
}

const COLUMNS: usize = 6;
/// Index of the column that names the phase.
const PHASE: usize = 4;
/// Minimum width of the last column.
const LEAST_WHAT: usize = 10;

/// Unit of offsets up to a range, its length in ns, and the displayed resolution in ns.
const fn offset_unit(range: Nanos) -> (&'static str, u64, u64) {
    match range.as_ns() {
        0..10_000 => ("ns", 1, 1),
        10_000..100_000_000 => ("us", 1_000, 10),
        100_000_000..1_000_000_000_000 => ("ms", 1_000_000, 1_000),
        _ => ("s", 1_000_000_000, 1_000_000),
    }
}

fn columns(unit: &str) -> [Column; COLUMNS] {
    let column = |head: &str, right, goes| Column { head: head.to_owned(), right, goes };
    [
        column("#", true, 2),
        column(&format!("start/{unit}"), true, 4),
        column("length", true, 0),
        column("resource", false, 3),
        column("phase", false, 1),
        column("what", false, 0),
    ]
}

/// Heading, one line per span or repeated span, and the number of spans with the end of the last one. Each line has at most `width` columns (24 or more).
pub(super) fn lines(spans: &[Span], lanes: &Lanes, width: usize, colour: bool) -> Vec<String> {
    let (unit, scale, resolution) = offset_unit(lanes.range);
    let columns = columns(unit);
    let offset = |span: &Span| axis::label(span.start.since(lanes.origin).as_ns(), resolution, scale);
    let rows: Vec<Row> = repeats(spans).iter().enumerate().map(|(i, r)| row(i, r, offset(&r.span))).collect();
    let widths = widths(&columns, &rows, width);
    let head = Row { words: columns.each_ref().map(|c| c.head.clone()), phase: None };
    let mut lines: Vec<String> =
        std::iter::once(&head).chain(&rows).map(|row| line(row, &columns, &widths, colour)).collect();
    let count = spans.len();
    let end = format!("{count} span{} until {}", if count == 1 { "" } else { "s" }, lanes.range);
    lines.push(cut(&end, width));
    lines
}

fn row(i: usize, repeated: &Repeated, offset: String) -> Row {
    let span = &repeated.span;
    let length = span.end.since(span.start).to_string();
    let phase = format!("  {}", span.phase);
    Row {
        words: [(i + 1).to_string(), offset, length, name(span.resource), phase, repeated.what()],
        phase: Some(span.phase),
    }
}

/// Widths of the columns; 0 for columns that do not fit.
fn widths(columns: &[Column; COLUMNS], rows: &[Row], width: usize) -> [usize; COLUMNS] {
    let mut widths = [0; COLUMNS];
    for (i, w) in widths.iter_mut().enumerate() {
        let words = rows.iter().map(|row| row.words[i].chars().count()).max().unwrap_or(0);
        *w = words.max(columns[i].head.len());
    }
    let last = COLUMNS - 1;
    let before =
        |widths: &[usize; COLUMNS]| widths[..last].iter().filter(|&&w| w > 0).map(|w| w + 2).sum::<usize>();
    for goes in 1..=4 {
        if before(&widths) + LEAST_WHAT.min(widths[last]) > width {
            (0..last).filter(|&i| columns[i].goes == goes).for_each(|i| widths[i] = 0);
        }
    }
    widths[last] = widths[last].min(width.saturating_sub(before(&widths)));
    widths
}

fn line(row: &Row, columns: &[Column; COLUMNS], widths: &[usize; COLUMNS], colour: bool) -> String {
    let mut pen = Pen::new(colour);
    let mut from = 0;
    for (i, words) in row.words.iter().enumerate().filter(|&(i, _)| widths[i] > 0) {
        let shown = cut(words, widths[i]);
        let indent = if columns[i].right { widths[i] - shown.chars().count() } else { 0 };
        pen.pad_to(from + indent);
        match row.phase {
            Some(phase) if i == PHASE => {
                pen.swatch(phase);
                pen.plain(shown.get(1..).unwrap_or_default());
            }
            _ => pen.plain(&shown),
        }
        from += widths[i] + 2;
    }
    pen.finish()
}

/// Text `words`, whose end is replaced by an ellipsis if it is longer than `width`.
fn cut(words: &str, width: usize) -> String {
    if words.chars().count() <= width {
        return words.to_owned();
    }
    words.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::lanes::tests::page_read;
    use super::*;

    fn table(width: usize) -> Vec<String> {
        let spans = page_read(7);
        lines(&spans, &Lanes::new(&spans), width, false)
    }

    #[test]
    fn columns_go_one_by_one() {
        assert_eq!(table(80)[6], " 6     13.28  34.7 us  die 0       █ array       tR");
        assert_eq!(table(44)[6], "   13.28  34.7 us  die 0       tR");
        assert_eq!(table(30)[6], "   13.28  34.7 us  tR");
        assert_eq!(table(24)[13], "21.8 us  data");
    }

    #[test]
    fn the_end_of_the_last_span_stands_below() {
        assert_eq!(table(80).last().unwrap(), "25 spans until 76.0 us");
    }
}
