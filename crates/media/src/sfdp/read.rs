//! Structured fields of the Basic Flash Parameter Table: reads, erases, modes.

use crate::bits::{BitField, codes};

/// One fast read instruction (JESD216F, BFPT DWORDs 3, 4, 6, 7, 17, 22, 23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct FastRead {
    /// Number of dummy clocks between mode bits and data, 0-31.
    pub wait_states: u8,
    /// Number of mode clocks after the address, 0-7.
    pub mode_clocks: u8,
    /// Instruction byte.
    pub opcode: u8,
}

impl BitField for FastRead {
    fn decode(raw: u32) -> Self {
        let [low, opcode, _, _] = raw.to_le_bytes();
        Self { wait_states: low & 31, mode_clocks: low >> 5, opcode }
    }

    fn encode(&self) -> Result<u32, u64> {
        if self.wait_states > 31 {
            return Err(u64::from(self.wait_states));
        }
        if self.mode_clocks > 7 {
            return Err(u64::from(self.mode_clocks));
        }
        Ok(u32::from_le_bytes([self.mode_clocks << 5 | self.wait_states, self.opcode, 0, 0]))
    }
}

/// One erase instruction (JESD216F, BFPT DWORDs 8 and 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct EraseType {
    /// Size of the erased range, as a power of two in bytes; 0: this erase type does not exist.
    pub size_exponent: u8,
    /// Instruction byte.
    pub opcode: u8,
}

impl EraseType {
    /// Size of the erased range, bytes; `None` if the type does not exist or the size exceeds 2^31.
    #[must_use]
    pub const fn bytes(&self) -> Option<u32> {
        if self.size_exponent == 0 {
            return None;
        }
        1u32.checked_shl(self.size_exponent as u32)
    }
}

impl BitField for EraseType {
    fn decode(raw: u32) -> Self {
        let [size_exponent, opcode, _, _] = raw.to_le_bytes();
        Self { size_exponent, opcode }
    }

    fn encode(&self) -> Result<u32, u64> {
        Ok(u32::from_le_bytes([self.size_exponent, self.opcode, 0, 0]))
    }
}

codes! {
    /// Number of address bytes of the array instructions (JESD216F, BFPT DWORD 1 bits 18:17).
    pub enum AddressBytes {
        /// Three bytes.
        Three = 0,
        /// Three bytes, or four after a mode change.
        ThreeOrFour = 1,
        /// Four bytes.
        Four = 2,
        ..
        /// Reserved code.
        Reserved = 3,
    }
}

codes! {
    /// Procedure that enables four data lines (JESD216F, BFPT DWORD 15 bits 22:20).
    pub enum QuadEnable {
        /// There is no quad enable bit.
        None = 0,
        /// Status register 2 bit 1; a one-byte status write clears that register.
        Status2Bit1Cleared = 1,
        /// Status register 1 bit 6.
        Status1Bit6 = 2,
        /// Status register 2 bit 7, written by 3Eh and read by 3Fh.
        Status2Bit7 = 3,
        /// Status register 2 bit 1; a one-byte status write does not change that register.
        Status2Bit1Kept = 4,
        /// Status register 2 bit 1, read by 35h and written by 01h with two bytes.
        Status2Bit1 = 5,
        /// Status register 2 bit 1, read by 35h and written by 31h.
        Status2Bit1Separate = 6,
        ..
        /// Reserved code.
        Reserved = 7,
    }
}

codes! {
    /// Second instruction byte in 8D-8D-8D mode (JESD216F, BFPT DWORD 18 bits 30:29).
    pub enum CommandExtension {
        /// The instruction byte is repeated.
        Repeat = 0,
        /// The instruction byte is inverted.
        Invert = 1,
        /// Reserved code.
        Reserved = 2,
        ..
        /// Instructions are 16 bits wide.
        Word = 3,
    }
}

/// Data lines of instruction, address and data of a fast read; D marks a phase with both clock
/// edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lines {
    /// 1S-1S-2S.
    S112,
    /// 1S-2S-2S.
    S122,
    /// 2S-2S-2S.
    S222,
    /// 1S-1S-4S.
    S114,
    /// 1S-4S-4S.
    S144,
    /// 4S-4S-4S.
    S444,
    /// 1S-1S-8S.
    S118,
    /// 1S-8S-8S.
    S188,
    /// 1S-1D-1D.
    D111,
    /// 1S-2D-2D.
    D122,
    /// 1S-4D-4D.
    D144,
    /// 4S-4D-4D.
    D444,
}

impl Lines {
    /// All kinds of fast read that the table describes.
    pub const ALL: [Self; 12] = [
        Self::S112,
        Self::S122,
        Self::S222,
        Self::S114,
        Self::S144,
        Self::S444,
        Self::S118,
        Self::S188,
        Self::D111,
        Self::D122,
        Self::D144,
        Self::D444,
    ];
}
