//! A device that records its calls.

use crate::device::Mtd;
use crate::error::ErrorKind;
use crate::observe::{Call, Good, Observed, Observer};
use crate::operation::Operation;
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::format;
use core::fmt;

/// A device that records its last calls in a [`Log`].
pub type Trace<D> = Observed<D, Log>;

impl<D: Mtd> Observed<D, Log> {
    /// `inner`, its last `capacity` calls recorded.
    pub fn new(inner: D, capacity: usize) -> Self {
        Self::watch(inner, Log::new(capacity))
    }

    /// The recorded calls, oldest first.
    pub const fn log(&self) -> &Log {
        self.observer()
    }

    /// Forgets what was recorded.
    pub fn clear(&mut self) {
        self.observer_mut().clear();
    }
}

/// One recorded call. Displayed as one line: when, what, where, how much, how long, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Kind of operation.
    pub operation: Operation,
    /// Byte address, or the region's number for [`Operation::OtpInfo`].
    pub addr: u64,
    /// Bytes asked for, OOB included; 0 where the operation has no length.
    pub len: u64,
    /// Time at which the call began.
    pub start: Instant,
    /// Time at which the operation ended, or at which its failure was known.
    pub end: Instant,
    /// Result of the call.
    pub outcome: Outcome,
}

/// Result of a recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success, with the number of corrected bits.
    Good(Good),
    /// It failed.
    Failed(ErrorKind),
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.start.as_ns() / 1000;
        // Durations do not pad themselves.
        let took = format!("{}", self.end.since(self.start));
        write!(f, "{micros:>12} us  {:<9} {:#010x} +{:<8} {took:>8}  ", self.operation, self.addr, self.len)?;
        match (&self.outcome, self.operation) {
            (Outcome::Failed(kind), _) => write!(f, "FAILED: {kind}"),
            (Outcome::Good(good), Operation::IsBad) => f.write_str(if good.yes { "bad" } else { "good" }),
            (Outcome::Good(good), Operation::OtpInfo) => {
                f.write_str(if good.yes { "locked" } else { "not locked" })
            }
            (Outcome::Good(good), _) if good.bitflips > 0 => {
                write!(
                    f,
                    "ok, bitflips corrected: {}, at most {} in a step",
                    good.bitflips, good.bitflips_max
                )
            }
            (Outcome::Good(_), _) => f.write_str("ok"),
        }
    }
}

/// The last calls, oldest first, in a ring of fixed size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    entries: VecDeque<Entry>,
    capacity: usize,
    dropped: u64,
}

impl Log {
    /// An empty log that keeps `capacity` calls.
    pub fn new(capacity: usize) -> Self {
        Self { entries: VecDeque::with_capacity(capacity), capacity, dropped: 0 }
    }

    /// The calls kept, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Number of older calls that the ring had no room for.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Forgets everything, the count of dropped calls too.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.dropped = 0;
    }
}

impl Observer for Log {
    fn note(&mut self, call: &Call<'_>) {
        if self.entries.len() == self.capacity {
            self.dropped += 1;
            if self.entries.pop_front().is_none() {
                return;
            }
        }
        let outcome = match call.result {
            Ok(good) => Outcome::Good(good),
            Err(kind) => Outcome::Failed(kind.clone()),
        };
        let Call { operation, addr, len, start, end, .. } = *call;
        self.entries.push_back(Entry { operation, addr, len, start, end, outcome });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{OobMode, OtpArea};
    use crate::double::{Double, at};
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn operations<D: Mtd>(trace: &Trace<D>) -> Vec<Operation> {
        trace.log().entries().map(|e| e.operation).collect()
    }

    #[test]
    fn every_call_is_recorded_with_its_outcome() {
        let mut trace = Trace::new(Double::new(), 99);
        let (mut page, mut oob) = ([0; 64], [0; 4]);
        trace.write(at(0), 0, &page).unwrap();
        trace.write(at(300), 0, &page).unwrap_err();
        trace.read(at(600), 0, &mut page).unwrap();
        trace.erase(at(1000), 0, 256).unwrap();
        trace.write_oob(at(4000), 0, &page, &oob, OobMode::Place).unwrap();
        trace.read_oob(at(5000), 0, &mut page, &mut oob, OobMode::Place).unwrap();
        trace.mark_bad(at(6000), 256).unwrap();
        trace.is_bad(at(6000), 256).unwrap();
        trace.otp_write(at(7000), 0, &[1]).unwrap();
        trace.otp_read(at(8000), OtpArea::User, 0, &mut oob).unwrap();
        trace.otp_erase(at(8100), 0, 16).unwrap();
        trace.otp_lock(at(11_000), 0, 16).unwrap();
        trace.otp_info(at(11_000), OtpArea::User, 0).unwrap();
        let mut kinds = operations(&trace);
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds, Operation::ALL);
        let failed = trace.log().entries().nth(1).unwrap();
        assert_eq!(failed.outcome, Outcome::Failed(ErrorKind::NotErased));
        assert_eq!((failed.start, failed.end), (at(300), at(500)));
    }

    #[test]
    fn the_ring_keeps_the_last_and_counts_the_rest() {
        for (capacity, kept, dropped) in [(0, 0, 5), (2, 2, 3), (9, 5, 0)] {
            let mut trace = Trace::new(Double::new(), capacity);
            for block in 0..5 {
                trace.is_bad(at(block), block * 256).unwrap();
            }
            assert_eq!((trace.log().entries().len(), trace.log().dropped()), (kept, dropped));
            assert!(trace.log().entries().last().is_none_or(|e| e.addr == 4 * 256));
            trace.clear();
            assert_eq!((trace.log().entries().len(), trace.log().dropped()), (0, 0));
        }
    }

    #[test]
    fn two_threads_are_two_calls() {
        let mut trace = Trace::new(Double::new(), 9);
        let mut out = [0; 64];
        trace.read_while_write(at(0), (0, &[1; 64]), (256, &mut out)).unwrap();
        trace.read_while_write(at(500), (0, &[1; 64]), (256, &mut out)).unwrap_err();
        assert_eq!(operations(&trace), [Operation::Write, Operation::Read, Operation::Write]);
    }

    #[test]
    fn an_entry_is_a_line_for_people() {
        let mut trace = Trace::new(Double::new(), 9);
        let mut page = [0; 64];
        trace.write(at(0), 64, &page).unwrap();
        trace.write(at(300), 64, &page).unwrap_err();
        trace.inner_mut().bitflips = 2;
        trace.read(at(600), 64, &mut page).unwrap();
        trace.is_bad(at(700), 0).unwrap();
        let lines: Vec<_> = trace.log().entries().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "           0 us  write     0x00000040 +64         200 us  ok",
                "         300 us  write     0x00000040 +64         200 us  FAILED: the target is not erased",
                "         600 us  read      0x00000040 +64        65.0 us  ok, bitflips corrected: 2, at most 2 in a step",
                "         700 us  is-bad    0x00000000 +0            0 ns  good",
            ]
        );
    }
}
