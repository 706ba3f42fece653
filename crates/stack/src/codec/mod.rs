//! Deflate and Zstandard, by libraries in C where there is a C compiler, and by libraries in Rust for WebAssembly.
//!
//! Both read the same streams. What they write differs in a few bytes, and each reads what the other writes.

#[cfg(not(target_family = "wasm"))]
mod native;
#[cfg(any(target_family = "wasm", test))]
#[cfg_attr(not(target_family = "wasm"), allow(dead_code, unreachable_pub))]
mod portable;

#[cfg(not(target_family = "wasm"))]
use native as library;
#[cfg(target_family = "wasm")]
use portable as library;

pub use library::{Deflate, Inflate, Unzstd, Zstd};

/// Reason for which deflate cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InflateFault {
    /// Not deflate, damaged, or cut off.
    Damaged,
    /// More data than there is room for.
    TooLong,
}

#[cfg(test)]
mod tests;
