//! Error correction for NAND, without I/O: codes, their sizes, and OOB layouts.
//!
//! - [`code`]: names and sizes of codes.
//! - `form`: representation of a code on flash.
//! - [`codec`]: encoders and decoders of steps and pages, bit for bit compatible with Linux's software engines (the one-bit
//!   Hamming code, BCH codes; [`Bch`] is the code without masks) and with some controllers.
//! - [`erased`]: detection of erased pages with bitflips.
//! - [`layout`]: OOB layouts, bit-compatible with Linux's.
//!
//! # Example
//!
//! ```
//! use floatgate_ecc::{Codec, Code};
//!
//! let codec = Codec::new(Code::Bch { strength: 8, step_bytes: 512 })?;
//! let mut step = [0xA5; 512];
//! let mut ecc = vec![0; 13];
//! codec.encode(&step, &mut ecc);
//! step[7] ^= 0x81;
//! assert_eq!(codec.decode(&mut step, &mut ecc), Ok(2));
//! assert_eq!(step, [0xA5; 512]);
//! # Ok::<(), floatgate_ecc::CodeError>(())
//! ```
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod bch;
pub mod code;
pub mod codec;
mod divisor;
pub mod erased;
mod form;
mod hamming;
pub mod layout;
mod rs;
mod simd;

pub use bch::Bch;
pub use code::{Code, CodeError, MAX_STRENGTH, ParityOrder, Uncorrectable, bch_bytes, hamming_bytes};
pub use codec::Codec;
pub use divisor::Divisor;
pub use erased::{NotErased, check_erased};
pub use form::{BitOrder, Inversion, POLYNOMIALS_9, RsForm, Variant};
pub use layout::{LayoutError, MARKER, OobLayout, Region, Stride};

/// Pseudo-random bytes (splitmix64, Steele et al. 2014).
#[cfg(test)]
pub(crate) fn noise(seed: u64, len: usize) -> alloc::vec::Vec<u8> {
    let word = |at: u64| {
        let mut z = seed.wrapping_add((at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    };
    (0..len as u64).map(|at| (word(at / 8) >> (8 * (at % 8))) as u8).collect()
}
