//! Programs in C on simulated flash.
//!
//! - [`c`]: the functions of `floatgate.h` that they call, over `device` (a chip at its pins or behind its driver) and `ledger` (what must
//!   be found after a power cut);
//! - [`Program`]: a program whose power is cut; `object`: a program as a shared object; `process`: the child processes in which it runs, as it may crash or hang;
//! - [`powercut`]: its power is cut at any flash operation;
//! - [`conformance`]: a score card of a driver.

pub mod c;
pub mod conformance;
mod device;
mod ledger;
mod object;
pub mod powercut;
mod process;
mod program;

pub use object::{LoadError, load};
pub use program::{Program, TestDevice};
