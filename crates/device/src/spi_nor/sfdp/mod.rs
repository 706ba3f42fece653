//! Conversion between a part's specification and the SFDP tables of its chip: [`emit`] for the chip, [`learn`] for the driver.
//! Only the catalogue contains the values that the tables cannot express: clock limits of most commands, programs on several
//! lanes with three address bytes, OTP, banks.

mod emit;
mod learn;
mod merge;

pub use emit::emit;
pub use learn::{NotEnough, learn};
pub use merge::merge;

use crate::spi::{Mode, Width};
use crate::spi_nor::spec::SpiNorSpec;
use floatgate_media::MediaError;
use floatgate_media::sfdp::{FourByteCommands, Lines};

/// Maximum size of an SFDP area, bytes. 24-bit addresses allow more, but real chips have a few hundred bytes.
pub(super) const AREA_BYTES_MAX: usize = 1 << 16;

/// Bytes that a chip returns for READ SFDP: those read from a real chip if they are known, otherwise those that [`emit`]
/// generates.
///
/// # Errors
/// The errors of [`emit`].
pub fn area(spec: &SpiNorSpec) -> Result<Vec<u8>, MediaError> {
    let end = |piece: &crate::spi_nor::spec::SfdpPiece| piece.at as usize + piece.hex.0.len();
    let Some(len) = spec.sfdp_bytes.iter().map(end).max() else { return emit(spec) };
    let mut area = vec![0xFF; len.min(AREA_BYTES_MAX)];
    for piece in &spec.sfdp_bytes {
        let places = area.iter_mut().skip(piece.at as usize);
        places.zip(&piece.hex.0).for_each(|(place, byte)| *place = *byte);
    }
    Ok(area)
}

const fn mode(lanes: [u8; 3], dtr: bool) -> Mode {
    // In 1S-xD-xD the command stays at single rate.
    let [cmd, addr, data] = lanes;
    Mode {
        cmd: Width { lanes: cmd, dtr: false },
        addr: Width { lanes: addr, dtr },
        data: Width { lanes: data, dtr },
    }
}

/// A read command of BFPT, with bit and opcode of its four-byte version in 4BAIT.
struct Fast {
    lines: Lines,
    mode: Mode,
    bit: FourByteCommands,
    opcode_4b: u8,
}

/// Stateless read commands in both tables (JESD216F sections 6.4 and 6.6).
const FAST: [Fast; 9] = {
    use FourByteCommands as C;
    const fn fast(lines: Lines, mode: Mode, bit: C, opcode_4b: u8) -> Fast {
        Fast { lines, mode, bit, opcode_4b }
    }
    [
        fast(Lines::S112, mode([1, 1, 2], false), C::READ_112, 0x3C),
        fast(Lines::S122, mode([1, 2, 2], false), C::READ_122, 0xBC),
        fast(Lines::S114, mode([1, 1, 4], false), C::READ_114, 0x6C),
        fast(Lines::S144, mode([1, 4, 4], false), C::READ_144, 0xEC),
        fast(Lines::S118, mode([1, 1, 8], false), C::READ_118, 0x7C),
        fast(Lines::S188, mode([1, 8, 8], false), C::READ_188, 0xCC),
        fast(Lines::D111, mode([1, 1, 1], true), C::READ_1D, 0x0E),
        fast(Lines::D122, mode([1, 2, 2], true), C::READ_2D, 0xBE),
        fast(Lines::D144, mode([1, 4, 4], true), C::READ_4D, 0xEE),
    ]
};

/// Program commands in 4BAIT.
const PROGRAMS: [(Mode, FourByteCommands, u8); 5] = [
    (Mode::SINGLE, FourByteCommands::PROGRAM, super::command::PAGE_PROGRAM_4B),
    (mode([1, 1, 4], false), FourByteCommands::PROGRAM_114, 0x34),
    (mode([1, 4, 4], false), FourByteCommands::PROGRAM_144, 0x3E),
    (mode([1, 1, 8], false), FourByteCommands::PROGRAM_118, 0x84),
    (mode([1, 8, 8], false), FourByteCommands::PROGRAM_188, 0x8E),
];

#[cfg(test)]
mod tests;
