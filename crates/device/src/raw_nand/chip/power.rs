//! Loss of power: what was under way is cut short, what was finished stays, registers and features are lost.
//!
//! The chip carries a program or an erase out when its command comes, and is busy afterwards. So that power can still go
//! meanwhile, it keeps what it may have to take back, until the next command comes after the end.

use super::lun::{Before, Cut, Lun, Operation};
use super::{Output, RawNand, Step};
use crate::power::share_done;
use crate::raw_nand::timing::DataInterface;
use floatgate_mtd::Instant;

impl RawNand {
    /// State that a loss of power during an erase of the block may have to bring back.
    pub(super) fn before_erase(&self, block: u32) -> Cut {
        let before = Before {
            content: self.array.content(block as usize),
            cells: self.cells.block_state(block),
            next_page: self.next_page.get(block as usize).copied(),
        };
        Cut::Erase { block, before: Box::new(before) }
    }

    /// The active LUN works on these; what was finished at `at` is past.
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

    /// Power goes away at `at`, no earlier than the last command came, and comes back: operations under way are cut short, those
    /// that waited for them never began. The chip needs a RESET before anything else; registers, features and data interface
    /// are those of power-on.
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
            // Before the first pulse nothing has happened to the page.
            Cut::Program { row } if begun && done > 0.0 => self.cells.cut_program(row, done, operation.start),
            Cut::Program { row } => self.undo_program(row),
            Cut::Erase { block, before } => self.cut_erase(block, *before, begun.then_some(done)),
        }
    }

    /// A program that waited for another one, or whose first pulse did not come.
    fn undo_program(&mut self, row: u32) {
        if self.array.programs(row as usize) > 1 {
            // The page held something already, which the array has mixed with the new bytes.
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

    /// When the program or erase that the active LUN began last starts and ends.
    pub(super) fn last_operation_time(&self) -> Option<(Instant, Instant)> {
        self.lun().operations.last().map(|operation| (operation.start, operation.end))
    }
}
