//! Lines of a text trace, with their numbers and a bound on their length; fields of a line.

use super::{TraceError, TraceFault, TracePosition};
use floatgate_mtd::Nanos;
use std::io::{BufRead, Read};
use std::str::FromStr;

/// Longest line in bytes: names of processes and files are part of lines.
pub(super) const LINE_BYTES_MAX: usize = 8192;

/// Longest part of a wrong field that is shown.
const SHOWN_CHARS_MAX: usize = 40;

/// Lines of a text.
pub(super) struct Lines<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(from: R) -> Self {
        Self { from, line: Vec::new(), number: 0 }
    }

    /// The place of the line that was read last.
    pub(super) const fn place(&self) -> TracePosition {
        TracePosition::Line(self.number)
    }

    /// The next line with something in it, without its end; `None` behind the last one. Bytes that are no UTF-8, as in names, are replaced.
    pub(super) fn next(&mut self) -> Result<Option<String>, TraceError> {
        loop {
            self.line.clear();
            self.number += 1;
            let place = self.place();
            let most = LINE_BYTES_MAX as u64 + 1;
            let read = (&mut self.from).take(most).read_until(b'\n', &mut self.line);
            match read.map_err(|error| TraceFault::Host(error).at(place))? {
                0 => return Ok(None),
                _ if self.line.len() > LINE_BYTES_MAX => return Err(TraceFault::LongLine.at(place)),
                _ if self.line.trim_ascii_end().is_empty() => {}
                _ => return Ok(Some(String::from_utf8_lossy(self.line.trim_ascii_end()).into_owned())),
            }
        }
    }
}

/// Fault of a field.
pub(super) fn wrong(field: &'static str, found: &str, expected: &'static str) -> TraceFault {
    TraceFault::Field { field, found: found.chars().take(SHOWN_CHARS_MAX).collect(), expected }
}

/// The next field, which must be there.
pub(super) fn field<'a>(
    fields: &mut impl Iterator<Item = &'a str>,
    name: &'static str,
) -> Result<&'a str, TraceFault> {
    fields.next().ok_or(TraceFault::Missing(name))
}

/// The next field as a number.
pub(super) fn number<'a, T: FromStr>(
    fields: &mut impl Iterator<Item = &'a str>,
    name: &'static str,
) -> Result<T, TraceFault> {
    let text = field(fields, name)?;
    text.parse().map_err(|_| wrong(name, text, "a whole number"))
}

/// A decimal number of `unit` ns, as 12.5 us.
pub(super) fn decimal(name: &'static str, text: &str, unit: u64) -> Result<Nanos, TraceFault> {
    let fault = || wrong(name, text, "a decimal number");
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) {
        return Err(fault());
    }
    let whole: u64 = whole.parse().map_err(|_| fault())?;
    let (mut ns, mut weight) = (0, unit);
    for digit in part.bytes().map(|byte| u64::from(byte - b'0')) {
        weight /= 10;
        ns += digit * weight;
    }
    let ns = whole.checked_mul(unit).and_then(|whole| whole.checked_add(ns)).ok_or_else(fault)?;
    Ok(Nanos::from_ns(ns))
}
