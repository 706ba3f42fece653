//! New files, and what directories hold.

use floatgate_stack::fs::{Attributes, DeviceNumber, DirEntry, Error, FileType, NewFile, NewKind};
use rustix::io::Errno;

use super::{Answer, Handler, number};

/// Set-group-id: what is made in such a directory has its group.
const SET_GROUP_ID: u32 = 0o2000;

/// Entries that are read from the filesystem together.
const BATCH: usize = 256;

/// A file to be made, as `mknod` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNode<'a> {
    /// Inode number of the parent directory.
    pub directory: u32,
    /// The name in it.
    pub name: &'a [u8],
    /// Type and permissions, as in POSIX.
    pub mode: u32,
    /// Number of a device as the kernel packs it into 32 bits; only devices use it.
    pub device: u32,
    /// User who creates the entry.
    pub uid: u32,
    /// Group of who makes it.
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

/// Major and minor number from the 32 bits that the kernel packs them into.
pub(in crate::mount) const fn unpack_device(device: u32) -> DeviceNumber {
    DeviceNumber { major: device >> 8 & 0xFFF, minor: device & 0xFF | device >> 12 & 0xF_FF00 }
}

/// The other way round. Larger numbers than the kernel has lose their highest bits.
pub(in crate::mount) const fn pack_device(device: DeviceNumber) -> u32 {
    device.minor & 0xFF | (device.major & 0xFFF) << 8 | (device.minor & 0xF_FF00) << 12
}

impl Handler {
    /// Makes a file of any kind but a symbolic link.
    ///
    /// # Errors
    /// The name exists; no space.
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

    /// Makes a symbolic link; the mode of `node` does not count.
    ///
    /// # Errors
    /// The name exists; a target that is empty or too long; no space.
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

    /// Opens a directory; returns a handle to read it with.
    ///
    /// # Errors
    /// Not a directory, damage.
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
    /// Failures of the volume, if it was removed meanwhile.
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
                // What can be read of a damaged directory is better than nothing.
                Err(error) if error.is_damage() && self.fs.is_read_only() && !entries.is_empty() => {
                    return Ok(entries);
                }
                Err(error) => return Err(number(error)),
            }
        }
    }

    /// Entries from a place on, `.` and `..` among them, until `take` has had enough (and returns true). From the start, the
    /// directory is read anew; later entries are those of then, whatever was made and removed since.
    ///
    /// # Errors
    /// A handle that is not open; damage.
    pub fn list(
        &mut self,
        inode: u32,
        handle: u64,
        from: u64,
        take: &mut dyn FnMut(&mut Self, Listed<'_>) -> bool,
    ) -> Answer<()> {
        // Taken out meanwhile, so that `take` can look into the filesystem.
        let listing = self.listings.get_mut(&handle).ok_or(Errno::BADF)?.take();
        let listing = match listing.filter(|_| from > 0) {
            Some(listing) => listing,
            None => self.read_all(inode)?,
        };
        let parent = self.parents.get(&inode).copied().unwrap_or(self.fs.root());
        let dots = [(inode, &b"."[..]), (parent, b"..")];
        let dots = dots.into_iter().map(|(inode, name)| (inode, FileType::Directory, name));
        // Encrypted names can have any bytes in them; one such would make the kernel refuse the whole directory.
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
