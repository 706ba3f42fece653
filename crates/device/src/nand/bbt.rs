//! Bad block table of a driver, in memory.

/// State of a block (Linux: `enum nand_bbt_block_status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockState {
    /// The bad block marker has not been read yet.
    Unknown,
    /// The block is good.
    #[default]
    Good,
    /// The block was marked bad during use.
    Worn,
    /// The block is reserved for the bad block table.
    Reserved,
    /// The maker marked the block bad.
    FactoryBad,
}

/// Table with the state of every block.
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

    /// True if users must not use the block because it is bad or reserved.
    #[inline]
    pub(crate) fn is_bad(&self, block: u32) -> bool {
        !matches!(self.get(block), BlockState::Good | BlockState::Unknown)
    }
}
