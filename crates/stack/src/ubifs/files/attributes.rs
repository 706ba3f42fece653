//! Changing attributes.

use floatgate_media::file::{FileFlags, FileType, Timestamp};
use floatgate_media::ubifs::Inode;

use super::super::error::{Error, Result};
use super::Ubifs;
use super::inodes::file_type;
use crate::fs::AttributeChanges;
use crate::volume::Volume;

/// Flags that callers can set; the others belong to the filesystem.
const SETTABLE: u32 = FileFlags::COMPRESS.bits()
    | FileFlags::SYNC.bits()
    | FileFlags::IMMUTABLE.bits()
    | FileFlags::APPEND.bits()
    | FileFlags::DIRSYNC.bits();

impl Ubifs<dyn Volume> {
    /// Changes attributes of an inode. Like all changes it stays in memory first, except for a truncation.
    ///
    /// # Errors
    /// A size for a file that is not regular, too large, flags that forbid it, no space; volume failures.
    pub fn set_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        self.require_writable()?;
        self.check_change(inode, changes)?;
        if let Some(size) = changes.size {
            self.set_size(inode, size)?;
        }
        let time = self.time;
        let cached = self.mark_dirty(inode)?;
        set_ctime(&mut cached.inode, changes.ctime.unwrap_or(time));
        apply(&mut cached.inode, changes);
        let sync = self.behaviour.sync || self.inode(inode)?.inode.flags.contains(FileFlags::SYNC);
        if sync { self.fsync(inode) } else { Ok(()) }
    }

    fn check_change(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        let inode = &self.inode(inode)?.inode;
        // The flags of an immutable inode may change, because otherwise it could never become writable
        // again.
        let only_flags = AttributeChanges { flags: changes.flags, ..AttributeChanges::default() } == *changes;
        if inode.flags.contains(FileFlags::IMMUTABLE) && !only_flags {
            return Err(Error::NotPermitted);
        }
        let directory = file_type(inode)? == FileType::Directory;
        let dirsync = changes.flags.is_some_and(|flags| flags.contains(FileFlags::DIRSYNC));
        if dirsync && !directory {
            return Err(Error::Invalid("dirsync is for directories"));
        }
        Ok(())
    }
}

fn apply(inode: &mut Inode, changes: &AttributeChanges) {
    if let Some(permissions) = changes.permissions {
        inode.mode = inode.mode & !0o7777 | permissions & 0o7777;
    }
    inode.uid = changes.uid.unwrap_or(inode.uid);
    inode.gid = changes.gid.unwrap_or(inode.gid);
    inode.compression = changes.compression.unwrap_or(inode.compression);
    if let Some(time) = changes.atime {
        (inode.atime_s, inode.atime_ns) = (time.seconds, time.nanoseconds);
    }
    if let Some(time) = changes.mtime {
        (inode.mtime_s, inode.mtime_ns) = (time.seconds, time.nanoseconds);
    }
    if let Some(flags) = changes.flags {
        inode.flags = FileFlags::from_bits(inode.flags.bits() & !SETTABLE | flags.bits() & SETTABLE);
    }
}

/// Sets the time of the last change of an inode.
pub(super) const fn set_ctime(inode: &mut Inode, time: Timestamp) {
    inode.ctime_s = time.seconds;
    inode.ctime_ns = time.nanoseconds;
}
