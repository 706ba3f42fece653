//! The comparison as rows and a summary.

use super::file::RowKind;
use crate::speed::Test;
use floatgate_mtd::Breakdown;
use serde::{Deserialize, Serialize};

/// Operation of the flash in a row, by which rows are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Reads of the flash.
    Read,
    /// Programs of the flash.
    Program,
    /// Erases of the flash.
    Erase,
    /// UBI is attached.
    Attach,
    /// Anything else: filesystems, endurance, cards.
    Other,
}

impl Operation {
    /// All of them, in printing order.
    pub const ALL: [Self; 5] = [Self::Read, Self::Program, Self::Erase, Self::Attach, Self::Other];

    /// The name used in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Program => "program",
            Self::Erase => "erase",
            Self::Attach => "attach",
            Self::Other => "other",
        }
    }

    /// Operation of a test of `flash_speed`.
    pub(crate) const fn of_test(test: Test) -> Self {
        match test {
            Test::Read(_) => Self::Read,
            Test::Write(_) => Self::Program,
            Test::Erase(_) => Self::Erase,
        }
    }

    pub(super) fn of(measure: &str) -> Self {
        match Test::from_name(measure) {
            Some(test) => Self::of_test(test),
            None if measure.ends_with(": attach") => Self::Attach,
            None => Self::Other,
        }
    }
}

/// Predicted rows of one [`Operation`].
#[derive(Clone, Debug, Serialize)]
pub struct ByOperation {
    /// Operation that the rows measure.
    pub operation: Operation,
    /// Number of its predicted rows.
    pub predicted: usize,
    /// Median of their residuals' sizes.
    pub median: Option<f64>,
    /// Those among them that have an 80 % interval.
    pub intervals: usize,
    /// Those whose published figure the interval holds.
    pub hold: usize,
    /// Median of the intervals' half widths, as ratios.
    pub half_width: Option<f64>,
}

impl ByOperation {
    fn of(operation: Operation, rows: &[ReportRow]) -> Self {
        let all = || rows.iter().filter(|r| r.kind == RowKind::Predicted && r.operation == operation);
        Self {
            operation,
            predicted: all().count(),
            median: median(all().map(|r| r.residual.abs()).collect()),
            intervals: all().filter(|r| r.is_held().is_some()).count(),
            hold: all().filter(|r| r.is_held() == Some(true)).count(),
            half_width: median(all().filter_map(ReportRow::half_width).collect()),
        }
    }
}

/// One row of the report. Its JSON is stable.
#[derive(Clone, Debug, Serialize)]
pub struct ReportRow {
    /// Short name of the document.
    pub paper: String,
    /// Short name of the table.
    pub table: String,
    /// Name of the row.
    pub row: String,
    /// Operation of the flash.
    pub operation: Operation,
    /// Unit of both figures.
    pub unit: String,
    /// The published figure; of a range or a direction what is nearest to the simulated figure.
    pub published: f64,
    /// The lower end of a published range, or what the document says is the least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_min: Option<f64>,
    /// Upper end of the range, or what the document says is the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_max: Option<f64>,
    /// Smallest exact figure for which the tool would have printed the published one; of a range its lower end.
    pub interval_min: f64,
    /// Largest such figure; absent where a direction has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_max: Option<f64>,
    /// The simulated figure, rounded as the published one was.
    pub simulated: f64,
    /// Lower end of the simulated figure's 80 % interval, where `speed` states one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_min: Option<f64>,
    /// Upper end of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_max: Option<f64>,
    /// Distance of the exact simulated figure from the interval of values that the tool prints as the published figure, as a
    /// ratio; 0 inside that interval and inside a published range.
    pub residual: f64,
    /// Residual that the file states, as a ratio.
    pub residual_stated: f64,
    /// Residual after a fit without this row, for fitted rows whose parameters other rows still determine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<f64>,
    /// Use of the row.
    pub kind: RowKind,
    /// Setup and overrides.
    pub setup: String,
    /// A larger residual is a miss.
    pub tolerance: f64,
    /// True when the stated residual must be met. Residuals of other seeds are not stated.
    #[serde(skip)]
    pub pinned: bool,
    /// Reason for which the row is an exception, or a remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ReportRow {
    /// True when the row is not an exception and its residual is larger than its tolerance.
    pub fn is_missed(&self) -> bool {
        self.kind != RowKind::Exception && self.residual.abs() > self.tolerance
    }

    /// True when the residual is not the one that the file states, or, in a table that states none, when the row is missed.
    pub fn is_changed(&self) -> bool {
        match self.kind {
            RowKind::Exception => false,
            _ if self.pinned => (self.residual - self.residual_stated).abs() > PINNED,
            _ => self.is_missed() && self.residual_stated.abs() <= self.tolerance,
        }
    }

    /// True when the published figure, or some of a published range, lies in the 80 % interval; nothing where there is none.
    pub fn is_held(&self) -> Option<bool> {
        let (low, high) = (self.simulated_min?, self.simulated_max?);
        Some(self.interval_max? >= low && self.interval_min <= high)
    }

    /// Half of the 80 % interval's width over its middle.
    fn half_width(&self) -> Option<f64> {
        let (low, high) = (self.simulated_min?, self.simulated_max?);
        Some((high - low) / (high + low))
    }

    /// True when the document gives a range and no figure.
    pub const fn is_range(&self) -> bool {
        self.published_min.is_some() && self.published_max.is_some()
    }
}

/// The largest distance of a residual from the stated one: it is stated in tenths of a percent.
const PINNED: f64 = 0.001;

/// A prediction with its breakdown.
#[derive(Clone, Debug, Serialize)]
pub struct ReportPrediction {
    /// Short name of the document.
    pub paper: String,
    /// Short name.
    pub name: String,
    /// Title of the prediction.
    pub title: String,
    /// Setup and overrides.
    pub setup: String,
    /// Unit of the figure.
    pub unit: String,
    /// The exact figure.
    pub simulated: f64,
    /// Time by phase, ns.
    #[serde(serialize_with = "crate::speed::breakdown_ns")]
    pub breakdown_ns: Breakdown,
    /// Obstacle on real hardware, if any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The whole comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// All rows.
    pub rows: Vec<ReportRow>,
    /// Their summary.
    pub summary: Summary,
    /// Predictions of figures that are not published yet.
    pub predictions: Vec<ReportPrediction>,
}

/// The rows in numbers. Ranges count apart from figures; exceptions are figures, but their residuals do not count.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Published figures compared.
    pub figures: usize,
    /// Figures that come out within the resolution of the tool that printed them.
    pub within: usize,
    /// Figures that come out beyond it, but within the tolerance.
    pub tolerated: usize,
    /// Figures that missed: beyond their tolerance.
    pub missed: usize,
    /// Predicted figures among those that missed.
    pub predicted_missed: usize,
    /// Figures that parameters were fitted to.
    pub fitted: usize,
    /// Figures that were predicted.
    pub predicted: usize,
    /// Declared exceptions.
    pub exceptions: usize,
    /// Ranges compared: what a document says without a figure.
    pub ranges: usize,
    /// Ranges that the simulated figure lies outside of, by more than the tolerance.
    pub ranges_missed: usize,
    /// Directions compared: which of two is larger, as the document says it without a figure.
    pub directions: usize,
    /// Directions that the simulated figure does not have.
    pub directions_missed: usize,
    /// Rows that the model cannot miss. They are in none of the other counts.
    pub by_construction: usize,
    /// Parameters that were fitted to these figures.
    pub parameters: usize,
    /// Median of the residuals' sizes; nothing where there are no such rows, as below.
    pub median: Option<f64>,
    /// Median over predicted rows alone.
    pub median_predicted: Option<f64>,
    /// Median of the residuals of fitted figures when each is left out of its fit.
    pub median_left_out: Option<f64>,
    /// Largest residual's size.
    pub worst: Option<f64>,
    /// The row with the largest residual, `paper/table/row`.
    pub worst_row: String,
    /// The predicted rows by what the flash does; without operations that no row has.
    pub by_operation: Vec<ByOperation>,
    /// Rows whose residual is not the stated one.
    pub changed: usize,
}

impl Summary {
    /// True when every row has the residual that its file states.
    pub fn holds(&self) -> bool {
        self.changed == 0
    }
}

pub(super) fn summarise(rows: &[ReportRow], parameters: usize) -> Summary {
    let (directions, others): (Vec<&ReportRow>, Vec<&ReportRow>) =
        rows.iter().partition(|r| r.kind == RowKind::Direction);
    let (free, others): (Vec<&ReportRow>, Vec<&ReportRow>) =
        others.into_iter().partition(|r| r.kind == RowKind::ByConstruction);
    let (ranges, figures): (Vec<&ReportRow>, Vec<&ReportRow>) =
        others.into_iter().partition(|r| r.is_range());
    let count = |kind| figures.iter().filter(|r| r.kind == kind).count();
    let counted = || figures.iter().filter(|r| r.kind != RowKind::Exception);
    let sizes = |keep: &dyn Fn(&ReportRow) -> bool| -> Vec<f64> {
        counted().filter(|r| keep(r)).map(|r| r.residual.abs()).collect()
    };
    let worst = counted().max_by(|a, b| a.residual.abs().total_cmp(&b.residual.abs()));
    Summary {
        figures: figures.len(),
        within: counted().filter(|r| r.residual == 0.0).count(),
        tolerated: counted().filter(|r| r.residual != 0.0 && !r.is_missed()).count(),
        missed: figures.iter().filter(|r| r.is_missed()).count(),
        predicted_missed: figures.iter().filter(|r| r.is_missed() && r.kind == RowKind::Predicted).count(),
        fitted: count(RowKind::Fitted),
        predicted: count(RowKind::Predicted),
        exceptions: count(RowKind::Exception),
        ranges: ranges.len(),
        ranges_missed: ranges.iter().filter(|r| r.is_missed()).count(),
        directions: directions.len(),
        directions_missed: directions.iter().filter(|r| r.is_missed()).count(),
        by_construction: free.len(),
        parameters,
        median: median(sizes(&|_| true)),
        median_predicted: median(sizes(&|r| r.kind == RowKind::Predicted)),
        median_left_out: median(counted().filter_map(|r| r.left_out.map(f64::abs)).collect()),
        worst: worst.map(|r| r.residual.abs()),
        worst_row: worst.map_or_else(String::new, |r| format!("{}/{}/{}", r.paper, r.table, r.row)),
        by_operation: Operation::ALL
            .into_iter()
            .map(|operation| ByOperation::of(operation, rows))
            .filter(|by| by.predicted > 0)
            .collect(),
        changed: rows.iter().filter(|r| r.is_changed()).count(),
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => None,
        n if n % 2 == 1 => values.get(n / 2).copied(),
        n => Some(f64::midpoint(*values.get(n / 2 - 1)?, *values.get(n / 2)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }
}
