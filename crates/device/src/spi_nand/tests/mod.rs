//! Chip and driver together.

mod discovery;
mod ecc;
mod illegal;
mod model;
mod rig;
mod slice;
mod timing;
