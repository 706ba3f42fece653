//! Time axis with round ticks.

use floatgate_mtd::Nanos;

/// A tick: its position and label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    /// Distance from the start of the axis.
    pub(super) at: Nanos,
    /// Number of the tick, in the unit of the axis.
    pub(super) label: String,
}

/// Ticks of an axis, in one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    /// Unit of the labels: `ns`, `us`, `ms` or `s`.
    pub(super) unit: &'static str,
    /// Ticks from zero upwards, all within the range.
    pub(super) ticks: Vec<Tick>,
}

/// Units, each with the length in ns from which it is used: numbers stay between 10 and 10000 if possible.
const UNITS: [(&str, u64, u64); 4] =
    [("s", 1_000_000_000, 10_000_000_000), ("ms", 1_000_000, 10_000_000), ("us", 1_000, 2_000), ("ns", 1, 0)];

impl Axis {
    /// Round ticks (1, 2 or 5 times a power of ten) from 0 to `range`, at most `most` besides zero.
    pub(super) fn new(range: Nanos, most: u32) -> Self {
        let range = range.as_ns();
        let step = step(range, u64::from(most.max(1)));
        let (unit, scale, _) = UNITS.into_iter().find(|&(_, _, from)| range >= from).unwrap_or(("ns", 1, 0));
        let ticks = (0..=range / step)
            .map(|i| Tick { at: Nanos::from_ns(i * step), label: label(i * step, step, scale) })
            .collect();
        Self { unit, ticks }
    }
}

/// Smallest round step with which `range` has at most `most` steps.
fn step(range: u64, most: u64) -> u64 {
    let mut decade = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let step = decade.saturating_mul(factor);
            if range / step <= most {
                return step;
            }
        }
        // The loop ends, because a step of u64::MAX gives at most one step.
        decade = decade.saturating_mul(10);
    }
}

/// Text of `ns` in a unit of `scale` ns, with the decimals that multiples of `step` need.
pub(super) fn label(ns: u64, step: u64, scale: u64) -> String {
    let (whole, part) = (ns / scale, ns % scale);
    let digits = scale.ilog10().saturating_sub(step.ilog10()) as usize;
    if digits == 0 {
        return whole.to_string();
    }
    let all = format!("{part:0width$}", width = scale.ilog10() as usize);
    format!("{whole}.{}", &all[..digits])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(ns: u64, most: u32) -> String {
        let axis = Axis::new(Nanos::from_ns(ns), most);
        let all: Vec<String> = axis.ticks.into_iter().map(|t| t.label).collect();
        format!("{} {}", all.join(" "), axis.unit)
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(312_400, 8), "0 50 100 150 200 250 300 us");
        assert_eq!(labels(2_500, 5), "0.0 0.5 1.0 1.5 2.0 2.5 us");
        assert_eq!(labels(12_000_000, 6), "0 2 4 6 8 10 12 ms");
        assert_eq!(labels(730, 4), "0 200 400 600 ns");
        assert_eq!(labels(90_000_000_000, 5), "0 20 40 60 80 s");
        assert_eq!(labels(0, 5), "0 ns");
        assert_eq!(labels(u64::MAX, 4), "0 5000000000 10000000000 15000000000 s");
    }

    proptest! {
        #[test]
        fn ticks_lie_within(ns: u64, most in 0..40_u32) {
            let axis = Axis::new(Nanos::from_ns(ns), most);
            prop_assert!(axis.ticks.len() as u32 <= most.max(1) + 1);
            prop_assert!(axis.ticks.iter().all(|t| t.at.as_ns() <= ns));
            prop_assert!(axis.ticks.windows(2).all(|w| w[0].at < w[1].at));
        }
    }
}
