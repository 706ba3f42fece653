//! Reads, programs and erases of the array.

use super::SpiNor;
use super::work::{Kind, Work};
use crate::nor::cut::{Undo, mix};
use crate::spi::SpiOp;
use crate::spi_nor::spec::{EraseType, RegisterSet};
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

impl SpiNor {
    /// Executes a read command. A real chip wraps around at its end; this model rejects such a read.
    #[inline]
    pub(super) fn read(&mut self, start: Instant, op: &SpiOp, out: &mut [u8]) -> Result<(), Violation> {
        let (addr, len) = (u64::from(op.addr), u64::from(op.len));
        if self.otp.entered {
            return self.read_secured(addr, out);
        }
        self.check_address(op)?;
        if start < self.work.end {
            self.check_other_bank(addr, len)?;
        }
        if self.suspended.as_ref().is_some_and(|s| s.work.overlaps(addr, len)) {
            return Err(Violation::Sequence("read of the block whose program or erase is suspended"));
        }
        self.regs.reset_armed = false;
        if self.array.stores() {
            self.array.read_range(addr, out);
        }
        if !self.stuck.is_empty() {
            self.read_stuck(addr, out);
        }
        Ok(())
    }

    fn read_stuck(&self, addr: u64, out: &mut [u8]) {
        for (at, (zeros, ones)) in self.stuck.range(addr..addr + out.len() as u64) {
            let byte = &mut out[(at - addr) as usize];
            *byte = *byte & !zeros | ones;
        }
    }

    /// Checks that the address fits its number of bytes, and that the data is inside the chip.
    fn check_address(&self, op: &SpiOp) -> Result<(), Violation> {
        let end = u64::from(op.addr) + u64::from(op.len);
        let cut_off = op.addr_bytes == 3 && op.addr >> 24 != 0;
        if cut_off || end > self.spec.geometry.size_bytes { Err(Violation::BadAddress) } else { Ok(()) }
    }

    /// Checks that a read accesses an idle bank, if the chip supports read-while-write.
    fn check_other_bank(&self, addr: u64, len: u64) -> Result<(), Violation> {
        let touched = self.bank(addr)..=self.bank(addr + len.saturating_sub(1));
        let array_works = self.work.kind != Kind::Other;
        if self.spec.geometry.read_while_write && array_works && !touched.contains(&self.work.bank) {
            Ok(())
        } else {
            Err(Violation::Busy)
        }
    }

    /// Executes PAGE PROGRAM: data beyond the end of the page continues at its start.
    pub(super) fn program(&mut self, end: Instant, op: &SpiOp, bytes: &[u8]) -> Result<(), Violation> {
        let page = u64::from(self.spec.geometry.page_bytes);
        let addr = u64::from(op.addr);
        self.check_write_enable()?;
        if bytes.is_empty() || bytes.len() as u64 > page {
            return Err(Violation::Sequence("a page program takes 1 byte to a page"));
        }
        if self.otp.entered {
            return self.program_secured(end, op.addr, bytes);
        }
        // The data may wrap around, so only its first byte must be inside the chip.
        self.check_address(&SpiOp { len: 1, ..*op })?;
        let start = addr - addr % page;
        self.check_target(Kind::Program, start, page)?;
        self.check_suspended(Kind::Program, start, page)?;
        let column = (addr % page) as usize;
        let (head, tail) = bytes.split_at((page as usize - column).min(bytes.len()));
        let row = (addr / page) as usize;
        self.check_erased(row, column, head)?;
        self.check_erased(row, 0, tail)?;
        let undo = Undo::program(&self.array, row);
        self.finish_program(row, column, head, tail);
        let time = self.program_time(bytes.len() as u64);
        let change = self.change(Kind::Program, start, page);
        self.begin(Work { since: end, end: end + time, what: "tPP", ..change }, undo);
        Ok(())
    }

    /// Ends a program. A failing page contains only the first half of the data.
    fn finish_program(&mut self, row: usize, column: usize, head: &[u8], tail: &[u8]) {
        let addr = row as u64 * u64::from(self.spec.geometry.page_bytes);
        if !self.bad_pages.is_empty() && self.bad_pages.contains(&addr) {
            self.array.program(row, column, &head[..head.len() / 2]);
            self.regs.program_failed = true;
            return;
        }
        self.regs.program_failed &= self.fail_bits_stay();
        self.array.program(row, column, head);
        if !tail.is_empty() {
            self.array.program(row, 0, tail);
        }
    }

    /// True if fail bits stay set until they are cleared (Micron, Spansion); Macronix's show the last operation.
    fn fail_bits_stay(&self) -> bool {
        matches!(self.spec.registers, RegisterSet::Micron | RegisterSet::Spansion)
    }

    /// Checks that a program sets no bit, more strictly than silicon: a byte that would need a bit changed to 1 is
    /// rejected. FFh has no effect, because drivers use it for padding. Clearing more bits is allowed (JFFS2 marks
    /// nodes obsolete in this way).
    fn check_erased(&self, row: usize, column: usize, bytes: &[u8]) -> Result<(), Violation> {
        let Some(old) = self.array.stored(row) else { return Ok(()) };
        let impossible = |(new, old): (&u8, &u8)| *new != 0xFF && new & !old != 0;
        if bytes.iter().zip(&old[column..]).any(impossible) { Err(Violation::NotErased) } else { Ok(()) }
    }

    /// Time to program `len` bytes, interpolated between the times of a byte and of a page.
    fn program_time(&self, len: u64) -> Nanos {
        let page = u64::from(self.spec.geometry.page_bytes);
        let whole = self.spec.timing.t_pp_us.typ;
        let one = self.spec.timing.t_byte_us.map_or(whole, |t| t.typ);
        let rest = whole.saturating_sub(one).as_ns() * (len - 1) / (page - 1).max(1);
        one + Nanos::from_ns(rest)
    }

    /// Erases a block of type `index`. As in silicon, address bits below the block size are ignored.
    pub(super) fn erase(&mut self, index: usize, end: Instant, op: &SpiOp) -> Result<(), Violation> {
        let Some(&kind) = self.erase_types.get(index) else {
            return Err(Violation::UnknownCommand(op.opcode));
        };
        self.check_write_enable()?;
        self.check_address(&SpiOp { len: 1, ..*op })?;
        self.check_outside_otp()?;
        let len = u64::from(kind.bytes);
        let start = u64::from(op.addr) / len * len;
        self.check_target(Kind::Erase, start, len)?;
        self.check_suspended(Kind::Erase, start, len)?;
        let undo = self.erase_range(start, len);
        let time = self.erase_time(&kind, start);
        let change = self.change(Kind::Erase, start, len);
        self.begin(Work { since: end, end: end + time, what: "tE", ..change }, undo);
        Ok(())
    }

    /// Executes CHIP ERASE, which is rejected if any block is protected.
    pub(super) fn erase_chip(&mut self, end: Instant) -> Result<(), Violation> {
        let size = self.spec.geometry.size_bytes;
        self.check_write_enable()?;
        self.check_outside_otp()?;
        self.check_target(Kind::Erase, 0, size)?;
        self.check_suspended(Kind::Erase, 0, size)?;
        let undo = self.erase_range(0, size);
        let time = self.spec.timing.t_ce_us.typ;
        let change = self.change(Kind::Erase, 0, size);
        self.begin(Work { since: end, end: end + time, what: "tCE", ..change }, undo);
        Ok(())
    }

    /// Erases blocks, unless they fail, and returns the state needed for a power cut.
    fn erase_range(&mut self, start: u64, len: u64) -> Undo {
        let block = self.block_bytes();
        let blocks = (start / block) as usize..((start + len) / block) as usize;
        let fails = self.bad_blocks.range(start..start + len).next().is_some();
        self.regs.erase_failed = fails || self.regs.erase_failed && self.fail_bits_stay();
        if fails {
            return Undo::Nothing;
        }
        let undo = Undo::erase(&self.array, blocks.clone());
        blocks.for_each(|index| self.array.erase(index));
        undo
    }

    /// Erase time of a block: the typical time, or the time of the tail if the seed makes this block slow.
    fn erase_time(&self, kind: &EraseType, start: u64) -> Nanos {
        let Some(tail) = kind.tail else { return kind.t_us.typ };
        let block = start / u64::from(kind.bytes);
        let chance = mix(mix(self.seed ^ u64::from(kind.bytes)) ^ block) >> 11;
        // 53 random bits as a fraction between 0 and 1.
        let slow = (chance as f64) < tail.p * (1u64 << 53) as f64;
        if slow { tail.us } else { kind.t_us.typ }
    }

    /// An operation on `len` bytes from `from` on, whose times are not set yet.
    fn change(&self, kind: Kind, from: u64, len: u64) -> Work {
        Work { kind, from, to: from + len, bank: self.bank(from), ..Work::default() }
    }

    fn begin(&mut self, work: Work, undo: Undo) {
        self.regs.wel = false;
        self.work = Work { length: work.end.since(work.since), ..work };
        self.undo = undo;
    }

    pub(super) const fn check_write_enable(&self) -> Result<(), Violation> {
        if self.regs.wel { Ok(()) } else { Err(Violation::NoWriteEnable) }
    }

    const fn check_outside_otp(&self) -> Result<(), Violation> {
        if self.otp.entered { Err(Violation::Protected) } else { Ok(()) }
    }

    /// Checks that a program or erase does not touch the protected area.
    fn check_target(&mut self, kind: Kind, addr: u64, len: u64) -> Result<(), Violation> {
        let protected = self.protected();
        let clash = addr < protected.end && protected.start < addr + len;
        if clash { Err(self.refuse_protected(kind)) } else { Ok(()) }
    }

    /// Sets the registers after a program or erase of a protected area, which the chip does not execute. Chips with fail bits set them,
    /// and the write enable latch stays set. Other chips clear the latch. (Micron MT25Q data sheet, "PROGRAM Operations"; Macronix
    /// MX25UM25645G data sheet, "Status Register"; linux-mtd 2020-03-09 for Spansion, Winbond W25Q40BW and Macronix MX25L25635E.)
    fn refuse_protected(&mut self, kind: Kind) -> Violation {
        if self.fail_bits_stay() {
            self.regs.program_failed |= kind == Kind::Program;
            self.regs.erase_failed |= kind == Kind::Erase;
            self.regs.protection_failed = true;
        } else {
            self.regs.wel = false;
        }
        Violation::Protected
    }

    /// Checks that the operation is allowed during a suspend: only other blocks may be programmed during a suspended
    /// erase.
    fn check_suspended(&self, kind: Kind, addr: u64, len: u64) -> Result<(), Violation> {
        match &self.suspended {
            None => Ok(()),
            Some(s) if s.work.kind == Kind::Erase && kind == Kind::Program && !s.work.overlaps(addr, len) => {
                Ok(())
            }
            Some(_) => Err(Violation::Sequence("program or erase while another one is suspended")),
        }
    }
}
