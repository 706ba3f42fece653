//! Distribution of all numbers after a fit, and the resulting intervals of speeds.
//!
//! Before the fit, each number has its own distribution (`parameters`). Each figure narrows the combinations of numbers
//! on which its time depends (Laplace approximation around the best fit). Other combinations keep their width: after
//! reads alone, a program is as uncertain as in the data sheet. No simulation is exact, so each time also deviates as
//! stated in `residuals`.
//!
//! Some boards differ from the stated distributions far more than others. Their first figures show this already: the
//! figures lie far outside of what the distributions predict. All distributions of such a board are widened by the same
//! factor, the tension. Otherwise the numbers that its figures do not determine would seem as certain as on any board.

use super::least_squares::slopes;
use super::model::Model;
use super::residuals::{Given, Residuals};
use crate::interval::Interval;
use crate::papers::Operation;
use crate::speed::Test;
use crate::uncertainty::OF_80_PERCENT;

/// A symmetric matrix by rows.
pub(super) type Matrix = Vec<Vec<f64>>;

/// Constraint of a figure on the numbers.
struct Evidence {
    operation: Operation,
    /// Overrides under which the figure was measured.
    set: Vec<String>,
    /// Variance of the logarithm of the figure's time, due to the resolution of its tool.
    resolution: f64,
    /// Change of that logarithm with each number.
    slopes: Vec<f64>,
}

/// Distribution of all numbers after a fit.
pub(super) struct Posterior {
    best: Vec<f64>,
    /// Standard deviation of each number before the fit.
    spreads: Vec<f64>,
    evidence: Vec<Evidence>,
    stated: Option<Stated>,
}

/// Distribution before the fit, and its errors.
struct Stated {
    /// Standard deviation of each number.
    spreads: Vec<f64>,
    evidence: Vec<Evidence>,
    /// Logarithm of the ratio of each figure's time to its simulated time.
    errors: Vec<f64>,
}

/// Distribution of all numbers of a board, with the deviations of other boards.
pub(super) struct OfBoard {
    pub(super) covariance: Matrix,
    /// Factor by which the board's deviations are larger than usual.
    pub(super) tension: f64,
}

/// Time of a test, and its change with each number.
#[derive(Clone, Debug)]
pub(super) struct Reaction {
    pub(super) test: Test,
    pub(super) ns_per_byte: f64,
    /// Change of the logarithm of the time with each number.
    pub(super) slopes: Vec<f64>,
}

fn logs(times: &[f64]) -> Vec<f64> {
    times.iter().map(|time| time.ln()).collect()
}

/// Column of a list of slopes: one entry of each list.
fn column(slopes: &[Vec<f64>], row: usize) -> Vec<f64> {
    slopes.iter().map(|s| s.get(row).copied().unwrap_or_default()).collect()
}

impl Posterior {
    /// Distribution around the `best` fit to the rows `keep`. `None` if the setup cannot be simulated near it.
    pub(super) fn new(model: &Model<'_>, keep: &[usize], best: &[f64]) -> Option<Self> {
        let (_, evidence) = evidence(model, keep, best)?;
        let spreads = spreads(model, best);
        let stated = if keep.is_empty() { None } else { Stated::new(model, keep) };
        Some(Self { best: best.to_vec(), spreads, evidence, stated })
    }

    /// Covariance of the numbers if the time of a figure deviates from its simulation by `noise`, the standard
    /// deviation of its logarithm.
    pub(super) fn covariance(&self, noise: &dyn Fn(Operation) -> f64) -> Option<Matrix> {
        inverse(precision(&self.spreads, &self.evidence, noise))
    }

    /// Distribution of the numbers with the deviations of other boards.
    pub(super) fn of_boards(&self, residuals: &Residuals) -> Option<OfBoard> {
        let noise = |operation| residuals.of(operation, Given::SameKind);
        let tension = self.tension(&noise);
        let spreads: Vec<f64> = self.spreads.iter().map(|spread| spread * tension).collect();
        let noise = |operation| tension * noise(operation);
        Some(OfBoard { covariance: inverse(precision(&spreads, &self.evidence, &noise))?, tension })
    }

    /// Ratio of the figures' errors before the fit to the errors that the distributions predict (root mean square), at
    /// least 1.
    fn tension(&self, noise: &dyn Fn(Operation) -> f64) -> f64 {
        let squares = self.stated.as_ref().and_then(|stated| stated.squares(noise));
        squares.map_or(1.0, |squares| (squares / self.evidence.len().max(1) as f64).sqrt().max(1.0))
    }

    /// Standard deviation of a number before the fit, in units of its scale.
    pub(super) fn spread(&self, i: usize) -> f64 {
        self.spreads.get(i).copied().unwrap_or_default()
    }

    /// Fitted number, in units of its scale.
    pub(super) fn at(&self, i: usize) -> Option<f64> {
        self.best.get(i).copied()
    }

    /// Largest change of the time of a figure of this operation with number `i`; `None` without such a figure.
    pub(super) fn slope(&self, i: usize, operation: Operation) -> Option<f64> {
        let of_kind = self.evidence.iter().filter(|figure| figure.operation == operation);
        of_kind.filter_map(|figure| figure.slopes.get(i)).map(|slope| slope.abs()).reduce(f64::max)
    }

    /// Kind of the given figures, relative to a test of this operation under the overrides `set`.
    pub(super) fn given(&self, operation: Operation, set: &[String]) -> Given {
        let mut of_kind = self.evidence.iter().filter(|figure| figure.operation == operation).peekable();
        match (self.evidence.is_empty(), of_kind.peek().is_some()) {
            (true, _) => Given::Nothing,
            (_, false) => Given::OtherKinds,
            _ if of_kind.any(|figure| figure.set == set) => Given::SameKind,
            _ => Given::OtherSettings,
        }
    }

    /// Times of tests under the conditions `set`, and their change with each number; `None` if they cannot be
    /// simulated.
    pub(super) fn reactions(
        &self,
        model: &Model<'_>,
        set: &[String],
        tests: &[Test],
    ) -> Option<Vec<Reaction>> {
        let times = |at: &[f64]| -> Option<Vec<f64>> {
            let run = model.times_under(set, at, tests)?;
            tests.iter().map(|test| run.iter().find(|(t, _)| t == test).map(|(_, ns)| *ns)).collect()
        };
        let logs = |at: &[f64]| -> Option<Vec<f64>> { Some(logs(&times(at)?)) };
        let now = times(&self.best)?;
        let slopes = slopes(&self.best, &model.bounds(), &logs(&self.best)?, &logs)?;
        let one = |(i, (&test, &ns_per_byte)): (usize, (&Test, &f64))| Reaction {
            test,
            ns_per_byte,
            slopes: column(&slopes, i),
        };
        Some(tests.iter().zip(&now).enumerate().map(one).collect())
    }
}

/// Simulated logarithms of the times of the rows `keep`, and the constraints of the rows, at the point `at`.
fn evidence(model: &Model<'_>, keep: &[usize], at: &[f64]) -> Option<(Vec<f64>, Vec<Evidence>)> {
    let logs = |at: &[f64]| Some(logs(&model.times_of(at, keep)?));
    let now = logs(at)?;
    let slopes = slopes(at, &model.bounds(), &now, &logs)?;
    let one = |(i, &row): (usize, &usize)| {
        let resolution = model.deviation(row, 0.0)?;
        Some(Evidence {
            operation: model.operation(row),
            set: model.set(row).to_vec(),
            resolution: resolution * resolution,
            slopes: column(&slopes, i),
        })
    };
    let evidence = keep.iter().enumerate().map(one).collect::<Option<_>>()?;
    Some((now, evidence))
}

fn spreads(model: &Model<'_>, at: &[f64]) -> Vec<f64> {
    model.parameters.iter().zip(at).map(|(p, x)| p.spread(*x)).collect()
}

/// Inverse covariance of the numbers, with these standard deviations before the figures.
fn precision(spreads: &[f64], evidence: &[Evidence], noise: &dyn Fn(Operation) -> f64) -> Matrix {
    let n = spreads.len();
    let mut precision: Matrix = vec![vec![0.0; n]; n];
    for (i, (row, spread)) in precision.iter_mut().zip(spreads).enumerate() {
        if let Some(own) = row.get_mut(i) {
            *own = 1.0 / (spread * spread);
        }
    }
    for figure in evidence {
        let weight = figure.weight(noise);
        for (row, a) in precision.iter_mut().zip(&figure.slopes) {
            row.iter_mut().zip(&figure.slopes).for_each(|(own, b)| *own += weight * a * b);
        }
    }
    precision
}

impl Evidence {
    /// Inverse variance of the figure's logarithm.
    fn weight(&self, noise: &dyn Fn(Operation) -> f64) -> f64 {
        let noise = noise(self.operation);
        1.0 / (self.resolution + noise * noise).max(1e-12)
    }
}

impl Stated {
    /// Distribution at the stated numbers, and the errors of the rows `keep`.
    fn new(model: &Model<'_>, keep: &[usize]) -> Option<Self> {
        let start = model.start();
        let (now, evidence) = evidence(model, keep, &start)?;
        let error = |(&row, log): (&usize, &f64)| {
            let (low, high) = model.interval(row)?;
            Some((low * high).sqrt().ln() - log)
        };
        let errors = keep.iter().zip(&now).map(error).collect::<Option<_>>()?;
        Some(Self { spreads: spreads(model, &start), evidence, errors })
    }

    /// Sum of the squares of the errors, each in units of the deviation that the distributions predict. Errors with the
    /// same cause count once. `None` if the deviations cannot be computed.
    fn squares(&self, noise: &dyn Fn(Operation) -> f64) -> Option<f64> {
        let covariance = inverse(precision(&self.spreads, &self.evidence, noise))?;
        let mut sum = 0.0;
        let mut explained = vec![0.0; self.spreads.len()];
        for (figure, error) in self.evidence.iter().zip(&self.errors) {
            let weight = figure.weight(noise);
            sum += weight * error * error;
            explained.iter_mut().zip(&figure.slopes).for_each(|(own, slope)| *own += weight * slope * error);
        }
        Some((sum - variance(&covariance, &explained)).max(0.0))
    }
}

impl Reaction {
    /// 80 % interval of the time, ns per byte, for this distribution of the numbers and a deviation `own` of boards.
    pub(super) fn interval(&self, board: &OfBoard, own: f64) -> Interval {
        let own = own * board.tension;
        let half = OF_80_PERCENT * (variance(&board.covariance, &self.slopes) + own * own).sqrt();
        Interval { min: self.ns_per_byte * (-half).exp(), max: self.ns_per_byte * half.exp() }
    }
}

/// Covariance of each number with the weighted sum of all numbers; the weights are the slopes.
pub(super) fn with_sum(covariance: &Matrix, slopes: &[f64]) -> Vec<f64> {
    covariance.iter().map(|row| row.iter().zip(slopes).map(|(c, s)| c * s).sum()).collect()
}

/// Variance of the weighted sum of all numbers; the weights are the slopes.
pub(super) fn variance(covariance: &Matrix, slopes: &[f64]) -> f64 {
    with_sum(covariance, slopes).iter().zip(slopes).map(|(c, s)| c * s).sum::<f64>().max(0.0)
}

/// Inverse of a positive definite matrix, by elimination; `None` for a singular matrix.
fn inverse(mut matrix: Matrix) -> Option<Matrix> {
    let n = matrix.len();
    for (i, row) in matrix.iter_mut().enumerate() {
        row.extend((0..n).map(|j| if i == j { 1.0 } else { 0.0 }));
    }
    for i in 0..n {
        let pivot = matrix.get(i)?.clone();
        let head = pivot.get(i).copied().filter(|head| head.is_finite() && head.abs() > 1e-12)?;
        for (j, row) in matrix.iter_mut().enumerate() {
            let factor = row.get(i)? / head;
            if i == j {
                row.iter_mut().for_each(|x| *x /= head);
            } else {
                row.iter_mut().zip(&pivot).for_each(|(x, p)| *x -= factor * p);
            }
        }
    }
    Some(matrix.into_iter().map(|row| row.into_iter().skip(n).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inverse_times_its_matrix_is_one() {
        let matrix = vec![vec![4.0, 1.0, 0.5], vec![1.0, 3.0, 0.2], vec![0.5, 0.2, 2.0]];
        let inverse = inverse(matrix.clone()).unwrap();
        for (i, row) in matrix.iter().enumerate() {
            for j in 0..3 {
                let product: f64 = row.iter().zip(&inverse).map(|(x, column)| x * column[j]).sum();
                assert!((product - if i == j { 1.0 } else { 0.0 }).abs() < 1e-9, "{i} {j} {product}");
            }
        }
        assert!(super::inverse(vec![vec![0.0]]).is_none());
    }
}
