//! SPI NAND: NAND arrays behind a serial command set that every maker bends a little.
//!
//! - [`spec`]: a chip as data, what a part file's `[chip]` table says;
//! - [`chip`]: the simulated chip, which sees operations only and is stricter than silicon;
//! - [`driver`]: discovery by id, choice of the fastest operations, and the [`floatgate_mtd::Mtd`] on top.

pub mod chip;
mod command;
pub mod driver;
pub mod spec;
#[cfg(test)]
mod tests;

pub use chip::{ArrayTask, ArrayWork, ChipOptions, SpiNand};
pub use driver::{Options, ProbeError, SpiNandDriver};
pub use spec::SpiNandSpec;
