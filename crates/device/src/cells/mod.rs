//! The physics of the cells: they wear, forget and are disturbed.
//!
//! [`wear`] says how long a block lives and how its times change; `random` makes every chip, block and bit different, and every
//! run the same.

pub mod random;
pub mod wear;

pub use wear::{BlockLife, CYCLE, Pulses, Wear, WearSpec, stress};
