//! Deflate and Zstandard: by C libraries (`native`) where a C compiler exists, and by Rust libraries (`portable`)
//! for WebAssembly.
//!
//! Both sets of libraries read the same streams. Their compressed output differs in a few bytes, and each set
//! reads the output of the other.

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

/// Reason why deflate data cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InflateFault {
    /// The data is not deflate, is damaged, or is truncated.
    Damaged,
    /// The decompressed data is longer than the output buffer.
    TooLong,
}

#[cfg(test)]
mod tests;
