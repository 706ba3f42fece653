//! Distribution of all numbers after a fit, and the intervals of speeds that follow from it.
//!
//! Before the figures each number has a distribution of its own (`parameters`). Each figure narrows those combinations of numbers that its time depends
//! on (Laplace's approximation around the best fit). The rest keeps its width: after reads alone a program is as uncertain as its data
//! sheet. No simulation is exact, so each time also deviates by [`unexplained`].

use super::least_squares::slopes;
use super::model::Model;
use crate::papers::Operation;
use crate::speed::Test;
use crate::uncertainty::{Interval, OF_80_PERCENT};

/// Standard deviation by which a board's time of an operation differs from a simulation with the right costs. This and [`ALONE`] were chosen so that
/// the intervals of `floatgate papers --from-two` hold some 8 of 10 rows, the boards counted once each.
pub(super) const fn unexplained(operation: Operation) -> f64 {
    match operation {
        Operation::Read => 0.045,
        Operation::Program => 0.04,
        // A batch of erases and single ones differ by what the blocks hold.
        Operation::Erase | Operation::Attach | Operation::Other => 0.2,
    }
}

/// The same of an operation of whose kind no figure is given: a cost may be missing, or the clock be another one.
const ALONE: f64 = 0.15;

/// Distribution of all numbers after a fit.
pub(super) struct Posterior {
    best: Vec<f64>,
    /// Kinds of operation of which there is a figure.
    given: Vec<Operation>,
    covariance: Vec<Vec<f64>>,
}

/// Time of a test with its 80 % interval, ns per byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) test: Test,
    pub(super) ns_per_byte: f64,
    pub(super) interval: Interval,
}

fn logs(times: &[f64]) -> Vec<f64> {
    times.iter().map(|time| time.ln()).collect()
}

impl Posterior {
    /// The distribution around the `best` fit to the rows `keep`. None where the setup cannot be simulated near it.
    pub(super) fn new(model: &Model<'_>, keep: &[usize], best: &[f64]) -> Option<Self> {
        let logs = |at: &[f64]| Some(logs(&model.times_of(at, keep)?));
        let now = logs(best)?;
        let slopes = slopes(best, &model.bounds(), &now, &logs)?;
        let weights: Vec<f64> = keep
            .iter()
            .map(|&row| model.deviation(row, unexplained(model.operation(row))).map(|d| 1.0 / (d * d)))
            .collect::<Option<_>>()?;
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).zip(&weights).map(|((a, b), w)| a * b * w).sum();
        let precision: Vec<Vec<f64>> = slopes
            .iter()
            .zip(&model.parameters)
            .enumerate()
            .map(|(i, (a, p))| {
                let mut row: Vec<f64> = slopes.iter().map(|b| product(a, b)).collect();
                if let Some(own) = row.get_mut(i) {
                    *own += 1.0 / (p.spread * p.spread).max(1e-12);
                }
                row
            })
            .collect();
        let given = keep.iter().map(|&row| model.operation(row)).collect();
        Some(Self { best: best.to_vec(), given, covariance: inverse(precision)? })
    }

    /// Times of tests under the conditions `set`; none where they cannot be simulated.
    pub(super) fn expected(
        &self,
        model: &Model<'_>,
        set: &[String],
        tests: &[Test],
    ) -> Option<Vec<Expected>> {
        let times = |at: &[f64]| -> Option<Vec<f64>> {
            let run = model.times_under(set, at, tests)?;
            tests.iter().map(|test| run.iter().find(|(t, _)| t == test).map(|(_, ns)| *ns)).collect()
        };
        let logs = |at: &[f64]| -> Option<Vec<f64>> { Some(logs(&times(at)?)) };
        let now = times(&self.best)?;
        let slopes = slopes(&self.best, &model.bounds(), &logs(&self.best)?, &logs)?;
        let one = |(i, (&test, &ns_per_byte)): (usize, (&Test, &f64))| {
            let slope: Vec<f64> = slopes.iter().map(|s| s.get(i).copied().unwrap_or_default()).collect();
            let operation = Operation::of_test(test);
            let is_given = self.given.contains(&operation);
            let own = if is_given { unexplained(operation) } else { unexplained(operation).max(ALONE) };
            let half = OF_80_PERCENT * (self.variance(&slope) + own * own).sqrt();
            let interval = Interval { min: ns_per_byte * (-half).exp(), max: ns_per_byte * half.exp() };
            Expected { test, ns_per_byte, interval }
        };
        Some(tests.iter().zip(&now).enumerate().map(one).collect())
    }

    /// Variance of the sum of all numbers, each times its slope.
    fn variance(&self, slope: &[f64]) -> f64 {
        let row =
            |(own, row): (&f64, &Vec<f64>)| own * row.iter().zip(slope).map(|(c, s)| c * s).sum::<f64>();
        slope.iter().zip(&self.covariance).map(row).sum::<f64>().max(0.0)
    }
}

/// Inverse of a positive definite matrix, by elimination; none where it is singular.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
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
