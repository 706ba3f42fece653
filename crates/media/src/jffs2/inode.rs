//! Inode nodes: attributes of a file with a part of its data: `docs/spec/jffs2.md#inode`.

use super::Endian;
use super::header::{Header, NodeType, check_crc, check_fields, fields_crc};
use crate::crc;
use crate::error::MediaError;
use crate::file::{DeviceNumber, FileType};
use crate::wire::{codes, layout, span};

const DATA_CRC_AT: usize = 60;
const NODE_CRC_AT: usize = 64;

codes! {
    /// Compression of the data of a node: `docs/spec/jffs2.md#compressors`.
    pub enum Compressor(u8) {
        /// Uncompressed data.
        None = 0,
        /// A hole: all bytes are zero, and no data is stored.
        Zero = 1,
        /// Rtime: each byte is followed by a copy of the run that followed its previous occurrence.
        Rtime = 2,
        /// Rubin: arithmetic coding with fixed probabilities.
        RubinMips = 3,
        /// Uncompressed data, encoded as a compressor.
        Copy = 4,
        /// Dynamic Rubin: arithmetic coding with probabilities stored in front of the data.
        DynRubin = 5,
        /// Deflate with zlib's header.
        Zlib = 6,
        /// LZO1X compression.
        Lzo = 7,
        /// LZMA without a header, as OpenWrt stores it.
        Lzma = 8,
    }
}

layout! {
    /// An inode node without its header and its data.
    pub either_endian struct Inode[68] {
        /// Inode number.
        12 => inode: u32,
        /// Version of the node; where two nodes of an inode overlap, the higher version is valid.
        16 => version: u32,
        /// Type and permissions, as in POSIX.
        20 => mode: u32,
        /// User id of the owner.
        24 => uid: u16,
        /// Group id of the owner.
        26 => gid: u16,
        /// Size of the file, bytes.
        28 => file_bytes: u32,
        /// Time of the last read, seconds since 1970.
        32 => atime_s: u32,
        /// Time of the last change of the data, seconds since 1970.
        36 => mtime_s: u32,
        /// Time of the last change of the inode, seconds since 1970.
        40 => ctime_s: u32,
        /// Offset of the data in the file, bytes.
        44 => offset: u32,
        /// Stored size of the data, bytes.
        48 => data_len: u32,
        /// Size of the data after decompression, bytes.
        52 => file_len: u32,
        /// Compressor of the data.
        56 => compressor: Compressor,
        /// Compressor that the user requested.
        57 => wanted_compressor: u8,
        /// Flags of the inode, unused by Linux.
        58 => flags: u16,
        /// CRC of the stored data.
        60 => data_crc: u32,
        /// CRC of the fields before both CRCs.
        64 => node_crc: u32,
    }
}

impl Inode {
    /// Reads the fixed fields, without the data behind them, and checks their CRC.
    ///
    /// # Errors
    ///
    /// Too few bytes, a wrong CRC.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self, MediaError> {
        let bytes = span(bytes, 0, Self::SIZE)?;
        let inode: Self = endian.decode(bytes, 0);
        check_fields("inode", NODE_CRC_AT, inode.node_crc, (&bytes[..DATA_CRC_AT], endian))?;
        Ok(inode)
    }

    /// Writes the node with its data, which fill `out` after the fields. The CRCs are computed.
    ///
    /// # Panics
    ///
    /// The length of `out` differs from fields and data.
    pub fn emit(&self, data: &[u8], endian: Endian, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(Self::SIZE);
        rest.copy_from_slice(data);
        // A node is shorter than an eraseblock.
        let len = (Self::SIZE + data.len()) as u32;
        Header::new(NodeType::Inode, len).emit(endian, head);
        Self { data_crc: crc::jffs2(data), ..*self }.emit_fields(endian, head);
    }

    /// Overwrites the fixed fields of a node and their CRC; header and data of the node stay
    /// unchanged.
    ///
    /// # Panics
    ///
    /// `node` is shorter than the fields.
    pub fn emit_fields(&self, endian: Endian, node: &mut [u8]) {
        endian.put(self, node, 0);
        let node_crc = fields_crc(&node[..DATA_CRC_AT], endian);
        endian.put(&node_crc, node, NODE_CRC_AT);
    }

    /// Checks the CRC of the stored data.
    ///
    /// # Errors
    ///
    /// The CRC is wrong.
    pub fn check_data(&self, data: &[u8]) -> Result<(), MediaError> {
        check_crc("data", DATA_CRC_AT, self.data_crc, data)
    }

    /// Type of the file; `None` when the mode names no known type.
    #[must_use]
    pub const fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }

    /// Offset in the file after the data, bytes.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset as u64 + self.file_len as u64
    }
}

/// Data of a device file's inode, in the 4-byte encoding; `None` if a number has too many bits.
#[must_use]
pub fn emit_device_number(number: DeviceNumber, endian: Endian) -> Option<[u8; 4]> {
    let mut out = [0; 4];
    endian.put(&u32::from_le_bytes(number.emit()?), &mut out, 0);
    Some(out)
}

/// Device number in the data of a device file's inode: 2 bytes before Linux 2.6.20, 4 bytes since.
#[must_use]
pub fn device_number(data: &[u8], endian: Endian) -> Option<DeviceNumber> {
    match data.len() {
        2 => {
            let number: u16 = endian.decode(data, 0);
            Some(DeviceNumber { major: u32::from(number >> 8), minor: u32::from(number & 0xFF) })
        }
        4 => DeviceNumber::parse(&endian.decode::<u32>(data, 0).to_le_bytes()),
        _ => None,
    }
}
