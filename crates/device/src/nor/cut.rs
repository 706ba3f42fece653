//! Programs and erases of NOR cells that a power loss or a reset interrupts.
//!
//! Data sheets of both interfaces describe the embedded algorithms. A program writes the words of the buffer one after another.
//! An erase first programs every cell to 0, then erases until all cells are 1. Two assumptions are made: the first part takes a
//! fifth of the erase time, and in the second part each cell changes at its own random time, uniformly distributed. Unstable
//! cells, which were programmed or erased too little, are not modelled.

use crate::array::{Array, BlockContent};
use floatgate_mtd::Nanos;
use floatgate_mtd::random;
use std::borrow::Cow;

/// Share of an erase in which all cells are programmed; an assumption.
const PREPROGRAM: f64 = 0.2;

/// State before an operation, from which the half-finished state can be derived.
#[derive(Clone, Debug, Default)]
pub(crate) enum Undo {
    /// The operation does not change the array.
    #[default]
    Nothing,
    /// A program: the page before it.
    Program {
        /// Row of the page.
        row: usize,
        /// Bytes of the page before the program; `None` for an erased page.
        before: Option<Vec<u8>>,
    },
    /// An erase: blocks of the array before it.
    Erase(Vec<(usize, BlockContent)>),
}

impl Undo {
    /// State before a page program that is about to start.
    pub(crate) fn program(array: &Array, row: usize) -> Self {
        if !array.stores() {
            return Self::Nothing;
        }
        Self::Program { row, before: array.stored(row).map(Cow::into_owned) }
    }

    /// State before an erase of array blocks that is about to start.
    pub(crate) fn erase(array: &Array, blocks: std::ops::Range<usize>) -> Self {
        if !array.stores() {
            return Self::Nothing;
        }
        Self::Erase(blocks.map(|block| (block, array.content(block))).collect())
    }

    /// Adds blocks that the same erase covers.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Erase(mut blocks), Self::Erase(more)) => {
                blocks.extend(more);
                Self::Erase(blocks)
            }
            (Self::Nothing, other) | (other, _) => other,
        }
    }

    /// Leaves the operation half finished; it takes `length`, of which `left` remains.
    pub(crate) fn cut_off(self, array: &mut Array, left: Nanos, length: Nanos, seed: u64) {
        let share = 1.0 - left.as_ns() as f64 / length.as_ns().max(1) as f64;
        self.cut(array, share.clamp(0.0, 1.0), seed);
    }

    /// Leaves the operation at this share (0 to 1), although the array contains the finished state. Blocks of an erase are
    /// erased one after another.
    fn cut(self, array: &mut Array, share: f64, seed: u64) {
        match self {
            Self::Nothing => {}
            Self::Program { row, before } => cut_program(array, row, before, share, seed),
            Self::Erase(blocks) => {
                let done = share * blocks.len() as f64;
                for (turn, (block, before)) in blocks.into_iter().enumerate() {
                    let share = (done - turn as f64).clamp(0.0, 1.0);
                    if share < 1.0 {
                        array.restore(block, before);
                        cut_erase(array, block, share, seed);
                    }
                }
            }
        }
    }
}

fn cut_program(array: &mut Array, row: usize, before: Option<Vec<u8>>, share: f64, seed: u64) {
    let Some(new) = array.stored(row) else { return };
    let mut page = before.unwrap_or_else(|| vec![0xFF; new.len()]);
    let changed: Vec<(usize, u8)> = (0..)
        .zip(page.iter().zip(&*new))
        .filter(|(_, (old, new))| old != new)
        .map(|(at, (_, new))| (at, *new))
        .collect();
    let bits = (changed.len() as f64 * 8.0 * share) as usize;
    for (turn, (at, new)) in changed.into_iter().enumerate() {
        page[at] = match bits.saturating_sub(turn * 8) {
            0 => break,
            8.. => new,
            // Of the word being programmed, only some bits are programmed.
            few => page[at] & (new | some_bits(seed ^ row as u64, at as u64, 1.0 - few as f64 / 8.0)),
        };
    }
    array.put(row, page);
}

fn cut_erase(array: &mut Array, block: usize, share: f64, seed: u64) {
    let rows = array.rows_of(block);
    if share < PREPROGRAM {
        let done = (rows.len() as f64 * share / PREPROGRAM) as usize;
        for row in rows.take(done) {
            array.put(row, vec![0; array.page_bytes()]);
        }
        return;
    }
    let ones = (share - PREPROGRAM) / (1.0 - PREPROGRAM);
    for row in rows {
        let page = (0..array.page_bytes() as u64).map(|at| some_bits(seed ^ row as u64, at, ones)).collect();
        array.put(row, page);
    }
}

/// A byte whose bits are 1 with this probability.
fn some_bits(seed: u64, at: u64, ones: f64) -> u8 {
    let random = mix(mix(seed) ^ at);
    let least = (ones * 256.0) as u64;
    (0..8).fold(0, |byte, bit| byte | u8::from((random >> (8 * bit)) & 0xFF < least) << bit)
}

/// A 64-bit hash (SplitMix64), for repeatable random numbers.
pub(crate) const fn mix(x: u64) -> u64 {
    random::mix(x.wrapping_add(random::GOLDEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array() -> Array {
        let mut array = Array::new(64, 4, 2, true);
        array.program(1, 0, &[0x0F; 64]);
        array
    }

    fn page(array: &Array, row: usize) -> Vec<u8> {
        let mut page = vec![0; 64];
        array.read(row, 0, &mut page);
        page
    }

    #[test]
    fn a_program_is_cut_off_at_a_byte() {
        for (share, whole) in [(0.0, 0), (0.5, 32), (1.0, 64)] {
            let mut array = array();
            let undo = Undo::program(&array, 1);
            array.program(1, 0, &[0x03; 64]);
            undo.cut(&mut array, share, 1);
            let page = page(&array, 1);
            assert!(page[..whole].iter().all(|&byte| byte == 0x03), "{share}");
            assert!(page[whole..].iter().all(|&byte| byte == 0x0F), "{share}");
        }
    }

    #[test]
    fn an_erase_programs_first() {
        let cut = |share| {
            let mut array = array();
            let undo = Undo::erase(&array, 0..1);
            array.erase(0);
            undo.cut(&mut array, share, 1);
            array
        };
        assert_eq!(page(&cut(0.0), 1), [0x0F; 64]);
        let first = cut(0.1);
        assert_eq!((page(&first, 0), page(&first, 3)), (vec![0; 64], vec![0xFF; 64]));
        let ones = |array: &Array| page(array, 1).iter().map(|byte| byte.count_ones()).sum::<u32>();
        let counts = [0.25, 0.5, 0.9].map(|share| ones(&cut(share)));
        assert!(counts.is_sorted() && counts[0] < 100 && counts[2] > 400, "{counts:?}");
        assert_eq!(page(&cut(1.0), 1), [0xFF; 64]);
    }
}
