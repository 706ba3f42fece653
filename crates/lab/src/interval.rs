//! Intervals: the 80 % interval of a simulated figure, and confidence intervals (95 %) of a mean or a probability, from
//! samples.

use floatgate_mtd::random::Random;
use serde::{Deserialize, Serialize};

/// 80 % interval, in the unit of its figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end of the interval.
    #[serde(rename = "interval_min")]
    pub min: f64,
    /// Upper end of the interval.
    #[serde(rename = "interval_max")]
    pub max: f64,
}

impl Interval {
    /// True if the interval contains a figure.
    pub fn holds(&self, figure: f64) -> bool {
        (self.min..=self.max).contains(&figure)
    }

    /// Interval of a figure that is `scale` times this one or, with `inverse`, `scale` divided by this one.
    pub(crate) fn scaled(&self, scale: f64, inverse: bool) -> Self {
        if inverse {
            return Self { min: scale / self.max, max: scale / self.min };
        }
        Self { min: self.min * scale, max: self.max * scale }
    }

    /// Ratio of half the width to the middle.
    pub fn half_width(&self) -> f64 {
        (self.max - self.min) / (self.max + self.min)
    }
}

/// Quantile of the normal distribution at 97.5 %.
const Z: f64 = 1.96;

/// Number of resamples, drawn with replacement.
const RESAMPLES: usize = 1000;

/// Interval of a probability, from `hits` successes in `tries` trials (Wilson 1927).
pub(crate) fn wilson(hits: u64, tries: u64) -> [f64; 2] {
    let n = tries.max(1) as f64;
    let share = hits as f64 / n;
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    [((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0)]
}

/// Interval of the mean of `samples` (percentile bootstrap, Efron 1979). The seed is fixed, so equal samples have equal
/// intervals. `None` for a single sample, which gives no information about the mean's accuracy.
pub(crate) fn bootstrap(samples: &[f64]) -> Option<[f64; 2]> {
    if samples.len() < 2 {
        return None;
    }
    let mut chance = Random::new(samples.len() as u64);
    let mut mean = || {
        let drawn = (0..samples.len())
            .map(|_| samples[(chance.unit() * samples.len() as f64) as usize % samples.len()]);
        drawn.sum::<f64>() / samples.len() as f64
    };
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| mean()).collect();
    means.sort_by(f64::total_cmp);
    Some([means[RESAMPLES / 40], means[RESAMPLES - 1 - RESAMPLES / 40]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_is_narrower_with_more_tries() {
        let (few, many) = (wilson(5, 5), wilson(500, 500));
        assert!(few[0] > 0.5 && few[0] < 0.6, "{few:?}");
        assert!(many[0] > 0.99, "{many:?}");
        assert!(wilson(0, 10)[0] < 1e-9);
    }

    /// The mean of 200 samples from 0 to 1 has an error of about 0.04 (1.96 / sqrt(12 * 200)).
    #[test]
    fn a_bootstrap_is_as_wide_as_the_normal_distribution_says() {
        let samples: Vec<f64> = (0..200).map(|i| f64::from(i * 73 % 200) / 199.0).collect();
        let [low, high] = bootstrap(&samples).unwrap();
        assert!(low < 0.5 && high > 0.5);
        assert!((high - low - 0.08).abs() < 0.01, "{low} to {high}");
        assert_eq!(bootstrap(&samples[..1]), None);
        assert_eq!(bootstrap(&[3.0, 3.0]), Some([3.0, 3.0]));
    }
}
