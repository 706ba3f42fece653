//! Power loss: running operations are interrupted, finished ones persist, registers and features are lost.
//!
//! The chip executes a program or an erase when its command arrives, and is busy afterwards. Because power can be lost in that
//! time, it stores the state that it may have to restore, until the first command after the end of the operation.

use super::lun::{Before, Cut, Lun, Operation};
use super::{Output, RawNand, Step};
use crate::power::share_done;
use crate::raw_nand::timing::DataInterface;
use floatgate_mtd::Instant;

impl RawNand {
    /// State of the block that a power loss during its erase may have to restore.
    pub(super) fn before_erase(&self, block: u32) -> Cut {
        let before = Before {
            content: self.array.content(block as usize),
            cells: self.cells.block_state(block),
            next_page: self.next_page.get(block as usize).copied(),
        };
        Cut::Erase { block, before: Box::new(before) }
    }

    /// Records operations of the active LUN; operations finished at `at` are dropped.
    #[inline]
    pub(super) fn begin_operations(
        &mut self,
        at: Instant,
        (start, end): (Instant, Instant),
        what: impl Iterator<Item = Cut>,
    ) {
        let operations = &mut self.luns[self.active].operations;
        operations.retain(|operation| operation.end > at);
        operations.extend(what.map(|what| Operation { start, end, what }));
    }

    /// Applies a power cut at `at`, which must not be before the last command; power is back afterwards. Running operations are
    /// interrupted, and queued ones are not started. The chip then requires a RESET; registers, features and data interface have
    /// their power-on state.
    pub fn power_cut(&mut self, at: Instant) {
        for lun in 0..self.luns.len() {
            let operations = std::mem::take(&mut self.luns[lun].operations);
            for operation in operations.into_iter().rev().filter(|operation| at < operation.end) {
                self.cut(operation, at);
            }
        }
        self.leave_otp();
        self.luns = (0..self.luns.len()).map(|_| Lun::new(&self.spec, self.array.stores())).collect();
        (self.active, self.pointer, self.awake) = (0, 0, false);
        (self.step, self.output, self.resume) = (Step::Idle, Output::Register, Output::Register);
        self.interface = DataInterface::POWER_ON;
        self.hold_data(Instant::ZERO, "");
        self.work = [None; 2];
    }

    fn cut(&mut self, operation: Operation, at: Instant) {
        let (begun, done) = (operation.start <= at, share_done(operation.start, operation.end, at));
        match operation.what {
            // Before the first pulse the page is unchanged.
            Cut::Program { row } if begun && done > 0.0 => self.cells.cut_program(row, done, operation.start),
            Cut::Program { row } => self.undo_program(row),
            Cut::Erase { block, before } => self.cut_erase(block, *before, begun.then_some(done)),
        }
    }

    /// Reverts a program that waited for another one, or that had not received its first pulse.
    fn undo_program(&mut self, row: u32) {
        if self.array.programs(row as usize) > 1 {
            // The page was already programmed, and the array contains a mix of old and new bytes.
            return self.cells.cut_program(row, 0.0, Instant::ZERO);
        }
        self.array.undo_program(row as usize);
        self.cells.undo_program(row);
        let per_block = self.spec.geometry.pages_per_block;
        if let Some(next) = self.next_page.get_mut((row / per_block) as usize) {
            *next = (row % per_block) as u16;
        }
    }

    fn cut_erase(&mut self, block: u32, before: Before, done: Option<f32>) {
        self.cells.restore(block, before.cells);
        if done.is_some_and(|done| self.cells.cut_erase(block, done)) {
            return;
        }
        self.array.restore(block as usize, before.content);
        if let (Some(next), Some(before)) = (self.next_page.get_mut(block as usize), before.next_page) {
            *next = before;
        }
    }

    /// Start and end of the program or erase that the active LUN started last.
    pub(super) fn last_operation_time(&self) -> Option<(Instant, Instant)> {
        self.lun().operations.last().map(|operation| (operation.start, operation.end))
    }
}
