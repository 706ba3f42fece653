//! Files as callers of any filesystem see them.

pub use floatgate_media::file::{Compression, DeviceNumber, FileFlags, FileType, Timestamp};

/// Attributes of a file: those of `stat`, flags and compression.
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
    /// Size in bytes; for a directory, a value chosen by the filesystem.
    pub size: u64,
    /// Time of the last read; most flash filesystems do not update it.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Device number of a device file.
    pub device: Option<DeviceNumber>,
    /// Flags of the inode.
    pub flags: FileFlags,
    /// Compression of new data, if the flags ask for it.
    pub compression: Compression,
    /// Number of extended attributes.
    pub xattr_count: u32,
}

/// Kinds of attributes that a filesystem can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// True if it stores flags of inodes.
    pub flags: bool,
    /// True if it stores times with a resolution below one second.
    pub nanoseconds: bool,
    /// True if it stores POSIX ACLs, as the attributes [`ACL_ACCESS`](super::ACL_ACCESS) and
    /// [`ACL_DEFAULT`](super::ACL_DEFAULT).
    pub acls: bool,
}

/// Namespaces of extended attributes that every filesystem supports.
const XATTR_NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

impl Holds {
    /// True for a valid name of an extended attribute of a file.
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
    /// Changes that restore the current timestamps.
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

/// Attributes to change; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChanges {
    /// Permissions; the type does not change.
    pub permissions: Option<u32>,
    /// New owner: user id.
    pub uid: Option<u32>,
    /// New owner: group id.
    pub gid: Option<u32>,
    /// Size in bytes: truncates the file or extends it by a hole.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<Timestamp>,
    /// Last change of the data.
    pub mtime: Option<Timestamp>,
    /// Last change of the inode; by default the filesystem's time.
    pub ctime: Option<Timestamp>,
    /// Compression, sync, immutable, append-only, dirsync; other flags do not change.
    pub flags: Option<FileFlags>,
    /// Compression of new data.
    pub compression: Option<Compression>,
}

/// Type of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewKind<'a> {
    /// A regular file.
    Regular,
    /// Directory that contains names.
    Directory,
    /// A symbolic link with its target, 1 to 4095 bytes.
    Symlink(&'a [u8]),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A character device.
    CharacterDevice(DeviceNumber),
    /// A named pipe.
    Fifo,
    /// Unix domain socket.
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

/// A file to be created.
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
    /// Name: bytes except slash and zero; any bytes in an encrypted directory.
    pub name: Vec<u8>,
    /// Inode number of the file.
    pub inode: u32,
    /// Type of the file.
    pub file_type: FileType,
    /// True if the name is encrypted, like all names in its directory.
    pub encrypted: bool,
    /// Position of the entry in its directory in the filesystem's own units (POSIX: telldir).
    pub position: u64,
}

/// Behaviour when a file is renamed onto an existing name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rename {
    /// Replaces a file of that name.
    #[default]
    Replace,
    /// Returns an error if the name exists.
    KeepTarget,
    /// Exchanges the two names.
    Exchange,
    /// Replaces a file of that name, and leaves a whiteout (a character device 0:0) under the old name.
    Whiteout,
}

/// Condition for setting an extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// It may exist or not.
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
    /// Inode of the directory.
    pub directory: u32,
    /// Name in the directory.
    pub name: &'a [u8],
}

/// A file to be added to a new filesystem, without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledFile<'a> {
    /// Type, permissions and owner of the file.
    pub file: NewFile<'a>,
    /// Size of a regular file, bytes. For a device file, 0 stores the size 0, as `mkfs.ubifs` does; with any other
    /// value the filesystem chooses the size.
    pub size: u64,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Sync, immutable, append-only, dirsync, and compressed if `compression` is given.
    pub flags: FileFlags,
    /// Compression of data that is written later, if the flags say that it is compressed; by default the directory's.
    pub compression: Option<Compression>,
    /// Extended attributes with their prefixes; names are unique.
    pub xattrs: &'a [(Vec<u8>, Vec<u8>)],
}

/// A block that the caller has already compressed, so that many can be compressed in parallel.
#[derive(Clone, Copy, Debug)]
pub struct CompressedBlock<'a> {
    /// Number of the block in the file.
    pub block: u32,
    /// Bytes before compression, 1 to 4096.
    pub size: u32,
    /// Compression of the data.
    pub compression: Compression,
    /// Compressed data.
    pub data: &'a [u8],
}

/// Size and free space of a filesystem in blocks of 4 KiB (Linux: `statfs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Total number of blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Free blocks without reserved ones.
    pub available_blocks: u64,
}

/// Position of a node on flash; zero in a filesystem without such positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePos {
    /// LEB number (Linux: lnum).
    pub lnum: u32,
    /// Offset in the LEB, bytes (Linux: offs).
    pub offset: u32,
    /// Length in bytes without padding; 0 for no node.
    pub len: u32,
}
