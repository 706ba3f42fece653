//! Sizes of page, OOB and block, and positions of bad block markers.

use super::EccError;

/// Size of the largest page and of the largest OOB, bytes. The largest available chips have 16 KiB and about 2 KiB.
const MAX_PAGE: u64 = 64 << 10;

/// Largest number of pages in a block. 3D NAND has up to some thousands.
const MAX_PAGES_PER_BLOCK: u64 = 16 << 10;

/// Size of the largest block, which is held in memory, bytes.
const MAX_BLOCK: u64 = 256 << 20;

/// Position of the maker's bad block markers, which are bytes other than FFh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Position of the marker in the OOB.
    pub byte: u32,
    /// Pages of a block that contain the marker.
    pub pages: Vec<u32>,
}

/// Arrangement of the pages of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageGeometry {
    /// Size of a page without OOB, bytes.
    pub page_bytes: u32,
    /// Size of a page's OOB, bytes.
    pub oob_bytes: u32,
    /// Number of pages in a block; `None` if it is unknown.
    pub pages_per_block: Option<u32>,
    /// Number of pages of the chip; `None` if it is unknown.
    pub pages: Option<u64>,
    /// Position of the bad block markers.
    pub marker: Marker,
}

impl Marker {
    /// Default position of the marker in Linux: OOB byte 5 of a small page, and byte 0 of a large page
    /// (NAND_BBM_POS_SMALL, NAND_BBM_POS_LARGE).
    pub(crate) const fn usual_byte(page_bytes: u32) -> u32 {
        if page_bytes <= 512 { 5 } else { 0 }
    }
}

impl PageGeometry {
    /// Geometry with these sizes, and with Linux's default position of markers in the first page of a block.
    ///
    /// # Errors
    /// No chip has these sizes.
    pub fn new(page_bytes: u32, oob_bytes: u32, pages_per_block: Option<u32>) -> Result<Self, EccError> {
        let marker = Marker { byte: Marker::usual_byte(page_bytes), pages: vec![0] };
        Self { page_bytes, oob_bytes, pages_per_block, pages: None, marker }.checked()
    }

    /// Checks that a chip can have this geometry.
    ///
    /// # Errors
    /// No chip has these sizes.
    pub fn checked(self) -> Result<Self, EccError> {
        let within = |what, value: u64, least, most| {
            let good = (least..=most).contains(&value);
            if good { Ok(()) } else { Err(EccError::Size { what, value, least, most }) }
        };
        within("a page size", self.page_bytes.into(), 1, MAX_PAGE)?;
        within("an OOB size", self.oob_bytes.into(), 1, MAX_PAGE)?;
        if let Some(pages) = self.pages_per_block {
            within("a number of pages per block", pages.into(), 1, MAX_PAGES_PER_BLOCK)?;
            let full = u64::from(pages) * u64::from(self.page_bytes + self.oob_bytes);
            within("a block size", full, 1, MAX_BLOCK)?;
        }
        Ok(self)
    }

    /// Size of a page with its OOB, bytes.
    pub const fn full_page(&self) -> u32 {
        self.page_bytes + self.oob_bytes
    }
}
