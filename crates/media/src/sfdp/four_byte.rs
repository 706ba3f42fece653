//! The 4-byte Address Instruction Table (JESD216F, table FF84h).

use super::words::{Words, append, split};
use crate::error::MediaError;
use crate::flags::flags;

flags! {
    /// Instructions that take four address bytes (JESD216F, 4BAIT DWORD 1).
    pub struct FourByteCommands(u32) {
        /// 1S-1S-1S read, 13h.
        READ = 0,
        /// 1S-1S-1S fast read, 0Ch.
        FAST_READ = 1,
        /// 1S-1S-2S fast read, 3Ch.
        READ_112 = 2,
        /// 1S-2S-2S fast read, BCh.
        READ_122 = 3,
        /// 1S-1S-4S fast read, 6Ch.
        READ_114 = 4,
        /// 1S-4S-4S fast read, ECh.
        READ_144 = 5,
        /// 1S-1S-1S page program, 12h.
        PROGRAM = 6,
        /// 1S-1S-4S page program, 34h.
        PROGRAM_114 = 7,
        /// 1S-4S-4S page program, 3Eh.
        PROGRAM_144 = 8,
        /// Erase type 1.
        ERASE_1 = 9,
        /// Erase type 2.
        ERASE_2 = 10,
        /// Erase type 3.
        ERASE_3 = 11,
        /// Erase type 4.
        ERASE_4 = 12,
        /// 1S-1D-1D read, 0Eh.
        READ_1D = 13,
        /// 1S-2D-2D read, BEh.
        READ_2D = 14,
        /// 1S-4D-4D read, EEh.
        READ_4D = 15,
        /// Volatile sector lock read, E0h.
        VOLATILE_LOCK_READ = 16,
        /// Volatile sector lock write, E1h.
        VOLATILE_LOCK_WRITE = 17,
        /// Non-volatile sector lock read, E2h.
        LOCK_READ = 18,
        /// Non-volatile sector lock write, E3h.
        LOCK_WRITE = 19,
        /// 1S-1S-8S fast read, 7Ch.
        READ_118 = 20,
        /// 1S-8S-8S fast read, CCh.
        READ_188 = 21,
        /// 1S-8D-8D read, FDh.
        READ_8D = 22,
        /// 1S-1S-8S page program, 84h.
        PROGRAM_118 = 23,
        /// 1S-8S-8S page program, 8Eh.
        PROGRAM_188 = 24,
    }
}

/// Instructions that take four address bytes in any address mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FourByte {
    /// Commands that the chip has (DWORD 1).
    pub commands: FourByteCommands,
    /// Instruction of each erase type, type 1 first (DWORD 2); FFh if there is none.
    pub erase_opcodes: [u8; 4],
}

impl FourByte {
    pub(super) fn read(dwords: &[u32]) -> Result<Self, MediaError> {
        let ([commands, opcodes], _) = split(dwords, 0)?;
        Ok(Self { commands: FourByteCommands::from_bits(*commands), erase_opcodes: opcodes.to_le_bytes() })
    }

    pub(super) fn write(&self) -> Result<Words, MediaError> {
        let mut words = Words::new();
        let opcodes = u32::from_le_bytes(self.erase_opcodes);
        append(&mut words, Ok([self.commands.bits(), opcodes]))?;
        Ok(words)
    }
}
