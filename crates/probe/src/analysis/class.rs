//! Speed classes and application performance classes, measured as the SD Association specifies.
//!
//! Speed class (Physical Layer Simplified Specification 4.10, section 4.13): the slowest allocation unit counts, or 4
//! MiB of a larger one. It is written completely and in order, in record units whose size depends on the class (table
//! 4-56). For the fragmented state, every second record unit is already in use and skipped; equation (1) gives the
//! speed at which the card moves used ones. Application performance class (specifications 5.1 and 6.0): random requests
//! of 4 KiB in 256 MiB that were written in order before. A MB has 1 000 000 bytes.

use super::caches::write_speed;
use super::{tenths, unwritten};
use crate::answer::{Answer, Value};
use crate::registers::Status;
use crate::sample::{Sample, Samples, Test};
use floatgate_mtd::size::text as size;
use serde::Serialize;
use std::collections::BTreeMap;

/// Largest unit over which the writes of a speed class are averaged, B.
pub(crate) const UNIT_MAX: u64 = 4 << 20;

/// Speed classes of SDHC and SDXC cards: name, guaranteed write speed in MB/s, and record unit in bytes.
const SPEEDS: [(&str, f64, u64); 7] = [
    ("C2", 2.0, 32 << 10),
    ("C4", 4.0, 32 << 10),
    ("C6", 6.0, 64 << 10),
    ("C10", 10.0, 512 << 10),
    ("U3", 30.0, 512 << 10),
    ("V60", 60.0, 512 << 10),
    ("V90", 90.0, 512 << 10),
];
/// Other names of the same speeds.
const ALIASES: [(&str, &str); 4] = [("U1", "C10"), ("V6", "C6"), ("V10", "C10"), ("V30", "U3")];
/// Sizes of the record units that are measured, B.
pub(crate) const RECORD_UNITS: [u64; 3] = [32 << 10, 64 << 10, 512 << 10];
/// Application performance classes: name, reads and writes a second, and sequential writes in MB/s.
const APPS: [(&str, f64, f64, f64); 2] = [("A1", 1500.0, 500.0, 10.0), ("A2", 4000.0, 2000.0, 10.0)];

/// A class that is printed on a card or stated in its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise(&'static str);

impl Promise {
    /// The class of a name: `C10`, `U1`, `V30`, `A1`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_uppercase();
        let all = SPEEDS.iter().map(|class| class.0).chain(ALIASES.iter().map(|alias| alias.0));
        all.chain(APPS.iter().map(|class| class.0)).find(|known| *known == name).map(Self)
    }

    /// Classes that the registers state.
    pub fn of_status(status: &Status) -> Vec<Self> {
        let Status { speed_class, uhs_grade, video_class, app_class, .. } = *status;
        let stated = [('C', speed_class), ('U', uhs_grade), ('V', video_class), ('A', app_class)];
        stated
            .into_iter()
            .filter_map(|(letter, number)| Self::named(&format!("{letter}{}", number?)))
            .collect()
    }
}

/// Comparison of a promised class with the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Name of the class.
    pub class: &'static str,
    /// Source of the promise: `printed` on the card or `stated` in a register.
    pub source: &'static str,
    /// True if the class is reached, `None` if it was not measured.
    pub holds: Option<bool>,
    /// Ratio of the measured to the promised value; the worst ratio if there are several.
    pub share: Option<f64>,
    /// Reason with the measured values.
    pub reason: String,
}

/// Measurements of the tests for speed classes, A1 and A2.
struct Measured {
    /// Speed of the slowest unit by record unit, MB/s.
    writes: BTreeMap<u64, f64>,
    /// Speed of a long sequential write, MB/s. It may be lower than a unit's: a cached unit that is written again costs
    /// the card less.
    lasting: Option<f64>,
    /// Speed in a fragmented state, MB/s.
    fragmented: Option<f64>,
    /// Reads and writes a second.
    iops: Option<(f64, f64)>,
}

fn mb_s(samples: &[&Sample]) -> f64 {
    let (bytes, ns) =
        samples.iter().fold((0, 0), |(bytes, ns), sample| (bytes + sample.bytes, ns + sample.ns));
    bytes as f64 * 1e3 / ns.max(1) as f64
}

fn iops(samples: &Samples, test: Test) -> Option<f64> {
    let (count, ns) =
        samples.with_test(test).fold((0_u64, 0), |(count, ns), sample| (count + 1, ns + sample.ns));
    (count > 0).then(|| count as f64 * 1e9 / ns.max(1) as f64)
}

impl Measured {
    fn from_samples(samples: &Samples) -> Self {
        let writes = RECORD_UNITS.iter().filter_map(|unit| Some((*unit, slowest_unit(samples, *unit)?)));
        let fragmented: Vec<&Sample> = samples.with_test(Test::Fragmented).collect();
        let lasting = match write_speed(samples).value {
            Some(Value::Measure(mb_s)) => Some(mb_s),
            _ => None,
        };
        Self {
            writes: writes.collect(),
            lasting,
            fragmented: (!fragmented.is_empty()).then(|| mb_s(&fragmented)),
            iops: iops(samples, Test::AppRead).zip(iops(samples, Test::AppWrite)),
        }
    }

    /// Ratio of the measured to the promised speed of a speed class.
    fn speed(&self, (_, promised, unit): (&str, f64, u64)) -> Option<f64> {
        Some(self.in_order(unit)? / promised)
    }

    /// Sustained speed with a record unit, MB/s.
    fn in_order(&self, unit: u64) -> Option<f64> {
        let slowest = *self.writes.get(&unit)?;
        Some(self.lasting.map_or(slowest, |lasting| lasting.min(slowest)))
    }

    /// Worst ratio of measured to promised values of an application performance class.
    fn app(&self, (_, reads, writes, in_order): (&str, f64, f64, f64)) -> Option<f64> {
        let (read, write) = self.iops?;
        Some((read / reads).min(write / writes).min(self.in_order(RECORD_UNITS[2])? / in_order))
    }
}

/// Speed of the slowest unit of a test, MB/s.
fn slowest_unit(samples: &Samples, record_unit: u64) -> Option<f64> {
    let all: Vec<&Sample> =
        samples.with_test(Test::RecordUnit).filter(|sample| sample.bytes == record_unit).collect();
    // `about` numbers the units.
    let units = all.chunk_by(|a, b| a.about == b.about).map(mb_s);
    units.min_by(f64::total_cmp)
}

/// Confidence by the distance of a value from the class limits next to it: other hosts measure slightly more or less.
fn confidence(shares: impl Iterator<Item = f64>) -> f64 {
    let nearest = shares.map(|share| (share - 1.0).abs()).fold(f64::INFINITY, f64::min);
    match nearest {
        distance if distance > 0.2 => 0.9,
        distance if distance > 0.1 => 0.8,
        distance if distance > 0.03 => 0.65,
        _ => 0.5,
    }
}

/// The highest speed class that the card reaches.
pub(crate) fn class(samples: &Samples) -> Answer {
    let measured = Measured::from_samples(samples);
    if measured.writes.is_empty() {
        return Answer::unknown("", 0.0, format!("not measured: {}", unwritten(samples)));
    }
    let reached = SPEEDS.iter().rev().find(|class| measured.speed(**class).is_some_and(|share| share >= 1.0));
    let name = reached.map_or("none", |class| class.0);
    let shares = SPEEDS.iter().filter_map(|class| measured.speed(*class));
    Answer::found(Value::Word(name), "", confidence(shares), writes_in_words(&measured))
}

fn writes_in_words(measured: &Measured) -> String {
    let speed = |(unit, speed): (&u64, &f64)| format!("{:.1} MB/s in {}", speed, size(*unit));
    let speeds: Vec<String> = measured.writes.iter().map(speed).collect();
    let mut text = format!("the slowest unit is written with {}", speeds.join(", "));
    if let Some(lasting) = measured.lasting {
        text += &format!("; {lasting:.1} MB/s last over a long range");
    }
    if let (Some(fragmented), Some(whole)) = (measured.fragmented, measured.writes.get(&RECORD_UNITS[1])) {
        text += &format!("; fragmented by half with {fragmented:.1} MB/s");
        // Equation (1), with half of the record units in use.
        if fragmented < 0.95 * whole {
            text += &format!(
                ", which moves used ones with {:.1} MB/s",
                fragmented * whole / (whole - fragmented)
            );
        }
    }
    text
}

/// Speed of the random writes of an application performance class.
pub(crate) fn small_writes(samples: &Samples) -> Answer {
    let writes: Vec<&Sample> = samples.with_test(Test::AppWrite).collect();
    if writes.is_empty() {
        return Answer::unknown("MB/s", 0.0, format!("not measured: {}", unwritten(samples)));
    }
    let speed = mb_s(&writes);
    let digits = if speed < 0.1 { 1e4 } else { 100.0 };
    let reason = format!("mean of {} writes of 4 KiB at random, one at a time", writes.len());
    Answer::found(Value::Measure((speed * digits).round() / digits), "MB/s", 0.8, reason)
}

/// The highest application performance class that the card reaches.
pub(crate) fn app_class(samples: &Samples) -> Answer {
    let measured = Measured::from_samples(samples);
    let Some(reason) = iops_in_words(&measured) else {
        return Answer::unknown("", 0.0, format!("not measured: {}", unwritten(samples)));
    };
    let reached = APPS.iter().rev().find(|class| measured.app(**class).is_some_and(|share| share >= 1.0));
    let name = reached.map_or("none", |class| class.0);
    let shares = APPS.iter().filter_map(|class| measured.app(*class));
    Answer::found(Value::Word(name), "", confidence(shares), reason)
}

fn iops_in_words(measured: &Measured) -> Option<String> {
    let ((reads, writes), in_order) = (measured.iops?, tenths(measured.in_order(RECORD_UNITS[2])?));
    Some(format!(
        "{reads:.0} reads and {} writes of 4 KiB a second at random, one at a time; {in_order} MB/s in order",
        if writes < 10.0 { tenths(writes) } else { writes.round() }
    ))
}

/// Compares the promised classes with the measurement.
pub(crate) fn verdicts(samples: &Samples, promises: &[(Promise, &'static str)]) -> Vec<Verdict> {
    let measured = Measured::from_samples(samples);
    let verdict = |(Promise(class), source): &(Promise, &'static str)| {
        let name = ALIASES.iter().find(|alias| alias.0 == *class).map_or(*class, |alias| alias.1);
        let speed = SPEEDS.iter().find(|known| known.0 == name);
        let app = APPS.iter().find(|known| known.0 == name);
        let share = speed.map_or_else(|| measured.app(*app?), |class| measured.speed(*class));
        let reason = match (speed, app) {
            (Some((_, promised, unit)), _) => measured.in_order(*unit).map(|speed| {
                format!("{speed:.1} MB/s of {promised} MB/s in record units of {}", size(*unit))
            }),
            (None, Some((_, reads, writes, _))) => iops_in_words(&measured)
                .map(|text| format!("{text}; {reads} reads, {writes} writes and 10 MB/s are promised")),
            (None, None) => None,
        };
        Verdict {
            class,
            source,
            holds: share.map(|share| share >= 1.0),
            share: share.map(|share| (share * 100.0).round() / 100.0),
            reason: reason.unwrap_or_else(|| "not measured".to_owned()),
        }
    };
    promises.iter().map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Kind;

    fn write(test: Test, about: u64, bytes: u64, mb_s: f64) -> Sample {
        let ns = (bytes as f64 * 1e3 / mb_s) as u64;
        Sample { test, about, kind: Kind::Write, position: 0, bytes, ns, found: None }
    }

    /// Two units of each record unit, of which the second is slower by a tenth.
    fn samples(mb_s: f64, app: Option<(f64, f64)>) -> Samples {
        let unit = |unit: u64| {
            [write(Test::RecordUnit, 0, unit, mb_s), write(Test::RecordUnit, 1, unit, mb_s * 0.9)]
        };
        let mut all: Vec<Sample> = RECORD_UNITS.into_iter().flat_map(unit).collect();
        all.push(write(Test::Fragmented, 0, 64 << 10, mb_s * 0.3));
        if let Some((reads, writes)) = app {
            all.push(Sample { ns: (1e9 / reads) as u64, ..write(Test::AppRead, 0, 4096, 1.0) });
            all.push(Sample { ns: (1e9 / writes) as u64, ..write(Test::AppWrite, 0, 4096, 1.0) });
        }
        Samples { all, ..Samples::default() }
    }

    #[test]
    fn the_slowest_unit_decides() {
        for (mb_s, name) in
            [(2.0, "none"), (2.3, "C2"), (6.8, "C6"), (11.0, "C6"), (11.2, "C10"), (200.0, "V90")]
        {
            assert_eq!(class(&samples(mb_s, None)).value, Some(Value::Word(name)), "{mb_s}");
        }
        let reason = class(&samples(10.0, None)).reason;
        // 9 MB/s whole and 3 MB/s fragmented by half: as long again for the moves as for the writes, and half of that.
        assert!(
            reason.ends_with("fragmented by half with 3.0 MB/s, which moves used ones with 4.5 MB/s"),
            "{reason}"
        );
        assert!(class(&Samples::default()).value.is_none());
    }

    #[test]
    fn the_worst_figure_decides_an_application_class() {
        let apps = [
            (50.0, (1600.0, 600.0), "A1"),
            (50.0, (1600.0, 400.0), "none"),
            (50.0, (5000.0, 2500.0), "A2"),
            (5.0, (5000.0, 2500.0), "none"),
        ];
        for (mb_s, iops, name) in apps {
            assert_eq!(app_class(&samples(mb_s, Some(iops))).value, Some(Value::Word(name)), "{iops:?}");
        }
    }

    #[test]
    fn promises_are_judged() {
        let status =
            Status { speed_class: Some(10), uhs_grade: Some(3), app_class: Some(1), ..Status::default() };
        let mut promises: Vec<_> =
            Promise::of_status(&status).into_iter().map(|promise| (promise, "stated")).collect();
        promises.extend(Promise::named("v10").map(|promise| (promise, "printed")));
        let found = verdicts(&samples(20.0, None), &promises);
        let told: Vec<_> =
            found.iter().map(|verdict| (verdict.class, verdict.holds, verdict.share)).collect();
        assert_eq!(
            told,
            [
                ("C10", Some(true), Some(1.8)),
                ("U3", Some(false), Some(0.6)),
                ("A1", None, None),
                ("V10", Some(true), Some(1.8))
            ]
        );
        assert_eq!(Promise::named("C3"), None);
    }
}
