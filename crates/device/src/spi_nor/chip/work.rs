//! The chip's internal work: programs, erases, register writes; suspending, resuming and cutting them short.

use super::SpiNor;
use crate::nor::cut::{Undo, mix};
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

/// Kind of the operation in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Register writes, resets, the pause of a suspend.
    #[default]
    Other,
    Program,
    Erase,
}

/// Work of the array. It is over when `end` has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) kind: Kind,
    /// Bytes of the array that it changes.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) bank: u8,
    pub(super) since: Instant,
    pub(super) end: Instant,
    /// Time that all of it takes.
    pub(super) length: Nanos,
    pub(super) what: &'static str,
}

/// Work that waits for RESUME.
#[derive(Clone, Debug)]
pub(super) struct Suspended {
    pub(super) work: Work,
    left: Nanos,
    undo: Undo,
}

impl Work {
    /// A register write, reset or pause of `length`.
    pub(super) fn other(since: Instant, length: Nanos, what: &'static str) -> Self {
        Self { kind: Kind::Other, since, end: since + length, what, ..Self::default() }
    }

    pub(super) const fn overlaps(&self, addr: u64, len: u64) -> bool {
        addr < self.to && self.from < addr + len
    }
}

impl SpiNor {
    /// 75h, B0h: what is under way stops; after a pause the rest of the array can be read.
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

    /// 7Ah, 30h: goes on with what was suspended.
    pub(super) fn resume(&mut self, end: Instant) -> Result<(), Violation> {
        let Some(suspended) = self.suspended.take() else {
            return Err(Violation::Sequence("nothing is suspended"));
        };
        self.undo = suspended.undo;
        self.work = Work { since: end, end: end + suspended.left, ..suspended.work };
        Ok(())
    }

    /// Reset by command or pin: volatile state is as after power-on. A program or erase that was under way is left half done.
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

    /// Leaves a program or an erase half done, of which so much time is left.
    fn cut_off(&mut self, work: Work, left: Nanos, undo: Undo) {
        undo.cut_off(&mut self.array, left, work.length, mix(self.seed ^ work.end.as_ns()));
    }
}
