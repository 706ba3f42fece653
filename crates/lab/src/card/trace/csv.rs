//! The CSV of floatgate: a header, and a line for each request in the order of issue.

use super::lines::{Lines, decimal, field, number, wrong};
use super::{Request, RequestKind, TraceError, TraceFault, TracePosition, request};
use floatgate_mtd::Nanos;
use std::io::BufRead;

/// The header: time of issue since the beginning of the trace, kind, first sector of 512 bytes, number of sectors, and the time from issue to
/// completion, which may be absent.
pub(super) const HEADER: &str = "time_us,kind,sector,sectors,latency_us";

pub(super) struct CsvReader<R> {
    lines: Lines<R>,
    /// Time of the request before.
    last: Nanos,
}

impl<R: BufRead> CsvReader<R> {
    pub(super) fn new(from: R) -> Result<Self, TraceError> {
        let mut lines = Lines::new(from);
        match lines.next()? {
            Some(header) if header == HEADER => Ok(Self { lines, last: Nanos::ZERO }),
            _ => Err(TraceFault::Unknown.at(TracePosition::Line(1))),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        let Some(line) = self.lines.next()? else { return Ok(None) };
        let request = parse(&line).and_then(|request| match request.at < self.last {
            true => Err(TraceFault::TimeGoesBack),
            false => Ok(request),
        });
        let request = request.map_err(|fault| fault.at(self.lines.place()))?;
        self.last = request.at;
        Ok(Some(request))
    }
}

fn parse(line: &str) -> Result<Request, TraceFault> {
    let mut fields = line.split(',');
    let at = decimal("time_us", field(&mut fields, "time_us")?, 1000)?;
    let name = field(&mut fields, "kind")?;
    let kind = RequestKind::ALL.into_iter().find(|kind| kind.name() == name);
    let kind = kind.ok_or_else(|| wrong("kind", name, "read, write, discard or flush"))?;
    let (sector, sectors) = (number(&mut fields, "sector")?, number(&mut fields, "sectors")?);
    let latency = match field(&mut fields, "latency_us")? {
        "" => None,
        text => Some(decimal("latency_us", text, 1000)?),
    };
    match fields.next() {
        Some(more) => Err(wrong("what follows latency_us", more, "the end of the line")),
        None => request(at, kind, (sector, sectors), latency),
    }
}

/// A line for a request.
pub(super) fn line(request: &Request) -> String {
    let Request { at, kind, sector, sectors, latency } = *request;
    let latency = latency.map_or_else(String::new, us);
    format!("{},{},{sector},{sectors},{latency}", us(at), kind.name())
}

fn us(time: Nanos) -> String {
    format!("{}.{:03}", time.as_ns() / 1000, time.as_ns() % 1000)
}
