//! Sizes and byte order of a JFFS2.

use floatgate_media::jffs2::Endian;
use serde::Serialize;

use crate::pages::PageShape;

/// Sizes and byte order of a JFFS2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Jffs2Shape {
    /// Byte order of its numbers: the most significant byte first.
    pub big_endian: bool,
    /// Its nodes have the magic number 0x1984 of the first JFFS2, which today's Linux does not mount.
    pub old_magic: bool,
    /// Bytes of an eraseblock, from the places of nodes or a guess.
    pub erase_bytes: u32,
    /// Nothing in the image tells the size of its eraseblocks.
    pub erase_is_guess: bool,
    /// Bytes of a page of NAND, where a dump tells.
    #[serde(skip)]
    pub page_bytes: Option<u32>,
    /// Clean markers stand between the nodes, as on NOR; on NAND they are in the OOB.
    #[serde(skip)]
    pub markers: bool,
    /// Eraseblocks end with a summary.
    #[serde(skip)]
    pub summaries: bool,
    /// Bytes up to the end of the last node.
    #[serde(skip)]
    pub nodes_end: u64,
}

impl Jffs2Shape {
    /// The shape of a JFFS2 whose pages have to be corrected first; its eraseblocks are not known yet.
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

    /// True when clean markers stand between the nodes.
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
