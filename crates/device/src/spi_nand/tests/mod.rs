//! Tests of chip and driver together.

mod cells;
mod discovery;
mod ecc;
mod host_ecc;
mod host_ecc_random;
mod illegal;
mod memory;
mod model;
mod packed;
mod power;
mod randomizer;
mod rig;
mod slice;
mod timing;
