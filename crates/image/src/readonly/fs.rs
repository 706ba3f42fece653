//! A tree that is only read as a filesystem.

use floatgate_stack::fs::{
    Attributes, BLOCK_BYTES, Compression, DirEntry, Error, FileFlags, FileSystem, FileType, Holds, Name,
    Rename, Result, Space,
};

use super::{LINK_MAX, Names, Opened, Tree};
use floatgate_stack::fscrypt::{CONTEXT, Units};

/// Bytes of a block.
const BLOCK: u64 = BLOCK_BYTES as u64;

pub(super) fn open(tree: impl Tree + 'static) -> Opened {
    let found = tree.findings();
    Opened { fs: Box::new(TreeFs(tree)), found }
}

struct TreeFs<T>(T);

/// POSIX type of a file, and the permissions that Linux assumes for formats without permissions.
const fn assumed_mode(file_type: FileType) -> u32 {
    match file_type {
        FileType::Directory => 0o040_755,
        FileType::Symlink => 0o120_777,
        FileType::BlockDevice => 0o060_644,
        FileType::CharacterDevice => 0o020_644,
        FileType::Fifo => 0o010_644,
        FileType::Socket => 0o140_644,
        _ => 0o100_644,
    }
}

fn damaged(inode: u32, what: &str) -> Error {
    Error::Damaged(format!("inode {inode}: {what}"))
}

impl<T: Tree> TreeFs<T> {
    fn inode(&mut self, inode: u32) -> Result<super::Inode> {
        self.0.inode(inode).ok_or_else(|| damaged(inode, "it leads out of the image, or is none"))
    }

    /// Sorted names of a directory, and true if none is missing.
    fn sorted(&mut self, directory: u32) -> Result<(Names, bool)> {
        if self.inode(directory)?.file_type != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        let (mut names, is_whole) = self.0.names(directory);
        names.sort();
        Ok((names, is_whole))
    }

    fn entry(&mut self, encrypted: bool, position: usize, (name, inode): (Vec<u8>, u32)) -> DirEntry {
        let file_type = self.0.inode(inode).map_or(FileType::Regular, |inode| inode.file_type);
        DirEntry { name, inode, file_type, encrypted, position: position as u64 }
    }

    /// Size of a regular file.
    fn size_of(&mut self, inode: u32) -> Result<u64> {
        let found = self.inode(inode)?;
        match found.file_type {
            FileType::Regular => Ok(found.size),
            FileType::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }

    /// Size of a regular file that is not encrypted.
    fn regular(&mut self, inode: u32) -> Result<u64> {
        let size = self.size_of(inode)?;
        if self.0.is_encrypted(inode) {
            return Err(Error::Unsupported("the file is encrypted"));
        }
        Ok(size)
    }

    /// Reads a block of a file or a link of `size` bytes; bytes after its end are zeros.
    fn block(&mut self, inode: u32, size: u64, block: u32, out: &mut [u8; BLOCK_BYTES]) -> Result<()> {
        out.fill(0);
        let at = u64::from(block) * BLOCK;
        let left = self.0.stored_bytes(inode, size).checked_sub(at).map(|left| left.min(BLOCK) as usize);
        let read = left.and_then(|len| self.0.read(inode, at, &mut out[..len]));
        read.ok_or_else(|| damaged(inode, &format!("block {block} of its data cannot be read")))
    }
}

impl<T: Tree> FileSystem for TreeFs<T> {
    fn root(&self) -> u32 {
        self.0.root()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn space(&self) -> Space {
        Space::default()
    }

    fn holds(&self) -> Holds {
        Holds { flags: false, nanoseconds: true, acls: true }
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes> {
        let found = self.inode(inode)?;
        Ok(Attributes {
            inode,
            file_type: found.file_type,
            mode: found.mode.unwrap_or(assumed_mode(found.file_type)),
            links: found.links,
            uid: found.uid,
            gid: found.gid,
            size: found.size,
            atime: found.atime,
            mtime: found.mtime,
            ctime: found.ctime,
            device: found.device,
            flags: if self.0.is_encrypted(inode) { FileFlags::ENCRYPTED } else { FileFlags::default() },
            compression: Compression::None,
            xattr_count: found.has_xattrs.into(),
        })
    }

    fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        let (names, is_whole) = self.sorted(directory)?;
        match names.into_iter().find(|(other, _)| other == name) {
            Some((_, inode)) => Ok(inode),
            None if is_whole => Err(Error::NotFound),
            None => Err(damaged(directory, "names in the directory cannot be read")),
        }
    }

    fn read_dir(&mut self, directory: u32, after: Option<&DirEntry>, max: usize) -> Result<Vec<DirEntry>> {
        let (names, is_whole) = self.sorted(directory)?;
        if !is_whole {
            return Err(damaged(directory, "names in the directory cannot be read"));
        }
        let first = after.map_or(0, |entry| usize::try_from(entry.position).unwrap_or(usize::MAX) + 1);
        let encrypted = self.0.is_encrypted(directory);
        let wanted = names.into_iter().enumerate().skip(first).take(max);
        Ok(wanted.map(|(position, name)| self.entry(encrypted, position, name)).collect())
    }

    fn readable_entries(&mut self, directory: u32) -> Result<(Vec<DirEntry>, Vec<Error>)> {
        let (names, is_whole) = self.sorted(directory)?;
        let lost = (!is_whole).then(|| damaged(directory, "names in the directory cannot be read"));
        let encrypted = self.0.is_encrypted(directory);
        let names = names.into_iter().enumerate();
        let entries = names.map(|(position, name)| self.entry(encrypted, position, name));
        Ok((entries.collect(), lost.into_iter().collect()))
    }

    fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let size = self.regular(inode)?;
        let len = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        let mut done = 0;
        let mut bytes = [0; BLOCK_BYTES];
        while done < len {
            let at = offset + done as u64;
            let block = u32::try_from(at / BLOCK).map_err(|_| Error::TooLarge { what: "file", len: size })?;
            self.block(inode, size, block, &mut bytes)?;
            let within = usize::try_from(at % BLOCK).unwrap_or(0);
            let piece = (BLOCK_BYTES - within).min(len - done);
            buf[done..done + piece].copy_from_slice(&bytes[within..within + piece]);
            done += piece;
        }
        Ok(len)
    }

    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        if self.0.is_encrypted(inode) {
            return Err(Error::Unsupported("the link is encrypted"));
        }
        self.stored_link(inode)
    }

    fn encryption_uuid(&self) -> Option<[u8; 16]> {
        self.0.uuid()
    }

    fn read_encrypted(
        &mut self,
        inode: u32,
        block: u32,
        decrypt: &mut Units<'_>,
        out: &mut [u8; BLOCK_BYTES],
    ) -> Result<()> {
        if self.0.is_hole(inode, block) {
            out.fill(0);
            return Ok(());
        }
        let size = self.inode(inode)?.size;
        self.block(inode, size, block, out)?;
        let unit = self.0.unit();
        if unit > BLOCK_BYTES {
            return Err(Error::Unsupported("encrypted blocks of more than 4096 bytes"));
        }
        let first = u64::from(block) * (BLOCK_BYTES / unit) as u64;
        for (number, unit) in (first..).zip(out.chunks_mut(unit)) {
            // A unit that is a hole has no data.
            if unit.iter().any(|&byte| byte != 0) {
                decrypt(number, unit).ok_or_else(|| damaged(inode, "an encrypted block is too short"))?;
            }
        }
        let left = usize::try_from(size.saturating_sub(u64::from(block) * BLOCK));
        let end = left.unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        out[end..].fill(0);
        Ok(())
    }

    fn stored_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        let found = self.inode(inode)?;
        if found.file_type != FileType::Symlink {
            return Err(Error::Invalid("not a symbolic link"));
        }
        let len = usize::try_from(found.size.min(LINK_MAX)).unwrap_or(0);
        let mut block = [0; BLOCK_BYTES];
        self.block(inode, found.size, 0, &mut block)?;
        Ok(block[..len].to_vec())
    }

    fn list_xattrs(&mut self, inode: u32) -> Result<Vec<Vec<u8>>> {
        let xattrs = self.0.xattrs(inode).ok_or_else(|| damaged(inode, "its extended attributes"))?;
        Ok(xattrs.into_iter().map(|(name, _)| name).collect())
    }

    fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        if name == CONTEXT && self.0.is_encrypted(inode) {
            return self.0.context(inode).ok_or_else(|| damaged(inode, "the context of its encryption"));
        }
        let xattrs = self.0.xattrs(inode).ok_or_else(|| damaged(inode, "its extended attributes"))?;
        let found = xattrs.into_iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value).ok_or(Error::NotFound)
    }

    fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        let size = self.size_of(inode)?;
        let end =
            u32::try_from(size.div_ceil(BLOCK)).map_err(|_| Error::TooLarge { what: "file", len: size })?;
        let mut blocks = Vec::new();
        for block in block..end {
            if blocks.len() >= max {
                break;
            }
            if !self.0.is_hole(inode, block) {
                blocks.push(block);
            }
        }
        Ok(blocks)
    }

    fn rename(&mut self, _: Name<'_>, _: Name<'_>, _: Rename) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn fsync(&mut self, _: u32) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn unmount(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
