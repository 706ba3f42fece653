//! Access to pages with their OOB, in the three modes of MTD.

use super::super::command as c;
use super::SpiNandDriver;
use super::page::Outcome;
use crate::ecc_engine::Corrected;
use crate::nand::{oob, span};
use crate::spi::{SpiError, SpiMem};
use floatgate_mtd::device::{check_aligned, check_range};
use floatgate_mtd::{Done, Error, ErrorKind, Instant, OobMode};

impl<S: SpiMem> SpiNandDriver<S> {
    pub(super) fn check_oob(
        &self,
        now: Instant,
        addr: u64,
        data_len: usize,
        oob_len: usize,
        mode: OobMode,
    ) -> Result<(), Error> {
        let g = &self.geometry;
        check_range(now, addr, u64::from(g.write_bytes), g.size_bytes)?;
        check_aligned(now, addr, data_len as u64, g.write_bytes)?;
        let most = oob::limit(g, mode);
        if data_len > g.write_bytes as usize || oob_len > most as usize {
            let len = data_len.max(oob_len) as u64;
            return Err(ErrorKind::OutOfRange { len, size: u64::from(most) }.at(addr, now));
        }
        Ok(())
    }

    pub(super) fn read_page_oob(
        &mut self,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        self.profile.page(&mut self.host);
        let data_bytes = self.geometry.write_bytes as usize;
        let mut page = std::mem::take(&mut self.page);
        // A timing-only device leaves the buffer unchanged, so it must contain the caller's bytes.
        page[..data.len()].copy_from_slice(data);
        page[data_bytes..].fill(0xFF);
        oob::scatter(&self.layout, mode, oob, &mut page[data_bytes..]);
        let outcome = self.read_raw_or_corrected(addr, &mut page, data.is_empty(), mode);
        // Bits that were counted instead of corrected must not be wrong in the caller's buffer.
        if mode == OobMode::Raw || !self.counts() {
            data.copy_from_slice(&page[..data.len()]);
        }
        oob::gather(&self.layout, mode, &page[data_bytes..], oob);
        self.page = page;
        match outcome.map_err(|error| self.failed(error, addr))? {
            Ok(bits) => Ok(span::done(self.host.now(), bits, self.retries)),
            Err(_) => Err(ErrorKind::Uncorrectable.at(addr, self.host.now())),
        }
    }

    fn read_raw_or_corrected(
        &mut self,
        addr: u64,
        page: &mut [u8],
        oob_only: bool,
        mode: OobMode,
    ) -> Result<Outcome, SpiError> {
        let row = self.row(addr)?;
        let column = if oob_only { self.geometry.write_bytes } else { 0 };
        if mode != OobMode::Raw && !oob_only {
            return self.read_page(row, page);
        }
        if mode == OobMode::Raw {
            self.update_config(c::ECC_ENABLE, 0)?;
        }
        self.page_to_cache(row)?;
        self.read_cache(row, column, &mut page[column as usize..])?;
        self.restore_ecc()?;
        Ok(Ok(Corrected::default()))
    }

    pub(super) fn write_page_oob(
        &mut self,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let data_bytes = self.geometry.write_bytes as usize;
        self.page.fill(0xFF);
        self.page[..data.len()].copy_from_slice(data);
        oob::scatter(&self.layout, mode, oob, &mut self.page[data_bytes..]);
        if mode == OobMode::Raw {
            self.program_raw(addr)?;
        } else {
            self.program_page(addr, !data.is_empty())?;
        }
        Ok(self.done())
    }

    /// Programs the page buffer with the on-die ECC disabled.
    pub(super) fn program_raw(&mut self, addr: u64) -> Result<(), Error> {
        let off = self.row(addr).and_then(|_| self.update_config(c::ECC_ENABLE, 0));
        off.map_err(|error| self.failed(error, addr))?;
        let outcome = self.program_page(addr, false);
        self.restore_ecc().map_err(|error| self.failed(error, addr))?;
        outcome
    }
}
