//! Serial NOR flash: the description of a part ([`spec`], [`check`]), its own tables ([`sfdp`]), and the chip that
//! executes its command set ([`chip`]). The driver finds out which chip it has and presents it as an MTD ([`driver`]).

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
