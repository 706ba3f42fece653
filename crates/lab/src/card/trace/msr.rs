//! The traces of MSR Cambridge (SNIA IOTTA): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in 100 ns. Those names may
//! stand in a first line.

use super::lines::{Lines, field, number, wrong};
use super::{Request, RequestKind, TraceError, TraceFault, request, whole_sectors};
use floatgate_mtd::Nanos;
use std::io::BufRead;

/// ns of a tick of Windows.
const TICK_NS: u64 = 100;

/// Beginning of the line of names that some copies have.
const NAMES: &str = "Timestamp,Hostname,DiskNumber,";

/// True for a beginning of numbers and names in seven columns, and for their header.
pub(super) fn is_msr(head: &[u8]) -> bool {
    if head.starts_with(NAMES.as_bytes()) {
        return true;
    }
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or(head);
    let mut fields = line.trim_ascii_end().split(|byte| *byte == b',');
    let is_number = |field: Option<&[u8]>| {
        field.is_some_and(|field| !field.is_empty() && field.iter().all(u8::is_ascii_digit))
    };
    is_number(fields.next()) && fields.next().is_some() && is_number(fields.next()) && fields.count() == 4
}

pub(super) struct MsrReader<R> {
    lines: Lines<R>,
    start: Option<u64>,
    disk: Option<(String, u32)>,
    /// Time of the request before, in ticks since the beginning.
    last: u64,
}

impl<R: BufRead> MsrReader<R> {
    pub(super) const fn new(from: R) -> Self {
        Self { lines: Lines::new(from), start: None, disk: None, last: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        let Some(mut line) = self.lines.next()? else { return Ok(None) };
        if self.start.is_none() && line.starts_with(NAMES) {
            let Some(first) = self.lines.next()? else { return Ok(None) };
            line = first;
        }
        self.parse(&line).map(Some).map_err(|fault| fault.at(self.lines.place()))
    }

    fn parse(&mut self, line: &str) -> Result<Request, TraceFault> {
        let mut fields = line.split(',');
        let time = number(&mut fields, "Timestamp")?;
        self.check_disk(field(&mut fields, "Hostname")?, number(&mut fields, "DiskNumber")?)?;
        let kind = match field(&mut fields, "Type")? {
            "Read" => RequestKind::Read,
            "Write" => RequestKind::Write,
            other => return Err(wrong("Type", other, "Read or Write")),
        };
        let sector = whole_sectors("Offset", number(&mut fields, "Offset")?)?;
        let sectors = whole_sectors("Size", number(&mut fields, "Size")?)?;
        let latency: u64 = number(&mut fields, "ResponseTime")?;
        // Lines are in the order of completion in places: what was issued before its predecessor counts as issued with it.
        self.last = self.last.max(u64::saturating_sub(time, *self.start.get_or_insert(time)));
        let ns = |ticks: u64| ticks.checked_mul(TICK_NS).map(Nanos::from_ns).ok_or(TraceFault::LongTime);
        request(ns(self.last)?, kind, (sector, sectors), Some(ns(latency)?))
    }

    fn check_disk(&mut self, host: &str, disk: u32) -> Result<(), TraceFault> {
        match &self.disk {
            None => self.disk = Some((host.to_owned(), disk)),
            Some((first, number)) if first == host && *number == disk => {}
            Some(_) => {
                return Err(TraceFault::SecondDevice(format!("{host} {disk}").chars().take(80).collect()));
            }
        }
        Ok(())
    }
}
