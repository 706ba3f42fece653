//! Creation of files, and reads of directories.

use floatgate_stack::fs::{Attributes, DeviceNumber, DirEntry, Error, FileType, NewFile, NewKind};
use rustix::io::Errno;

use super::{Answer, Handler, number};

/// Set-group-ID: new files in such a directory get its group.
const SET_GROUP_ID: u32 = 0o2000;

/// Number of entries that are read from the filesystem together.
const BATCH: usize = 256;

/// A file to create, as in `mknod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNode<'a> {
    /// Inode number of the parent directory.
    pub directory: u32,
    /// Name in this directory.
    pub name: &'a [u8],
    /// Type and permissions, as in POSIX.
    pub mode: u32,
    /// Device number in the kernel's 32-bit form; used only for devices.
    pub device: u32,
    /// User who creates the file.
    pub uid: u32,
    /// Group of the user who creates the file.
    pub gid: u32,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed<'l> {
    /// Inode number of the file.
    pub inode: u32,
    /// Type of the file.
    pub file_type: FileType,
    /// Name of the entry.
    pub name: &'l [u8],
    /// Offset at which the next read of the directory continues.
    pub next: u64,
}

/// Major and minor number of a device number in the kernel's 32-bit form.
pub(in crate::mount) const fn unpack_device(device: u32) -> DeviceNumber {
    DeviceNumber { major: device >> 8 & 0xFFF, minor: device & 0xFF | device >> 12 & 0xF_FF00 }
}

/// Device number in the kernel's 32-bit form. Numbers that are too large lose their highest bits.
pub(in crate::mount) const fn pack_device(device: DeviceNumber) -> u32 {
    device.minor & 0xFF | (device.major & 0xFFF) << 8 | (device.minor & 0xF_FF00) << 12
}

impl Handler {
    /// Creates a file of any type except a symbolic link.
    ///
    /// # Errors
    /// The name exists, or there is no space.
    pub fn make(&mut self, node: &NewNode<'_>) -> Answer<Attributes> {
        let kind = match node.mode & 0o170_000 {
            0o100_000 | 0 => NewKind::Regular,
            0o040_000 => NewKind::Directory,
            0o060_000 => NewKind::BlockDevice(unpack_device(node.device)),
            0o020_000 => NewKind::CharacterDevice(unpack_device(node.device)),
            0o010_000 => NewKind::Fifo,
            0o140_000 => NewKind::Socket,
            _ => return Err(Errno::INVAL),
        };
        self.create(node, kind)
    }

    /// Creates a symbolic link; the mode of `node` is ignored.
    ///
    /// # Errors
    /// The name exists, the target is empty or too long, or there is no space.
    pub fn symlink(&mut self, node: &NewNode<'_>, target: &[u8]) -> Answer<Attributes> {
        let node = NewNode { mode: 0o777, ..*node };
        self.create(&node, NewKind::Symlink(target))
    }

    fn create(&mut self, node: &NewNode<'_>, kind: NewKind<'_>) -> Answer<Attributes> {
        let parent = self.attributes(node.directory)?;
        let inherits = parent.mode & SET_GROUP_ID != 0;
        let gid = if inherits { parent.gid } else { node.gid };
        let is_directory = matches!(kind, NewKind::Directory);
        let special = if inherits && is_directory { SET_GROUP_ID } else { 0 };
        let file = NewFile { kind, permissions: node.mode & 0o7777 | special, uid: node.uid, gid };
        let inode = match self.changing().create(node.directory, node.name, &file) {
            Err(Error::TooLarge { .. }) => return Err(Errno::NAMETOOLONG),
            outcome => outcome.map_err(number)?,
        };
        let attributes = self.attributes(inode)?;
        self.note_parent(&attributes, node.directory);
        Ok(attributes)
    }

    /// Opens a directory. Returns a handle for reading it.
    ///
    /// # Errors
    /// Not a directory, or damage.
    pub fn open_dir(&mut self, inode: u32) -> Answer<u64> {
        if self.attributes(inode)?.file_type != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        self.fs.open(inode).map_err(number)?;
        let handle = self.next_handle;
        self.next_handle += 1;
        self.listings.insert(handle, None);
        Ok(handle)
    }

    /// Closes a directory.
    ///
    /// # Errors
    /// Failures of the volume, if the directory was removed while it was open.
    pub fn close_dir(&mut self, inode: u32, handle: u64) -> Answer<()> {
        self.listings.remove(&handle);
        self.fs.close(inode).map_err(number)
    }

    fn read_all(&mut self, inode: u32) -> Answer<Vec<DirEntry>> {
        let mut entries: Vec<DirEntry> = Vec::new();
        loop {
            match self.fs.read_dir(inode, entries.last(), BATCH) {
                Ok(more) if more.is_empty() => return Ok(entries),
                Ok(more) => entries.extend(more),
                // The readable part of a damaged directory is better than an error.
                Err(error) if error.is_damage() && self.fs.is_read_only() && !entries.is_empty() => {
                    return Ok(entries);
                }
                Err(error) => return Err(number(error)),
            }
        }
    }

    /// Passes entries from an offset on to `take`, including `.` and `..`, until `take` returns true. At the start,
    /// the directory is read again. Later entries are those of that time, even if files were created or removed
    /// since.
    ///
    /// # Errors
    /// A handle that is not open, or damage.
    pub fn list(
        &mut self,
        inode: u32,
        handle: u64,
        from: u64,
        take: &mut dyn FnMut(&mut Self, Listed<'_>) -> bool,
    ) -> Answer<()> {
        // The list is removed during the call, so that `take` can use the filesystem.
        let listing = self.listings.get_mut(&handle).ok_or(Errno::BADF)?.take();
        let listing = match listing.filter(|_| from > 0) {
            Some(listing) => listing,
            None => self.read_all(inode)?,
        };
        let parent = self.parents.get(&inode).copied().unwrap_or(self.fs.root());
        let dots = [(inode, &b"."[..]), (parent, b"..")];
        let dots = dots.into_iter().map(|(inode, name)| (inode, FileType::Directory, name));
        // Encrypted names can contain any bytes. A single impossible name would make the kernel refuse the whole
        // directory.
        let possible =
            listing.iter().filter(|entry| !entry.name.iter().any(|&byte| byte == 0 || byte == b'/'));
        let entries = possible.map(|entry| (entry.inode, entry.file_type, entry.name.as_slice()));
        let skipped = usize::try_from(from).unwrap_or(usize::MAX);
        for (next, (inode, file_type, name)) in (1u64..).zip(dots.chain(entries)).skip(skipped) {
            if take(self, Listed { inode, file_type, name, next }) {
                break;
            }
        }
        self.listings.insert(handle, Some(listing));
        Ok(())
    }
}
