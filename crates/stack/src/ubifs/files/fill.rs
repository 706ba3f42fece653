//! Filling a new filesystem before its first commit, to build an image.
//!
//! Until that commit nothing on flash refers to the nodes, so groups need not be atomic. No node is written twice: a
//! file is added with all its attributes, and directories are written once at the end. Space is not budgeted, because
//! budgets assume the worst case; the image may use the whole volume.

use floatgate_media::file::{FileFlags, FileType};
use floatgate_media::ubifs::MAX_INODE_DATA;
use floatgate_media::ubifs::{Block, DataNode, Entry, EntryNode, Inode, Key, MAX_FILE_BYTES, MAX_NAME_BYTES};

use super::super::error::{Error, Result, narrow};
use super::super::journal::Change;
use super::super::layout::Head;
use super::super::space::Cost;
use super::Ubifs;
use super::directory::{check_name, entry_bytes};
use super::inodes::Cached;
use super::xattr::{check_xattr_list, value_bytes};
use crate::fs::{AttributeChanges, CompressedBlock, FilledFile, NewKind};
use crate::volume::Volume;

/// Flags of a file that are kept; compression may be inherited from the directory.
const FILLED_FLAGS: u32 = FileFlags::SYNC.bits()
    | FileFlags::IMMUTABLE.bits()
    | FileFlags::APPEND.bits()
    | FileFlags::DIRSYNC.bits();

impl Ubifs<dyn Volume> {
    fn require_deferred(&self) -> Result<()> {
        self.require_writable()?;
        let refused = Error::Invalid("only a filesystem whose first commit is deferred can be filled");
        if self.core.log.is_deferred() { Ok(()) } else { Err(refused) }
    }

    /// Writes nodes. If that requires a commit, the volume is full: a commit now would end the filesystem after the
    /// data written so far.
    fn fill_nodes(&mut self, head: Head, changes: &[Change<'_>]) -> Result<()> {
        self.core.apply(head, changes)?;
        if self.core.log.is_deferred() { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Sets the UUID of the filesystem before its first commit.
    ///
    /// # Errors
    /// The first commit was made.
    pub fn set_uuid(&mut self, uuid: [u8; 16]) -> Result<()> {
        self.require_deferred()?;
        let mut layout = (**self.core.io.layout()).clone();
        layout.superblock.uuid = uuid;
        self.core.io.set_layout(std::sync::Arc::new(layout));
        Ok(())
    }

    /// Adds a file of any type to a directory, whose times do not change, and returns its inode. The data of a regular
    /// file follows with [`fill_blocks`](Self::fill_blocks); blocks that are not written are holes.
    ///
    /// # Errors
    /// The first commit was made; the name exists or is invalid, not a directory, a value that is too large, no space;
    /// volume failures.
    pub fn fill(&mut self, directory: u32, name: &[u8], file: &FilledFile<'_>) -> Result<u32> {
        self.require_deferred()?;
        check_name(name)?;
        self.check_filled(file)?;
        if self.find_entry(directory, name)?.is_some() {
            return Err(Error::Exists);
        }
        let cached = self.filled_inode(directory, file)?;
        let inode = cached.inode.key.inum();
        let is_directory = matches!(file.file.kind, NewKind::Directory);
        let file_type = cached.inode.file_type().unwrap_or(FileType::Regular);
        self.fill_entry(directory, name, inode, file_type, is_directory)?;
        if is_directory {
            // A directory is written once, at the end, because its size grows with its entries.
            self.inodes.insert(Cached { dirty: Some(Cost::default()), ..cached.clone() });
        } else {
            self.fill_nodes(Head::Base, &[Change::Inode(cached.node())])?;
        }
        file.xattrs.iter().try_for_each(|(name, value)| self.fill_xattr(&cached.inode, name, value))?;
        Ok(inode)
    }

    fn check_filled(&self, file: &FilledFile<'_>) -> Result<()> {
        if file.size > MAX_FILE_BYTES {
            return Err(Error::TooLarge { what: "file", len: file.size });
        }
        check_xattr_list(file.xattrs.len(), file.xattrs.iter().map(|(name, _)| name.len()).sum())?;
        for (name, value) in file.xattrs {
            if value.len() > MAX_INODE_DATA as usize {
                return Err(Error::TooLarge { what: "attribute", len: value.len() as u64 });
            }
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(&0) {
                return Err(Error::BadName);
            }
        }
        Ok(())
    }

    fn filled_inode(&mut self, directory: u32, file: &FilledFile<'_>) -> Result<Cached> {
        let mut cached = self.new_inode(directory, &file.file)?;
        let inode = &mut cached.inode;
        match file.file.kind {
            NewKind::Regular => inode.size = file.size,
            NewKind::BlockDevice(_) | NewKind::CharacterDevice(_) if file.size == 0 => inode.size = 0,
            _ => {}
        }
        (inode.atime_s, inode.atime_ns) = (file.atime.seconds, file.atime.nanoseconds);
        (inode.mtime_s, inode.mtime_ns) = (file.mtime.seconds, file.mtime.nanoseconds);
        (inode.ctime_s, inode.ctime_ns) = (file.ctime.seconds, file.ctime.nanoseconds);
        let mut compress = inode.flags.bits();
        if let Some(compression) = file.compression {
            (inode.compression, compress) = (compression, file.flags.bits());
        }
        inode.flags =
            FileFlags::from_bits(compress & FileFlags::COMPRESS.bits() | file.flags.bits() & FILLED_FLAGS);
        inode.xattr_count = narrow("list of attributes", file.xattrs.len())?;
        for (name, value) in file.xattrs {
            let entry = narrow("entry", entry_bytes(name.len()))?;
            inode.xattr_bytes =
                inode.xattr_bytes.saturating_add(entry).saturating_add(value_bytes(value.len()));
            inode.xattr_names_bytes += narrow("name", name.len())?;
        }
        cached.synced_size = cached.inode.size;
        Ok(cached)
    }

    /// Writes a directory entry and updates its directory.
    fn fill_entry(
        &mut self,
        directory: u32,
        name: &[u8],
        inode: u32,
        file_type: FileType,
        is_directory: bool,
    ) -> Result<()> {
        self.directory(directory)?;
        let parent = self.mark_filled(directory)?;
        parent.inode.size += entry_bytes(name.len());
        parent.inode.links += u32::from(is_directory);
        let key = self.entry_key(directory, name)?;
        let entry = Entry { key, inode: u64::from(inode), file_type, cookie: self.core.io.cookie() };
        self.fill_nodes(Head::Base, &[Change::Entry(EntryNode { entry, name })])
    }

    fn fill_xattr(&mut self, host: &Inode, name: &[u8], value: &[u8]) -> Result<()> {
        let cached = self.new_xattr_inode(host, value)?;
        let inode = cached.inode.key.inum();
        let key = self.xattr_key(host.key.inum(), name)?;
        let entry = Entry {
            key,
            inode: u64::from(inode),
            file_type: FileType::Regular,
            cookie: self.core.io.cookie(),
        };
        self.fill_nodes(Head::Base, &[Change::Entry(EntryNode { entry, name }), Change::Inode(cached.node())])
    }

    /// Creates another link to a file added with [`fill`](Self::fill).
    ///
    /// # Errors
    /// The errors of [`fill`](Self::fill), and an inode that is a directory.
    pub fn fill_link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        self.require_deferred()?;
        check_name(name)?;
        if self.find_entry(directory, name)?.is_some() {
            return Err(Error::Exists);
        }
        let cached = self.mark_filled(inode)?;
        let file_type = super::inodes::file_type(&cached.inode)?;
        if file_type == FileType::Directory {
            return Err(Error::IsDirectory);
        }
        cached.inode.links = cached.inode.links.checked_add(1).ok_or(Error::TooManyLinks)?;
        self.fill_entry(directory, name, inode, file_type, false)
    }

    /// Sets attributes of a file added with [`fill`](Self::fill).
    ///
    /// # Errors
    /// The errors of [`set_attributes`](Self::set_attributes).
    pub fn fill_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        self.require_deferred()?;
        self.mark_filled(inode)?;
        self.set_attributes(inode, changes)
    }

    /// Writes blocks of a file added with [`fill`](Self::fill), each inside its size and at most once.
    ///
    /// # Errors
    /// The first commit was made; an invalid block, no space; volume failures.
    pub fn fill_blocks(&mut self, inode: u32, blocks: &[CompressedBlock<'_>]) -> Result<()> {
        self.require_deferred()?;
        for block in blocks {
            let too_large = Error::TooLarge { what: "file", len: u64::from(block.block) };
            let key = Key::data(inode, block.block).ok_or(too_large)?;
            let node = Block { key, size: block.size, compression: block.compression, compressed_size: 0 };
            self.fill_nodes(Head::Data, &[Change::Data(DataNode { block: node, data: block.data })])?;
        }
        Ok(())
    }
}
