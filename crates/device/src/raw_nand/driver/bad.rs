//! Bad blocks: the maker's markers, and markers that the driver writes.

use super::{BadBlocks, RawNandDriver};
use crate::nand::bbt::{BadBlockTable, BlockState};
use crate::nand::span;
use crate::raw_nand::bus::NandBus;
use crate::raw_nand::command as c;
use floatgate_mtd::{Error, ErrorKind};

impl<B: NandBus> RawNandDriver<B> {
    /// State of a block.
    pub fn block_state(&self, block: u32) -> BlockState {
        self.bbt.get(block)
    }

    /// Rejects an erase of a bad block, which would destroy its marker.
    #[inline]
    pub(super) fn refuse_bad(&mut self, addr: u64) -> Result<(), Error> {
        if self.block_is_bad(span::block_of(&self.geometry, addr))? {
            Err(self.error(ErrorKind::BadBlock, addr))
        } else {
            Ok(())
        }
    }

    /// With [`BadBlocks::OnDemand`], makes the driver read the marker of each block again when the block is next used, as after a
    /// boot.
    pub fn forget_bad_blocks(&mut self) {
        if self.bad_blocks == BadBlocks::OnDemand {
            self.bbt = BadBlockTable::new(self.geometry.blocks(), BlockState::Unknown);
        }
    }

    /// Reads the maker's markers of all blocks.
    pub(super) fn scan_markers(&mut self) -> Result<(), Error> {
        (0..self.geometry.blocks()).try_for_each(|block| self.read_state(block))
    }

    /// True if users must not use the block; its marker is read on first use.
    pub(super) fn block_is_bad(&mut self, block: u32) -> Result<bool, Error> {
        if self.bbt.get(block) == BlockState::Unknown {
            self.read_state(block)?;
        }
        Ok(self.bbt.is_bad(block))
    }

    fn read_state(&mut self, block: u32) -> Result<(), Error> {
        let marked = self.is_marked(block)?;
        self.bbt.set(block, if marked { BlockState::FactoryBad } else { BlockState::Good });
        Ok(())
    }

    /// True if a block has a bad block marker.
    fn is_marked(&mut self, block: u32) -> Result<bool, Error> {
        let marker = self.info.marker.byte(&self.info.geometry) as usize;
        let mut oob = std::mem::take(&mut self.oob);
        let mut found = Ok(false);
        for index in 0..self.info.marker.pages.len() {
            let page = self.info.marker.pages[index].page(self.rows.pages_per_block());
            let addr = span::block_addr(&self.geometry, block) + (u64::from(page) << self.page_shift);
            // In timing-only mode no read fills the buffer.
            oob[marker] = 0xFF;
            let loaded = self.load_oob(self.page_at(addr), &mut oob);
            match loaded {
                Ok(()) if oob[marker] == 0xFF => {}
                Ok(()) => found = Ok(true),
                Err(error) => found = Err(self.failed(error, addr)),
            }
        }
        self.oob = oob;
        found
    }

    /// Writes the bad block marker. The block is erased first, even if the erase fails, so that the marker is readable
    /// with any previous contents.
    pub(super) fn write_marker(&mut self, block: u32) -> Result<(), Error> {
        let addr = span::block_addr(&self.geometry, block);
        let at = self.page_at(addr);
        // The block is no longer used, so a failed erase has no effect.
        let _ = self.erase_block(at);
        let marker = self.info.marker.byte(&self.info.geometry) as usize;
        let mut oob = self.blank_oob.clone();
        oob[marker] = 0;
        let blank = vec![0xFF; 1 << self.page_shift];
        let mut result = Ok(());
        for index in 0..self.info.marker.pages.len() {
            let page = self.info.marker.pages[index].page(self.rows.pages_per_block());
            let at = self.page_at(addr + (u64::from(page) << self.page_shift));
            let (failed, _) = self.store_page(at, &blank, &oob, c::PROGRAM_CONFIRM)?;
            // Every program of a worn-out block fails; the marker is accepted if it can be read.
            if failed && self.bus.keeps_data() && !self.is_marked(block)? {
                result = Err(self.error(ErrorKind::ProgramFailed, at.addr));
            }
        }
        result
    }
}
