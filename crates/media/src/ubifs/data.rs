//! Data nodes, each of which holds one block of a file: `docs/spec/ubifs.md#data-node`.

use super::BLOCK_BYTES;
use super::header::{Frame, NodeBody, NodeType};
use super::key::{Key, KeyType};
use crate::error::{MediaError, require};
use crate::file::Compression;
use crate::wire::{Wire, layout, store};

const KEY_AT: usize = 24;
const SIZE_AT: usize = 40;
const COMPRESSION_AT: usize = 44;

layout! {
    /// Fixed fields of a data node.
    pub struct Block[48] {
        /// Key of the node: inode and block number.
        24 => key: Key,
        /// Size of the block before compression, 1 to 4096 bytes.
        40 => size: u32,
        /// Compression of the block.
        44 => compression: Compression,
        /// Size after compression and before encryption, bytes; used only in encrypted files.
        46 => compressed_size: u16,
    }
}

/// A data node: one block of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataNode<'a> {
    /// Fixed fields: key, uncompressed size and compression.
    pub block: Block,
    /// Data as stored, compressed and encrypted.
    pub data: &'a [u8],
}

impl<'a> DataNode<'a> {
    pub(super) fn from_frame(frame: &Frame<'a>) -> Result<Self, MediaError> {
        let bytes = frame.as_bytes();
        let block = Block::decode(bytes, 0);
        block.key.require(KeyType::Data, KEY_AT)?;
        Ok(Self { block, data: bytes.get(Block::SIZE..).unwrap_or(&[]) })
    }

    /// Checks the size of the block and its compression type.
    ///
    /// # Errors
    ///
    /// An empty block, a block of more than 4096 bytes, or an unknown compression.
    pub fn check(&self) -> Result<(), MediaError> {
        let size = self.block.size;
        require((1..=BLOCK_BYTES).contains(&size), SIZE_AT, "block size", size)?;
        self.block.compression.known("compression", COMPRESSION_AT).map(drop)
    }
}

impl NodeBody for DataNode<'_> {
    fn node_type(&self) -> NodeType {
        NodeType::Data
    }

    fn node_bytes(&self) -> usize {
        Block::SIZE + self.data.len()
    }

    fn put_fields(&self, out: &mut [u8]) -> Result<(), MediaError> {
        self.block.put(out, 0);
        store(out, Block::SIZE, self.data);
        Ok(())
    }
}
