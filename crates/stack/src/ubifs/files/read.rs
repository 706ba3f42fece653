//! Reading files.

use floatgate_media::ubifs::{Compression, FileType, InodeFlags, Key, Node, NodeType};

use super::super::error::{Error, Result};
use super::super::layout::Place;
use super::Ubifs;
use super::inodes::file_type;
use super::pages::BLOCK;
use crate::volume::Volume;

impl<V: Volume> Ubifs<V> {
    /// Reads from a regular file and returns the bytes read; fewer than asked for at its end.
    ///
    /// # Errors
    /// Not a regular file, encrypted data, damage, failures of the volume.
    pub fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let size = self.readable(inode)?;
        let len = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let skip = (at % BLOCK as u64) as usize;
            let part = (BLOCK - skip).min(len - done);
            self.read_part(inode, block_of(at)?, skip, &mut buf[done..done + part])?;
            done += part;
        }
        Ok(len)
    }

    /// The size of a file that can be read.
    fn readable(&mut self, inode: u32) -> Result<u64> {
        let cached = self.inode(inode)?;
        match file_type(&cached.inode)? {
            FileType::Regular => {}
            FileType::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid("not a regular file")),
        }
        if cached.inode.flags.contains(InodeFlags::ENCRYPTED) {
            return Err(Error::Unsupported("the file is encrypted"));
        }
        Ok(cached.inode.size)
    }

    /// Part of a block, from the cache or from flash; a hole is zeros.
    fn read_part(&mut self, inode: u32, block: u32, skip: usize, out: &mut [u8]) -> Result<()> {
        if let Some(page) = self.pages.get(inode, block) {
            out.copy_from_slice(&page.bytes[skip..skip + out.len()]);
            return Ok(());
        }
        let Some(place) = self.find_block(inode, block)? else {
            out.fill(0);
            return Ok(());
        };
        if let (0, Ok(whole)) = (skip, <&mut [u8; BLOCK]>::try_from(&mut *out)) {
            return self.read_block(inode, block, place, whole);
        }
        let mut whole = [0; BLOCK];
        self.read_block(inode, block, place, &mut whole)?;
        out.copy_from_slice(&whole[skip..skip + out.len()]);
        Ok(())
    }

    /// Where a block of a file stands; `None` for a hole.
    pub(super) fn find_block(&mut self, inode: u32, block: u32) -> Result<Option<Place>> {
        let key = Key::data(inode, block).ok_or(TOO_LARGE)?;
        self.core.tnc.find(&mut self.core.io, key)
    }

    /// Reads and decompresses a block; what lies behind its end is zeros.
    pub(super) fn read_block(
        &mut self,
        inode: u32,
        block: u32,
        place: Place,
        out: &mut [u8; BLOCK],
    ) -> Result<()> {
        let damaged = |source| Error::node(place.lnum, place.offset, source);
        let key = Key::data(inode, block).ok_or(TOO_LARGE)?;
        let Self { core, node, .. } = self;
        let frame = core.tnc.read_leaf(&mut core.io, key, place, Some(NodeType::Data), node)?;
        let Node::Data(node) = frame.node().map_err(damaged)? else { return Err(Error::NotFound) };
        node.check().map_err(damaged)?;
        let len = node.block.size as usize;
        let corrupt = || Error::corrupt(place.lnum, place.offset, "a block does not decompress to its size");
        let room = out.get_mut(..len).ok_or_else(corrupt)?;
        let got = self.decompressor.decompress(node.block.compression, node.data, room);
        if got.ok() != Some(len) {
            return Err(corrupt());
        }
        out[len..].fill(0);
        Ok(())
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// Not a symbolic link, an encrypted one, damage, failures of the volume.
    pub fn read_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        let cached = self.inode(inode)?;
        if file_type(&cached.inode)? != FileType::Symlink {
            return Err(Error::Invalid("not a symbolic link"));
        }
        if cached.inode.flags.contains(InodeFlags::ENCRYPTED) {
            return Err(Error::Unsupported("the link is encrypted"));
        }
        Ok(cached.data.clone())
    }

    /// Blocks of a file that hold data, in order, from `block` on, at most `max`: the rest are holes.
    ///
    /// # Errors
    /// Damage, failures of the volume.
    pub fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        let (Some(from), Some(to)) = (Key::data(inode, block), Key::data(inode, LAST_BLOCK)) else {
            return Ok(Vec::new());
        };
        let mut leaves = Vec::new();
        self.core.tnc.leaves(&mut self.core.io, from, to, max, &mut leaves)?;
        Ok(leaves.iter().map(|(key, _)| key.block()).collect())
    }
}

/// The highest block number.
pub(super) const LAST_BLOCK: u32 = (1 << 29) - 1;

const TOO_LARGE: Error = Error::TooLarge { what: "file", len: u64::MAX };

/// The block with a byte.
pub(super) fn block_of(offset: u64) -> Result<u32> {
    u32::try_from(offset / BLOCK as u64).ok().filter(|&block| block <= LAST_BLOCK).ok_or(TOO_LARGE)
}

/// How a file's new data are compressed.
pub(super) const fn compression_of(inode: &floatgate_media::ubifs::Inode) -> Compression {
    if inode.flags.contains(InodeFlags::COMPRESS) { inode.compression } else { Compression::None }
}
