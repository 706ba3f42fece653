//! Read retry: repeated reads of a page with shifted read thresholds.

use super::RawNandDriver;
use super::discover::set_feature;
use super::page::PageAt;
use crate::ecc_engine::Corrected;
use crate::raw_nand::bus::{Address, Instr, NandBus};
use crate::raw_nand::command as c;
use crate::raw_nand::spec::{ReadRetry, RetryKind};
use floatgate_mtd::{Error, ErrorKind};

impl<B: NandBus> RawNandDriver<B> {
    /// Tries the read retry modes in order, then restores the normal mode (Linux:
    /// `nand_do_read_ops`).
    #[cold]
    pub(super) fn retry(&mut self, at: PageAt, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, Error> {
        let Some(retry) = self.info.read_retry.clone() else {
            return Err(self.error(ErrorKind::Uncorrectable, at.addr));
        };
        let mut rescued = None;
        for mode in 1..retry.modes {
            self.retries += 1;
            self.set_retry_mode(at, &retry, mode)?;
            let loaded = self.load_page(at, data, &mut oob[..self.ecc_oob]);
            loaded.map_err(|error| self.failed(error, at.addr))?;
            rescued = self.decode(at, data, oob).ok();
            if rescued.is_some() {
                break;
            }
        }
        self.set_retry_mode(at, &retry, 0)?;
        rescued.ok_or_else(|| self.error(ErrorKind::Uncorrectable, at.addr))
    }

    fn set_retry_mode(&mut self, at: PageAt, retry: &ReadRetry, mode: u8) -> Result<(), Error> {
        match retry.kind {
            RetryKind::Feature => self.set_feature_of(at, retry.feature, mode),
            RetryKind::Hynix => self.set_registers(at, retry, mode),
        }
    }

    /// Sets read retry registers of Hynix chips: address and value of each register, between two
    /// commands (Linux: nand_hynix.c).
    fn set_registers(&mut self, at: PageAt, retry: &ReadRetry, mode: u8) -> Result<(), Error> {
        self.bus.select(at.target);
        let values = retry.values.get(usize::from(mode)).map_or(&[][..], Vec::as_slice);
        let mut result = self.bus.exec(&mut self.host, &mut [Instr::Cmd(c::SET_PARAMETERS)]);
        for (register, value) in retry.registers.iter().zip(values) {
            let address = Instr::Addr(Address::byte(*register));
            let value = [*value];
            result =
                result.and_then(|()| self.bus.exec(&mut self.host, &mut [address, Instr::RegOut(&value)]));
        }
        let applied =
            result.and_then(|()| self.bus.exec(&mut self.host, &mut [Instr::Cmd(c::APPLY_PARAMETERS)]));
        applied.map_err(|error| self.failed(error, at.addr))
    }

    pub(super) fn set_feature_of(&mut self, at: PageAt, feature: u8, first: u8) -> Result<(), Error> {
        self.bus.select(at.target);
        let outcome = set_feature(&mut self.bus, &mut self.host, feature, first);
        outcome.map_err(|error| self.failed(error, at.addr))
    }
}
