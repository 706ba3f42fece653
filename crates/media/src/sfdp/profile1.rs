//! The xSPI Profile 1.0 table (JESD216F, table FF05h).

use super::words::{Words, append, split};
use crate::bits::dwords;
use crate::error::MediaError;

dwords! {
    /// Commands and dummy clocks in 8D-8D-8D mode (DWORDs 1-5).
    pub struct Profile1Commands[1..=5, reserved 0] {
        /// Instruction of a fast read with wrap; 0: none.
        read_wrap_opcode: u8 = 1, 7, 0;
        /// Instruction of a fast read.
        read_opcode: u8 = 1, 15, 8;
        /// True if write register takes two data bytes instead of one.
        write_register_two_bytes: bool = 1, 22, 22;
        /// True if write register takes four address bytes.
        write_register_address: bool = 1, 23, 23;
        /// True if write status and configuration takes four address bytes.
        write_status_address: bool = 1, 24, 24;
        /// True if read non-volatile register has 8 dummy clocks, false if it has 4.
        read_nonvolatile_wait_8: bool = 1, 25, 25;
        /// True if read volatile register has 8 dummy clocks, false if it has 4.
        read_volatile_wait_8: bool = 1, 26, 26;
        /// True if read register takes four address bytes.
        read_register_address: bool = 1, 27, 27;
        /// True if read status has 8 dummy clocks, false if it has 4.
        read_status_wait_8: bool = 1, 28, 28;
        /// True if read status takes four address bytes.
        read_status_address: bool = 1, 29, 29;
        /// True if read SFDP has 20 dummy clocks, false if it has 8.
        sfdp_wait_20: bool = 1, 30, 30;
        /// True if read SFDP takes three address bytes, false if it takes four.
        sfdp_address_3: bool = 1, 31, 31;
        /// Instruction that writes a non-volatile register; 0: none.
        write_nonvolatile_opcode: u8 = 2, 7, 0;
        /// Instruction that writes a volatile register; 0: none.
        write_volatile_opcode: u8 = 2, 15, 8;
        /// Instruction that reads a non-volatile register; 0: none.
        read_nonvolatile_opcode: u8 = 2, 23, 16;
        /// Instruction that reads a volatile register; 0: none.
        read_volatile_opcode: u8 = 2, 31, 24;
        /// Commands the chip has in 8D-8D-8D mode, bits 31:10 of DWORD 3.
        commands: u32 = 3, 31, 10;
        /// Configuration bits for 200 MHz.
        pattern_200: u8 = 4, 6, 2;
        /// Dummy clocks at 200 MHz; 0: not supported.
        dummy_200: u8 = 4, 11, 7;
        /// Configuration bits for 100 MHz.
        pattern_100: u8 = 5, 6, 2;
        /// Dummy clocks at 100 MHz; 0: not supported.
        dummy_100: u8 = 5, 11, 7;
        /// Configuration bits for 133 MHz.
        pattern_133: u8 = 5, 16, 12;
        /// Dummy clocks at 133 MHz; 0: not supported.
        dummy_133: u8 = 5, 21, 17;
        /// Configuration bits for 166 MHz.
        pattern_166: u8 = 5, 26, 22;
        /// Dummy clocks at 166 MHz; 0: not supported.
        dummy_166: u8 = 5, 31, 27;
    }
}

dwords! {
    /// Dummy clocks after power-on (DWORD 6, since JESD216D).
    pub struct Profile1Default[6..=6, reserved 0] {
        /// Dummy clocks in 8D-8D-8D mode.
        dummy_8d: u8 = 6, 4, 0;
        /// Dummy clocks in 8S-8S-8S mode.
        dummy_8s: u8 = 6, 9, 5;
    }
}

/// Clock limit of a read with a number of dummy cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DummySetting {
    /// Clock, MHz.
    pub mhz: u16,
    /// Dummy clocks at that clock.
    pub clocks: u8,
    /// Configuration bits that select this number of dummy clocks.
    pub pattern: u8,
}

impl Profile1Commands {
    /// Supported settings, fastest first; `None` for an unsupported one.
    #[must_use]
    pub fn dummy_settings(&self) -> [Option<DummySetting>; 4] {
        [
            (200, self.dummy_200, self.pattern_200),
            (166, self.dummy_166, self.pattern_166),
            (133, self.dummy_133, self.pattern_133),
            (100, self.dummy_100, self.pattern_100),
        ]
        .map(|(mhz, clocks, pattern)| (clocks > 0).then_some(DummySetting { mhz, clocks, pattern }))
    }
}

/// Commands and settings of a chip with JESD251 profile 1.0 in 8D-8D-8D mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Profile1 {
    /// DWORDs 1-5, commands and dummy clocks.
    pub commands: Profile1Commands,
    /// DWORD 6, power-on defaults, if the table is long enough.
    pub defaults: Option<Profile1Default>,
}

impl Profile1 {
    pub(super) fn read(dwords: &[u32]) -> Result<Self, MediaError> {
        let (commands, rest) = split(dwords, 0)?;
        Ok(Self {
            commands: Profile1Commands::read(commands),
            defaults: rest.first_chunk().map(Profile1Default::read),
        })
    }

    pub(super) fn write(&self) -> Result<Words, MediaError> {
        let mut words = Words::new();
        append(&mut words, self.commands.write())?;
        if let Some(part) = &self.defaults {
            append(&mut words, part.write())?;
        }
        Ok(words)
    }
}
