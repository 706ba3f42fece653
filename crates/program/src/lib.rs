//! Programs in C on simulated flash.
//!
//! - [`c`]: the functions of `floatgate.h` that they call, over `device` (a chip at its pins or behind its driver) and `ledger` (what must
//!   be found after a power cut);
//! - `object`: a program as a shared object; `process`: the child processes in which it runs, as it may crash or hang;
//! - [`powercut`]: its power is cut at any flash operation.

pub mod c;
mod device;
mod ledger;
mod object;
pub mod powercut;
mod process;

pub use object::LoadError;
