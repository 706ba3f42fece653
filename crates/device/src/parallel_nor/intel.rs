//! Command set 0001 (Intel/Sharp): two-cycle commands and a status register.
//!
//! The model is stricter than silicon: an invalid sequence is rejected and the state reset, instead of an error bit in the
//! status register. Failures must be cleared (50h) before the next operation. Array data can be read only in read-array
//! mode.

use super::amd::{check_aligned, check_word};
use super::cells::{Cells, Work};
use super::command::QUERY;
use super::command::intel as c;
use super::load::Load;
use super::spec::LockScheme;
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

/// Command started by the first cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Idle,
    /// 40h was written; the next write cycle is the word to program.
    Program,
    /// E8h was written for the block at this address; the number of words must follow.
    Count { block: u32 },
    /// Words of the program buffer are expected, then D0h.
    Load,
    /// 20h was written for the block at this address.
    Erase { block: u32 },
    /// 60h was written.
    Lock,
    /// C0h was written.
    Protection,
}

/// Data that reads return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Show {
    #[default]
    Array,
    Status,
    Id,
    Query,
}

/// Command interface of set 0001.
#[derive(Clone, Debug)]
pub(super) struct Intel {
    step: Step,
    show: Show,
    load: Load,
    /// Error bits, which stay set until they are cleared.
    errors: u8,
}

impl Intel {
    pub(super) fn new(cells: &Cells) -> Self {
        let load = Load::new(cells.spec.geometry.buffer_bytes as usize);
        Self { step: Step::Idle, show: Show::Array, load, errors: 0 }
    }

    /// Sets the status bit for a failure of the array.
    pub(super) fn note_failure(&mut self, cells: &mut Cells) {
        match cells.failed.take() {
            Some(Work::Erase) => self.errors |= c::ERASE_ERROR,
            Some(Work::Program | Work::Lock) => self.errors |= c::PROGRAM_ERROR,
            None => {}
        }
    }

    pub(super) fn write(
        &mut self,
        cells: &mut Cells,
        at: Instant,
        addr: u32,
        data: &[u8],
    ) -> Result<(), Violation> {
        let result = self.decode(cells, at, addr, data);
        if result.is_err() {
            self.step = Step::Idle;
        }
        result
    }

    fn decode(&mut self, cells: &mut Cells, at: Instant, addr: u32, data: &[u8]) -> Result<(), Violation> {
        let command = data[0];
        if cells.busy(at) {
            return match command {
                c::READ_STATUS => {
                    self.show = Show::Status;
                    Ok(())
                }
                c::SUSPEND => cells.suspend(at),
                _ => Err(Violation::Busy),
            };
        }
        match std::mem::take(&mut self.step) {
            Step::Idle => self.first(cells, at, addr, command),
            Step::Program => self.program(cells, at, addr, data),
            Step::Count { block } => self.count(cells, addr, block, command),
            Step::Load => self.buffer(cells, at, addr, data),
            Step::Erase { block } => self.erase(cells, at, addr, block, command),
            Step::Lock => self.lock(cells, at, addr, command),
            Step::Protection => Self::protect(cells, at, addr, data),
        }
    }

    fn first(&mut self, cells: &mut Cells, at: Instant, addr: u32, command: u8) -> Result<(), Violation> {
        let step = match command {
            c::READ_ARRAY => return self.mode(Show::Array),
            c::READ_STATUS => return self.mode(Show::Status),
            c::READ_ID => return self.mode(Show::Id),
            QUERY => return self.mode(Show::Query),
            c::CLEAR_STATUS => {
                self.errors = 0;
                return Ok(());
            }
            c::SUSPEND => {
                self.show = Show::Status;
                return cells.suspend(at);
            }
            c::RESUME => {
                self.show = Show::Status;
                return cells.resume(at);
            }
            c::PROGRAM | c::PROGRAM_OLD => Step::Program,
            c::BUFFERED_PROGRAM if cells.spec.geometry.buffer_bytes > 0 => {
                Step::Count { block: cells.block(addr)?.start }
            }
            c::BLOCK_ERASE => Step::Erase { block: cells.block(addr)?.start },
            c::LOCK_SETUP if cells.spec.lock != LockScheme::None => Step::Lock,
            c::PROGRAM_PROTECTION if cells.spec.otp.is_some() => Step::Protection,
            _ => return Err(Violation::UnknownCommand(command)),
        };
        if self.errors != 0 {
            return Err(Violation::Sequence("the status register must be cleared after a failure"));
        }
        (self.step, self.show) = (step, Show::Status);
        Ok(())
    }

    fn mode(&mut self, show: Show) -> Result<(), Violation> {
        self.show = show;
        Ok(())
    }

    /// True if a lock prevents the operation; the status register then contains this error.
    fn blocked(&mut self, cells: &Cells, block: u32, error: u8) -> bool {
        let locked = cells.locked[block as usize];
        if locked {
            self.errors |= c::BLOCK_LOCKED | error;
        }
        locked
    }

    fn program(&mut self, cells: &mut Cells, at: Instant, addr: u32, data: &[u8]) -> Result<(), Violation> {
        check_word(cells, addr, data)?;
        let block = cells.block(addr)?;
        cells.may_start(&block, Work::Program)?;
        if self.blocked(cells, block.index, c::PROGRAM_ERROR) {
            return Ok(());
        }
        cells.program(at, addr, data, data.len() as u32, false)
    }

    fn count(&mut self, cells: &Cells, addr: u32, block: u32, command: u8) -> Result<(), Violation> {
        if cells.block(addr)?.start != block {
            return Err(Violation::Sequence("word count for another block"));
        }
        self.load.begin(block, (u32::from(command) + 1) * cells.width)?;
        self.step = Step::Load;
        Ok(())
    }

    /// Accepts buffer words, or the confirmation. Several words may be passed in one call.
    fn buffer(&mut self, cells: &mut Cells, at: Instant, addr: u32, data: &[u8]) -> Result<(), Violation> {
        let block = cells.block(addr)?;
        if block.start != self.load.block {
            return Err(Violation::Sequence("buffer words or D0h in another block"));
        }
        if !self.load.full() {
            check_aligned(cells, addr, data)?;
            self.load.add_words(addr, data, cells.array.stores())?;
            self.step = Step::Load;
            return Ok(());
        }
        if data[0] != c::CONFIRM || data.len() > cells.width as usize {
            return Err(Violation::Sequence("D0h must follow the announced number of words"));
        }
        cells.may_start(&block, Work::Program)?;
        if self.blocked(cells, block.index, c::PROGRAM_ERROR) {
            return Ok(());
        }
        cells.program(at, self.load.start, self.load.data(), self.load.len, true)
    }

    fn erase(
        &mut self,
        cells: &mut Cells,
        at: Instant,
        addr: u32,
        named: u32,
        command: u8,
    ) -> Result<(), Violation> {
        let block = cells.block(addr)?;
        if command != c::CONFIRM || block.start != named {
            return Err(Violation::Sequence("20h must be followed by D0h in the same block"));
        }
        cells.may_start(&block, Work::Erase)?;
        if !self.blocked(cells, block.index, c::ERASE_ERROR) {
            cells.erase(at, &block);
        }
        Ok(())
    }

    fn lock(&mut self, cells: &mut Cells, at: Instant, addr: u32, command: u8) -> Result<(), Violation> {
        let block = cells.block(addr)?;
        cells.may_start(&block, Work::Lock)?;
        let legacy = cells.spec.lock == LockScheme::Legacy;
        let timing = &cells.spec.timing;
        let time = match command {
            c::LOCK => timing.t_lock_us,
            c::CONFIRM => timing.t_unlock_us,
            _ => return Err(Violation::Sequence("60h must be followed by 01h or D0h")),
        };
        let on = command == c::LOCK;
        if legacy && !on {
            cells.locked.fill(false);
        } else {
            cells.locked[block.index as usize] = on;
        }
        cells.start(Work::Lock, at, if legacy { time } else { Nanos::ZERO }, false, 0..0);
        Ok(())
    }

    /// Programs the protection register. If bit 1 of its lock word is programmed to 0, the user's part is locked
    /// permanently.
    fn protect(cells: &mut Cells, at: Instant, addr: u32, data: &[u8]) -> Result<(), Violation> {
        check_word(cells, addr, data)?;
        cells.may_start(&cells.block(0)?, Work::Lock)?;
        let lock_at = Self::lock_address(cells)?;
        let Some(offset) = addr.checked_sub(lock_at) else { return Err(Violation::BadAddress) };
        let word = cells.byte_address(1);
        if offset >= word {
            return cells.program_otp(at, (offset - word) as usize, data);
        }
        if offset == 0 && data[0] & 2 == 0 {
            cells.otp.locked = true;
        }
        let time = cells.spec.timing.t_word_us.typ;
        cells.start(Work::Lock, at, time, false, 0..0);
        Ok(())
    }

    fn lock_address(cells: &Cells) -> Result<u32, Violation> {
        let otp = cells.spec.otp.ok_or(Violation::UnknownCommand(c::PROGRAM_PROTECTION))?;
        Ok(cells.byte_address(otp.lock_word.into()))
    }

    /// Reads the bus in the current mode.
    pub(super) fn read(
        &mut self,
        cells: &Cells,
        at: Instant,
        addr: u32,
        out: &mut [u8],
    ) -> Result<(), Violation> {
        // Between E8h and the number of words, status reads show if the buffer is available.
        if !matches!(self.step, Step::Idle | Step::Count { .. }) {
            return Err(Violation::Sequence("read in the middle of a command"));
        }
        if self.show == Show::Status || cells.busy(at) {
            if out.len() > cells.width as usize {
                return Err(Violation::Sequence("the chip shows its status, not the array"));
            }
            cells.show(u16::from(self.status(cells, at)), addr, out);
            return Ok(());
        }
        match self.show {
            Show::Id => Self::id(cells, addr, out),
            Show::Query | Show::Status => Ok(()),
            Show::Array => cells.read(addr, out),
        }
    }

    /// True if reads return the query data.
    pub(super) fn shows_query(&self) -> bool {
        self.show == Show::Query
    }

    /// Returns id codes, the lock state of the block, and the protection register.
    fn id(cells: &Cells, addr: u32, out: &mut [u8]) -> Result<(), Violation> {
        let block = cells.block(addr)?;
        if let (Some(otp), 0) = (cells.spec.otp, block.index) {
            let first = cells.byte_address(u32::from(otp.lock_word) + 1);
            if let Some(offset) = addr.checked_sub(first).map(|n| n as usize)
                && let Some(bytes) = cells.otp.bytes.get(offset..offset + out.len())
            {
                out.copy_from_slice(bytes);
                return Ok(());
            }
            if cells.device_address(addr) == u32::from(otp.lock_word) {
                let user = if cells.otp.locked { 0 } else { 2 };
                let factory = u16::from(otp.factory_bytes == 0);
                cells.show(0xFFFC | user | factory, addr, out);
                return Ok(());
            }
        }
        let device = cells.device_address(addr - block.start);
        let word = match (block.index, cells.id_code(device)) {
            (0, Some(code)) => code,
            _ if device == 2 => cells.locked[block.index as usize].into(),
            _ => 0,
        };
        cells.show(word, addr, out);
        Ok(())
    }

    fn status(&self, cells: &Cells, at: Instant) -> u8 {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        flag(!cells.busy(at), c::READY)
            | flag(cells.suspended_erase.is_some(), c::ERASE_SUSPENDED)
            | flag(cells.suspended_program.is_some(), c::PROGRAM_SUSPENDED)
            | self.errors
    }
}
