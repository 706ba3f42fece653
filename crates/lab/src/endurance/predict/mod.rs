//! Prediction of a block's remaining life from its program and erase times alone, as Desnoyers 2009 proposes.
//!
//! The end of a block's life and the paces at which its times change are unknown. Their log-normal distributions over the
//! blocks of a chip are known. From these and the measured times, Bayes' rule on a numeric grid computes the distributions for
//! this block.
//!
//! The age of the block is assumed to be uniformly distributed over its life. One in 100 readings may be wrong by one
//! pulse.

mod grid;
mod input;
mod steps;

pub use input::{InputLocation, Problem, Sample, TraceError, parse};

use super::subject::{Evidence, Subject};
use super::{Experiment, Stretch};
use floatgate_device::cells::Wear;
use floatgate_sim::error::Error;
use grid::{Aged, Counted};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use steps::{Steps, readings};

/// A median and the central 90 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Median: 50 % of the distribution lies below.
    pub median: f64,
    /// 5 % quantile.
    pub low: f64,
    /// 95 % quantile.
    pub high: f64,
}

/// Prediction of a block's remaining life from its times. Its JSON is stable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Name of the part as given by the caller.
    pub part: String,
    /// Maker and name of the chip.
    pub chip: String,
    /// Description of the chip in one line.
    pub title: String,
    /// Basis of the model of the chip's wear: `measured` or `typical`.
    pub evidence: Cow<'static, str>,
    /// Number of measurements.
    pub samples: usize,
    /// Cycle of the last measurement; `None` if cycles were not counted.
    pub cycle: Option<u64>,
    /// Share of the life that is over, 0 to 1.
    pub used: Interval,
    /// Remaining cycles, under the conditions of the experiment, until the chip reports a failure.
    pub remaining: Interval,
    /// Remaining cycles predicted from the number of cycles alone, without times; `None` if cycles were not counted.
    pub remaining_by_count: Option<Interval>,
    /// True when the remaining cycles are uncertain by more than a factor of 4.
    pub wide: bool,
    /// Remarks on the prediction.
    pub notes: Vec<String>,
}

/// Ratio of the ends above which an interval is wide.
const WIDE: f64 = 4.0;

/// Predicts the remaining life of a block from its measurements, oldest first. `experiment` states the temperature and the
/// programmed pages of a cycle.
///
/// # Errors
/// No measurement; times that are impossible on this chip.
pub fn predict(subject: &Subject, experiment: &Experiment, samples: &[Sample]) -> Result<Prediction, Error> {
    experiment.check()?;
    let Some(last) = samples.last() else {
        return Err(Error::request(
            "there is no measurement",
            "a trace has a line for each: cycle,program_us,erase_us",
        ));
    };
    let wear = &subject.wear;
    let stress = experiment.stress(subject.pages_per_block) as f64;
    let steps = Steps::of(wear);
    let readings = readings(wear, samples, stress).map_err(|error| error.on(subject))?;
    let unlikely = || {
        Error::request(
            format!("no block of {} has these times at these cycles", subject.name),
            "check the chip's name, the unit (us), the pages and the temperature",
        )
    };
    let (used, remaining, by_count) = match last.cycle {
        Some(cycle) => {
            let now = cycle as f64 * stress;
            let by_times = Counted::new(wear, &steps, &readings, now).ok_or_else(unlikely)?;
            let by_count = Counted::new(wear, &steps, &[], now).ok_or_else(unlikely)?;
            let left = |c: &Counted| c.interval(|end| (end - now) / stress);
            (by_times.interval(|end| now / end).reversed(), left(&by_times), Some(left(&by_count)))
        }
        None => {
            let aged = Aged::new(wear, &steps, &readings).ok_or_else(unlikely)?;
            (aged.used(), aged.remaining(wear).over(stress), None)
        }
    };
    let wide = remaining.high > WIDE * remaining.low.max(1.0);
    Ok(Prediction {
        part: subject.part.clone(),
        chip: subject.full_name(),
        title: subject.title.clone(),
        evidence: if subject.evidence == Evidence::Typical { "typical" } else { "measured" }.into(),
        samples: samples.len(),
        cycle: last.cycle,
        used,
        remaining,
        remaining_by_count: by_count,
        wide,
        notes: notes(subject, samples, wide),
    })
}

impl Interval {
    /// Exchanges the ends, after a decreasing function was applied to the interval.
    const fn reversed(self) -> Self {
        Self { low: self.high, high: self.low, ..self }
    }

    fn over(self, divisor: f64) -> Self {
        Self { median: self.median / divisor, low: self.low / divisor, high: self.high / divisor }
    }

    /// True if a value lies in the interval.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

fn notes(subject: &Subject, samples: &[Sample], wide: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if subject.evidence == Evidence::Typical {
        notes.push(format!(
            "the wear of {} was not measured: the prediction is a guess from similar chips",
            subject.name
        ));
    }
    let counted = samples.iter().all(|s| s.cycle.is_some());
    if !counted && samples.len() > 1 {
        notes.push("without cycle counts, only the last measurement is used".to_owned());
    }
    if wide {
        let advice = match (counted, samples.len()) {
            (false, _) => "count cycles",
            (true, 1) => "add measurements of earlier cycles",
            (true, _) => "measure again when the times have changed",
        };
        notes.push(format!("the interval is wide: to narrow it, {advice}"));
    }
    notes
}

/// Simulated measurements of a block: `count` samples at equal intervals from the start of its life to the age `age` (a share of
/// its life, 0 to 1).
pub fn measured(life: &[Stretch], age: f64, count: u32) -> Vec<Sample> {
    let now = (super::cycles(life) as f64 * age.clamp(0.0, 1.0)) as u64;
    let cycle = |i: u32| (now as f64 * f64::from(i + 1) / f64::from(count)) as u64;
    let stretch = |cycle: u64| life.iter().find(|s| cycle < s.end()).or(life.last());
    let sample = |i| {
        let stretch = stretch(cycle(i))?;
        Some(Sample {
            location: InputLocation::Row(i as usize + 1),
            cycle: Some(cycle(i)),
            program_us: Some(stretch.program.as_us_f64()),
            erase_us: Some(stretch.erase.as_us_f64()),
        })
    };
    (0..count).filter_map(sample).collect()
}

/// Mean and standard deviation of the logarithm of a block's life; the life is in thousandths of a cycle.
fn log_life(wear: &Wear) -> (f64, f64) {
    let spread = wear.spec().life_spread.max(1e-3);
    let mean = wear.mean_life_cycles() * floatgate_device::cells::CYCLE as f64;
    (libm::log(mean) - spread * spread / 2.0, spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use floatgate_config::{Library, Override};
    use floatgate_mtd::random::{Random, hash};
    use rayon::prelude::*;

    fn subject(part: &str, sets: &[&str]) -> Subject {
        Subject::new(&Library::built_in(), part, &Override::parse_all(sets).unwrap()).unwrap()
    }

    /// Number of blocks whose end is inside the predicted interval, of 1000 blocks at random ages.
    fn ends_inside(subject: &Subject, experiment: &Experiment, without_cycles: bool) -> u32 {
        let within = |block| {
            let life = subject.block_life(experiment, 0, block);
            let age = Random::new(hash(experiment.seed, u64::from(block), 0)).unit();
            let mut samples = measured(&life, age, 6);
            if without_cycles {
                samples.iter_mut().for_each(|s| s.cycle = None);
            }
            let now = (super::super::cycles(&life) as f64 * age) as u64;
            let left = (super::super::cycles(&life) - now) as f64;
            u32::from(predict(subject, experiment, &samples).unwrap().remaining.holds(left))
        };
        (0..1000).into_par_iter().map(within).sum()
    }

    #[test]
    fn nine_of_ten_blocks_end_inside_their_interval() {
        let plain = Experiment::default();
        let hard =
            Experiment { pages: super::super::Pages::All, temperature_c: 10.0, seed: 3, ..plain.clone() };
        for (part, experiment) in [("mt29f8g08maawc", &plain), ("mt29f4g08aac", &plain), ("w25n01jw", &hard)]
        {
            let inside = ends_inside(&subject(part, &[]), experiment, false);
            assert!((870..=930).contains(&inside), "{part}: {inside} of 1000");
        }
    }

    #[test]
    fn nine_of_ten_end_inside_without_cycle_counts() {
        let inside = ends_inside(&subject("mt29f8g08maawc", &[]), &Experiment::default(), true);
        assert!((870..=930).contains(&inside), "{inside} of 1000");
    }

    #[test]
    fn times_tell_more_than_cycles() {
        let (subject, e) = (subject("mt29f4g08aac", &[]), Experiment::default());
        let width = |i: &Interval| i.high - i.low;
        let narrower = |block: &u32| {
            let p = predict(&subject, &e, &measured(&subject.block_life(&e, 0, *block), 0.5, 8)).unwrap();
            width(&p.remaining) < 0.6 * width(&p.remaining_by_count.unwrap())
        };
        let count = (0..100).filter(narrower).count();
        assert!(count >= 90, "{count} of 100");
    }

    #[test]
    fn a_wide_interval_is_noted() {
        let (subject, e) = (subject("mt29f4g08aac", &[]), Experiment::default());
        let life = subject.block_life(&e, 0, 0);
        let young = predict(&subject, &e, &measured(&life, 0.00001, 1)).unwrap();
        assert!(young.wide && young.notes.iter().any(|n| n.contains("earlier cycles")), "{young:?}");
        let old = predict(&subject, &e, &measured(&life, 0.5, 20)).unwrap();
        assert!(!old.wide && old.notes.is_empty(), "{old:?}");
    }

    #[test]
    fn a_reading_that_is_a_pulse_off_changes_little() {
        let (subject, e) = (subject("mt29f8g08maawc", &[]), Experiment::default());
        let life = subject.block_life(&e, 0, 1);
        let mut samples = measured(&life, 0.5, 20);
        let right = predict(&subject, &e, &samples).unwrap().remaining;
        samples[7].erase_us = samples[7].erase_us.map(|us| us + 450.0);
        let off = predict(&subject, &e, &samples).unwrap().remaining;
        assert!((off.median / right.median - 1.0).abs() < 0.2, "{off:?} {right:?}");
    }

    #[test]
    fn blocks_without_spread_are_known_exactly() {
        let subject = subject("mt29f8g08maawc", &["chip.wear.life_spread=0", "chip.wear.pace_spread=0"]);
        let e = Experiment::default();
        let p = predict(&subject, &e, &measured(&subject.block_life(&e, 0, 0), 0.25, 4)).unwrap();
        assert!((p.used.median - 0.25).abs() < 0.005, "{:?}", p.used);
    }
}
