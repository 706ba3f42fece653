//! One-time-programmable bytes: the protection register of set 0001, the secured silicon sector of set 0002.

use super::CfiDriver;
use crate::capability::{Otp, OtpArea, OtpRegion};
use crate::parallel_nor::bus::NorMem;
use crate::parallel_nor::command::{amd, intel};
use floatgate_mtd::device::check_range;
use floatgate_mtd::{Done, Error, ErrorKind, Instant};

impl<B: NorMem> CfiDriver<B> {
    fn otp_bytes(&self, area: OtpArea) -> u64 {
        self.identity.otp_bytes[area as usize].into()
    }

    fn check_otp(&self, area: OtpArea, addr: u64, len: u64) -> Result<(), Error> {
        let size = self.otp_bytes(area);
        if size == 0 {
            return self.fail(ErrorKind::Unsupported("this chip has no such OTP area"), addr as u32);
        }
        check_range(self.host.now(), addr, len, size)
    }

    /// Byte address of byte `addr` in an OTP area on the bus. The maker's bytes come first; in set 0001 they
    /// follow the lock word.
    fn otp_address(&self, area: OtpArea, addr: u64) -> u32 {
        let before = if area == OtpArea::User { self.identity.otp_bytes[0] } else { 0 };
        let base = if self.is_amd() { 0 } else { self.at(self.identity.otp_lock_word + 1) };
        base + before + addr as u32
    }

    /// True if the user's part is locked: bit 0 of the lock register in set 0002, bit 1 of the lock word in set
    /// 0001.
    fn otp_locked(&mut self) -> Result<bool, Error> {
        let mut word = [0; 2];
        let width = self.bus.word_bytes() as usize;
        if self.is_amd() {
            self.unlocked(amd::ENTER_LOCK_REGISTER)?;
            self.fetch(0, &mut word[..width])?;
            self.leave_set()?;
            return Ok(word[0] & 1 == 0);
        }
        self.enter_otp()?;
        self.fetch(self.at(self.identity.otp_lock_word), &mut word[..width])?;
        self.leave_otp()?;
        Ok(word[0] & 2 == 0)
    }

    fn enter_otp(&mut self) -> Result<(), Error> {
        if self.is_amd() {
            self.unlocked(amd::ENTER_SECURED_SILICON)
        } else {
            self.command(0, intel::READ_ID)
        }
    }

    fn leave_otp(&mut self) -> Result<(), Error> {
        if self.is_amd() {
            self.unlocked(amd::EXIT)?;
            return self.command(0, amd::EXIT_CONFIRM);
        }
        self.shows_status = false;
        self.command(0, intel::READ_ARRAY)
    }

    /// Exits the lock register command set of set 0002.
    fn leave_set(&mut self) -> Result<(), Error> {
        self.command(0, amd::EXIT)?;
        self.command(0, amd::EXIT_CONFIRM)
    }

    fn read_otp(&mut self, area: OtpArea, addr: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.check_otp(area, addr, buf.len() as u64)?;
        let from = self.otp_address(area, addr);
        self.enter_otp()?;
        let outcome = self.fetch(from, buf);
        self.leave_otp()?;
        outcome
    }

    fn program_otp(&mut self, addr: u64, word: &[u8]) -> Result<(), Error> {
        let to = self.otp_address(OtpArea::User, addr);
        if self.is_amd() {
            self.enter_otp()?;
            self.unlocked(amd::PROGRAM)?;
        } else {
            self.shows_status = true;
            self.command(to, intel::PROGRAM_PROTECTION)?;
        }
        let outcome = self
            .load(to, word)
            .and_then(|()| self.finish(to, self.program_plan(false), ErrorKind::ProgramFailed));
        self.leave_otp()?;
        // The rejected command also reset the sequence. The reported address is the one in the OTP area.
        outcome.map_err(|error| Error { addr, ..error })
    }
}

impl<B: NorMem> Otp for CfiDriver<B> {
    fn otp_regions(&self, area: OtpArea) -> usize {
        usize::from(self.otp_bytes(area) > 0)
    }

    fn otp_info(&mut self, now: Instant, area: OtpArea, index: usize) -> Result<(OtpRegion, Instant), Error> {
        self.begin(now);
        self.check_otp(area, 0, 0)?;
        if index > 0 {
            return self.fail(ErrorKind::Unsupported("this OTP area has one region"), 0);
        }
        let locked = area == OtpArea::Factory || self.otp_locked()?;
        Ok((OtpRegion { start: 0, len: self.otp_bytes(area), locked }, self.host.now()))
    }

    fn otp_read(&mut self, now: Instant, area: OtpArea, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        self.begin(now);
        self.read_otp(area, addr, buf)?;
        Ok(self.done())
    }

    fn otp_write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        self.begin(now);
        self.check_otp(OtpArea::User, addr, data.len() as u64)?;
        if self.otp_locked()? {
            return self.fail(ErrorKind::WriteProtected, addr as u32);
        }
        let word = u64::from(self.bus.word_bytes());
        let (mut next, mut rest) = (addr, data);
        while !rest.is_empty() {
            let into = next % word;
            let piece = ((word - into) as usize).min(rest.len());
            let mut merged = [0xFF; 2];
            let width = word as usize;
            if piece < width {
                self.read_otp(OtpArea::User, next - into, &mut merged[..width])?;
            }
            merged[into as usize..into as usize + piece].copy_from_slice(&rest[..piece]);
            self.program_otp(next - into, &merged[..width])?;
            next += piece as u64;
            rest = &rest[piece..];
        }
        Ok(self.done())
    }

    fn otp_lock(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.begin(now);
        let size = self.otp_bytes(OtpArea::User);
        self.check_otp(OtpArea::User, addr, len)?;
        if (addr, len) != (0, size) {
            return self.fail(ErrorKind::Unsupported("OTP bytes of this chip are locked all together"), 0);
        }
        let width = self.bus.word_bytes() as usize;
        let plan = self.program_plan(false);
        if self.is_amd() {
            self.unlocked(amd::ENTER_LOCK_REGISTER)?;
            self.command(0, amd::PROGRAM)?;
            self.load(0, &[0xFE, 0xFF][..width])?;
            self.finish(0, plan, ErrorKind::ProgramFailed)?;
            self.leave_set()?;
            return Ok(self.done());
        }
        let at = self.at(self.identity.otp_lock_word);
        self.shows_status = true;
        self.command(at, intel::PROGRAM_PROTECTION)?;
        self.load(at, &[0xFD, 0xFF][..width])?;
        self.finish(at, plan, ErrorKind::ProgramFailed)?;
        self.leave_otp()?;
        Ok(self.done())
    }
}
