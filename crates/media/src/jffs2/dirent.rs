//! Dirent nodes, which give a directory its names: `docs/spec/jffs2.md#dirent`.

use super::Endian;
use super::header::{Header, NodeType, check_crc, check_fields, fields_crc};
use crate::crc;
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
        /// Version of the entry; of two nodes with the same name, the higher version is valid.
        16 => version: u32,
        /// Inode number that the name refers to; 0 if the name was removed.
        20 => inode: u32,
        /// Time of the change to the directory, seconds since 1970.
        24 => mctime_s: u32,
        /// Length of the name, bytes.
        28 => name_len: u8,
        /// Type of the file in `readdir` encoding ([`file_type`]).
        29 => dirent_type: u8,
        /// CRC of the fields before this one.
        32 => node_crc: u32,
        /// CRC of the name.
        36 => name_crc: u32,
    }
}

impl Dirent {
    /// Reads the fixed fields, without the name behind them, and checks their CRC.
    ///
    /// # Errors
    ///
    /// Too few bytes, a wrong CRC.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self, MediaError> {
        let bytes = span(bytes, 0, Self::SIZE)?;
        let dirent: Self = endian.decode(bytes, 0);
        check_fields("dirent", NODE_CRC_AT, dirent.node_crc, (&bytes[..NODE_CRC_AT], endian))?;
        Ok(dirent)
    }

    /// Overwrites the fixed fields of a node and their CRC; header and name of the node stay
    /// unchanged.
    ///
    /// # Panics
    ///
    /// `node` is shorter than the fields.
    pub fn emit_fields(&self, endian: Endian, node: &mut [u8]) {
        endian.put(self, node, 0);
        let node_crc = fields_crc(&node[..NODE_CRC_AT], endian);
        endian.put(&node_crc, node, NODE_CRC_AT);
    }
}

/// A dirent node with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirentNode<'a> {
    /// Fixed fields of the node.
    pub dirent: Dirent,
    /// Name in the directory.
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

impl DirentNode<'_> {
    /// Length of the node, bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        Dirent::SIZE + self.name.len()
    }

    /// Writes the node. The length of the name and the CRCs are computed.
    ///
    /// # Panics
    ///
    /// `out` is not as long as the node; a name of more than 255 bytes.
    pub fn emit(&self, endian: Endian, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(Dirent::SIZE);
        rest.copy_from_slice(self.name);
        assert!(self.name.len() <= usize::from(u8::MAX));
        let name_len = self.name.len() as u8;
        Header::new(NodeType::Dirent, self.size() as u32).emit(endian, head);
        Dirent { name_len, name_crc: crc::jffs2(self.name), ..self.dirent }.emit_fields(endian, head);
    }
}

/// Dirent type of a file with this mode.
#[must_use]
pub const fn dirent_type(mode: u32) -> u8 {
    (mode >> 12 & 0xF) as u8
}

/// Type of a file in a dirent (POSIX: `DT_REG` and so on).
#[must_use]
pub const fn file_type(dirent_type: u8) -> Option<FileType> {
    FileType::from_mode((dirent_type as u32) << 12)
}
