//! Simulated flash in C: `include/floatgate.h` is the reference, `floatgate_program::c` has its functions, which this library exports.

pub use floatgate_program::c::*;
