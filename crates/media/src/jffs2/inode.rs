//! Inode nodes: attributes of a file, and a piece of its data: `docs/spec/jffs2.md#inode`.

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
        /// A hole: all bytes are zero, and none is stored.
        Zero = 1,
        /// Runs of bytes that followed the same byte earlier.
        Rtime = 2,
        /// Arithmetic coding with fixed probabilities.
        RubinMips = 3,
        /// Uncompressed data.
        Copy = 4,
        /// Arithmetic coding with probabilities in front of the data.
        DynRubin = 5,
        /// Deflate, with zlib's header.
        Zlib = 6,
        /// LZO1X.
        Lzo = 7,
        /// LZMA without a header, as OpenWrt has it.
        Lzma = 8,
    }
}

layout! {
    /// An inode node without its header and its data.
    pub either_endian struct Inode[68] {
        /// Inode number.
        12 => inode: u32,
        /// Version: the higher of two nodes of an inode is valid.
        16 => version: u32,
        /// Type and permissions, as in POSIX.
        20 => mode: u32,
        /// Owner: user id.
        24 => uid: u16,
        /// Owner: group id.
        26 => gid: u16,
        /// Bytes of the file.
        28 => file_bytes: u32,
        /// Last read, seconds since 1970.
        32 => atime_s: u32,
        /// Last change of the data, seconds since 1970.
        36 => mtime_s: u32,
        /// Last change of the inode, seconds since 1970.
        40 => ctime_s: u32,
        /// Byte of the file where the data begin.
        44 => offset: u32,
        /// Bytes of the data in the node.
        48 => data_len: u32,
        /// Bytes of the data after decompression.
        52 => file_len: u32,
        /// Compression of the data.
        56 => compressor: Compressor,
        /// Compression that the user asked for.
        57 => wanted_compressor: u8,
        /// Flags of the inode, unused by Linux.
        58 => flags: u16,
        /// CRC of the data.
        60 => data_crc: u32,
        /// CRC of all before the CRCs.
        64 => node_crc: u32,
    }
}

impl Inode {
    /// Reads the fields, without the data behind them, and checks their CRC.
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

    /// Writes the fields with their CRC over those of a node; its header and its data stay.
    ///
    /// # Panics
    ///
    /// `node` is shorter than the fields.
    pub fn emit_fields(&self, endian: Endian, node: &mut [u8]) {
        endian.put(self, node, 0);
        let node_crc = fields_crc(&node[..DATA_CRC_AT], endian);
        endian.put(&node_crc, node, NODE_CRC_AT);
    }

    /// Checks the CRC of the data.
    ///
    /// # Errors
    ///
    /// It is wrong.
    pub fn check_data(&self, data: &[u8]) -> Result<(), MediaError> {
        check_crc("data", DATA_CRC_AT, self.data_crc, data)
    }

    /// Type of the file; `None` when the mode names no known type.
    #[must_use]
    pub const fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }

    /// Byte of the file behind the data.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset as u64 + self.file_len as u64
    }
}

/// The data of a device's inode, in 4 bytes; `None` if a number has too many bits.
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
