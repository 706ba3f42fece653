//! Physics of the cells: wear, retention and disturb.
//!
//! - [`wear`]: endurance of a block, and the change of its program and erase times;
//! - [`rber`]: raw bit error rate of a page, from wear, retention, disturb, and the read thresholds;
//! - [`tail`]: probability of more bit errors than a code corrects;
//! - `block`: [`Cells`], the history of each block of a chip, and the wrong bits of a page;
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
