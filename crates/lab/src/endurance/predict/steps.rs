//! Times as numbers of pulses, and the likelihood of a block's pace given these numbers.

use super::super::subject::Subject;
use super::input::{InputLocation, Sample};
use floatgate_device::cells::{CYCLE, Pulses, Wear};
use floatgate_sim::error::Error;

/// Factor by which the likelihood of a reading drops with each pulse of deviation.
const OFF: f64 = 0.01;

/// Logarithms of the shares of the scale at which the times change.
pub(super) struct Steps {
    pub(super) program: Vec<f64>,
    pub(super) erase: Vec<f64>,
}

impl Steps {
    pub(super) fn of(wear: &Wear) -> Self {
        let logs = |shares: &[f64]| shares.iter().map(|share| libm::log(*share)).collect();
        Self { program: logs(wear.program_changes()), erase: logs(wear.erase_changes()) }
    }
}

/// A measurement as numbers of pulses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    /// Wear at the measurement; `None` if cycles were not counted.
    pub(super) wear: Option<f64>,
    /// Number of program pulses saved; `None` if it was not measured or carries no information yet.
    pub(super) saved: Option<u32>,
    /// Number of erase pulses added.
    pub(super) added: Option<u32>,
}

/// A measured time that is impossible on this chip.
#[derive(Debug)]
pub(super) struct ImplausibleTime {
    location: InputLocation,
    what: &'static str,
    us: f64,
    range: (f64, f64),
}

impl ImplausibleTime {
    /// Error about a chip with this time.
    pub(super) fn on(self, subject: &Subject) -> Error {
        let (low, high) = self.range;
        Error::request(
            format!("{}: no block of {} {} in {} us", self.location, subject.name, self.what, self.us),
            format!("it takes from {low} to {high} us; check the chip and the unit"),
        )
    }
}

/// All measurements as readings. If consecutive readings have the same pulses, only the first and the last are kept.
pub(super) fn readings(
    wear: &Wear,
    samples: &[Sample],
    stress: f64,
) -> Result<Vec<Reading>, ImplausibleTime> {
    let all: Result<Vec<Reading>, ImplausibleTime> =
        samples.iter().map(|s| reading(wear, s, stress)).collect();
    let all = all?;
    let pulses = |r: &Reading| (r.saved, r.added);
    let inner = |i: usize| {
        i > 0 && i + 1 < all.len() && [i - 1, i + 1].iter().all(|&j| pulses(&all[j]) == pulses(&all[i]))
    };
    Ok((0..all.len()).filter(|&i| !inner(i)).map(|i| all[i]).collect())
}

fn reading(wear: &Wear, sample: &Sample, stress: f64) -> Result<Reading, ImplausibleTime> {
    let spec = wear.spec();
    let at = sample.cycle.map(|cycle| cycle as f64 * stress);
    let fresh = f64::from(spec.program.fresh);
    // One pulse more than on a fresh block, because of the break-in.
    let program = count(
        sample,
        sample.program_us,
        &spec.program,
        "programs",
        (spec.program.worn, spec.program.fresh + 1),
    )?;
    let erase = count(sample, sample.erase_us, &spec.erase, "erases", (spec.erase.fresh, spec.erase.worn))?;
    let broken_in = at.is_none_or(|at| at >= f64::from(spec.break_in_cycles) * CYCLE as f64);
    Ok(Reading {
        wear: at,
        saved: program.filter(|_| broken_in).map(|n| (fresh - n).max(0.0) as u32),
        added: erase.map(|n| (n - f64::from(spec.erase.fresh)) as u32),
    })
}

/// Nearest number of pulses for a time, between `fewest` and `most`. The time may exceed this range by 1.5 pulses.
fn count(
    sample: &Sample,
    us: Option<f64>,
    pulses: &Pulses,
    what: &'static str,
    (fewest, most): (u32, u32),
) -> Result<Option<f64>, ImplausibleTime> {
    let Some(us) = us.filter(|_| pulses.step_us.as_ns() > 0) else { return Ok(None) };
    let (overhead, step) = (pulses.overhead_us.as_us_f64(), pulses.step_us.as_us_f64());
    let n = (us - overhead) / step;
    let (fewest, most) = (f64::from(fewest), f64::from(most));
    if !(fewest - 1.5..=most + 1.5).contains(&n) {
        let range = (overhead + fewest * step, overhead + most * step);
        return Err(ImplausibleTime { location: sample.location, what, us, range });
    }
    Ok(Some(libm::round(n).clamp(fewest, most)))
}

/// Range of the logarithm of a block's scale, with the likelihood of the readings in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Segment {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) likelihood: f64,
}

/// Likelihood, relative to the best, below which a segment is dropped.
const NEGLIGIBLE: f64 = 1e-7;

/// Likelihood of the readings of one operation, by the logarithm of the block's scale. At wear `w`, the k-th change has
/// happened if the logarithm of the scale is at most ln w minus the logarithm of the change's share.
pub(super) fn segments(steps: &[f64], readings: &[(f64, u32)]) -> Vec<Segment> {
    let mut off: i64 = readings.iter().map(|&(_, seen)| i64::from(seen)).sum();
    let mut edges: Vec<(f64, i64)> = Vec::new();
    for &(wear, seen) in readings.iter().filter(|(wear, _)| *wear > 0.0) {
        // Below each edge, one more change has happened: the pulse count is one nearer to the reading, or one farther.
        let change = |k: usize| if (k as u64) < u64::from(seen) { -1 } else { 1 };
        edges.extend(steps.iter().enumerate().map(|(k, step)| (libm::log(wear) - step, change(k))));
    }
    edges.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut found = Vec::new();
    let mut high = f64::INFINITY;
    for (edge, change) in edges {
        found.push((edge, high, off));
        (high, off) = (edge, off + change);
    }
    found.push((f64::NEG_INFINITY, high, off));
    let best = found.iter().map(|s| s.2).min().unwrap_or(0);
    let segment = |(low, high, off): (f64, f64, i64)| Segment {
        low,
        high,
        likelihood: libm::pow(OFF, (off - best) as f64),
    };
    found.into_iter().map(segment).filter(|s| s.likelihood > NEGLIGIBLE && s.low < s.high).collect()
}

/// Probability that `centre` plus a normal deviation lies in the segments, weighted by their likelihoods.
pub(super) fn evidence(segments: &[Segment], centre: f64, deviation: f64) -> f64 {
    let below = |x: f64| normal_below((x - centre) / deviation);
    // The loop runs downwards, because most segments begin where the previous one ended.
    let mut edge = (f64::INFINITY, 1.0);
    let mut sum = 0.0;
    for segment in segments {
        let above = if segment.high == edge.0 { edge.1 } else { below(segment.high) };
        edge = (segment.low, below(segment.low));
        sum += segment.likelihood * (above - edge.1);
    }
    sum
}

/// Distribution function of the standard normal distribution.
pub(super) fn normal_below(z: f64) -> f64 {
    0.5 * libm::erfc(-z / core::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_by_hand() {
        // Changes at 0.1 and 0.5 of the scale. At wear 100 one change has happened, so the scale is in (200, 1000].
        let steps = [libm::log(0.1), libm::log(0.5)];
        let found = segments(&steps, &[(100.0, 1)]);
        let sure: Vec<_> = found.iter().filter(|s| s.likelihood == 1.0).collect();
        assert_eq!(sure.len(), 1);
        assert!(
            (libm::exp(sure[0].low) - 200.0).abs() < 1e-6 && (libm::exp(sure[0].high) - 1000.0).abs() < 1e-6
        );
        assert!(found.iter().all(|s| s.likelihood == 1.0 || (s.likelihood - 0.01).abs() < 1e-12));
        // A second reading narrows the range: still one change at wear 150, so the scale is above 300.
        let found = segments(&steps, &[(100.0, 1), (150.0, 1)]);
        let sure = found.iter().find(|s| s.likelihood == 1.0).unwrap();
        assert!((libm::exp(sure.low) - 300.0).abs() < 1e-6 && (libm::exp(sure.high) - 1000.0).abs() < 1e-6);
        // Without readings, the likelihood is 1.
        assert!((evidence(&segments(&steps, &[]), 3.0, 0.1) - 1.0).abs() < 1e-12);
    }
}
