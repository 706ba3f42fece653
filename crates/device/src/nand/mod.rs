//! Code shared by raw NAND and SPI NAND.
//!
//! In the order of a read's data flow:
//!
//! - `span`: a range of bytes as pages and blocks, and the result of reading several of them;
//! - `bbt`: the bad block table of a driver;
//! - `oob`: a caller's OOB bytes in the three modes of MTD;
//! - `ecc`: the ECC engine of a driver, and the pages that it encoded;
//! - [`facts`]: properties in the specification of a NAND, and its cell model.
//!
//! Four similar features are not shared. A bad block marker on raw NAND is a byte chosen by the setup; on SPI NAND it is two bytes of
//! the first page, read without on-die ECC. Factory bad blocks are derived from the seed by two different rules, on which setups
//! depend. An injected bit error corrects a bit that is already wrong on raw NAND. On SPI NAND it leaves the bit wrong, and read retry
//! may correct it. Raw NAND executes an erase at its command and reverts it if power is lost; SPI NAND executes it at its end.

pub(crate) mod bbt;
pub(crate) mod ecc;
pub mod facts;
pub(crate) mod oob;
pub(crate) mod span;

pub use bbt::BlockState;
pub use facts::{Marker, NandFacts};

use floatgate_media::Endurance;

/// Encodes a number of cycles as parameter pages do: a number below 256, rounded down, multiplied by a power of ten.
pub(crate) fn onfi_endurance(mut cycles: u64) -> Endurance {
    let mut exponent = 0;
    while cycles > 255 || (cycles > 9 && cycles.is_multiple_of(10)) {
        cycles /= 10;
        exponent += 1;
    }
    Endurance { value: cycles as u8, exponent }
}
