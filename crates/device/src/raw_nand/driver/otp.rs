//! One-time-programmable pages that are enabled by a feature (Macronix and Micron SLC: feature 90h).
//!
//! OTP pages are read and programmed without ECC, as in Linux's Macronix code.

use super::RawNandDriver;
use super::page::PageAt;
use crate::capability::{NO_OTP, Otp, OtpArea, OtpRegion};
use crate::nand::span::{self, Piece};
use crate::raw_nand::bus::NandBus;
use crate::raw_nand::command as c;
use crate::raw_nand::spec::NandOtp;
use floatgate_mtd::device::check_range;
use floatgate_mtd::{Done, Error, ErrorKind, Instant};

impl<B: NandBus> RawNandDriver<B> {
    fn otp(&self) -> Option<NandOtp> {
        self.info.otp.filter(|_| self.info.set_features)
    }

    fn otp_region(&self) -> Option<OtpRegion> {
        let otp = self.otp()?;
        let len = u64::from(otp.pages) * u64::from(otp.page_bytes);
        Some(OtpRegion { start: 0, len, locked: self.otp_locked })
    }

    /// Calls `work` in OTP mode for each piece of `[addr, addr + len)` in an OTP page. OTP mode is left in any case.
    fn with_otp(
        &mut self,
        addr: u64,
        len: usize,
        mut work: impl FnMut(&mut Self, PageAt, Piece) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (Some(otp), Some(region)) = (self.otp(), self.otp_region()) else {
            return Err(self.error(ErrorKind::Unsupported("this device has no such OTP area"), addr));
        };
        check_range(self.host.now(), addr, len as u64, region.len)?;
        let home = PageAt { addr, target: 0, row: 0 };
        self.set_feature_of(home, otp.feature, otp.value)?;
        let mut result = Ok(());
        for piece in span::pieces(addr, len, otp.page_bytes) {
            let at = addr + piece.range.start as u64;
            self.profile.page(&mut self.host);
            result = work(self, PageAt { addr: at, target: 0, row: otp.first_page + piece.page }, piece);
            if result.is_err() {
                break;
            }
        }
        self.set_feature_of(home, otp.feature, 0)?;
        result
    }
}

impl<B: NandBus> Otp for RawNandDriver<B> {
    fn otp_regions(&self, area: OtpArea) -> usize {
        usize::from(area == OtpArea::User && self.otp().is_some())
    }

    fn otp_info(&mut self, now: Instant, area: OtpArea, index: usize) -> Result<(OtpRegion, Instant), Error> {
        self.begin(now);
        match self.otp_region() {
            Some(region) if area == OtpArea::User && index == 0 => Ok((region, self.host.now())),
            _ => Err(self.error(NO_OTP, 0)),
        }
    }

    fn otp_read(&mut self, now: Instant, area: OtpArea, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        self.begin(now);
        self.bounced = None;
        if area != OtpArea::User {
            return Err(self.error(NO_OTP, addr));
        }
        let page_bytes = 1usize << self.page_shift;
        let mut page = vec![0xFF; page_bytes + self.info.geometry.oob_bytes as usize];
        self.with_otp(addr, buf.len(), |driver, at, Piece { column, range, .. }| {
            let (data, oob) = page.split_at_mut(page_bytes);
            driver.load_page(at, data, oob).map_err(|error| driver.failed(error, at.addr))?;
            if driver.bus.keeps_data() {
                let len = range.len();
                buf[range].copy_from_slice(&page[column..column + len]);
            }
            Ok(())
        })?;
        Ok(self.done())
    }

    fn otp_write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        self.begin(now);
        self.bounced = None;
        let page_bytes = 1usize << self.page_shift;
        let full = page_bytes + self.info.geometry.oob_bytes as usize;
        self.with_otp(addr, data.len(), |driver, at, Piece { column, range, .. }| {
            let mut page = vec![0xFF; full];
            page[column..column + range.len()].copy_from_slice(&data[range]);
            let (body, oob) = page.split_at(page_bytes);
            let (failed, _) = driver.store_page(at, body, oob, c::PROGRAM_CONFIRM)?;
            if failed { Err(driver.error(ErrorKind::ProgramFailed, at.addr)) } else { Ok(()) }
        })?;
        Ok(self.done())
    }

    /// Locks the whole OTP area. The chip has a single lock whose state cannot be read (Linux: same comment on
    /// MX30LFxG18AC).
    fn otp_lock(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.begin(now);
        self.bounced = None;
        let lock = self.otp().and_then(|otp| otp.lock.map(|lock| (otp, lock)));
        let (Some((otp, lock)), Some(region)) = (lock, self.otp_region()) else {
            return Err(self.error(ErrorKind::Unsupported("no known way to lock this OTP area"), addr));
        };
        check_range(self.host.now(), addr, len, region.len)?;
        if (addr, len) != (region.start, region.len) {
            return Err(self.error(ErrorKind::Unsupported("the OTP area has one lock for all of it"), addr));
        }
        let at = PageAt { addr, target: 0, row: lock.row };
        self.set_feature_of(at, otp.feature, lock.value)?;
        let zeros = vec![0; 1 << self.page_shift];
        let outcome = self.store_page(at, &zeros, &[], c::PROGRAM_CONFIRM);
        self.set_feature_of(at, otp.feature, 0)?;
        self.otp_locked |= outcome.as_ref().is_ok_and(|(failed, _)| !failed);
        outcome.map(|_| self.done())
    }
}
