//! Linear programs of a few variables: maximum of a linear function under constraints (Dantzig's simplex method with
//! Bland's rule).

/// Absolute value below which a number counts as 0.
const TINY: f64 = 1e-9;

/// Maximum number of exchanges; Bland's rule ends long before.
const EXCHANGES: usize = 10_000;

/// A dictionary of the simplex method: basic variables as linear functions of the others.
struct Dictionary {
    /// Coefficients: one row per constraint, then the objective. The last column is the constant.
    rows: Vec<Vec<f64>>,
    basic: Vec<usize>,
    others: Vec<usize>,
}

/// Point `x >= 0` that maximises `objective . x` with `rows . x <= limits`. `None` if no point is feasible, or the
/// maximum is unbounded.
pub(super) fn maximise(objective: &[f64], rows: &[Vec<f64>], limits: &[f64]) -> Option<Vec<f64>> {
    let n = objective.len();
    let mut d = Dictionary::new(n, rows, limits);
    let worst = (0..limits.len()).min_by(|&a, &b| limits[a].total_cmp(&limits[b]));
    if let Some(worst) = worst.filter(|&i| limits[i] < 0.0) {
        // The additional variable `n` relaxes all constraints. Its minimum is 0 if a feasible point exists.
        d.set_objective(|variable| if variable == n { -1.0 } else { 0.0 });
        let column = d.others.iter().position(|&v| v == n)?;
        d.exchange(worst, column)?;
        d.climb()?;
        if d.value(n) > 1e-7 {
            return None;
        }
        if let Some(row) = d.basic.iter().position(|&v| v == n) {
            let column =
                (0..d.others.len()).max_by(|&a, &b| d.rows[row][a].abs().total_cmp(&d.rows[row][b].abs()))?;
            d.exchange(row, column)?;
        }
    }
    d.forbid(n);
    d.set_objective(|variable| objective.get(variable).copied().unwrap_or(0.0));
    d.climb()?;
    Some((0..n).map(|variable| d.value(variable)).collect())
}

impl Dictionary {
    /// Creates the dictionary. Variables 0 to n are those of the problem and the relaxing one; the others are the slack
    /// of each constraint.
    fn new(n: usize, rows: &[Vec<f64>], limits: &[f64]) -> Self {
        let row = |(coefficients, limit): (&Vec<f64>, &f64)| {
            coefficients.iter().map(|c| -c).chain([1.0, *limit]).collect()
        };
        let mut all: Vec<Vec<f64>> = rows.iter().zip(limits).map(row).collect();
        all.push(vec![0.0; n + 2]);
        Self { rows: all, basic: (0..rows.len()).map(|i| n + 1 + i).collect(), others: (0..=n).collect() }
    }

    /// Sets the objective, expressed in the variables that are not basic now.
    fn set_objective(&mut self, of: impl Fn(usize) -> f64) {
        let mut row: Vec<f64> = self.others.iter().map(|&v| of(v)).chain([0.0]).collect();
        for (basic, coefficients) in self.basic.iter().zip(&self.rows) {
            let factor = of(*basic);
            row.iter_mut().zip(coefficients).for_each(|(x, c)| *x += factor * c);
        }
        if let Some(last) = self.rows.last_mut() {
            *last = row;
        }
    }

    /// Removes a variable that is 0 from the problem.
    fn forbid(&mut self, variable: usize) {
        if let Some(column) = self.others.iter().position(|&v| v == variable) {
            self.others.remove(column);
            for row in &mut self.rows {
                row.remove(column);
            }
        }
    }

    fn value(&self, variable: usize) -> f64 {
        let row = self.basic.iter().position(|&v| v == variable);
        row.and_then(|row| self.rows[row].last().copied()).unwrap_or(0.0)
    }

    /// Makes exchanges while the objective grows. `None` if it is unbounded.
    fn climb(&mut self) -> Option<()> {
        for _ in 0..EXCHANGES {
            let objective = self.rows.last()?;
            let entering = (0..self.others.len())
                .filter(|&column| objective[column] > TINY)
                .min_by_key(|&column| self.others[column]);
            let Some(column) = entering else { return Some(()) };
            let bound =
                |row: usize| self.rows[row].last().map_or(0.0, |limit| limit / -self.rows[row][column]);
            let leaving = (0..self.basic.len())
                .filter(|&row| self.rows[row][column] < -TINY)
                .min_by(|&a, &b| bound(a).total_cmp(&bound(b)).then(self.basic[a].cmp(&self.basic[b])))?;
            self.exchange(leaving, column)?;
        }
        None
    }

    fn exchange(&mut self, row: usize, column: usize) -> Option<()> {
        let pivot = self.rows[row][column];
        if pivot.abs() < TINY * 1e-3 {
            return None;
        }
        let mut solved: Vec<f64> = self.rows[row].iter().map(|c| -c / pivot).collect();
        solved[column] = 1.0 / pivot;
        for (i, other) in self.rows.iter_mut().enumerate() {
            if i != row {
                let factor = other[column];
                other[column] = 0.0;
                other.iter_mut().zip(&solved).for_each(|(x, c)| *x += factor * c);
            }
        }
        self.rows[row] = solved;
        std::mem::swap(&mut self.basic[row], &mut self.others[column]);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_corners_of_polygons() {
        // With x + y <= 4, x + 3y <= 6 and x <= 3, the maximum of 3x + 2y is at (3, 1).
        let rows = [vec![1.0, 1.0], vec![1.0, 3.0], vec![1.0, 0.0]];
        let best = maximise(&[3.0, 2.0], &rows, &[4.0, 6.0, 3.0]).unwrap();
        assert!((best[0] - 3.0).abs() < 1e-9 && (best[1] - 1.0).abs() < 1e-9, "{best:?}");
        // With x + y >= 2, the minimum is at (0, 2).
        let rows = [vec![1.0, 1.0], vec![-1.0, -1.0]];
        let best = maximise(&[-3.0, -2.0], &rows, &[4.0, -2.0]).unwrap();
        assert!(best[0].abs() < 1e-9 && (best[1] - 2.0).abs() < 1e-9, "{best:?}");
    }

    #[test]
    fn says_when_there_is_no_answer() {
        assert_eq!(maximise(&[1.0], &[vec![1.0], vec![-1.0]], &[1.0, -2.0]), None);
        assert_eq!(maximise(&[1.0, 0.0], &[vec![0.0, 1.0]], &[1.0]), None);
    }
}
