//! Operations of a die's array: their effects, and the state after an interruption.

use super::die::Die;
use crate::cells::Outcome;
use crate::power::share_done;
use floatgate_mtd::{Instant, Nanos};

/// Type of an array operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArrayTask {
    /// No operation so far.
    #[default]
    Idle,
    /// Reads a page into the cache.
    Read,
    /// Programs a page from the cache.
    Program,
    /// Erases a block.
    Erase,
    /// Reads an OTP page into the cache.
    OtpRead,
    /// Programs an OTP page from the cache, or locks the OTP pages.
    OtpProgram,
    /// Resets the die, which ends the running operation.
    Reset,
}

impl ArrayTask {
    /// Name of the operation's time in data sheets: tR, tPROG and so on.
    pub const fn time_name(self) -> &'static str {
        match self {
            Self::Idle => "",
            Self::Read | Self::OtpRead => "tRD",
            Self::Program | Self::OtpProgram => "tPROG",
            Self::Erase => "tBERS",
            Self::Reset => "tRST",
        }
    }
}

/// Last or running operation of a die's array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayWork {
    /// Type of the operation.
    pub task: ArrayTask,
    /// Row of the page in its die, or of the first page of the block; for OTP tasks the number of the
    /// OTP page.
    pub row: u32,
    /// Start of the operation.
    pub start: Instant,
    /// End of the operation, unless it is interrupted.
    pub end: Instant,
}

/// A running erase. The array keeps its data until the end, because power may be lost before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Erasing {
    pub(super) block: u32,
    /// True if the erase fails because of an injected fault.
    pub(super) broken: bool,
}

impl Die {
    #[inline]
    pub(super) const fn work(&self) -> &ArrayWork {
        &self.work
    }

    /// Starts an operation of the array.
    #[inline]
    pub(super) fn begin(&mut self, task: ArrayTask, row: u32, start: Instant, length: Nanos) {
        self.work = ArrayWork { task, row, start, end: start + length };
    }

    /// Extends the running operation to at least `until`.
    pub(super) fn stay_busy(&mut self, until: Instant) {
        self.work.end = self.work.end.max(until);
    }

    /// Interrupts the running operation; the die is ready `length` after `at`.
    pub(super) fn abort(&mut self, at: Instant, length: Nanos) {
        self.interrupt(at);
        self.begin(ArrayTask::Reset, 0, at, length);
    }

    /// Leaves the cells in the state that the operation had reached when it was interrupted at `at`.
    fn interrupt(&mut self, at: Instant) {
        let work = self.work;
        // A new controller starts its clock at 0, so an operation that started after `at` ended long
        // ago.
        if work.end <= at || at < work.start {
            self.finish_erase();
            return;
        }
        let done = share_done(work.start, work.end, at);
        match work.task {
            // Before the first pulse the page is unchanged.
            ArrayTask::Program if done <= 0.0 && self.array.programs(work.row as usize) == 1 => {
                self.undo_program(work.row);
            }
            ArrayTask::Program => self.cells.cut_program(work.row, done, at),
            ArrayTask::Erase => self.cut_erase(done),
            _ => {}
        }
    }

    /// Interrupts an erase. Below a certain share of the erase the old data is still readable, with
    /// more and more bits erased.
    fn cut_erase(&mut self, done: f32) {
        let Some(Erasing { block, .. }) = self.erasing.take() else { return };
        if self.cells.cut_erase(block, done) {
            self.erase(block);
        }
    }

    /// Records an erase that is about to start, and returns its outcome in the cells.
    pub(super) fn prepare_erase(&mut self, erasing: Erasing) -> Outcome {
        self.erasing = Some(erasing);
        self.cells.erase_outcome(erasing.block)
    }

    /// Applies an erase whose time is over.
    #[inline]
    pub(super) fn catch_up(&mut self, now: Instant) {
        if self.erasing.is_some() && self.work.end <= now {
            self.finish_erase();
        }
    }

    #[cold]
    fn finish_erase(&mut self) {
        let Some(Erasing { block, broken }) = self.erasing.take() else { return };
        // An erase that fails because of an injected fault leaves the cells unchanged.
        if broken || self.cells.erase(block).failed {
            self.erase_undone(block);
        } else {
            self.erase(block);
        }
    }
}
