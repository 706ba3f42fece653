//! The [`FileSystem`] trait and its types, which extracting, building, changing, mounting, comparing and benchmarks need.

mod acl;
mod error;
mod types;
mod work;

pub use acl::{ACL_ACCESS, ACL_DEFAULT, Acl, is_acl};
pub use error::{Error, Result};
pub use types::{
    AttributeChanges, Attributes, CompressedBlock, Compression, DeviceNumber, DirEntry, FileFlags, FileType,
    FilledFile, Holds, Name, NewFile, NewKind, NodePos, Rename, SetXattr, Space, Timestamp,
};
pub use work::{Codec, Through, Work};

/// Bytes of a block of a file: blocks are what holes and compression are counted in.
pub const BLOCK_BYTES: usize = 4096;

/// Name of the target of a symbolic link in [`Error::TooLarge`].
pub const LINK_TARGET: &str = "target of a symbolic link";

/// A mounted filesystem.
///
/// Files are named by inode numbers. An inode without a name stays as long as it is open.
///
/// Features that not every filesystem has (links, attributes, extended attributes, renaming) answer [`Error::Unsupported`] unless they are implemented.
///
/// **After a power loss**, what [`sync`](Self::sync) or [`fsync`](Self::fsync) has brought to flash is there; what was changed since is
/// there in part, and each name is either as it was or as it was to be.
pub trait FileSystem: Send {
    /// Inode of the root directory.
    fn root(&self) -> u32;

    /// Sets the time of day: the time stamp of changes from now on.
    fn set_time(&mut self, time: Timestamp) {
        let _ = time;
    }

    /// True when it cannot be changed: mounted so, or after a failure.
    fn is_read_only(&self) -> bool {
        false
    }

    /// The failure after which it cannot be changed any more. What was not on flash before is lost.
    fn failure(&self) -> Option<Error> {
        None
    }

    /// Damage that mounting has found and left out.
    fn damage(&self) -> Vec<Error> {
        Vec::new()
    }

    /// Sizes, as `df` shows them.
    fn space(&self) -> Space;

    /// Kinds of attributes that it can hold; all unless it says otherwise.
    fn holds(&self) -> Holds {
        Holds::default()
    }

    /// Work of the CPU since the mount, beside what the device's driver does; nothing where that is not counted.
    fn work(&self) -> Work {
        Work::default()
    }

    /// True when data that are written wait in memory until [`write_back`](Self::write_back), `fsync` or `sync`; false when they go down at
    /// once.
    fn delays_writes(&self) -> bool {
        false
    }

    /// Attributes of a file.
    ///
    /// # Errors
    /// Not there; damage; failures of the device. So it is with all that reads.
    fn attributes(&mut self, inode: u32) -> Result<Attributes>;

    /// Inode that has a name in a directory.
    ///
    /// # Errors
    /// [`Error::NotFound`]; not a directory; damage.
    fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32>;

    /// Inode at a path from the root, its parts separated by slashes. Symbolic links are not followed.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    fn resolve(&mut self, path: &[u8]) -> Result<u32> {
        let mut parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        parts.try_fold(self.root(), |inode, part| self.lookup(inode, part))
    }

    /// Entries of a directory after one of them, or from the first, at most `max`, in an order of the filesystem's own.
    ///
    /// # Errors
    /// Not a directory; damage.
    fn read_dir(&mut self, directory: u32, after: Option<&DirEntry>, max: usize) -> Result<Vec<DirEntry>>;

    /// Reads from a regular file into a buffer and returns the number of bytes, fewer at the end of the file.
    ///
    /// # Errors
    /// Not a regular file; damage.
    fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// Not a symbolic link; damage.
    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        let _ = inode;
        Err(Error::Unsupported("symbolic links"))
    }

    /// Names of the extended attributes, with their prefixes.
    ///
    /// # Errors
    /// Damage.
    fn list_xattrs(&mut self, inode: u32) -> Result<Vec<Vec<u8>>> {
        let _ = inode;
        Ok(Vec::new())
    }

    /// Value of an extended attribute.
    ///
    /// # Errors
    /// [`Error::NotFound`]; damage.
    fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        let _ = (inode, name);
        Err(Error::NotFound)
    }

    /// Blocks of a regular file that hold data, in order, from `block` on, at most `max`; between them are holes.
    ///
    /// # Errors
    /// Not a regular file; damage.
    fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        let _ = (inode, block, max);
        Err(Error::Unsupported("telling holes from data"))
    }

    /// All inodes, those without a name and those of extended attributes included, in order.
    ///
    /// # Errors
    /// Damage.
    fn inodes(&mut self) -> Result<Vec<u32>> {
        Err(Error::Unsupported("a list of inodes"))
    }

    /// Compares what the filesystem believes of itself in memory, its space above all, with what is on flash; what is wrong, in words.
    /// For tests: a filesystem that is sound finds nothing, whatever it has been through.
    ///
    /// # Errors
    /// Damage.
    fn check(&mut self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// As [`read_dir`](Self::read_dir), of all entries that can be read, with what is wrong with the others.
    ///
    /// # Errors
    /// It is not known which names there are.
    fn readable_entries(&mut self, directory: u32) -> Result<(Vec<DirEntry>, Vec<Error>)> {
        Ok((self.read_dir(directory, None, usize::MAX)?, Vec::new()))
    }

    /// As [`list_xattrs`](Self::list_xattrs), of all names that can be read, with what is wrong with the others.
    ///
    /// # Errors
    /// It is not known which attributes there are.
    fn readable_xattrs(&mut self, inode: u32) -> Result<(Vec<Vec<u8>>, Vec<Error>)> {
        Ok((self.list_xattrs(inode)?, Vec::new()))
    }

    /// As [`data_blocks`](Self::data_blocks), with the place of each, of what is on flash: the file's inode is not looked at.
    ///
    /// # Errors
    /// It is not known where they are.
    fn stored_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, NodePos)>> {
        let blocks = self.data_blocks(inode, block, max)?;
        Ok(blocks.into_iter().map(|block| (block, NodePos::default())).collect())
    }

    /// Reads a block that [`stored_blocks`](Self::stored_blocks) has found; what lies behind its end is zeros.
    ///
    /// # Errors
    /// Damage.
    fn read_stored(
        &mut self,
        inode: u32,
        block: u32,
        _place: NodePos,
        out: &mut [u8; BLOCK_BYTES],
    ) -> Result<()> {
        out.fill(0);
        self.read(inode, u64::from(block) * BLOCK_BYTES as u64, out).map(drop)
    }

    /// Makes a file of any kind and returns its inode.
    ///
    /// # Errors
    /// The name exists or is not possible; not a directory; no space; read-only; failures of the device. So it is with all that changes.
    fn create(&mut self, directory: u32, name: &[u8], file: &NewFile<'_>) -> Result<u32>;

    /// Makes an open file without a name (`O_TMPFILE`), with the flags that files of a directory get.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    fn create_unnamed(&mut self, directory: u32, file: &NewFile<'_>) -> Result<u32> {
        let _ = (directory, file);
        Err(Error::Unsupported("files without a name"))
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// The name exists; the file is a directory.
    fn link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        let _ = (inode, directory, name);
        Err(Error::Unsupported("links"))
    }

    /// Removes a name of anything but a directory.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::IsDirectory`].
    fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Error::NotFound`]; not a directory; not empty.
    fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Result<()>;

    /// Gives a file another name, and perhaps another directory, at once.
    ///
    /// # Errors
    /// [`Error::NotFound`]; a target that cannot be replaced; a directory moved below itself.
    fn rename(&mut self, from: Name<'_>, to: Name<'_>, how: Rename) -> Result<()> {
        let _ = (from, to, how);
        Err(Error::Unsupported("renaming"))
    }

    /// Writes to a regular file. The data may wait in memory; [`fsync`](Self::fsync) brings them to flash.
    ///
    /// # Errors
    /// Not a regular file; too large; no space.
    fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()>;

    /// Changes attributes.
    ///
    /// # Errors
    /// No space; what the filesystem does not have.
    fn set_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        let _ = (inode, changes);
        Err(Error::Unsupported("changes of attributes"))
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As `how` says; too large; no space.
    fn set_xattr(&mut self, inode: u32, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let _ = (inode, name, value, how);
        Err(Error::Unsupported("extended attributes"))
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn remove_xattr(&mut self, inode: u32, name: &[u8]) -> Result<()> {
        let _ = (inode, name);
        Err(Error::NotFound)
    }

    /// Opens a file: it stays while it is open, also without a name.
    ///
    /// # Errors
    /// Not there.
    fn open(&mut self, inode: u32) -> Result<()> {
        let _ = inode;
        Ok(())
    }

    /// Closes a file, as often as it was opened.
    ///
    /// # Errors
    /// It was removed meanwhile, and that cannot be written.
    fn close(&mut self, inode: u32) -> Result<()> {
        let _ = inode;
        Ok(())
    }

    /// Hands what waits of one inode down, as Linux's write-back does when it is old or much: the filesystem may keep it in buffers of
    /// its own, and a loss of power may still lose it.
    ///
    /// # Errors
    /// As [`fsync`](Self::fsync).
    fn write_back(&mut self, inode: u32) -> Result<()> {
        self.fsync(inode)
    }

    /// All that is changed in one inode is on flash when this returns (`fsync`).
    ///
    /// # Errors
    /// No space; failures of the device.
    fn fsync(&mut self, inode: u32) -> Result<()>;

    /// Everything changed is on flash when this returns (`sync`).
    ///
    /// # Errors
    /// No space; failures of the device.
    fn sync(&mut self) -> Result<()>;

    /// Ends a change of an image as a whole: as [`sync`](Self::sync), and makes sure that the filesystem can be mounted and emptied again.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if it could not: the change has to be given up.
    fn end_change(&mut self) -> Result<()> {
        self.sync()
    }

    /// Writes what is changed and ends the mount.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    fn unmount(self: Box<Self>) -> Result<()>;

    /// Puts a file of any kind into a directory of a filesystem that is being built, whose times stay as they are, and returns its inode.
    /// The data of a regular file
    /// follow with [`fill_blocks`](Self::fill_blocks); what does not follow is a hole.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    fn fill(&mut self, directory: u32, name: &[u8], file: &FilledFile<'_>) -> Result<u32> {
        let before = self.attributes(directory)?.times();
        let inode = self.create(directory, name, &file.file)?;
        self.set_attributes(directory, &before)?;
        for (name, value) in file.xattrs {
            self.set_xattr(inode, name, value, SetXattr::Any)?;
        }
        let changes = AttributeChanges {
            size: matches!(file.file.kind, NewKind::Regular).then_some(file.size),
            atime: Some(file.atime),
            mtime: Some(file.mtime),
            ctime: Some(file.ctime),
            ..AttributeChanges::default()
        };
        self.set_attributes(inode, &changes)?;
        Ok(inode)
    }

    /// Gives a file that was [put in](Self::fill) another name. All times stay.
    ///
    /// # Errors
    /// As [`link`](Self::link).
    fn fill_link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        let (before, file) = (self.attributes(directory)?.times(), self.attributes(inode)?.times());
        self.link(inode, directory, name)?;
        self.set_attributes(directory, &before)?;
        self.set_attributes(inode, &file)
    }

    /// Sets attributes of a file that was [put in](Self::fill).
    ///
    /// # Errors
    /// As [`set_attributes`](Self::set_attributes).
    fn fill_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        self.set_attributes(inode, changes)
    }

    /// Writes blocks of a file that was [put in](Self::fill), all of them inside its size and none twice. The times stay.
    ///
    /// # Errors
    /// A compression that the filesystem does not take; no space.
    fn fill_blocks(&mut self, inode: u32, blocks: &[CompressedBlock<'_>]) -> Result<()> {
        let before = self.attributes(inode)?.times();
        for block in blocks {
            if block.compression != Compression::None {
                return Err(Error::Unsupported("data that are compressed already"));
            }
            self.write(inode, u64::from(block.block) * BLOCK_BYTES as u64, block.data)?;
        }
        self.set_attributes(inode, &before)
    }
}
