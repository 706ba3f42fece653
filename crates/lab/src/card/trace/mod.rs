//! Traces of block devices: one type for what several programs record, read and written request by request.
//!
//! [`Reader`] finds the format by the first bytes:
//!
//! | format | read | written | has latencies |
//! |---|---|---|---|
//! | CSV of floatgate | yes | yes | yes |
//! | fio iolog, versions 2 and 3 | yes | version 3 | no |
//! | text of blkparse | yes | yes | yes |
//! | blktrace, one stream as of `blkparse -d` | yes | no | yes |
//! | CSV of MSR Cambridge (SNIA) | yes | no | yes |
//!
//! All lines are read with a bound on their length, and all numbers are checked: a [`TraceError`] names the line or the byte.

mod blkparse;
mod blktrace;
mod csv;
mod fio;
mod lines;
mod msr;
mod pairs;
mod write;

pub use write::{Format, TraceWriter};

use floatgate_mtd::{Nanos, SECTOR_BYTES};
use serde::Serialize;
use std::io::{self, BufRead};

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// Reads sectors.
    Read,
    /// Writes sectors.
    Write,
    /// Says that the contents of sectors are not needed any more.
    Discard,
    /// Waits until everything written is on the flash.
    Flush,
}

impl RequestKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Discard, Self::Flush];

    /// Word for the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
        }
    }
}

/// A request to a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time of its issue since the beginning of the trace.
    pub at: Nanos,
    /// Kind of the request.
    pub kind: RequestKind,
    /// First sector of 512 bytes; 0 for a flush.
    pub sector: u64,
    /// Number of sectors; 0 for a flush.
    pub sectors: u64,
    /// Time from issue to completion, where the trace has it.
    pub latency: Option<Nanos>,
}

/// Place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePosition {
    /// Line of a text, counted from 1.
    Line(u64),
    /// Offset of a record in bytes.
    Offset(u64),
}

impl std::fmt::Display for TracePosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Offset(offset) => write!(f, "offset {offset}"),
        }
    }
}

/// A fault of a trace.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct TraceError {
    /// Place of the fault.
    pub place: TracePosition,
    /// Kind of the fault, with its details.
    pub fault: TraceFault,
}

/// Kind of fault of a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFault {
    /// The file cannot be read.
    #[error(transparent)]
    Host(io::Error),
    /// The file does not begin like any known format.
    #[error("no trace in a known format")]
    Unknown,
    /// There is nothing in it, or no request.
    #[error("the trace is empty")]
    Empty,
    /// It is packed.
    #[error("the trace is packed: unpack it first, with `{0}`")]
    Packed(&'static str),
    /// A line is longer than any that the format has.
    #[error("a line of more than {} bytes", lines::LINE_BYTES_MAX)]
    LongLine,
    /// A field is absent.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A field has no possible value.
    #[error("{field} is {found:?}, expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Text found.
        found: String,
        /// Values that are possible.
        expected: &'static str,
    },
    /// An address or length in bytes is not a whole number of sectors.
    #[error("{field} of {bytes} bytes is no multiple of {SECTOR_BYTES}")]
    NotSectors {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        bytes: u64,
    },
    /// A request ends beyond any device.
    #[error("{sectors} sectors from sector {sector} end beyond any device")]
    Range {
        /// First sector.
        sector: u64,
        /// Number of sectors.
        sectors: u64,
    },
    /// A second device is in the trace.
    #[error("a second device, {0:?}: record or cut out one")]
    SecondDevice(String),
    /// Requests are not in the order of their issue.
    #[error(
        "the time goes back: requests must be in the order of issue (blkparse merges the streams of CPUs)"
    )]
    TimeGoesBack,
    /// A time is too long.
    #[error("a time of more than 36 years")]
    LongTime,
    /// A record is cut short.
    #[error("the last record is cut short")]
    CutShort,
    /// Nothing in the trace is the issue of a request.
    #[error(
        "no event is the issue of a request to a driver (D): a device above others, such as dm or md, has none; record the one below it"
    )]
    NoIssue,
    /// A record does not begin as it must.
    #[error("a record begins with {0:#010x}, which is not blktrace version 7")]
    Magic(u32),
}

impl TraceFault {
    const fn at(self, place: TracePosition) -> TraceError {
        TraceError { place, fault: self }
    }
}

/// Largest sector number of a device, as the kernel's `sector_t` in bytes must fit in 63 bits.
const SECTORS_MAX: u64 = 1 << 54;

/// Longest time in a trace: virtual time goes on behind it.
const TIME_MAX: Nanos = Nanos::from_ns(1 << 60);

/// A request, checked.
fn request(
    at: Nanos,
    kind: RequestKind,
    (sector, sectors): (u64, u64),
    latency: Option<Nanos>,
) -> Result<Request, TraceFault> {
    if at > TIME_MAX || latency.is_some_and(|latency| latency > TIME_MAX) {
        return Err(TraceFault::LongTime);
    }
    match sector.checked_add(sectors) {
        _ if kind == RequestKind::Flush => Ok(Request { at, kind, sector: 0, sectors: 0, latency }),
        Some(end) if end <= SECTORS_MAX => Ok(Request { at, kind, sector, sectors, latency }),
        _ => Err(TraceFault::Range { sector, sectors }),
    }
}

/// An address or a length in bytes, as sectors.
fn whole_sectors(field: &'static str, bytes: u64) -> Result<u64, TraceFault> {
    match bytes % SECTOR_BYTES as u64 {
        0 => Ok(bytes / SECTOR_BYTES as u64),
        _ => Err(TraceFault::NotSectors { field, bytes }),
    }
}

/// Mark that some programs put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Fault of a file that does not begin like any known format.
fn unknown(head: &[u8]) -> TraceFault {
    match head {
        [] => TraceFault::Empty,
        [0x1F, 0x8B, ..] => TraceFault::Packed("gunzip"),
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => TraceFault::Packed("unxz"),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => TraceFault::Packed("unzstd"),
        _ => TraceFault::Unknown,
    }
}

/// Requests of a trace in the order of their issue.
pub struct Reader<R> {
    format: Source<R>,
    has_failed: bool,
    is_empty: bool,
}

enum Source<R> {
    Csv(csv::CsvReader<R>),
    Fio(fio::FioReader<R>),
    Blkparse(blkparse::BlkparseReader<R>),
    Blktrace(blktrace::BlktraceReader<R>),
    Msr(msr::MsrReader<R>),
}

impl<R: BufRead> Reader<R> {
    /// Finds the format of a trace.
    ///
    /// # Errors
    /// `Unknown`, `Host`, and faults of the header.
    pub fn new(mut from: R) -> Result<Self, TraceError> {
        let failed = |error| TraceFault::Host(error).at(TracePosition::Offset(0));
        if from.fill_buf().map_err(failed)?.starts_with(BYTE_ORDER_MARK) {
            from.consume(BYTE_ORDER_MARK.len());
        }
        let head = from.fill_buf().map_err(failed)?;
        let format = if blktrace::is_blktrace(head) {
            Source::Blktrace(blktrace::BlktraceReader::new(from))
        } else if head.starts_with(csv::HEADER.as_bytes()) {
            Source::Csv(csv::CsvReader::new(from)?)
        } else if head.starts_with(fio::HEAD) {
            Source::Fio(fio::FioReader::new(from)?)
        } else if msr::is_msr(head) {
            Source::Msr(msr::MsrReader::new(from))
        } else if blkparse::is_blkparse(head) {
            Source::Blkparse(blkparse::BlkparseReader::new(from))
        } else {
            return Err(unknown(head).at(TracePosition::Offset(0)));
        };
        Ok(Self { format, has_failed: false, is_empty: true })
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = match &mut self.format {
            Source::Csv(reader) => reader.next(),
            Source::Fio(reader) => reader.next(),
            Source::Blkparse(reader) => reader.next(),
            Source::Blktrace(reader) => reader.next(),
            Source::Msr(reader) => reader.next(),
        };
        let has_events = matches!(self.format, Source::Blkparse(_) | Source::Blktrace(_));
        let next = match next {
            Ok(None) if self.is_empty => {
                let fault = if has_events { TraceFault::NoIssue } else { TraceFault::Empty };
                Err(fault.at(TracePosition::Offset(0)))
            }
            next => next,
        };
        self.has_failed = next.is_err();
        self.is_empty = false;
        next.transpose()
    }
}
