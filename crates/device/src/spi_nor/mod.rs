//! Serial NOR flash: what a part is ([`spec`], [`check`]), what it says about itself ([`sfdp`]), the chip that
//! executes its command set ([`chip`]), and the driver that finds out what it talks to and presents it as an MTD
//! ([`driver`]).

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
