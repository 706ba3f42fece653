//! Sizes of the pages of a dump with OOB: found sizes, and sizes that the user states.

use serde::Serialize;

/// Pages with OOB, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PageShape {
    /// Size of a page without OOB, bytes.
    pub page_bytes: u32,
    /// Size of the OOB, bytes.
    pub oob_bytes: u32,
    /// Number of pages in a block.
    pub pages_per_block: u32,
}

impl PageShape {
    /// Size of a page with its OOB, bytes.
    #[must_use]
    pub const fn stride(&self) -> u32 {
        self.page_bytes + self.oob_bytes
    }

    /// The same bytes as larger pages with `page_bytes` of data, if several small pages form a large one.
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

    /// Size of a block's data, bytes.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.page_bytes.saturating_mul(self.pages_per_block)
    }
}

/// Sizes of flash that the user states; other sizes are detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashSizes {
    /// Size of a PEB or eraseblock, bytes.
    pub peb_bytes: Option<u32>,
    /// Sizes of pages.
    pub pages: PageSizes,
}

/// Page sizes that the user states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSizes {
    /// Size of a page without OOB, bytes.
    pub page_bytes: Option<u32>,
    /// Size of a page's OOB, bytes.
    pub oob_bytes: Option<u32>,
    /// Number of pages in a block.
    pub pages_per_block: Option<u32>,
}

/// Only the size of a PEB.
impl From<Option<u32>> for FlashSizes {
    fn from(peb_bytes: Option<u32>) -> Self {
        Self { peb_bytes, ..Self::default() }
    }
}

impl FlashSizes {
    /// True if pages do not contradict a stated size.
    pub(crate) fn allows(&self, pages: &PageShape) -> bool {
        let PageSizes { page_bytes, oob_bytes, pages_per_block } = self.pages;
        let is = |stated: Option<u32>, own| stated.is_none_or(|stated| stated == own);
        is(page_bytes, pages.page_bytes)
            && is(oob_bytes, pages.oob_bytes)
            && is(pages_per_block, pages.pages_per_block)
    }

    /// Pages with stated sizes. The flag is true if the number of pages in a block was stated; otherwise a usual
    /// number is used.
    pub(super) fn stated_pages(&self) -> Option<(PageShape, bool)> {
        let PageSizes { page_bytes, oob_bytes, pages_per_block } = self.pages;
        let (page_bytes, oob_bytes) = (page_bytes.filter(|&bytes| bytes > 0)?, oob_bytes?);
        let of_peb = self.peb_bytes.map(|bytes| bytes / page_bytes).filter(|&pages| pages > 0);
        let stated = pages_per_block.or(of_peb);
        let pages_per_block = stated.unwrap_or_else(|| usual_block(page_bytes));
        Some((PageShape { page_bytes, oob_bytes, pages_per_block }, stated.is_some()))
    }
}

/// Sizes of page and OOB of available chips, bytes (ONFI parameter pages and data sheets).
pub(crate) const SHAPES: [(u32, u32); 20] = [
    (512, 16),
    (2048, 64),
    (2048, 112),
    (2048, 120),
    (2048, 128),
    (4096, 128),
    (4096, 208),
    (4096, 216),
    (4096, 218),
    (4096, 224),
    (4096, 256),
    (8192, 436),
    (8192, 448),
    (8192, 512),
    (8192, 640),
    (8192, 744),
    (16384, 1216),
    (16384, 1280),
    (16384, 1664),
    (16384, 2208),
];

/// Usual number of pages in a block, by page size.
pub(crate) const USUAL_BLOCKS: [(u32, u32); 6] =
    [(512, 32), (1024, 64), (2048, 64), (4096, 64), (8192, 128), (16384, 256)];

/// Usual number of pages in a block for this page size.
pub(crate) fn usual_block(page_bytes: u32) -> u32 {
    USUAL_BLOCKS.iter().find(|block| block.0 == page_bytes).map_or(64, |block| block.1)
}
