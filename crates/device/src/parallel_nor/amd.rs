//! Command set 0002 (AMD/Fujitsu/Spansion): unlock cycles, followed by a command.
//!
//! The model is stricter than silicon. An invalid sequence is rejected and the state reset. Query and autoselect mode
//! must be left by reset before any other command. During an embedded operation only status reads, suspend and further
//! blocks of an erase are accepted.

use super::cells::{Cells, Work};
use super::command::amd as c;
use super::command::{QUERY, QUERY_AT};
use super::load::Load;
use crate::violation::Violation;
use floatgate_mtd::Instant;

/// State of the command sequence after the last write cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Idle,
    /// AAh was written; `erase` is true inside an erase sequence.
    Unlock1 { erase: bool },
    /// AAh and 55h were written.
    Unlock2 { erase: bool },
    /// 80h was written after the unlock cycles; two more unlock cycles must follow.
    EraseSetup,
    /// A0h was written; the next write cycle is the word to program.
    Program,
    /// 25h was written; the number of words must follow.
    Count { block: u32 },
    /// Words of the program buffer are expected, then 29h.
    Load,
    /// A0h was written in the lock register command set.
    LockProgram,
    /// 90h was written, which 00h must follow.
    Exit,
}

/// Data that reads return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Show {
    #[default]
    Array,
    Autoselect,
    Query,
    SecuredSilicon,
    LockRegister,
}

/// Command interface of set 0002.
#[derive(Clone, Debug)]
pub(super) struct Amd {
    step: Step,
    show: Show,
    load: Load,
    toggle: bool,
    /// Value whose inverse DQ7 shows until the program is done.
    last_bit7: u8,
}

impl Amd {
    pub(super) fn new(cells: &Cells) -> Self {
        Self {
            step: Step::Idle,
            show: Show::Array,
            load: Load::new(cells.spec.geometry.buffer_bytes as usize),
            toggle: false,
            last_bit7: 0,
        }
    }

    /// Device addresses of the unlock cycles: 555h and 2AAh in words of the chip, as byte addresses.
    fn unlock_at(cells: &Cells, second: bool) -> u32 {
        let byte_mode = cells.spec.counts_words() && cells.width == 1;
        match (second, byte_mode) {
            (false, _) => cells.byte_address(c::UNLOCK_1_AT),
            // In byte mode A-1 is compared, too: the alternating pattern continues.
            (true, true) => c::UNLOCK_2_AT_BYTE,
            (true, false) => cells.byte_address(c::UNLOCK_2_AT),
        }
    }

    /// True for an unlock address. Only A10 to A0 (and A-1) are compared.
    fn is_unlock(cells: &Cells, addr: u32, second: bool) -> bool {
        let mask = if cells.spec.counts_words() { 0xFFF } else { 0x7FF };
        addr & mask == Self::unlock_at(cells, second) & mask
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
        if cells.failed.is_some() {
            return self.after_failure(cells, addr, command);
        }
        if cells.busy(at) {
            return Self::while_busy(cells, at, addr, command);
        }
        let step = std::mem::take(&mut self.step);
        match step {
            Step::Idle => self.idle(cells, at, addr, command),
            Step::Unlock1 { erase } if command == c::UNLOCK_2 && Self::is_unlock(cells, addr, true) => {
                self.step = Step::Unlock2 { erase };
                Ok(())
            }
            Step::Unlock1 { .. } => Err(Violation::Sequence("second unlock cycle missing")),
            Step::Unlock2 { erase: true } => Self::erase(cells, at, addr, command),
            Step::Unlock2 { erase: false } => self.command(cells, addr, command),
            Step::EraseSetup if command == c::UNLOCK_1 && Self::is_unlock(cells, addr, false) => {
                self.step = Step::Unlock1 { erase: true };
                Ok(())
            }
            Step::EraseSetup => Err(Violation::Sequence("unlock cycles missing after 80h")),
            Step::Program => self.program(cells, at, addr, data),
            Step::Count { block } => self.count(cells, addr, block, command),
            Step::Load => self.buffer(cells, at, addr, data),
            Step::LockProgram => self.lock(cells, at, command),
            Step::Exit if command == c::EXIT_CONFIRM => {
                self.show = Show::Array;
                Ok(())
            }
            Step::Exit => Err(Violation::Sequence("90h must be followed by 00h here")),
        }
    }

    /// Handles a command after a failure. DQ5 stays set until reset, or until the write-to-buffer abort reset, which
    /// begins with unlock cycles.
    fn after_failure(&mut self, cells: &mut Cells, addr: u32, command: u8) -> Result<(), Violation> {
        match (self.step, command) {
            (Step::Idle | Step::Unlock2 { .. }, c::RESET) => {
                cells.failed = None;
                (self.step, self.show) = (Step::Idle, Show::Array);
                Ok(())
            }
            (Step::Idle, c::UNLOCK_1) if Self::is_unlock(cells, addr, false) => {
                self.step = Step::Unlock1 { erase: false };
                Ok(())
            }
            (Step::Unlock1 { .. }, c::UNLOCK_2) if Self::is_unlock(cells, addr, true) => {
                self.step = Step::Unlock2 { erase: false };
                Ok(())
            }
            _ => Err(Violation::Sequence("reset must follow a failure")),
        }
    }

    fn while_busy(cells: &mut Cells, at: Instant, addr: u32, command: u8) -> Result<(), Violation> {
        let window = cells.job.as_ref().is_some_and(|job| job.work == Work::Erase && at < job.window);
        match command {
            c::SUSPEND => cells.suspend(at),
            c::BLOCK_ERASE if window => {
                let block = cells.block(addr)?;
                if cells.locked[block.index as usize] {
                    return Err(Violation::Protected);
                }
                cells.erase(at, &block);
                Ok(())
            }
            _ => Err(Violation::Busy),
        }
    }

    fn idle(&mut self, cells: &mut Cells, at: Instant, addr: u32, command: u8) -> Result<(), Violation> {
        let modal = matches!(self.show, Show::Autoselect | Show::Query);
        match (command, self.show) {
            (c::RESET, Show::SecuredSilicon | Show::LockRegister) => Ok(()),
            (c::RESET, _) => {
                self.show = Show::Array;
                Ok(())
            }
            (c::SUSPEND, _) => cells.suspend(at),
            (c::RESUME, Show::Array) => cells.resume(at),
            (c::PROGRAM, Show::LockRegister) => {
                self.step = Step::LockProgram;
                Ok(())
            }
            (c::EXIT, Show::LockRegister) => {
                self.step = Step::Exit;
                Ok(())
            }
            (_, Show::LockRegister) => Err(Violation::UnknownCommand(command)),
            (QUERY, Show::Array | Show::Autoselect) if cells.device_address(addr) & 0xFF == QUERY_AT => {
                self.show = Show::Query;
                Ok(())
            }
            (c::UNLOCK_1, _) if Self::is_unlock(cells, addr, false) => {
                if modal {
                    return Err(Violation::Sequence("query and autoselect are left by reset first"));
                }
                self.step = Step::Unlock1 { erase: false };
                Ok(())
            }
            (c::UNLOCK_1 | QUERY, _) => Err(Violation::Sequence("first cycle at the wrong address")),
            (
                c::UNLOCK_2
                | c::PROGRAM
                | c::WRITE_TO_BUFFER
                | c::ERASE_SETUP
                | c::AUTOSELECT
                | c::ENTER_SECURED_SILICON,
                _,
            ) => Err(Violation::Sequence("unlock cycles missing")),
            _ => Err(Violation::UnknownCommand(command)),
        }
    }

    /// Executes the command after both unlock cycles.
    fn command(&mut self, cells: &mut Cells, addr: u32, command: u8) -> Result<(), Violation> {
        let otp = self.show == Show::SecuredSilicon;
        if command == c::WRITE_TO_BUFFER && cells.spec.geometry.buffer_bytes > 0 && !otp {
            let block = cells.block(addr)?;
            self.step = Step::Count { block: block.start };
            return Ok(());
        }
        if !Self::is_unlock(cells, addr, false) {
            return Err(Violation::Sequence("command cycle at the wrong address"));
        }
        match command {
            c::PROGRAM => self.step = Step::Program,
            c::RESET => self.show = Show::Array,
            c::EXIT if otp => self.step = Step::Exit,
            c::AUTOSELECT => self.show = Show::Autoselect,
            c::ERASE_SETUP if !otp => self.step = Step::EraseSetup,
            c::ENTER_SECURED_SILICON | c::ENTER_LOCK_REGISTER if cells.spec.otp.is_some() && !otp => {
                self.show = if command == c::ENTER_SECURED_SILICON {
                    Show::SecuredSilicon
                } else {
                    Show::LockRegister
                };
            }
            _ => return Err(Violation::UnknownCommand(command)),
        }
        Ok(())
    }

    fn erase(cells: &mut Cells, at: Instant, addr: u32, command: u8) -> Result<(), Violation> {
        match command {
            c::BLOCK_ERASE => {
                let block = cells.block(addr)?;
                cells.may_start(&block, Work::Erase)?;
                if cells.locked[block.index as usize] {
                    return Err(Violation::Protected);
                }
                cells.erase(at, &block);
                Ok(())
            }
            c::CHIP_ERASE if Self::is_unlock(cells, addr, false) => {
                let whole = cells.block(0)?;
                cells.may_start(&whole, Work::Erase)?;
                if cells.locked.contains(&true) {
                    return Err(Violation::Protected);
                }
                cells.erase_all(at);
                Ok(())
            }
            _ => Err(Violation::Sequence("80h erases with 30h or 10h only")),
        }
    }

    fn program(&mut self, cells: &mut Cells, at: Instant, addr: u32, data: &[u8]) -> Result<(), Violation> {
        check_word(cells, addr, data)?;
        self.last_bit7 = data[0] & c::DQ7;
        if self.show == Show::SecuredSilicon {
            return cells.program_otp(at, addr as usize, data);
        }
        let block = cells.block(addr)?;
        cells.may_start(&block, Work::Program)?;
        if cells.locked[block.index as usize] {
            return Err(Violation::Protected);
        }
        cells.program(at, addr, data, data.len() as u32, false)
    }

    fn count(&mut self, cells: &Cells, addr: u32, block: u32, command: u8) -> Result<(), Violation> {
        if cells.block(addr)?.start != block {
            return Err(Violation::Sequence("word count for another block"));
        }
        let words = u32::from(command) + 1;
        self.load.begin(block, words * cells.width)?;
        self.step = Step::Load;
        Ok(())
    }

    /// Accepts buffer words, or the confirmation. Several words may be passed in one call.
    fn buffer(&mut self, cells: &mut Cells, at: Instant, addr: u32, data: &[u8]) -> Result<(), Violation> {
        let block = cells.block(addr)?;
        if block.start != self.load.block {
            return Err(Violation::Sequence("buffer words or 29h in another block"));
        }
        if !self.load.full() {
            check_aligned(cells, addr, data)?;
            self.load.add_words(addr, data, cells.array.stores())?;
            self.last_bit7 = data[data.len() - cells.width as usize] & c::DQ7;
            self.step = Step::Load;
            return Ok(());
        }
        if data[0] != c::BUFFER_CONFIRM || data.len() > cells.width as usize {
            return Err(Violation::Sequence("29h must follow the announced number of words"));
        }
        cells.may_start(&block, Work::Program)?;
        if cells.locked[block.index as usize] {
            return Err(Violation::Protected);
        }
        cells.program(at, self.load.start, self.load.data(), self.load.len, true)
    }

    /// Programs the lock register. Bit 0 = 0 locks the secured silicon sector permanently.
    fn lock(&mut self, cells: &mut Cells, at: Instant, value: u8) -> Result<(), Violation> {
        if value & 1 == 0 {
            cells.otp.locked = true;
        }
        self.last_bit7 = value & c::DQ7;
        let time = cells.spec.timing.t_word_us.typ;
        cells.start(Work::Lock, at, time, false, 0..0);
        Ok(())
    }

    /// Reads the bus; during an embedded operation the result is the status.
    pub(super) fn read(
        &mut self,
        cells: &Cells,
        at: Instant,
        addr: u32,
        out: &mut [u8],
    ) -> Result<(), Violation> {
        if !matches!(self.step, Step::Idle) {
            return Err(Violation::Sequence("read in the middle of a command"));
        }
        if cells.busy(at) || cells.failed.is_some() {
            if out.len() > cells.width as usize {
                return Err(Violation::Busy);
            }
            let status = self.status(cells, at);
            cells.show(u16::from(status), addr, out);
            return Ok(());
        }
        match self.show {
            Show::Array => cells.read(addr, out),
            Show::SecuredSilicon => {
                let start = addr as usize;
                let bytes = cells.otp.bytes.get(start..start + out.len()).ok_or(Violation::BadAddress)?;
                out.copy_from_slice(bytes);
                Ok(())
            }
            Show::Query => Ok(()),
            Show::Autoselect => {
                cells.show(Self::autoselect(cells, addr)?, addr, out);
                Ok(())
            }
            Show::LockRegister => {
                cells.show(0xFFFE | u16::from(!cells.otp.locked), addr, out);
                Ok(())
            }
        }
    }

    /// True if reads return the query data.
    pub(super) fn shows_query(&self) -> bool {
        self.show == Show::Query
    }

    fn autoselect(cells: &Cells, addr: u32) -> Result<u16, Violation> {
        let block = cells.block(addr)?;
        let device = cells.device_address(addr);
        let otp = &cells.otp;
        Ok(match (device & 0xFF, cells.id_code(device & 0xFF)) {
            (_, Some(code)) => code,
            (2, _) => cells.locked[block.index as usize].into(),
            // DQ7 is set if the maker locked the sector.
            (3, _) => 0x19 | if otp.factory > 0 { u16::from(c::DQ7) } else { 0 },
            _ => 0,
        })
    }

    /// Status byte. DQ7: inverse of the last word's bit 7, 0 during an erase. DQ6: toggles with each read. DQ5: time
    /// limit exceeded. DQ3: the erase accepts no further blocks.
    fn status(&mut self, cells: &Cells, at: Instant) -> u8 {
        self.toggle = !self.toggle;
        let toggle = if self.toggle { c::DQ6 } else { 0 };
        let failed = if cells.failed.is_some() { c::DQ5 } else { 0 };
        let work = cells.failed.or_else(|| cells.job.as_ref().map(|job| job.work));
        let rest = match work {
            Some(Work::Erase) => {
                let open = cells.job.as_ref().is_some_and(|job| at < job.window);
                if open { 0 } else { c::DQ3 }
            }
            _ => !self.last_bit7 & c::DQ7,
        };
        toggle | failed | rest
    }
}

/// Checks that the access is one aligned bus word.
pub(super) fn check_word(cells: &Cells, addr: u32, data: &[u8]) -> Result<(), Violation> {
    if data.len() > cells.width as usize {
        return Err(Violation::Sequence("only program buffer words come in runs"));
    }
    check_aligned(cells, addr, data)
}

/// Checks that the access consists of whole bus words.
pub(super) fn check_aligned(cells: &Cells, addr: u32, data: &[u8]) -> Result<(), Violation> {
    let whole = addr.is_multiple_of(cells.width) && data.len().is_multiple_of(cells.width as usize);
    if whole { Ok(()) } else { Err(Violation::Sequence("a bus cycle moves one aligned word")) }
}
