//! Page and block operations: read, continuous read, write, erase, ECC results, read retry.

use super::super::command as c;
use super::super::spec::EccStatus;
use super::SpiNandDriver;
use super::select::{NoStream, Stream};
use crate::ecc_engine::{Corrected, Uncorrectable};
use crate::nand::span::{self, ReadSum};
use crate::spi::{Data, SpiError, SpiMem, SpiOp};
use floatgate_mtd::{Done, Error, ErrorKind};

/// ECC result of a page. Bus failures are separate errors.
pub(super) type Outcome = Result<Corrected, Uncorrectable>;

impl<S: SpiMem> SpiNandDriver<S> {
    /// Reads any range. An uncorrectable page does not prevent reads of the other pages.
    #[inline]
    pub(super) fn read_range(&mut self, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        let page_bytes = self.geometry.write_bytes as usize;
        let mut sum = ReadSum::default();
        let (mut at, mut rest) = (addr, buf);
        while !rest.is_empty() {
            let inside = (at % page_bytes as u64) as usize;
            let streamed = self.streamable(at, inside, rest.len());
            let len = streamed.map_or(page_bytes - inside, |s| s.1).min(rest.len());
            let (part, later) = rest.split_at_mut(len);
            let outcome = match streamed {
                Some((stream, _)) => self.read_stream(stream, at, part, &mut sum),
                None => self.read_part(at, inside, part).map(|outcome| sum.add(outcome, at)),
            };
            outcome.map_err(|error| self.failed(error, at))?;
            (at, rest) = (at + len as u64, later);
        }
        sum.finish(self.host.now(), self.retries)
    }

    /// The continuous read and its length, if more than one whole page of a block is to be read.
    #[inline]
    fn streamable(&self, at: u64, inside: usize, len: usize) -> Option<(Stream, usize)> {
        let stream = self.stream.ok()?;
        let page_bytes = self.geometry.write_bytes as usize;
        let in_block =
            (u64::from(self.geometry.erase_bytes) - at % u64::from(self.geometry.erase_bytes)) as usize;
        let whole = len.min(in_block) / page_bytes * page_bytes;
        (inside == 0 && whole > page_bytes).then_some((stream, whole))
    }

    /// Selects the die of the page at `addr`, and returns its row address.
    #[inline]
    pub(super) fn row(&mut self, addr: u64) -> Result<u32, SpiError> {
        let page = (addr / u64::from(self.geometry.write_bytes)) as u32;
        if !self.spec.quirks.die_select {
            return Ok(page);
        }
        let per_block = self.spec.geometry.pages_per_block;
        let block = self.select(page / per_block)?;
        Ok(block * per_block + page % per_block)
    }

    /// Column address in page `row`, with its plane-select bit.
    #[inline]
    pub(super) fn column(&self, row: u32, column: u32) -> u32 {
        if !self.spec.quirks.plane_select_bit {
            return column;
        }
        let g = &self.spec.geometry;
        let plane = row / g.pages_per_block % g.planes;
        column | plane << g.plane_shift()
    }

    /// Reads a page or a part of it; the whole page is transferred.
    #[inline]
    fn read_part(&mut self, at: u64, inside: usize, part: &mut [u8]) -> Result<Outcome, SpiError> {
        let row = self.row(at)?;
        self.profile.page(&mut self.host);
        if part.len() == self.geometry.write_bytes as usize && !self.ecc.engine.on_host() {
            return self.read_page(row, part);
        }
        let mut page = std::mem::take(&mut self.page);
        let data_bytes = self.geometry.write_bytes as usize;
        let wanted = if self.ecc.engine.on_host() { page.len() } else { data_bytes };
        let counts = self.counts();
        if !counts {
            // A timing-only device leaves the buffer unchanged, so it must contain the caller's bytes.
            page[inside..inside + part.len()].copy_from_slice(part);
        }
        let outcome = self.read_page(row, &mut page[..wanted]);
        if !counts {
            part.copy_from_slice(&page[inside..inside + part.len()]);
        }
        self.page = page;
        outcome
    }

    /// Reads page `row` from column 0 into `buf` (data, or data and OOB), with correction, and with read retry if it is
    /// uncorrectable. An ECC engine on the host needs the OOB.
    #[inline]
    pub(super) fn read_page(&mut self, row: u32, buf: &mut [u8]) -> Result<Outcome, SpiError> {
        let outcome = self.read_page_once(row, buf)?;
        if outcome.is_err() && self.spec.read_retry.is_some() {
            return self.retry_page(row, buf);
        }
        Ok(outcome)
    }

    #[inline]
    fn read_page_once(&mut self, row: u32, buf: &mut [u8]) -> Result<Outcome, SpiError> {
        let status = self.page_to_cache(row)?;
        self.read_cache(row, 0, buf)?;
        if self.ecc.engine.on_host() {
            return Ok(self.decode(row, buf));
        }
        self.judge(status, false)
    }

    /// Corrects data and ECC bytes of the page just read, by the host's ECC engine.
    #[inline]
    fn decode(&mut self, row: u32, page: &mut [u8]) -> Outcome {
        let number = self.page_number(row);
        let (data, oob) = page.split_at_mut(self.geometry.write_bytes as usize);
        self.ecc.decode(&mut self.host, &self.bus, number, data, oob)
    }

    /// True if the host's ECC engine only counts wrong bits, because data is not stored.
    #[inline]
    pub(super) fn counts(&self) -> bool {
        self.ecc.engine.on_host() && !self.bus.keeps_data()
    }

    /// Page number over all dies, for page `row` of the selected die.
    #[inline]
    fn page_number(&self, row: u32) -> u64 {
        let per_die = self.spec.blocks_per_die() * self.spec.geometry.pages_per_block;
        u64::from(self.die) * u64::from(per_die) + u64::from(row)
    }

    /// Executes PAGE READ and its polls, and returns the status.
    #[inline]
    pub(super) fn page_to_cache(&mut self, row: u32) -> Result<u8, SpiError> {
        let op = self.lines.row(c::PAGE_READ, row);
        self.exec(&op, Data::None)?;
        self.wait(self.waits.read)
    }

    /// Executes READ FROM CACHE.
    #[inline]
    pub(super) fn read_cache(&mut self, row: u32, column: u32, buf: &mut [u8]) -> Result<(), SpiError> {
        let op = SpiOp { addr: self.column(row, column), len: buf.len() as u32, ..self.read_op };
        self.bus.mapped(&mut self.host, &op, Data::In(buf))
    }

    /// ECC result of the on-die engine, from the status.
    #[inline]
    fn judge(&mut self, status: u8, continuous: bool) -> Result<Outcome, SpiError> {
        if !self.on_die() || status & c::ECC_MASK == 0 {
            return Ok(Ok(Corrected::default()));
        }
        match status & c::ECC_MASK {
            c::ECC_CORRECTED => {
                let bits = self.corrected_bits(continuous)?;
                Ok(Ok(Corrected { max: bits, total: bits }))
            }
            _ => Ok(Err(Uncorrectable)),
        }
    }

    /// Number of corrected bits as reported by the chip. If it does not report them, the strength of its code, so that the
    /// page is moved in time.
    #[cold]
    fn corrected_bits(&mut self, continuous: bool) -> Result<u32, SpiError> {
        let strength = self.spec.ecc.strength;
        let bits = match self.spec.ecc_status {
            EccStatus::Plain => strength,
            EccStatus::Macronix => {
                let mut detail = [0];
                let op = self.lines.command(c::READ_ECC_STATUS).dummy(8).read(1);
                self.exec(&op, Data::In(&mut detail))?;
                u32::from(if continuous { detail[0] >> 4 } else { detail[0] & 15 })
            }
            EccStatus::WinbondDetail => u32::from(self.get_feature(c::WINBOND_ECC_STATUS)? >> 4),
            EccStatus::Gigadevice => u32::from(self.get_feature(c::GIGADEVICE_ECC_STATUS)? >> 4 & 3) + 1,
        };
        Ok(if bits == 0 || bits > strength { strength } else { bits })
    }

    /// Repeats the read with each shifted threshold until one succeeds, and restores the normal threshold.
    #[cold]
    fn retry_page(&mut self, row: u32, buf: &mut [u8]) -> Result<Outcome, SpiError> {
        let Some(retry) = &self.spec.read_retry else { return Ok(Err(Uncorrectable)) };
        let (feature, modes) = (retry.feature, retry.modes);
        let mut outcome = Err(Uncorrectable);
        for mode in 1..=modes {
            self.retries += 1;
            self.set_feature(feature, mode)?;
            outcome = self.read_page_once(row, buf)?;
            if outcome.is_ok() {
                break;
            }
        }
        self.set_feature(feature, 0)?;
        Ok(outcome)
    }

    /// Executes one PAGE READ, then transfers consecutive pages without a pause. If any of them is uncorrectable, all are read
    /// again one by one, because only this shows which page it is. As in Linux, the same happens if a controller releases CS#
    /// too early; continuous reads are then disabled.
    fn read_stream(
        &mut self,
        stream: Stream,
        at: u64,
        buf: &mut [u8],
        sum: &mut ReadSum,
    ) -> Result<(), SpiError> {
        let row = self.row(at)?;
        self.profile.page(&mut self.host);
        self.update_config(stream.config_bit, if stream.set { stream.config_bit } else { 0 })?;
        let in_one = stream.cs_bytes.min(buf.len());
        let status = self.stream_pages(stream, row, &mut buf[..in_one]);
        let left = self.update_config(stream.config_bit, if stream.set { 0 } else { stream.config_bit });
        let outcome = status?;
        left?;
        if in_one < buf.len() {
            self.stream = Err(NoStream::Cannot("the controller releases CS# before the end of the block"));
        } else if outcome.is_ok() {
            sum.add(outcome, at);
            return Ok(());
        }
        let page_bytes = self.geometry.write_bytes as usize;
        for (i, page) in buf.chunks_mut(page_bytes).enumerate() {
            let outcome = self.read_page(row + i as u32, page)?;
            sum.add(outcome, at + (i * page_bytes) as u64);
        }
        Ok(())
    }

    fn stream_pages(&mut self, stream: Stream, row: u32, buf: &mut [u8]) -> Result<Outcome, SpiError> {
        self.page_to_cache(row)?;
        let op = SpiOp { len: buf.len() as u32, ..stream.op };
        self.bus.mapped(&mut self.host, &op, Data::In(buf))?;
        let status = self.get_feature(c::STATUS)?;
        self.judge(status, true)
    }

    pub(super) fn write_range(&mut self, addr: u64, data: &[u8]) -> Result<Done, Error> {
        let page_bytes = self.geometry.write_bytes as usize;
        for (i, bytes) in data.chunks_exact(page_bytes).enumerate() {
            let at = addr + (i * page_bytes) as u64;
            self.page[..page_bytes].copy_from_slice(bytes);
            self.page[page_bytes..].fill(0xFF);
            self.program_page(at, true)?;
        }
        Ok(self.done())
    }

    /// Programs the page buffer, data and OOB, into the page at `at`. With `encode` the host's engine first computes its ECC
    /// bytes.
    pub(super) fn program_page(&mut self, at: u64, encode: bool) -> Result<(), Error> {
        self.profile.page(&mut self.host);
        if encode {
            self.encode();
        }
        let number = at / u64::from(self.geometry.write_bytes);
        self.ecc.forget(number..number + 1);
        let page = std::mem::take(&mut self.page);
        let status = self.row(at).and_then(|row| self.program_row(row, &page));
        self.page = page;
        if status.map_err(|error| self.failed(error, at))? & c::PROGRAM_FAILED != 0 {
            return Err(ErrorKind::ProgramFailed.at(at, self.host.now()));
        }
        if encode {
            self.ecc.note_encoded(number);
        }
        Ok(())
    }

    /// Computes the ECC bytes of the page buffer's data into its OOB.
    fn encode(&mut self) {
        self.ecc.engine.prepare(&mut self.host, self.geometry.write_bytes);
        if self.bus.keeps_data() {
            let (data, oob) = self.page.split_at_mut(self.geometry.write_bytes as usize);
            self.ecc.engine.encode(data, oob);
        }
    }

    /// Executes WRITE ENABLE, PROGRAM LOAD, PROGRAM EXECUTE and polls, and returns the status.
    pub(super) fn program_row(&mut self, row: u32, page: &[u8]) -> Result<u8, SpiError> {
        self.exec(&self.lines.command(c::WRITE_ENABLE), Data::None)?;
        let load = SpiOp { addr: self.column(row, 0), len: page.len() as u32, ..self.load_op };
        self.bus.mapped(&mut self.host, &load, Data::Out(page))?;
        self.exec(&self.lines.row(c::PROGRAM_EXECUTE, row), Data::None)?;
        self.wait(self.waits.program)
    }

    /// Erases a block, unless it is bad.
    pub(super) fn erase_block(&mut self, block: u32) -> Result<(), Error> {
        let at = span::block_addr(&self.geometry, block);
        self.profile.page(&mut self.host);
        if self.block_is_bad(block)? {
            return Err(ErrorKind::BadBlock.at(at, self.host.now()));
        }
        let status = self.erase_row(block).map_err(|error| self.failed(error, at))?;
        match status & c::ERASE_FAILED {
            0 => Ok(()),
            _ => Err(ErrorKind::EraseFailed.at(at, self.host.now())),
        }
    }

    /// Executes WRITE ENABLE, BLOCK ERASE and polls, and returns the status.
    pub(super) fn erase_row(&mut self, block: u32) -> Result<u8, SpiError> {
        self.ecc.forget(span::pages_of(&self.geometry, block));
        let block = self.select(block)?;
        self.exec(&self.lines.command(c::WRITE_ENABLE), Data::None)?;
        let row = block * self.spec.geometry.pages_per_block;
        self.exec(&self.lines.row(c::BLOCK_ERASE, row), Data::None)?;
        self.wait(self.waits.erase)
    }
}
