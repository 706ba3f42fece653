//! Texts of numbers.

use floatgate_mtd::Nanos;
use floatgate_mtd::words::{grouped, noun};

/// Maximum number of decimals of a number.
const DECIMALS_MAX: f64 = 5.0;

/// Text of a number with three significant digits.
pub fn three(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    if rounded == 0.0 {
        return "0".to_owned();
    }
    let decimals = (2.0 - rounded.abs().log10().floor()).clamp(0.0, DECIMALS_MAX);
    format!("{value:.0$}", decimals as usize)
}

/// Text of a ratio in percent, with its sign.
pub fn signed_percent(ratio: f64) -> String {
    // Rounded before formatting, so that a printed zero has no sign.
    let tenths = (ratio * 1000.0).round();
    if tenths == 0.0 { "0.0 %".to_owned() } else { format!("{:+.1} %", tenths / 10.0) }
}

/// Text of a number with at most three decimals, without zeros at its end.
pub fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text of a time in microseconds, in the unit that gives one to four digits before the point.
pub fn micros(us: f64) -> String {
    Nanos::from_ns((us * 1e3).round() as u64).to_string()
}

/// Number with grouped digits and its noun: "1 page", "34 133 pages".
pub fn grouped_count(n: u64, what: &str) -> String {
    format!("{} {}", grouped(n), noun(n, what))
}

/// Text of a time in seconds, with its unit.
pub fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{} ms", three(value * 1e3)) } else { format!("{} s", three(value)) }
}
