//! Inode nodes: `docs/spec/ubifs.md#inode-node`.

use super::data::Compression;
use super::header::{Frame, NodeBody, NodeType};
use super::key::{Key, KeyType};
use super::{MAX_FILE_BYTES, MAX_INODE_DATA};
use crate::error::{MediaError, Reason, require};
use crate::flags::flags;
use crate::wire::{Wire, codes, layout, store};

const KEY_AT: usize = 24;
const SIZE_AT: usize = 48;
const MODE_AT: usize = 104;
const DATA_LEN_AT: usize = 112;
const XATTR_NAMES_AT: usize = 128;
const COMPRESSION_AT: usize = 132;

/// Longest list of extended attributes' names, bytes, as `listxattr` returns it (Linux, XATTR_LIST_MAX).
const MAX_XATTR_LIST: u64 = 65536;

codes! {
    /// Type of a file.
    pub enum FileType(u8) {
        /// A regular file.
        Regular = 0,
        /// A directory.
        Directory = 1,
        /// A symbolic link.
        Symlink = 2,
        /// A block device.
        BlockDevice = 3,
        /// A character device.
        CharacterDevice = 4,
        /// A named pipe.
        Fifo = 5,
        /// A socket.
        Socket = 6,
    }
}

impl FileType {
    /// The type in the upper bits of a POSIX mode, if there is one.
    #[must_use]
    pub const fn from_mode(mode: u32) -> Option<Self> {
        match mode >> 12 {
            0o01 => Some(Self::Fifo),
            0o02 => Some(Self::CharacterDevice),
            0o04 => Some(Self::Directory),
            0o06 => Some(Self::BlockDevice),
            0o10 => Some(Self::Regular),
            0o12 => Some(Self::Symlink),
            0o14 => Some(Self::Socket),
            _ => None,
        }
    }
}

flags! {
    /// Flags of an inode.
    pub struct InodeFlags(u32) {
        /// New data are compressed.
        COMPRESS = 0,
        /// Every write waits until it is on flash.
        SYNC = 1,
        /// The file cannot be changed.
        IMMUTABLE = 2,
        /// Data can only be appended.
        APPEND = 3,
        /// Changes of the directory wait until they are on flash.
        DIRSYNC = 4,
        /// The inode holds the value of an extended attribute.
        XATTR = 5,
        /// Names or data are encrypted.
        ENCRYPTED = 6,
    }
}

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds after that.
    pub nanoseconds: u32,
}

/// Major and minor number of a device file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// The driver, 12 bits.
    pub major: u32,
    /// The device of that driver, 20 bits.
    pub minor: u32,
}

impl DeviceNumber {
    /// Reads what an inode of a device file has attached: 4 bytes ("new") or 8 ("huge"), with the same bits.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        let bits = match data.len() {
            4 => u32::take(data, 0),
            // Linux drops the upper half.
            8 => u32::take(data, 0),
            _ => return None,
        };
        Some(Self { major: bits >> 8 & 0xFFF, minor: bits & 0xFF | bits >> 12 & 0xF_FF00 })
    }

    /// The 4 bytes that Linux attaches; `None` if a number has too many bits.
    #[must_use]
    pub fn emit(&self) -> Option<[u8; 4]> {
        if self.major >> 12 != 0 || self.minor >> 20 != 0 {
            return None;
        }
        Some((self.minor & 0xFF | self.major << 8 | (self.minor & 0xF_FF00) << 12).to_le_bytes())
    }

    /// The 8-byte form, with the upper half zero; `None` if a number has too many bits.
    #[must_use]
    pub fn emit_huge(&self) -> Option<[u8; 8]> {
        let [a, b, c, d] = self.emit()?;
        Some([a, b, c, d, 0, 0, 0, 0])
    }
}

layout! {
    /// An inode without what is attached to it.
    pub struct Inode[160] {
        /// Key of the inode, which holds its number.
        24 => key: Key,
        /// Sequence number when it was created.
        40 => created_sqnum: u64,
        /// Bytes of the file, before compression.
        48 => size: u64,
        /// Last read, seconds since 1970.
        56 => atime_s: i64,
        /// Last change of the inode, seconds since 1970.
        64 => ctime_s: i64,
        /// Last change of the data, seconds since 1970.
        72 => mtime_s: i64,
        /// Last read, ns.
        80 => atime_ns: u32,
        /// Last change of the inode, ns.
        84 => ctime_ns: u32,
        /// Last change of the data, ns.
        88 => mtime_ns: u32,
        /// Names; 0 if the inode is being deleted.
        92 => links: u32,
        /// Owner.
        96 => uid: u32,
        /// Group.
        100 => gid: u32,
        /// Type and permissions, as in POSIX.
        104 => mode: u32,
        /// Flags of the inode.
        108 => flags: InodeFlags,
        /// Bytes attached; kept, without the bytes, when the inode is being deleted.
        112 => data_len: u32,
        /// Extended attributes.
        116 => xattr_count: u32,
        /// Bytes that those take on flash.
        120 => xattr_bytes: u32,
        /// Bytes of their names.
        128 => xattr_names_bytes: u32,
        /// Compression of new data; old data may differ.
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
        self.flags.contains(InodeFlags::XATTR)
    }
}

/// An inode with what is attached to it: a symlink's target, a device number, an extended attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeNode<'a> {
    /// The inode.
    pub inode: Inode,
    /// Inline data, [`Inode::data_len`] bytes; empty if the inode is being deleted.
    pub data: &'a [u8],
}

impl<'a> InodeNode<'a> {
    pub(super) fn from_frame(frame: &Frame<'a>) -> Result<Self, MediaError> {
        let bytes = frame.as_bytes();
        let inode = Inode::take(bytes, 0);
        inode.key.require(KeyType::Inode, KEY_AT)?;
        let data = bytes.get(Inode::SIZE..).unwrap_or(&[]);
        let dropped = inode.links == 0 && data.is_empty();
        let whole = usize::try_from(inode.data_len) == Ok(data.len());
        require(whole || dropped, DATA_LEN_AT, "attached bytes", inode.data_len)?;
        Ok(Self { inode, data })
    }

    /// Checks the fields, as Linux does when it reads an inode.
    ///
    /// # Errors
    ///
    /// The first that is impossible: size, compression, extended attributes, mode, attached bytes.
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

/// True when a file of this type, not an attribute's value, can have this many bytes attached.
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

    fn put_fields(&self, out: &mut [u8]) {
        self.inode.put(out, 0);
        store(out, Inode::SIZE, self.data);
    }
}
