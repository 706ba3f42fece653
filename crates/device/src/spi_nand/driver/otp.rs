//! OTP pages: unique id and parameter page (factory area), user pages and their lock.

use super::super::command as c;
use super::SpiNandDriver;
use crate::capability::{Otp, OtpArea, OtpRegion};
use crate::nand::span::{self, Piece};
use crate::spi::{Data, SpiError, SpiMem};
use floatgate_mtd::device::{check_aligned, check_range};
use floatgate_mtd::{Done, Error, ErrorKind, Instant};

const NO_AREA: ErrorKind = ErrorKind::Unsupported("this chip has no such OTP area");

impl<S: SpiMem> SpiNandDriver<S> {
    /// First page of an OTP area, and its size in bytes.
    fn otp_area(&self, area: OtpArea) -> Option<(u32, u64)> {
        let otp = self.spec.otp.as_ref()?;
        let (first, pages) = match area {
            OtpArea::Factory => (c::UNIQUE_ID_PAGE, c::FIRST_USER_PAGE),
            OtpArea::User => (c::FIRST_USER_PAGE, otp.user_pages),
        };
        Some((first, u64::from(pages) * u64::from(self.geometry.write_bytes)))
    }

    fn area_for(&self, area: OtpArea, addr: u64, len: u64) -> Result<u32, Error> {
        let now = self.host.now();
        let (first, size) = self.otp_area(area).ok_or_else(|| NO_AREA.at(addr, now))?;
        check_range(now, addr, len, size)?;
        Ok(first)
    }

    /// Calls `body` while OTP pages are accessed instead of the array; they are the OTP pages of
    /// die 0.
    fn with_otp<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T, SpiError>) -> Result<T, SpiError> {
        self.select_die(0)?;
        self.update_config(c::OTP_ENABLE, c::OTP_ENABLE)?;
        let outcome = body(self);
        self.update_config(c::OTP_ENABLE | c::OTP_LOCK, 0)?;
        outcome
    }

    fn otp_locked(&mut self) -> Result<bool, SpiError> {
        self.with_otp(|driver| Ok(driver.get_feature(c::CONFIG)? & c::OTP_LOCK != 0))
    }

    fn read_otp_span(&mut self, first: u32, addr: u64, buf: &mut [u8]) -> Result<(), SpiError> {
        for Piece { page, column, range } in span::pieces(addr, buf.len(), self.geometry.write_bytes) {
            self.profile.page(&mut self.host);
            self.page_to_cache(first + page)?;
            self.read_cache(0, column as u32, &mut buf[range])?;
        }
        Ok(())
    }

    /// Writes pages of the OTP area. True if the program of a page failed.
    fn write_otp_pages(&mut self, first: u32, addr: u64, data: &[u8]) -> Result<bool, SpiError> {
        let page_bytes = self.geometry.write_bytes;
        let page = first + (addr / u64::from(page_bytes)) as u32;
        let mut raw = vec![0xFF; self.page.len()];
        for (page, bytes) in (page..).zip(data.chunks_exact(page_bytes as usize)) {
            raw[..bytes.len()].copy_from_slice(bytes);
            self.profile.page(&mut self.host);
            if self.program_otp(page, &raw)? & c::PROGRAM_FAILED != 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Programs an OTP page. OTP pages have no planes, so the column has no select bit.
    fn program_otp(&mut self, page: u32, raw: &[u8]) -> Result<u8, SpiError> {
        self.exec(&self.lines.command(c::WRITE_ENABLE), Data::None)?;
        let load = crate::spi::SpiOp { addr: 0, len: raw.len() as u32, ..self.load_op };
        self.bus.mapped(&mut self.host, &load, Data::Out(raw))?;
        self.exec(&self.lines.row(c::PROGRAM_EXECUTE, page), Data::None)?;
        self.wait(self.waits.program)
    }
}

impl<S: SpiMem> Otp for SpiNandDriver<S> {
    fn otp_regions(&self, _: OtpArea) -> usize {
        usize::from(self.spec.otp.is_some())
    }

    fn otp_info(&mut self, now: Instant, area: OtpArea, index: usize) -> Result<(OtpRegion, Instant), Error> {
        self.begin(now);
        let Some((_, len)) = self.otp_area(area).filter(|_| index == 0) else {
            return Err(NO_AREA.at(0, self.host.now()));
        };
        let locked = match area {
            OtpArea::Factory => true,
            OtpArea::User => self.otp_locked().map_err(|error| self.failed(error, 0))?,
        };
        Ok((OtpRegion { start: 0, len, locked }, self.host.now()))
    }

    fn otp_read(&mut self, now: Instant, area: OtpArea, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        self.begin(now);
        let first = self.area_for(area, addr, buf.len() as u64)?;
        let outcome = self.with_otp(|driver| driver.read_otp_span(first, addr, buf));
        outcome.map_err(|error| self.failed(error, addr))?;
        Ok(self.done())
    }

    fn otp_write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        self.begin(now);
        let first = self.area_for(OtpArea::User, addr, data.len() as u64)?;
        check_aligned(self.host.now(), addr, data.len() as u64, self.geometry.write_bytes)?;
        let outcome = self.with_otp(|driver| driver.write_otp_pages(first, addr, data));
        let failed = outcome.map_err(|error| self.failed(error, addr))?;
        if failed { Err(ErrorKind::ProgramFailed.at(addr, self.host.now())) } else { Ok(self.done()) }
    }

    /// Locks all user pages; the chip cannot lock single pages.
    fn otp_lock(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.begin(now);
        self.area_for(OtpArea::User, addr, len)?;
        let whole = self.otp_area(OtpArea::User).is_some_and(|(_, size)| addr == 0 && len == size);
        if !whole {
            let why = ErrorKind::Unsupported("the OTP pages of this chip are locked all at once");
            return Err(why.at(addr, self.host.now()));
        }
        let locked = self.with_otp(|driver| {
            driver.update_config(c::OTP_LOCK, c::OTP_LOCK)?;
            driver.exec(&driver.lines.command(c::WRITE_ENABLE), Data::None)?;
            driver.exec(&driver.lines.row(c::PROGRAM_EXECUTE, 0), Data::None)?;
            driver.wait(driver.waits.program)
        });
        locked.map_err(|error| self.failed(error, addr))?;
        Ok(self.done())
    }
}
