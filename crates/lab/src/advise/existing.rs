//! Existing filesystems on a device: ext4, F2FS and NILFS2, by their superblocks, and their sizes that do not fit the flash. The probe examines
//! FAT.
//!
//! The layouts are those in Linux: Documentation/filesystems/ext4, include/linux/f2fs_fs.h and include/uapi/linux/nilfs2_ondisk.h. Each superblock is
//! at byte 1024 of its partition.

use super::mkfs::{BlockFs, PartitionShape, ext4_stripe, f2fs_segments, nilfs2_blocks};
use super::size;
use serde::Serialize;

/// Number of bytes at the beginning of a partition that [`Existing::parse`] examines.
pub const HEAD_BYTES: usize = 2048;

const SUPERBLOCK: usize = 1024;
const EXT4_MAGIC: u64 = 0xEF53;
const F2FS_MAGIC: u64 = 0xF2F5_2010;
const NILFS2_MAGIC: u64 = 0x3434;

/// A filesystem found on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Existing {
    /// Kind of the filesystem.
    pub kind: BlockFs,
    /// Size of the unit for which the filesystem was made, in its own blocks: the stripe of an ext4 (0 for none), the section
    /// of an F2FS, the segment of a NILFS2.
    pub unit_blocks: u64,
    /// Size of a block in bytes.
    pub block_bytes: u64,
}

/// Little-endian number of `count` bytes at an offset of the superblock.
fn le(head: &[u8], at: usize, count: usize) -> u64 {
    let field = head.get(SUPERBLOCK + at..).unwrap_or_default().iter().take(count);
    field.rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// 2 to the power of a number from the device; `None` if the result is too large for a block size.
fn power(log: u64) -> Option<u64> {
    (log <= 16).then(|| 1 << log)
}

impl Existing {
    /// Parses the first [`HEAD_BYTES`] of a filesystem; `None` for other kinds, and for impossible numbers.
    pub fn parse(head: &[u8]) -> Option<Self> {
        if le(head, 56, 2) == EXT4_MAGIC {
            let block_bytes = power(10 + le(head, 24, 4))?;
            return Some(Self { kind: BlockFs::Ext4, unit_blocks: le(head, 368, 4), block_bytes });
        }
        if le(head, 0, 4) == F2FS_MAGIC {
            let segment = power(le(head, 20, 4))?;
            let unit_blocks = segment.checked_mul(le(head, 24, 4)).filter(|blocks| *blocks > 0)?;
            return Some(Self { kind: BlockFs::F2fs, unit_blocks, block_bytes: power(le(head, 16, 4))? });
        }
        if le(head, 6, 2) == NILFS2_MAGIC {
            let unit_blocks = Some(le(head, 48, 4)).filter(|blocks| *blocks > 0)?;
            let block_bytes = power(10 + le(head, 20, 4))?;
            return Some(Self { kind: BlockFs::Nilfs2, unit_blocks, block_bytes });
        }
        None
    }

    /// Sentence about sizes of the filesystem that do not fit the flash of a partition; `None` if all fit. `node` is the device with
    /// the filesystem.
    pub fn judge(&self, name: &str, node: &str, place: &PartitionShape) -> Option<String> {
        let unit = self.unit_blocks * self.block_bytes;
        let fits = unit > 0 && (unit.is_multiple_of(place.au_bytes) || place.au_bytes.is_multiple_of(unit));
        match self.kind {
            BlockFs::Ext4 if unit == place.au_bytes => None,
            BlockFs::Ext4 => {
                let (stride, width) = ext4_stripe(place);
                let scale = 4096 / self.block_bytes.clamp(1, 4096);
                Some(format!(
                    "{name} is an ext4 with a stripe of {}, not of an allocation unit of {}: `tune2fs -E stride={},stripe_width={} {node}` changes that and keeps all files",
                    size(unit),
                    size(place.au_bytes),
                    stride * scale,
                    width * scale
                ))
            }
            BlockFs::F2fs if unit == f2fs_segments(place) << 21 => None,
            BlockFs::Nilfs2 if fits && unit >= (nilfs2_blocks(place) << 12) => None,
            _ => Some(format!(
                "{name} is a {} that is cleaned in units of {}, on allocation units of {}: only making it anew changes that",
                self.kind.name(),
                size(unit),
                size(place.au_bytes)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut head = vec![0; HEAD_BYTES];
        for (at, bytes) in fields {
            head[SUPERBLOCK + at..SUPERBLOCK + at + bytes.len()].copy_from_slice(bytes);
        }
        head
    }

    const PLACE: PartitionShape =
        PartitionShape { bytes: 4 << 30, au_bytes: 4 << 20, page_bytes: 16 << 10, open_aus: Some(5) };

    #[test]
    fn an_ext4_without_a_stripe_is_told_how_to_get_one() {
        let ext4 = head(&[(56, &[0x53, 0xEF]), (24, &[2])]);
        let found = Existing::parse(&ext4).unwrap();
        assert_eq!((found.kind, found.unit_blocks, found.block_bytes), (BlockFs::Ext4, 0, 4096));
        let finding = found.judge("partition 1", "/dev/sdz1", &PLACE).unwrap();
        assert!(finding.contains("`tune2fs -E stride=4,stripe_width=1024 /dev/sdz1`"), "{finding}");
        let right = head(&[(56, &[0x53, 0xEF]), (24, &[2]), (368, &[0, 4])]);
        assert_eq!(Existing::parse(&right).unwrap().judge("x", "/dev/sdz1", &PLACE), None);
    }

    #[test]
    fn anything_else_is_no_filesystem_and_no_panic() {
        for byte in 0..=255 {
            for len in [0, 1, 1023, 1024, 1080, HEAD_BYTES] {
                assert_eq!(Existing::parse(&vec![byte; len]), None);
            }
        }
        // Magic numbers with impossible sizes.
        let huge = [0xFF; 4];
        assert_eq!(Existing::parse(&head(&[(56, &[0x53, 0xEF]), (24, &huge)])), None);
        assert_eq!(Existing::parse(&head(&[(0, &[0x10, 0x20, 0xF5, 0xF2]), (20, &huge)])), None);
        assert_eq!(Existing::parse(&head(&[(6, &[0x34, 0x34])])), None);
    }
}
