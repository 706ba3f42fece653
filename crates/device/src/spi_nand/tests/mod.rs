//! Chip and driver together.

mod cells;
mod discovery;
mod ecc;
mod illegal;
mod memory;
mod model;
mod power;
mod rig;
mod slice;
mod timing;
