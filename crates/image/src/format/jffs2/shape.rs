//! Sizes and byte order of a JFFS2.

use floatgate_media::jffs2::Endian;
use serde::Serialize;

use crate::pages::PageShape;

/// Sizes and byte order of a JFFS2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Jffs2Shape {
    /// True if numbers are big-endian.
    pub big_endian: bool,
    /// True if nodes have the magic number 0x1984 of the first JFFS2, which today's Linux does not mount.
    pub old_magic: bool,
    /// Size of an eraseblock in bytes, derived from the offsets of nodes, or guessed.
    pub erase_bytes: u32,
    /// True if the image does not imply the size of its eraseblocks.
    pub erase_is_guess: bool,
    /// Size of a NAND page, if a dump implies it, bytes.
    #[serde(skip)]
    pub page_bytes: Option<u32>,
    /// True if clean markers are between the nodes, as on NOR; on NAND they are in the OOB.
    #[serde(skip)]
    pub markers: bool,
    /// True if eraseblocks end with a summary.
    #[serde(skip)]
    pub summaries: bool,
    /// Offset of the end of the last node.
    #[serde(skip)]
    pub nodes_end: u64,
}

impl Jffs2Shape {
    /// Shape of a JFFS2 whose pages must be corrected first; its eraseblocks are still unknown.
    pub(super) const fn in_pages(endian: Endian, pages: PageShape) -> Self {
        Self {
            big_endian: endian.is_big(),
            old_magic: endian.is_old(),
            erase_bytes: pages.block_bytes(),
            erase_is_guess: false,
            page_bytes: Some(pages.page_bytes),
            markers: false,
            summaries: false,
            nodes_end: 0,
        }
    }

    /// True if clean markers are between the nodes.
    pub(crate) const fn is_nor(&self) -> bool {
        self.markers && self.page_bytes.is_none()
    }

    pub(crate) const fn endian(&self) -> Endian {
        match (self.old_magic, self.big_endian) {
            (false, false) => Endian::Little,
            (false, true) => Endian::Big,
            (true, false) => Endian::OldLittle,
            (true, true) => Endian::OldBig,
        }
    }
}
