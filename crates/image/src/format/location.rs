//! An image in a file: its place, and its content as plain data. [`Format`](super::Format) is the behaviour of that content.

use serde::Serialize;

pub use super::jffs2::shape::Jffs2Shape;
pub use super::jffs2::splices::Splice;
pub(crate) use super::jffs2::splices::{Spliced, Splices};
pub(crate) use super::tree::TreeShape;
pub use super::ubi::shape::UbiShape;
pub use super::ubifs::shape::UbifsShape;
use crate::error::{ImageError, LebsOnly, TreeLack};
use crate::pages::PageShape;

/// A stretch of a file with something in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageLocation {
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Content of the image.
    #[serde(flatten)]
    pub content: Content,
    /// Pages with OOB that the image is in: it is read once the OOB is taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageShape>,
    /// PEBs or eraseblocks in blocks that are marked bad in the OOB of a dump.
    #[serde(skip)]
    pub bad_pebs: Vec<u32>,
    /// Changes that put eraseblocks into their places, which missing bytes have shifted.
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
    /// A filesystem that is only read.
    Tree(TreeShape),
}

impl ImageLocation {
    pub(crate) const fn new(offset: u64, len: u64, content: Content) -> Self {
        Self { offset, len, content, pages: None, bad_pebs: Vec::new(), splices: Vec::new() }
    }

    /// True when a byte of the file is in the image.
    pub(crate) fn holds(&self, at: u64) -> bool {
        (self.offset..self.offset + self.len).contains(&at)
    }

    /// Bytes of a PEB or an eraseblock, in a dump one block; `None` of a UBIFS without UBI.
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

    /// Refuses a size of PEBs or eraseblocks that was stated and is another one.
    pub(crate) fn require_block_bytes(&self, stated: Option<u32>) -> Result<(), ImageError> {
        match (stated, self.block_bytes()) {
            (Some(stated), Some(bytes)) if stated != bytes => {
                let why = format!("what begins at byte {} has such of {bytes} bytes", self.offset);
                Err(ImageError::PebSize { stated: stated.into(), why })
            }
            _ => Ok(()),
        }
    }

    /// First byte behind the block with this byte, if that is marked bad.
    pub(crate) fn end_of_bad(&self, at: u64) -> Option<u64> {
        let bytes = u64::from(self.block_bytes()?);
        let number = at.checked_sub(self.offset)? / bytes;
        let is_bad = u32::try_from(number).is_ok_and(|number| self.bad_pebs.contains(&number));
        is_bad.then_some(self.offset + (number + 1) * bytes)
    }

    /// True of formats of bare flash: not of those that are only read, which a map finds by itself.
    pub(crate) const fn is_flash(&self) -> bool {
        !matches!(self.content, Content::Tree(_))
    }

    /// True of what has volumes: UBI.
    pub(crate) const fn has_volumes(&self) -> bool {
        matches!(self.content, Content::Ubi(_))
    }

    /// Refuses a filesystem without UBI where a volume is wanted.
    pub(crate) fn require_volume(&self, wanted: Option<&String>) -> Result<(), ImageError> {
        match wanted {
            Some(wanted) if !self.has_volumes() => {
                Err(ImageError::NoVolume { wanted: wanted.clone(), names: Vec::new() })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a JFFS2, which has no LEBs, where something of UBI or UBIFS is wanted.
    pub(crate) const fn require_lebs(&self, what: LebsOnly) -> Result<(), ImageError> {
        match self.content {
            Content::Jffs2(_) => Err(ImageError::NotForJffs2(what)),
            Content::Tree(shape) => Err(shape.refusal(TreeLack::Lebs)),
            Content::Ubi(_) | Content::Ubifs(_) => Ok(()),
        }
    }
}
