//! Chip and driver together.

mod discovery;
mod ecc;
mod illegal;
mod memory;
mod model;
mod rig;
mod slice;
mod timing;
