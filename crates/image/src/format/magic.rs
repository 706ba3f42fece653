//! Format at the start of a volume or file: UBIFS, or other formats that boards have on flash.

use std::fmt;

use floatgate_media::jffs2::{Endian, Header};
use floatgate_media::ubi::{EcHeader, ReadFlips};
use floatgate_media::ubifs::{Frame, NODE_MAGIC, NodeType};

/// Offset of the type in a node.
const TYPE_AT: usize = 20;

/// LEBs in which a filesystem always has nodes: superblock, master nodes, log.
pub(crate) const FIRST_LEBS: u32 = 4;

/// True if one of the first LEBs begins with a node that UBIFS has there. Another node belongs to an image in the
/// volume.
pub(crate) fn begins_ubifs(lnum: u32, head: &[u8]) -> bool {
    let types: &[NodeType] = match lnum {
        0 => &[NodeType::Superblock],
        1 | 2 => &[NodeType::Master],
        _ => &[NodeType::CommitStart, NodeType::Reference],
    };
    let is_one = |code: &u8| types.iter().any(|&node_type| node_type.code() == *code);
    is_node(head) && head.get(TYPE_AT).is_some_and(is_one)
}

/// True if a volume contains a UBIFS, even a damaged one: a node begins one of the first LEBs, or any LEB if the
/// first are lost. `head` reads the start of a LEB: no bytes for an unreadable LEB, and `None` after the last.
pub(crate) fn holds_ubifs(head: &mut dyn FnMut(u32) -> Option<Vec<u8>>) -> bool {
    let first: Vec<Vec<u8>> = (0..FIRST_LEBS).map_while(&mut *head).collect();
    (0..).zip(&first).any(|(lnum, head)| begins_ubifs(lnum, head))
        || first.iter().all(|head| is_blank(head)) && (0..).map_while(head).any(|head| is_node(&head))
}

/// True if all bytes are erased, or overwritten with zeros.
fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0xFF) || bytes.iter().all(|&byte| byte == 0)
}

/// True if a node of UBIFS begins a LEB. A LEB smaller than a superblock does not belong to a UBIFS, but to an image
/// in the volume.
pub(crate) fn is_node(head: &[u8]) -> bool {
    head.starts_with(&NODE_MAGIC) && head.len() >= HEAD_BYTES
}

/// Number of bytes that are needed to recognise a format: the size of UBIFS's superblock.
pub(crate) const HEAD_BYTES: usize = 4096;

/// A format that is recognised, but not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherFormat {
    /// A squashfs filesystem.
    Squashfs,
    /// An image of U-Boot.
    UBootImage,
    /// A device tree, or a FIT image of U-Boot.
    DeviceTree,
    /// An ext2, ext3 or ext4 filesystem.
    Ext,
    /// An EROFS filesystem.
    Erofs,
    /// A cramfs filesystem.
    Cramfs,
    /// A JFFS2 of which only the magic number is good.
    DamagedJffs2,
    /// A kernel for ARM.
    ZImage,
    /// A kernel for ARM64.
    Arm64Image,
    /// An ELF file.
    Elf,
    /// A boot image of Android.
    AndroidBoot,
    /// Data compressed by gzip.
    Gzip,
    /// Data compressed by xz.
    Xz,
    /// Data compressed by zstd.
    Zstd,
    /// Data compressed by bzip2.
    Bzip2,
    /// Data compressed by LZ4.
    Lz4,
    /// A tar archive.
    Tar,
    /// End of an OpenWrt firmware before its first boot.
    OverlayMark,
}

impl OtherFormat {
    /// Name of the format, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::UBootImage => "U-Boot image",
            Self::DeviceTree => "device tree or FIT image",
            Self::Ext => "ext2, ext3 or ext4",
            Self::Erofs => "EROFS",
            Self::Cramfs => "cramfs",
            Self::DamagedJffs2 => "a damaged JFFS2",
            Self::ZImage => "Linux kernel for ARM (zImage)",
            Self::Arm64Image => "Linux kernel for ARM64 (Image)",
            Self::Elf => "ELF",
            Self::AndroidBoot => "Android boot image",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "LZ4",
            Self::Tar => "tar",
            Self::OverlayMark => "OpenWrt's mark of an overlay that the first start makes",
        }
    }

    /// True for a compressed file.
    const fn is_compressed(self) -> bool {
        matches!(self, Self::Gzip | Self::Xz | Self::Zstd | Self::Bzip2 | Self::Lz4)
    }

    /// True if the magic number is long enough to be accepted within a file.
    const fn is_told_inside(self) -> bool {
        matches!(
            self,
            Self::Squashfs
                | Self::UBootImage
                | Self::DeviceTree
                | Self::Erofs
                | Self::Cramfs
                | Self::AndroidBoot
                | Self::Xz
                | Self::OverlayMark
        )
    }
}

impl fmt::Display for OtherFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A format, the offset of its magic number, and the magic number.
type Magic = (OtherFormat, usize, &'static [u8]);

const FORMATS: [Magic; 20] = [
    (OtherFormat::Squashfs, 0, b"hsqs"),
    (OtherFormat::Squashfs, 0, b"sqsh"),
    (OtherFormat::UBootImage, 0, &[0x27, 0x05, 0x19, 0x56]),
    (OtherFormat::DeviceTree, 0, &[0xD0, 0x0D, 0xFE, 0xED]),
    (OtherFormat::Ext, 1080, &[0x53, 0xEF]),
    (OtherFormat::Erofs, 1024, &[0xE2, 0xE1, 0xF5, 0xE0]),
    (OtherFormat::Cramfs, 0, &[0x45, 0x3D, 0xCD, 0x28]),
    (OtherFormat::DamagedJffs2, 0, &[0x85, 0x19]),
    (OtherFormat::DamagedJffs2, 0, &[0x19, 0x85]),
    (OtherFormat::ZImage, 36, &[0x18, 0x28, 0x6F, 0x01]),
    (OtherFormat::Arm64Image, 56, b"ARM\x64"),
    (OtherFormat::Elf, 0, b"\x7fELF"),
    (OtherFormat::AndroidBoot, 0, b"ANDROID!"),
    (OtherFormat::Gzip, 0, &[0x1F, 0x8B]),
    (OtherFormat::Xz, 0, b"\xFD7zXZ"),
    (OtherFormat::Zstd, 0, &[0x28, 0xB5, 0x2F, 0xFD]),
    (OtherFormat::Bzip2, 0, b"BZh"),
    (OtherFormat::Lz4, 0, &[0x04, 0x22, 0x4D, 0x18]),
    (OtherFormat::Tar, 257, b"ustar"),
    // OpenWrt: the overlay does not exist yet, and the first boot creates a JFFS2 from here on (libfstools,
    // `jffs2_mark`).
    (OtherFormat::OverlayMark, 0, &[0xDE, 0xAD, 0xC0, 0xDE]),
];

/// True if these bytes begin a compressed file.
pub(crate) fn is_compressed(head: &[u8]) -> bool {
    format_of(head).is_some_and(OtherFormat::is_compressed)
}

/// Format that begins with these bytes within a file.
pub(crate) fn format_inside(head: &[u8]) -> Option<OtherFormat> {
    format_of(head).filter(|format| format.is_told_inside())
}

/// Size of the groups in which bytes were swapped by a programmer or a 16-bit bus, and the structure with a good CRC
/// that appears after the correction.
pub(crate) fn swapped(head: &[u8]) -> Option<(usize, &'static str)> {
    [2, 4].into_iter().find_map(|group| {
        let right: Vec<u8> = head.chunks_exact(group).flat_map(|bytes| bytes.iter().rev().copied()).collect();
        let is_ubi = || EcHeader::parse(right.get(..64)?, ReadFlips::default()).ok();
        let is_jffs2 = || Endian::of_magic(&right).and_then(|endian| Header::parse(&right, endian).ok());
        match () {
            () if is_ubi().is_some() => Some((group, "UBI")),
            () if Frame::parse(&right).is_ok() => Some((group, "UBIFS")),
            () if is_jffs2().is_some() => Some((group, "JFFS2")),
            () => None,
        }
    })
}

/// Format that begins with these bytes, if it is known and not UBIFS.
pub(crate) fn format_of(head: &[u8]) -> Option<OtherFormat> {
    let begins = |&&(_, at, magic): &&Magic| head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    FORMATS.iter().find(begins).map(|format| format.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_magic_numbers() {
        let mut head = vec![0; HEAD_BYTES];
        assert_eq!(format_of(&head), None);
        head[1080..1082].copy_from_slice(&[0x53, 0xEF]);
        assert_eq!(format_of(&head), Some(OtherFormat::Ext));
        assert_eq!(format_of(b"hsqs"), Some(OtherFormat::Squashfs));
        assert_eq!(format_of(&NODE_MAGIC), None);
    }
}
