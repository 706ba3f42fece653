//! Location of an image in a file, and its content as plain data. [`Format`](super::Format) is the behaviour of this
//! content.

use serde::Serialize;

pub use super::jffs2::shape::Jffs2Shape;
pub use super::jffs2::splices::Splice;
pub(crate) use super::jffs2::splices::{Spliced, Splices};
pub(crate) use super::tree::shape::TreeShape;
pub use super::ubi::shape::UbiShape;
pub use super::ubifs::shape::UbifsShape;
use crate::error::{ImageError, LebsOnly, TreeLack};
use crate::pages::PageShape;

/// Range of a file that contains an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageLocation {
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Content of the image.
    #[serde(flatten)]
    pub content: Content,
    /// Pages with OOB that contain the image; it is read without the OOB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageShape>,
    /// Numbers of PEBs or eraseblocks that are marked bad in the OOB of a dump.
    #[serde(skip)]
    pub bad_pebs: Vec<u32>,
    /// Changes that correct the positions of eraseblocks that missing bytes have shifted.
    #[serde(skip)]
    pub splices: Vec<Splice>,
}

/// Content found in a file: one variant for each format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "content", rename_all = "kebab-case")]
pub enum Content {
    /// A UBI device.
    Ubi(UbiShape),
    /// A UBIFS without UBI.
    Ubifs(UbifsShape),
    /// A JFFS2.
    Jffs2(Jffs2Shape),
    /// A read-only filesystem.
    Tree(TreeShape),
}

impl ImageLocation {
    pub(crate) const fn new(offset: u64, len: u64, content: Content) -> Self {
        Self { offset, len, content, pages: None, bad_pebs: Vec::new(), splices: Vec::new() }
    }

    /// True if the image contains an offset of the file.
    pub(crate) fn holds(&self, at: u64) -> bool {
        (self.offset..self.offset + self.len).contains(&at)
    }

    /// Size of a PEB or an eraseblock (in a dump, of one block), bytes; `None` for a UBIFS without UBI.
    pub(crate) const fn block_bytes(&self) -> Option<u32> {
        match &self.content {
            Content::Ubi(shape) => Some(shape.peb_bytes),
            Content::Jffs2(shape) => Some(shape.erase_bytes),
            Content::Ubifs(_) | Content::Tree(_) => None,
        }
    }

    /// Smallest write of the flash, bytes; `None` if the image does not imply it.
    pub(crate) const fn min_io_bytes(&self) -> Option<u32> {
        match &self.content {
            Content::Ubi(shape) => Some(shape.min_io_bytes),
            Content::Ubifs(shape) => Some(shape.min_io_bytes),
            Content::Jffs2(_) | Content::Tree(_) => None,
        }
    }

    /// Refuses a stated size of PEBs or eraseblocks that differs from the size in the image.
    pub(crate) fn require_block_bytes(&self, stated: Option<u32>) -> Result<(), ImageError> {
        match (stated, self.block_bytes()) {
            (Some(stated), Some(bytes)) if stated != bytes => {
                let why = format!("what begins at byte {} has such of {bytes} bytes", self.offset);
                Err(ImageError::PebSize { stated: stated.into(), why })
            }
            _ => Ok(()),
        }
    }

    /// End of the block with this offset, if the block is marked bad.
    pub(crate) fn end_of_bad(&self, at: u64) -> Option<u64> {
        let bytes = u64::from(self.block_bytes()?);
        let number = at.checked_sub(self.offset)? / bytes;
        let is_bad = u32::try_from(number).is_ok_and(|number| self.bad_pebs.contains(&number));
        is_bad.then_some(self.offset + (number + 1) * bytes)
    }

    /// True for formats of raw flash; false for read-only formats, which the map finds itself.
    pub(crate) const fn is_flash(&self) -> bool {
        !matches!(self.content, Content::Tree(_))
    }

    /// True for UBI, which has volumes.
    pub(crate) const fn has_volumes(&self) -> bool {
        matches!(self.content, Content::Ubi(_))
    }

    /// Refuses a filesystem without UBI if a volume is requested.
    pub(crate) fn require_volume(&self, wanted: Option<&String>) -> Result<(), ImageError> {
        match wanted {
            Some(wanted) if !self.has_volumes() => {
                Err(ImageError::NoVolume { wanted: wanted.clone(), names: Vec::new() })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a JFFS2 if a structure of UBI or UBIFS is requested, because it has no LEBs.
    pub(crate) const fn require_lebs(&self, what: LebsOnly) -> Result<(), ImageError> {
        match self.content {
            Content::Jffs2(_) => Err(ImageError::NotForJffs2(what)),
            Content::Tree(shape) => Err(shape.refusal(TreeLack::Lebs)),
            Content::Ubi(_) | Content::Ubifs(_) => Ok(()),
        }
    }
}
