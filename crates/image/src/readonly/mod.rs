//! Readers of small filesystems that are only read: CramFS and romfs.
//!
//! A format implements [`Tree`]; [`TreeSource`] makes of it what an extraction reads.

mod cramfs;
mod romfs;

use floatgate_stack::fs::{Attributes, BLOCK_BYTES, DeviceNumber, Error, FileType, NodePos};

use crate::extract::source::without_inode;
use crate::extract::{Name, Source, Xattrs};
use crate::map::{Kind, View};

/// Most entries of a directory.
const MAX_NAMES: usize = 1 << 16;

/// Longest target of a symbolic link.
const LINK_MAX: u64 = 4096;

/// Damage that keeps an inode from being read.
const DAMAGED: Error = Error::Invalid("damaged: it leads out of the image");

/// Properties of an inode.
struct Inode {
    file_type: FileType,
    /// Type and permissions; `None` where the format has no permissions.
    mode: Option<u32>,
    uid: u32,
    gid: u32,
    size: u64,
    device: Option<DeviceNumber>,
}

/// A filesystem whose inodes are found by their places.
trait Tree {
    /// Place of the root's inode.
    fn root(&self) -> u32;

    /// Properties of the inode at a place.
    fn inode(&self, inode: u32) -> Option<Inode>;

    /// Names in a directory with the places of their inodes, as far as they can be read, and whether these are all.
    fn names(&self, directory: u32) -> (Vec<(Vec<u8>, u32)>, bool);

    /// Reads a block of a file or a link; what lies behind its end is zeros.
    fn block(&self, inode: u32, block: u32, out: &mut [u8; BLOCK_BYTES]) -> Option<()>;
}

/// The reader of a format over the bytes of a part.
pub(crate) fn reader<'s>(kind: Kind, view: View<'s>) -> Option<Box<dyn Source + 's>> {
    match kind {
        Kind::Cramfs => Some(Box::new(TreeSource(cramfs::Cramfs::new(view)?))),
        Kind::Romfs => Some(Box::new(TreeSource(romfs::Romfs::new(view)?))),
        _ => None,
    }
}

struct TreeSource<T>(T);

impl<T: Tree> Source for TreeSource<T> {
    fn root(&self) -> u32 {
        self.0.root()
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes, Error> {
        let Inode { file_type, mode, uid, gid, size, device } = self.0.inode(inode).ok_or(DAMAGED)?;
        let plain = without_inode(inode, file_type, size);
        Ok(Attributes { mode: mode.unwrap_or(plain.mode), uid, gid, device, xattr_count: 0, ..plain })
    }

    fn names(&mut self, directory: u32) -> (Vec<Name>, Vec<String>) {
        let (names, is_whole) = self.0.names(directory);
        let name = |(name, inode): (Vec<u8>, u32)| {
            let file_type = self.0.inode(inode).map_or(FileType::Regular, |inode| inode.file_type);
            Name { name, inode, file_type, doubt: None }
        };
        let lost = if is_whole { Vec::new() } else { vec!["names in the directory: damaged".to_owned()] };
        (names.into_iter().map(name).collect(), lost)
    }

    fn lost(&mut self, _inode: u32) -> Vec<String> {
        Vec::new()
    }

    fn nameless(&mut self, _taken: &dyn Fn(&[u8]) -> bool) -> Option<Name> {
        None
    }

    fn xattrs(&mut self, _inode: u32) -> (Xattrs, Vec<String>) {
        (Vec::new(), Vec::new())
    }

    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>, Error> {
        let size = self.0.inode(inode).ok_or(DAMAGED)?.size;
        let len = usize::try_from(size.min(LINK_MAX)).unwrap_or(0);
        let mut block = [0; BLOCK_BYTES];
        self.0.block(inode, 0, &mut block).ok_or(DAMAGED)?;
        Ok(block.get(..len).unwrap_or(&block).to_vec())
    }

    fn blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, NodePos)>, Error> {
        let size = self.0.inode(inode).ok_or(DAMAGED)?.size;
        let end = u32::try_from(size.div_ceil(BLOCK_BYTES as u64)).unwrap_or(u32::MAX);
        Ok((block..end).take(max).map(|block| (block, NodePos::default())).collect())
    }

    fn read_block(
        &mut self,
        inode: u32,
        block: u32,
        _place: NodePos,
        out: &mut [u8; BLOCK_BYTES],
    ) -> Result<(), Error> {
        self.0.block(inode, block, out).ok_or(DAMAGED)
    }
}
