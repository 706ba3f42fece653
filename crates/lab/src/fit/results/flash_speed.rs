//! Parser of the output of `flash_speed`, of the kernel's `mtd_speedtest`, and of `floatgate probe`.

use super::numbers::{bytes_of, is_plain, is_zero, number, per_s, span};
use super::{Figure, Line, Measure, Measurement, Reader, SHOWN_MAX};
use crate::speed::Test;

/// Reads a line of these tools.
pub(super) fn read(_: &Reader, text: &str) -> Option<Line> {
    speed(text).or_else(|| device(text))
}

/// Parses a speed: `eraseblock write speed is 3542 KiB/s`, `2x multi-block erase speed is 247841 KiB/s`.
fn speed(text: &str) -> Option<Line> {
    let (name, rest) = text.split_once(" speed is ")?;
    let rest = rest.split('(').next()?.trim();
    let name = name.replace(" multi-block", "");
    let Some(test) = Test::from_name(&name) else {
        return Some(Line::wrong("no test of flash_speed has this name"));
    };
    let Some((text, unit)) = rest.rsplit_once(' ') else {
        return Some(Line::Wrong(format!("`{rest}` is no number with a unit")));
    };
    let Some(per_unit) = bytes_of(unit) else {
        return Some(Line::Wrong(format!("`{unit}` is none of KiB/s, MiB/s, kB/s, MB/s")));
    };
    if text.parse::<f64>() == Ok(0.0) {
        return Some(Line::wrong("the tests were too short for a speed above 0: measure more blocks"));
    }
    let Some((kib_s, (low, high))) = number(text).zip(span(text)) else {
        return Some(Line::not_read("speed", text));
    };
    let figure = if unit == "KiB/s" { Figure::FlashSpeed(kib_s) } else { per_s(low, high, per_unit) };
    Some(Line::Figure(Measurement::new(Measure::Test(test), figure, format!("{text} {unit}"))))
}

/// Parses the number of blocks: `MTD device: 4    count: 16`, `blocks 16`. The sizes of the device are
/// ignored, because the setup states them.
fn device(text: &str) -> Option<Line> {
    let count = text.strip_prefix("blocks ").or_else(|| {
        let rest = text.strip_prefix("MTD device").and_then(|rest| rest.split_once("count:"));
        rest.map(|(_, count)| count)
    });
    match count.map(|count| (count.trim(), count.trim().parse())) {
        Some((_, Ok(count))) if count > 0 => Some(Line::Count(count)),
        Some((text, _)) if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) && !is_zero(text) => {
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            Some(Line::Wrong(format!("`{shown}` is more blocks than any flash has: {} at most", u32::MAX)))
        }
        Some((text, _)) if is_plain(text) && !is_zero(text) => Some(Line::wrong("no whole number of blocks")),
        Some((text, _)) => Some(Line::not_read("number of blocks", text)),
        None if text.starts_with("MTD device") => Some(Line::Nothing),
        None => None,
    }
}

/// State of the blocks in a heading of `floatgate probe`: `# 16 eraseblocks, just written`.
pub(super) fn state(text: &str) -> Option<&'static str> {
    let (count, state) = text.strip_prefix("# ")?.split_once(", ")?;
    let is_heading = count.ends_with(" eraseblock") || count.ends_with(" eraseblocks");
    ["written", "blank", "just written"].into_iter().find(|known| is_heading && *known == state.trim())
}
