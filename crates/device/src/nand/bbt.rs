//! The bad block table of a driver, in memory.

/// State of a block (Linux: `enum nand_bbt_block_status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockState {
    /// Its marker has not been read yet.
    Unknown,
    /// In use.
    #[default]
    Good,
    /// Marked bad while in use.
    Worn,
    /// Kept for the bad block table itself.
    Reserved,
    /// Marked bad by its maker.
    FactoryBad,
}

/// State of every block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadBlockTable {
    blocks: Vec<BlockState>,
}

impl BadBlockTable {
    /// A table in which every block has the same state.
    pub(crate) fn new(blocks: u32, state: BlockState) -> Self {
        Self { blocks: vec![state; blocks as usize] }
    }

    pub(crate) fn get(&self, block: u32) -> BlockState {
        self.blocks.get(block as usize).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, block: u32, state: BlockState) {
        if let Some(old) = self.blocks.get_mut(block as usize) {
            *old = state;
        }
    }

    /// True when users must keep off the block: bad, or reserved.
    #[inline]
    pub(crate) fn is_bad(&self, block: u32) -> bool {
        !matches!(self.get(block), BlockState::Good | BlockState::Unknown)
    }
}
