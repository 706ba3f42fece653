//! Dirent nodes: names in a directory: `docs/spec/jffs2.md#dirent`.

use super::Endian;
use super::header::check_crc;
use crate::error::MediaError;
use crate::file::FileType;
use crate::wire::{layout, span};

const NODE_CRC_AT: usize = 32;
const NAME_CRC_AT: usize = 36;

layout! {
    /// A dirent node without its header and its name.
    pub either_endian struct Dirent[40] {
        /// Inode of the directory.
        12 => parent: u32,
        /// Version: of two nodes with one name the higher one counts.
        16 => version: u32,
        /// Inode that has the name; 0 when the name was removed.
        20 => inode: u32,
        /// Change of the directory, seconds since 1970.
        24 => mctime_s: u32,
        /// Bytes of the name.
        28 => name_len: u8,
        /// Type of the file, as `readdir` has it ([`file_type`]).
        29 => dirent_type: u8,
        /// CRC of all before it.
        32 => node_crc: u32,
        /// CRC of the name.
        36 => name_crc: u32,
    }
}

impl Dirent {
    /// Reads the fields, without the name behind them, and checks their CRC.
    ///
    /// # Errors
    ///
    /// Too few bytes, a wrong CRC.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self, MediaError> {
        let bytes = span(bytes, 0, Self::SIZE)?;
        let dirent: Self = endian.take(bytes, 0);
        check_crc("dirent", NODE_CRC_AT, dirent.node_crc, &bytes[..NODE_CRC_AT])?;
        Ok(dirent)
    }
}

/// A dirent node with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirentNode<'a> {
    /// The fields.
    pub dirent: Dirent,
    /// The name.
    pub name: &'a [u8],
}

impl<'a> DirentNode<'a> {
    /// Reads a node and checks its CRCs.
    ///
    /// # Errors
    ///
    /// Too few bytes, a wrong CRC.
    pub fn parse(bytes: &'a [u8], endian: Endian) -> Result<Self, MediaError> {
        let dirent = Dirent::parse(bytes, endian)?;
        let name = span(bytes, Dirent::SIZE, usize::from(dirent.name_len))?;
        check_crc("name", NAME_CRC_AT, dirent.name_crc, name)?;
        Ok(Self { dirent, name })
    }
}

/// Type of a file in a dirent (POSIX: `DT_REG` and so on).
#[must_use]
pub const fn file_type(dirent_type: u8) -> Option<FileType> {
    FileType::from_mode((dirent_type as u32) << 12)
}
