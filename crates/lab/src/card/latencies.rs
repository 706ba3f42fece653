//! Latencies of requests.

use serde::{Deserialize, Serialize};

/// Latencies in us.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Mean in us.
    pub mean_us: f64,
    /// Median in us.
    pub p50_us: f64,
    /// 95th percentile in us.
    pub p95_us: f64,
    /// 99th percentile in us.
    pub p99_us: f64,
    /// Longest in us.
    pub max_us: f64,
}

impl Latencies {
    /// From all latencies in ns; zeros for none.
    pub(super) fn of(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        let count = all.len().max(1);
        let at = |percent: usize| {
            let place = (all.len() * percent).div_ceil(100).saturating_sub(1);
            all.get(place).map_or(0.0, |ns| *ns as f64 / 1e3)
        };
        let mean_us = all.iter().sum::<u64>() as f64 / count as f64 / 1e3;
        Self { mean_us, p50_us: at(50), p95_us: at(95), p99_us: at(99), max_us: at(100) }
    }
}
