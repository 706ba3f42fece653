//! Status, configuration and mode registers.

use super::SpiNor;
use super::decode::RegisterCmd;
use super::otp::Otp;
use super::work::{Kind, Work};
use crate::spi::{Data, SpiOp};
use crate::spi_nor::command::micron;
use crate::spi_nor::spec::{Addressing, QuadEnable, RegisterSet, SecurityFamily, SpiNorSpec};
use crate::violation::Violation;
use floatgate_mtd::Instant;
use std::ops::Range;

/// Write in progress (bit of the status register).
const WIP: u8 = 1 << 0;
/// Write enable latch (bit of the status register).
const WEL: u8 = 1 << 1;
/// Status register write disable (SRWD, Winbond's SRP): the status registers are locked while WP# is low.
const SRWD: u8 = 1 << 7;
/// Status register lock (SRL, formerly SRP1; status register 2): the status registers are locked until power-off.
const SRL: u8 = 1 << 0;
/// Lock bits LB1 to LB3 of the security registers (status register 2).
const LOCK_BITS: u8 = SecurityFamily::Winbond.lock_mask();

/// Registers and modes of the chip.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)]
pub(super) struct Registers {
    /// Non-volatile bits of the status register; WIP and WEL are added when it is read.
    pub(super) sr1: u8,
    pub(super) sr2: u8,
    sr3: u8,
    /// ISSI's function register, whose lock bits are permanent.
    pub(super) function: u8,
    pub(super) wel: bool,
    pub(super) program_failed: bool,
    pub(super) erase_failed: bool,
    /// True after a program or erase of a protected area (Micron's flag status register, until it is cleared).
    pub(super) protection_failed: bool,
    pub(super) addr_4b: bool,
    /// True in 8D-8D-8D mode.
    pub(super) octal: bool,
    /// Configured number of dummy cycles.
    pub(super) dummy: u8,
    /// True if 66h was the last command.
    pub(super) reset_armed: bool,
    /// True while the pin WP# is low. A reset does not change it.
    pub(super) wp_low: bool,
}

impl Registers {
    pub(super) fn new(spec: &SpiNorSpec) -> Self {
        let mut fresh = Self::default();
        fresh.power_on(spec);
        fresh
    }

    /// Register bytes that the chip retains without power.
    pub(super) const fn nonvolatile(&self) -> [u8; 4] {
        [self.sr1, self.sr2, self.sr3, self.function]
    }

    /// Sets the register bytes that the chip retains without power.
    pub(super) const fn set_nonvolatile(&mut self, bytes: [u8; 4]) {
        [self.sr1, self.sr2, self.sr3, self.function] = bytes;
    }

    /// Sets volatile registers to their defaults.
    pub(super) fn power_on(&mut self, spec: &SpiNorSpec) {
        let dummy = spec.dummy.as_ref().map_or(0, |d| d.default);
        let Self { sr1, sr2, sr3, function, wp_low, .. } = *self;
        *self = Self { sr1, sr2, sr3, function, wp_low, dummy, ..Self::default() };
    }

    /// Ends Winbond's lock of the status registers that lasts until power-off.
    pub(super) fn power_off(&mut self, spec: &SpiNorSpec) {
        if spec.registers == RegisterSet::Winbond {
            self.sr2 &= !SRL;
        }
    }
}

impl SpiNor {
    /// Executes READ ID. In 8D-8D-8D, Macronix chips send each byte twice.
    pub(super) fn read_id(&self, op: &SpiOp, out: &mut [u8]) -> Result<(), Violation> {
        if op.addr_bytes > 0 && op.addr != 0 {
            return Err(Violation::BadAddress);
        }
        let twice = self.regs.octal && self.spec.registers == RegisterSet::Macronix;
        for (at, byte) in out.iter_mut().enumerate() {
            let index = if twice { at / 2 } else { at };
            *byte = self.spec.id.get(index).copied().unwrap_or(0);
        }
        Ok(())
    }

    /// Executes READ SFDP, which returns FFh beyond the tables.
    pub(super) fn read_sfdp(&self, op: &SpiOp, out: &mut [u8]) -> Result<(), Violation> {
        for (at, byte) in (op.addr as usize..).zip(out) {
            *byte = self.sfdp.get(at).copied().unwrap_or(0xFF);
        }
        Ok(())
    }

    pub(super) fn register_command(
        &mut self,
        cmd: RegisterCmd,
        end: Instant,
        op: &SpiOp,
        data: Data<'_>,
    ) -> Result<(), Violation> {
        match data {
            Data::In(out) => {
                let value = self.register(cmd, end, op)?;
                out.fill(value);
                Ok(())
            }
            Data::Out(bytes) => self.write_register(cmd, end, op, bytes),
            Data::None => self.switch(cmd),
        }
    }

    /// Value of a register. Status registers contain the state at the end of the operation.
    fn register(&self, cmd: RegisterCmd, end: Instant, op: &SpiOp) -> Result<u8, Violation> {
        let busy = end < self.work.end;
        Ok(match cmd {
            RegisterCmd::ReadStatus => {
                self.regs.sr1 | flag(busy, WIP) | flag(self.regs.wel, WEL) | self.status_fail_bits(busy)
            }
            RegisterCmd::ReadStatus2 if self.spec.registers == RegisterSet::Winbond => {
                self.regs.sr2 | flag(self.suspended.is_some(), 1 << 7)
            }
            RegisterCmd::ReadStatus2 => self.regs.sr2,
            RegisterCmd::ReadStatus3 => self.regs.sr3 | flag(self.regs.addr_4b, 1),
            RegisterCmd::ReadFunction => self.regs.function,
            RegisterCmd::ReadSecurity => self.security_register(busy),
            RegisterCmd::ReadFlagStatus => self.flag_status(busy),
            RegisterCmd::ReadConfig2 => self.config2(op.addr)?,
            _ => return Err(Violation::WrongMode(op.opcode)),
        })
    }

    fn is_suspended(&self, kind: Kind) -> bool {
        self.suspended.as_ref().is_some_and(|s| s.work.kind == kind)
    }

    /// Fail bits of Spansion's status register: 5 erase failed, 6 program failed.
    fn status_fail_bits(&self, busy: bool) -> u8 {
        let here = self.spec.registers == RegisterSet::Spansion && !busy;
        flag(here && self.regs.erase_failed, 1 << 5) | flag(here && self.regs.program_failed, 1 << 6)
    }

    /// Macronix's security register (RDSCUR): bits 0 factory lock, 1 lock-down, 2 PSB, 3 ESB, 5 P_FAIL, 6 E_FAIL.
    fn security_register(&self, busy: bool) -> u8 {
        let lock: &Otp = &self.otp;
        flag(lock.has_factory(), 1)
            | flag(lock.locked, 1 << 1)
            | flag(self.is_suspended(Kind::Program), 1 << 2)
            | flag(self.is_suspended(Kind::Erase), 1 << 3)
            | flag(!busy && self.regs.program_failed, 1 << 5)
            | flag(!busy && self.regs.erase_failed, 1 << 6)
    }

    /// Micron's flag status register: bits 0 4-byte mode, 1 protected area, 2 program suspended, 4 program failed, 5 erase failed,
    /// 6 erase suspended, 7 ready.
    fn flag_status(&self, busy: bool) -> u8 {
        flag(self.regs.addr_4b, 1)
            | flag(!busy && self.regs.protection_failed, 1 << 1)
            | flag(self.is_suspended(Kind::Program), 1 << 2)
            | flag(!busy && self.regs.program_failed, 1 << 4)
            | flag(!busy && self.regs.erase_failed, 1 << 5)
            | flag(self.is_suspended(Kind::Erase), 1 << 6)
            | flag(!busy, 1 << 7)
    }

    fn write_register(
        &mut self,
        cmd: RegisterCmd,
        end: Instant,
        op: &SpiOp,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        self.check_write_enable()?;
        let is_status =
            matches!(cmd, RegisterCmd::WriteStatus | RegisterCmd::WriteStatus2 | RegisterCmd::WriteStatus3);
        if is_status && self.is_status_locked() {
            return Err(Violation::Protected);
        }
        let Some(&first) = bytes.first() else { return Err(Violation::WrongMode(op.opcode)) };
        match cmd {
            RegisterCmd::WriteStatus => {
                self.regs.sr1 = first & !(WIP | WEL);
                match bytes.get(1) {
                    Some(&second) if !self.regs.octal => self.set_sr2(second),
                    _ => {}
                }
            }
            RegisterCmd::WriteStatus2 => self.set_sr2(first),
            RegisterCmd::WriteStatus3 => self.regs.sr3 = first & !1,
            RegisterCmd::WriteFunction => self.regs.function |= first & SecurityFamily::Issi.lock_mask(),
            RegisterCmd::WriteConfig2 => {
                self.write_config2(op, bytes)?;
                self.regs.wel = false;
                return Ok(());
            }
            _ => return Err(Violation::WrongMode(op.opcode)),
        }
        self.regs.wel = false;
        self.work = Work::other(end, self.spec.timing.t_w_us.typ, "tW");
        Ok(())
    }

    /// True while the status registers cannot be written: SRWD is set and WP# is low, or SRL is set. If the quad enable bit is set,
    /// WP# is a data line and locks nothing. (W25Q64JV data sheet, "Status Register Protect"; MX25L12835F data sheet, "Hardware
    /// Protected Mode"; Micron's chips have no such bit, and W# locks outside of the quad protocol.)
    fn is_status_locked(&self) -> bool {
        let pin_locks = self.spec.quad_enable == QuadEnable::None || !self.quad_enabled();
        let by_pin = self.spec.protection.is_some() && self.regs.sr1 & SRWD != 0 && self.regs.wp_low;
        let by_bit = self.spec.registers == RegisterSet::Winbond && self.regs.sr2 & SRL != 0;
        by_pin && pin_locks || by_bit
    }

    /// Sets status register 2. Its lock bits are one-time programmable.
    fn set_sr2(&mut self, value: u8) {
        self.regs.sr2 = value & !(1 << 7) | self.regs.sr2 & LOCK_BITS;
    }

    fn switch(&mut self, cmd: RegisterCmd) -> Result<(), Violation> {
        match cmd {
            RegisterCmd::WriteEnable => self.regs.wel = true,
            RegisterCmd::WriteDisable => self.regs.wel = false,
            RegisterCmd::ClearFlagStatus => {
                (self.regs.program_failed, self.regs.erase_failed) = (false, false);
                self.regs.protection_failed = false;
            }
            RegisterCmd::Enter4b | RegisterCmd::Exit4b => {
                if self.spec.addressing == Addressing::WrenEn4b {
                    self.check_write_enable()?;
                    self.regs.wel = false;
                }
                self.regs.addr_4b = cmd == RegisterCmd::Enter4b;
            }
            _ => return Err(Violation::Sequence("this command needs data")),
        }
        Ok(())
    }

    /// Value of a configuration register of Macronix, Micron or Infineon: the bus mode, or the dummy cycles at another address.
    fn config2(&self, addr: u32) -> Result<u8, Violation> {
        let (mode, off, on) = self.mode_register();
        if addr == mode {
            return Ok(if self.regs.octal { on } else { off });
        }
        match &self.spec.dummy {
            Some(control) if control.register == addr => Ok(control.value(self.regs.dummy).unwrap_or(0)),
            _ => Err(Violation::BadAddress),
        }
    }

    /// Address of the mode register, and its values outside and inside 8D-8D-8D. In a chip without octal modes it has no effect,
    /// and reads as in Micron parts with this register.
    fn mode_register(&self) -> (u32, u8, u8) {
        self.spec.octal.map_or((0, micron::VCR_RESET, micron::VCR_RESET), |octal| octal.mode_register())
    }

    fn write_config2(&mut self, op: &SpiOp, bytes: &[u8]) -> Result<(), Violation> {
        let value = bytes[0];
        let (mode, off, on) = self.mode_register();
        if op.addr == mode {
            if value != off && value != on {
                return Err(Violation::Sequence("reserved value of the mode register"));
            }
            self.regs.octal = value == on && on != off;
            return Ok(());
        }
        let cycles = match &self.spec.dummy {
            Some(control) if control.register == op.addr => control.cycles(value),
            _ => return Err(Violation::BadAddress),
        };
        self.regs.dummy = cycles.ok_or(Violation::Sequence("reserved number of dummy cycles"))?;
        Ok(())
    }

    /// Address range that the block protection bits protect.
    pub(super) fn protected(&self) -> Range<u64> {
        let Some(spec) = &self.spec.protection else { return 0..0 };
        let bit = |n: &u8| u32::from(self.regs.sr1 >> n & 1);
        let level = (0..).zip(&spec.bp_bits).fold(0, |level, (at, n)| level | bit(n) << at);
        let size = self.spec.geometry.size_bytes;
        let len = match level {
            0 => 0,
            _ => (u64::from(spec.unit_bytes) << (level - 1).min(40)).min(size),
        };
        let is_bottom = spec.tb_bit.is_some_and(|n| bit(&n) == 1);
        let is_complement = spec.cmp_bit.is_some_and(|n| self.regs.sr2 >> n & 1 == 1);
        match (is_bottom, is_complement) {
            (true, false) => 0..len,
            (true, true) => len..size,
            (false, false) => size - len..size,
            (false, true) => 0..size - len,
        }
    }
}

const fn flag(on: bool, bit: u8) -> u8 {
    if on { bit } else { 0 }
}
