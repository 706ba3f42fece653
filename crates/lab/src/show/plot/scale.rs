//! Linear and logarithmic scales.

/// Value below which a logarithmic scale treats a value as 0.
const SMALLEST: f64 = 1e-30;

/// Scale that converts values to px.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Position of the lowest value, px.
    pub(crate) from: i32,
    /// Position of the highest value, px.
    pub(crate) to: i32,
    min: f64,
    max: f64,
    log: bool,
}

impl Scale {
    /// Logarithmic scale over whole decades that contain `min` (above 0) and `max`.
    pub(crate) fn log((from, to): (i32, i32), min: f64, max: f64) -> Self {
        let (low, high) =
            (libm::floor(libm::log10(min.max(SMALLEST))), libm::ceil(libm::log10(max.max(SMALLEST))));
        Self { from, to, min: low, max: high.max(low + 1.0), log: true }
    }

    /// Linear scale from 0 to a round number above `max`.
    pub(crate) fn linear((from, to): (i32, i32), max: f64) -> Self {
        let step = round_step(max, 5.0);
        let steps = libm::ceil(max / step).max(1.0);
        Self { from, to, min: 0.0, max: steps * step, log: false }
    }

    /// Position of a value, px. A scale is made from all values drawn on it, so none lies outside.
    pub(crate) fn at(&self, value: f64) -> i32 {
        let value = if self.log { libm::log10(value.max(SMALLEST)) } else { value };
        let share = (value - self.min) / (self.max - self.min);
        self.from + libm::round(share * f64::from(self.to - self.from)) as i32
    }

    /// Round values for ticks, with their labels.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        if !self.log {
            let step = round_step(self.max, 5.0);
            let count = libm::round(self.max / step) as u32;
            return (0..=count).map(|i| f64::from(i) * step).map(|value| (value, short(value))).collect();
        }
        let decades = libm::round(self.max - self.min) as u32;
        let every = decades.div_ceil(12).max(1);
        let within: &[f64] = if decades <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let mut ticks = Vec::new();
        for decade in (0..=decades).step_by(every as usize) {
            let power = libm::pow(10.0, self.min + f64::from(decade));
            let last = decade == decades;
            let here = within.iter().filter(|factor| !last || **factor == 1.0);
            ticks.extend(here.map(|factor| (power * factor, short(power * factor))));
        }
        ticks
    }
}

/// Step of 1, 2 or 5 times a power of ten, with at most about `most` steps up to `max`.
fn round_step(max: f64, most: f64) -> f64 {
    let power = libm::pow(10.0, libm::floor(libm::log10((max / most).max(1e-9))));
    let fits = |factor: &&f64| max / (power * **factor) <= most + 1e-9;
    power * [1.0, 2.0, 5.0].iter().find(fits).copied().unwrap_or(10.0)
}

/// Short text of a round number: 20k, 1M, 1e-6.
fn short(value: f64) -> String {
    if value > 0.0 && value < 1e-3 {
        return format!("{value:.0e}");
    }
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| value >= *scale).unwrap_or((1.0, ""));
    let text = format!("{:.3}", value / scale);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> String {
        scale.ticks().into_iter().map(|tick| tick.1).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_and_hold_the_values() {
        let log = Scale::log((0, 600), 12_000.0, 9e6);
        assert_eq!(labels(&log), "10k 100k 1M 10M");
        assert_eq!((log.at(1e4), log.at(1e5), log.at(1e7), log.at(1e3)), (0, 200, 600, -200));
        assert_eq!(labels(&Scale::log((0, 9), 100.0, 100.0)), "100 200 500 1k");
        let linear = Scale::linear((100, 200), 6500.0);
        assert_eq!(labels(&linear), "0 2k 4k 6k 8k");
        assert_eq!(linear.at(4000.0), 150);
        assert_eq!(labels(&Scale::linear((0, 9), 0.0)), "0 1e-9");
    }
}
