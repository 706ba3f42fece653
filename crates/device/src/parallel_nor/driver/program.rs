//! Programming of words and buffer loads, with their checks.

use super::CfiDriver;
use crate::parallel_nor::bus::NorMem;
use crate::parallel_nor::command::{amd, intel};
use crate::spi::PollPlan;
use floatgate_mtd::{Error, ErrorKind, Nanos};

impl<B: NorMem> CfiDriver<B> {
    /// Programs `data` in pieces, each of which is in one buffer line.
    pub(super) fn write_pieces(&mut self, addr: u32, data: &[u8]) -> Result<(), Error> {
        let (mut addr, mut rest) = (addr, data);
        while !rest.is_empty() {
            self.profile.page(&mut self.host);
            let (len, plan) = self.start_piece(addr, rest)?;
            self.finish(addr, plan, ErrorKind::ProgramFailed)?;
            addr += len;
            rest = &rest[len as usize..];
        }
        Ok(())
    }

    /// Starts the program of the first piece of `data` at `addr`. Returns its length and its polling plan.
    pub(super) fn start_piece(&mut self, addr: u32, data: &[u8]) -> Result<(u32, PollPlan), Error> {
        let word = self.bus.word_bytes();
        let into_word = addr % word;
        let len = data.len() as u32;
        if into_word > 0 || len < word {
            let piece = len.min(word - into_word);
            let plan = self.start_merged(addr, &data[..piece as usize])?;
            return Ok((piece, plan));
        }
        let room = self.line - addr % self.line;
        let piece = len.min(room) / word * word;
        let plan = self.start_words(addr, &data[..piece as usize])?;
        Ok((piece, plan))
    }

    /// Starts the program of a part of a word; the other bytes of the word are read from flash.
    fn start_merged(&mut self, addr: u32, data: &[u8]) -> Result<PollPlan, Error> {
        let word = self.bus.word_bytes();
        let start = addr - addr % word;
        let mut merged = [0xFF; 2];
        self.show_array()?;
        self.fetch(start, &mut merged[..word as usize])?;
        let into = (addr - start) as usize;
        merged[into..into + data.len()].copy_from_slice(data);
        self.start_words(start, &merged[..word as usize])
    }

    /// Starts the program of whole words in one buffer line.
    fn start_words(&mut self, addr: u32, data: &[u8]) -> Result<PollPlan, Error> {
        let word = self.bus.word_bytes();
        let buffered = self.line > word;
        let words = data.len() as u32 / word;
        match (self.is_amd(), buffered) {
            (true, false) => {
                self.unlocked(amd::PROGRAM)?;
                self.load(addr, data)?;
            }
            (true, true) => {
                self.unlock()?;
                self.command(addr, amd::WRITE_TO_BUFFER)?;
                self.load_buffer(addr, words, data, amd::BUFFER_CONFIRM)?;
            }
            (false, false) => {
                self.shows_status = true;
                self.command(addr, intel::PROGRAM)?;
                self.load(addr, data)?;
            }
            (false, true) => {
                self.shows_status = true;
                self.command(addr, intel::BUFFERED_PROGRAM)?;
                if self.status(addr)? & intel::READY == 0 {
                    return self.fail(ErrorKind::Timeout, addr);
                }
                self.load_buffer(addr, words, data, intel::CONFIRM)?;
            }
        }
        Ok(self.program_plan(buffered))
    }

    fn load_buffer(&mut self, addr: u32, words: u32, data: &[u8], confirm: u8) -> Result<(), Error> {
        self.command(addr, (words - 1) as u8)?;
        self.load(addr, data)?;
        self.command(addr, confirm)
    }

    /// Polling plan of a program. Set 0002 waits for the typical time of a word, also for a buffer program; set 0001
    /// reads the status immediately. Both then read it every microsecond.
    pub(super) fn program_plan(&self, buffered: bool) -> PollPlan {
        let initial = if self.is_amd() { self.times.word.0 } else { Nanos::ZERO };
        let timeout = if buffered { self.times.buffer.1 } else { self.times.word.1 };
        self.plan(initial, Nanos::from_us(1), timeout)
    }

    /// Waits for the operation at `addr` and reads its result; `failure` is the error to return for a failure.
    pub(super) fn finish(&mut self, addr: u32, plan: PollPlan, failure: ErrorKind) -> Result<(), Error> {
        if !self.bus.wait(&mut self.host, plan) {
            return self.fail(ErrorKind::Timeout, addr);
        }
        if self.is_amd() { self.verdict_amd(addr, failure) } else { self.verdict_intel(addr, failure) }
    }

    /// Evaluates the status of set 0002. Two reads with equal DQ6 mean that the operation is done. If DQ6 differs and
    /// DQ5 is set, two further reads decide.
    fn verdict_amd(&mut self, addr: u32, failure: ErrorKind) -> Result<(), Error> {
        let toggles = |a: u8, b: u8| (a ^ b) & amd::DQ6 != 0;
        let (first, second) = (self.status(addr)?, self.status(addr)?);
        if !toggles(first, second) {
            return Ok(());
        }
        if second & amd::DQ5 == 0 {
            return self.fail(ErrorKind::Timeout, addr);
        }
        let (third, fourth) = (self.status(addr)?, self.status(addr)?);
        if !toggles(third, fourth) {
            return Ok(());
        }
        // The write-to-buffer abort reset works after every kind of failure.
        self.unlocked(amd::RESET)?;
        self.fail(failure, addr)
    }

    fn verdict_intel(&mut self, addr: u32, failure: ErrorKind) -> Result<(), Error> {
        let status = self.status(addr)?;
        if status & intel::READY == 0 {
            return self.fail(ErrorKind::Timeout, addr);
        }
        if status & (intel::ERASE_ERROR | intel::PROGRAM_ERROR | intel::VPP_LOW | intel::BLOCK_LOCKED) == 0 {
            return Ok(());
        }
        self.command(addr, intel::CLEAR_STATUS)?;
        let locked = status & (intel::BLOCK_LOCKED | intel::VPP_LOW) != 0;
        self.fail(if locked { ErrorKind::WriteProtected } else { failure }, addr)
    }
}
