//! Parser of the user's own lines.

use super::numbers::{bytes_of, per_s, span};
use super::{Figure, Line, Measure, Measurement, Reader};
use crate::speed::Test;

/// Reads a line of the user's own.
pub(super) fn read(_: &Reader, text: &str) -> Option<Line> {
    own(text)
}

/// Parses a line such as `page read 227 us` or `eraseblock write 3.4 MiB/s`: a test of
/// `flash_speed`, or `update`.
fn own(text: &str) -> Option<Line> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name @ .., figure, unit] = words.as_slice() else { return None };
    let name = name.join(" ");
    let measure = if name == "update" { Measure::Update } else { Measure::Test(Test::from_name(&name)?) };
    let Some((low, high)) = span(figure) else { return Some(Line::not_read("figure", figure)) };
    let per_call = |ns: f64| Figure::NsPerCall(low * ns, high * ns);
    let figure_of = match (*unit, bytes_of(unit)) {
        (_, Some(bytes)) => per_s(low, high, bytes),
        ("us", _) => per_call(1e3),
        ("ms", _) => per_call(1e6),
        ("s", _) => per_call(1e9),
        _ => return Some(Line::wrong("the unit is none of KiB/s, MiB/s, kB/s, MB/s, us, ms, s")),
    };
    Some(Line::Figure(Measurement::new(measure, figure_of, format!("{figure} {unit}"))))
}
