//! Programs in C that run on simulated flash.
//!
//! - [`c`]: the functions of `floatgate.h` that the programs call, on top of `device` (a chip at its pins or behind its driver) and
//!   `ledger` (values that must be found after a power cut);
//! - [`Program`]: a program whose power is cut; `object`: a program in a shared object; `process`: the child processes in which programs
//!   run, because they may crash or hang;
//! - [`powercut`]: cuts power at every flash operation;
//! - [`conformance`]: score card of a driver.

pub mod c;
pub mod conformance;
mod device;
mod ledger;
mod object;
pub mod powercut;
mod printed;
mod process;
mod program;

pub use object::{LoadError, load};
pub use printed::Printed;
pub use program::{Program, TestDevice};
