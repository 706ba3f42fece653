//! Intervals of a card's figures: the residuals of predicted rows that `papers cards` states, by measure.

use crate::Error;
use crate::interval::Interval;
use crate::papers::file::{Row, RowKind, built_in};

/// Document with measurements of cards.
const PAPER: &str = "cards";

/// Least number of predicted rows from which an interval is made.
const ROWS_MIN: usize = 5;

/// Share of the rows that an interval holds.
const SHARE: f64 = 0.8;

/// Reads in order of large requests, in `papers`.
pub const READ_IN_ORDER: &str = "card in order: read";
/// Writes in order of large requests.
pub const WRITE_IN_ORDER: &str = "card in order: write";
/// Writes of 4 KiB at random.
pub const WRITE_AT_RANDOM: &str = "card random: write";
/// Reads of 4 KiB at random.
pub const READ_AT_RANDOM: &str = "card random: read";

/// Distance between the model and measured cards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Factor by which 80 % of the predicted rows are off at most, up or down.
    pub factor: f64,
    /// Number of predicted rows.
    pub rows: usize,
}

impl Spread {
    /// The spread of a measure; `None` where fewer than five rows predict it.
    ///
    /// # Errors
    /// A built-in document that cannot be read.
    pub fn of(measure: &str) -> Result<Option<Self>, Error> {
        let papers = built_in()?;
        let tables = papers.iter().filter(|paper| paper.paper == PAPER).flat_map(|paper| &paper.tables);
        let rows = tables.flat_map(|table| &table.rows);
        let is_meant = |row: &&Row| row.kind == RowKind::Predicted && row.measure == measure;
        let logarithm = |row: &Row| libm::log((1.0 + row.residual_percent / 100.0).max(0.01)).abs();
        let mut distances: Vec<f64> = rows.filter(is_meant).map(logarithm).collect();
        distances.sort_by(f64::total_cmp);
        let rows = distances.len();
        let last = ((rows as f64 * SHARE).ceil() as usize).saturating_sub(1);
        let distance = distances.get(last).filter(|_| rows >= ROWS_MIN);
        Ok(distance.map(|distance| Self { factor: libm::exp(*distance), rows }))
    }

    /// The 80 % interval of a figure.
    pub fn interval(self, figure: f64) -> Interval {
        Interval { min: figure / self.factor, max: figure * self.factor }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [less, more] = [1.0 / self.factor, self.factor].map(|factor| (factor - 1.0) * 100.0);
        write!(f, "{less:.0} to {more:+.0} % ({} rows)", self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_most_of_the_predicted_rows() {
        let spread = Spread::of(WRITE_IN_ORDER).unwrap().unwrap();
        assert!(spread.rows >= ROWS_MIN && spread.factor > 1.0 && spread.factor < 2.0, "{spread:?}");
        assert!(spread.interval(10.0).holds(10.0));
        assert_eq!(Spread::of("card NAND: byte").unwrap(), None);
    }
}
