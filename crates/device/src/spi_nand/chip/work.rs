//! Work of a die's array: when it takes effect, and what is left when it does not come to its end.

use super::die::Die;
use crate::cells::Outcome;
use crate::power::share_done;
use floatgate_mtd::{Instant, Nanos};

/// Operation of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArrayTask {
    /// Nothing yet.
    #[default]
    Idle,
    /// A page comes to the cache.
    Read,
    /// The cache goes to a page.
    Program,
    /// A block is erased.
    Erase,
    /// An OTP page comes to the cache.
    OtpRead,
    /// The cache goes to an OTP page, or the pages are locked.
    OtpProgram,
    /// Whatever went on ends.
    Reset,
}

impl ArrayTask {
    /// Name of the operation's time in data sheets.
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
    /// Kind of operation.
    pub task: ArrayTask,
    /// The page in its die, or the first page of the block; for OTP tasks the OTP page.
    pub row: u32,
    /// Time at which it began.
    pub start: Instant,
    /// Time at which it ends, if nothing interrupts it.
    pub end: Instant,
}

/// An erase under way: the array keeps its data until the end, as power may go before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Erasing {
    pub(super) block: u32,
    /// It was made to fail.
    pub(super) broken: bool,
}

impl Die {
    #[inline]
    pub(super) const fn work(&self) -> &ArrayWork {
        &self.work
    }

    /// The array begins with something.
    #[inline]
    pub(super) fn begin(&mut self, task: ArrayTask, row: u32, start: Instant, length: Nanos) {
        self.work = ArrayWork { task, row, start, end: start + length };
    }

    /// Whatever the array does lasts until `until` at least.
    pub(super) fn stay_busy(&mut self, until: Instant) {
        self.work.end = self.work.end.max(until);
    }

    /// Whatever the array does ends as it is; the die is ready `length` after `at`.
    pub(super) fn abort(&mut self, at: Instant, length: Nanos) {
        self.interrupt(at);
        self.begin(ArrayTask::Reset, 0, at, length);
    }

    /// Leaves the cells in the state that the task had reached at `at`, when it was interrupted.
    fn interrupt(&mut self, at: Instant) {
        let work = self.work;
        // Behind a new controller the clock begins anew: what began later than `at` was over long ago.
        if work.end <= at || at < work.start {
            self.finish_erase();
            return;
        }
        let done = share_done(work.start, work.end, at);
        match work.task {
            // Before the first pulse nothing has happened to the page.
            ArrayTask::Program if done <= 0.0 && self.array.programs(work.row as usize) == 1 => {
                self.undo_program(work.row);
            }
            ArrayTask::Program => self.cells.cut_program(work.row, done, at),
            ArrayTask::Erase => self.cut_erase(done),
            _ => {}
        }
    }

    /// Below some share old data shows through, with more and more bits erased.
    fn cut_erase(&mut self, done: f32) {
        let Some(Erasing { block, .. }) = self.erasing.take() else { return };
        if self.cells.cut_erase(block, done) {
            self.erase(block);
        }
    }

    /// An erase is about to begin: what the cells will make of it.
    pub(super) fn prepare_erase(&mut self, erasing: Erasing) -> Outcome {
        self.erasing = Some(erasing);
        self.cells.erase_outcome(erasing.block)
    }

    /// An erase whose time is over takes effect.
    #[inline]
    pub(super) fn catch_up(&mut self, now: Instant) {
        if self.erasing.is_some() && self.work.end <= now {
            self.finish_erase();
        }
    }

    #[cold]
    fn finish_erase(&mut self) {
        let Some(Erasing { block, broken }) = self.erasing.take() else { return };
        // What was broken on purpose leaves the cells as they are.
        if broken || self.cells.erase(block).failed {
            self.erase_undone(block);
        } else {
            self.erase(block);
        }
    }
}
