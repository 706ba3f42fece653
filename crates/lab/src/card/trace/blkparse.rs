//! The text that blkparse prints by default: `8,0 1 42 0.001234567 697 D WS 223490 + 8 [kjournald]`.
//!
//! A request goes from its issue to the driver (D) to its completion (C): what the device sees, after merges. An issue that the driver sent back (R)
//! does not count. All other events are passed over.

use super::lines::{Lines, decimal, field, number, wrong};
use super::pairs::Pairs;
use super::{Request, RequestKind, TraceError, TraceFault, request};
use floatgate_mtd::Nanos;
use std::io::BufRead;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// True for a beginning with a device's numbers.
pub(super) fn is_blkparse(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or(head);
    device(&String::from_utf8_lossy(line)).is_some()
}

/// The numbers of the device with which an event begins.
fn device(line: &str) -> Option<&str> {
    let first = line.split_ascii_whitespace().next()?;
    let (major, minor) = first.split_once(',')?;
    (major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok()).then_some(first)
}

pub(super) struct BlkparseReader<R> {
    lines: Lines<R>,
    pairs: Pairs,
    device: Option<String>,
    /// The summary has begun.
    has_ended: bool,
}

impl<R: BufRead> BlkparseReader<R> {
    pub(super) const fn new(from: R) -> Self {
        Self { lines: Lines::new(from), pairs: Pairs::new(), device: None, has_ended: false }
    }

    pub(super) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        loop {
            if let Some(request) = self.pairs.next() {
                return Ok(Some(request));
            }
            let line = if self.has_ended { None } else { self.lines.next()? };
            let Some(line) = line else { return Ok(self.pairs.rest()) };
            let is_event = self.event(&line).map_err(|fault| fault.at(self.lines.place()))?;
            self.has_ended = !is_event;
        }
    }

    /// Takes an event; false when the summary begins, which has no device.
    fn event(&mut self, line: &str) -> Result<bool, TraceFault> {
        let Some(device) = device(line) else {
            let is_summary = line.is_empty() || line.starts_with("CPU") || line.starts_with("Total");
            return if is_summary { Ok(false) } else { Err(wrong("device", line, "major,minor")) };
        };
        let mut fields = line.split_ascii_whitespace().skip(1);
        let _cpu: u32 = number(&mut fields, "CPU")?;
        let _sequence: u64 = number(&mut fields, "sequence number")?;
        let time = decimal("time", field(&mut fields, "time")?, SECOND_NS)?;
        let _process: i64 = number(&mut fields, "process")?;
        let action = field(&mut fields, "action")?;
        if !["D", "R", "C"].contains(&action) {
            return Ok(true);
        }
        self.check_device(device)?;
        let flags = field(&mut fields, "RWBS")?;
        let (sector, sectors) = range(&mut fields)?;
        let Some(kind) = kind(flags, sectors) else { return Ok(true) };
        let at = self.pairs.time(time).ok_or(TraceFault::TimeGoesBack)?;
        match action {
            "D" => self.pairs.issue(request(at, kind, (sector, sectors), None)?),
            "R" => self.pairs.requeue(kind, sector),
            _ => self.pairs.complete(at, kind, sector),
        }
        Ok(true)
    }

    fn check_device(&mut self, device: &str) -> Result<(), TraceFault> {
        if self.device.as_deref().is_some_and(|first| first != device) {
            return Err(TraceFault::SecondDevice(device.to_owned()));
        }
        if self.device.is_none() {
            self.device = Some(device.to_owned());
        }
        Ok(())
    }
}

/// `sector + sectors`, or nothing, as with a flush.
fn range<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Result<(u64, u64), TraceFault> {
    let Some(first) = fields.next().filter(|first| !first.starts_with(['[', '('])) else { return Ok((0, 0)) };
    let sector = first.parse().map_err(|_| wrong("sector", first, "a whole number"))?;
    match fields.next() {
        Some("+") => Ok((sector, number(fields, "number of sectors")?)),
        _ => Ok((sector, 0)),
    }
}

/// Kind of the request that RWBS names (`blk_fill_rwbs`); `None` for commands that are no request for data.
fn kind(flags: &str, sectors: u64) -> Option<RequestKind> {
    // An F before the letter of the operation is a flush before it, one behind it is FUA.
    let operation = flags.trim_start_matches('F');
    match operation.chars().next() {
        Some('R') if sectors > 0 => Some(RequestKind::Read),
        Some('W') if sectors > 0 => Some(RequestKind::Write),
        Some('D') if sectors > 0 => Some(RequestKind::Discard),
        _ if flags.starts_with('F') => Some(RequestKind::Flush),
        _ => None,
    }
}

/// The lines for a request, which is the `number`th of a trace.
pub(super) fn lines(request: &Request, number: u64) -> String {
    let Request { at, kind, sector, sectors, latency } = *request;
    let flags = match kind {
        RequestKind::Read => "R",
        RequestKind::Write => "W",
        RequestKind::Discard => "D",
        RequestKind::Flush => "FF",
    };
    let event = |sequence: u64, time: Nanos, action: &str, by: &str| {
        let (seconds, ns) = (time.as_ns() / SECOND_NS, time.as_ns() % SECOND_NS);
        format!(
            "  8,0    0 {sequence:8} {seconds:5}.{ns:09} {:5} {action:>2} {flags:>3} {sector} + {sectors} [{by}]",
            0
        )
    };
    let issue = event(2 * number + 1, at, "D", "floatgate");
    match latency {
        None => issue,
        Some(latency) => format!("{issue}\n{}", event(2 * number + 2, at + latency, "C", "0")),
    }
}
