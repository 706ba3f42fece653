//! Program and erase commands.

use super::RawNand;
use super::command::{Step, Wants};
use super::lun::Cut;
use super::lun::{Queue, Register};
use crate::cells::Outcome;
use crate::raw_nand::address::RowAddress;
use crate::raw_nand::command as c;
use crate::raw_nand::spec::PLANES_MAX;
use crate::raw_nand::timing::BusTiming;
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

impl RawNand {
    /// Handles 80h and its address: clears the register of the row's plane for new data.
    #[inline]
    pub(super) fn begin_load(&mut self, row: RowAddress, column: usize) -> Result<(), Violation> {
        self.check_program(row)?;
        self.check_planes(row, Queue::Programs)?;
        let (target, plane) = (self.target(row)?, usize::from(self.plane_of(row)));
        let lun = self.lun_mut();
        lun.empty_registers();
        lun.plane = plane as u8;
        lun.loads[plane].begin(target, column);
        Ok(())
    }

    /// Handles 85h after 35h: the register retains the page that was read, including bit errors.
    pub(super) fn begin_copyback(&mut self, row: RowAddress, column: usize) -> Result<(), Violation> {
        let Some(source) = self.lun().copyback else {
            return Err(Violation::Sequence("85h without a copyback read (35h)"));
        };
        let plane = u32::from(self.plane_of(row));
        if source / self.spec.geometry.pages_per_block % self.spec.geometry.planes != plane {
            return Err(Violation::Sequence("copyback from one plane to another"));
        }
        self.begin_load(row, column)?;
        let array = &self.array;
        let lun = &mut self.luns[self.active];
        let wrong = &lun.wrong[plane as usize];
        lun.loads[plane as usize].fill(|page| array.read_with(source as usize, 0, page, wrong));
        Ok(())
    }

    /// Checks the rules for a program of `row`.
    #[inline]
    fn check_program(&self, row: RowAddress) -> Result<(), Violation> {
        if self.otp.visible() {
            return self.otp.check_program(self.map.index(row));
        }
        if self.all_locked() {
            return Err(Violation::Protected);
        }
        let next = self.next_page.get(self.map.block_index(row) as usize).copied().unwrap_or(0);
        // Whether the same page may be programmed again depends on the loaded bytes; an earlier page is out of order.
        if row.page + 1 < u32::from(next) { Err(Violation::OutOfOrder) } else { Ok(()) }
    }

    pub(super) fn set_load_column(&mut self, column: usize) {
        let lun = self.lun_mut();
        let plane = usize::from(lun.plane);
        lun.loads[plane].column = column;
    }

    #[inline]
    pub(super) fn load(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let lun = self.lun_mut();
        let plane = usize::from(lun.plane);
        if lun.loads[plane].put(bytes) { Ok(()) } else { Err(Violation::BadAddress) }
    }

    #[inline]
    pub(super) fn confirm_program(
        &mut self,
        at: Instant,
        timing: &BusTiming,
        opcode: u8,
    ) -> Result<(), Violation> {
        if matches!(opcode, c::PROGRAM_CONFIRM | c::PROGRAM_CACHE | c::PROGRAM_QUEUE) {
            self.check_loads()?;
        }
        match opcode {
            c::PROGRAM_CONFIRM => self.program(at, timing, false),
            c::PROGRAM_CACHE if self.spec.program_cache && !self.otp.visible() => {
                self.program(at, timing, true)
            }
            c::PROGRAM_QUEUE if self.spec.multi_plane && !self.otp.visible() => {
                self.queue_program(at, timing)
            }
            c::CHANGE_WRITE_COLUMN if !self.spec.geometry.small_page() => {
                self.step = Step::Wants(Wants::ColumnIn);
                return Ok(());
            }
            _ => return Err(self.out_of_place(opcode, "a program was begun: expected is 10h, which ends it")),
        }
        self.step = Step::Idle;
        Ok(())
    }

    /// Checks that the loaded bytes may be programmed into their pages.
    #[inline]
    fn check_loads(&self) -> Result<(), Violation> {
        self.lun().loads.iter().try_for_each(|load| match load.target {
            Register::Page(row) => self.array.check_program(row as usize, load.loaded()),
            Register::Otp(page) => self.otp.check_load(page, load.loaded()),
            Register::Empty => Ok(()),
        })
    }

    /// Handles 11h: queues this plane's page, to be programmed together with the next plane's.
    fn queue_program(&mut self, at: Instant, timing: &BusTiming) {
        let lun = self.lun_mut();
        let plane = usize::from(lun.plane);
        if let Register::Page(row) = lun.loads[plane].target {
            lun.queued[plane] = Some(row);
        }
        lun.queue = Queue::Programs;
        self.busy(at + timing.wb, self.spec.timing.t_dbsy_us, "tDBSY");
    }

    /// Handles 10h or 15h: programs the loaded registers, after the remaining work of a previous cached program.
    #[inline]
    fn program(&mut self, at: Instant, timing: &BusTiming, cached: bool) {
        let begin = (at + timing.wb).max(self.lun().array_ready);
        let mut all = Outcome { time: Nanos::ZERO, failed: false };
        let mut rows = [None; PLANES_MAX as usize];
        for (plane, row) in rows.iter_mut().enumerate().take(self.lun().loads.len()) {
            *row = self.row_to_program(plane);
            let one = self.program_plane(plane, begin);
            all = Outcome { time: all.time.max(one.time), failed: all.failed || one.failed };
        }
        let lun = self.lun_mut();
        lun.queue = Queue::None;
        lun.queued = [None; PLANES_MAX as usize];
        lun.fail_before = lun.fail && lun.chained;
        lun.fail = all.failed;
        (lun.chained, lun.rewrite) = (cached, false);
        self.program_time(begin, all.time, cached);
        let end = self.lun().array_ready;
        let cuts = rows.into_iter().flatten().map(|row| Cut::Program { row });
        self.begin_operations(at, (begin, end), cuts);
    }

    /// Row that the program of a plane will change.
    #[inline]
    fn row_to_program(&self, plane: usize) -> Option<u32> {
        match self.lun().loads[plane].target {
            Register::Page(row) => {
                let block = row / self.spec.geometry.pages_per_block;
                (!self.faults.of_block(block).program).then_some(row)
            }
            Register::Empty | Register::Otp(_) => None,
        }
    }

    /// Programs the bytes loaded for one plane.
    #[inline]
    fn program_plane(&mut self, plane: usize, begin: Instant) -> Outcome {
        let load = &mut self.luns[self.active].loads[plane];
        let target = std::mem::take(&mut load.target);
        let loaded = load.loaded();
        match target {
            Register::Empty => Outcome { time: Nanos::ZERO, failed: false },
            Register::Otp(page) => {
                let failed = self.otp.program(page, loaded);
                Outcome { time: self.program_times.row_time(None, 0), failed }
            }
            Register::Page(row) => {
                let block = row / self.spec.geometry.pages_per_block;
                let broken = self.faults.of_block(block).program;
                if !broken {
                    self.array.program(row as usize, loaded.column, loaded.bytes);
                    self.array.mark_programmed(row as usize, loaded.sub_pages);
                }
                if let Some(next) = self.next_page.get_mut(block as usize) {
                    *next = (row % self.spec.geometry.pages_per_block) as u16 + 1;
                }
                self.program_cells(row, begin, broken)
            }
        }
    }

    /// Sets the busy times of a program. With 15h the LUN accepts the next page as soon as its register is free.
    #[inline]
    fn program_time(&mut self, begin: Instant, t_prog: Nanos, cached: bool) {
        let t_cbsy = self.spec.timing.t_cbsy_us;
        let lun = self.lun_mut();
        let length = if cached { t_cbsy + t_prog } else { t_prog };
        lun.array_ready = begin + length;
        lun.ready = if cached { begin + t_cbsy } else { lun.array_ready };
        self.note_work("tPROG", begin, begin + length);
    }

    /// Checks the rules for an erase of `row`'s block.
    pub(super) fn check_erase(&self, row: RowAddress) -> Result<(), Violation> {
        if self.otp.visible() {
            return Err(Violation::Sequence("erase while OTP pages are visible"));
        }
        if self.all_locked() {
            return Err(Violation::Protected);
        }
        self.check_planes(row, Queue::Erases)
    }

    pub(super) fn confirm_erase(
        &mut self,
        at: Instant,
        timing: &BusTiming,
        opcode: u8,
        row: RowAddress,
    ) -> Result<(), Violation> {
        match opcode {
            c::ERASE_CONFIRM => {
                self.queue_row(row, Queue::Erases)?;
                self.erase(at, timing);
                self.step = Step::Idle;
            }
            // The queue command is D1h (ONFI), or none (the makers' older sequence).
            c::ERASE_QUEUE | c::ERASE if self.spec.multi_plane => {
                self.queue_row(row, Queue::Erases)?;
                let busy = if opcode == c::ERASE_QUEUE { self.spec.timing.t_dbsy_us } else { Nanos::ZERO };
                self.step = if opcode == c::ERASE_QUEUE { Step::Idle } else { Step::Wants(Wants::Erase) };
                self.busy(at + if opcode == c::ERASE_QUEUE { timing.wb } else { Nanos::ZERO }, busy, "tDBSY");
            }
            _ => return Err(self.out_of_place(opcode, "an erase was begun: expected is D0h, which ends it")),
        }
        Ok(())
    }

    /// Handles D0h: erases the queued blocks together.
    fn erase(&mut self, at: Instant, timing: &BusTiming) {
        let queued = self.lun().queued;
        let per_block = self.spec.geometry.pages_per_block;
        let mut all = Outcome { time: Nanos::ZERO, failed: false };
        let mut cuts = [const { None }; PLANES_MAX as usize];
        let blocks = queued.into_iter().flatten().map(|row| row / per_block);
        for (block, cut) in blocks.zip(&mut cuts) {
            *cut = (!self.faults.of_block(block).erase).then(|| self.before_erase(block));
            let one = self.erase_cells(block);
            all = Outcome { time: all.time.max(one.time), failed: all.failed || one.failed };
            if one.failed {
                self.array.fail_erase(block as usize);
            } else {
                self.array.erase(block as usize);
            }
            if let Some(next) = self.next_page.get_mut(block as usize) {
                *next = 0;
            }
        }
        let lun = self.lun_mut();
        lun.drop_queue();
        lun.empty_registers();
        (lun.fail, lun.fail_before, lun.chained, lun.rewrite) = (all.failed, false, false, false);
        let start = at + timing.wb;
        self.busy(start, all.time, "tBERS");
        self.begin_operations(at, (start, start + all.time), cuts.into_iter().flatten());
    }
}
