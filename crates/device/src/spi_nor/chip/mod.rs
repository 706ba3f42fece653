//! The simulated SPI NOR chip, which executes its command set. A violated rule results in a [`Violation`], where a real
//! chip would ignore the command or corrupt data.
//!
//! - `decode`: command of an operation, and check of its mode and clock;
//! - `memory`: reads, programs and erases of the array;
//! - `registers`: status, configuration, mode switches;
//! - `otp`: security registers and other OTP areas;
//! - `work`: internal operations of the chip, suspend, resume, reset.
//!
//! A program changes the array at the end of its command, and the chip is busy afterwards.

mod decode;
mod memory;
mod otp;
mod registers;
mod work;

use super::spec::{EraseType, QuadEnable, SpiNorSpec};
use crate::array::Array;
use crate::nor::cut::Undo;
use crate::oracle::{Faults, Oracle, PageTruth};
use crate::spec::BadSpec;
use crate::spi::{Data, ReadOn, SpiChip, SpiOp, swap_words};
use crate::violation::Violation;
use decode::{Cmd, Commands};
use floatgate_mtd::Instant;
use otp::Otp;
use registers::Registers;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use work::{Suspended, Work};

/// A simulated SPI NOR chip.
#[derive(Clone, Debug)]
pub struct SpiNor {
    spec: Arc<SpiNorSpec>,
    commands: Arc<Commands>,
    erase_types: Arc<[EraseType]>,
    sfdp: Arc<[u8]>,
    array: Array,
    seed: u64,
    regs: Registers,
    otp: Otp,
    work: Work,
    /// State before the running operation.
    undo: Undo,
    suspended: Option<Suspended>,
    /// Pages whose next programs fail, by address.
    bad_pages: BTreeSet<u64>,
    /// Blocks of the smallest erase type whose next erases fail, by address.
    bad_blocks: BTreeSet<u64>,
    /// Bits that always read the same value, by byte address: mask of the bits stuck at 0, and mask of those stuck at
    /// 1.
    stuck: BTreeMap<u64, (u8, u8)>,
}

impl SpiNor {
    /// An erased chip after power-on. `seed` determines the slow blocks; with `stores` false no data is stored.
    ///
    /// # Errors
    /// The specification is impossible.
    pub fn new(spec: SpiNorSpec, seed: u64, stores: bool) -> Result<Self, BadSpec> {
        spec.check()?;
        let erase_types: Arc<[EraseType]> = spec.erase_types().into();
        let block = erase_types.first().map_or(u64::from(spec.geometry.page_bytes), |t| u64::from(t.bytes));
        let page = u64::from(spec.geometry.page_bytes);
        let blocks = spec.geometry.size_bytes / block;
        let array = Array::new(page as usize, (block / page) as usize, blocks as usize, stores);
        Ok(Self {
            commands: Arc::new(Commands::new(&spec)),
            erase_types,
            sfdp: super::sfdp::area(&spec).map_err(super::check::impossible)?.into(),
            array,
            seed,
            regs: Registers::new(&spec),
            otp: Otp::new(&spec, seed),
            work: Work::default(),
            undo: Undo::Nothing,
            suspended: None,
            bad_pages: BTreeSet::new(),
            bad_blocks: BTreeSet::new(),
            stuck: BTreeMap::new(),
            spec: Arc::new(spec),
        })
    }

    /// Specification of the chip.
    pub fn spec(&self) -> &SpiNorSpec {
        &self.spec
    }

    /// Applies a power loss at `at`, after which power is back. The effect is a reset by pin, also for packages without
    /// the pin.
    pub fn power_cycle(&mut self, at: Instant) {
        self.reset(at);
        self.regs.power_off(&self.spec);
    }

    /// Drives the pin WP#, which is initially high. While it is low and the bit SRWD (SRP) is set, the status registers
    /// cannot be written.
    pub const fn set_wp_low(&mut self, low: bool) {
        self.regs.wp_low = low;
    }

    /// Makes a bit of the array always read as `value`, independent of programs and erases.
    pub fn stick(&mut self, addr: u64, bit: u8, value: bool) {
        let (zeros, ones) = self.stuck.entry(addr).or_default();
        *if value { ones } else { zeros } |= 1u8 << (bit & 7);
    }

    /// Contents of the non-volatile registers and of the OTP area, for [`Self::set_nonvolatile`].
    pub fn nonvolatile(&self) -> Vec<u8> {
        self.regs.nonvolatile().into_iter().chain(self.otp.nonvolatile()).collect()
    }

    /// Sets the non-volatile registers and the OTP area.
    ///
    /// # Errors
    /// The bytes are not those of a chip of this part.
    pub fn set_nonvolatile(&mut self, bytes: &[u8]) -> Result<(), BadSpec> {
        let refused = || super::check::impossible("registers and OTP area of another part");
        let (registers, otp) = bytes.split_first_chunk().ok_or_else(refused)?;
        if !self.otp.set_nonvolatile(otp) {
            return Err(refused());
        }
        self.regs.set_nonvolatile(*registers);
        Ok(())
    }

    /// Size of the smallest eraseblock, which is a block of the array, bytes.
    pub fn block_bytes(&self) -> u64 {
        self.erase_types.first().map_or(1, |t| u64::from(t.bytes))
    }

    /// True if the bytes of each word are swapped between bus and array.
    #[inline]
    fn swaps_words(&self) -> bool {
        self.regs.octal && self.spec.octal.is_some_and(|octal| octal.swap16)
    }

    fn bank(&self, addr: u64) -> u8 {
        (addr / self.spec.bank_bytes().max(1)) as u8
    }

    /// Executes all commands except array reads, which are handled separately.
    fn dispatch(
        &mut self,
        cmd: Cmd,
        start: Instant,
        end: Instant,
        op: &SpiOp,
        data: Data<'_>,
    ) -> Result<(), Violation> {
        if start < self.work.end && !cmd.allowed_while_busy() {
            return Err(Violation::Busy);
        }
        let armed = std::mem::take(&mut self.regs.reset_armed);
        match (cmd, data) {
            (Cmd::Program, Data::Out(bytes)) => self.program(end, op, bytes),
            (Cmd::Erase(index), Data::None) => self.erase(usize::from(index), end, op),
            (Cmd::ChipErase, Data::None) => self.erase_chip(end),
            (Cmd::ReadId, Data::In(out)) => self.read_id(op, out),
            (Cmd::ReadSfdp, Data::In(out)) => self.read_sfdp(op, out),
            (Cmd::Suspend, Data::None) => self.suspend(start, end),
            (Cmd::Resume, Data::None) => self.resume(end),
            (Cmd::ResetEnable, Data::None) => {
                self.regs.reset_armed = true;
                Ok(())
            }
            (Cmd::Reset, Data::None) if armed => {
                self.reset(end);
                Ok(())
            }
            (Cmd::Reset, _) => Err(Violation::Sequence("99h must follow 66h")),
            (Cmd::Otp(command), data) => self.otp_command(command, end, op, data),
            (Cmd::Register(command), data) => self.register_command(command, end, op, data),
            _ => Err(Violation::WrongMode(op.opcode)),
        }
    }
}

impl PageTruth for SpiNor {
    fn keeps_data(&self) -> bool {
        self.array.stores()
    }
}

impl Oracle for SpiNor {
    fn array(&self, part: usize) -> Option<&Array> {
        (part == 0).then_some(&self.array)
    }

    fn array_mut(&mut self, part: usize) -> Option<&mut Array> {
        (part == 0).then_some(&mut self.array)
    }

    fn set_faults(&mut self, addr: u64, faults: Faults) {
        let page = addr - addr % u64::from(self.spec.geometry.page_bytes);
        let block = addr - addr % self.block_bytes();
        for (set, at, fails) in
            [(&mut self.bad_pages, page, faults.program), (&mut self.bad_blocks, block, faults.erase)]
        {
            if fails {
                set.insert(at)
            } else {
                set.remove(&at)
            };
        }
    }
}

impl SpiChip for SpiNor {
    #[inline]
    fn exec(
        &mut self,
        start: Instant,
        end: Instant,
        hz: u32,
        op: &SpiOp,
        data: Data<'_>,
    ) -> Result<(), Violation> {
        let cmd = self.decode(op, hz)?;
        match (cmd, data) {
            (Cmd::Read, Data::In(out)) => {
                self.read(start, op, out)?;
                if self.swaps_words() && self.array.stores() {
                    swap_words(out);
                }
                Ok(())
            }
            (Cmd::Program, Data::Out(bytes)) if self.swaps_words() => {
                let mut bytes = bytes.to_vec();
                swap_words(&mut bytes);
                self.dispatch(cmd, start, end, op, Data::Out(&bytes))
            }
            (cmd, data) => self.dispatch(cmd, start, end, op, data),
        }
    }

    fn shapes(&self, opcode: u8) -> Vec<crate::spi::CommandShape> {
        self.command_shapes(opcode)
    }

    fn read_on(&self, op: &SpiOp) -> ReadOn {
        self.commands.read_on(op.opcode)
    }

    #[inline]
    fn busy_until(&self) -> Instant {
        self.work.end
    }

    #[inline]
    fn busy_since(&self) -> Instant {
        self.work.since
    }

    fn busy_die(&self) -> u8 {
        self.work.bank
    }

    fn command_name(&self, op: &SpiOp) -> &'static str {
        self.commands.name(op.opcode)
    }

    fn busy_what(&self) -> &'static str {
        self.work.what
    }

    fn reset_pin(&mut self, at: Instant) {
        if self.spec.reset_pin {
            self.reset(at);
        }
    }

    fn stay_busy(&mut self, until: Instant) {
        self.work.end = self.work.end.max(until);
    }

    fn enable_quad(&mut self) {
        match self.spec.quad_enable {
            QuadEnable::None => {}
            QuadEnable::Sr1Bit6 => self.regs.sr1 |= 1 << 6,
            QuadEnable::Sr2Bit1 | QuadEnable::Sr2Bit1By01 => self.regs.sr2 |= 1 << 1,
        }
    }

    fn power_cut(&mut self, at: Instant) {
        self.power_cycle(at);
    }
}

#[cfg(test)]
mod tests;
