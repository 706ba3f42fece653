//! Numbers with the resolution in which a tool prints them.

use super::Figure;

/// Number of bytes in the unit of a speed.
pub(super) fn bytes_of(unit: &str) -> Option<f64> {
    match unit {
        "KiB/s" => Some(1024.0),
        "MiB/s" => Some(1_048_576.0),
        "kB/s" => Some(1e3),
        "MB/s" => Some(1e6),
        _ => None,
    }
}

/// Speed between `low` and `high` units per second, each unit of `bytes` bytes.
pub(super) fn per_s(low: f64, high: f64, bytes: f64) -> Figure {
    Figure::NsPerByte(1e9 / (high * bytes), 1e9 / (low * bytes))
}

/// Parses a number above 0 that is possible for a flash.
pub(super) fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|x| is_plain(text) && *x > 0.0 && *x < 1e15)
}

/// True for digits with at most one decimal point.
pub(super) fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit() || c == '.') && text.parse::<f64>().is_ok()
}

/// True for a plain 0, with any number of digits.
pub(super) fn is_zero(text: &str) -> bool {
    is_plain(text) && text.chars().all(|c| c == '0' || c == '.')
}

/// Range of numbers that print as `text`: half a unit of its last digit to either side.
pub(super) fn span(text: &str) -> Option<(f64, f64)> {
    span_from(0.0, text)
}

/// Range of the numbers above 0 that print as `text`, plus `more`.
pub(super) fn span_from(more: f64, text: &str) -> Option<(f64, f64)> {
    let value = more + if is_zero(text) { 0.0 } else { number(text)? };
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half = 0.5 / 10f64.powi(i32::try_from(decimals).ok()?.min(15));
    (value > 0.0).then(|| ((value - half).max(value / 2.0), value + half))
}
