//! Knowledge and faults of a chip that only a simulator has.
//!
//! [`PageTruth`] is what a driver may ask in the middle of a read. [`Oracle`] is for tests and experiments: it looks past the command
//! set, and breaks things on purpose. Nothing that a driver finds out comes from there.

use crate::array::Array;
use crate::cells::Cells;
use std::collections::BTreeMap;

/// Knowledge of the page whose bytes were read last, which a driver uses to decode no more than it must. Real hardware
/// does not have it: bytes are then decoded, which finds the same, only slower.
pub trait PageTruth {
    /// The wrong bits of that page (offsets, sorted); `None` when they are unknown.
    fn wrong_bits(&self) -> Option<&[u32]> {
        None
    }

    /// True when that page is known to hold just what one program wrote.
    fn is_as_programmed(&self) -> bool {
        false
    }

    /// True when that page is known to be erased: all ones, which every code in use takes for a codeword.
    fn is_erased(&self) -> bool {
        false
    }

    /// True when page bytes are stored at all; `false` in timing-only mode.
    fn keeps_data(&self) -> bool;
}

/// Faults of a block, or of a page where programs fail page by page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Programs report failure.
    pub program: bool,
    /// Erases report failure.
    pub erase: bool,
}

impl Faults {
    /// Programs and erases fail.
    pub const BOTH: Self = Self { program: true, erase: true };
    /// Programs fail.
    pub const PROGRAM: Self = Self { program: true, erase: false };
    /// Erases fail.
    pub const ERASE: Self = Self { program: false, erase: true };
    /// Everything works.
    pub const NONE: Self = Self { program: false, erase: false };
}

/// Faults of a chip by block.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockFaults(BTreeMap<u32, Faults>);

impl BlockFaults {
    pub(crate) fn set(&mut self, block: u32, faults: Faults) {
        if faults == Faults::NONE {
            self.0.remove(&block);
        } else {
            self.0.insert(block, faults);
        }
    }

    #[inline]
    pub(crate) fn of_block(&self, block: u32) -> Faults {
        if self.0.is_empty() {
            return Faults::NONE;
        }
        self.0.get(&block).copied().unwrap_or_default()
    }

    /// True when the erase of any block fails.
    pub(crate) fn any_erase(&self) -> bool {
        self.0.values().any(|faults| faults.erase)
    }
}

/// A chip or package as no driver sees it. Its parts are dies, or targets of a raw NAND, and are numbered from 0.
pub trait Oracle {
    /// Content of a part's array, OOB after the data of each page.
    fn array(&self, part: usize) -> Option<&Array>;

    /// Content of a part's array, to change it.
    fn array_mut(&mut self, part: usize) -> Option<&mut Array>;

    /// Cells of a part; `None` for NOR.
    fn cells(&self, part: usize) -> Option<&Cells> {
        let _ = part;
        None
    }

    /// Cells of a part, to wear or bake them.
    fn cells_mut(&mut self, part: usize) -> Option<&mut Cells> {
        let _ = part;
        None
    }

    /// Blocks that the maker marked bad, numbered over all parts.
    fn factory_bad(&self) -> Vec<u32> {
        Vec::new()
    }

    /// From now on programs and erases of the block at a byte address fail, or work again. On SPI NOR programs of its page fail.
    fn set_faults(&mut self, addr: u64, faults: Faults);

    /// Inverts bit `bit` (byte * 8 + bit number, OOB after the data) of a page until its block is erased. Pages are numbered over
    /// all parts.
    fn inject(&mut self, page: u32, bit: u32) {
        let (page, rows) = (page as usize, self.array(0).map_or(1, Array::rows));
        if let Some(array) = self.array_mut(page / rows) {
            array.inject(page % rows, bit);
        }
    }
}
