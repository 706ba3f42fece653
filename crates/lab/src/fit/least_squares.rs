//! Least squares by the Gauss-Newton method with Levenberg-Marquardt damping, within bounds.
//!
//! The errors come from a simulation whose polls make steps. So slopes are measured over a distance, and a step is
//! accepted only if it reduces the sum of squares.

/// Limits of a fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Maximum number of rounds of improvement.
    pub(crate) rounds: usize,
    /// Relative improvement of the sum of squares below which the fit ends.
    pub(crate) enough: f64,
}

impl Effort {
    /// Effort of a complete fit, which ends when nothing improves any more.
    pub(crate) const FULL: Self = Self { rounds: 12, enough: 1e-4 };
}

/// Step of a parameter for measuring its effect.
const STEP: f64 = 0.05;

/// Maximum step of a parameter in one round.
const LONGEST: f64 = 1.0;

/// Attempts of a round: damping as a share of the diagonal of the normal equations, and factor of the step.
const TRIES: [(f64, f64); 6] = [(0.0, 1.0), (0.0, 0.5), (0.0, 0.25), (0.01, 1.0), (0.1, 1.0), (1.0, 1.0)];

/// Bounds of one parameter, and its maximum step in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) longest: f64,
}

impl Bounds {
    /// No bounds, and steps of at most 1; for logarithms.
    pub(crate) const NONE: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY, longest: LONGEST };
}

/// Sum of squares.
pub(crate) fn squares(errors: &[f64]) -> f64 {
    errors.iter().map(|e| e * e).sum()
}

/// Point with the least sum of squares of `errors`, found by descent from `at`. `None` if the starting point has no
/// errors.
pub(crate) fn minimise(
    mut at: Vec<f64>,
    bounds: &[Bounds],
    effort: Effort,
    errors: impl Fn(&[f64]) -> Option<Vec<f64>>,
) -> Option<Vec<f64>> {
    let mut now = errors(&at)?;
    for _ in 0..effort.rounds {
        if squares(&now) == 0.0 {
            break;
        }
        let slopes = slopes(&at, bounds, &now, &errors)?;
        let tries = TRIES.into_iter().filter_map(|(damping, share)| {
            let step = bounded_step(&at, bounds, &slopes, &now, damping)?;
            let there: Vec<f64> =
                at.iter().zip(&step).zip(bounds).map(|((x, step), b)| moved(*x, share * step, *b)).collect();
            errors(&there).map(|errors| (there, errors))
        });
        let better = tries
            .filter(|(_, e)| squares(e) < squares(&now))
            .min_by(|a, b| squares(&a.1).total_cmp(&squares(&b.1)));
        match better {
            Some(found) => {
                let is_last = squares(&now) - squares(&found.1) < squares(&now) * effort.enough;
                (at, now) = found;
                if is_last {
                    break;
                }
            }
            None => break,
        }
    }
    Some(at)
}

/// Change of each error with each parameter, one row per parameter. At an upper bound, the test step goes downwards.
pub(crate) fn slopes(
    at: &[f64],
    bounds: &[Bounds],
    now: &[f64],
    errors: &impl Fn(&[f64]) -> Option<Vec<f64>>,
) -> Option<Vec<Vec<f64>>> {
    (0..at.len())
        .map(|i| {
            let mut there = at.to_vec();
            let step = if at.get(i)? + STEP > bounds.get(i)?.high { -STEP } else { STEP };
            *there.get_mut(i)? += step;
            Some(errors(&there)?.iter().zip(now).map(|(b, a)| (b - a) / step).collect())
        })
        .collect()
}

fn moved(x: f64, step: f64, b: Bounds) -> f64 {
    (x + step.clamp(-b.longest, b.longest)).clamp(b.low, b.high)
}

/// Gauss-Newton step. Parameters that it would move beyond their bounds stay, and the step of the others is computed
/// again.
fn bounded_step(
    at: &[f64],
    bounds: &[Bounds],
    slopes: &[Vec<f64>],
    errors: &[f64],
    damping: f64,
) -> Option<Vec<f64>> {
    let mut free: Vec<usize> = (0..at.len()).collect();
    loop {
        let some: Vec<&Vec<f64>> = free.iter().filter_map(|&i| slopes.get(i)).collect();
        let step = newton_step(&some, errors, damping)?;
        let stays = |(&i, step): (&usize, &f64)| {
            let (Some(&x), Some(b)) = (at.get(i), bounds.get(i)) else { return false };
            (x <= b.low && *step < 0.0) || (x >= b.high && *step > 0.0)
        };
        let kept: Vec<usize> =
            free.iter().zip(&step).filter(|(i, step)| !stays((i, step))).map(|(&i, _)| i).collect();
        if kept.len() == free.len() {
            let mut all = vec![0.0; at.len()];
            for (&i, step) in free.iter().zip(step) {
                *all.get_mut(i)? = step;
            }
            return Some(all);
        }
        free = kept;
    }
}

/// Solves the normal equations by elimination. `slopes` has one row per parameter.
fn newton_step(slopes: &[&Vec<f64>], errors: &[f64], damping: f64) -> Option<Vec<f64>> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let n = slopes.len();
    // A parameter without effect does not move.
    let mut rows: Vec<Vec<f64>> = slopes
        .iter()
        .enumerate()
        .map(|(i, a)| {
            let mut row: Vec<f64> = slopes.iter().map(|b| dot(a, b)).collect();
            row[i] += damping * row[i] + 1e-9;
            row.push(-dot(a, errors));
            row
        })
        .collect();
    for i in 0..n {
        let pivot = rows.get(i)?.clone();
        for (j, row) in rows.iter_mut().enumerate() {
            if j != i {
                let factor = row.get(i)? / pivot.get(i)?;
                row.iter_mut().zip(&pivot).for_each(|(x, p)| *x -= factor * p);
            }
        }
    }
    rows.iter().enumerate().map(|(i, row)| Some(row.get(n)? / row.get(i)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors of a line through three points: the line nearest to 1, 2, 2 at 0, 1, 2 is 7/6 + x/2.
    fn errors(at: &[f64]) -> Option<Vec<f64>> {
        let line = |x: f64, y: f64| at[0] + at[1] * x - y;
        Some(vec![line(0.0, 1.0), line(1.0, 2.0), line(2.0, 2.0)])
    }

    #[test]
    fn finds_the_least_squares() {
        let best = minimise(vec![0.0, 0.0], &[Bounds::NONE; 2], Effort::FULL, errors).unwrap();
        assert!((best[0] - 7.0 / 6.0).abs() < 1e-3 && (best[1] - 0.5).abs() < 1e-3, "{best:?}");
    }

    #[test]
    fn bounds_hold_and_the_others_make_the_best_of_it() {
        // With a slope of at most 0.2, the best height is 5/3 - 0.2.
        let slope = Bounds { low: 0.0, high: 0.2, longest: 1.0 };
        let best = minimise(vec![0.0, 0.0], &[Bounds::NONE, slope], Effort::FULL, errors).unwrap();
        assert!((best[1] - 0.2).abs() < 1e-9 && (best[0] - (5.0 / 3.0 - 0.2)).abs() < 1e-3, "{best:?}");
    }
}
