//! The Status, Control and Configuration Register Map (JESD216F, table FF87h).

use super::words::{Words, append, split};
use crate::bits::{dwords, embed};
use crate::error::MediaError;

dwords! {
    /// Access to registers with addresses (SCCR DWORDs 3 and 4).
    pub struct RegisterAccess[1..=1, reserved 0] {
        /// Dummy clocks in 1S-1S-1S mode, full code.
        dummy_1s: u8 = 1, 3, 0;
        /// Dummy clocks in 8D-8D-8D mode; 15: mode not supported.
        dummy_8d: u8 = 1, 9, 6;
        /// Dummy clocks in 8S-8S-8S mode; 15: mode not supported.
        dummy_8s: u8 = 1, 13, 10;
        /// Dummy clocks in 4S-4D-4D mode; 15: mode not supported.
        dummy_4d: u8 = 1, 17, 14;
        /// Dummy clocks in 4S-4S-4S mode; 15: mode not supported.
        dummy_4s: u8 = 1, 21, 18;
        /// Dummy clocks in 2S-2S-2S mode; 15: mode not supported.
        dummy_2s: u8 = 1, 25, 22;
        /// Dummy clocks in 1S-1S-1S mode, short code; 3: see the full code.
        dummy_1s_short: u8 = 1, 27, 26;
        /// Number of address bytes; 0: one, 1: two, 2: three, 3: four.
        address_bytes: u8 = 1, 29, 28;
        /// True if the registers can be written.
        can_write: bool = 1, 30, 30;
        /// True if the registers can be read.
        can_read: bool = 1, 31, 31;
    }
}

dwords! {
    /// Position of one register bit (SCCR DWORDs 5-8 and 14-25).
    pub struct RegisterBit[1..=1, reserved 0] {
        /// Instruction that writes the register.
        write_opcode: u8 = 1, 7, 0;
        /// Instruction that reads the register.
        read_opcode: u8 = 1, 15, 8;
        /// Local address of the register. If `addressed` is false: code of the modes and dummy clocks of the
        /// instructions.
        address: u8 = 1, 23, 16;
        /// Bit number within the register.
        bit: u8 = 1, 26, 24;
        /// True if the local address is the second-lowest address byte, not the lowest.
        second_byte: bool = 1, 27, 27;
        /// True if the instructions take an address.
        addressed: bool = 1, 28, 28;
        /// Bit 29, whose meaning depends on the register bit. For WEL: an instruction without data writes the bit. For
        /// errors: the bit reports errors of both program and erase.
        special: bool = 1, 29, 29;
        /// True if the meaning of the bit is inverted.
        inverted: bool = 1, 30, 30;
        /// True if the chip has this bit.
        available: bool = 1, 31, 31;
    }
}

dwords! {
    /// Position of the dummy clock setting (SCCR DWORDs 9 and 10).
    pub struct DummyField[1..=1, reserved 0] {
        /// Instruction that writes the register.
        write_opcode: u8 = 1, 7, 0;
        /// Instruction that reads the register.
        read_opcode: u8 = 1, 15, 8;
        /// Local address of the register.
        address: u8 = 1, 23, 16;
        /// Number of the lowest bit within the register.
        bit: u8 = 1, 26, 24;
        /// True if the local address is the second-lowest address byte, not the lowest.
        second_byte: bool = 1, 27, 27;
        /// True if the instructions take an address.
        addressed: bool = 1, 28, 28;
        /// Width code; 0: two bits, 1: three, 2: four, 3: five.
        width: u8 = 1, 30, 29;
        /// True if the chip has this setting.
        available: bool = 1, 31, 31;
    }
}

dwords! {
    /// Position of the driver strength setting (SCCR DWORDs 26 and 27).
    pub struct DriverField[1..=1, reserved 0] {
        /// Instruction that writes the register.
        write_opcode: u8 = 1, 7, 0;
        /// Instruction that reads the register.
        read_opcode: u8 = 1, 15, 8;
        /// Local address of the register.
        address: u8 = 1, 23, 16;
        /// Number of the lowest bit within the register.
        bit: u8 = 1, 26, 24;
        /// True if the local address is the second-lowest address byte, not the lowest.
        second_byte: bool = 1, 27, 27;
        /// True if the instructions take an address.
        addressed: bool = 1, 28, 28;
        /// Width, bits; 0: the chip has no such setting.
        width: u8 = 1, 31, 30;
    }
}

embed!(RegisterAccess, RegisterBit, DummyField, DriverField);

dwords! {
    /// DWORDs 1-22 of the register map.
    pub struct SccrHead[1..=22, reserved 0] {
        /// Address of the first volatile register.
        volatile_base: u32 = 1, 31, 0;
        /// Address of the first non-volatile register.
        nonvolatile_base: u32 = 2, 31, 0;
        /// Access to volatile registers by address.
        volatile_access: RegisterAccess = 3, 31, 0;
        /// Access to non-volatile registers by address.
        nonvolatile_access: RegisterAccess = 4, 31, 0;
        /// Write in progress.
        wip: RegisterBit = 5, 31, 0;
        /// Write enable latch.
        wel: RegisterBit = 6, 31, 0;
        /// Program error.
        program_error: RegisterBit = 7, 31, 0;
        /// Erase error.
        erase_error: RegisterBit = 8, 31, 0;
        /// Dummy clocks, volatile.
        dummy_volatile: DummyField = 9, 31, 0;
        /// Dummy clocks, non-volatile.
        dummy_nonvolatile: DummyField = 10, 31, 0;
        /// Patterns for 30, 28, 26, 24 and 22 dummy clocks, six bits each.
        dummy_30_22: u32 = 11, 31, 2;
        /// Patterns for 20, 18, 16, 14 and 12 dummy clocks, six bits each.
        dummy_20_12: u32 = 12, 31, 2;
        /// Patterns for 10, 8, 6, 4 and 2 dummy clocks, six bits each.
        dummy_10_2: u32 = 13, 31, 2;
        /// 4S-4S-4S mode enable, volatile.
        quad_volatile: RegisterBit = 14, 31, 0;
        /// 4S-4S-4S mode enable, non-volatile.
        quad_nonvolatile: RegisterBit = 15, 31, 0;
        /// Octal mode enable, volatile.
        octal_volatile: RegisterBit = 16, 31, 0;
        /// Octal mode enable, non-volatile.
        octal_nonvolatile: RegisterBit = 17, 31, 0;
        /// Single or double rate, volatile.
        rate_volatile: RegisterBit = 18, 31, 0;
        /// Single or double rate, non-volatile.
        rate_nonvolatile: RegisterBit = 19, 31, 0;
        /// 8S-8S-8S mode enable, volatile.
        octal_str_volatile: RegisterBit = 20, 31, 0;
        /// 8S-8S-8S mode enable, non-volatile.
        octal_str_nonvolatile: RegisterBit = 21, 31, 0;
        /// 8D-8D-8D mode enable, volatile.
        octal_dtr_volatile: RegisterBit = 22, 31, 0;
    }
}

dwords! {
    /// DWORDs 23-28 of the register map.
    pub struct SccrTail[23..=28, reserved 0] {
        /// 8D-8D-8D mode enable, non-volatile.
        octal_dtr_nonvolatile: RegisterBit = 23, 31, 0;
        /// Deep power-down status.
        power_down: RegisterBit = 24, 31, 0;
        /// Ultra-deep power-down status.
        ultra_power_down: RegisterBit = 25, 31, 0;
        /// Driver strength, volatile.
        driver_volatile: DriverField = 26, 31, 0;
        /// Driver strength, non-volatile.
        driver_nonvolatile: DriverField = 27, 31, 0;
        /// Bit patterns of the driver types, three bits each, type 0 in the highest bits.
        driver_patterns: u16 = 28, 31, 17;
    }
}

impl SccrHead {
    /// Register bits that select `clocks` dummy clocks, if the chip supports that number.
    ///
    /// The map has entries for even numbers from 2 to 30 (DWORDs 11-13).
    #[must_use]
    pub fn dummy_pattern(&self, clocks: u8) -> Option<u8> {
        if clocks == 0 || clocks > 30 || clocks % 2 == 1 {
            return None;
        }
        let (word, lowest) = match clocks {
            22.. => (self.dummy_30_22, 22),
            12.. => (self.dummy_20_12, 12),
            _ => (self.dummy_10_2, 2),
        };
        // The patterns begin at bit 2 of the DWORD. Each entry has six bits, of which the highest
        // marks support.
        let entry = word >> (3 * u32::from(clocks - lowest)) & 0x3f;
        (entry & 0x20 != 0).then_some((entry & 0x1f) as u8)
    }
}

impl DummyField {
    /// Width of the setting, bits.
    #[must_use]
    pub const fn bits(&self) -> u8 {
        self.width + 2
    }
}

/// Status, control and configuration register map: positions of registers and bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sccr {
    /// DWORDs 1-22.
    pub head: SccrHead,
    /// DWORDs 23-28, if the table is long enough.
    pub tail: Option<SccrTail>,
}

impl Sccr {
    pub(super) fn read(dwords: &[u32]) -> Result<Self, MediaError> {
        let (start, rest) = split(dwords, 0)?;
        Ok(Self { head: SccrHead::read(start), tail: rest.first_chunk().map(SccrTail::read) })
    }

    pub(super) fn write(&self) -> Result<Words, MediaError> {
        let mut words = Words::new();
        append(&mut words, self.head.write())?;
        if let Some(part) = &self.tail {
            append(&mut words, part.write())?;
        }
        Ok(words)
    }
}
