//! Reads: array to register, register to bus.

use super::command::Step;
use super::lun::{Queue, Register};
use super::{Output, RawNand};
use crate::raw_nand::address::RowAddress;
use crate::raw_nand::command as c;
use crate::raw_nand::timing::{BusTiming, DataInterface};
use crate::violation::Violation;
use floatgate_mtd::Instant;

impl RawNand {
    #[inline]
    pub(super) fn confirm_read(
        &mut self,
        at: Instant,
        timing: &BusTiming,
        opcode: u8,
        row: RowAddress,
        column: usize,
    ) -> Result<(), Violation> {
        if self.lun().caching && opcode != c::READ_CACHE {
            return Err(Violation::Sequence("a cached read was not ended with 3Fh"));
        }
        match opcode {
            c::READ_CONFIRM => self.read_page(at, timing, row, column),
            c::READ_CACHE if self.spec.read_cache => self.cached_read_at(at, timing, row),
            c::READ_QUEUE if self.spec.multi_plane => self.queue_read(at, timing, row),
            c::READ_COPYBACK if self.spec.copyback => {
                self.read_page(at, timing, row, column)?;
                let index = self.map.index(row);
                self.lun_mut().copyback = Some(index);
                Ok(())
            }
            _ => Err(self.out_of_place(opcode, "a read was begun: expected is 30h, which ends its address")),
        }
    }

    /// Register content to which a row address refers in the current mode of the chip.
    #[inline]
    pub(super) fn target(&self, row: RowAddress) -> Result<Register, Violation> {
        let index = self.map.index(row);
        if self.otp.visible() { self.otp.page(index).map(Register::Otp) } else { Ok(Register::Page(index)) }
    }

    /// Reads a page from array to register, together with pages of other planes that 32h queued.
    #[inline]
    pub(super) fn read_page(
        &mut self,
        at: Instant,
        timing: &BusTiming,
        row: RowAddress,
        column: usize,
    ) -> Result<(), Violation> {
        let register = self.target(row)?;
        let plane = usize::from(self.plane_of(row));
        let index = self.map.index(row);
        let lun = &mut self.luns[self.active];
        let several = lun.queue == Queue::Reads;
        if several {
            lun.queued[plane] = Some(index);
            for (register, queued) in lun.registers.iter_mut().zip(lun.queued) {
                *register = queued.map_or(Register::Empty, Register::Page);
            }
            lun.behind = None;
            lun.drop_queue();
        } else {
            lun.registers[plane] = register;
            lun.behind = matches!(register, Register::Page(_)).then_some(index);
        }
        lun.plane = plane as u8;
        lun.copyback = None;
        self.column = column;
        self.step = Step::Idle;
        self.output = Output::Register;
        self.sense_registers(at, several);
        self.judge_on_die(register);
        self.busy(at + timing.wb, self.spec.timing.t_r_us.typ, "tR");
        self.hold_data(self.luns[self.active].ready + timing.rr, "data before tRR was over");
        Ok(())
    }

    /// Handles 32h: queues this plane's page, to be read together with the next plane's.
    fn queue_read(&mut self, at: Instant, timing: &BusTiming, row: RowAddress) -> Result<(), Violation> {
        self.queue_row(row, Queue::Reads)?;
        self.step = Step::Idle;
        self.busy(at + timing.wb, self.spec.timing.t_dbsy_us, "tDBSY");
        Ok(())
    }

    /// Queues a row for a multi-plane operation: one row per plane, all at the same page number.
    pub(super) fn queue_row(&mut self, row: RowAddress, queue: Queue) -> Result<(), Violation> {
        let (plane, index) = (usize::from(self.plane_of(row)), self.map.index(row));
        self.check_planes(row, queue)?;
        let lun = self.lun_mut();
        lun.queue = queue;
        lun.queued[plane] = Some(index);
        Ok(())
    }

    /// Checks the rows of a multi-plane operation (ONFI 4.2 section 3.1.1): different planes, equal page
    /// addresses.
    pub(super) fn check_planes(&self, row: RowAddress, queue: Queue) -> Result<(), Violation> {
        let lun = self.lun();
        if lun.queue == Queue::None {
            return Ok(());
        }
        if lun.queued[usize::from(self.plane_of(row))].is_some() {
            return Err(Violation::Sequence("two pages or blocks of one plane in a multi-plane operation"));
        }
        let per_block = self.spec.geometry.pages_per_block;
        let same = |queued: u32| queued % per_block == row.page;
        if queue != Queue::Erases && !lun.queued.iter().flatten().all(|queued| same(*queued)) {
            return Err(Violation::Sequence("different page numbers in a multi-plane operation"));
        }
        Ok(())
    }

    /// Handles 31h or 3Fh: the page read ahead moves to the register; with 31h the array reads the next page at
    /// the same time.
    pub(super) fn cached_read(
        &mut self,
        at: Instant,
        timing: &BusTiming,
        go_on: bool,
    ) -> Result<(), Violation> {
        let per_block = self.spec.geometry.pages_per_block;
        let lun = self.lun();
        if at < lun.ready {
            return Err(Violation::Busy);
        }
        let Some(current) = lun.behind else {
            return Err(Violation::Sequence("a cached read without a page read before it"));
        };
        if !go_on && !lun.caching {
            return Err(Violation::Sequence("3Fh without a cached read in progress"));
        }
        let next = current + 1;
        if go_on && next.is_multiple_of(per_block) {
            return Err(Violation::Sequence("a cached read beyond the end of the block"));
        }
        self.shift_register(at, timing, current, go_on.then_some(next));
        Ok(())
    }

    /// Handles 00h, address, 31h: as 31h, but the array reads the addressed page next.
    fn cached_read_at(&mut self, at: Instant, timing: &BusTiming, row: RowAddress) -> Result<(), Violation> {
        let Some(current) = self.lun().behind else {
            return Err(Violation::Sequence("a cached read without a page read before it"));
        };
        if self.otp.visible() {
            return Err(Violation::Sequence("cached reads of OTP pages"));
        }
        self.step = Step::Idle;
        self.shift_register(at, timing, current, Some(self.map.index(row)));
        Ok(())
    }

    /// Makes the LUN busy for tRCBSY, or for the remaining tR of the running read (facts 2.2), and starts the
    /// next read.
    fn shift_register(&mut self, at: Instant, timing: &BusTiming, current: u32, next: Option<u32>) {
        let start = at + timing.wb;
        let (t_rcbsy, t_r) = (self.spec.timing.t_rcbsy_us, self.spec.timing.t_r_us.typ);
        let planes = self.spec.geometry.planes;
        let plane = current / self.spec.geometry.pages_per_block % planes;
        let lun = self.lun_mut();
        let array_free = lun.array_ready;
        let ready = (start + t_rcbsy).max(array_free);
        lun.registers[plane as usize] = Register::Page(current);
        lun.plane = plane as u8;
        lun.copyback = None;
        if lun.caching {
            std::mem::swap(&mut lun.wrong[plane as usize], &mut lun.wrong_ahead);
        }
        lun.caching = next.is_some();
        lun.behind = next;
        lun.ready = ready;
        lun.array_ready = if next.is_some() { ready + t_r } else { ready };
        self.note_work("tRCBSY", start.max(array_free), ready);
        if let Some(row) = next {
            self.sense_ahead(row, ready);
            self.note_work("tR", ready, ready + t_r);
        }
        self.column = 0;
        self.output = Output::Register;
        self.hold_data(ready + timing.rr, "data before tRR was over");
    }

    #[inline]
    pub(super) fn output_data(
        &mut self,
        at: Instant,
        interface: DataInterface,
        buf: &mut [u8],
    ) -> Result<(), Violation> {
        if at < self.data_from {
            return Err(Violation::Timing(self.data_rule));
        }
        if !matches!(self.step, Step::Idle | Step::Wants(super::command::Wants::Read)) {
            return Err(Violation::Sequence("data from the chip in the middle of another sequence"));
        }
        match self.output {
            Output::Register => {
                self.step = Step::Idle;
                self.output_register(at, interface.timing(), buf)
            }
            Output::Status => {
                buf.fill(self.status(at));
                Ok(())
            }
            _ => self.output_bytes(at, buf),
        }
    }

    #[inline]
    fn output_register(&mut self, at: Instant, timing: &BusTiming, buf: &mut [u8]) -> Result<(), Violation> {
        let lun = self.lun();
        if at < lun.ready {
            return Err(Violation::Busy);
        }
        if at < lun.ready + timing.rr && lun.ready > self.data_from {
            return Err(Violation::Timing("data before tRR was over"));
        }
        let (column, end) = (self.column, self.column + buf.len());
        if end > self.array.page_bytes() {
            return Err(Violation::BadAddress);
        }
        match lun.register() {
            Register::Empty => return Err(Violation::Sequence("data from a register that holds no page")),
            Register::Otp(page) => self.otp.read(page, column, buf),
            Register::Page(row) if self.array.stores() => {
                self.array.read_with(row as usize, column, buf, lun.wrong());
                self.correct_on_die(row, column, buf);
            }
            Register::Page(row) => self.show_mark(row, column, buf),
        }
        self.column = end;
        Ok(())
    }
}
