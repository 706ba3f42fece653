//! SPI NAND: NAND arrays with a serial command set that differs slightly between makers.
//!
//! - [`spec`]: specification of a chip, the `[chip]` table of a part file;
//! - [`chip`]: the simulated chip, which executes operations and is stricter than silicon;
//! - [`driver`]: identification by id, selection of the fastest operations, and [`floatgate_mtd::Mtd`] on
//!   top.

pub mod chip;
mod command;
pub mod driver;
pub mod spec;
#[cfg(test)]
mod tests;

pub use chip::{ArrayTask, ArrayWork, ChipOptions, SpiNand};
pub use driver::{Options, ProbeError, SpiNandDriver};
pub use spec::SpiNandSpec;
