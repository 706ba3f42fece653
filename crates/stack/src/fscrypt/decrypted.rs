//! A filesystem that is read with keys: names and contents of files with a known key are decrypted; those of other files stay encrypted.

use std::collections::BTreeMap;
use std::sync::Arc;

use floatgate_media::file::FileFlags;

use super::{CONTEXT, FileKey, FoundKeys, Keys, Place};
use crate::fs::{
    Attributes, BLOCK_BYTES, DirEntry, Error, FileSystem, FileType, Holds, NodePos, Result, Space,
};

/// Maximum number of files whose derived keys are cached.
const REMEMBERED: usize = 1024;

/// A filesystem and keys of its files.
pub struct Decrypted {
    fs: Box<dyn FileSystem>,
    keys: Arc<Keys>,
    /// Cache: keys of files by inode, or the reason why a file is not decrypted.
    files: BTreeMap<u32, std::result::Result<Arc<FileKey>, Arc<str>>>,
    /// Keys that were found by the names of directories.
    found: FoundKeys,
}

fn damaged(inode: u32, what: &str) -> Error {
    Error::Damaged(format!("inode {inode}: {what}"))
}

impl Decrypted {
    /// Reads a mounted filesystem with these keys.
    #[must_use]
    pub fn new(fs: Box<dyn FileSystem>, keys: Arc<Keys>) -> Self {
        Self { fs, keys, files: BTreeMap::new(), found: FoundKeys::new() }
    }

    /// Keys of an encrypted file; `None` for a file that is not encrypted, or whose key is unknown.
    fn key(&mut self, attributes: &Attributes) -> Result<Option<Arc<FileKey>>> {
        if !attributes.is_encrypted() {
            return Ok(None);
        }
        let inode = attributes.inode;
        if let Some(key) = self.files.get(&inode) {
            return Ok(key.as_ref().ok().cloned());
        }
        let context = self.fs.get_xattr(inode, CONTEXT)?;
        if attributes.file_type == FileType::Directory {
            self.find_key(inode, &context);
        }
        let place = Place { inode, uuid: self.fs.encryption_uuid() };
        let key = self.keys.of_file(&context, &place, &self.found)?.map(Arc::new).map_err(Arc::from);
        if self.files.len() >= REMEMBERED {
            self.files.clear();
        }
        self.files.insert(inode, key.clone());
        Ok(key.ok())
    }

    /// Finds the key of a directory by its names, if no key has the descriptor of its policy.
    fn find_key(&mut self, directory: u32, context: &[u8]) {
        let names = || {
            let entries = self.fs.readable_entries(directory).map(|(entries, _)| entries).unwrap_or_default();
            entries.into_iter().map(|entry| entry.name).collect()
        };
        if let Some((descriptor, key)) = self.keys.by_names(context, &self.found, names) {
            self.found.insert(descriptor, key);
            // Cached files may have the same policy.
            self.files.retain(|_, key| key.is_ok());
        }
    }

    fn key_of(&mut self, inode: u32) -> Result<Option<Arc<FileKey>>> {
        let attributes = self.fs.attributes(inode)?;
        self.key(&attributes)
    }

    /// Decrypts the names of a directory; `None` if the key is unknown.
    fn names(&mut self, directory: u32, entries: &mut [DirEntry]) -> Result<Vec<Error>> {
        let Some(key) = self.key_of(directory)? else { return Ok(Vec::new()) };
        let mut lost = Vec::new();
        for entry in entries {
            entry.encrypted = false;
            match key.names.decrypt(&entry.name) {
                Some(name) if !name.is_empty() => entry.name = name,
                _ => lost.push(damaged(directory, "a name is too short to be an encrypted one")),
            }
        }
        Ok(lost)
    }

    /// Reads a block of a file and decrypts it with the key of the file.
    fn block(&mut self, inode: u32, block: u32, key: &FileKey, out: &mut [u8; BLOCK_BYTES]) -> Result<()> {
        self.fs.read_encrypted(inode, block, &mut |number, unit| key.decrypt(number, unit), out)
    }
}

impl FileSystem for Decrypted {
    fn root(&self) -> u32 {
        self.fs.root()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn damage(&self) -> Vec<Error> {
        self.fs.damage()
    }

    fn space(&self) -> Space {
        self.fs.space()
    }

    fn holds(&self) -> Holds {
        self.fs.holds()
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes> {
        let mut attributes = self.fs.attributes(inode)?;
        if self.key(&attributes)?.is_some() {
            attributes.flags = FileFlags::from_bits(attributes.flags.bits() & !FileFlags::ENCRYPTED.bits());
            if attributes.file_type == FileType::Symlink {
                attributes.size = self.read_link(inode)?.len() as u64;
            }
        }
        Ok(attributes)
    }

    fn why_encrypted(&mut self, inode: u32) -> Option<String> {
        self.key_of(inode).ok()?;
        self.files.get(&inode)?.as_ref().err().map(ToString::to_string)
    }

    fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        if self.key_of(directory)?.is_none() {
            return self.fs.lookup(directory, name);
        }
        let entries = self.read_dir(directory, None, usize::MAX)?;
        entries.iter().find(|entry| entry.name == name).map(|entry| entry.inode).ok_or(Error::NotFound)
    }

    fn read_dir(&mut self, directory: u32, after: Option<&DirEntry>, max: usize) -> Result<Vec<DirEntry>> {
        if self.key_of(directory)?.is_none() {
            return self.fs.read_dir(directory, after, max);
        }
        // Another entry is found by its stored name, which cannot be computed from the decrypted one.
        let mut entries = self.fs.read_dir(directory, None, usize::MAX)?;
        self.names(directory, &mut entries)?;
        let is_last = |entry: &DirEntry| {
            after.is_some_and(|after| entry.position == after.position && entry.name == after.name)
        };
        let first = entries.iter().position(is_last).map_or(0, |at| at + 1);
        Ok(entries.into_iter().skip(first).take(max).collect())
    }

    fn readable_entries(&mut self, directory: u32) -> Result<(Vec<DirEntry>, Vec<Error>)> {
        let (mut entries, mut lost) = self.fs.readable_entries(directory)?;
        lost.extend(self.names(directory, &mut entries)?);
        Ok((entries, lost))
    }

    fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let attributes = self.fs.attributes(inode)?;
        let Some(key) = self.key(&attributes)?.filter(|_| attributes.file_type == FileType::Regular) else {
            return self.fs.read(inode, offset, buf);
        };
        let len =
            usize::try_from(attributes.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        let (mut done, mut bytes) = (0, [0; BLOCK_BYTES]);
        while done < len {
            let at = offset + done as u64;
            let block = u32::try_from(at / BLOCK_BYTES as u64);
            let block = block.map_err(|_| Error::TooLarge { what: "file", len: attributes.size })?;
            self.block(inode, block, &key, &mut bytes)?;
            let within = (at % BLOCK_BYTES as u64) as usize;
            let piece = (BLOCK_BYTES - within).min(len - done);
            buf[done..done + piece].copy_from_slice(&bytes[within..within + piece]);
            done += piece;
        }
        Ok(len)
    }

    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        let Some(key) = self.key_of(inode)? else { return self.fs.read_link(inode) };
        // The length of the encrypted target precedes it (Linux: `struct fscrypt_symlink_data`).
        let stored = self.fs.stored_link(inode)?;
        let target = stored
            .split_first_chunk::<2>()
            .and_then(|(len, rest)| key.names.decrypt(rest.get(..usize::from(u16::from_le_bytes(*len)))?));
        target.ok_or_else(|| damaged(inode, "the encrypted target of the link is too short"))
    }

    fn list_xattrs(&mut self, inode: u32) -> Result<Vec<Vec<u8>>> {
        let mut names = self.fs.list_xattrs(inode)?;
        if self.key_of(inode)?.is_some() {
            names.retain(|name| name != CONTEXT);
        }
        Ok(names)
    }

    fn readable_xattrs(&mut self, inode: u32) -> Result<(Vec<Vec<u8>>, Vec<Error>)> {
        let (mut names, lost) = self.fs.readable_xattrs(inode)?;
        if self.key_of(inode)?.is_some() {
            names.retain(|name| name != CONTEXT);
        }
        Ok((names, lost))
    }

    fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        self.fs.get_xattr(inode, name)
    }

    fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        self.fs.data_blocks(inode, block, max)
    }

    fn stored_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, NodePos)>> {
        self.fs.stored_blocks(inode, block, max)
    }

    fn read_stored(
        &mut self,
        inode: u32,
        block: u32,
        place: NodePos,
        out: &mut [u8; BLOCK_BYTES],
    ) -> Result<()> {
        match self.key_of(inode)? {
            Some(key) => self.block(inode, block, &key, out),
            None => self.fs.read_stored(inode, block, place, out),
        }
    }

    fn fsync(&mut self, _: u32) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn unmount(self: Box<Self>) -> Result<()> {
        self.fs.unmount()
    }
}
