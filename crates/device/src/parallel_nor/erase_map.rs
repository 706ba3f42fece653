//! Map from addresses to eraseblocks, for chips with blocks of several sizes.

/// Adjacent blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: u32,
    first: u32,
    blocks: u32,
    block_bytes: u32,
}

/// Number, position and size of an eraseblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EraseBlock {
    /// Number of the block, counted from the lowest address.
    pub index: u32,
    /// Index of the erase region of the block.
    pub region: usize,
    /// First byte address of the block.
    pub start: u32,
    /// Size of the block, bytes.
    pub len: u32,
}

/// Eraseblocks of a chip, stored as runs of blocks of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EraseMap {
    runs: Vec<Run>,
    size: u64,
}

impl EraseMap {
    /// Creates a map from pairs (number of blocks, bytes per block), lowest address first.
    pub fn new(regions: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut runs = Vec::new();
        let (mut size, mut first) = (0u64, 0);
        for (blocks, block_bytes) in regions {
            runs.push(Run { start: size as u32, first, blocks, block_bytes });
            size += u64::from(blocks) * u64::from(block_bytes);
            first += blocks;
        }
        Self { runs, size }
    }

    /// Total size of all blocks, bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.runs.last().map_or(0, |run| run.first + run.blocks)
    }

    /// Size of the largest block, in bytes.
    pub fn largest(&self) -> u32 {
        self.runs.iter().map(|run| run.block_bytes).max().unwrap_or(0)
    }

    /// The block that contains byte address `addr`; `None` beyond the last block.
    #[inline]
    pub fn at(&self, addr: u32) -> Option<EraseBlock> {
        if u64::from(addr) >= self.size {
            return None;
        }
        let region = self.runs.partition_point(|run| run.start <= addr).checked_sub(1)?;
        let run = self.runs.get(region)?;
        let within = (addr - run.start) / run.block_bytes;
        Some(EraseBlock {
            index: run.first + within,
            region,
            start: run.start + within * run.block_bytes,
            len: run.block_bytes,
        })
    }

    /// All blocks that begin in `[addr, addr + len)`.
    pub fn within(&self, addr: u64, len: u64) -> impl Iterator<Item = EraseBlock> + '_ {
        let mut next = addr;
        std::iter::from_fn(move || {
            let block = self.at(u32::try_from(next).ok()?).filter(|_| next < addr + len)?;
            next = u64::from(block.start) + u64::from(block.len);
            Some(block)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_blocks_of_all_sizes() {
        let map = EraseMap::new([(8, 0x2000), (127, 0x1_0000)].into_iter());
        assert_eq!((map.size(), map.blocks(), map.largest()), (0x80_0000, 135, 0x1_0000));
        assert_eq!(map.at(0x3FFF), Some(EraseBlock { index: 1, region: 0, start: 0x2000, len: 0x2000 }));
        assert_eq!(
            map.at(0x2_0001),
            Some(EraseBlock { index: 9, region: 1, start: 0x2_0000, len: 0x1_0000 })
        );
        assert_eq!(map.at(0x80_0000), None);
        assert_eq!(map.within(0, 0x2_0000).map(|b| b.len).sum::<u32>(), 0x2_0000);
        assert_eq!(map.within(0, 0x2_0000).count(), 9);
        assert_eq!(map.within(0x7F_0000, 0x1_0000).count(), 1);
    }
}
