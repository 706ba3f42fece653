//! Requests of the kernel, as methods on a filesystem.

mod directories;
mod files;
mod xattrs;

pub(super) use directories::pack_device;
#[cfg(test)]
pub(super) use directories::unpack_device;
pub use directories::{Listed, NewNode};
pub use files::Times;

use std::collections::BTreeMap;

use floatgate_stack::fs::{Attributes, DirEntry, Error, FileSystem, FileType, Rename, Space, Timestamp};
use rustix::io::Errno;

use super::errno;
use crate::image::ImageFs;

/// Result of an operation.
pub type Answer<T> = Result<T, Errno>;

/// `renameat2`: an existing file is not replaced.
const RENAME_NOREPLACE: u32 = 1;
/// `renameat2`: two names are exchanged.
const RENAME_EXCHANGE: u32 = 2;
/// `renameat2`: a whiteout replaces the old name.
const RENAME_WHITEOUT: u32 = 4;

/// A filesystem that answers requests of the kernel.
pub struct Handler {
    fs: ImageFs,
    clock: fn() -> Timestamp,
    /// Open directories, with their contents at the last read from the start.
    listings: BTreeMap<u64, Option<Vec<DirEntry>>>,
    next_handle: u64,
    /// Parent directories of the directories that the kernel has seen, by inode number.
    parents: BTreeMap<u32, u32>,
    /// True if a change may not be on flash yet.
    changed: bool,
}

impl Handler {
    /// Handler for a mounted filesystem; `clock` returns the time of changes.
    pub fn new(fs: ImageFs, clock: fn() -> Timestamp) -> Self {
        let (listings, parents) = (BTreeMap::new(), BTreeMap::new());
        Self { fs, clock, listings, next_handle: 1, parents, changed: false }
    }

    /// Returns the filesystem.
    pub fn into_fs(self) -> ImageFs {
        self.fs
    }

    /// Failure after which the filesystem can no longer be changed.
    pub fn failure(&self) -> Option<Error> {
        self.fs.failure()
    }

    /// Writes changes to flash.
    pub fn write_back(&mut self) {
        if std::mem::take(&mut self.changed) {
            // The next change reports a failure, because the filesystem is then read-only.
            let _ = self.fs.sync();
        }
    }

    /// Filesystem for a change, which is recorded.
    fn changing(&mut self) -> &mut dyn FileSystem {
        self.changed = true;
        self.fs.set_time((self.clock)());
        &mut *self.fs
    }

    /// Attributes of a file.
    ///
    /// # Errors
    /// Error numbers of the host, as in all methods here.
    pub fn attributes(&mut self, inode: u32) -> Answer<Attributes> {
        self.fs.attributes(inode).map_err(number)
    }

    /// File with this name.
    ///
    /// # Errors
    /// There is no such name.
    pub fn lookup(&mut self, directory: u32, name: &[u8]) -> Answer<Attributes> {
        let inode = self.fs.lookup(directory, name).map_err(number)?;
        self.listed(directory, inode)
    }

    /// Attributes of an inode in a listing of its directory.
    ///
    /// # Errors
    /// Damage.
    pub fn listed(&mut self, directory: u32, inode: u32) -> Answer<Attributes> {
        let attributes = self.attributes(inode)?;
        self.note_parent(&attributes, directory);
        Ok(attributes)
    }

    fn note_parent(&mut self, attributes: &Attributes, directory: u32) {
        if attributes.file_type == FileType::Directory {
            self.parents.insert(attributes.inode, directory);
        }
    }

    /// Removes a name, unless it belongs to a directory.
    ///
    /// # Errors
    /// There is no such name, or it is a directory.
    pub fn unlink(&mut self, directory: u32, name: &[u8]) -> Answer<()> {
        self.changing().unlink(directory, name).map_err(number)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// There is no such name, or the directory is not empty.
    pub fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Answer<()> {
        self.changing().remove_dir(directory, name).map_err(number)
    }

    /// Creates another name for a file.
    ///
    /// # Errors
    /// The name exists, or the file is a directory.
    pub fn link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Answer<Attributes> {
        match self.changing().link(inode, directory, name) {
            // Error number that POSIX requires.
            Err(Error::IsDirectory) => return Err(Errno::PERM),
            outcome => outcome.map_err(number)?,
        }
        self.attributes(inode)
    }

    /// Renames a file, with the flags of `renameat2`.
    ///
    /// # Errors
    /// The errors of the system call `renameat2`.
    pub fn rename(&mut self, from: (u32, &[u8]), to: (u32, &[u8]), flags: u32) -> Answer<()> {
        let how = match flags {
            0 => Rename::Replace,
            RENAME_NOREPLACE => Rename::KeepTarget,
            RENAME_EXCHANGE => Rename::Exchange,
            RENAME_WHITEOUT => Rename::Whiteout,
            _ => return Err(Errno::INVAL),
        };
        let name = |(directory, name)| floatgate_stack::fs::Name { directory, name };
        self.changing().rename(name(from), name(to), how).map_err(number)?;
        for (directory, name) in [from, to] {
            if let Ok(inode) = self.fs.lookup(directory, name)
                && let Ok(attributes) = self.attributes(inode)
            {
                self.note_parent(&attributes, directory);
            }
        }
        Ok(())
    }

    /// Sizes of the filesystem (statfs).
    pub fn space(&self) -> Space {
        self.fs.space()
    }
}

/// Number of an error.
fn number(error: Error) -> Errno {
    errno(&error)
}
