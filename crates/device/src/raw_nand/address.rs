//! Row addresses: division of the row cycles into LUN, block and page.
//!
//! ONFI 4.2 section 3.1: page bits lowest, block bits above, LUN bits on top. Each field is as wide as its largest
//! value requires, so sizes that are not a power of two leave unused addresses.

/// Decoded row address: LUN, block and page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAddress {
    /// Number of the LUN in the target.
    pub lun: u32,
    /// Number of the block in the LUN.
    pub block: u32,
    /// Number of the page in the block.
    pub page: u32,
}

/// Field widths of a chip's row addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMap {
    pages_per_block: u32,
    blocks_per_lun: u32,
    luns: u32,
    page_bits: u32,
    lun_shift: u32,
}

const fn bits_for(count: u32) -> u32 {
    count.next_power_of_two().trailing_zeros()
}

impl RowMap {
    /// The map of a target. All arguments must be greater than 0.
    pub const fn new(pages_per_block: u32, blocks_per_lun: u32, luns: u32) -> Self {
        let page_bits = bits_for(pages_per_block);
        Self {
            pages_per_block,
            blocks_per_lun,
            luns,
            page_bits,
            lun_shift: page_bits + bits_for(blocks_per_lun),
        }
    }

    /// Number of pages in a block.
    pub const fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// Number of blocks in all LUNs of the target.
    pub const fn blocks(&self) -> u32 {
        self.blocks_per_lun * self.luns
    }

    /// Number of pages in the target.
    pub const fn rows(&self) -> u32 {
        self.blocks() * self.pages_per_block
    }

    /// Number of row cycles that address every row.
    pub const fn cycles(&self) -> u8 {
        (self.lun_shift + bits_for(self.luns)).div_ceil(8) as u8
    }

    /// Row address of page `page` in block `block`; blocks are counted over all LUNs of the target.
    #[inline]
    pub const fn encode(&self, block: u32, page: u32) -> u32 {
        let (lun, block) = if self.luns == 1 {
            (0, block)
        } else {
            (block / self.blocks_per_lun, block % self.blocks_per_lun)
        };
        lun << self.lun_shift | block << self.page_bits | page
    }

    /// Decodes a row address; `None` for an address beyond the chip or an unused one.
    #[inline]
    pub const fn decode(&self, row: u32) -> Option<RowAddress> {
        let lun = row >> self.lun_shift;
        let block = (row & ((1 << self.lun_shift) - 1)) >> self.page_bits;
        let page = row & ((1 << self.page_bits) - 1);
        if lun < self.luns && block < self.blocks_per_lun && page < self.pages_per_block {
            Some(RowAddress { lun, block, page })
        } else {
            None
        }
    }

    /// Block and page of a page number that is counted without unused addresses. It divides only if necessary.
    #[inline]
    pub const fn split(&self, page: u32) -> (u32, u32) {
        if self.pages_per_block == 1 << self.page_bits {
            (page >> self.page_bits, page & (self.pages_per_block - 1))
        } else {
            (page / self.pages_per_block, page % self.pages_per_block)
        }
    }

    /// Index of the row among all rows of the target, without unused addresses.
    #[inline]
    pub const fn index(&self, at: RowAddress) -> u32 {
        self.block_index(at) * self.pages_per_block + at.page
    }

    /// Index of the row's block among all blocks of the target.
    #[inline]
    pub const fn block_index(&self, at: RowAddress) -> u32 {
        at.lun * self.blocks_per_lun + at.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_not_rows() {
        let map = RowMap::new(258, 2132, 2);
        let row = map.encode(2132 + 7, 257);
        assert_eq!(row, 1 << (9 + 12) | 7 << 9 | 257);
        assert_eq!(map.decode(row), Some(RowAddress { lun: 1, block: 7, page: 257 }));
        assert_eq!(map.decode(row + 1), None);
        assert_eq!(map.decode(2132 << 9), None);
        assert_eq!(map.decode(2 << 21), None);
        assert_eq!(map.cycles(), 3);
        assert_eq!((map.split(258 * 3 + 5), RowMap::new(64, 8, 1).split(64 * 3 + 5)), ((3, 5), (3, 5)));
    }

    #[test]
    fn powers_of_two_are_linear() {
        let map = RowMap::new(64, 2048, 1);
        assert_eq!((map.encode(2047, 63), map.cycles(), map.rows()), (131_071, 3, 131_072));
        assert_eq!(RowMap::new(64, 1024, 1).cycles(), 2);
    }
}
