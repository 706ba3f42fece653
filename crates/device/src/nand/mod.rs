//! The common ground of raw NAND and SPI NAND.
//!
//! In the order a read travels:
//!
//! - `span`: a range of bytes as pages and blocks, and the result of reading several of them;
//! - `bbt`: the bad block table of a driver;
//! - `oob`: a caller's OOB bytes in the three modes of MTD;
//! - `ecc`: the engine of a driver, and which pages it encoded;
//! - [`facts`]: what a specification says of a NAND, and the cells that follow from it.
//!
//! Four things look alike and are not shared. A bad block marker is a byte of a setup's choice on raw NAND, and two bytes of the first
//! page read without the on-die ECC on SPI NAND. The factory-bad blocks follow from the seed by two rules, which setups depend on. An
//! injected bit error turns a bit that is wrong already right again on raw NAND, and leaves it wrong on SPI NAND, where read retry may
//! cure it. A raw NAND carries an erase out at its command and takes it back when power goes; a SPI NAND carries it out at its end.

pub(crate) mod bbt;
pub(crate) mod ecc;
pub mod facts;
pub(crate) mod oob;
pub(crate) mod span;

pub use bbt::BlockState;
pub use facts::{Marker, NandFacts};

use floatgate_media::Endurance;

/// Cycles as a parameter page states them: a number below 256, rounded down, times a power of ten.
pub(crate) fn onfi_endurance(mut cycles: u64) -> Endurance {
    let mut exponent = 0;
    while cycles > 255 || (cycles > 9 && cycles.is_multiple_of(10)) {
        cycles /= 10;
        exponent += 1;
    }
    Endurance { value: cycles as u8, exponent }
}
