//! Files as callers see them, whatever the filesystem.

pub use floatgate_media::file::{Compression, DeviceNumber, FileFlags, FileType, Timestamp};

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
    /// Bytes; those of a directory are counted as the filesystem likes.
    pub size: u64,
    /// Last read; most filesystems of flash do not keep it up.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Of a device file.
    pub device: Option<DeviceNumber>,
    /// Flags of the inode.
    pub flags: FileFlags,
    /// Compression of new data, if the flags ask for it.
    pub compression: Compression,
    /// Extended attributes.
    pub xattr_count: u32,
}

/// Kinds of attributes that a filesystem can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Flags of inodes.
    pub flags: bool,
    /// Parts of seconds in times.
    pub nanoseconds: bool,
    /// POSIX ACLs, as the attributes [`ACL_ACCESS`](super::ACL_ACCESS) and [`ACL_DEFAULT`](super::ACL_DEFAULT).
    pub acls: bool,
}

/// Namespaces of attributes that every filesystem here has.
const XATTR_NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

impl Holds {
    /// True for the name of an extended attribute that a file can have.
    #[must_use]
    pub fn xattr(&self, name: &[u8]) -> bool {
        let has_namespace = |namespace: &&[u8]| name.len() > namespace.len() && name.starts_with(namespace);
        XATTR_NAMESPACES.iter().any(has_namespace) || self.acls && super::is_acl(name)
    }
}

impl Default for Holds {
    fn default() -> Self {
        Self { flags: true, nanoseconds: true, acls: false }
    }
}

impl Attributes {
    /// Changes that bring the times of changes back to what they are here.
    #[must_use]
    pub fn times(&self) -> AttributeChanges {
        AttributeChanges { mtime: Some(self.mtime), ctime: Some(self.ctime), ..AttributeChanges::default() }
    }

    /// True when names or data are encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.flags.contains(FileFlags::ENCRYPTED)
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
    pub flags: Option<FileFlags>,
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
    #[must_use]
    pub const fn mode(&self) -> u32 {
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
    /// Position of the entry in its directory, as the filesystem counts (POSIX: telldir).
    pub position: u64,
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

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The directory.
    pub directory: u32,
    /// The name in it.
    pub name: &'a [u8],
}

/// A file that goes into a new filesystem, complete but for its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledFile<'a> {
    /// Type, permissions and owner of the file.
    pub file: NewFile<'a>,
    /// Bytes of a regular file. A device with 0 has no size, as `mkfs.ubifs` makes it; others have their own.
    pub size: u64,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Sync, immutable, append-only, dirsync, and compressed if `compression` is given.
    pub flags: FileFlags,
    /// Compression of data that are written later, if the flags say that they are compressed; that of its directory unless given.
    pub compression: Option<Compression>,
    /// Extended attributes with their prefixes, no name twice.
    pub xattrs: &'a [(Vec<u8>, Vec<u8>)],
}

/// A block that its owner compressed already, for writing many on several cores.
#[derive(Clone, Copy, Debug)]
pub struct CompressedBlock<'a> {
    /// Block of the file.
    pub block: u32,
    /// Bytes before compression, 1 to 4096.
    pub size: u32,
    /// Compression of the data.
    pub compression: Compression,
    /// The bytes after compression.
    pub data: &'a [u8],
}

/// Size of a filesystem as it reports it, in blocks of 4 KiB. Linux: `statfs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Free blocks without those reserved.
    pub available_blocks: u64,
}

/// Position of a node on flash, as the filesystem counts; one that has no such positions leaves it zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePos {
    /// LEB number (Linux: lnum).
    pub lnum: u32,
    /// Offset in the LEB, bytes (Linux: offs).
    pub offset: u32,
    /// Length in bytes, without alignment; 0 for no node.
    pub len: u32,
}
