//! Reports as text.

use crate::table;
use crate::terminal;
use floatgate_lab::plot;
use floatgate_lab::study::Report;
use floatgate_lab::study::report::{
    Align, Bar, Cell, Column, Point, Section, Table, Timed, Times, Waterfall,
};

/// Text of a report: its sections, separated by blank lines. [`ReportFormat`] adds the conclusion.
pub(crate) fn text(report: &Report) -> String {
    let title = Some(&report.title).filter(|title| !title.is_empty());
    let head: Vec<&str> = title.into_iter().chain(&report.head).map(String::as_str).collect();
    let sections = report.sections.iter().map(|section| match section {
        Section::Text(lines) => lines.join("\n"),
        Section::Table(table) if table.detail => String::new(),
        Section::Table(table) => drawn(table),
        Section::Heat { .. } => String::new(),
        Section::Points(points) => points.iter().map(drawn_point).collect::<Vec<_>>().join("\n\n"),
        Section::Phases { caption, times } => {
            let bar = plot::breakdown_text(times, terminal::width() - INDENT.len(), terminal::colour());
            let bar = bar.lines().map(|line| format!("\n{INDENT}{line}"));
            format!("{caption}{}", bar.collect::<String>())
        }
        Section::Bars { caption, bars } => format!("{caption}\n{}", drawn_bars(bars)),
        Section::Times(times) => drawn_times(times),
        Section::Waterfall(waterfall) => drawn_waterfall(waterfall),
        Section::Compared(_) => String::new(),
        Section::Advice(all) => all.iter().map(|advice| format!("- {advice}")).collect::<Vec<_>>().join("\n"),
    });
    let parts = std::iter::once(head.join("\n")).chain(sections).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

fn drawn(table: &Table) -> String {
    // A column without any values is omitted.
    let tells =
        |at: usize| table.rows.iter().any(|row| row.get(at).is_some_and(|cell| !cell.text().is_empty()));
    let shown: Vec<usize> = (0..table.columns.len()).filter(|at| *at == 0 || tells(*at)).collect();
    let columns = || shown.iter().filter_map(|at| table.columns.get(*at));
    let place = |heading: &&str| columns().position(|column| column.heading == *heading);
    let heading = |column: &Column| if column.is_quiet { String::new() } else { column.heading.to_string() };
    let mut drawn = table::Table::new(columns().map(heading)).minor(table.minor.iter().filter_map(place));
    for (at, _) in columns().enumerate().filter(|(_, column)| column.align == Align::Right) {
        drawn = drawn.numbers(at..=at);
    }
    for (number, row) in table.rows.iter().enumerate() {
        drawn.row(shown.iter().filter_map(|at| row.get(*at)).map(Cell::text));
        let red = |place: usize| shown.get(place).is_some_and(|at| table.red.contains(&(number, *at)));
        (0..shown.len()).filter(|place| red(*place)).for_each(|place| drawn.red(place));
    }
    let caption = Some(table.caption.clone()).filter(|caption| !caption.is_empty() && !table.is_quiet);
    let lines = caption.into_iter().chain([drawn.to_string()]).chain(table.below.iter().cloned());
    lines.collect::<Vec<_>>().join("\n")
}

/// Indentation of a stacked bar.
const INDENT: &str = "  ";

fn drawn_point(point: &Point) -> String {
    let commands = point.commands.iter().map(|command| format!("    {command}"));
    let reasons = point.reasons.iter().map(|reason| format!("  - {reason}"));
    let conditions = point.conditions.iter().map(|finding| format!("  changes if {finding}"));
    let first = std::iter::once(format!("{}: {}", point.topic, point.advice));
    first.chain(commands).chain(reasons).chain(conditions).collect::<Vec<_>>().join("\n")
}

/// Length of the longest bar, columns.
const BAR: usize = 40;

fn drawn_bars(bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(1).max(1);
    let widest = bars.iter().map(|bar| bar.name.len()).max().unwrap_or(0);
    // Indentation, count and the spaces between them take 12 columns.
    let longest = terminal::width().saturating_sub(widest + 12).clamp(1, BAR) as u128;
    let line = |Bar { name, count }: &Bar| {
        let length = (u128::from(*count) * longest).div_ceil(u128::from(most));
        let bar = "█".repeat(usize::try_from(length).unwrap_or(0));
        format!("  {name:>widest$}  {count:>6}  {bar}")
    };
    bars.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Width of the widest bar of times with its percentages, columns.
const TIMES: usize = 110;

/// Tests with their bars, and the names of the phases below all of them.
fn drawn_times(times: &Times) -> String {
    if times.is_page_only {
        return String::new();
    }
    let (width, colour) = (terminal::width().min(TIMES), terminal::colour());
    let test = |Timed { bar, figure, above, below, .. }: &Timed| {
        let shares = plot::shares_text(&bar.breakdown, width - 2, colour);
        let below = below.iter().map(ToString::to_string);
        let lines = above.iter().cloned().chain(shares.lines().map(str::to_owned)).chain(below);
        lines.fold(format!("{} {figure}", bar.label), |text, line| format!("{text}\n  {line}"))
    };
    let legend = plot::legend_text(times.rows.iter().map(|row| &row.bar.breakdown), width, colour);
    times.rows.iter().filter(|row| !row.is_folded).map(test).chain([legend]).collect::<Vec<_>>().join("\n\n")
}

fn drawn_waterfall(waterfall: &Waterfall) -> String {
    let (width, colour) = (terminal::width(), terminal::colour());
    let lanes = plot::waterfall_text(&waterfall.spans, width, colour);
    format!("{lanes}\n\n{}", plot::breakdown_text(&waterfall.breakdown, width, colour))
}
