//! Operations on one page or one block.

use super::RawNandDriver;
use super::discover::kind;
use crate::ecc_engine::{Corrected, EngineKind, Uncorrectable};
use crate::nand::span;
use crate::raw_nand::bus::{Address, Instr, NandBus, NandError};
use crate::raw_nand::command as c;
use crate::timeline::Resource;
use floatgate_mtd::{Error, ErrorKind, Nanos, Phase};

/// Address of a page: target and row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageAt {
    /// Byte address of the page, for errors.
    pub(super) addr: u64,
    /// Number of the target (CE#).
    pub(super) target: u8,
    /// Row address of the page.
    pub(super) row: u32,
}

/// Pause between status reads while the driver waits for ARDY.
const ARRAY_POLL: Nanos = Nanos::from_us(50);

impl<B: NandBus> RawNandDriver<B> {
    /// The page that contains `addr`.
    #[inline]
    pub(super) fn page_at(&self, addr: u64) -> PageAt {
        let page = (addr >> self.page_shift) as u32;
        let (block, page) = self.rows.split(page);
        let per_target = self.rows.blocks();
        let (target, block) =
            if block < per_target { (0, block) } else { (block / per_target, block % per_target) };
        PageAt { addr, target: target as u8, row: self.rows.encode(block, page) }
    }

    #[inline]
    pub(super) fn address(&self, column: u32, row: u32) -> Instr<'static> {
        Instr::Addr(Address::new(column, self.column_cycles, row, self.row_cycles))
    }

    pub(super) fn row_address(&self, row: u32) -> Instr<'static> {
        Instr::Addr(Address::new(0, 0, row, self.row_cycles))
    }

    #[cold]
    pub(super) fn failed(&self, error: NandError, addr: u64) -> Error {
        kind(error).at(addr, self.host.now())
    }

    #[cold]
    pub(super) fn error(&self, kind: ErrorKind, addr: u64) -> Error {
        kind.at(addr, self.host.now())
    }

    /// Reads a page without correction: `data`, and as many OOB bytes as `oob` holds.
    #[inline]
    pub(super) fn load_page(&mut self, at: PageAt, data: &mut [u8], oob: &mut [u8]) -> Result<(), NandError> {
        self.bus.select(at.target);
        let (address, wait) = (self.address(0, at.row), Instr::Wait(self.info.t_r_max));
        match (self.small_page, oob.is_empty()) {
            (false, true) => self.bus.exec(
                &mut self.host,
                &mut [Instr::Cmd(c::READ), address, Instr::Cmd(c::READ_CONFIRM), wait, Instr::In(data)],
            ),
            (false, false) => self.bus.exec(
                &mut self.host,
                &mut [
                    Instr::Cmd(c::READ),
                    address,
                    Instr::Cmd(c::READ_CONFIRM),
                    wait,
                    Instr::In(data),
                    Instr::In(oob),
                ],
            ),
            (true, _) => self.bus.exec(
                &mut self.host,
                &mut [Instr::Cmd(c::READ), address, wait, Instr::In(data), Instr::In(oob)],
            ),
        }
    }

    /// Reads a part of a page and a part of its OOB, each with its start column.
    pub(super) fn load_steps(
        &mut self,
        at: PageAt,
        column: usize,
        data: &mut [u8],
        (oob_column, oob): (usize, &mut [u8]),
    ) -> Result<(), NandError> {
        self.bus.select(at.target);
        let oob_column = self.info.geometry.page_bytes + oob_column as u32;
        let mut steps = [
            Instr::Cmd(c::READ),
            self.address(column as u32, at.row),
            Instr::Cmd(c::READ_CONFIRM),
            Instr::Wait(self.info.t_r_max),
            Instr::In(data),
            Instr::Cmd(c::CHANGE_COLUMN),
            Instr::Addr(Address::new(oob_column, self.column_cycles, 0, 0)),
            Instr::Cmd(c::CHANGE_COLUMN_CONFIRM),
            Instr::In(oob),
        ];
        self.bus.exec(&mut self.host, &mut steps)
    }

    /// Reads OOB bytes only.
    pub(super) fn load_oob(&mut self, at: PageAt, oob: &mut [u8]) -> Result<(), NandError> {
        self.bus.select(at.target);
        let wait = Instr::Wait(self.info.t_r_max);
        if self.small_page {
            let address = self.address(0, at.row);
            return self
                .bus
                .exec(&mut self.host, &mut [Instr::Cmd(c::READ_OOB), address, wait, Instr::In(oob)]);
        }
        let address = self.address(self.info.geometry.page_bytes, at.row);
        let mut steps = [Instr::Cmd(c::READ), address, Instr::Cmd(c::READ_CONFIRM), wait, Instr::In(oob)];
        self.bus.exec(&mut self.host, &mut steps)
    }

    /// Reads a page and corrects it. If the ECC engine needs the OOB, it is read, too, and is then in `self.oob`.
    #[inline]
    pub(super) fn read_page(&mut self, at: PageAt, data: &mut [u8]) -> Result<Corrected, Error> {
        self.profile.page(&mut self.host);
        let mut oob = std::mem::take(&mut self.oob);
        let page = match self.load_page(at, data, &mut oob[..self.ecc_oob]) {
            Ok(()) => self.correct(at, data, &mut oob),
            Err(error) => Err(self.failed(error, at.addr)),
        };
        self.oob = oob;
        page
    }

    /// Corrects `data`, whose OOB bytes are in `self.oob`.
    pub(super) fn correct_in_place(&mut self, at: PageAt, data: &mut [u8]) -> Result<Corrected, Error> {
        let mut oob = std::mem::take(&mut self.oob);
        let page = self.correct(at, data, &mut oob);
        self.oob = oob;
        page
    }

    /// Corrects a page that was just read; if it is uncorrectable, repeats the read with the chip's read retry modes.
    // Separate function calls for this function and the next one would make a page read 4 % slower.
    #[inline(always)]
    pub(super) fn correct(
        &mut self,
        at: PageAt,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<Corrected, Error> {
        if self.ecc.engine.kind() == EngineKind::OnDie {
            return self.on_die_result(at);
        }
        match self.decode(at, data, oob) {
            Ok(corrected) => Ok(corrected),
            Err(_) => self.retry(at, data, oob),
        }
    }

    /// Decodes a page that was just read.
    #[inline(always)]
    pub(super) fn decode(
        &mut self,
        at: PageAt,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<Corrected, Uncorrectable> {
        self.ecc.decode(&mut self.host, &self.bus, at.addr >> self.page_shift, data, oob)
    }

    /// Result reported by a chip with on-die ECC for the page that it read last. The chip does not count bits. If it
    /// recommends a rewrite of the page, the bitflip threshold counts as reached (Linux:
    /// `toshiba_nand_benand_eccstatus`).
    fn on_die_result(&mut self, at: PageAt) -> Result<Corrected, Error> {
        let status = self.status().map_err(|error| self.failed(error, at.addr))?;
        if status & c::FAIL != 0 {
            return Err(self.error(ErrorKind::Uncorrectable, at.addr));
        }
        let bits = if status & c::REWRITE == 0 { 0 } else { self.geometry.bitflip_threshold.max(1) };
        Ok(Corrected { max: bits, total: bits })
    }

    /// Records that the pages of the block at `addr` no longer contain the bytes that were encoded.
    pub(super) fn forget_block(&mut self, addr: u64) {
        self.ecc.forget(span::pages_of(&self.geometry, span::block_of(&self.geometry, addr)));
    }

    /// Reads the status of the target selected last.
    #[inline]
    fn status(&mut self) -> Result<u8, NandError> {
        let mut status = [0];
        self.bus.exec(&mut self.host, &mut [Instr::Cmd(c::STATUS), Instr::RegIn(&mut status)])?;
        Ok(status[0])
    }

    /// True if the status reports success of the last program or erase.
    pub(super) fn succeeded(&mut self) -> Result<bool, NandError> {
        Ok(self.status()? & c::FAIL == 0)
    }

    /// Reads the status before a write or an erase, to check that the chip is not write protected (Linux:
    /// `nand_check_wp`).
    #[inline]
    pub(super) fn check_protection(&mut self, at: PageAt) -> Result<(), Error> {
        self.bus.select(at.target);
        match self.status() {
            Ok(status) if status & c::NOT_PROTECTED != 0 => Ok(()),
            Ok(_) => Err(self.error(ErrorKind::WriteProtected, at.addr)),
            Err(error) => Err(self.failed(error, at.addr)),
        }
    }

    /// Programs a page with its OOB. `confirm` is 10h, or 15h if the next page follows immediately. Returns the results
    /// of this program and of the previous cached one from the status.
    #[inline]
    pub(super) fn store_page(
        &mut self,
        at: PageAt,
        data: &[u8],
        oob: &[u8],
        confirm: u8,
    ) -> Result<(bool, bool), Error> {
        self.bus.select(at.target);
        let (address, wait) =
            (self.address(0, at.row), Instr::Wait(self.info.t_prog_max + self.info.t_prog_max));
        let mut steps = [
            Instr::Cmd(c::READ),
            Instr::Cmd(c::PROGRAM),
            address,
            Instr::Out(data),
            Instr::Out(oob),
            Instr::Cmd(confirm),
            wait,
        ];
        // 00h selects the first part of a small page; large pages have no parts.
        let from = usize::from(!self.small_page);
        let programmed = self.bus.exec(&mut self.host, &mut steps[from..]).and_then(|()| self.status());
        match programmed {
            Ok(status) => Ok((status & c::FAIL != 0, status & c::FAIL_BEFORE != 0)),
            Err(error) => Err(self.failed(error, at.addr)),
        }
    }

    /// Waits until the array has finished the remaining work of a cached program. R/B# does not show this, but the status
    /// does.
    #[cold]
    pub(super) fn wait_for_array(&mut self, at: PageAt) -> Result<(), Error> {
        let pause = self.profile.pause(ARRAY_POLL);
        let end = self.host.now() + self.info.t_prog_max + self.info.t_prog_max + pause;
        while self.host.now() < end {
            match self.status() {
                Ok(status) if status & c::ARRAY_READY != 0 => return Ok(()),
                Ok(_) => self.host.spend(Resource::Cpu, Phase::Polling, pause, "sleep"),
                Err(error) => return Err(self.failed(error, at.addr)),
            }
        }
        Err(self.error(ErrorKind::Timeout, at.addr))
    }

    /// Encodes a page, and calls `store` to program it with its OOB bytes: those in `oob`, and the ECC bytes at their
    /// positions.
    #[inline]
    pub(super) fn encode<T>(
        &mut self,
        at: PageAt,
        data: &[u8],
        oob: &[u8],
        store: impl FnOnce(&mut Self, &[u8]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.ecc.engine.prepare(&mut self.host, data.len() as u32);
        if self.ecc.engine.code().is_none() || !self.bus.keeps_data() {
            return store(self, oob);
        }
        let mut spare = std::mem::take(&mut self.spare);
        spare.copy_from_slice(oob);
        self.ecc.engine.encode(data, &mut spare);
        let result = store(self, &spare);
        // A rejected program does not change the page.
        if result.is_ok() {
            self.ecc.note_encoded(at.addr >> self.page_shift);
        }
        self.spare = spare;
        result
    }

    /// Encodes and programs a page.
    #[inline]
    pub(super) fn write_page(&mut self, at: PageAt, data: &[u8], oob: &[u8]) -> Result<(), Error> {
        self.profile.page(&mut self.host);
        let (failed, _) =
            self.encode(at, data, oob, |driver, oob| driver.store_page(at, data, oob, c::PROGRAM_CONFIRM))?;
        if failed {
            return Err(self.error(ErrorKind::ProgramFailed, at.addr));
        }
        if self.verifies { self.verify(at, data) } else { Ok(()) }
    }

    /// Reads a page back without ECC, and compares it with the programmed data. A timing-only chip has no data to compare.
    #[cold]
    fn verify(&mut self, at: PageAt, data: &[u8]) -> Result<(), Error> {
        let mut back = vec![0; data.len()];
        self.load_page(at, &mut back, &mut []).map_err(|error| self.failed(error, at.addr))?;
        let is_same = !self.bus.keeps_data() || back == data;
        if is_same { Ok(()) } else { Err(self.error(ErrorKind::ProgramFailed, at.addr)) }
    }

    /// Erases the block of the page `at`.
    pub(super) fn erase_block(&mut self, at: PageAt) -> Result<(), Error> {
        self.profile.page(&mut self.host);
        self.forget_block(at.addr);
        self.bus.select(at.target);
        let (address, wait) = (self.row_address(at.row), Instr::Wait(self.info.t_bers_max));
        let mut steps = [Instr::Cmd(c::ERASE), address, Instr::Cmd(c::ERASE_CONFIRM), wait];
        let erased = self.bus.exec(&mut self.host, &mut steps).and_then(|()| self.succeeded());
        match erased {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.error(ErrorKind::EraseFailed, at.addr)),
            Err(error) => Err(self.failed(error, at.addr)),
        }
    }
}
