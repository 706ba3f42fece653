//! Answers from samples. This module does not access a device: a file of samples gives the same answers as the probe
//! that wrote it.

pub(crate) mod behind_cache;
pub(crate) mod borders;
pub(crate) mod caches;
pub(crate) mod capacity;
pub(crate) mod class;
pub(crate) mod closing;
pub(crate) mod open_aus;
pub(crate) mod pairs;
pub(crate) mod period;
pub(crate) mod train;
pub(crate) mod turns;

use crate::answer::{Answer, Answers, Value, not_stated};
use crate::sample::{Kind, Sample, Samples, Test};
use crate::stats::{deviation, median, quantile};
use floatgate_mtd::size::text as size;
use std::collections::BTreeMap;

/// Answers to all questions that the samples allow.
pub fn conclude(samples: &Samples) -> Answers {
    let Some(reason) = untimed(samples) else { return of_times(samples) };
    let unknown = Answers::unknown(&reason);
    let real = capacity::conclude(samples);
    // The real size depends only on contents. It is known if contents were tested.
    match real.fake.value {
        Some(_) => Answers { capacity: real.capacity, fake: real.fake, ..unknown },
        None => unknown,
    }
}

/// Reason why an image has no answers that depend on times.
pub const IMAGE: &str = "an image, a file or a loop device: its times are not those of a card";

/// Speed that no bus reaches, MB/s: PCIe 5.0 with four lanes carries 15 800.
const BUS_MAX: f64 = 16_000.0;

/// Reason why the times are not those of a card, if they are not.
fn untimed(samples: &Samples) -> Option<String> {
    if samples.is_image {
        return Some(IMAGE.to_owned());
    }
    let speed = throughput(samples).filter(|speed| *speed > BUS_MAX)?;
    Some(format!(
        "reads of 1 MiB at {speed:.0} MB/s are answered from memory, so no times of a card are visible"
    ))
}

/// Median speed of long reads, MB/s.
fn throughput(samples: &Samples) -> Option<f64> {
    let reads = samples.with_test(Test::Throughput);
    let mut speeds: Vec<f64> =
        reads.map(|sample| sample.bytes as f64 * 1e3 / sample.ns.max(1) as f64).collect();
    if speeds.is_empty() { None } else { Some(median(&mut speeds)) }
}

/// Reason why a property that needs writes was not measured.
fn unwritten(samples: &Samples) -> &'static str {
    let has_written = samples.with_test(Test::Burst).next().is_some();
    if has_written { "the probe ended before" } else { "writes need permission" }
}

fn of_times(samples: &Samples) -> Answers {
    let (erase_block, phase) = borders::erase_block(samples);
    let open = open_aus::conclude(samples, &erase_block, &phase);
    let real = capacity::conclude(samples);
    let page = borders::page(samples);
    Answers {
        buffer: caches::buffer(samples, &page),
        page,
        planes: borders::planes(samples),
        erase_block,
        phase,
        open_aus_linear: open.linear,
        open_aus_random: open.random,
        fat_area: open.fat_area,
        slc_cache: caches::slc_cache(samples),
        write_speed: caches::write_speed(samples),
        steady_state: caches::steady_state(samples),
        small_writes: class::small_writes(samples),
        read_speed: read_speed(samples),
        read_latency: read_latency(samples),
        write_latency_max: write_latency_max(samples),
        class: class::class(samples),
        app_class: class::app_class(samples),
        noise: noise(samples),
        capacity: real.capacity,
        fake: real.fake,
        life_used: not_stated("%"),
        spare_blocks: not_stated(""),
    }
}

/// Time in us as text, at least 1 ns.
pub(crate) fn us(ns: f64) -> String {
    floatgate_mtd::Nanos::from_ns(ns.max(1.0) as u64).to_string()
}

/// Rounds to one decimal.
pub(crate) fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Standard deviation of repeated reads from their median, and the median, ns.
pub(crate) fn jitter(samples: &Samples) -> Option<(f64, f64)> {
    let mut places: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for sample in samples.with_test(Test::Noise) {
        places.entry(sample.position).or_default().push(sample.ns as f64);
    }
    let mut medians: Vec<f64> = places.values_mut().map(|times| median(times)).collect();
    let residuals =
        places.values().zip(&medians).flat_map(|(times, middle)| times.iter().map(move |ns| ns - middle));
    let sigma = deviation(residuals);
    if medians.is_empty() { None } else { Some((sigma, median(&mut medians))) }
}

fn noise(samples: &Samples) -> Answer {
    match jitter(samples) {
        None => Answer::unknown("us", 0.0, "not measured"),
        Some((sigma, middle)) => {
            let reason = format!("a read that takes {} differs by {} from try to try", us(middle), us(sigma));
            Answer::found(Value::Measure(tenths(sigma / 1e3)), "us", 0.95, reason)
        }
    }
}

fn read_latency(samples: &Samples) -> Answer {
    let times = || {
        samples.with_test(Test::Noise).chain(samples.with_test(Test::Border)).map(|sample| sample.ns as f64)
    };
    if times().next().is_none() {
        return Answer::unknown("us", 0.0, "not measured");
    }
    let (middle, most) = (quantile(times(), 0.5), quantile(times(), 1.0));
    let reason = format!("median of reads of 4 KiB; the longest took {}", us(most));
    Answer::found(Value::Measure(tenths(middle / 1e3)), "us", 0.95, reason)
}

fn write_latency_max(samples: &Samples) -> Answer {
    let writes = samples.all.iter().filter(|sample| sample.kind == Kind::Write && sample.test < Test::TagEnd);
    match writes.max_by_key(|sample| sample.ns) {
        None => Answer::unknown("us", 0.0, "no writes: they need permission"),
        Some(Sample { ns, bytes, test, .. }) => {
            let time = *ns as f64;
            let reason = format!("a write of {} in the test {}", size(*bytes), test.name());
            Answer::found(Value::Measure(tenths(time / 1e3)), "us", 0.9, reason)
        }
    }
}

/// Speeds in MB/s that the interfaces of SD cards and eMMC cannot exceed.
const BUSES: [(f64, &str); 6] = [
    (3.2, "SPI at 25 MHz"),
    (12.6, "default speed"),
    (25.1, "high speed"),
    (50.1, "SDR50 or DDR50"),
    (104.1, "SDR104"),
    (200.1, "HS200"),
];

fn read_speed(samples: &Samples) -> Answer {
    let Some(speed) = throughput(samples) else {
        return Answer::unknown("MB/s", 0.0, "not measured");
    };
    let bus = BUSES.iter().find(|(limit, _)| speed <= *limit);
    let reason = bus.map_or_else(
        || "faster than any SD bus mode without a second row of pins".to_owned(),
        |(limit, mode)| match speed / limit {
            share if share > 0.75 => format!("median of reads of 1 MiB; near the limit of {mode}, which is the bottleneck"),
            _ => format!("median of reads of 1 MiB; {mode} would allow {limit:.0} MB/s, so the card is the bottleneck or the mode is another"),
        },
    );
    Answer::found(Value::Measure(tenths(speed)), "MB/s", 0.9, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device with a few borders has no allocation unit by chance.
    #[test]
    fn a_tiny_device_shows_no_allocation_unit() {
        let samples = |capacity| conclude(&Samples { capacity, ..Samples::default() }).erase_block;
        let tiny = samples(1 << 20);
        assert!(tiny.value.is_none() && tiny.reason.contains("8 MiB are needed"), "{tiny:?}");
        assert!(!samples(1 << 30).reason.contains("are needed"));
    }

    /// A probe that had permission to write, and ended early, does not ask for it.
    #[test]
    fn what_a_probe_did_not_come_to_is_said_to_be_so() {
        let burst = Sample {
            test: Test::Burst,
            about: 0,
            kind: Kind::Write,
            position: 0,
            bytes: 16 << 10,
            ns: 1_000_000,
            found: None,
        };
        let written = Samples { capacity: 1 << 30, all: vec![burst], ..Samples::default() };
        let read_only = Samples { capacity: 1 << 30, ..Samples::default() };
        for (samples, reason) in
            [(&written, "the probe ended before"), (&read_only, "writes need permission")]
        {
            let answers = conclude(samples);
            for answer in [&answers.steady_state, &answers.class, &answers.slc_cache] {
                assert!(answer.reason.contains(reason), "{}", answer.reason);
            }
        }
    }
}
