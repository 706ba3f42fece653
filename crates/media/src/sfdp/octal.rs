//! Later parts of the Basic Flash Parameter Table: octal modes and DTR.

use super::read::{CommandExtension, FastRead, Lines};
use crate::bits::dwords;

dwords! {
    /// DWORDs 17-20, since JESD216C.
    pub struct BfptOctal[17..=20, reserved 0] {
        /// 1S-8S-8S fast read; opcode 0 or FFh: none.
        read_188: FastRead = 17, 15, 0;
        /// 1S-1S-8S fast read; opcode 0 or FFh: none.
        read_118: FastRead = 17, 31, 16;
        /// Output driver strengths on offer, bit set.
        driver_strength: u8 = 18, 22, 18;
        /// True if the chip supports the JEDEC SPI protocol reset (in-band reset).
        protocol_reset: bool = 18, 23, 23;
        /// Data strobe waveform in single-rate modes, code.
        strobe_waveform: u8 = 18, 25, 24;
        /// True if the chip has a data strobe in 4S-4S-4S mode.
        strobe_4s: bool = 18, 26, 26;
        /// True if the chip has a data strobe in 4S-4D-4D mode.
        strobe_4d: bool = 18, 27, 27;
        /// Second instruction byte in 8D-8D-8D mode.
        command_extension: CommandExtension = 18, 30, 29;
        /// True if the bytes of a word are swapped in 8D-8D-8D mode.
        swapped_bytes: bool = 18, 31, 31;
        /// Ways to leave 8S-8S-8S mode, bit set.
        octal_disable: u8 = 19, 3, 0;
        /// Ways to enter 8S-8S-8S mode, bit set.
        octal_mode_enable: u8 = 19, 8, 4;
        /// True if the chip supports the 0-8-8 (continuous read) mode.
        has_088: bool = 19, 9, 9;
        /// Ways to leave 0-8-8 mode, bit set.
        exit_088: u8 = 19, 15, 10;
        /// Ways to enter 0-8-8 mode, bit set.
        enter_088: u8 = 19, 19, 16;
        /// Octal enable requirement, code; 0: no octal enable bit, 1: status register 2 bit 3.
        octal_enable: u8 = 19, 22, 20;
        /// Fastest 4S-4S-4S clock without data strobe, code.
        speed_4s: u8 = 20, 3, 0;
        /// Fastest 4S-4S-4S clock with data strobe, code.
        speed_4s_strobe: u8 = 20, 7, 4;
        /// Fastest 4S-4D-4D clock without data strobe, code.
        speed_4d: u8 = 20, 11, 8;
        /// Fastest 4S-4D-4D clock with data strobe, code.
        speed_4d_strobe: u8 = 20, 15, 12;
        /// Fastest 8S-8S-8S clock without data strobe, code.
        speed_8s: u8 = 20, 19, 16;
        /// Fastest 8S-8S-8S clock with data strobe, code.
        speed_8s_strobe: u8 = 20, 23, 20;
        /// Fastest 8D-8D-8D clock without data strobe, code.
        speed_8d: u8 = 20, 27, 24;
        /// Fastest 8D-8D-8D clock with data strobe, code.
        speed_8d_strobe: u8 = 20, 31, 28;
    }
}

dwords! {
    /// DWORDs 21-23, since JESD216E.
    pub struct BfptDtr[21..=23, reserved 0] {
        /// True if the chip supports the 1S-1D-1D fast read.
        has_1d: bool = 21, 0, 0;
        /// True if the chip supports the 1S-2D-2D fast read.
        has_2d: bool = 21, 1, 1;
        /// True if the chip supports the 1S-4D-4D fast read.
        has_4d: bool = 21, 2, 2;
        /// True if the chip supports the 4S-4D-4D fast read.
        has_4s4d: bool = 21, 3, 3;
        /// 1S-1D-1D fast read.
        read_1d: FastRead = 22, 15, 0;
        /// 1S-2D-2D fast read.
        read_2d: FastRead = 22, 31, 16;
        /// 1S-4D-4D fast read.
        read_4d: FastRead = 23, 15, 0;
        /// 4S-4D-4D fast read.
        read_4s4d: FastRead = 23, 31, 16;
    }
}

/// Clock of each speed code of DWORD 20, MHz; 0: reserved.
const SPEEDS: [u16; 13] = [0, 33, 50, 66, 80, 100, 133, 166, 200, 250, 266, 333, 400];

/// Clock of a speed code, MHz; `None` if unsupported, not characterised or reserved.
#[must_use]
pub fn speed_mhz(code: u8) -> Option<u16> {
    SPEEDS.get(usize::from(code)).copied().filter(|speed| *speed > 0)
}

impl BfptOctal {
    pub(super) fn fast_read(&self, lines: Lines) -> Option<FastRead> {
        let read = if lines == Lines::S118 { self.read_118 } else { self.read_188 };
        // The table has no support bit for these two reads; an erased or zero opcode means that the
        // chip has none.
        (read.opcode != 0 && read.opcode != 0xff).then_some(read)
    }
}

impl BfptDtr {
    pub(super) fn fast_read(&self, lines: Lines) -> Option<FastRead> {
        let (present, read) = match lines {
            Lines::D111 => (self.has_1d, self.read_1d),
            Lines::D122 => (self.has_2d, self.read_2d),
            Lines::D144 => (self.has_4d, self.read_4d),
            _ => (self.has_4s4d, self.read_4s4d),
        };
        present.then_some(read)
    }
}
