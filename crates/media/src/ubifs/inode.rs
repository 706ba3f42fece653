//! Inode nodes, with the attributes of a file: `docs/spec/ubifs.md#inode-node`.

use super::header::{Frame, NodeBody, NodeType};
use super::key::{Key, KeyType};
use super::{MAX_FILE_BYTES, MAX_INODE_DATA};
use crate::error::{MediaError, Reason, require};
use crate::file::Compression;
use crate::file::{FileFlags, FileType, Timestamp};
use crate::wire::{Wire, layout, store};

const KEY_AT: usize = 24;
const SIZE_AT: usize = 48;
const MODE_AT: usize = 104;
const DATA_LEN_AT: usize = 112;
const XATTR_NAMES_AT: usize = 128;
const COMPRESSION_AT: usize = 132;

/// Maximum length of the list of attribute names that `listxattr` returns, bytes (Linux:
/// XATTR_LIST_MAX).
const MAX_XATTR_LIST: u64 = 65536;

layout! {
    /// Fixed fields of an inode node, without its attached data.
    pub struct Inode[160] {
        /// Key of the node, which contains the inode number.
        24 => key: Key,
        /// Sequence number at the creation of the inode.
        40 => created_sqnum: u64,
        /// Size of the file before compression, bytes.
        48 => size: u64,
        /// Time of the last read, seconds since 1970.
        56 => atime_s: i64,
        /// Time of the last change of the inode, seconds since 1970.
        64 => ctime_s: i64,
        /// Time of the last change of the data, seconds since 1970.
        72 => mtime_s: i64,
        /// Time of the last read, nanoseconds after the second.
        80 => atime_ns: u32,
        /// Time of the last change of the inode, nanoseconds after the second.
        84 => ctime_ns: u32,
        /// Time of the last change of the data, nanoseconds after the second.
        88 => mtime_ns: u32,
        /// Number of hard links; 0 if the inode is being deleted.
        92 => links: u32,
        /// User id of the owner.
        96 => uid: u32,
        /// Group id of the file.
        100 => gid: u32,
        /// Type and permissions, as in POSIX.
        104 => mode: u32,
        /// Flags of the inode (Linux: `chattr`).
        108 => flags: FileFlags,
        /// Size of the attached data, bytes. A deleted inode retains this size without the data.
        112 => data_len: u32,
        /// Number of extended attributes.
        116 => xattr_count: u32,
        /// Size of the extended attributes on flash, B.
        120 => xattr_bytes: u32,
        /// Size of the attribute names, B.
        128 => xattr_names_bytes: u32,
        /// Compression of new data; existing data may be compressed otherwise.
        132 => compression: Compression,
    }
}

impl Inode {
    /// Time of the last read.
    #[must_use]
    pub const fn atime(&self) -> Timestamp {
        Timestamp { seconds: self.atime_s, nanoseconds: self.atime_ns }
    }

    /// Time of the last change of the inode.
    #[must_use]
    pub const fn ctime(&self) -> Timestamp {
        Timestamp { seconds: self.ctime_s, nanoseconds: self.ctime_ns }
    }

    /// Time of the last change of the data.
    #[must_use]
    pub const fn mtime(&self) -> Timestamp {
        Timestamp { seconds: self.mtime_s, nanoseconds: self.mtime_ns }
    }

    /// Type of the file; `None` when the mode names no known type.
    #[must_use]
    pub const fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }

    /// True when the inode holds the value of an extended attribute.
    #[must_use]
    pub const fn is_xattr(&self) -> bool {
        self.flags.contains(FileFlags::XATTR)
    }
}

/// An inode with its attached data: a symbolic link's target, a device number, or an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeNode<'a> {
    /// Fixed fields of the inode.
    pub inode: Inode,
    /// Inline data, [`Inode::data_len`] bytes; empty if the inode is being deleted.
    pub data: &'a [u8],
}

impl<'a> InodeNode<'a> {
    pub(super) fn from_frame(frame: &Frame<'a>) -> Result<Self, MediaError> {
        let bytes = frame.as_bytes();
        let inode = Inode::decode(bytes, 0);
        inode.key.require(KeyType::Inode, KEY_AT)?;
        let data = bytes.get(Inode::SIZE..).unwrap_or(&[]);
        let node = Self { inode, data };
        node.check_data_len()?;
        Ok(node)
    }

    /// Checks that the attached data has the size stated in the inode; a deleted inode has no data.
    fn check_data_len(&self) -> Result<(), MediaError> {
        let dropped = self.inode.links == 0 && self.data.is_empty();
        let whole = usize::try_from(self.inode.data_len) == Ok(self.data.len());
        require(whole || dropped, DATA_LEN_AT, "attached bytes", self.inode.data_len)
    }

    /// Checks the fields, as Linux does when it reads an inode.
    ///
    /// # Errors
    ///
    /// The first invalid value: size, compression, extended attributes, mode, attached data.
    pub fn check(&self) -> Result<(), MediaError> {
        let inode = &self.inode;
        require(inode.size <= MAX_FILE_BYTES, SIZE_AT, "file size", inode.size)?;
        inode.compression.known("compression", COMPRESSION_AT)?;
        let list = u64::from(inode.xattr_names_bytes) + u64::from(inode.xattr_count);
        require(list <= MAX_XATTR_LIST, XATTR_NAMES_AT, "bytes of attribute names", list)?;
        let attached = inode.data_len;
        require(attached <= MAX_INODE_DATA, DATA_LEN_AT, "attached bytes", attached)?;
        let bad_mode = Reason::OutOfRange { field: "mode", value: u64::from(inode.mode) }.at(MODE_AT);
        let file_type = inode.file_type().ok_or(bad_mode)?;
        if inode.is_xattr() {
            return if file_type == FileType::Regular { Ok(()) } else { Err(bad_mode) };
        }
        require(attaches(file_type, attached), DATA_LEN_AT, "attached bytes", attached)
    }
}

/// True when a file of this type can have this many bytes attached. Inodes of attribute values are not
/// covered.
const fn attaches(file_type: FileType, bytes: u32) -> bool {
    match file_type {
        FileType::Symlink => bytes > 0,
        FileType::BlockDevice | FileType::CharacterDevice => bytes == 4 || bytes == 8,
        _ => bytes == 0,
    }
}

impl NodeBody for InodeNode<'_> {
    fn node_type(&self) -> NodeType {
        NodeType::Inode
    }

    fn node_bytes(&self) -> usize {
        Inode::SIZE + self.data.len()
    }

    fn put_fields(&self, out: &mut [u8]) -> Result<(), MediaError> {
        self.check_data_len()?;
        self.inode.put(out, 0);
        store(out, Inode::SIZE, self.data);
        Ok(())
    }
}
