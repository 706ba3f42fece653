//! fio's iolog: version 3, whose lines begin with a time in us (fio 3.33), and version 2, which has `wait` lines instead.

use super::lines::{Lines, field, number, wrong};
use super::{Request, RequestKind, TraceError, TraceFault, TracePosition, request, whole_sectors};
use floatgate_mtd::{Nanos, SECTOR_BYTES};
use std::io::BufRead;

pub(super) const HEAD: &[u8] = b"fio version ";

/// Header of version 3.
pub(super) const HEADER: &str = "fio version 3 iolog";

/// Name of the one file in logs that are written.
pub(super) const FILE: &str = "card";

pub(super) struct FioReader<R> {
    lines: Lines<R>,
    has_times: bool,
    /// Time of the last line in us.
    now_us: u64,
    /// Time in us of the first request.
    start_us: Option<u64>,
    file: Option<String>,
}

impl<R: BufRead> FioReader<R> {
    pub(super) fn new(from: R) -> Result<Self, TraceError> {
        let mut lines = Lines::new(from);
        let has_times = match lines.next()?.as_deref() {
            Some(HEADER) => true,
            Some("fio version 2 iolog") => false,
            _ => return Err(TraceFault::Unknown.at(TracePosition::Line(1))),
        };
        Ok(Self { lines, has_times, now_us: 0, start_us: None, file: None })
    }

    pub(super) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        while let Some(line) = self.lines.next()? {
            let parsed = self.parse(&line).map_err(|fault| fault.at(self.lines.place()))?;
            if parsed.is_some() {
                return Ok(parsed);
            }
        }
        Ok(None)
    }

    /// A line; `None` for those that are no request.
    fn parse(&mut self, line: &str) -> Result<Option<Request>, TraceFault> {
        let mut fields = line.split_ascii_whitespace();
        if self.has_times {
            let time: u64 = number(&mut fields, "time")?;
            self.now_us = self.now_us.max(time);
        }
        let file = field(&mut fields, "file")?;
        let kind = match field(&mut fields, "action")? {
            "add" => return self.add(file).map(|()| None),
            "open" | "close" => return Ok(None),
            "wait" => {
                let wait: u64 = number(&mut fields, "offset")?;
                self.now_us = self.now_us.saturating_add(wait);
                return Ok(None);
            }
            "read" => RequestKind::Read,
            "write" => RequestKind::Write,
            "trim" => RequestKind::Discard,
            "sync" | "datasync" | "sync_file_range" => RequestKind::Flush,
            other => return Err(wrong("action", other, "add, open, close, wait, read, write, trim or sync")),
        };
        let at = self.now_us - *self.start_us.get_or_insert(self.now_us);
        let at = at.checked_mul(1000).ok_or(TraceFault::LongTime)?;
        let offset = number(&mut fields, "offset")?;
        let length = number(&mut fields, "length")?;
        if kind == RequestKind::Flush {
            return request(Nanos::from_ns(at), kind, (0, 0), None).map(Some);
        }
        let range = (whole_sectors("offset", offset)?, whole_sectors("length", length)?);
        request(Nanos::from_ns(at), kind, range, None).map(Some)
    }

    fn add(&mut self, file: &str) -> Result<(), TraceFault> {
        if self.file.as_deref().is_some_and(|first| first != file) {
            return Err(TraceFault::SecondDevice(file.chars().take(80).collect()));
        }
        self.file = Some(file.to_owned());
        Ok(())
    }
}

/// A line for a request.
pub(super) fn line(request: &Request) -> String {
    let Request { at, kind, sector, sectors, .. } = *request;
    let action = match kind {
        RequestKind::Read => "read",
        RequestKind::Write => "write",
        RequestKind::Discard => "trim",
        RequestKind::Flush => "sync",
    };
    let [offset, length] = [sector, sectors].map(|count| count * SECTOR_BYTES as u64);
    format!("{} {FILE} {action} {offset} {length}", at.as_ns() / 1000)
}
