//! Waterfall in a terminal.

use super::axis::Axis;
use super::lanes::{Lane, Lanes};
use super::pen::{Paint, Pen, flow};
use super::table;
use floatgate_device::timeline::Span;
use floatgate_mtd::{Instant, Phase};

/// Minimum and maximum width in columns; a wider picture shows no more.
const WIDTH: std::ops::RangeInclusive<usize> = 24..=400;
/// Columns between the name of a lane and the lane.
const GUTTER: usize = 2;

/// One operation on the timelines of its resources, for a terminal of `width` columns (24 to 400; at least 80 are
/// recommended).
///
/// A ruler is followed by a line per resource with its spans to scale, a legend, and a numbered table of all spans.
/// The table merges repeats (`status x7`), for which it shows the length of each span. With `colour`, the text
/// contains terminal escapes for 256 colours; without, each phase has its own glyph. There is no final newline.
pub fn waterfall_text(spans: &[Span], width: usize, colour: bool) -> String {
    if spans.is_empty() {
        return "no spans recorded".to_owned();
    }
    let width = width.clamp(*WIDTH.start(), *WIDTH.end());
    let lanes = Lanes::new(spans);
    let names = lanes.lanes.iter().map(|lane| lane.label().chars().count()).max().unwrap_or(0);
    let gutter = names + GUTTER;
    let mut lines = ruler(&lanes, gutter, width);
    lines.extend(lanes.lanes.iter().map(|lane| draw_lane(&lanes, lane, (gutter, width), colour)));
    lines.push(String::new());
    lines.extend(legend(&lanes, width, colour));
    lines.push(String::new());
    lines.extend(table::lines(spans, &lanes, width, colour));
    lines.join("\n")
}

/// Numbers with their unit, and tick marks below them.
fn ruler(lanes: &Lanes, gutter: usize, width: usize) -> Vec<String> {
    let columns = width - gutter;
    let axis = Axis::new(lanes.range, u32::try_from(columns / 10).unwrap_or(1));
    let mut numbers = Pen::new(false);
    numbers.plain(axis.unit);
    let mut marks = vec!['─'; columns];
    for tick in axis.ticks {
        let at = column(lanes.origin + tick.at, lanes, columns);
        marks[at] = '┬';
        // A number that would touch the previous one or the edge is left out; its mark is drawn.
        let from = gutter + at;
        if from > numbers.columns() && from + tick.label.len() <= width {
            numbers.pad_to(from);
            numbers.plain(&tick.label);
        }
    }
    let marks: String = marks.into_iter().collect();
    vec![numbers.finish(), format!("{:gutter$}{marks}", "")]
}

/// Column of an instant.
fn column(at: Instant, lanes: &Lanes, columns: usize) -> usize {
    let range = u128::from(lanes.range.as_ns().max(1));
    let column = u128::from(at.since(lanes.origin).as_ns()) * columns as u128 / range;
    (column as usize).min(columns - 1)
}

fn legend(lanes: &Lanes, width: usize, colour: bool) -> Vec<String> {
    let entry = |phase: Phase| {
        let mut pen = Pen::new(colour);
        pen.swatch(phase);
        pen.plain(&format!(" {phase}"));
        pen
    };
    flow(&lanes.phases().map(entry).collect::<Vec<_>>(), width, colour)
}

/// Index of the span of a lane that a column shows; `None` for an idle column.
type Cell = Option<usize>;

/// Time per phase within a column, in ns times columns, and the first span of that phase in it.
type Tally = [(u128, usize); Phase::ALL.len()];

/// Contents of the columns of a lane. A column shows the phase with most of its time, or nothing if more than half of
/// it is idle. A span that no column would show replaces an idle column.
fn cells(lanes: &Lanes, lane: &Lane, columns: usize) -> Vec<Cell> {
    let mut tallies = vec![Tally::default(); columns];
    for (i, span) in lane.spans.iter().enumerate() {
        overlaps(lanes, span, columns).for_each(|(c, time)| book(&mut tallies[c], span.phase, i, time));
    }
    let range = u128::from(lanes.range.as_ns().max(1));
    let busy = |tally: &Tally| tally.iter().map(|&(time, _)| time).sum::<u128>() * 2 >= range;
    let mut cells: Vec<Cell> = tallies.iter().map(|t| if busy(t) { busiest(t) } else { None }).collect();
    for span in &lane.spans {
        let shows = |c: usize| cells[c].is_some_and(|k| lane.spans[k].phase == span.phase);
        let best = overlaps(lanes, span, columns).max_by_key(|&(c, time)| (time, std::cmp::Reverse(c)));
        if !overlaps(lanes, span, columns).any(|(c, _)| shows(c))
            && let Some((c, _)) = best
            && cells[c].is_none()
        {
            cells[c] = busiest(&tallies[c]);
        }
    }
    cells
}

/// Columns that a span touches, with its time in each. The unit of time is a ns divided by the number of columns, so
/// nothing is rounded.
fn overlaps(lanes: &Lanes, span: &Span, columns: usize) -> impl Iterator<Item = (usize, u128)> {
    let range = u128::from(lanes.range.as_ns().max(1));
    let offset = |at: Instant| u128::from(at.since(lanes.origin).as_ns()) * columns as u128;
    let from = offset(span.start);
    let to = offset(span.end).max(from + 1);
    let first = column(span.start, lanes, columns);
    let last = (((to - 1) / range) as usize).clamp(first, columns - 1);
    (first..=last).map(move |c| {
        let begin = c as u128 * range;
        (c, to.min(begin + range).saturating_sub(from.max(begin)).max(1))
    })
}

fn book(tally: &mut Tally, phase: Phase, index: usize, time: u128) {
    let (sum, first) = &mut tally[phase as usize];
    if *sum == 0 {
        *first = index;
    }
    *sum += time;
}

/// First span of the phase with most of the column's time.
fn busiest(tally: &Tally) -> Cell {
    let most = tally.iter().rev().max_by_key(|&&(time, _)| time)?;
    (most.0 > 0).then_some(most.1)
}

fn draw_lane(lanes: &Lanes, lane: &Lane, (gutter, width): (usize, usize), colour: bool) -> String {
    let mut pen = Pen::new(colour);
    pen.plain(&lane.label());
    let mut column = gutter;
    for run in cells(lanes, lane, width - gutter).chunk_by(|a, b| a == b) {
        if let Some(i) = run[0] {
            pen.pad_to(column);
            draw_run(&mut pen, lane.spans[i].phase, lane.spans[i].what, run.len());
        }
        column += run.len();
    }
    pen.finish()
}

/// Draws `columns` columns of a phase. The text is in the middle, if the phase remains visible on both sides.
fn draw_run(pen: &mut Pen, phase: Phase, what: &str, columns: usize) {
    let words = what.chars().count();
    let around = if pen.colour() { 2 } else { 4 };
    let label = if words > 0 && words + around <= columns { format!(" {what} ") } else { String::new() };
    let before = (columns - label.chars().count()) / 2;
    let fill = pen.fill(phase);
    (0..before).for_each(|_| pen.put(fill, Paint::Phase(phase)));
    label.chars().for_each(|c| pen.put(c, Paint::Phase(phase)));
    (before + label.chars().count()..columns).for_each(|_| pen.put(fill, Paint::Phase(phase)));
}

#[cfg(test)]
mod tests {
    use super::super::lanes::tests::{any_spans, page_read, span};
    use super::*;
    use floatgate_device::timeline::Resource;
    use proptest::prelude::*;

    #[test]
    fn a_page_read() {
        assert_eq!(waterfall_text(&page_read(7), 80, false), include_str!("golden/page_read.txt").trim_end());
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let text = waterfall_text(&page_read(7), 100, true);
        let mut plain = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            plain += before;
            rest = after.split_once('m').unwrap().1;
        }
        plain += rest;
        assert!(plain.chars().all(|c| c == '\n' || !c.is_control()));
        // Texts of the table. In colour, glyphs are blank; they precede the name of the phase.
        let table = |text: &str| -> Vec<String> {
            let lines = text.lines().skip_while(|l| !l.starts_with(" #"));
            lines.map(|l| l.chars().enumerate().filter(|&(i, _)| i != 35).map(|(_, c)| c).collect()).collect()
        };
        let mono = table(&waterfall_text(&page_read(7), 100, false));
        assert_eq!(table(&plain), mono);
        assert_eq!(mono.len(), 16);
    }

    #[test]
    fn nothing_and_one() {
        assert_eq!(waterfall_text(&[], 80, true), "no spans recorded");
        let one = span(Resource::Die(3), Phase::Array, "tBERS", 5, 5);
        let text = waterfall_text(&[one], 0, false);
        assert!(text.contains("die 3  █\n"), "{text}");
    }

    #[test]
    fn a_nanosecond_beside_minutes_shows() {
        let spans = [
            span(Resource::Bus, Phase::Command, "60h", 0, 1),
            span(Resource::Die(0), Phase::Array, "tBERS", 1, 300_000_000_000),
        ];
        let text = waterfall_text(&spans, 60, false);
        assert!(text.contains("bus    c\n"), "{text}");
        assert!(text.contains(&format!("die 0  {} tBERS {}", "█".repeat(23), "█".repeat(23))), "{text}");
    }

    proptest! {
        #[test]
        fn any_spans_fit_any_width(spans in any_spans(), width in 0..500_usize) {
            let text = waterfall_text(&spans, width, false);
            let width = width.clamp(*WIDTH.start(), *WIDTH.end());
            for line in text.lines() {
                prop_assert!(line.chars().count() <= width, "{}", line);
                prop_assert!(!line.contains('\x1b'));
            }
            prop_assert_eq!(waterfall_text(&spans, width, true), waterfall_text(&spans, width, true));
        }
    }
}
