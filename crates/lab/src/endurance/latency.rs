//! Time of an operation at the start of a block's life, typically, and at its end.

use super::life::{Stretch, cycles};
use floatgate_mtd::Nanos;
use serde::{Deserialize, Serialize};

/// Number of cycles at the start and at the end of a life that the paper reports separately.
pub(super) const ENDS: u64 = 100;

/// Number of cycles whose mean time the paper calls typical.
pub(super) const TYPICAL: u64 = 10_000;

/// Time of an operation over the life of blocks, us; means over all blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean of the first 100 cycles, us.
    pub first_100_us: f64,
    /// Mean of the first 10 000 cycles, us.
    pub typical_us: f64,
    /// Mean of the last 100 cycles before the failure, us.
    pub last_100_us: f64,
    /// Shortest time in any cycle of any block, us.
    pub fastest_us: f64,
    /// Longest time in any cycle of any block, us.
    pub slowest_us: f64,
    /// Ratio of the last mean to the first.
    pub change: f64,
}

impl Latency {
    /// Times of one operation in several lives. `None` if no cycle succeeded.
    pub(super) fn over_lives(lives: &[&[Stretch]], time: fn(&Stretch) -> Nanos) -> Option<Self> {
        let lived: Vec<&[Stretch]> = lives.iter().copied().filter(|life| cycles(life) > 0).collect();
        let mean = |range: fn(u64) -> (u64, u64)| {
            let each = lived.iter().map(|life| mean_us(life, range(cycles(life)), time));
            each.sum::<f64>() / lived.len() as f64
        };
        let all = || lived.iter().flat_map(|life| life.iter().map(time));
        let (fastest, slowest) = (all().min()?, all().max()?);
        let first_100_us = mean(|all| (0, all.min(ENDS)));
        let last_100_us = mean(|all| (all.saturating_sub(ENDS), all));
        Some(Self {
            first_100_us,
            typical_us: mean(|all| (0, all.min(TYPICAL))),
            last_100_us,
            fastest_us: fastest.as_us_f64(),
            slowest_us: slowest.as_us_f64(),
            change: last_100_us / first_100_us,
        })
    }
}

/// Mean time over the cycles from `from` to `to` (exclusive), us.
fn mean_us(life: &[Stretch], (from, to): (u64, u64), time: fn(&Stretch) -> Nanos) -> f64 {
    total_ns(life, (from, to), time) as f64 / 1e3 / (to - from) as f64
}

/// Total time of the cycles from `from` to `to` (exclusive), ns.
pub(super) fn total_ns(life: &[Stretch], (from, to): (u64, u64), time: fn(&Stretch) -> Nanos) -> u128 {
    let within = |s: &Stretch| s.end().min(to).saturating_sub(s.from.max(from));
    life.iter().map(|s| u128::from(within(s)) * u128::from(time(s).as_ns())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from: u64, cycles: u64, us: u64) -> Stretch {
        Stretch { from, cycles, program: Nanos::from_us(us), erase: Nanos::from_us(2 * us) }
    }

    #[test]
    fn means_are_of_the_cycles_that_they_name() {
        let life = [stretch(0, 50, 300), stretch(50, 49_950, 200), stretch(50_000, 25, 100)];
        let latency = Latency::over_lives(&[&life], |s| s.program).unwrap();
        assert_eq!((latency.first_100_us, latency.last_100_us), (250.0, 175.0));
        assert_eq!((latency.typical_us, latency.change), (200.5, 0.7));
        assert_eq!((latency.fastest_us, latency.slowest_us), (100.0, 300.0));
    }

    #[test]
    fn short_lives_have_fewer_than_a_hundred_cycles() {
        let (short, long) = ([stretch(0, 4, 100)], [stretch(0, 400, 200)]);
        let latency = Latency::over_lives(&[&short, &long], |s| s.erase).unwrap();
        assert_eq!((latency.first_100_us, latency.typical_us, latency.last_100_us), (300.0, 300.0, 300.0));
        assert_eq!(Latency::over_lives(&[], |s| s.erase), None);
    }
}
