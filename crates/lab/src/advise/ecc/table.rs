//! Tables of the rates, each by one condition.

use super::{Chip, Choice, Use, any_of};
use serde::Serialize;

/// Rates by one condition. The other conditions are those of the use, and the rated cycles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Name of the condition: `cycles`, `years` or `reads`.
    pub against: &'static str,
    /// The codes, in the order of [`Point::lost_pages`].
    pub codes: Vec<String>,
    /// Points in ascending order of the condition.
    pub points: Vec<Point>,
}

/// Rates under one condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Value of the condition.
    pub at: f64,
    /// Raw bit error rate.
    pub rber: f64,
    /// Share of read pages with a wrong bit in their data.
    pub pages_with_errors: f64,
    /// Share of read pages that are lost, by code.
    pub lost_pages: Vec<f64>,
}

/// Series for the three conditions.
pub(super) fn all(chip: &Chip, use_: &Use, options: &[Choice]) -> Vec<Series> {
    let rated = chip.endurance_cycles as f64;
    let cycles = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0].map(|share| rated * share);
    let years = [0.0, 1.0 / 12.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
    let reads = [0.0, 1e3, 1e4, 1e5, 3e5, 1e6, 3e6, 1e7];
    let series = |against, points: Vec<Point>| Series {
        against,
        codes: options.iter().map(|option| option.name.clone()).collect(),
        points,
    };
    let point = |at, cycles, use_: &Use| point(chip, options, at, chip.rate(cycles, use_));
    vec![
        series("cycles", cycles.iter().map(|&at| point(at, at, use_)).collect()),
        series("years", years.iter().map(|&at| point(at, rated, &Use { years: at, ..*use_ })).collect()),
        series("reads", reads.iter().map(|&at| point(at, rated, &Use { reads: at, ..*use_ })).collect()),
    ]
}

fn point(chip: &Chip, options: &[Choice], at: f64, rber: f64) -> Point {
    Point {
        at,
        rber,
        pages_with_errors: any_of(rber, chip.page_bytes * 8),
        lost_pages: options.iter().map(|option| option.loses(chip, rber)).collect(),
    }
}
