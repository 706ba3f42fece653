//! Bad blocks: the maker's markers, read when a block is first used, and markers that the driver writes.

use super::super::command as c;
use super::SpiNandDriver;
use crate::nand::bbt::{BadBlockTable, BlockState};
use crate::nand::span;
use crate::spi::{SpiError, SpiMem};
use floatgate_ecc::MARKER;
use floatgate_mtd::Error;

impl<S: SpiMem> SpiNandDriver<S> {
    /// Makes the driver read the marker of each block again when the block is next used, as after a boot.
    pub fn forget_bad_blocks(&mut self) {
        self.bbt = BadBlockTable::new(self.spec.geometry.blocks(), BlockState::Unknown);
    }

    pub(super) fn block_is_bad(&mut self, block: u32) -> Result<bool, Error> {
        if self.bbt.get(block) == BlockState::Unknown {
            let at = span::block_addr(&self.geometry, block);
            let marked = self.read_marker(at).map_err(|error| self.failed(error, at))?;
            self.bbt.set(block, if marked { BlockState::FactoryBad } else { BlockState::Good });
        }
        Ok(self.bbt.is_bad(block))
    }

    /// True if the first page's marker bytes are not all FFh. They are read raw, because not every ECC covers
    /// them.
    fn read_marker(&mut self, at: u64) -> Result<bool, SpiError> {
        let row = self.row(at)?;
        self.update_config(c::ECC_ENABLE, 0)?;
        self.page_to_cache(row)?;
        let mut page = std::mem::take(&mut self.page);
        let column = self.geometry.write_bytes;
        let oob = &mut page[column as usize..];
        oob.fill(0xFF);
        let outcome = self.read_cache(row, column, oob);
        let marked = oob[..MARKER as usize].iter().any(|&b| b != 0xFF);
        self.page = page;
        outcome?;
        self.restore_ecc()?;
        Ok(marked)
    }

    /// Restores the setting of the on-die ECC for normal operations.
    pub(super) fn restore_ecc(&mut self) -> Result<(), SpiError> {
        self.update_config(c::ECC_ENABLE, if self.on_die() { c::ECC_ENABLE } else { 0 })
    }

    /// Erases the block if possible, so that its first page may be programmed, and writes the marker.
    pub(super) fn mark_block_bad(&mut self, block: u32) -> Result<(), Error> {
        let at = span::block_addr(&self.geometry, block);
        self.bbt.set(block, BlockState::Worn);
        // The result of the erase is ignored, because zeros can be programmed over any contents.
        self.erase_row(block).map_err(|error| self.failed(error, at))?;
        let data_bytes = self.geometry.write_bytes as usize;
        self.page.fill(0xFF);
        self.page[data_bytes..data_bytes + MARKER as usize].fill(0);
        self.program_raw(at)
    }
}
