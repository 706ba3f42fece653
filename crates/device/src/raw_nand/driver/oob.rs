//! Access to pages with their OOB: raw, in place, or only the free bytes.

use super::RawNandDriver;
use crate::ecc_engine::{Corrected, PageCodeError};
use crate::nand::oob;
use crate::raw_nand::bus::NandBus;
use crate::raw_nand::command as c;
use floatgate_mtd::{Error, ErrorKind, OobMode};

/// The error for an ECC configuration that cannot be used; it names the possible ones.
pub(super) fn unsupported(problem: PageCodeError) -> ErrorKind {
    ErrorKind::Unsupported(match problem {
        PageCodeError::Code(_) => {
            "no such code: a Hamming code corrects 1 bit in 256 or 512 bytes, BCH codes 1 to 72 bits in 2 to 4095 bytes"
        }
        PageCodeError::HammingStrength(_) => {
            "a Hamming code corrects 1 bit per step: set ecc.algo to \"bch\""
        }
        PageCodeError::Steps { .. } => "a page must be whole ECC steps",
        PageCodeError::Layout(_) => "ECC bytes do not fit into the OOB",
    })
}

impl<B: NandBus> RawNandDriver<B> {
    fn check_lengths(&self, addr: u64, data: usize, oob_len: usize, mode: OobMode) -> Result<(), Error> {
        let size = u64::from(oob::limit(&self.geometry, mode));
        if oob_len as u64 > size {
            return Err(self.error(ErrorKind::OutOfRange { len: oob_len as u64, size }, addr));
        }
        if data != 0 && data != 1 << self.page_shift {
            return Err(self.error(ErrorKind::Misaligned { unit: self.geometry.write_bytes }, addr));
        }
        Ok(())
    }

    pub(super) fn read_with_oob(
        &mut self,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Corrected, Error> {
        self.check_lengths(addr, data.len(), oob.len(), mode)?;
        let at = self.page_at(addr);
        self.profile.page(&mut self.host);
        let mut full = std::mem::take(&mut self.oob);
        let loaded =
            if data.is_empty() { self.load_oob(at, &mut full) } else { self.load_page(at, data, &mut full) };
        if loaded.is_ok() && self.bus.keeps_data() {
            oob::gather(&self.layout, mode, &full, oob);
        }
        self.oob = full;
        loaded.map_err(|error| self.failed(error, addr))?;
        if data.is_empty() || mode == OobMode::Raw {
            return Ok(Corrected::default());
        }
        self.correct_in_place(at, data)
    }

    /// Without data only OOB bytes are programmed: the page register initially contains ones, which do not change
    /// the page.
    pub(super) fn write_with_oob(
        &mut self,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<(), Error> {
        self.check_lengths(addr, data.len(), oob.len(), mode)?;
        let at = self.page_at(addr);
        self.check_protection(at)?;
        let mut full = self.blank_oob.clone();
        oob::scatter(&self.layout, mode, oob, &mut full);
        if data.is_empty() {
            let blank = vec![0xFF; 1 << self.page_shift];
            return self.program_raw(at, &blank, &full);
        }
        match mode {
            OobMode::Raw => self.program_raw(at, data, &full),
            OobMode::Place | OobMode::Auto => self.write_page(at, data, &full),
        }
    }

    fn program_raw(&mut self, at: super::page::PageAt, data: &[u8], oob: &[u8]) -> Result<(), Error> {
        self.profile.page(&mut self.host);
        let page = at.addr >> self.page_shift;
        self.ecc.forget(page..page + 1);
        let (failed, _) = self.store_page(at, data, oob, c::PROGRAM_CONFIRM)?;
        if failed { Err(self.error(ErrorKind::ProgramFailed, at.addr)) } else { Ok(()) }
    }
}
