//! Page read, reads from cache, program load and execute, block erase, continuous read.

use super::super::command as c;
use super::super::spec::{Continuous, ContinuousKind, LoadVariant};
use super::die::Loaded;
use super::shape::clock;
use super::work::{ArrayTask, Erasing};
use super::wrong::{EccResult, PageCode};
use super::{Call, Checked, SpiNand};
use crate::oracle::Faults;
use crate::spi::{ReadAhead, ReadOn, SpiOp};
use crate::units::TypMaxUs;
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

/// The maximum of a time in the data sheet, which is valid for the whole life.
fn longest(time: TypMaxUs) -> Nanos {
    time.max.max(time.typ)
}

/// Maximum number of id bytes that a host may read in pieces.
const ID_BYTES: u32 = 512;

/// Position of a row in its die: block, page and plane.
struct RowPosition {
    row: u32,
    block: u32,
    page: u32,
    plane: usize,
}

impl SpiNand {
    fn row_position(&self, row: u32) -> Result<RowPosition, Violation> {
        let g = &self.spec.geometry;
        let (block, page) = (row / g.pages_per_block, row % g.pages_per_block);
        if block >= self.spec.blocks_per_die() {
            return Err(Violation::BadAddress);
        }
        // Without a select bit the planes share one cache from the view of the bus.
        let caches = if self.spec.quirks.plane_select_bit { g.planes } else { 1 };
        Ok(RowPosition { row, block, page, plane: (block % caches) as usize })
    }

    /// Code of the on-die ECC engine if it is enabled.
    #[inline]
    fn code(&self) -> Option<PageCode> {
        self.code.filter(|_| self.dies[self.active].config & c::ECC_ENABLE != 0)
    }

    /// The scheme of continuous reads that is currently enabled.
    pub(super) fn continuous(&self) -> Option<&Continuous> {
        let config = self.dies[self.active].config;
        self.spec.continuous.as_ref().filter(|cont| match cont.kind {
            ContinuousKind::Winbond => config >> cont.config_bit & 1 == 0,
            ContinuousKind::Macronix => config >> cont.config_bit & 1 == 1,
        })
    }

    #[inline]
    pub(super) fn page_read(&mut self, call: Call<'_>) -> Result<(), Violation> {
        let row = self.row_of(call)?;
        self.idle(call.start)?;
        self.stream_was_left(call)?;
        let code = self.code();
        let timing = self.spec.timing;
        let length = if code.is_some() { timing.t_rd_ecc_us } else { timing.t_rd_us };
        if self.die().config & c::OTP_ENABLE != 0 {
            return self.otp_page_read(call, row, length);
        }
        let position = self.row_position(row)?;
        let streams = self.continuous().is_some();
        let die = self.die();
        die.ecc = EccResult::default();
        die.load_row(row, position.plane, code.as_ref(), call.end);
        die.stream = streams.then_some(row);
        die.begin(ArrayTask::Read, row, call.end, length);
        Ok(())
    }

    /// Checks that a continuous read has ended (Macronix): tRST after CS# went high, or with the next write of the
    /// configuration.
    fn stream_was_left(&mut self, call: Call<'_>) -> Result<(), Violation> {
        let t_rst = self.spec.timing.t_rst_us;
        match self.die().stream_left_open {
            Some(end) if call.start.since(end) < t_rst => {
                Err(Violation::Sequence("the continuous read before was not left"))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    pub(super) fn read_from_cache(&mut self, call: Call<'_>, buf: &mut [u8]) -> Result<(), Violation> {
        if let Some(first) = self.die().stream {
            return self.stream(call, first, buf);
        }
        self.check_read(call)?;
        self.idle(call.start)?;
        if self.continuous().is_some_and(|cont| cont.kind == ContinuousKind::Winbond) {
            return Err(Violation::Sequence("read with a column while the continuous mode is on"));
        }
        let (plane, column) = self.column(call.op.addr, buf.len())?;
        let die = &self.dies[self.active];
        if die.loaded(plane) == Loaded::Nothing {
            return Err(Violation::Sequence("read from a cache that holds nothing"));
        }
        die.read_cache(plane, column, buf, &self.spec);
        Ok(())
    }

    /// Checks a read from cache against the table of reads, unless it is the same as the last one.
    #[inline]
    fn check_read(&mut self, call: Call<'_>) -> Result<(), Violation> {
        let SpiOp { opcode, mode, addr_bytes, dummy_cycles, .. } = *call.op;
        let this = Some(Checked { opcode, mode, addr_bytes, dummy_cycles, hz: call.hz });
        if self.checked != this {
            self.find(self.spec.reads.iter().copied(), call, false)?;
            self.checked = this;
        }
        Ok(())
    }

    /// Data of the read `op` while CS# stays low: up to the end of the page, or in continuous mode up to the end of
    /// the block.
    pub(super) fn reads_on(&self, op: &SpiOp) -> ReadOn {
        let g = &self.spec.geometry;
        match self.canonical(op.opcode) {
            c::GET_FEATURE | c::READ_ECC_STATUS => return ReadOn::Register,
            c::READ_ID => return ReadOn::Bytes(ID_BYTES),
            _ => {}
        }
        if let Some(first) = self.dies[self.active].stream {
            let pages = g.pages_per_block - first % g.pages_per_block;
            return ReadOn::Bytes(pages * g.page_bytes);
        }
        let column = op.addr & ((1 << g.plane_shift()) - 1);
        ReadOn::Bytes(g.raw_page_bytes().saturating_sub(column))
    }

    /// Plane and column of a column address, for an access of `len` bytes.
    fn column(&self, addr: u32, len: usize) -> Result<(usize, usize), Violation> {
        let g = &self.spec.geometry;
        let shift = g.plane_shift();
        let (plane, column) = (addr >> shift, (addr & ((1 << shift) - 1)) as usize);
        let planes = if self.spec.quirks.plane_select_bit { g.planes } else { 1 };
        if plane >= planes || column + len > g.raw_page_bytes() as usize {
            return Err(Violation::BadAddress);
        }
        Ok((plane as usize, column))
    }

    /// Executes a continuous read: consecutive pages without OOB, at most up to the end of the block.
    fn stream(&mut self, call: Call<'_>, first: u32, buf: &mut [u8]) -> Result<(), Violation> {
        let Some(cont) = self.continuous() else {
            return Err(Violation::Sequence("the continuous mode was switched off after the page read"));
        };
        let winbond = cont.kind == ContinuousKind::Winbond;
        let variants = if winbond { &cont.reads } else { &self.spec.reads };
        self.find(variants.iter().copied(), call, winbond)?;
        self.idle(call.start)?;
        if !winbond && call.op.addr != 0 {
            return Err(Violation::BadAddress);
        }
        let g = self.spec.geometry;
        let page_bytes = g.page_bytes as usize;
        let pages = buf.len().div_ceil(page_bytes) as u32;
        if first % g.pages_per_block + pages > g.pages_per_block {
            return Err(Violation::Sequence("continuous read beyond the end of the block"));
        }
        let t_page = cont.t_page_us;
        if pages > 1 {
            self.array_keeps_up(call, t_page)?;
        }
        self.streamed = Some((call.start, ReadAhead { pages: pages - 1, each: t_page }));
        self.deliver(call.end, first, buf);
        let die = self.die();
        die.stream = None;
        die.forget_cache();
        die.stream_left_open = (!winbond).then_some(call.end);
        Ok(())
    }

    /// Checks that pages are not transferred faster than the array delivers them, because the bus has no wait cycles.
    fn array_keeps_up(&self, call: Call<'_>, t_page: Nanos) -> Result<(), Violation> {
        let half_cycles = SpiOp { len: self.spec.geometry.page_bytes, ..*call.op }.half_cycles()[3];
        let max = half_cycles.saturating_mul(500_000_000) / t_page.as_ns().max(1);
        clock(call.hz, u32::try_from(max).unwrap_or(u32::MAX))
    }

    fn deliver(&mut self, at: Instant, first: u32, buf: &mut [u8]) {
        let g = self.spec.geometry;
        let code = self.code();
        let spec = std::sync::Arc::clone(&self.spec);
        let die = self.die();
        for (row, chunk) in (first..).zip(buf.chunks_mut(g.page_bytes as usize)) {
            let plane = (row / g.pages_per_block % g.planes) as usize;
            if row != first {
                die.load_row(row, plane, code.as_ref(), at);
            }
            die.read_cache(plane, 0, chunk, &spec);
        }
    }

    pub(super) fn program_load(&mut self, call: Call<'_>, bytes: &[u8]) -> Result<(), Violation> {
        let variants = self.spec.loads.iter().map(LoadVariant::variant);
        let variant = self.find(variants, call, false)?;
        self.idle(call.start)?;
        if !self.die().write_enabled {
            return Err(Violation::NoWriteEnable);
        }
        let (plane, column) = self.column(call.op.addr, bytes.len())?;
        let random = |v: &&LoadVariant| v.opcode == variant.opcode && v.mode == variant.mode && v.random;
        let keep = self.spec.loads.iter().any(|v| random(&v));
        self.die().fill_cache(plane, column, bytes, keep);
        Ok(())
    }

    pub(super) fn program_execute(&mut self, call: Call<'_>) -> Result<(), Violation> {
        let row = self.row_of(call)?;
        self.idle(call.start)?;
        if !self.die().write_enabled {
            return Err(Violation::NoWriteEnable);
        }
        if self.die().config & c::OTP_ENABLE != 0 {
            return self.otp_program(call, row);
        }
        let position = self.row_position(row)?;
        if self.is_protected() {
            self.die().program_failed = true;
            return Err(Violation::Protected);
        }
        let plane = position.plane;
        if self.die().loaded(plane) == Loaded::Nothing {
            return Err(Violation::Sequence("program execute of a cache that holds nothing"));
        }
        let ecc_on = self.code().is_some();
        let unseen_by = self.code.filter(|_| !ecc_on).map(|code| code.strength());
        if ecc_on {
            let spec = std::sync::Arc::clone(&self.spec);
            self.die().blank_ecc_bytes(plane, &spec);
        }
        self.die().mix(plane, position.row);
        if let Err(broken) = self.die().check_program(position.block, position.page, position.row, plane) {
            self.die().mix(plane, position.row);
            return Err(broken);
        }
        let broken = self.faults(position.block).program;
        let most = longest(self.spec.timing.t_prog_us);
        let die = self.die();
        die.program(position.block, position.page, position.row, plane, unseen_by);
        die.mix(plane, position.row);
        let outcome = die.cells.program(position.row, call.end);
        (die.program_failed, die.write_enabled) = (broken || outcome.failed, false);
        die.begin(ArrayTask::Program, position.row, call.end, outcome.time.min(most));
        Ok(())
    }

    pub(super) fn block_erase(&mut self, call: Call<'_>) -> Result<(), Violation> {
        let row = self.row_of(call)?;
        self.idle(call.start)?;
        if !self.die().write_enabled {
            return Err(Violation::NoWriteEnable);
        }
        let position = self.row_position(row)?;
        if self.is_protected() {
            self.die().erase_failed = true;
            return Err(Violation::Protected);
        }
        if self.die().config & c::OTP_ENABLE != 0 {
            return Err(Violation::Sequence("OTP pages cannot be erased"));
        }
        let broken = self.faults(position.block).erase;
        let most = longest(self.spec.timing.t_bers_us);
        let die = self.die();
        let outcome = die.prepare_erase(Erasing { block: position.block, broken });
        (die.erase_failed, die.write_enabled) = (broken || outcome.failed, false);
        die.begin(ArrayTask::Erase, position.row - position.page, call.end, outcome.time.min(most));
        Ok(())
    }

    /// True if all blocks are locked. A program or erase then sets its fail bit (MT29F1G01ABAFD data sheet, "Status Register").
    fn is_protected(&mut self) -> bool {
        self.die().protection & c::BLOCK_PROTECT != 0
    }

    /// Faults of a block in the selected die.
    fn faults(&self, block: u32) -> Faults {
        self.faults.of_block(self.active as u32 * self.spec.blocks_per_die() + block)
    }
}
