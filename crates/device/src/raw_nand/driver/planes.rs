//! Multi-plane operations. The blocks of a pair (2n and 2n+1) are in different planes. Their pages with the same number are
//! read and programmed together, and the blocks are erased together. Linux does not do this.

use super::RawNandDriver;
use super::page::PageAt;
use crate::nand::bbt::BlockState;
use crate::nand::span::{self, ReadSum};
use crate::raw_nand::bus::{Instr, NandBus};
use crate::raw_nand::command as c;
use floatgate_mtd::{Error, ErrorKind};

impl<B: NandBus> RawNandDriver<B> {
    /// True if the block at `addr` and the next one are a pair of good blocks, and `len` bytes from `addr` on cover both
    /// blocks.
    #[inline]
    pub(super) fn covers_pair(&self, addr: u64, len: u64) -> bool {
        if !self.multi_plane || len < 2 * u64::from(self.geometry.erase_bytes) {
            return false;
        }
        let block = span::block_of(&self.geometry, addr);
        addr == span::block_addr(&self.geometry, block)
            && (block % self.info.geometry.blocks_per_lun).is_multiple_of(2)
            && self.bbt.get(block) == BlockState::Good
            && self.bbt.get(block + 1) == BlockState::Good
    }

    /// Addresses of the two pages with number `page` in the pair of blocks at `addr`.
    fn page_pair(&self, addr: u64, page: usize) -> [PageAt; 2] {
        let first = addr + ((page as u64) << self.page_shift);
        [self.page_at(first), self.page_at(first + u64::from(self.geometry.erase_bytes))]
    }

    /// Reads both blocks of a pair: 00h-32h, 00h-30h, then the register of each plane by 06h-E0h.
    pub(super) fn read_pair(&mut self, addr: u64, buf: &mut [u8], sum: &mut ReadSum) -> Result<(), Error> {
        let mut oob = std::mem::take(&mut self.oob);
        let (lower, upper) = buf.split_at_mut(buf.len() / 2);
        let pages =
            lower.chunks_exact_mut(1 << self.page_shift).zip(upper.chunks_exact_mut(1 << self.page_shift));
        let mut result = Ok(());
        for (index, (one, two)) in pages.enumerate() {
            let pair = self.page_pair(addr, index);
            result = self.read_page_pair(pair, [one, two], &mut oob, sum);
            if result.is_err() {
                break;
            }
        }
        self.oob = oob;
        result
    }

    fn read_page_pair(
        &mut self,
        pair: [PageAt; 2],
        data: [&mut [u8]; 2],
        oob: &mut [u8],
        sum: &mut ReadSum,
    ) -> Result<(), Error> {
        self.profile.page(&mut self.host);
        self.bus.select(pair[0].target);
        let wait = || Instr::Wait(self.info.t_r_max);
        let [one, two] = pair.map(|at| self.address(0, at.row));
        let mut steps = [
            Instr::Cmd(c::READ),
            one,
            Instr::Cmd(c::READ_QUEUE),
            wait(),
            Instr::Cmd(c::READ),
            two,
            Instr::Cmd(c::READ_CONFIRM),
            wait(),
        ];
        let read = self.bus.exec(&mut self.host, &mut steps);
        read.map_err(|error| self.failed(error, pair[0].addr))?;
        for (at, data) in pair.into_iter().zip(data) {
            let address = self.address(0, at.row);
            let ecc_oob = &mut oob[..self.ecc_oob];
            let mut steps = [
                Instr::Cmd(c::CHANGE_COLUMN_ENHANCED),
                address,
                Instr::Cmd(c::CHANGE_COLUMN_CONFIRM),
                Instr::In(data),
                Instr::In(ecc_oob),
            ];
            let moved = self.bus.exec(&mut self.host, &mut steps);
            moved.map_err(|error| self.failed(error, at.addr))?;
            let page = self.correct(at, data, oob);
            sum.add_checked(page)?;
        }
        Ok(())
    }

    /// Programs both blocks of a pair: 80h-11h, 80h-10h. A failure is reported with the address of the first of the two
    /// pages.
    pub(super) fn write_pair(&mut self, addr: u64, data: &[u8], blank: &[u8]) -> Result<(), Error> {
        let (lower, upper) = data.split_at(data.len() / 2);
        let pages = lower.chunks_exact(1 << self.page_shift).zip(upper.chunks_exact(1 << self.page_shift));
        for (index, (one, two)) in pages.enumerate() {
            let pair = self.page_pair(addr, index);
            self.profile.page(&mut self.host);
            self.encode(pair[0], one, blank, |driver, oob| driver.queue_page(pair[0], one, oob))?;
            let (failed, _) = self.encode(pair[1], two, blank, |driver, oob| {
                driver.store_page(pair[1], two, oob, c::PROGRAM_CONFIRM)
            })?;
            if failed {
                return Err(self.error(ErrorKind::ProgramFailed, pair[0].addr));
            }
        }
        Ok(())
    }

    /// Loads and queues the page of the first plane.
    fn queue_page(&mut self, at: PageAt, data: &[u8], oob: &[u8]) -> Result<(), Error> {
        self.bus.select(at.target);
        let wait = Instr::Wait(self.info.t_prog_max);
        let address = self.address(0, at.row);
        let mut steps = [
            Instr::Cmd(c::PROGRAM),
            address,
            Instr::Out(data),
            Instr::Out(oob),
            Instr::Cmd(c::PROGRAM_QUEUE),
            wait,
        ];
        let queued = self.bus.exec(&mut self.host, &mut steps);
        queued.map_err(|error| self.failed(error, at.addr))
    }

    /// Erases both blocks of a pair: 60h-D1h, 60h-D0h. Returns true if both erases succeeded.
    pub(super) fn erase_pair(&mut self, addr: u64) -> Result<bool, Error> {
        self.profile.page(&mut self.host);
        let pair = self.page_pair(addr, 0);
        pair.iter().for_each(|at| self.forget_block(at.addr));
        self.bus.select(pair[0].target);
        let [one, two] = pair.map(|at| self.row_address(at.row));
        let wait = || Instr::Wait(self.info.t_bers_max);
        let mut steps = [
            Instr::Cmd(c::ERASE),
            one,
            Instr::Cmd(c::ERASE_QUEUE),
            wait(),
            Instr::Cmd(c::ERASE),
            two,
            Instr::Cmd(c::ERASE_CONFIRM),
            wait(),
        ];
        let erased = self.bus.exec(&mut self.host, &mut steps).and_then(|()| self.succeeded());
        erased.map_err(|error| self.failed(error, addr))
    }
}
