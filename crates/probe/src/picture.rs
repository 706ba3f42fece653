//! Plots of the samples behind the answers, as points.

use crate::analysis::borders::{border_points, origin};
use crate::analysis::open_aus::costs_by_number;
use crate::answer::Answers;
use crate::sample::{Kind, Samples, Test};
use crate::stats::median;
use std::collections::BTreeMap;

/// Data of a plot, without its style.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Title of the plot.
    pub title: &'static str,
    /// Labels of the axes with units: x, then y.
    pub axes: (&'static str, &'static str),
    /// True for a logarithmic axis: x, then y.
    pub is_log: (bool, bool),
    /// True if the points of a series are joined by lines.
    pub is_joined: bool,
    /// Names and points of the series.
    pub series: Vec<(&'static str, Vec<(f64, f64)>)>,
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

/// Plots of all measurements, without empty ones.
pub fn pictures(samples: &Samples, answers: &Answers) -> Vec<Picture> {
    let all = [
        levels(samples),
        folded(samples, answers),
        open_aus(samples),
        first_aus(samples),
        written(samples),
        latencies(samples),
    ];
    let visible = all.into_iter().map(|picture| Picture {
        series: picture.series.into_iter().filter(|(_, points)| !points.is_empty()).collect(),
        ..picture
    });
    visible.filter(|picture| !picture.series.is_empty()).collect()
}

/// Median extra time of a read across a border, by the largest power of two that divides its position.
fn levels(samples: &Samples) -> Picture {
    let origin = origin(samples).unwrap_or(0);
    let curve = |test| {
        let mut rows: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for point in border_points(samples, test) {
            let bits = point.at.abs_diff(origin).trailing_zeros();
            rows.entry(bits.min(40)).or_default().push(point.value / 1e3);
        }
        rows.into_iter()
            .map(|(bits, mut values)| ((1_u64 << bits) as f64 / KIB, median(&mut values)))
            .collect()
    };
    Picture {
        title: "Reads across borders: they take longer from the alignment of pages or allocation units on",
        axes: ("alignment, KiB", "longer, us"),
        is_log: (true, false),
        is_joined: true,
        series: vec![
            ("reads of 4 KiB", curve(Test::Border)),
            ("reads of 1 KiB", curve(Test::Page)),
            ("reads of 1 KiB where the probe has written", curve(Test::PageWritten)),
        ],
    }
}

/// Reads across borders by their offset in an allocation unit: only reads at its border may be slow.
fn folded(samples: &Samples, answers: &Answers) -> Picture {
    let period = answers.erase_block.count().unwrap_or(0);
    let origin = origin(samples).unwrap_or(0);
    let place = |at: u64| (at as f64 - origin as f64).rem_euclid(period as f64) / MIB;
    let points = border_points(samples, Test::Border);
    let reads = points.iter().filter(|_| period > 0).map(|point| (place(point.at), point.value / 1e3));
    Picture {
        title: "Reads across positions in an allocation unit: its border is at 0",
        axes: ("position in the allocation unit, MiB", "longer, us"),
        is_log: (false, false),
        is_joined: false,
        series: vec![("reads of 4 KiB", reads.collect())],
    }
}

/// Time of a write by the number of allocation units written round robin.
fn open_aus(samples: &Samples) -> Picture {
    let curve =
        |test| costs_by_number(samples, test).into_iter().map(|(aus, ns)| (aus as f64, ns / 1e6)).collect();
    Picture {
        title: "Round-robin writes to allocation units: with more than can be open, each write closes one",
        axes: ("allocation units", "a write, ms"),
        is_log: (false, true),
        is_joined: true,
        series: vec![("in order", curve(Test::OpenLinear)), ("in random order", curve(Test::OpenRandom))],
    }
}

/// Median time of writes to each of the first allocation units, alone and next to others.
fn first_aus(samples: &Samples) -> Picture {
    let curve = |test| {
        let mut times: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for sample in samples.with_test(test) {
            times.entry(sample.about).or_default().push(sample.ns as f64 / 1e6);
        }
        times.into_iter().map(|(au, mut all)| (au as f64, median(&mut all))).collect()
    };
    Picture {
        title: "The first allocation units: one that is faster, or stays open together with others, is reserved for the FAT",
        axes: ("allocation unit", "a write, ms"),
        is_log: (false, true),
        is_joined: true,
        series: vec![
            ("alone", curve(Test::FatSpeed)),
            ("together with the maximum of open ones", curve(Test::Fat)),
        ],
    }
}

/// Maximum number of points of a curve over bytes.
const POINTS_MAX: usize = 256;

/// Median and longest write time over the bytes written in order. A knee is the end of a buffer or cache.
fn written(samples: &Samples) -> Picture {
    let times: Vec<f64> = samples.with_test(Test::Fill).map(|sample| sample.ns as f64 / 1e6).collect();
    let each = times.len().div_ceil(POINTS_MAX).max(1);
    let bytes = samples.with_test(Test::Fill).next().map_or(0, |sample| sample.bytes);
    let at = |place: usize| (place * each) as f64 * bytes as f64 / MIB;
    let parts = || times.chunks(each).enumerate();
    let middle = parts().map(|(place, part)| (at(place), median(&mut part.to_vec())));
    let longest = parts().map(|(place, part)| (at(place), part.iter().copied().fold(0.0, f64::max)));
    Picture {
        title: "Writes in order: they become slower where a cache ends",
        axes: ("written, MiB", "a write, ms"),
        is_log: (false, true),
        is_joined: true,
        series: vec![("median", middle.collect()), ("longest", longest.collect())],
    }
}

/// Sorted times of all reads and writes.
fn latencies(samples: &Samples) -> Picture {
    let curve = |kind| {
        let of = samples.all.iter().filter(|sample| sample.kind == kind && sample.ns > 0);
        let mut times: Vec<u64> = of.map(|sample| sample.ns).collect();
        times.sort_unstable();
        // The longest times are rare and important, so the points become denser towards them.
        let rank = |step: usize| 1.0 - 0.5_f64.powf(step as f64 / 4.0);
        let all = times.len();
        let point = |step: usize| {
            let place = ((rank(step) * all as f64) as usize).min(all.saturating_sub(1));
            Some((1.0 / (1.0 - rank(step)), *times.get(place)? as f64 / 1e6))
        };
        (0..).take_while(|step| 1.0 - rank(*step) >= 1.0 / all.max(1) as f64).filter_map(point).collect()
    };
    Picture {
        title: "Latency: share of requests that take longer",
        axes: ("one request in", "ms"),
        is_log: (true, true),
        is_joined: true,
        series: vec![("reads", curve(Kind::Read)), ("writes", curve(Kind::Write))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn only_what_was_measured_is_shown() {
        let answers = Answers::unknown("");
        assert_eq!(pictures(&Samples::default(), &answers), []);
        let read = |ns| Sample {
            test: Test::Noise,
            about: 0,
            kind: Kind::Read,
            position: 0,
            bytes: 4096,
            ns,
            found: None,
        };
        let samples = Samples {
            capacity: 1 << 30,
            all: (1..=64).map(|n| read(n * 1_000_000)).collect(),
            ..Samples::default()
        };
        let all = pictures(&samples, &answers);
        assert_eq!(all.len(), 1);
        let (name, points) = &all[0].series[0];
        assert_eq!((*name, points[0]), ("reads", (1.0, 1.0)));
        assert!(points.windows(2).all(|pair| pair[0].1 <= pair[1].1 && pair[0].0 < pair[1].0));
        assert!(points.last().unwrap().1 > 60.0, "{points:?}");
    }
}
