//! The [`FileSystem`] trait and its types, used to extract, build, change, mount, compare and benchmark filesystems.

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

/// Size of a file block, B: the unit of holes and compression.
pub const BLOCK_BYTES: usize = 4096;

/// Description of the target of a symbolic link in [`Error::TooLarge`].
pub const LINK_TARGET: &str = "target of a symbolic link";

/// Decryption of the data units of a file.
pub type Units<'u> = dyn FnMut(u64, &mut [u8]) -> Option<()> + 'u;

/// A mounted filesystem.
///
/// Files are identified by inode numbers. An inode without a name exists as long as it is open.
///
/// Features that not every filesystem has (links, attributes, extended attributes, renaming) return
/// [`Error::Unsupported`] by default. Other changes return [`Error::ReadOnly`] by default.
///
/// **After a power loss**, data that [`sync`](Self::sync) or [`fsync`](Self::fsync) wrote is on flash. Later changes
/// may be there in part, and each name refers to either its old or its new file.
pub trait FileSystem: Send {
    /// Inode of the root directory.
    fn root(&self) -> u32;

    /// Sets the time of day, used as the timestamp of changes.
    fn set_time(&mut self, time: Timestamp) {
        let _ = time;
    }

    /// True if the filesystem cannot be changed: mounted read-only, or after a failure.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Failure that made the filesystem read-only. Data that was not on flash by then is lost.
    fn failure(&self) -> Option<Error> {
        None
    }

    /// Damage found during the mount and skipped.
    fn damage(&self) -> Vec<Error> {
        Vec::new()
    }

    /// Size and free space, as in `df`.
    fn space(&self) -> Space;

    /// Kinds of attributes that the filesystem can store; by default all.
    fn holds(&self) -> Holds {
        Holds::default()
    }

    /// CPU work since the mount, without the device driver; zero if it is not counted.
    fn work(&self) -> Work {
        Work::default()
    }

    /// True if written data stays in memory until [`write_back`](Self::write_back), `fsync` or `sync`; false if it is
    /// written at once.
    fn delays_writes(&self) -> bool {
        false
    }

    /// Attributes of a file.
    ///
    /// # Errors
    /// The inode does not exist; damage; device failures. The same applies to all methods that read.
    fn attributes(&mut self, inode: u32) -> Result<Attributes>;

    /// Inode of a name in a directory.
    ///
    /// # Errors
    /// [`Error::NotFound`]; not a directory; damage.
    fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32>;

    /// Inode at a path from the root, with components separated by slashes. Symbolic links are not followed.
    ///
    /// # Errors
    /// The errors of [`lookup`](Self::lookup).
    fn resolve(&mut self, path: &[u8]) -> Result<u32> {
        let mut parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        parts.try_fold(self.root(), |inode, part| self.lookup(inode, part))
    }

    /// At most `max` entries of a directory: those after `after`, or the first ones. The filesystem determines the
    /// order.
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

    /// Blocks of a regular file that contain data, from `block` on, in order, at most `max`. The blocks between them
    /// are holes.
    ///
    /// # Errors
    /// Not a regular file; damage.
    fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        let _ = (inode, block, max);
        Err(Error::Unsupported("telling holes from data"))
    }

    /// All inodes in order, including those without a name and those of extended attributes.
    ///
    /// # Errors
    /// Damage.
    fn inodes(&mut self) -> Result<Vec<u32>> {
        Err(Error::Unsupported("a list of inodes"))
    }

    /// Compares the state in memory, mainly space accounting, with the data on flash, and returns the differences as
    /// text. For tests: a sound filesystem returns none at any time.
    ///
    /// # Errors
    /// Damage.
    fn check(&mut self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// All readable entries of a directory, and the errors of the unreadable ones.
    ///
    /// # Errors
    /// The list of names cannot be read.
    fn readable_entries(&mut self, directory: u32) -> Result<(Vec<DirEntry>, Vec<Error>)> {
        Ok((self.read_dir(directory, None, usize::MAX)?, Vec::new()))
    }

    /// All readable names of extended attributes, and the errors of the unreadable ones.
    ///
    /// # Errors
    /// The list of attributes cannot be read.
    fn readable_xattrs(&mut self, inode: u32) -> Result<(Vec<Vec<u8>>, Vec<Error>)> {
        Ok((self.list_xattrs(inode)?, Vec::new()))
    }

    /// Blocks of [`data_blocks`](Self::data_blocks), each with its position on flash. The inode itself is not read.
    ///
    /// # Errors
    /// The positions cannot be determined.
    fn stored_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, NodePos)>> {
        let blocks = self.data_blocks(inode, block, max)?;
        Ok(blocks.into_iter().map(|block| (block, NodePos::default())).collect())
    }

    /// Reads a block found by [`stored_blocks`](Self::stored_blocks), padded with zeros.
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

    /// Reads a block of an encrypted file. `decrypt` receives the number and the bytes of each of its data units. A hole, and bytes after the
    /// end of the file, read as zeros.
    ///
    /// # Errors
    /// Damage; a filesystem without encryption.
    fn read_encrypted(
        &mut self,
        inode: u32,
        block: u32,
        decrypt: &mut Units<'_>,
        out: &mut [u8; BLOCK_BYTES],
    ) -> Result<()> {
        let _ = (inode, block, decrypt, out);
        Err(Error::Unsupported("encrypted files"))
    }

    /// UUID of a filesystem whose inodes keep their numbers. Keys and IVs of encrypted files can follow from both.
    fn encryption_uuid(&self) -> Option<[u8; 16]> {
        None
    }

    /// Reason for which an encrypted file is not decrypted, where keys were given.
    fn why_encrypted(&mut self, inode: u32) -> Option<String> {
        let _ = inode;
        None
    }

    /// Stored bytes of a symbolic link; for an encrypted link, the encrypted bytes.
    ///
    /// # Errors
    /// The errors of [`read_link`](Self::read_link).
    fn stored_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        self.read_link(inode)
    }

    /// Creates a file of any type and returns its inode.
    ///
    /// # Errors
    /// The name exists or is invalid; not a directory; no space; read-only; device failures. The same applies to all
    /// methods that change the filesystem.
    fn create(&mut self, directory: u32, name: &[u8], file: &NewFile<'_>) -> Result<u32> {
        let _ = (directory, name, file);
        Err(Error::ReadOnly)
    }

    /// Creates an open file without a name (`O_TMPFILE`), with flags inherited from a directory.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create).
    fn create_unnamed(&mut self, directory: u32, file: &NewFile<'_>) -> Result<u32> {
        let _ = (directory, file);
        Err(Error::Unsupported("files without a name"))
    }

    /// Creates another link to a file.
    ///
    /// # Errors
    /// The name exists; the file is a directory.
    fn link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        let _ = (inode, directory, name);
        Err(Error::Unsupported("links"))
    }

    /// Removes a name of a file that is not a directory.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::IsDirectory`].
    fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        let _ = (directory, name);
        Err(Error::ReadOnly)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Error::NotFound`]; not a directory; not empty.
    fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        let _ = (directory, name);
        Err(Error::ReadOnly)
    }

    /// Renames or moves a file atomically.
    ///
    /// # Errors
    /// [`Error::NotFound`]; a target that cannot be replaced; a directory moved below itself.
    fn rename(&mut self, from: Name<'_>, to: Name<'_>, how: Rename) -> Result<()> {
        let _ = (from, to, how);
        Err(Error::Unsupported("renaming"))
    }

    /// Writes to a regular file. The data may stay in memory until [`fsync`](Self::fsync).
    ///
    /// # Errors
    /// Not a regular file; too large; no space.
    fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        let _ = (inode, offset, data);
        Err(Error::ReadOnly)
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// No space; an attribute that the filesystem does not support.
    fn set_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        let _ = (inode, changes);
        Err(Error::Unsupported("changes of attributes"))
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// The condition `how` is not met; too large; no space.
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

    /// Opens a file. An open file exists even without a name.
    ///
    /// # Errors
    /// The inode does not exist.
    fn open(&mut self, inode: u32) -> Result<()> {
        let _ = inode;
        Ok(())
    }

    /// Closes a file; called once for each `open`.
    ///
    /// # Errors
    /// The file was deleted while open, and its removal cannot be written.
    fn close(&mut self, inode: u32) -> Result<()> {
        let _ = inode;
        Ok(())
    }

    /// Writes the pending data of one inode to the filesystem's own buffers, like Linux's write-back of old or numerous
    /// dirty pages. A power loss may still lose it.
    ///
    /// # Errors
    /// The errors of [`fsync`](Self::fsync).
    fn write_back(&mut self, inode: u32) -> Result<()> {
        self.fsync(inode)
    }

    /// Writes all changes of one inode to flash (`fsync`).
    ///
    /// # Errors
    /// No space; device failures.
    fn fsync(&mut self, inode: u32) -> Result<()>;

    /// Writes all changes to flash (`sync`).
    ///
    /// # Errors
    /// No space; device failures.
    fn sync(&mut self) -> Result<()>;

    /// Completes a change of an image: as [`sync`](Self::sync), and verifies that the filesystem can be mounted and all
    /// files can be deleted.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if that is impossible: the caller must discard the change.
    fn end_change(&mut self) -> Result<()> {
        self.sync()
    }

    /// Writes all changes and ends the mount.
    ///
    /// # Errors
    /// The errors of [`sync`](Self::sync).
    fn unmount(self: Box<Self>) -> Result<()>;

    /// Adds a file of any type to a directory of a filesystem that is being built, keeping all times, and returns its
    /// inode. The data of a regular file follows with [`fill_blocks`](Self::fill_blocks); blocks that are not written
    /// are holes.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create).
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

    /// Creates another link to a file added with [`fill`](Self::fill). All times stay.
    ///
    /// # Errors
    /// The errors of [`link`](Self::link).
    fn fill_link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        let (before, file) = (self.attributes(directory)?.times(), self.attributes(inode)?.times());
        self.link(inode, directory, name)?;
        self.set_attributes(directory, &before)?;
        self.set_attributes(inode, &file)
    }

    /// Sets attributes of a file added with [`fill`](Self::fill).
    ///
    /// # Errors
    /// The errors of [`set_attributes`](Self::set_attributes).
    fn fill_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        self.set_attributes(inode, changes)
    }

    /// Writes blocks of a file added with [`fill`](Self::fill), each inside its size and at most once. The times stay.
    ///
    /// # Errors
    /// A compression that the filesystem does not support; no space.
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
