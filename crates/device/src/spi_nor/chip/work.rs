//! What the chip does by itself: programs, erases, register writes; suspending, resuming and cutting them short.

use super::SpiNor;
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
    pub(super) what: &'static str,
}

/// Work that waits for RESUME.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspended {
    pub(super) work: Work,
    left: Nanos,
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
        self.suspended = Some(Suspended { work: self.work, left: self.work.end.since(end) });
        let bank = self.work.bank;
        self.work = Work { bank, ..Work::other(end, spec.latency_us, "tSUS") };
        Ok(())
    }

    /// 7Ah, 30h: goes on with what was suspended.
    pub(super) fn resume(&mut self, end: Instant) -> Result<(), Violation> {
        let Some(suspended) = self.suspended.take() else {
            return Err(Violation::Sequence("nothing is suspended"));
        };
        self.work = Work { since: end, end: end + suspended.left, ..suspended.work };
        Ok(())
    }

    /// Reset by command or pin: volatile state is as after power-on. A program or erase that was under way leaves bits
    /// in doubt.
    pub(super) fn reset(&mut self, at: Instant) {
        if at < self.work.end {
            self.spoil(self.work);
        }
        if let Some(suspended) = self.suspended.take() {
            self.spoil(suspended.work);
        }
        self.regs.power_on(&self.spec);
        self.otp.entered = false;
        self.work = Work::other(at, self.spec.timing.t_rst_us, "tRST");
    }

    /// An interrupted program or erase: in each page that it covered, one bit in some byte reads wrong. A whole-chip
    /// erase spoils the first block only, which is enough to be found out.
    fn spoil(&mut self, work: Work) {
        if work.kind == Kind::Other || !self.array.stores() {
            return;
        }
        let page = self.array.page_bytes() as u64;
        let to = work.to.min(work.from + 256 * page);
        for row in work.from / page..to.div_ceil(page) {
            let bit = mix(self.seed ^ row) % (page * 8);
            self.array.inject(row as usize, bit as u32);
        }
    }
}

/// A hash of 64 bits (the finaliser of SplitMix64, public domain), for chance that repeats.
pub(super) const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
