//! Reads, writes and erases of address ranges.

use super::RawNandDriver;
use super::page::PageAt;
use crate::ecc_engine::Corrected;
use crate::nand::span::ReadSum;
use crate::raw_nand::bus::{Instr, NandBus};
use crate::raw_nand::command as c;
use floatgate_mtd::{Done, Error, ErrorKind};

impl<B: NandBus> RawNandDriver<B> {
    /// Reads any range. Consecutive whole pages of a block are read by cached sequential reads if chip and controller support them.
    #[inline]
    pub(super) fn read_range(&mut self, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        let page_bytes = 1usize << self.page_shift;
        let mut sum = ReadSum::default();
        let (mut addr, mut rest) = (addr, buf);
        while !rest.is_empty() {
            if self.covers_pair(addr, rest.len() as u64) {
                let (now, later) = rest.split_at_mut(2 * self.geometry.erase_bytes as usize);
                self.read_pair(addr, now, &mut sum)?;
                addr += now.len() as u64;
                rest = later;
                continue;
            }
            let column = addr as usize & (page_bytes - 1);
            let pages = if column == 0 { self.pages_in_block(addr, rest.len()) } else { 0 };
            let len = match pages {
                0 => (page_bytes - column).min(rest.len()),
                n if n > 1 && self.sequential => n * page_bytes,
                _ => page_bytes,
            };
            let (now, later) = rest.split_at_mut(len);
            if len > page_bytes {
                self.read_sequence(addr, now, &mut sum)?;
            } else if len == page_bytes {
                let page = self.read_page(self.page_at(addr), now);
                sum.add_checked(page)?;
            } else {
                let page = self.read_part(addr, column, now);
                sum.add_checked(page)?;
            }
            addr += len as u64;
            rest = later;
        }
        sum.finish(self.host.now(), self.retries)
    }

    /// Number of whole pages from `addr` (the start of a page) on, at most to the end of the block.
    #[inline]
    fn pages_in_block(&self, addr: u64, len: usize) -> usize {
        let (_, page) = self.rows.split((addr >> self.page_shift) as u32);
        (len >> self.page_shift).min((self.rows.pages_per_block() - page) as usize)
    }

    /// Reads a part of a page through a buffer, because the ECC needs the whole page. If the page is already in the buffer, it is not
    /// read again (Linux: `chip->pagecache`). With software ECC, only the required ECC steps are read (`NAND_SUBPAGE_READ`).
    fn read_part(&mut self, addr: u64, column: usize, out: &mut [u8]) -> Result<Corrected, Error> {
        let at = self.page_at(addr - column as u64);
        if self.reads_steps
            && let Some(corrected) = self.read_steps(at, column, out)?
        {
            return Ok(corrected);
        }
        let number = addr >> self.page_shift;
        let page = if self.bounced == Some(number) {
            Ok(Corrected::default())
        } else {
            let mut bounce = std::mem::take(&mut self.bounce);
            let page = self.read_page(at, &mut bounce);
            self.bounce = bounce;
            self.bounced = page.is_ok().then_some(number);
            page
        };
        if self.bus.keeps_data() {
            out.copy_from_slice(&self.bounce[column..column + out.len()]);
        }
        page
    }

    /// Reads the ECC steps that contain a part of a page; `None` if they are uncorrectable.
    fn read_steps(&mut self, at: PageAt, column: usize, out: &mut [u8]) -> Result<Option<Corrected>, Error> {
        let Some(code) = self.ecc.engine.code() else { return Ok(None) };
        let (steps, step_bytes) = (code.steps(column, out.len()), code.codec().code().step_bytes() as usize);
        let (ecc, start) = (code.ecc_range(&steps), steps.start * step_bytes);
        self.profile.page(&mut self.host);
        self.bounced = None;
        let (mut bounce, mut oob) = (std::mem::take(&mut self.bounce), std::mem::take(&mut self.oob));
        let data = &mut bounce[start..steps.end * step_bytes];
        let page = match self.load_steps(at, start, data, (ecc.start, &mut oob[ecc.clone()])) {
            Ok(()) => {
                let place = (at.addr >> self.page_shift, steps.start);
                Ok(self.ecc.decode_part(&mut self.host, &self.bus, place, data, &mut oob).ok())
            }
            Err(error) => Err(self.failed(error, at.addr)),
        };
        if self.bus.keeps_data() {
            out.copy_from_slice(&bounce[column..column + out.len()]);
        }
        (self.bounce, self.oob) = (bounce, oob);
        page
    }

    /// Reads whole pages of one block by cached sequential reads: 00h-30h, then 31h for each page, 3Fh for the last. The array reads
    /// page n+1 while page n is transferred.
    fn read_sequence(&mut self, addr: u64, buf: &mut [u8], sum: &mut ReadSum) -> Result<(), Error> {
        let page_bytes = 1usize << self.page_shift;
        let pages = buf.len() / page_bytes;
        let mut oob = std::mem::take(&mut self.oob);
        let mut at = self.page_at(addr);
        let mut result = Ok(());
        for (index, data) in buf.chunks_exact_mut(page_bytes).enumerate() {
            self.profile.page(&mut self.host);
            let last = index + 1 == pages;
            result = self.sequence_page(at, index == 0, last, data, &mut oob[..self.ecc_oob]);
            if result.is_err() {
                break;
            }
            let page =
                self.decode(at, data, &mut oob).map_err(|_| self.error(ErrorKind::Uncorrectable, at.addr));
            result = sum.add_checked(page);
            at = PageAt { addr: at.addr + page_bytes as u64, row: at.row + 1, ..at };
        }
        self.oob = oob;
        result
    }

    #[inline]
    fn sequence_page(
        &mut self,
        at: PageAt,
        first: bool,
        last: bool,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<(), Error> {
        let wait = || Instr::Wait(self.info.t_r_max);
        let mut steps = [
            Instr::Cmd(c::READ),
            self.address(0, at.row),
            Instr::Cmd(c::READ_CONFIRM),
            wait(),
            Instr::Cmd(if last { c::READ_CACHE_END } else { c::READ_CACHE }),
            wait(),
            Instr::In(data),
            Instr::In(oob),
        ];
        if first {
            self.bus.select(at.target);
        }
        let from = if first { 0 } else { 4 };
        let to = if self.ecc_oob == 0 { 7 } else { 8 };
        let outcome = self.bus.exec(&mut self.host, &mut steps[from..to]);
        outcome.map_err(|error| self.failed(error, at.addr))
    }

    /// Writes whole pages and sub-pages. OOB bytes other than those of the ECC are FFh.
    #[inline]
    pub(super) fn write_range(&mut self, addr: u64, data: &[u8]) -> Result<(), Error> {
        let page_bytes = u64::from(self.geometry.write_bytes);
        let head = (addr.next_multiple_of(page_bytes) - addr).min(data.len() as u64) as usize;
        let (head, rest) = data.split_at(head);
        let (whole, tail) = rest.split_at(rest.len() & !(page_bytes as usize - 1));
        self.write_part(addr, head)?;
        let addr = addr + head.len() as u64;
        self.write_pages(addr, whole)?;
        self.write_part(addr + whole.len() as u64, tail)
    }

    /// Writes sub-pages of one page. The other bytes are ones, which change no cell; the ECC of a step of ones is ones, too.
    fn write_part(&mut self, addr: u64, data: &[u8]) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        let column = (addr % u64::from(self.geometry.write_bytes)) as usize;
        self.bounced = None;
        let mut page = std::mem::take(&mut self.bounce);
        page.fill(0xFF);
        page[column..column + data.len()].copy_from_slice(data);
        let blank = std::mem::take(&mut self.blank_oob);
        let result = self.write_page(self.page_at(addr - column as u64), &page, &blank);
        self.blank_oob = blank;
        self.bounce = page;
        result
    }

    /// Writes whole pages, with OOB bytes FFh.
    fn write_pages(&mut self, addr: u64, data: &[u8]) -> Result<(), Error> {
        let page_bytes = 1usize << self.page_shift;
        let blank = std::mem::take(&mut self.blank_oob);
        let mut result = Ok(());
        let (mut addr, mut rest) = (addr, data);
        while !rest.is_empty() && result.is_ok() {
            let pages = self.pages_in_block(addr, rest.len());
            let pair = self.covers_pair(addr, rest.len() as u64);
            let run = match pages {
                _ if pair => 2 * self.geometry.erase_bytes as usize,
                n if n > 1 && self.cached_programs => n * page_bytes,
                _ => page_bytes,
            };
            let (now, later) = rest.split_at(run);
            result = if pair {
                self.write_pair(addr, now, &blank)
            } else if run > page_bytes {
                self.write_sequence(addr, now, &blank)
            } else {
                self.write_page(self.page_at(addr), now, &blank)
            };
            addr += run as u64;
            rest = later;
        }
        self.blank_oob = blank;
        result
    }

    /// Programs whole pages of one block by cached programs: 15h for each page, 10h for the last. The array programs page n while page
    /// n+1 is transferred. A failure is reported in the status of the next page.
    fn write_sequence(&mut self, addr: u64, data: &[u8], blank: &[u8]) -> Result<(), Error> {
        let page_bytes = 1usize << self.page_shift;
        let pages = data.len() / page_bytes;
        for (index, page) in data.chunks_exact(page_bytes).enumerate() {
            let at = self.page_at(addr + (index * page_bytes) as u64);
            let last = index + 1 == pages;
            self.profile.page(&mut self.host);
            let confirm = if last { c::PROGRAM_CONFIRM } else { c::PROGRAM_CACHE };
            let (failed, before) =
                self.encode(at, page, blank, |driver, oob| driver.store_page(at, page, oob, confirm))?;
            if before {
                self.wait_for_array(at)?;
                return Err(self.error(ErrorKind::ProgramFailed, at.addr - page_bytes as u64));
            }
            if failed && last {
                return Err(self.error(ErrorKind::ProgramFailed, at.addr));
            }
        }
        Ok(())
    }

    /// Erases whole blocks, two at a time if planes allow it and the option is set.
    pub(super) fn erase_range(&mut self, addr: u64, len: u64) -> Result<(), Error> {
        let block_bytes = u64::from(self.geometry.erase_bytes);
        let end = addr + len;
        let mut addr = addr;
        while addr < end {
            // If one of the two erases fails, single erases show which one.
            if self.covers_pair(addr, end - addr) && self.erase_pair(addr)? {
                addr += 2 * block_bytes;
                continue;
            }
            self.refuse_bad(addr)?;
            self.erase_block(self.page_at(addr))?;
            addr += block_bytes;
        }
        Ok(())
    }
}
