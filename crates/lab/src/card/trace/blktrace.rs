//! blktrace's binary records (`struct blk_io_trace` of `linux/blktrace_api.h`), one stream in the order of time, as `blkparse -d FILE` makes it.

use super::pairs::Pairs;
use super::{Request, RequestKind, TraceError, TraceFault, TracePosition, request, whole_sectors};
use floatgate_mtd::Nanos;
use std::io::{self, BufRead, ErrorKind, Read};

/// `BLK_IO_TRACE_MAGIC | BLK_IO_TRACE_VERSION`.
const MAGIC: u32 = 0x6561_7407;

const RECORD_BYTES: usize = 48;

/// Categories in the high half of the action (`BLK_TC_*`).
mod category {
    pub(super) const READ: u32 = 1 << 0;
    pub(super) const WRITE: u32 = 1 << 1;
    pub(super) const FLUSH: u32 = 1 << 2;
    pub(super) const PC: u32 = 1 << 9;
    pub(super) const NOTIFY: u32 = 1 << 10;
    pub(super) const DISCARD: u32 = 1 << 13;
}

/// Actions in the low half (`__BLK_TA_*`).
const REQUEUE: u32 = 6;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;

/// True when the first record begins here, in either byte order.
pub(super) fn is_blktrace(head: &[u8]) -> bool {
    let Some(magic) = head.first_chunk() else { return false };
    [u32::from_le_bytes(*magic), u32::from_be_bytes(*magic)].contains(&MAGIC)
}

pub(super) struct BlktraceReader<R> {
    from: R,
    offset: u64,
    pairs: Pairs,
    device: Option<u32>,
}

/// The fields that count of a record.
struct Record {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
    /// Bytes behind the record.
    payload: u16,
}

impl Record {
    fn parse(bytes: &[u8; RECORD_BYTES]) -> Result<Self, TraceFault> {
        let magic = le_u32(bytes, 0);
        let mut fields = *bytes;
        if magic.swap_bytes() == MAGIC {
            for field in [0..4, 4..8, 8..16, 16..24, 24..28, 28..32, 32..36, 36..40, 40..44, 44..46, 46..48] {
                fields[field].reverse();
            }
        } else if magic != MAGIC {
            return Err(TraceFault::Magic(magic));
        }
        Ok(Self {
            time: le_u64(&fields, 8),
            sector: le_u64(&fields, 16),
            bytes: le_u32(&fields, 24),
            action: le_u32(&fields, 28),
            device: le_u32(&fields, 36),
            payload: u16::from_le_bytes([fields[46], fields[47]]),
        })
    }

    /// Kind of the request; `None` for commands that are no request for data.
    fn kind(&self) -> Option<RequestKind> {
        let categories = self.action >> 16;
        let has = |category| categories & category != 0;
        match self.bytes {
            _ if has(category::PC) => None,
            0 if has(category::FLUSH) => Some(RequestKind::Flush),
            0 => None,
            _ if has(category::DISCARD) => Some(RequestKind::Discard),
            _ if has(category::WRITE) => Some(RequestKind::Write),
            _ if has(category::READ) => Some(RequestKind::Read),
            _ => None,
        }
    }
}

fn le_u32(bytes: &[u8; RECORD_BYTES], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |field| u32::from_le_bytes(*field))
}

fn le_u64(bytes: &[u8; RECORD_BYTES], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |field| u64::from_le_bytes(*field))
}

impl<R: BufRead> BlktraceReader<R> {
    pub(super) const fn new(from: R) -> Self {
        Self { from, offset: 0, pairs: Pairs::new(), device: None }
    }

    pub(super) fn next(&mut self) -> Result<Option<Request>, TraceError> {
        loop {
            if let Some(request) = self.pairs.next() {
                return Ok(Some(request));
            }
            let place = TracePosition::Offset(self.offset);
            let Some(record) = self.record().map_err(|fault| fault.at(place))? else {
                return Ok(self.pairs.rest());
            };
            self.event(&record).map_err(|fault| fault.at(place))?;
        }
    }

    /// The next record, `None` at the end.
    fn record(&mut self) -> Result<Option<Record>, TraceFault> {
        if self.from.fill_buf().map_err(TraceFault::Host)?.is_empty() {
            return Ok(None);
        }
        let mut bytes = [0; RECORD_BYTES];
        self.from.read_exact(&mut bytes).map_err(cut_short)?;
        let record = Record::parse(&bytes)?;
        let payload = u64::from(record.payload);
        let passed =
            io::copy(&mut (&mut self.from).take(payload), &mut io::sink()).map_err(TraceFault::Host)?;
        if passed < payload {
            return Err(TraceFault::CutShort);
        }
        self.offset += RECORD_BYTES as u64 + payload;
        Ok(Some(record))
    }

    fn event(&mut self, record: &Record) -> Result<(), TraceFault> {
        let action = record.action & 0xFFFF;
        if record.action >> 16 & category::NOTIFY != 0 || ![REQUEUE, ISSUE, COMPLETE].contains(&action) {
            return Ok(());
        }
        if *self.device.get_or_insert(record.device) != record.device {
            let (major, minor) = (record.device >> 20, record.device & 0xF_FFFF);
            return Err(TraceFault::SecondDevice(format!("{major},{minor}")));
        }
        let Some(kind) = record.kind() else { return Ok(()) };
        let at = self.pairs.time(Nanos::from_ns(record.time)).ok_or(TraceFault::TimeGoesBack)?;
        match action {
            COMPLETE => self.pairs.complete(at, kind, record.sector),
            REQUEUE => self.pairs.requeue(kind, record.sector),
            _ => {
                let sectors = whole_sectors("length", u64::from(record.bytes))?;
                self.pairs.issue(request(at, kind, (record.sector, sectors), None)?);
            }
        }
        Ok(())
    }
}

fn cut_short(error: io::Error) -> TraceFault {
    match error.kind() {
        ErrorKind::UnexpectedEof => TraceFault::CutShort,
        _ => TraceFault::Host(error),
    }
}
