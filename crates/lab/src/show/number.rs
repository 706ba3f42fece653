//! Texts of numbers.

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

/// Text of a time in seconds, with its unit.
pub fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{} ms", three(value * 1e3)) } else { format!("{} s", three(value)) }
}
