//! Raw (parallel) NAND.
//!
//! In the order a read travels:
//!
//! - [`driver`]: finds out what the chip is by its id and parameter pages, and speaks only commands to it;
//! - [`controller`]: turns command, address and data cycles into time, waits for R/B# or polls;
//! - [`timing`]: what a cycle costs in each ONFI data interface;
//! - [`chip`]: the command set over a memory array, stricter than silicon;
//! - [`spec`]: a chip as data; [`mlc`]: what two bits a cell add to it.
//!
//! [`NandWire`] has the chips at their pins, for hosts that are no driver of this crate.
//!
//! [`bus`] holds the two boundaries: [`NandBus`] between driver and controller, [`NandChip`] between controller and chip.

pub mod address;
pub mod bus;
pub mod chip;
mod command;
pub mod controller;
pub mod driver;
pub mod mlc;
pub mod spec;
#[cfg(test)]
pub(crate) mod testing;
pub mod timing;
mod wire;

pub use address::{RowAddress, RowMap};
pub use bus::{Address, Instr, NandBus, NandChip, NandError, Work};
pub use chip::{ChipOptions, RawNand};
pub use controller::{NandBoard, NandController, NandProfile};
pub use driver::{BadBlocks, ChipInfo, Options, ProbeError, RawNandDriver};
pub use mlc::MlcSpec;
pub use spec::RawNandSpec;
pub use timing::{BusTiming, DataInterface, Modes};
pub use wire::NandWire;
