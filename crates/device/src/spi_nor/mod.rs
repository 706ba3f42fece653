//! Serial NOR flash: the specification of a part ([`spec`], [`check`]), its SFDP tables ([`sfdp`]), and the chip that
//! executes its command set ([`chip`]). The driver identifies the chip and implements an MTD device ([`driver`]).

pub mod check;
pub mod chip;
mod command;
pub mod driver;
pub mod sfdp;
pub mod spec;

#[cfg(test)]
mod test_parts;

pub use chip::SpiNor;
pub use driver::{Options, ProbeError, SpiNorDriver};
pub use spec::SpiNorSpec;
