//! The flash that an image is for.

use floatgate_media::ubi;
use floatgate_stack::VolumeGeometry;

use super::BuildError;

/// Bytes that are written at once: nothing on flash depends on it, and a host likes large writes.
const WRITE_BYTES: u32 = 32 << 10;

/// PEBs that UBI keeps for itself: two for the volume table, one to level wear, one to change LEBs atomically.
const UBI_OWN_PEBS: u32 = 4;

/// Bad PEBs that Linux expects among 1024.
const BAD_PER_1024: u64 = 20;

/// Sizes of the flash that an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashShape {
    /// Smallest write: a page; 1 on NOR.
    pub page_bytes: u32,
    /// Smallest write of UBI's headers.
    pub sub_page_bytes: u32,
    /// Bytes of a PEB.
    pub peb_bytes: u32,
    /// Byte in a PEB where the VID header begins; UBI's own choice unless given.
    pub vid_header_offset: Option<u32>,
    /// PEBs of the flash, where they are known.
    pub pebs: Option<u32>,
}

impl FlashShape {
    /// A whole NAND of this many blocks, without sub-pages.
    pub fn of_nand(page_bytes: u32, pages_per_block: u32, blocks: u64) -> Self {
        Self {
            page_bytes,
            sub_page_bytes: page_bytes,
            peb_bytes: page_bytes.saturating_mul(pages_per_block),
            vid_header_offset: None,
            pebs: Some(u32::try_from(blocks).unwrap_or(u32::MAX)),
        }
    }

    /// Offsets of headers and data in a PEB.
    ///
    /// # Errors
    /// Sizes that no UBI device has.
    pub fn ubi(&self) -> Result<ubi::Geometry, BuildError> {
        let flash = ubi::Flash {
            peb_bytes: self.peb_bytes,
            min_io_bytes: self.page_bytes,
            sub_page_bytes: self.sub_page_bytes,
        };
        let geometry = match self.vid_header_offset {
            Some(offset) => ubi::Geometry::with_vid_header_offset(flash, offset),
            None => ubi::Geometry::new(flash),
        };
        geometry.map_err(|reason| BuildError::Shape(reason.to_string()))
    }

    /// LEBs that volumes of the whole flash can have, where its size is known: what Linux leaves when it expects as many bad
    /// PEBs as it does by itself.
    #[must_use]
    pub fn available_lebs(&self) -> Option<u32> {
        let pebs = self.pebs?;
        let bad = (u64::from(pebs) * BAD_PER_1024).div_ceil(1024);
        let bad = if self.page_bytes == 1 { 0 } else { u32::try_from(bad).unwrap_or(u32::MAX) };
        Some(pebs.saturating_sub(UBI_OWN_PEBS).saturating_sub(bad))
    }

    /// A volume of `lebs` LEBs on it.
    pub(super) fn volume(&self, geometry: &ubi::Geometry, lebs: u32) -> VolumeGeometry {
        VolumeGeometry {
            lebs,
            leb_bytes: geometry.leb_bytes(),
            min_io_bytes: self.page_bytes,
            max_write_bytes: self.page_bytes.max(WRITE_BYTES).min(self.peb_bytes),
            leb_start: 0,
            read_only: false,
        }
    }
}
