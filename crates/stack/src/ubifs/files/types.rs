//! What callers see of files.

use floatgate_media::ubifs::{Compression, DeviceNumber, FileType, Inode, InodeFlags, Key, Timestamp};

/// The attributes of a file, as `stat` has them and a little more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Inode number.
    pub inode: u32,
    /// Type of the file.
    pub file_type: FileType,
    /// Type and permissions, as in POSIX.
    pub mode: u32,
    /// Number of names (links).
    pub links: u32,
    /// Owner: user id.
    pub uid: u32,
    /// Owner: group id.
    pub gid: u32,
    /// Bytes; of a directory 160 and what its entries take on flash.
    pub size: u64,
    /// Last read, not kept up by UBIFS.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Of a device file.
    pub device: Option<DeviceNumber>,
    /// Flags of the inode.
    pub flags: InodeFlags,
    /// Compression of new data, if the flags ask for it.
    pub compression: Compression,
    /// Extended attributes.
    pub xattr_count: u32,
}

impl Attributes {
    pub(crate) fn new(inode: &Inode, file_type: FileType, data: &[u8]) -> Self {
        let is_device = matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice);
        Self {
            inode: inode.key.inum(),
            file_type,
            mode: inode.mode,
            links: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            size: inode.size,
            atime: inode.atime(),
            mtime: inode.mtime(),
            ctime: inode.ctime(),
            device: if is_device { DeviceNumber::parse(data) } else { None },
            flags: inode.flags,
            compression: inode.compression,
            xattr_count: inode.xattr_count,
        }
    }

    /// True when names or data are encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.flags.contains(InodeFlags::ENCRYPTED)
    }
}

/// Attributes to change; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChanges {
    /// Permissions; the type stays.
    pub permissions: Option<u32>,
    /// New owner: user id.
    pub uid: Option<u32>,
    /// New owner: group id.
    pub gid: Option<u32>,
    /// Bytes: cuts the file or lets it grow by a hole.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<Timestamp>,
    /// Last change of the data.
    pub mtime: Option<Timestamp>,
    /// Last change of the inode; the filesystem's time unless given.
    pub ctime: Option<Timestamp>,
    /// Compression, sync, immutable, append-only, dirsync; other flags stay.
    pub flags: Option<InodeFlags>,
    /// Compression of new data.
    pub compression: Option<Compression>,
}

/// Type of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewKind<'a> {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link with its target, 1 to 4095 bytes.
    Symlink(&'a [u8]),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A character device.
    CharacterDevice(DeviceNumber),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl NewKind<'_> {
    /// The type in a POSIX mode.
    pub(super) const fn mode(&self) -> u32 {
        match self {
            Self::Regular => 0o100_000,
            Self::Directory => 0o040_000,
            Self::Symlink(_) => 0o120_000,
            Self::BlockDevice(_) => 0o060_000,
            Self::CharacterDevice(_) => 0o020_000,
            Self::Fifo => 0o010_000,
            Self::Socket => 0o140_000,
        }
    }
}

/// A file to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile<'a> {
    /// Type of the file.
    pub kind: NewKind<'a>,
    /// Permission bits, 0 to 0o7777.
    pub permissions: u32,
    /// Owner: user id.
    pub uid: u32,
    /// Owner: group id.
    pub gid: u32,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name: any bytes but a slash and zero; in an encrypted directory any bytes at all.
    pub name: Vec<u8>,
    /// Inode number of the file.
    pub inode: u32,
    /// The type of that.
    pub file_type: FileType,
    /// The name is encrypted, as all names in its directory.
    pub encrypted: bool,
    pub(super) key: Key,
}

/// Behaviour when a file is renamed onto an existing name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rename {
    /// A file of that name is replaced.
    #[default]
    Replace,
    /// A file of that name is an error.
    KeepTarget,
    /// The two names change places.
    Exchange,
    /// As [`Replace`](Self::Replace), and a whiteout (a character device 0:0) takes the old name.
    Whiteout,
}

/// Condition on an extended attribute that is set: it may exist, must exist or must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// Either.
    #[default]
    Any,
    /// It must not exist.
    Create,
    /// It must exist.
    Replace,
}
