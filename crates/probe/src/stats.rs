//! Robust statistics, which a few outliers do not change.

/// Median of the values, 0 for none. The values are reordered.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let (upper, lower) = (*upper, below.iter().copied().max_by(f64::total_cmp));
    match lower {
        Some(lower) if values.len().is_multiple_of(2) => f64::midpoint(lower, upper),
        _ => upper,
    }
}

/// Standard deviation estimated from the median of the absolute values.
pub(crate) fn deviation(residuals: impl Iterator<Item = f64>) -> f64 {
    // The median of |x| of a normal distribution is 0.6745 of its deviation.
    let mut all: Vec<f64> = residuals.map(f64::abs).collect();
    median(&mut all) * 1.4826
}

/// Mean of the lowest 90 % of the values, 0 for no values.
pub(crate) fn trimmed_mean(values: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    let kept = (all.len() * 9).div_ceil(10);
    if kept == 0 { 0.0 } else { all[..kept].iter().sum::<f64>() / kept as f64 }
}

/// Quantile: the value below which `share` of the values lie, 0 for no values.
pub(crate) fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    let place = (all.len() as f64 * share) as usize;
    all.get(place.min(all.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_change_little() {
        assert!((median(&mut [3.0, 1.0, 1e9]) - 3.0).abs() < 1e-9);
        assert!((median(&mut [4.0, 1.0, 2.0, 1e9]) - 3.0).abs() < 1e-9);
        assert!(median(&mut []).abs() < 1e-9);
        assert!((trimmed_mean((0..10).map(|n| if n == 9 { 1e9 } else { 2.0 })) - 2.0).abs() < 1e-9);
        assert!((deviation([1.0, -1.0, 1.0, 1e9].into_iter()) - 1.4826).abs() < 1e-9);
        assert!((quantile((0..100).map(f64::from), 0.99) - 99.0).abs() < 1e-9);
    }
}
