//! Parallel NOR: a chip with an address bus, mapped into the host's address space, from which code can be executed in
//! place.
//!
//! In the order of a read's data flow: [`CfiDriver`] (identifies the chip by its CFI query, uses command set 0001 or
//! 0002), [`NorController`] (bus cycles and their cost), [`ParallelNor`] (the chip). [`NorWire`] gives access to the
//! chip at its pins.
//!
//! Addresses are byte addresses in the host's address space. An x16 chip ignores bit 0; in byte mode this bit is the
//! chip's A-1.
//!
//! The address is presented together with each data word, so there are no address cycles. Read cycles (tACC, tPACC) are
//! booked as [`Phase::Data`](floatgate_mtd::Phase::Data), cycles that write a command as `Command`, the array's work as
//! `Array`, status reads as `Polling`.

mod amd;
mod bus;
mod cells;
mod chip;
mod command;
mod driver;
mod erase_map;
mod intel;
mod load;
mod query;
mod spec;
mod wire;

#[cfg(test)]
mod chip_tests;
#[cfg(test)]
mod driver_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod test_parts;

pub use bus::{NorBus, NorController, NorMem, NorProfile};
pub use chip::ParallelNor;
pub use driver::{CfiDriver, Identity, Options, ProbeError};
pub use erase_map::{EraseBlock, EraseMap};
pub use spec::{
    BootBlocks, CfiCodes, CommandSet, Interface, LockScheme, NorFeatures, NorGeometry, NorOtp, NorRegion,
    NorTiming, ParallelNorSpec,
};
pub use wire::NorWire;
