//! Rows and summary of the comparison.

use super::file::RowKind;
pub use crate::operation::Operation;
use floatgate_mtd::{Breakdown, Nanos, Phase};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;

/// Statistics of the predicted rows of one [`Operation`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ByOperation {
    /// Operation that the rows measure.
    pub operation: Operation,
    /// Number of predicted rows.
    pub predicted: usize,
    /// Median of the absolute residuals.
    pub median: Option<f64>,
    /// Number of predicted rows with an 80 % interval.
    pub intervals: usize,
    /// Number of rows whose interval contains the published figure.
    pub hold: usize,
    /// Median of the half widths of the intervals, as ratios.
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

/// A row of the report. Its JSON is stable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReportRow {
    /// Short name of the document.
    pub paper: String,
    /// Short name of the table.
    pub table: String,
    /// Name of the row.
    pub row: String,
    /// Flash operation that the row measures.
    pub operation: Operation,
    /// Unit of both figures.
    pub unit: String,
    /// Published figure; for a range or a direction, its value nearest to the simulated figure.
    pub published: f64,
    /// Lower end of a published range, or a published lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_min: Option<f64>,
    /// Upper end of a published range, or a published upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_max: Option<f64>,
    /// Lowest exact figure that the tool would print as the published one; for a range, its lower end.
    pub interval_min: f64,
    /// Highest such figure; absent for a direction without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_max: Option<f64>,
    /// Simulated figure, rounded like the published one.
    pub simulated: f64,
    /// Lower end of the 80 % interval of the simulated figure, if `speed` states one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_min: Option<f64>,
    /// Upper end of that interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_max: Option<f64>,
    /// Distance of the exact simulated figure from the interval of values that the tool prints as the published figure,
    /// as a ratio. 0 inside that interval and inside a published range.
    pub residual: f64,
    /// Residual stated in the file, as a ratio.
    pub residual_stated: f64,
    /// Residual after a fit without this row. Only for fitted rows whose parameters other rows still determine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<f64>,
    /// Use of the row.
    pub kind: RowKind,
    /// Setup with its overrides.
    pub setup: String,
    /// Residual above which the row counts as missed, as a ratio.
    pub tolerance: f64,
    /// True if the residual must equal the stated one. For other seeds, residuals are not stated.
    #[serde(skip)]
    pub pinned: bool,
    /// Reason why the row is an exception, or a remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ReportRow {
    /// True if the row is not an exception and its residual exceeds its tolerance.
    pub fn is_missed(&self) -> bool {
        self.kind != RowKind::Exception && self.residual.abs() > self.tolerance
    }

    /// True if the residual differs from the one in the file or, in a table without residuals, if the row is missed.
    pub fn is_changed(&self) -> bool {
        match self.kind {
            RowKind::Exception => false,
            _ if self.pinned => (self.residual - self.residual_stated).abs() > PINNED,
            _ => self.is_missed() && self.residual_stated.abs() <= self.tolerance,
        }
    }

    /// True if the 80 % interval contains the published figure or a part of the published range; `None` without an
    /// interval.
    pub fn is_held(&self) -> Option<bool> {
        let (low, high) = (self.simulated_min?, self.simulated_max?);
        Some(self.interval_max? >= low && self.interval_min <= high)
    }

    /// Ratio of half the 80 % interval's width to its middle.
    fn half_width(&self) -> Option<f64> {
        let (low, high) = (self.simulated_min?, self.simulated_max?);
        Some((high - low) / (high + low))
    }

    /// True if the document gives a range and no figure.
    pub const fn is_range(&self) -> bool {
        self.published_min.is_some() && self.published_max.is_some()
    }
}

/// Largest accepted difference between a residual and the stated one, which is rounded to 0.1 percent.
const PINNED: f64 = 0.001;

/// A prediction with its breakdown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReportPrediction {
    /// Short name of the document.
    pub paper: String,
    /// Short name of the prediction.
    pub name: String,
    /// Title of the prediction.
    pub title: String,
    /// Setup with its overrides.
    pub setup: String,
    /// Unit of the figure.
    pub unit: String,
    /// Exact simulated figure.
    pub simulated: f64,
    /// Time by phase, ns.
    #[serde(serialize_with = "crate::speed::breakdown_ns", deserialize_with = "read_breakdown")]
    pub breakdown_ns: Breakdown,
    /// Obstacle to the measurement on real hardware, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Longest time of a phase that is read, ns: ten years. The sum of all phases cannot overflow.
const PHASE_NS_MAX: u64 = 10 * 366 * 86_400 * 1_000_000_000;

/// Reads times in ns by phase name.
fn read_breakdown<'de, D: Deserializer<'de>>(from: D) -> Result<Breakdown, D::Error> {
    let times: BTreeMap<String, u64> = Deserialize::deserialize(from)?;
    let mut breakdown = Breakdown::default();
    for phase in Phase::ALL {
        let ns = times.get(phase.name()).copied().unwrap_or(0);
        if ns > PHASE_NS_MAX {
            return Err(de::Error::custom(format!("{phase} takes more than ten years")));
        }
        breakdown.add(phase, Nanos::from_ns(ns));
    }
    Ok(breakdown)
}

/// Complete comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// All rows.
    pub rows: Vec<ReportRow>,
    /// Summary of the rows.
    pub summary: Summary,
    /// Predictions of figures that are not published yet.
    pub predictions: Vec<ReportPrediction>,
}

/// Statistics of all rows. Ranges are counted separately from figures. Exceptions are figures, but their residuals do
/// not count.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Number of published figures compared.
    pub figures: usize,
    /// Number of figures within the resolution of the tool that printed them.
    pub within: usize,
    /// Number of figures beyond that resolution, but within the tolerance.
    pub tolerated: usize,
    /// Number of missed figures, which are beyond their tolerance.
    pub missed: usize,
    /// Number of predicted figures among the missed ones.
    pub predicted_missed: usize,
    /// Number of figures to which parameters were fitted.
    pub fitted: usize,
    /// Number of predicted figures.
    pub predicted: usize,
    /// Number of declared exceptions.
    pub exceptions: usize,
    /// Number of ranges compared, for which the document gives no figure.
    pub ranges: usize,
    /// Number of ranges that the simulated figure misses by more than the tolerance.
    pub ranges_missed: usize,
    /// Number of directions compared: the document states which of two is larger, without a figure.
    pub directions: usize,
    /// Number of directions that the simulated figure contradicts.
    pub directions_missed: usize,
    /// Number of rows that the model cannot miss. No other count includes them.
    pub by_construction: usize,
    /// Number of parameters that were fitted to these figures.
    pub parameters: usize,
    /// Median of the absolute residuals; `None` without such rows, as for the fields below.
    pub median: Option<f64>,
    /// Median of the absolute residuals of predicted rows.
    pub median_predicted: Option<f64>,
    /// Median of the absolute residuals of fitted figures, each left out of its fit.
    pub median_left_out: Option<f64>,
    /// Largest absolute residual.
    pub worst: Option<f64>,
    /// Row with the largest residual, as `paper/table/row`.
    pub worst_row: String,
    /// Predicted rows by flash operation. Operations without rows are left out.
    pub by_operation: Vec<ByOperation>,
    /// Number of rows whose residual differs from the stated one.
    pub changed: usize,
}

impl Summary {
    /// True if every row has the residual that its file states.
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
