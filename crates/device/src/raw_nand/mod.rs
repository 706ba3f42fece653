//! Raw (parallel) NAND.
//!
//! In the order of a read's data flow:
//!
//! - [`driver`]: identifies the chip by its id and parameter pages, and accesses it only by commands;
//! - [`controller`]: converts command, address and data cycles to time, waits for R/B# or polls the status;
//! - [`timing`]: duration of a cycle in each ONFI data interface;
//! - [`chip`]: the command set on a memory array, stricter than silicon;
//! - [`spec`]: specification of a chip; [`mlc`]: additional properties of chips with two bits per cell.
//!
//! [`NandWire`] gives access to the chips at their pins, for hosts with their own driver.
//!
//! [`bus`] contains the two interfaces: [`NandBus`] between driver and controller, [`NandChip`] between controller and
//! chip.

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
