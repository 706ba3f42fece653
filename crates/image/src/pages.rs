//! Sizes of the pages of a dump with OOB: as they were found, and as they were stated.

use serde::Serialize;

/// Pages with OOB, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PageShape {
    /// Bytes of a page without OOB.
    pub page_bytes: u32,
    /// Bytes of its OOB.
    pub oob_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
}

impl PageShape {
    /// Bytes of a page with its OOB.
    #[must_use]
    pub const fn stride(&self) -> u32 {
        self.page_bytes + self.oob_bytes
    }

    /// The same bytes as larger pages with `page_bytes` of data, where these are several of the small ones.
    pub(crate) fn joined(&self, page_bytes: u32) -> Option<Self> {
        let pages = page_bytes.checked_div(self.page_bytes).filter(|pages| *pages > 1)?;
        let is_whole =
            page_bytes.is_multiple_of(self.page_bytes) && self.pages_per_block.is_multiple_of(pages);
        is_whole.then(|| Self {
            page_bytes,
            oob_bytes: self.oob_bytes.saturating_mul(pages),
            pages_per_block: self.pages_per_block / pages,
        })
    }

    /// Bytes of the data of a block.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.page_bytes.saturating_mul(self.pages_per_block)
    }
}

/// Sizes of flash that were stated; those that were not are found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashSizes {
    /// Bytes of a PEB or eraseblock.
    pub peb_bytes: Option<u32>,
    /// Sizes of pages.
    pub pages: PageSizes,
}

/// Sizes of pages that were stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSizes {
    /// Data bytes of a page.
    pub page_bytes: Option<u32>,
    /// OOB bytes of a page.
    pub oob_bytes: Option<u32>,
    /// Pages of a block.
    pub pages_per_block: Option<u32>,
}

/// The size of a PEB alone.
impl From<Option<u32>> for FlashSizes {
    fn from(peb_bytes: Option<u32>) -> Self {
        Self { peb_bytes, ..Self::default() }
    }
}

impl FlashSizes {
    /// True when pages contradict nothing that was stated.
    pub(crate) fn allows(&self, pages: &PageShape) -> bool {
        let PageSizes { page_bytes, oob_bytes, pages_per_block } = self.pages;
        let is = |stated: Option<u32>, own| stated.is_none_or(|stated| stated == own);
        is(page_bytes, pages.page_bytes)
            && is(oob_bytes, pages.oob_bytes)
            && is(pages_per_block, pages.pages_per_block)
    }

    /// Pages whose sizes were stated, and whether the number of pages of a block was: a usual one takes its place.
    pub(super) fn stated_pages(&self) -> Option<(PageShape, bool)> {
        let PageSizes { page_bytes, oob_bytes, pages_per_block } = self.pages;
        let (page_bytes, oob_bytes) = (page_bytes.filter(|&bytes| bytes > 0)?, oob_bytes?);
        let of_peb = self.peb_bytes.map(|bytes| bytes / page_bytes).filter(|&pages| pages > 0);
        let stated = pages_per_block.or(of_peb);
        let pages_per_block = stated.unwrap_or_else(|| usual_block(page_bytes));
        Some((PageShape { page_bytes, oob_bytes, pages_per_block }, stated.is_some()))
    }
}

/// Pages a block has with most chips, by page size.
pub(crate) const USUAL_BLOCKS: [(u32, u32); 6] =
    [(512, 32), (1024, 64), (2048, 64), (4096, 64), (8192, 128), (16384, 256)];

/// Pages that a block has with most chips whose pages have this size.
pub(crate) fn usual_block(page_bytes: u32) -> u32 {
    USUAL_BLOCKS.iter().find(|block| block.0 == page_bytes).map_or(64, |block| block.1)
}
