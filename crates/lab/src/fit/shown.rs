//! Report of a fit.

use super::{FitReport, FittedParameter, FittedRow, Hypothesis, Prediction};
use crate::envelope::Reported;
use crate::show::number::signed_percent;
use crate::show::report::{Cell, Report, Section, Table};
use floatgate_mtd::words::count;

/// Largest number of lines without a known figure that the report lists.
const LISTED: usize = 10;

const INTERVALS: &str = "These intervals follow from the figures. `floatgate speed` with the written setup does not know the figures, and its intervals are wider: believe these.";

/// Statement about a fit that explains nothing.
pub const UNUSABLE: &str = "no costs explain the figures";

impl Reported for FitReport {
    const ROWS: &'static str = "rows";

    fn report(&self) -> Report {
        let costs = costs(&self.parameters).noted(same_effects(&self.parameters));
        let remarks = self.remarks.iter().map(|remark| self.of_source(remark)).chain([self.worst()]);
        let rows = Table::new(
            &["line", "figure"],
            &["measured", "as stated", "fitted", "left out"],
            self.rows.iter().map(row),
        );
        let mut sections = vec![costs, rows.then_words("").noted(remarks)];
        // Costs that do not explain the figures do not predict other figures.
        let predicts = self.usable && self.unexplained.is_empty();
        if predicts {
            sections.extend(predictions(&self.predictions));
        }
        let unusable = (!self.usable).then(|| format!("{UNUSABLE}: the fitted ones are of no use"));
        let hypotheses = self.hypotheses.iter().map(hypothesis).chain(unusable);
        let unexplained = self
            .unexplained
            .iter()
            .map(|line| format!("no cost explains the figure of {}", self.line(*line)));
        Report {
            title: self.title.clone(),
            head: self.head(),
            sections: sections
                .into_iter()
                .map(Section::Table)
                .chain(predicts.then(|| Section::Text(vec![INTERVALS.to_owned()])))
                .chain([
                    Section::Advice(self.undecided.iter().map(super::Undecided::advice).collect()),
                    Section::Text(hypotheses.chain(unexplained).collect()),
                ])
                .collect(),
            ..Report::default()
        }
    }
}

impl FitReport {
    /// Lines about the input: those that are understood and the others, and the values that it states.
    fn head(&self) -> Vec<String> {
        let understood = count(self.understood as u64, "line");
        let unknown = self.unknown.iter().take(LISTED);
        let held = (!self.held.is_empty())
            .then(|| format!("held as the `set` lines state: {}", self.held.join(", ")));
        std::iter::once(format!("{understood} understood, {} not taken", self.unknown.len()))
            .chain(unknown.map(|one| format!("  {}: {}: {}", self.line(one.line), one.why, one.text)))
            .chain(held)
            .collect()
    }

    /// Place of a line.
    fn line(&self, number: usize) -> String {
        if self.source.is_empty() { format!("line {number}") } else { format!("{}:{number}", self.source) }
    }

    /// Remark on the input.
    fn of_source(&self, remark: &str) -> String {
        if self.source.is_empty() { remark.to_owned() } else { format!("{}: {remark}", self.source) }
    }

    /// Line with the residuals.
    fn worst(&self) -> String {
        let alone = self.median_left_out.zip(self.worst_left_out).map(|(median, worst)| {
            let median = unsigned(median);
            let worst = signed_percent(worst);
            format!("; each figure predicted by the others: median {median}, worst {worst}")
        });
        format!("worst residual {}{}", signed_percent(self.worst), alone.unwrap_or_default())
    }
}

/// Percentage without the plus sign.
fn unsigned(ratio: f64) -> String {
    signed_percent(ratio).trim_start_matches('+').to_owned()
}

fn percent(ratio: f64) -> Cell {
    Cell::shown(ratio, signed_percent(ratio))
}

fn costs(parameters: &[FittedParameter]) -> Table {
    let row = |p: &FittedParameter| {
        let operation = p.operation.map_or("all", |operation| operation.name());
        let numbers =
            [p.before, p.value, p.low, p.high].map(|value| Cell::shown(value, format!("{value:.2}")));
        [p.path.as_str(), operation].into_iter().map(Cell::from).chain(numbers).collect()
    };
    let numbers = ["stated", "fitted", "at least", "at most"];
    Table::new(&["cost", "of"], &numbers, parameters.iter().map(row))
}

/// Lines about costs that have the same effect on all figures, one for each group of such costs.
fn same_effects(parameters: &[FittedParameter]) -> Vec<String> {
    let mut named: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for p in parameters.iter().filter(|p| !p.same_effect.is_empty()) {
        if named.contains(&p.path.as_str()) {
            continue;
        }
        named.push(&p.path);
        named.extend(p.same_effect.iter().map(String::as_str));
        lines.push(format!(
            "{} and {} have the same effect on all figures: only their sum is decided",
            p.path,
            p.same_effect.join(", ")
        ));
    }
    lines
}

/// Tables of the speeds that the fitted setup predicts, also under the conditions of the figures.
fn predictions(all: &[Prediction]) -> Vec<Table> {
    let row = |p: &Prediction| {
        let interval = format!("{:.0} to {:.0}", p.interval.min, p.interval.max);
        vec![p.name.as_str().into(), Cell::shown(p.kib_s, format!("{:.0}", p.kib_s)), interval.into()]
    };
    let table = |own: &[Prediction]| {
        let first = own.first()?;
        let of = with_conditions("the fitted setup", &first.set);
        let table = Table::new(&["test"], &["KiB/s"], own.iter().map(row)).then_words("80 % interval");
        Some(table.titled(format!("speeds of {of}: {}", first.link)))
    };
    all.chunk_by(|a, b| a.set == b.set).filter_map(table).collect()
}

/// Name of a test, with the conditions in the lines `set` of the results.
fn with_conditions(name: &str, set: &[String]) -> String {
    set.iter().fold(name.to_owned(), |name, set| name + ", " + set)
}

fn row(row: &FittedRow) -> Vec<Cell> {
    vec![
        Cell::count(row.line as u64),
        with_conditions(&row.name, &row.set).into(),
        row.measured.as_str().into(),
        percent(row.residual_before),
        percent(row.residual),
        row.left_out.map_or_else(|| "".into(), percent),
        if row.fitted { "" } else { "not fitted" }.into(),
    ]
}

fn hypothesis(h: &Hypothesis) -> String {
    format!(
        "may be wrong on the board: {} ({}): with plausible costs the worst figure is {} away, not {}",
        h.what,
        h.set.join(", "),
        unsigned(h.worst),
        unsigned(h.worst_before)
    )
}
