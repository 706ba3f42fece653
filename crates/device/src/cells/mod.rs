//! The physics of the cells: they wear, forget and are disturbed.
//!
//! - [`wear`]: how long a block lives and how its program and erase times change;
//! - [`rber`]: the raw bit error rate of a page, from wear, retention, disturb, and the thresholds it is read with;
//! - [`tail`]: how likely that is more than a code corrects;
//! - `block`: [`Cells`], what each block of a chip went through, and which bits of a page are wrong now;
//! - [`floatgate_mtd::random`] makes every chip, block and bit different, and every run the same.

mod block;
mod errors;
pub mod rber;
pub mod tail;
#[cfg(test)]
mod tests;
pub mod wear;

pub(crate) use block::BlockState;
pub use block::{Cells, CellsGeometry, CellsProfile, Outcome};
pub use rber::{Conditions, ErrorSpec, Promise, Rber};
pub use wear::{BlockLife, CYCLE, Pulses, Wear, WearSpec, stress};
