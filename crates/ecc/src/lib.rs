//! Error correction for NAND, without I/O: how many bytes a code needs, and where they lie in the OOB.
//!
//! - [`code`]: sizes of the Hamming and BCH codes that Linux's software engines use.
//! - [`layout`]: OOB layouts, bit-compatible with Linux's.
#![no_std]

pub mod code;
pub mod layout;

pub use code::{bch_bytes, hamming_bytes};
pub use layout::{LayoutError, MARKER, OobLayout, Region, Stride};
