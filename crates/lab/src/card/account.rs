//! Counts and latencies of requests.

use super::latencies::Latencies;
use super::trace::{Request, RequestKind};
use floatgate_mtd::{Nanos, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

/// Counts of requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindTotals {
    /// Number of requests.
    pub requests: u64,
    /// Bytes of these requests.
    pub bytes: u64,
}

/// Counts of all requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Counts of reads.
    pub read: KindTotals,
    /// Counts of writes.
    pub write: KindTotals,
    /// Counts of discards.
    pub discard: KindTotals,
    /// Counts of flushes.
    pub flush: KindTotals,
    /// Requests that failed.
    pub failed: u64,
    /// Latencies of all requests.
    #[serde(skip)]
    pub latencies: Histogram,
}

impl Totals {
    /// Counts a request that has ended.
    pub(super) fn add(&mut self, request: &Request, is_ok: bool) {
        let totals = self.of_kind(request.kind);
        totals.requests += 1;
        totals.bytes += request.sectors * SECTOR_BYTES as u64;
        self.failed += u64::from(!is_ok);
        self.latencies.add(request.latency.unwrap_or(Nanos::ZERO));
    }

    fn of_kind(&mut self, kind: RequestKind) -> &mut KindTotals {
        match kind {
            RequestKind::Read => &mut self.read,
            RequestKind::Write => &mut self.write,
            RequestKind::Discard => &mut self.discard,
            RequestKind::Flush => &mut self.flush,
        }
    }
}

/// Latencies in classes of 1.6 % width: their memory does not grow with their number.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// By [`class`].
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

/// Classes of a power of two, as bits.
const CLASS_BITS: u32 = 6;
const CLASSES: usize = (64 - CLASS_BITS as usize + 1) << CLASS_BITS;

/// Class of a latency: its highest bit and the bits below it.
const fn class(ns: u64) -> usize {
    let shift = (u64::BITS - (ns >> CLASS_BITS).leading_zeros()).saturating_sub(1);
    ((shift as usize) << CLASS_BITS) + (ns >> shift) as usize
}

/// Longest latency of a class in ns.
const fn longest(class: usize) -> u64 {
    let shift = (class >> CLASS_BITS).saturating_sub(1);
    let mantissa = class - (shift << CLASS_BITS);
    (((mantissa as u128 + 1) << shift) - 1) as u64
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; CLASSES], count: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl Histogram {
    fn add(&mut self, latency: Nanos) {
        let ns = latency.as_ns();
        self.counts[class(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Latency in us that `permille` of 1000 requests do not exceed; 0 without requests.
    pub fn percentile_us(&self, permille: u64) -> f64 {
        let wanted = (self.count * permille).div_ceil(1000);
        let mut seen = 0;
        let class = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        class.map_or(0.0, |class| longest(class).min(self.max_ns) as f64 / 1e3)
    }

    /// Mean, percentiles and maximum.
    pub fn latencies(&self) -> Latencies {
        let mean_us = self.sum_ns as f64 / self.count.max(1) as f64 / 1e3;
        let [p50_us, p95_us, p99_us] = [500, 950, 990].map(|permille| self.percentile_us(permille));
        Latencies { mean_us, p50_us, p95_us, p99_us, max_us: self.max_ns as f64 / 1e3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_class_is_narrow_and_holds_its_latencies(ns: u64) {
            let class = class(ns);
            prop_assert!(class < CLASSES);
            prop_assert!(longest(class) >= ns);
            prop_assert!(longest(class) - ns <= ns >> CLASS_BITS);
            if let Some(below) = class.checked_sub(1) {
                prop_assert!(longest(below) < ns);
            }
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_latencies() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile_us(500), 0.0);
        (1..=1000).for_each(|us| histogram.add(Nanos::from_us(us)));
        let Latencies { mean_us, p50_us, p95_us, p99_us, max_us } = histogram.latencies();
        assert_eq!((mean_us, max_us), (500.5, 1000.0));
        for (found, exact) in [(p50_us, 500.0), (p95_us, 950.0), (p99_us, 990.0)] {
            assert!((exact..exact * 1.017).contains(&found), "{found} for {exact}");
        }
    }
}
