//! Attributes that files have in every Linux filesystem: types, times, device numbers, flags.

use crate::flags::flags;
use crate::wire::{Wire, codes};

codes! {
    /// Type of a file; the codes are those that UBIFS stores.
    pub enum FileType(u8) {
        /// A regular file.
        Regular = 0,
        /// Directory with entries.
        Directory = 1,
        /// A symbolic link.
        Symlink = 2,
        /// A block device.
        BlockDevice = 3,
        /// A character device.
        CharacterDevice = 4,
        /// A named pipe.
        Fifo = 5,
        /// Unix domain socket.
        Socket = 6,
    }
}

impl FileType {
    /// The file type in the upper bits of a POSIX mode; `None` for an unknown type.
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
    /// Flags of a file (Linux: `chattr`); the bits are those that UBIFS stores.
    pub struct FileFlags(u32) {
        /// New data are compressed.
        COMPRESS = 0,
        /// Every write is synchronous.
        SYNC = 1,
        /// The file cannot be changed.
        IMMUTABLE = 2,
        /// Data can only be appended.
        APPEND = 3,
        /// Changes of the directory are synchronous.
        DIRSYNC = 4,
        /// The inode holds the value of an extended attribute (UBIFS).
        XATTR = 5,
        /// Names or data are encrypted.
        ENCRYPTED = 6,
    }
}

/// A point in time, as POSIX file times store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds after that second.
    pub nanoseconds: u32,
}

/// Major and minor number of a device file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// Number of the driver, 12 bits.
    pub major: u32,
    /// Number of the device within its driver, 20 bits.
    pub minor: u32,
}

impl DeviceNumber {
    /// Parses the data attached to the inode of a device file. It has 4 bytes ("new" encoding) or 8 bytes ("huge"
    /// encoding) with the same bits.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        let bits = match data.len() {
            4 => u32::decode(data, 0),
            // Linux ignores the upper half of the "huge" encoding.
            8 => u32::decode(data, 0),
            _ => return None,
        };
        Some(Self { major: bits >> 8 & 0xFFF, minor: bits & 0xFF | bits >> 12 & 0xF_FF00 })
    }

    /// The 4-byte encoding, which Linux writes; `None` if a number has too many bits.
    #[must_use]
    pub fn emit(&self) -> Option<[u8; 4]> {
        if self.major >> 12 != 0 || self.minor >> 20 != 0 {
            return None;
        }
        Some((self.minor & 0xFF | self.major << 8 | (self.minor & 0xF_FF00) << 12).to_le_bytes())
    }

    /// The 8-byte encoding, with the upper half zero; `None` if a number has too many bits.
    #[must_use]
    pub fn emit_huge(&self) -> Option<[u8; 8]> {
        let [a, b, c, d] = self.emit()?;
        Some([a, b, c, d, 0, 0, 0, 0])
    }
}

codes! {
    /// Compression of the data of a file; the codes are those that UBIFS stores.
    pub enum Compression(u16) {
        /// Uncompressed data.
        None = 0,
        /// LZO1X compression.
        Lzo = 1,
        /// Raw deflate, without zlib's header.
        Zlib = 2,
        /// Zstandard compression.
        Zstd = 3,
    }
}
