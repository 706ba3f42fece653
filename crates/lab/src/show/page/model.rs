//! Contents of a report before conversion to HTML.

use crate::show::plot::BarRow;
use crate::show::report::{self as study, Timed, Waterfall};
use floatgate_mtd::Nanos;
use floatgate_mtd::size::text as size;
use floatgate_mtd::words;
use std::collections::BTreeSet;

/// Section of the report for one input: a setup or a result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    /// Title of the setup, or the name of the input.
    pub(crate) heading: String,
    /// The input, as named by the user.
    pub(crate) origin: String,
    /// Command that prints such a result.
    pub(crate) kind: String,
    /// Names and values that occur once in the result.
    pub(crate) facts: Vec<(String, String)>,
    /// Conclusion of the result, shown at the start of the section and in the summary of the page; empty if there is
    /// none.
    pub(crate) conclusion: String,
    /// Remarks of the result, one sentence each.
    pub(crate) notes: Vec<String>,
    pub(crate) bars: Vec<Timed>,
    pub(crate) waterfalls: Vec<Waterfall>,
    pub(crate) tables: Vec<Table>,
    /// Subject, names and figures that are compared with other sections.
    pub(crate) compared: Vec<Compared>,
    /// Sources of the numbers, as a separate table.
    pub(crate) sources: Option<Table>,
    /// True for a comparison whose conclusion is the conclusion of the whole page.
    pub(crate) opens_report: bool,
    pub(crate) heat: Option<Heat>,
}

/// Heat map of ratios by rows and groups of columns; 1 is the best ratio.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heat {
    pub(crate) caption: String,
    /// Groups of columns: title, and the titles of its columns.
    pub(crate) groups: Vec<(String, Vec<String>)>,
    /// Rows: name, and a ratio for each column that has one.
    pub(crate) rows: Vec<(String, Vec<Option<f64>>)>,
}

/// Chart with a bar for each row of a table.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) caption: String,
    pub(crate) bars: Vec<ChartBar>,
}

impl Chart {
    /// Meaning of a long bar, from the unit in the caption; empty if it is neither good nor bad.
    pub(crate) fn meaning(&self) -> &'static str {
        let unit = self.caption.rsplit([',', '(']).next().unwrap_or_default();
        let unit = unit.trim().trim_end_matches(')').rsplit(' ').next().unwrap_or_default();
        match unit {
            "confidence" => "longer is surer",
            "KiB/s" | "MiB/s" | "MB/s" | "IOPS" => "longer is faster",
            "ns" | "us" | "ms" | "s" => "shorter is faster",
            "years" => "longer lasts longer",
            "GB" | "$" => "shorter is cheaper",
            "mJ/MiB" | "uJ/request" => "shorter takes less energy",
            _ => "",
        }
    }
}

/// Bar of one row.
#[derive(Clone, Debug)]
pub(crate) struct ChartBar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) text: String,
}

/// Kinds of results without figures to draw.
const CATALOGUES: [&str; 9] = [
    "parts",
    "part",
    "parts-confidence",
    "part-confidence",
    "setups",
    "setup",
    "setup-keys",
    "controllers",
    "hosts",
];

/// Maximum number of rows of a short table, whose columns all get a chart, and maximum number of these charts.
const SHORT_ROWS: usize = 12;
const SHORT_CHARTS: usize = 6;

/// Maximum number of rows of a table that gets a chart.
const CHART_ROWS: usize = 30;

/// Maximum number of bars of times.
const BARS: usize = 200;

impl Section {
    /// True if the section has bars, waterfalls or tables.
    pub(crate) fn has_more_than_facts(&self) -> bool {
        !self.bars.is_empty() || !self.waterfalls.is_empty() || !self.tables.is_empty()
    }

    /// Charts of the first table with figures, if the section has no other picture.
    pub(crate) fn charts(&self) -> Vec<Chart> {
        let is_drawn = !self.bars.is_empty() || !self.waterfalls.is_empty() || self.heat.is_some();
        let is_catalogue = CATALOGUES.contains(&self.kind.as_str());
        if is_drawn || is_catalogue || self.tables.iter().any(|table| table.plot) {
            return Vec::new();
        }
        let of = |several: bool| {
            let tables = self.tables.iter().filter(move |table| (table.rows.len() > 1) == several);
            tables.map(Table::charts).find(|charts| !charts.is_empty())
        };
        of(true).or_else(|| of(false)).unwrap_or_default()
    }

    /// Section of the report of a study.
    pub(crate) fn of_report(name: &str, kind: String, report: study::Report) -> Self {
        let mut section = Self {
            heading: plain(if report.title.is_empty() { name } else { &report.title }),
            origin: plain(name),
            kind,
            conclusion: plain(&report.conclusion),
            notes: report.head.iter().map(|line| plain(line)).collect(),
            ..Self::default()
        };
        for part in report.sections {
            match part {
                study::Section::Text(lines) => section.notes.extend(lines.iter().map(|line| plain(line))),
                study::Section::Advice(all) => {
                    section.notes.extend(all.iter().map(|advice| plain(&advice.to_string())));
                }
                study::Section::Points(all) => section.tables.push(Table::of_points(all)),
                study::Section::Phases { caption, times } => {
                    let label = plain(&caption.replace("\n  ", ", "));
                    let bar = BarRow { label, breakdown: times, ..BarRow::default() };
                    section.bars.push(Timed { bar, ..Timed::default() });
                }
                study::Section::Heat { caption, map } => {
                    let of_row = |(name, cells): (String, Vec<(f64, String)>)| {
                        (plain(&name), cells.into_iter().map(|(ratio, _)| Some(ratio)).collect())
                    };
                    let rows = map.rows.into_iter().map(of_row).collect();
                    let plain_all = |(group, names): &(String, Vec<String>)| {
                        (plain(group), names.iter().map(|name| plain(name)).collect())
                    };
                    let groups = map.groups.iter().map(plain_all).collect();
                    section.heat = Some(Heat { caption, groups, rows });
                }
                study::Section::Bars { caption, bars } => section.tables.push(Table::of_bars(&caption, bars)),
                study::Section::Table(table) => {
                    section.notes.extend(table.below.iter().map(|line| plain(line)));
                    section.tables.push(Table::of_study(name, table));
                }
                study::Section::Times(times) => {
                    let has_time = |row: &Timed| !row.is_folded && row.bar.breakdown.total() > Nanos::ZERO;
                    section.bars.extend(times.rows.into_iter().filter(has_time).take(BARS));
                }
                study::Section::Waterfall(waterfall) => section.add_waterfall(waterfall),
                study::Section::Compared(figures) => {
                    let subject = section.heading.clone();
                    let figures =
                        figures.into_iter().map(|(name, cell)| (plain(&name), Cell::of_study(cell)));
                    section.compared.push(Compared { subject, figures: figures.collect() });
                }
            }
        }
        section
    }

    /// Adds the waterfall of an operation, and its time by phase as a bar.
    fn add_waterfall(&mut self, waterfall: Waterfall) {
        let Waterfall { operation, duration, breakdown, .. } = &waterfall;
        if breakdown.total() > Nanos::ZERO {
            let bar = BarRow { label: operation.clone(), breakdown: *breakdown, ..BarRow::default() };
            self.bars.push(Timed { bar, figure: duration.clone(), ..Timed::default() });
        }
        self.waterfalls.push(waterfall);
    }
}

/// Table that a reader can sort and filter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// True if the table is hidden until a reader opens it, because a picture shows the same.
    pub(crate) folded: bool,
    /// True if the table is also drawn as a scatter plot.
    pub(crate) plot: bool,
    /// Two columns that should be equal, as initial axes of the plot. Without them, it begins with other axes.
    pub(crate) equal: Option<[&'static str; 2]>,
    /// Columns that are objectives, as axes of the plot: true if more is better, false if less is.
    pub(crate) objectives: Vec<(String, bool)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    /// True for a row on the Pareto front, which is kept if rows are left out.
    pub(crate) marked: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Cell {
    #[default]
    Empty,
    Number(f64),
    /// A number with its displayed text.
    Shown(f64, String),
    Text(String),
}

impl Cell {
    fn of_study(cell: study::Cell) -> Self {
        match cell {
            study::Cell::Text(text) => Self::Text(plain(&text)),
            study::Cell::Number { value, text } => Self::Shown(value, plain(&text)),
        }
    }

    /// Displayed text of the cell.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) | Self::Shown(_, text) => text.clone(),
            Self::Number(n) => number(*n),
        }
    }

    /// A number as it was written. A text if a float cannot represent all its digits (from 2^53 on), as in a seed.
    pub(crate) fn of_number(text: &str) -> Option<Self> {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
        let is_exact = number.abs() < 9_007_199_254_740_992.0 || text.contains(['.', 'e', 'E']);
        Some(if is_exact { Self::Number(number) } else { Self::Text(text.to_owned()) })
    }

    /// Number in the cell; `None` for a text.
    pub(crate) const fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) | Self::Shown(value, _) => Some(*value),
            Self::Empty | Self::Text(_) => None,
        }
    }

    /// Cell with a whole number of bytes.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let value = self.number().filter(|value| value.fract() == 0.0 && (0.0..9e15).contains(value))?;
        Some(value as u64)
    }

    /// True for an empty cell. 0 and `false` are not empty.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty) || matches!(self, Self::Text(text) if text.is_empty())
    }

    /// True for a flag that is set.
    fn is_set(&self) -> bool {
        matches!(self, Self::Number(n) | Self::Shown(n, _) if *n != 0.0)
            || matches!(self, Self::Text(text) if text == "true")
    }
}

/// Text of a number with three significant digits, or in the form `1.5e-9` if it would have many leading zeros.
pub(crate) fn number(n: f64) -> String {
    if n.fract() == 0.0 && n.abs() < 1e15 {
        return format!("{n:.0}");
    }
    let (text, power) = match format!("{n:.2e}").split_once('e') {
        Some((digits, power)) if n.abs() < 1e-4 => (digits.to_owned(), format!("e{power}")),
        _ => {
            let digits = 2 - n.abs().log10().floor().min(2.0) as i32;
            (format!("{n:.*}", usize::try_from(digits).unwrap_or(0)), String::new())
        }
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{power}")
}

/// A subject of the comparison with its figures.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    pub(crate) subject: String,
    pub(crate) figures: Vec<(String, Cell)>,
}

impl Table {
    /// Charts of the number columns whose values differ: several for a short table, only the first for a long one. If
    /// no column differs, any number column is used.
    fn charts(&self) -> Vec<Chart> {
        let differs = |at: usize| {
            let mut all = self.rows.iter().filter_map(|row| row.cells.get(at)?.number());
            all.next().is_some_and(|first| all.any(|other| other != first))
        };
        let is_numeric = self.numeric();
        // If rows have different units, the values are not comparable, so the column `value` is not drawn.
        let has_units = self.columns.iter().any(|column| column == "unit");
        let is_comparable =
            |at: usize| !has_units || self.columns.get(at).is_none_or(|column| column != "value");
        let numeric: Vec<usize> = (1..self.columns.len())
            .filter(|at| is_numeric.get(*at) == Some(&true) && is_comparable(*at))
            .collect();
        let mut drawn: Vec<usize> = numeric.iter().copied().filter(|at| differs(*at)).collect();
        if drawn.is_empty() {
            drawn = numeric;
            drawn.truncate(1);
        }
        drawn.truncate(if self.rows.len() <= SHORT_ROWS { SHORT_CHARTS } else { 1 });
        drawn.into_iter().filter_map(|at| self.chart(at)).collect()
    }

    /// Converts sizes and times to the units of the terminal, in rows whose unit is byte or microsecond.
    pub(crate) fn in_readable_units(&mut self) {
        let at = |name: &str| self.columns.iter().position(|column| column == name);
        let (Some(value), Some(unit)) = (at("value"), at("unit")) else { return };
        for row in &mut self.rows {
            let (Some(Cell::Text(name)), Some(cell)) = (row.cells.get(unit), row.cells.get(value)) else {
                continue;
            };
            let (Some(exact), text) = (match name.as_str() {
                "B" => (cell.number(), cell.bytes().map(size)),
                "us" => (cell.number(), cell.number().map(|us| time((us.max(0.0) * 1e3).round() as u64))),
                _ => (None, None),
            }) else {
                continue;
            };
            let Some(text) = text else { continue };
            let (number, name) = text.split_once(' ').unwrap_or((&text, ""));
            if let Some(cell) = row.cells.get_mut(value) {
                *cell = Cell::Shown(exact, number.to_owned());
            }
            if let Some(cell) = row.cells.get_mut(unit) {
                *cell = Cell::Text(name.to_owned());
            }
        }
    }

    /// Chart of a column of numbers.
    fn chart(&self, at: usize) -> Option<Chart> {
        let bar = |row: &Row| {
            let cell = row.cells.get(at)?;
            let names = row.cells.iter().take_while(|cell| matches!(cell, Cell::Text(_))).map(Cell::shown);
            let name = names.filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" ");
            let name =
                if name.is_empty() { row.cells.first().map_or_else(String::new, Cell::shown) } else { name };
            Some(ChartBar { name, value: cell.number()?, text: cell.shown() })
        };
        let bars: Vec<ChartBar> = self.rows.iter().filter_map(bar).take(CHART_ROWS).collect();
        let more = match self.rows.len() {
            rows if rows > CHART_ROWS => format!(", the first {CHART_ROWS} of {rows} rows"),
            _ => String::new(),
        };
        let caption = format!("{}{more}", self.columns.get(at)?);
        (!bars.is_empty()).then_some(Chart { caption, bars })
    }

    fn of_bars(caption: &str, bars: Vec<study::Bar>) -> Self {
        let row = |bar: study::Bar| Row {
            cells: vec![Cell::Text(plain(&bar.name)), Cell::Number(bar.count as f64)],
            marked: false,
        };
        Self {
            caption: plain(caption),
            columns: vec!["range".to_owned(), "count".to_owned()],
            rows: bars.into_iter().map(row).collect(),
            ..Self::default()
        }
    }

    fn of_points(points: Vec<study::Point>) -> Self {
        let row = |point: study::Point| {
            let lists = [point.commands, point.reasons, point.conditions].map(|list| list.join("; "));
            let cells = [point.topic, point.advice].into_iter().chain(lists);
            Row { cells: cells.map(|text| Cell::Text(plain(&text))).collect(), marked: false }
        };
        let columns = ["topic", "advice", "commands", "rests on", "would change"].map(str::to_owned).into();
        let rows = points.into_iter().map(row).collect();
        Self { caption: "Advice".to_owned(), columns, rows, ..Self::default() }.without_empty_columns()
    }

    fn of_study(name: &str, table: study::Table) -> Self {
        let row = |row: Vec<study::Cell>| Row {
            cells: row.into_iter().map(Cell::of_study).collect(),
            marked: false,
        };
        let all = Self {
            caption: if table.caption.is_empty() { rows_of(name) } else { plain(&table.caption) },
            columns: table.columns.iter().map(|column| plain(&column.heading)).collect(),
            rows: table.rows.into_iter().map(row).collect(),
            ..Self::default()
        };
        let shown = all.without_empty_columns();
        Self { plot: table.plot && shown.plot, equal: table.equal, ..shown }
    }

    /// Table of rows with different keys: one column for each key, in the order of first use.
    pub(crate) fn of_keyed(caption: &str, rows: Vec<Vec<(String, Cell)>>) -> Self {
        let (mut columns, mut known) = (Vec::new(), BTreeSet::new());
        for (key, _) in rows.iter().flatten() {
            if known.insert(key.clone()) {
                columns.push(key.clone());
            }
        }
        let at: std::collections::BTreeMap<&str, usize> =
            columns.iter().enumerate().map(|(i, key)| (key.as_str(), i)).collect();
        let rows = rows
            .iter()
            .map(|row| {
                let mut cells = vec![Cell::Empty; columns.len()];
                for (key, cell) in row {
                    if let Some(slot) = at.get(key.as_str()).and_then(|&i| cells.get_mut(i)) {
                        *slot = cell.clone();
                    }
                }
                Row { cells, marked: false }
            })
            .collect();
        Self { caption: caption.to_owned(), columns, rows, ..Self::default() }.without_empty_columns()
    }

    /// Removes columns that are empty in every row, and marks rows of a Pareto front.
    pub(crate) fn without_empty_columns(mut self) -> Self {
        let tells =
            |i: usize| self.rows.iter().any(|row| row.cells.get(i).is_some_and(|cell| !cell.is_empty()));
        let keep: Vec<bool> = (0..self.columns.len()).map(|i| i == 0 || tells(i)).collect();
        let mut kept = keep.iter();
        self.columns.retain(|_| kept.next().copied().unwrap_or(true));
        let front = self.columns.iter().position(|column| column == "pareto");
        for row in &mut self.rows {
            let mut kept = keep.iter();
            row.cells.retain(|_| kept.next().copied().unwrap_or(true));
            row.marked = front.and_then(|i| row.cells.get(i)).is_some_and(Cell::is_set);
        }
        self.plot = self.rows.len() > 1 && self.numeric().iter().filter(|numeric| **numeric).count() > 1;
        self
    }

    /// Cells of the first row by column.
    pub(crate) fn first_row(&self) -> Vec<(&str, String)> {
        let cells = self.rows.first().map_or(&[][..], |row| &row.cells);
        self.columns.iter().map(String::as_str).zip(cells.iter().map(Cell::shown)).collect()
    }

    /// `more` or `less`, for a column that is an objective.
    pub(crate) fn better(&self, column: &str) -> Option<&'static str> {
        let found = self.objectives.iter().find(|(objective, _)| objective == column);
        found.map(|&(_, more)| if more { "more" } else { "less" })
    }

    /// True for each column that contains numbers and no texts.
    pub(crate) fn numeric(&self) -> Vec<bool> {
        let column = |i: usize| self.rows.iter().filter_map(move |row| row.cells.get(i));
        let is_text = |cell: &Cell| matches!(cell, Cell::Text(text) if !text.is_empty());
        let numbers = |i| {
            column(i).any(|cell| matches!(cell, Cell::Number(_) | Cell::Shown(..))) && !column(i).any(is_text)
        };
        (0..self.columns.len()).map(numbers).collect()
    }

    /// Indices of at most `most` rows to show: those on the Pareto front, and others at equal distances.
    pub(crate) fn chosen(&self, most: usize) -> Vec<usize> {
        if self.rows.len() <= most {
            return (0..self.rows.len()).collect();
        }
        let marked = |marked: bool| (0..self.rows.len()).filter(move |&i| self.rows[i].marked == marked);
        let front: Vec<usize> = marked(true).take(most).collect();
        let others: Vec<usize> = marked(false).collect();
        let room = most - front.len();
        let spread = (0..room).filter_map(|i| others.get(i * others.len() / room.max(1)).copied());
        let mut all: Vec<usize> = front.iter().copied().chain(spread).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Table of the figures that the sections have in common; `None` if there is only one subject.
pub(crate) fn comparison(sections: &[Section]) -> Option<Table> {
    let compared: Vec<&Compared> = sections.iter().flat_map(|section| &section.compared).collect();
    if compared.len() < 2 {
        return None;
    }
    let row = |one: &&Compared| {
        let subject = ("subject".to_owned(), Cell::Text(one.subject.clone()));
        std::iter::once(subject).chain(one.figures.iter().cloned()).collect()
    };
    Some(Table::of_keyed("Comparison of setups and results of `speed`", compared.iter().map(row).collect()))
}

/// Default caption of a table.
pub(crate) fn rows_of(name: &str) -> String {
    format!("Rows of {}", plain(name))
}

/// Text without control characters, and without marks that reverse the direction of writing.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(words::shown).collect()
}

/// Heading for a JSON key: `exact_kib_s` becomes `exact (KiB/s)`.
pub(crate) fn heading(key: &str) -> String {
    const UNITS: [(&str, &str); 11] = [
        ("kib_s", "KiB/s"),
        ("mb_s", "MB/s"),
        ("_bytes", "bytes"),
        ("_ns", "ns"),
        ("_us", "us"),
        ("_ms", "ms"),
        ("_hz", "Hz"),
        ("_percent", "%"),
        ("_hours", "h"),
        ("_years", "years"),
        ("_c", "°C"),
    ];
    if key == "unexplained" {
        return "lines that no cost explains".to_owned();
    }
    // Keys of setups, such as bus.clock_hz, are names that a reader types, so they are not changed.
    if key.contains('.') && !key.starts_with("flash.") {
        return key.to_owned();
    }
    for (end, unit) in UNITS {
        if let Some(rest) = key.strip_suffix(end) {
            let name = rest.trim_end_matches('_').replace('_', " ");
            return if name.is_empty() { unit.to_owned() } else { format!("{name} ({unit})") };
        }
    }
    key.replace('_', " ")
}

/// Text of a time in the unit that gives one to four digits before the point.
pub(crate) fn time(ns: u64) -> String {
    floatgate_mtd::Nanos::from_ns(ns).to_string()
}
