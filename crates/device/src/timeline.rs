//! Resources as timelines, and the foreground thread that waits for them.
//!
//! Each die, bus, ECC engine and CPU is a [`Timeline`]. An operation reserves the resources that it needs, and ends when the last
//! reservation ends. The [`Host`] is the thread whose elapsed time is accounted. Every step of its clock is booked under one
//! [`Phase`], so that the breakdown adds up by construction.

use crate::spi::Transfer;
use floatgate_mtd::{Breakdown, Done, Geometry, Instant, Nanos, Phase};
use serde::{Deserialize, Serialize};

/// A resource that serves one operation at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    busy_until: Instant,
}

impl Timeline {
    /// Time at which the resource is free again.
    pub const fn busy_until(&self) -> Instant {
        self.busy_until
    }

    /// Reserves `length` from `earliest` or from the time at which the resource is free, whichever is later. Returns start and
    /// end.
    #[inline]
    pub fn reserve(&mut self, earliest: Instant, length: Nanos) -> (Instant, Instant) {
        let start = earliest.max(self.busy_until);
        self.busy_until = start + length;
        (start, self.busy_until)
    }

    /// Marks the resource busy until `end`, at least.
    #[inline]
    pub fn hold_until(&mut self, end: Instant) {
        self.busy_until = self.busy_until.max(end);
    }

    /// Shortens the current reservation (suspend, reset): the resource is free from `at` on.
    #[inline]
    pub fn release_at(&mut self, at: Instant) {
        self.busy_until = self.busy_until.min(at);
    }
}

/// Resource to which a span belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// The host CPU running the driver.
    Cpu,
    /// The controller between CPU and bus.
    Controller,
    /// An ECC engine outside the chip.
    Ecc,
    /// The bus between controller and chips.
    Bus,
    /// The memory array of die (LUN) or bank number `n`.
    Die(u8),
}

/// A reservation of a resource, recorded for traces and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Resource that was reserved.
    pub resource: Resource,
    /// Phase under which the span is booked.
    pub phase: Phase,
    /// Start of the span.
    pub start: Instant,
    /// End of the span.
    pub end: Instant,
    /// Name of the activity: `PAGE READ 13h`, `tR`, `status poll`.
    pub what: &'static str,
}

/// Recorded activities of some work: spans of all resources, and transfers on the bus of a serial chip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Activities of all resources, sorted by start.
    pub spans: Vec<Span>,
    /// Operations on the bus of a serial chip, in order.
    pub transfers: Vec<Transfer>,
}

/// Numbers of ECC events in reads: corrected bits, repeated reads, requests to scrub a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corrections {
    /// Number of bits that the ECC corrected.
    pub bitflips: u64,
    /// Number of read retries: repeated page reads with shifted thresholds after an uncorrectable read.
    pub retries: u64,
    /// Number of calls in which the corrected bits of an ECC step reached the bitflip threshold: Linux returns -EUCLEAN, and UBI
    /// scrubs.
    pub scrub_requests: u64,
}

impl Corrections {
    /// Adds the events of a read call.
    pub fn add(&mut self, done: &Done, geometry: &Geometry) {
        self.bitflips += u64::from(done.bitflips);
        self.retries += u64::from(done.retries);
        self.scrub_requests += u64::from(done.wants_scrub(geometry));
    }
}

impl std::ops::Sub for Corrections {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            bitflips: self.bitflips - earlier.bitflips,
            retries: self.retries - earlier.retries,
            scrub_requests: self.scrub_requests - earlier.scrub_requests,
        }
    }
}

/// A foreground thread: its clock, its time by phase, and, while recording, the spans of all resources.
#[derive(Clone, Debug, Default)]
pub struct Host {
    now: Instant,
    spent: Breakdown,
    corrections: Corrections,
    record: Option<Record>,
}

impl Host {
    /// Current time of the thread's clock.
    #[inline]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Time of the thread by phase since power-on.
    #[inline]
    pub const fn spent(&self) -> Breakdown {
        self.spent
    }

    /// Corrections of all reads of NAND since power-on.
    pub const fn corrections(&self) -> Corrections {
        self.corrections
    }

    /// Adds the events of a read that has ended.
    #[inline]
    pub(crate) fn has_read(&mut self, done: &Done, geometry: &Geometry) {
        self.corrections.add(done, geometry);
    }

    /// Starts or stops the recording of spans; earlier records are dropped.
    pub fn record(&mut self, on: bool) {
        self.record = on.then(Record::default);
    }

    /// True when spans are recorded.
    #[inline]
    pub const fn is_recording(&self) -> bool {
        self.record.is_some()
    }

    /// Removes and returns the records so far.
    pub fn take_record(&mut self) -> Record {
        let mut record = self.record.as_mut().map(std::mem::take).unwrap_or_default();
        record.spans.sort_by_key(|s| (s.start, s.resource, s.end));
        record.transfers.sort_by_key(|transfer| transfer.start);
        record
    }

    /// Removes and returns the spans so far, sorted by start.
    pub fn take_spans(&mut self) -> Vec<Span> {
        self.take_record().spans
    }

    /// Starts an operation that was requested at `now`. If `now` is later than the clock, the clock advances without booking,
    /// because the caller did other work. If `now` is earlier (a second thread calls while the first works), the difference is
    /// booked as waiting.
    #[inline]
    pub fn resume(&mut self, now: Instant) {
        self.spent.add(Phase::Waiting, self.now.since(now));
        self.now = self.now.max(now);
    }

    /// Makes the thread busy for `length` on `resource`, booked under `phase`.
    #[inline]
    pub fn spend(&mut self, resource: Resource, phase: Phase, length: Nanos, what: &'static str) {
        let end = self.now + length;
        self.wait_until(end, resource, phase, what);
    }

    /// Makes the thread wait until `end` for `resource`, booked under `phase`. Nothing happens if `end` has passed.
    #[inline]
    pub fn wait_until(&mut self, end: Instant, resource: Resource, phase: Phase, what: &'static str) {
        if end <= self.now {
            return;
        }
        self.spent.add(phase, end.since(self.now));
        if self.is_recording() {
            self.note(Span { resource, phase, start: self.now, end, what });
        }
        self.now = end;
    }

    /// Books the thread's time until `end` under `phase` without recording a span. The resource that works in this time records
    /// its own span.
    #[inline]
    pub fn pass_until(&mut self, end: Instant, phase: Phase) {
        if end > self.now {
            self.spent.add(phase, end.since(self.now));
            self.now = end;
        }
    }

    /// Records a span of a resource that works independently, without advancing the thread's clock. Costs nothing while not
    /// recording.
    #[inline]
    pub fn note(&mut self, span: Span) {
        if let Some(record) = &mut self.record
            && span.start < span.end
        {
            record.spans.push(span);
        }
    }

    /// Records an operation on the bus. Costs nothing while not recording.
    #[inline]
    pub(crate) fn note_transfer(&mut self, transfer: impl FnOnce() -> Transfer) {
        if let Some(record) = &mut self.record {
            record.transfers.push(transfer());
        }
    }

    /// Creates a second thread that starts now. It records spans if this thread records them.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { now: self.now, record: self.record.as_ref().map(|_| Record::default()), ..Self::default() }
    }

    /// Adds the records of a thread that has ended; its time is not added to this thread's.
    pub fn join(&mut self, mut other: Self) {
        if let (Some(record), Some(theirs)) = (&mut self.record, &mut other.record) {
            record.spans.append(&mut theirs.spans);
            record.transfers.append(&mut theirs.transfers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_serves_one_after_the_other() {
        let mut bus = Timeline::default();
        let first = bus.reserve(Instant::from_ns(10), Nanos::from_ns(5));
        let second = bus.reserve(Instant::from_ns(12), Nanos::from_ns(5));
        assert_eq!(first, (Instant::from_ns(10), Instant::from_ns(15)));
        assert_eq!(second, (Instant::from_ns(15), Instant::from_ns(20)));
    }

    #[test]
    fn the_clock_and_the_books_agree() {
        let mut host = Host::default();
        host.spend(Resource::Cpu, Phase::Cpu, Nanos::from_us(3), "call");
        host.wait_until(Instant::from_ns(10_000), Resource::Die(0), Phase::Array, "tR");
        host.wait_until(Instant::from_ns(9_000), Resource::Die(0), Phase::Array, "tR");
        assert_eq!(host.spent().total(), host.now().since(Instant::ZERO));
        assert_eq!(host.spent()[Phase::Array], Nanos::from_us(7));
    }
}
