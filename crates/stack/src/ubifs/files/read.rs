//! Reading files.

use floatgate_media::file::{Compression, FileFlags, FileType};
use floatgate_media::ubifs::{Frame, Key, Node, NodeType};

use super::super::compress::Decompressor;
use super::super::error::{Error, Result};
use super::super::io::frame_of;
use super::super::layout::{NodePos, align8};
use super::Ubifs;
use super::inodes::file_type;
use super::pages::BLOCK;
use crate::fscrypt::Units;
use crate::volume::Volume;

impl Ubifs<dyn Volume> {
    /// Reads from a regular file and returns the number of bytes, which is lower at the end of the file.
    ///
    /// # Errors
    /// Not a regular file, encrypted data, damage, volume failures.
    pub fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let size = self.readable(inode)?;
        let len = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let skip = (at % BLOCK as u64) as usize;
            if self.behaviour.bulk_read && skip == 0 {
                let whole = (len - done) / BLOCK * BLOCK;
                let blocks = self.read_run(inode, block_of(at)?, &mut buf[done..done + whole])?;
                done += blocks * BLOCK;
                if blocks > 0 {
                    continue;
                }
            }
            let part = (BLOCK - skip).min(len - done);
            self.read_part(inode, block_of(at)?, skip, &mut buf[done..done + part])?;
            done += part;
        }
        Ok(len)
    }

    /// Size of a readable file.
    fn readable(&mut self, inode: u32) -> Result<u64> {
        let cached = self.inode(inode)?;
        match file_type(&cached.inode)? {
            FileType::Regular => {}
            FileType::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid("not a regular file")),
        }
        if cached.inode.flags.contains(FileFlags::ENCRYPTED) {
            return Err(Error::Unsupported("the file is encrypted"));
        }
        Ok(cached.inode.size)
    }

    /// Reads part of a block from the cache or from flash; a hole reads as zeros.
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

    /// Position of a block of a file; `None` for a hole.
    pub(super) fn find_block(&mut self, inode: u32, block: u32) -> Result<Option<NodePos>> {
        let key = Key::data(inode, block).ok_or(TOO_LARGE)?;
        self.core.tnc.find(&mut self.core.io, key)
    }

    /// Reads and decompresses a block, padded with zeros.
    pub(super) fn read_block(
        &mut self,
        inode: u32,
        block: u32,
        place: NodePos,
        out: &mut [u8; BLOCK],
    ) -> Result<()> {
        let Self { core, node, .. } = self;
        let key = Key::data(inode, block).ok_or(TOO_LARGE)?;
        let frame = core.tnc.read_leaf(&mut core.io, key, place, Some(NodeType::Data), node)?;
        unpack(&mut self.decompressor, Some(key), place, &frame, out)
    }

    /// Reads several blocks whose nodes are consecutive in a LEB at once (Linux: `bulk_read`). Returns their number, 0
    /// if there are fewer than two.
    fn read_run(&mut self, inode: u32, block: u32, out: &mut [u8]) -> Result<usize> {
        let places = self.run(inode, block, out.len() / BLOCK)?;
        let [first, .., last] = places[..] else { return Ok(0) };
        let mut bytes = vec![0; (last.offset + last.len - first.offset) as usize];
        match self.core.io.read(first.lnum, first.offset, &mut bytes) {
            // The blocks are then read one by one, which shows which one is damaged.
            Err(error) if error.is_damage() => return Ok(0),
            outcome => outcome?,
        }
        for ((place, block), out) in places.iter().zip(block..).zip(out.as_chunks_mut().0) {
            let start = (place.offset - first.offset) as usize;
            let node = bytes.get(start..start + place.len as usize).unwrap_or(&[]);
            let frame = frame_of(*place, Some(NodeType::Data), node)?;
            let key = Key::data(inode, block).ok_or(TOO_LARGE)?;
            self.core.tnc.check_hash(key, *place, frame.as_bytes())?;
            unpack(&mut self.decompressor, Some(key), *place, &frame, out)?;
        }
        Ok(places.len())
    }

    /// Positions of blocks that are consecutive in the file and in the LEB.
    fn run(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<NodePos>> {
        let most = max.min(self.behaviour.limits.bulk_read_blocks);
        let last = block.saturating_add(most as u32).saturating_sub(1).min(LAST_BLOCK);
        let (Some(from), Some(to)) = (Key::data(inode, block), Key::data(inode, last)) else {
            return Ok(Vec::new());
        };
        let mut leaves = Vec::new();
        if most > 1 {
            self.core.tnc.leaves(&mut self.core.io, from, to, most, &mut leaves)?;
        }
        let mut run: Vec<NodePos> = Vec::new();
        for ((key, place), wanted) in leaves.into_iter().zip(block..) {
            let behind = run.last().is_none_or(|before| follows(*before, place));
            if key.block() != wanted || !behind || self.pages.get(inode, wanted).is_some() {
                break;
            }
            run.push(place);
        }
        Ok(run)
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// Not a symbolic link, an encrypted one, damage, volume failures.
    pub fn read_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        let cached = self.inode(inode)?;
        if file_type(&cached.inode)? != FileType::Symlink {
            return Err(Error::Invalid("not a symbolic link"));
        }
        if cached.inode.flags.contains(FileFlags::ENCRYPTED) {
            return Err(Error::Unsupported("the link is encrypted"));
        }
        Ok(cached.data.clone())
    }

    /// Stored bytes of a symbolic link.
    ///
    /// # Errors
    /// Not a symbolic link, damage, volume failures.
    pub fn stored_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        let cached = self.inode(inode)?;
        if file_type(&cached.inode)? != FileType::Symlink {
            return Err(Error::Invalid("not a symbolic link"));
        }
        Ok(cached.data.clone())
    }

    /// Reads a block of an encrypted file. The data of its node is one encrypted unit, which was compressed before the
    /// encryption.
    ///
    /// # Errors
    /// Damage, volume failures.
    pub fn read_encrypted(
        &mut self,
        inode: u32,
        block: u32,
        decrypt: &mut Units<'_>,
        out: &mut [u8; BLOCK],
    ) -> Result<()> {
        out.fill(0);
        let Some(place) = self.find_block(inode, block)? else { return Ok(()) };
        let Self { core, node, .. } = self;
        let key = Key::data(inode, block).ok_or(TOO_LARGE)?;
        let frame = core.tnc.read_leaf(&mut core.io, key, place, Some(NodeType::Data), node)?;
        let damaged = |source| Error::node(place.lnum, place.offset, source);
        let Node::Data(data) = frame.node().map_err(damaged)? else { return Err(Error::NotFound) };
        data.check().map_err(damaged)?;
        let corrupt =
            || Error::corrupt(place.lnum, place.offset, "an encrypted block does not decrypt to its size");
        let mut unit = data.data.to_vec();
        decrypt(block.into(), &mut unit).ok_or_else(corrupt)?;
        let packed = unit.get(..data.block.compressed_size.into()).ok_or_else(corrupt)?;
        let len = data.block.size as usize;
        let room = out.get_mut(..len).ok_or_else(corrupt)?;
        match self.decompressor.decompress(data.block.compression, packed, room) {
            Ok(done) if done == len => Ok(()),
            _ => Err(corrupt()),
        }
    }

    /// Blocks of a file that hold data, from `block` on, in order, at most `max`. The others are holes.
    ///
    /// # Errors
    /// Damage, volume failures.
    pub fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        let (Some(from), Some(to)) = (Key::data(inode, block), Key::data(inode, LAST_BLOCK)) else {
            return Ok(Vec::new());
        };
        let mut leaves = Vec::new();
        self.core.tnc.leaves(&mut self.core.io, from, to, max, &mut leaves)?;
        Ok(leaves.iter().map(|(key, _)| key.block()).collect())
    }
}

/// True if a node directly follows another one in the same LEB.
const fn follows(before: NodePos, place: NodePos) -> bool {
    before.lnum == place.lnum && align8(before.offset + before.len) == place.offset
}

/// Decompresses a data node into a block, padded with zeros.
fn unpack(
    decompressor: &mut Decompressor,
    key: Option<Key>,
    place: NodePos,
    frame: &Frame<'_>,
    out: &mut [u8; BLOCK],
) -> Result<()> {
    let damaged = |source| Error::node(place.lnum, place.offset, source);
    let Node::Data(node) = frame.node().map_err(damaged)? else { return Err(Error::NotFound) };
    node.check().map_err(damaged)?;
    if Some(node.block.key) != key {
        return Err(Error::corrupt(place.lnum, place.offset, "another block than the index says"));
    }
    let len = node.block.size as usize;
    let corrupt = || Error::corrupt(place.lnum, place.offset, "a block does not decompress to its size");
    let room = out.get_mut(..len).ok_or_else(corrupt)?;
    if decompressor.decompress(node.block.compression, node.data, room).ok() != Some(len) {
        return Err(corrupt());
    }
    out[len..].fill(0);
    Ok(())
}

/// The highest block number.
pub(super) const LAST_BLOCK: u32 = (1 << 29) - 1;

const TOO_LARGE: Error = Error::TooLarge { what: "file", len: u64::MAX };

/// Number of the block that contains a byte.
pub(super) fn block_of(offset: u64) -> Result<u32> {
    u32::try_from(offset / BLOCK as u64).ok().filter(|&block| block <= LAST_BLOCK).ok_or(TOO_LARGE)
}

/// Compressor for new data of a file.
pub(super) const fn compression_of(inode: &floatgate_media::ubifs::Inode) -> Compression {
    if inode.flags.contains(FileFlags::COMPRESS) { inode.compression } else { Compression::None }
}

#[cfg(test)]
mod tests {
    use crate::fs::{NewFile, NewKind};
    use crate::ubifs::files::Behaviour;
    use crate::ubifs::testing::TestVolume;
    use crate::ubifs::{FormatOptions, Ubifs};
    use floatgate_mtd::random::Random;

    /// Writes in random order leave runs of blocks and gaps, with holes and cached blocks between them. Bulk reads
    /// must return the same data as single reads.
    #[test]
    fn bulk_reads_find_what_single_ones_find() {
        let options = FormatOptions::default();
        let volume = TestVolume::new(64, 32 << 10, 512, 512);
        let mut fs =
            Ubifs::format(volume, &options, Behaviour::default()).map_err(|(error, _)| error).unwrap();
        let new = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        let root = fs.root();
        let file = fs.create(root, b"file", &new).unwrap();
        let (mut random, size) = (Random::new(7), 120 * 4096_u64);
        for round in 0..40 {
            let (offset, len) = (random.below(size), random.below(9 * 4096) as usize);
            let byte = |at: usize| if round % 2 == 0 { (at / 300) as u8 } else { random.bits() as u8 };
            let data: Vec<u8> = (0..len.min((size - offset) as usize)).map(byte).collect();
            fs.write(file, offset, &data).unwrap();
            if round % 5 != 4 {
                fs.fsync(file).unwrap();
            }
            let offset = random.below(size) / 4096 * 4096;
            let mut found = [false, true].map(|bulk_read| {
                fs.behaviour.bulk_read = bulk_read;
                let mut bytes = vec![0xEE; size as usize];
                let read = fs.read(file, offset, &mut bytes).unwrap();
                (read, bytes)
            });
            assert_eq!(found[0], found[1], "round {round}");
            assert!(found[0].0 > 0 || offset > 0, "{}", found[0].1.pop().unwrap());
        }
        fs.sync().unwrap();
        fs.behaviour.bulk_read = true;
        assert!((0..120).any(|block| fs.run(file, block, 32).unwrap().len() > 4), "there are runs");
    }
}
