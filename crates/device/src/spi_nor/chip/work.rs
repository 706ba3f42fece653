//! Internal operations of the chip (programs, erases, register writes) with suspend, resume and interruption.

use super::SpiNor;
use crate::nor::cut::{Undo, mix};
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

/// Type of the running operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Register write, reset, or the pause of a suspend.
    #[default]
    Other,
    Program,
    Erase,
}

/// A running operation. It is finished when `end` has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) kind: Kind,
    /// Offset of the first byte that the operation changes in the array.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bank: u8,
    pub(super) since: Instant,
    pub(super) end: Instant,
    /// Duration of the whole operation.
    pub(super) length: Nanos,
    pub(super) what: &'static str,
}

/// An operation that waits for RESUME.
#[derive(Clone, Debug)]
pub(super) struct Suspended {
    pub(super) work: Work,
    left: Nanos,
    undo: Undo,
}

impl Work {
    /// An operation of duration `length` other than program and erase: register write, reset or pause.
    pub(super) fn other(since: Instant, length: Nanos, what: &'static str) -> Self {
        Self { kind: Kind::Other, since, end: since + length, what, ..Self::default() }
    }

    pub(super) const fn overlaps(&self, addr: u64, len: u64) -> bool {
        addr < self.to && self.from < addr + len
    }
}

impl SpiNor {
    /// Executes 75h or B0h: suspends the running operation; after a pause the other part of the array can be read.
    pub(super) fn suspend(&mut self, start: Instant, end: Instant) -> Result<(), Violation> {
        let Some(spec) = self.spec.suspend else { return Err(Violation::Sequence("nothing to suspend")) };
        if start >= self.work.end || self.work.kind == Kind::Other {
            return Err(Violation::Sequence("nothing to suspend"));
        }
        if self.suspended.is_some() {
            return Err(Violation::Sequence("something is suspended already"));
        }
        let undo = std::mem::take(&mut self.undo);
        self.suspended = Some(Suspended { work: self.work, left: self.work.end.since(end), undo });
        let bank = self.work.bank;
        self.work = Work { bank, ..Work::other(end, spec.latency_us, "tSUS") };
        Ok(())
    }

    /// Executes 7Ah or 30h: resumes the suspended operation.
    pub(super) fn resume(&mut self, end: Instant) -> Result<(), Violation> {
        let Some(suspended) = self.suspended.take() else {
            return Err(Violation::Sequence("nothing is suspended"));
        };
        self.undo = suspended.undo;
        self.work = Work { since: end, end: end + suspended.left, ..suspended.work };
        Ok(())
    }

    /// Resets the chip, by command or pin: volatile state gets its power-on values. A running program or erase is left half
    /// finished.
    pub(super) fn reset(&mut self, at: Instant) {
        if at < self.work.end {
            let undo = std::mem::take(&mut self.undo);
            self.cut_off(self.work, self.work.end.since(at), undo);
        }
        if let Some(Suspended { work, left, undo }) = self.suspended.take() {
            self.cut_off(work, left, undo);
        }
        self.regs.power_on(&self.spec);
        self.otp.entered = false;
        self.work = Work::other(at, self.spec.timing.t_rst_us, "tRST");
    }

    /// Leaves a program or an erase half finished, of which the time `left` remains.
    fn cut_off(&mut self, work: Work, left: Nanos, undo: Undo) {
        undo.cut_off(&mut self.array, left, work.length, mix(self.seed ^ work.end.as_ns()));
    }
}
