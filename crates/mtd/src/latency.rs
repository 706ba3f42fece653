//! A distribution of latencies in constant memory.

use crate::time::Nanos;
use alloc::vec;
use alloc::vec::Vec;

/// Linear steps per power of two; fixes the error of percentiles.
const STEPS: u64 = 8;

/// Latencies of many operations: smallest, largest, sum, and a histogram of powers of two with eight steps each.
///
/// Percentiles are never below the true value and less than 1/8 (12.5 %) above it; up to 15 ns, and when all latencies
/// are equal, they are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    count: u64,
    min: Nanos,
    max: Nanos,
    total: Nanos,
    /// Empty until the first latency.
    histogram: Vec<u64>,
}

impl Latency {
    /// Counts one latency.
    pub fn add(&mut self, latency: Nanos) {
        self.min = if self.count == 0 { latency } else { self.min.min(latency) };
        self.max = self.max.max(latency);
        self.total += latency;
        self.count += 1;
        if self.histogram.is_empty() {
            self.histogram = vec![0; bucket(u64::MAX) + 1];
        }
        self.histogram[bucket(latency.as_ns())] += 1;
    }

    /// Number of latencies counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The shortest, zero when none was counted.
    pub const fn min(&self) -> Nanos {
        self.min
    }

    /// Longest latency.
    pub const fn max(&self) -> Nanos {
        self.max
    }

    /// Sum of all latencies.
    pub const fn total(&self) -> Nanos {
        self.total
    }

    /// The mean, rounded down; zero when none was counted.
    pub const fn mean(&self) -> Nanos {
        match self.total.as_ns().checked_div(self.count) {
            Some(mean) => Nanos::from_ns(mean),
            None => Nanos::ZERO,
        }
    }

    /// The latency that `per_mille` of 1000 operations do not exceed: 500 is the median, 999 is p99.9. For the error
    /// see the type. Zero when none was counted.
    pub fn percentile(&self, per_mille: u32) -> Nanos {
        let rank = (u128::from(self.count) * u128::from(per_mille.min(1000))).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, &count) in self.histogram.iter().enumerate() {
            seen += u128::from(count);
            if seen >= rank {
                return Nanos::from_ns(upper(index)).min(self.max).max(self.min);
            }
        }
        self.max
    }

    /// Half of the operations took no longer.
    pub fn p50(&self) -> Nanos {
        self.percentile(500)
    }

    /// 99 % of the operations took no longer.
    pub fn p99(&self) -> Nanos {
        self.percentile(990)
    }

    /// 99.9 % of the operations took no longer.
    pub fn p999(&self) -> Nanos {
        self.percentile(999)
    }
}

/// The bucket of a latency: below 16 ns one each, then eight steps per power of two.
const fn bucket(ns: u64) -> usize {
    if ns < 2 * STEPS {
        return ns as usize;
    }
    let octave = ns.ilog2() - STEPS.ilog2();
    ((octave as u64) * STEPS + (ns >> octave)) as usize
}

/// The longest latency in a bucket.
const fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let octave = bucket / STEPS - 1;
    let step = bucket % STEPS + STEPS;
    // The last bucket ends at 2^64: the shift loses that bit, and subtracting one brings the rest back.
    ((step + 1) << octave).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_join_without_gap() {
        for index in 0..bucket(u64::MAX) {
            assert_eq!(bucket(upper(index)), index);
            assert_eq!(bucket(upper(index) + 1), index + 1);
        }
        assert_eq!(upper(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn an_empty_distribution_is_zero() {
        let none = Latency::default();
        assert_eq!((none.p50(), none.mean(), none.min(), none.max()), Default::default());
    }

    proptest! {
        #[test]
        fn percentiles_keep_their_promise(mut ns in prop::collection::vec(0u64..10_000_000_000, 1..300),
                                          per_mille in 0u32..=1000) {
            let mut latency = Latency::default();
            ns.iter().for_each(|&n| latency.add(Nanos::from_ns(n)));
            ns.sort_unstable();
            let rank = (ns.len() * per_mille as usize).div_ceil(1000).max(1);
            let exact = ns[rank - 1];
            let got = latency.percentile(per_mille).as_ns();
            prop_assert!(got >= exact && got <= exact + exact / 8, "{got} for {exact}");
            prop_assert_eq!(latency.mean().as_ns(), ns.iter().sum::<u64>() / ns.len() as u64);
            prop_assert_eq!((latency.min().as_ns(), latency.max().as_ns()), (ns[0], ns[ns.len() - 1]));
        }
    }
}
