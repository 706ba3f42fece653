//! Code shared by SPI NOR and parallel NOR.
//!
//! The two families have the same kind of cell, and interrupted operations leave the same states (`cut`). Suspend, locks and
//! one-time-programmable bytes belong to the command sets, because opcodes, status bits and the times at which an operation can be
//! interrupted differ.

pub(crate) mod cut;
