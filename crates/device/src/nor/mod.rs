//! The common ground of SPI NOR and parallel NOR.
//!
//! The two families share a kind of cell, and what a cut leaves of an operation on it (`cut`). Suspend, locks and one-time-programmable
//! bytes belong to their command sets: opcodes, status bits and the moments at which an operation may be interrupted all differ.

pub(crate) mod cut;
