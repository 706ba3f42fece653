//! Sizes of the flash that an image is for.

use floatgate_media::ubi;
use floatgate_stack::VolumeGeometry;
use floatgate_stack::ubi::PebBudget;

use super::error::BuildError;

/// Size of a write, bytes, unless a page is larger. The contents of the flash do not depend on it, and large writes are
/// faster on a host.
const WRITE_BYTES: u32 = 32 << 10;

/// Alignment of the VID header in a PEB, bytes; ubinize refuses other offsets.
const VID_ALIGN: u32 = 8;

/// Sizes of the flash that an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashShape {
    /// Minimum write size, bytes: a page of NAND; 1 on NOR.
    pub page_bytes: u32,
    /// Minimum write size of UBI's headers, bytes: a sub-page, or a page.
    pub sub_page_bytes: u32,
    /// Size of a PEB in bytes.
    pub peb_bytes: u32,
    /// Offset of the VID header in a PEB, bytes; `None` for UBI's own choice.
    pub vid_header_offset: Option<u32>,
    /// Size of the flash; `None` if it is unknown.
    pub size: Option<FlashSize>,
}

/// Size of the flash that an image is for: a partition of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashSize {
    /// Number of PEBs of the partition.
    pub pebs: u32,
    /// Number of PEBs of the whole chip.
    pub chip_pebs: u32,
    /// Maximum number of bad blocks of the chip over its life; 0 if it is unknown, and on NOR.
    pub worst_bad: u32,
}

impl FlashShape {
    /// Shape of a whole NAND of `blocks` blocks, without sub-pages.
    pub fn of_nand(page_bytes: u32, pages_per_block: u32, blocks: u64) -> Self {
        let pebs = u32::try_from(blocks).unwrap_or(u32::MAX);
        Self {
            page_bytes,
            sub_page_bytes: page_bytes,
            peb_bytes: page_bytes.saturating_mul(pages_per_block),
            vid_header_offset: None,
            size: Some(FlashSize { pebs, chip_pebs: pebs, worst_bad: 0 }),
        }
    }

    /// Offsets of headers and data in a PEB.
    ///
    /// # Errors
    /// Sizes that are impossible for a UBI device.
    pub fn ubi(&self) -> Result<ubi::Geometry, BuildError> {
        let flash = ubi::Flash {
            peb_bytes: self.peb_bytes,
            min_io_bytes: self.page_bytes,
            sub_page_bytes: self.sub_page_bytes,
        };
        if let Some(offset) = self.vid_header_offset.filter(|offset| !offset.is_multiple_of(VID_ALIGN)) {
            return Err(BuildError::Shape(format!(
                "the VID header offset is {offset}, not a multiple of {VID_ALIGN}"
            )));
        }
        let geometry = match self.vid_header_offset {
            Some(offset) => ubi::Geometry::with_vid_header_offset(flash, offset),
            None => ubi::Geometry::new(flash),
        };
        geometry.map_err(|reason| BuildError::Shape(reason.to_string()))
    }

    /// The same flash with a partition of `bytes` for the image, in whole PEBs.
    ///
    /// # Errors
    /// The size of the chip is unknown, or the partition has no PEB or more than the chip.
    pub fn on_partition(self, bytes: u64) -> Result<Self, BuildError> {
        let Some(size) = self.size else {
            return Err(BuildError::Shape("the size of the chip is not known".to_owned()));
        };
        let pebs = bytes / u64::from(self.peb_bytes.max(1));
        let pebs = u32::try_from(pebs).ok().filter(|&pebs| pebs > 0 && pebs <= size.pebs);
        let pebs = pebs.ok_or_else(|| {
            BuildError::Shape(format!(
                "a partition of {bytes} bytes has no whole PEB, or more than {}",
                size.pebs
            ))
        })?;
        Ok(Self { size: Some(FlashSize { pebs, ..size }), ..self })
    }

    /// PEBs by use; `None` if the size of the flash is unknown.
    #[must_use]
    pub fn budget(&self) -> Option<PebBudget> {
        let FlashSize { pebs, chip_pebs, .. } = self.size?;
        Some(if self.page_bytes == 1 { PebBudget::of_nor(pebs) } else { PebBudget::of_nand(pebs, chip_pebs) })
    }

    /// Geometry of a volume with `lebs` LEBs on this flash.
    pub(crate) fn volume(&self, geometry: &ubi::Geometry, lebs: u32) -> VolumeGeometry {
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
