//! Contents of a report, before they are HTML.

use crate::study::report as study;
use floatgate_image::words;
use floatgate_mtd::Phase;
use floatgate_mtd::size::text as size;
use std::collections::BTreeSet;

/// One input: a setup or a result.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    /// Title of the setup, or the name of the input.
    pub(super) heading: String,
    /// The input, as it was named.
    pub(super) origin: String,
    /// Command that gives such a result.
    pub(super) kind: String,
    /// Names and values that stand once in the result.
    pub(super) facts: Vec<(String, String)>,
    /// Its conclusion, at its beginning and in the summary of the page; empty where the figures say it.
    pub(super) conclusion: String,
    /// Remarks of the result, a sentence each.
    pub(super) notes: Vec<String>,
    pub(super) bars: Vec<Bar>,
    pub(super) waterfalls: Vec<Waterfall>,
    pub(super) tables: Vec<Table>,
    /// Subject, names and figures that are compared with other sections.
    pub(super) compared: Vec<Compared>,
    /// Sources of the numbers, as a table of its own.
    pub(super) sources: Option<Table>,
    /// True for a comparison whose conclusion is the conclusion of the whole page.
    pub(super) opens_report: bool,
    pub(super) heat: Option<Heat>,
}

/// Ratios by rows and groups of columns, of which 1 is the best.
#[derive(Clone, Debug, Default)]
pub(super) struct Heat {
    pub(super) caption: String,
    /// Groups of columns: title, and the titles of its columns.
    pub(super) groups: Vec<(String, Vec<String>)>,
    /// Name of a row, and a ratio for each column that has one.
    pub(super) rows: Vec<(String, Vec<Option<f64>>)>,
}

/// A bar for each row of a table.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) caption: String,
    pub(super) bars: Vec<ChartBar>,
}

impl Chart {
    /// Meaning of a long bar, from the unit in the caption; empty where it is neither good nor bad.
    pub(super) fn meaning(&self) -> &'static str {
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

/// A figure of a row.
#[derive(Clone, Debug)]
pub(super) struct ChartBar {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) text: String,
}

/// Kinds of results that have no figures to draw.
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

/// Rows of a table of which each column is drawn, and the most of these.
const SHORT_ROWS: usize = 12;
const SHORT_CHARTS: usize = 6;

/// Rows of a table of which a chart is drawn.
const CHART_ROWS: usize = 30;

impl Section {
    /// True where other things than facts show what was found.
    pub(super) fn has_more_than_facts(&self) -> bool {
        !self.bars.is_empty() || !self.waterfalls.is_empty() || !self.tables.is_empty()
    }

    /// Pictures of the first table with figures, where nothing else is drawn.
    pub(super) fn charts(&self) -> Vec<Chart> {
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

    /// The report of a study.
    pub(super) fn of_report(name: &str, kind: String, report: study::Report) -> Self {
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
                study::Section::Bars { caption, bars } => section.tables.push(Table::of_bars(&caption, bars)),
                study::Section::Table(table) => {
                    section.notes.extend(table.below.iter().map(|line| plain(line)));
                    section.tables.push(Table::of_study(name, table));
                }
            }
        }
        section
    }
}

/// Time of a test by phase.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    /// Speed or time, with its unit.
    pub(super) figure: String,
    /// Time by phase, ns.
    pub(super) parts: Vec<(Phase, u64)>,
    /// Bottleneck and next step, in words.
    pub(super) advice: String,
}

/// One operation on the timelines of its resources.
#[derive(Clone, Debug)]
pub(super) struct Waterfall {
    pub(super) caption: String,
    pub(super) spans: Vec<Stretch>,
}

/// Activity of a resource.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) resource: String,
    pub(super) phase: String,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) what: String,
}

/// A table to sort and filter.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Shown when a reader asks for it: what is drawn says the same.
    pub(super) folded: bool,
    /// Drawn as a scatter plot, too.
    pub(super) plot: bool,
    /// Two columns that are to be equal: the axes of the plot, which begins with others without them.
    pub(super) equal: Option<[&'static str; 2]>,
    /// Columns with true where more is better, false where less is: the axes of the plot.
    pub(super) objectives: Vec<(String, bool)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    /// On the Pareto front: kept when rows are left out.
    pub(super) marked: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Cell {
    #[default]
    Empty,
    Number(f64),
    /// A number with the text that is shown.
    Shown(f64, String),
    Text(String),
}

impl Cell {
    /// The cell as text.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) | Self::Shown(_, text) => text.clone(),
            Self::Number(n) => number(*n),
        }
    }

    /// A number as it was written; a text where a float has not all its digits (from 2^53 on), as may be in a seed.
    pub(super) fn of_number(text: &str) -> Option<Self> {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
        let is_exact = number.abs() < 9_007_199_254_740_992.0 || text.contains(['.', 'e', 'E']);
        Some(if is_exact { Self::Number(number) } else { Self::Text(text.to_owned()) })
    }

    /// The number of a cell that has one.
    pub(super) const fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) | Self::Shown(value, _) => Some(*value),
            Self::Empty | Self::Text(_) => None,
        }
    }

    /// A whole number of bytes.
    pub(super) fn bytes(&self) -> Option<u64> {
        let value = self.number().filter(|value| value.fract() == 0.0 && (0.0..9e15).contains(value))?;
        Some(value as u64)
    }

    /// True for a cell without contents. 0 and `false` are findings.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty) || matches!(self, Self::Text(text) if text.is_empty())
    }

    /// True for a flag that is set.
    fn is_set(&self) -> bool {
        matches!(self, Self::Number(n) | Self::Shown(n, _) if *n != 0.0)
            || matches!(self, Self::Text(text) if text == "true")
    }
}

/// A number with as many decimals as a reader needs: three significant digits; `1.5e-9` where zeros would hide them.
pub(super) fn number(n: f64) -> String {
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
pub(super) struct Compared {
    pub(super) subject: String,
    pub(super) figures: Vec<(String, Cell)>,
}

impl Table {
    /// The columns of numbers that differ as bars: several of a short table, the first of a long one; else any column of numbers.
    fn charts(&self) -> Vec<Chart> {
        let differs = |at: usize| {
            let mut all = self.rows.iter().filter_map(|row| row.cells.get(at)?.number());
            all.next().is_some_and(|first| all.any(|other| other != first))
        };
        let is_numeric = self.numeric();
        // Values with units of their own are no bars of one picture.
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

    /// Sizes and times as the terminal shows them, in rows whose unit is the byte or the microsecond.
    pub(super) fn in_readable_units(&mut self) {
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

    /// A column of numbers as bars.
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

    fn of_study(name: &str, table: study::Table) -> Self {
        let cell = |cell: study::Cell| match cell {
            study::Cell::Text(text) => Cell::Text(plain(&text)),
            study::Cell::Number { value, text } => Cell::Shown(value, plain(&text)),
        };
        let row = |row: Vec<study::Cell>| Row { cells: row.into_iter().map(cell).collect(), marked: false };
        let all = Self {
            caption: if table.caption.is_empty() { rows_of(name) } else { plain(&table.caption) },
            columns: table.columns.iter().map(|column| column.heading.to_owned()).collect(),
            rows: table.rows.into_iter().map(row).collect(),
            ..Self::default()
        };
        let shown = all.without_empty_columns();
        Self { plot: table.plot && shown.plot, ..shown }
    }

    /// A table of rows that have different keys: a column for each key, in the order of first use.
    pub(super) fn of_keyed(caption: &str, rows: Vec<Vec<(String, Cell)>>) -> Self {
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

    /// Leaves out columns that are empty in each row, and marks rows of a Pareto front.
    pub(super) fn without_empty_columns(mut self) -> Self {
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

    /// The first row by column.
    pub(super) fn first_row(&self) -> Vec<(&str, String)> {
        let cells = self.rows.first().map_or(&[][..], |row| &row.cells);
        self.columns.iter().map(String::as_str).zip(cells.iter().map(Cell::shown)).collect()
    }

    /// `more` or `less` for a column that is an objective.
    pub(super) fn better(&self, column: &str) -> Option<&'static str> {
        let found = self.objectives.iter().find(|(objective, _)| objective == column);
        found.map(|&(_, more)| if more { "more" } else { "less" })
    }

    /// True for each column that has numbers and no texts.
    pub(super) fn numeric(&self) -> Vec<bool> {
        let column = |i: usize| self.rows.iter().filter_map(move |row| row.cells.get(i));
        let is_text = |cell: &Cell| matches!(cell, Cell::Text(text) if !text.is_empty());
        let numbers = |i| {
            column(i).any(|cell| matches!(cell, Cell::Number(_) | Cell::Shown(..))) && !column(i).any(is_text)
        };
        (0..self.columns.len()).map(numbers).collect()
    }

    /// Numbers of the rows to show when at most `most` are: those on the Pareto front, and others at even distances.
    pub(super) fn chosen(&self, most: usize) -> Vec<usize> {
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

/// Table of what the sections have in common; none when there is a single subject.
pub(super) fn comparison(sections: &[Section]) -> Option<Table> {
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

/// Caption of a table that has no other.
pub(super) fn rows_of(name: &str) -> String {
    format!("Rows of {}", plain(name))
}

/// A text without control characters and without marks that reverse the order of letters.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(words::shown).collect()
}

/// A key of the JSON as a heading: `exact_kib_s` becomes `exact (KiB/s)`.
pub(super) fn heading(key: &str) -> String {
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
    // Keys of setups, such as bus.clock_hz, are names that a reader types.
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

/// A time in the unit that gives one to four digits before the point.
pub(super) fn time(ns: u64) -> String {
    floatgate_mtd::Nanos::from_ns(ns).to_string()
}
