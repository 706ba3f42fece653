//! Knowledge about a chip and control of its faults that only a simulator has.
//!
//! [`PageTruth`] is the part that a driver may use during a read. [`Oracle`] is for tests and experiments: it accesses the array
//! without commands and injects faults. A driver gets no result from it.

use crate::array::Array;
use crate::cells::Cells;
use std::collections::BTreeMap;

/// Knowledge about the page that was read last, which a driver uses to avoid unnecessary decoding. Real hardware does not have it:
/// all bytes are then decoded, with the same result, but slower.
pub trait PageTruth {
    /// Sorted offsets of the wrong bits in that page; `None` if they are unknown.
    fn wrong_bits(&self) -> Option<&[u32]> {
        None
    }

    /// True if that page is known to contain exactly the data of one program.
    fn is_as_programmed(&self) -> bool {
        false
    }

    /// True if that page is known to be erased: all ones, which is a codeword of every code in use.
    fn is_erased(&self) -> bool {
        false
    }

    /// True if page data is stored; false in timing-only mode.
    fn keeps_data(&self) -> bool;
}

/// Faults of a block; of a page if the chip has faults per page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// True if programs report a failure.
    pub program: bool,
    /// True if erases report a failure.
    pub erase: bool,
}

impl Faults {
    /// Programs and erases report a failure.
    pub const BOTH: Self = Self { program: true, erase: true };
    /// Only programs report a failure.
    pub const PROGRAM: Self = Self { program: true, erase: false };
    /// Only erases report a failure.
    pub const ERASE: Self = Self { program: false, erase: true };
    /// Neither programs nor erases report a failure.
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

    /// True if the erase of any block fails.
    pub(crate) fn any_erase(&self) -> bool {
        self.0.values().any(|faults| faults.erase)
    }
}

/// Direct access to a chip or package. Its parts are dies, or targets of a raw NAND, numbered from 0.
pub trait Oracle {
    /// Array of a part; each page is followed by its OOB.
    fn array(&self, part: usize) -> Option<&Array>;

    /// Mutable access to the array of a part.
    fn array_mut(&mut self, part: usize) -> Option<&mut Array>;

    /// Cell model of a part; `None` for NOR.
    fn cells(&self, part: usize) -> Option<&Cells> {
        let _ = part;
        None
    }

    /// Mutable access to the cell model of a part, to simulate wear or baking.
    fn cells_mut(&mut self, part: usize) -> Option<&mut Cells> {
        let _ = part;
        None
    }

    /// Numbers of the factory bad blocks, counted over all parts.
    fn factory_bad(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Sets the faults of the block at a byte address. On SPI NOR, faults of programs apply to the page.
    fn set_faults(&mut self, addr: u64, faults: Faults);

    /// Inverts bit `bit` (byte * 8 + bit number, OOB after the data) of a page until its block is erased. Pages are numbered over all
    /// parts.
    fn inject(&mut self, page: u32, bit: u32) {
        let (page, rows) = (page as usize, self.array(0).map_or(1, Array::rows));
        if let Some(array) = self.array_mut(page / rows) {
            array.inject(page % rows, bit);
        }
    }
}
