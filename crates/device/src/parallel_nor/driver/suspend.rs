//! Reads during a program or an erase: a second thread suspends the operation, reads, and resumes it.

use super::CfiDriver;
use crate::parallel_nor::bus::NorMem;
use crate::parallel_nor::command::{amd, intel};
use floatgate_mtd::device::{check_aligned, check_range};
use floatgate_mtd::{Done, Error, ErrorKind, Instant, Mtd, Nanos};

/// Timeout of a driver for a suspend (Linux: 100 ms for execute-in-place).
const SUSPEND_TIMEOUT: Nanos = Nanos::from_ms(100);

impl<B: NorMem> CfiDriver<B> {
    /// Write with a read by a second thread. The reader arrives as soon as the first program is running; the
    /// writer holds the chip until then.
    pub(super) fn suspend_write(
        &mut self,
        now: Instant,
        write: (u64, &[u8]),
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error> {
        let (addr, data) = (write.0 as u32, write.1);
        self.begin(now);
        check_range(self.host.now(), write.0, data.len() as u64, self.geometry.size_bytes)?;
        check_range(self.host.now(), read.0, read.1.len() as u64, self.geometry.size_bytes)?;
        if data.is_empty() {
            return Ok((self.done(), self.read(now, read.0, read.1)?));
        }
        self.profile.page(&mut self.host);
        let (len, plan) = self.start_piece(addr, data)?;
        let got = self.suspended_read(now, read)?;
        self.finish(addr, plan, ErrorKind::ProgramFailed)?;
        self.write_pieces(addr + len, &data[len as usize..])?;
        Ok((self.done(), got))
    }

    /// Erases the largest-size block at `addr`, which a second thread suspends for a read requested at
    /// `read_at`. Without [`super::Options::suspend`], or on a chip without suspend, the read follows the
    /// erase.
    ///
    /// # Errors
    /// The errors of [`Mtd::erase`] and [`Mtd::read`].
    pub fn read_while_erase(
        &mut self,
        now: Instant,
        addr: u64,
        read_at: Instant,
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error> {
        let len = u64::from(self.geometry.erase_bytes);
        if !self.options.suspend || !self.identity.erase_suspend {
            let erased = self.erase(now, addr, len)?;
            let got = self.read(read_at.max(erased.at), read.0, read.1)?;
            return Ok((erased, got));
        }
        self.begin(now);
        check_range(self.host.now(), addr, len, self.geometry.size_bytes)?;
        check_range(self.host.now(), read.0, read.1.len() as u64, self.geometry.size_bytes)?;
        check_aligned(self.host.now(), addr, len, self.geometry.erase_bytes)?;
        let Some(block) = self.map.at(addr as u32) else {
            return self.fail(ErrorKind::OutOfRange { len, size: self.geometry.size_bytes }, addr as u32);
        };
        self.profile.page(&mut self.host);
        self.start_erase(&block)?;
        let got = self.suspended_read(read_at, read)?;
        self.finish(block.start, self.erase_plan(1), ErrorKind::EraseFailed)?;
        let rest = u64::from(block.len);
        self.erase_rest(addr + rest, len - rest)?;
        Ok((self.done(), got))
    }

    /// Erases the small blocks after the first one.
    fn erase_rest(&mut self, addr: u64, len: u64) -> Result<(), Error> {
        let mut next = addr;
        while let Some(block) = self.map.at(next as u32).filter(|_| next < addr + len) {
            self.start_erase(&block)?;
            self.finish(block.start, self.erase_plan(1), ErrorKind::EraseFailed)?;
            next += u64::from(block.len);
        }
        Ok(())
    }

    /// A read of a separate thread, requested at `asked`; its time is not booked to the foreground.
    fn suspended_read(&mut self, asked: Instant, read: (u64, &mut [u8])) -> Result<Done, Error> {
        let mut reader = self.host.fork();
        reader.resume(asked);
        std::mem::swap(&mut self.host, &mut reader);
        let outcome = self.suspend_read_resume(read);
        let done = self.done();
        std::mem::swap(&mut self.host, &mut reader);
        self.host.join(reader);
        outcome.map(|()| done)
    }

    fn suspend_read_resume(&mut self, (addr, buf): (u64, &mut [u8])) -> Result<(), Error> {
        self.profile.call(&mut self.host);
        let at = addr as u32;
        self.command(at, if self.is_amd() { amd::SUSPEND } else { intel::SUSPEND })?;
        self.shows_status = !self.is_amd();
        let plan = self.plan(Nanos::ZERO, Nanos::from_us(1), SUSPEND_TIMEOUT);
        self.finish(at, plan, ErrorKind::Timeout)?;
        self.show_array()?;
        let outcome = self.fetch(at, buf);
        // If the operation ended before the suspend, the chip ignores this command.
        self.command(at, if self.is_amd() { amd::RESUME } else { intel::RESUME })?;
        self.shows_status = !self.is_amd();
        outcome
    }
}
