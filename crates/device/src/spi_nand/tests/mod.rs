//! Chip and driver together.

mod rig;
mod slice;
