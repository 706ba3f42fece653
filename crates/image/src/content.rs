//! The format at the beginning of a volume or file: UBIFS, or other formats that boards keep on flash.

use floatgate_media::jffs2::{Endian, Header};
use floatgate_media::ubi::{EcHeader, ReadFlips};
use floatgate_media::ubifs::{Frame, NODE_MAGIC, NodeType};

/// Where the type of a node stands in it.
const TYPE_AT: usize = 20;

/// LEBs in which a filesystem has nodes always: superblock, master nodes, log.
pub(super) const FIRST_LEBS: u32 = 4;

/// True when one of the first LEBs begins with a node that UBIFS has there. Another node is data of an image that the volume holds.
pub(super) fn begins_ubifs(lnum: u32, head: &[u8]) -> bool {
    let types: &[NodeType] = match lnum {
        0 => &[NodeType::Superblock],
        1 | 2 => &[NodeType::Master],
        _ => &[NodeType::CommitStart, NodeType::Reference],
    };
    let is_one = |code: &u8| types.iter().any(|&node_type| node_type.code() == *code);
    is_node(head) && head.get(TYPE_AT).is_some_and(is_one)
}

/// True when a volume holds a UBIFS, perhaps a damaged one: a node begins one of the first LEBs, or, if these are lost, any LEB. `head` reads the beginning of a LEB: no bytes of one that cannot be read, nothing behind the last.
pub(super) fn holds_ubifs(head: &mut dyn FnMut(u32) -> Option<Vec<u8>>) -> bool {
    let first: Vec<Vec<u8>> = (0..FIRST_LEBS).map_while(&mut *head).collect();
    (0..).zip(&first).any(|(lnum, head)| begins_ubifs(lnum, head))
        || first.iter().all(|head| is_blank(head)) && (0..).map_while(head).any(|head| is_node(&head))
}

/// True when nothing stands there: all bytes are erased, or overwritten with zeros.
fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0xFF) || bytes.iter().all(|&byte| byte == 0)
}

/// True when a node of UBIFS begins a LEB. A LEB smaller than a superblock is none of UBIFS: what is in it are data of an image that
/// the volume holds.
pub(super) fn is_node(head: &[u8]) -> bool {
    head.starts_with(&NODE_MAGIC) && head.len() >= HEAD_BYTES
}

/// Bytes that are needed to recognise a format: those of a superblock of UBIFS.
pub(super) const HEAD_BYTES: usize = 4096;

/// A format, where its magic number stands, and what that is.
type Magic = (&'static str, usize, &'static [u8]);

const FORMATS: [Magic; 20] = [
    ("squashfs", 0, b"hsqs"),
    ("squashfs", 0, b"sqsh"),
    ("U-Boot image", 0, &[0x27, 0x05, 0x19, 0x56]),
    ("device tree or FIT image", 0, &[0xD0, 0x0D, 0xFE, 0xED]),
    ("ext2, ext3 or ext4", 1080, &[0x53, 0xEF]),
    ("EROFS", 1024, &[0xE2, 0xE1, 0xF5, 0xE0]),
    ("cramfs", 0, &[0x45, 0x3D, 0xCD, 0x28]),
    ("a damaged JFFS2", 0, &[0x85, 0x19]),
    ("a damaged JFFS2", 0, &[0x19, 0x85]),
    ("Linux kernel for ARM (zImage)", 36, &[0x18, 0x28, 0x6F, 0x01]),
    ("Linux kernel for ARM64 (Image)", 56, b"ARM\x64"),
    ("ELF", 0, b"\x7fELF"),
    ("Android boot image", 0, b"ANDROID!"),
    ("gzip", 0, &[0x1F, 0x8B]),
    ("xz", 0, b"\xFD7zXZ"),
    ("zstd", 0, &[0x28, 0xB5, 0x2F, 0xFD]),
    ("bzip2", 0, b"BZh"),
    ("LZ4", 0, &[0x04, 0x22, 0x4D, 0x18]),
    ("tar", 257, b"ustar"),
    // OpenWrt: nothing of the overlay is there, and the first boot makes a JFFS2 from here on (libfstools, `jffs2_mark`).
    (OVERLAY_MARK, 0, &[0xDE, 0xAD, 0xC0, 0xDE]),
];

/// The end of the firmware of an OpenWrt that was never started.
pub(super) const OVERLAY_MARK: &str = "OpenWrt's mark of an overlay that the first start makes";

/// Formats of compressed files.
const COMPRESSED: [&str; 5] = ["gzip", "xz", "zstd", "bzip2", "LZ4"];

/// True when a compressed file begins.
pub(super) fn is_compressed(head: &[u8]) -> bool {
    format_of(head).is_some_and(|format| COMPRESSED.contains(&format))
}

/// Formats whose magic numbers are long enough to be believed in the middle of a file.
const INSIDE: [&str; 8] = [
    "squashfs",
    "U-Boot image",
    "device tree or FIT image",
    "EROFS",
    "cramfs",
    "Android boot image",
    "xz",
    OVERLAY_MARK,
];

/// The format that begins with these bytes in the middle of a file.
pub(super) fn format_inside(head: &[u8]) -> Option<&'static str> {
    format_of(head).filter(|format| INSIDE.contains(format))
}

/// Size of the groups in which bytes were swapped, as some programmers and 16-bit buses leave them, and what is seen with each put right: a header with a good CRC.
pub(super) fn swapped(head: &[u8]) -> Option<(usize, &'static str)> {
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

/// The format that begins with these bytes, if it is known and not UBIFS.
pub(super) fn format_of(head: &[u8]) -> Option<&'static str> {
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
        assert_eq!(format_of(&head), Some("ext2, ext3 or ext4"));
        assert_eq!(format_of(b"hsqs"), Some("squashfs"));
        assert_eq!(format_of(&NODE_MAGIC), None);
    }
}
