//! The comparison as rows and a summary.

use super::file::RowKind;
use floatgate_mtd::Breakdown;
use serde::Serialize;

/// One row of the report. Its JSON is stable.
#[derive(Clone, Debug, Serialize)]
pub struct ReportRow {
    /// Short name of the document.
    pub paper: String,
    /// Short name of the table.
    pub table: String,
    /// Name of the row.
    pub row: String,
    /// Unit of both figures.
    pub unit: String,
    /// The published figure; of a range what is nearest to the simulated figure.
    pub published: f64,
    /// The lower end of a published range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_min: Option<f64>,
    /// Upper end of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_max: Option<f64>,
    /// The simulated figure, rounded as the published one was.
    pub simulated: f64,
    /// simulated / published - 1: 0 within a published range.
    pub residual: f64,
    /// Use of the row.
    pub kind: RowKind,
    /// Setup and overrides.
    pub setup: String,
    /// Largest residual allowed.
    pub tolerance: f64,
    /// Reason for which the row is an exception, or a remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ReportRow {
    /// True when the row is not an exception and lies outside its tolerance.
    pub fn is_outside(&self) -> bool {
        self.kind != RowKind::Exception && self.residual.abs() > self.tolerance
    }

    /// True when the document gives a range and no figure.
    pub fn is_range(&self) -> bool {
        self.published_min.is_some()
    }
}

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
    /// Predictions of figures that nobody has published yet.
    pub predictions: Vec<ReportPrediction>,
}

/// The rows in numbers. Exceptions count as rows, not in residuals; ranges, which most figures meet exactly, not in medians.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Rows compared.
    pub rows: usize,
    /// Rows that parameters were fitted to.
    pub fitted: usize,
    /// Rows that were predicted.
    pub predicted: usize,
    /// Declared exceptions.
    pub exceptions: usize,
    /// Parameters fitted.
    pub parameters: usize,
    /// Median of the residuals' sizes.
    pub median: f64,
    /// Median over predicted rows alone.
    pub median_predicted: f64,
    /// Largest residual's size.
    pub worst: f64,
    /// The row with the largest residual, `paper/table/row`.
    pub worst_row: String,
    /// Rows outside their tolerance.
    pub outside: usize,
}

impl Summary {
    /// True when every row that is not an exception is within its tolerance.
    pub fn holds(&self) -> bool {
        self.outside == 0
    }
}

pub(super) fn summarise(rows: &[ReportRow], parameters: usize) -> Summary {
    let count = |kind| rows.iter().filter(|r| r.kind == kind).count();
    let sizes = |keep: &dyn Fn(&&ReportRow) -> bool| -> Vec<f64> {
        rows.iter().filter(keep).map(|r| r.residual.abs()).collect()
    };
    let worst = rows
        .iter()
        .filter(|r| r.kind != RowKind::Exception)
        .max_by(|a, b| a.residual.abs().total_cmp(&b.residual.abs()));
    Summary {
        rows: rows.len(),
        fitted: count(RowKind::Fitted),
        predicted: count(RowKind::Predicted),
        exceptions: count(RowKind::Exception),
        parameters,
        median: median(sizes(&|r| r.kind != RowKind::Exception && !r.is_range())),
        median_predicted: median(sizes(&|r| r.kind == RowKind::Predicted && !r.is_range())),
        worst: worst.map_or(0.0, |r| r.residual.abs()),
        worst_row: worst.map_or_else(String::new, |r| format!("{}/{}/{}", r.paper, r.table, r.row)),
        outside: rows.iter().filter(|r| r.is_outside()).count(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
    }
}
