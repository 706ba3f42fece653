//! Distribution of all numbers after a fit, and the resulting intervals of speeds.
//!
//! Before the fit, each number has its own distribution (`parameters`). Each figure narrows the combinations of numbers
//! on which its time depends (Laplace approximation around the best fit). Other combinations keep their width: after
//! reads alone, a program is as uncertain as in the data sheet. No simulation is exact, so each time also deviates as
//! stated in `residuals`.

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
        let logs = |at: &[f64]| Some(logs(&model.times_of(at, keep)?));
        let now = logs(best)?;
        let slopes = slopes(best, &model.bounds(), &now, &logs)?;
        let one = |(i, &row): (usize, &usize)| {
            let resolution = model.deviation(row, 0.0)?;
            let operation = model.operation(row);
            Some(Evidence { operation, resolution: resolution * resolution, slopes: column(&slopes, i) })
        };
        let evidence = keep.iter().enumerate().map(one).collect::<Option<_>>()?;
        let spreads = model.parameters.iter().zip(best).map(|(p, x)| p.spread(*x)).collect();
        Some(Self { best: best.to_vec(), spreads, evidence })
    }

    /// Covariance of the numbers if the time of a figure deviates from its simulation by `noise`, the standard
    /// deviation of its logarithm.
    pub(super) fn covariance(&self, noise: &dyn Fn(Operation) -> f64) -> Option<Matrix> {
        let n = self.spreads.len();
        let mut precision: Matrix = vec![vec![0.0; n]; n];
        for (i, (row, spread)) in precision.iter_mut().zip(&self.spreads).enumerate() {
            if let Some(own) = row.get_mut(i) {
                *own = 1.0 / (spread * spread);
            }
        }
        for figure in &self.evidence {
            let noise = noise(figure.operation);
            let weight = 1.0 / (figure.resolution + noise * noise).max(1e-12);
            for (row, a) in precision.iter_mut().zip(&figure.slopes) {
                row.iter_mut().zip(&figure.slopes).for_each(|(own, b)| *own += weight * a * b);
            }
        }
        inverse(precision)
    }

    /// Covariance of the numbers with the deviations of other boards.
    pub(super) fn of_boards(&self, residuals: &Residuals) -> Option<Matrix> {
        self.covariance(&|operation| residuals.of(operation, Given::SameKind))
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

    /// Kind of the given figures, relative to a test of this operation.
    pub(super) fn given(&self, operation: Operation) -> Given {
        match self.evidence.as_slice() {
            [] => Given::Nothing,
            some if some.iter().any(|figure| figure.operation == operation) => Given::SameKind,
            _ => Given::OtherKinds,
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

impl Reaction {
    /// 80 % interval of the time, ns per byte, for this covariance of the numbers and a deviation `own` of the board.
    pub(super) fn interval(&self, covariance: &Matrix, own: f64) -> Interval {
        let half = OF_80_PERCENT * (variance(covariance, &self.slopes) + own * own).sqrt();
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
