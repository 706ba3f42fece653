//! Reading files found by a survey.

use core::ops::Range;

use floatgate_media::ubifs::{BLOCK_BYTES, Key, KeyType, Node, NodeType};

use super::{LostKeys, NOT_ITS_SIZE, Only, Survey};
use crate::fs::{Attributes, NodePos};
use crate::ubifs::error::{Error, Result};
use crate::ubifs::files::attributes_of;
use crate::volume::Volume;

impl LostKeys {
    /// Range of blocks of a file that the index lost, if any newest node may replace them.
    fn blocks_of(&self, inode: u32) -> Option<Range<u32>> {
        let (first, last) = (Key::data(inode, 0)?, Key::highest(inode, KeyType::Data));
        if self.only != Only::Newest || self.from > last || self.to < first {
            return None;
        }
        Some(self.from.max(first).block()..self.to.min(last).block() + 1)
    }
}

impl Survey<dyn Volume> {
    /// Attributes of an inode; `None` if it is unknown.
    #[must_use]
    pub fn attributes(&self, inode: u32) -> Option<Attributes> {
        let file = self.tree.files.get(&inode)?;
        let node = file.inode.as_ref()?;
        Some(attributes_of(node, node.file_type()?, &file.attached))
    }

    /// True if the index does not contain all parts that an inode may have: its parts were found by a search, and may
    /// be older than the lost ones.
    #[must_use]
    pub fn is_doubtful(&self, inode: u32) -> bool {
        if self.is_past {
            return false;
        }
        let (first, last) = (Key::inode(inode), Key::highest(inode, KeyType::XattrEntry));
        self.lost.iter().any(|lost| lost.only == Only::Newest && lost.from <= last && first <= lost.to)
    }

    /// Blocks of a file of `size` bytes without data where the index does not prove a hole. Blocks known to be lost are
    /// not included.
    #[must_use]
    pub fn doubtful_holes(&self, inode: u32, size: u64) -> Vec<Range<u32>> {
        let Some(file) = self.tree.files.get(&inode) else { return Vec::new() };
        let end = u32::try_from(size.div_ceil(u64::from(BLOCK_BYTES))).unwrap_or(u32::MAX);
        let doubtful = self.lost.iter().filter_map(|lost| lost.blocks_of(inode));
        let mut holes: Vec<_> =
            doubtful.flat_map(|blocks| file.holes(blocks.start, blocks.end.min(end))).collect();
        holes.sort_unstable_by_key(|hole| hole.start);
        holes
    }

    /// Reads and decompresses a block of an unencrypted file, padded with zeros.
    ///
    /// # Errors
    /// A damaged node, or another one than the survey found; volume failures.
    pub fn read_data(
        &mut self,
        inode: u32,
        block: u32,
        place: NodePos,
        out: &mut [u8; BLOCK_BYTES as usize],
    ) -> Result<()> {
        let mut bytes = Vec::new();
        let frame = self.io.read_node(place, Some(NodeType::Data), &mut bytes)?;
        let damaged = |source| Error::node(place.lnum, place.offset, source);
        let corrupt = |what| Error::corrupt(place.lnum, place.offset, what);
        let Node::Data(node) = frame.node().map_err(damaged)? else { return Err(Error::NotFound) };
        node.check().map_err(damaged)?;
        if Some(node.block.key) != Key::data(inode, block) {
            return Err(corrupt("another block than the index says"));
        }
        let len = node.block.size as usize;
        let room = out.get_mut(..len).ok_or(corrupt(NOT_ITS_SIZE))?;
        let got = self.decompressor.decompress(node.block.compression, node.data, room);
        if got.ok() != Some(len) {
            return Err(corrupt(NOT_ITS_SIZE));
        }
        out[len..].fill(0);
        Ok(())
    }
}
