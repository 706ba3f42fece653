//! Filesystems with a damaged superblock: a magic number with a wrong byte, or the fields around it, still show the
//! format.

use super::probe_match::Kind;
use super::view::{Numbers, View, crc32c};

/// Number of examined bytes at the start.
const HEAD: usize = 8192;

/// Offset of the superblock of ext, EROFS and F2FS, and of the copy in F2FS.
const SUPERBLOCK: usize = 1024;
const COPY: usize = 4096 + SUPERBLOCK;

/// Test for the start of a format.
type Test = fn(&[u8]) -> bool;

/// Tests for formats with a superblock. ext has the shortest magic number, and is therefore last.
const TESTS: [(Kind, Test); 8] = [
    (Kind::Squashfs, squashfs),
    (Kind::Erofs, erofs),
    (Kind::Cramfs, cramfs),
    (Kind::Romfs, romfs),
    (Kind::Littlefs, littlefs),
    (Kind::F2fs, f2fs),
    (Kind::Fat, fat),
    (Kind::Ext, ext),
];

/// Format of the damaged superblock at the beginning of a range, if it has a reader; and true if the superblock is an older
/// version instead of damaged.
pub(super) fn of(view: &View<'_>) -> Option<(Kind, bool)> {
    let len = usize::try_from(view.len()).map_or(HEAD, |len| len.min(HEAD));
    let head = view.bytes(0, len)?;
    Some((kind_of(&head)?, is_older(&head)))
}

/// Format whose damaged superblock is at the start of these bytes.
fn kind_of(head: &[u8]) -> Option<Kind> {
    TESTS.iter().find(|(_, test)| test(head)).map(|(kind, _)| *kind)
}

/// True for an older, unsupported version of the format, which is no damage: SquashFS up to 3.
fn is_older(head: &[u8]) -> bool {
    head.starts_with(b"hsqs") && (1..=3).contains(&head.le16(28))
}

/// True if a magic number is at this offset; up to a quarter of its bytes may be wrong.
fn is_near(head: &[u8], at: usize, magic: &[u8]) -> bool {
    let Some(found) = head.get(at..).and_then(|rest| rest.get(..magic.len())) else { return false };
    let wrong = found.iter().zip(magic).filter(|(byte, other)| byte != other).count();
    wrong <= magic.len() / 4
}

fn squashfs(head: &[u8]) -> bool {
    let log = head.le16(22);
    let is_version = (head.le16(28), head.le16(30)) == (4, 0);
    is_near(head, 0, b"hsqs") || is_version && (12..=20).contains(&log) && head.le32(12) == 1 << log
}

/// The checksum covers the remaining part of the block with the superblock.
fn erofs(head: &[u8]) -> bool {
    const MAGIC: [u8; 4] = [0xE2, 0xE1, 0xF5, 0xE0];
    if is_near(head, SUPERBLOCK, &MAGIC) {
        return true;
    }
    let bits = head.get(SUPERBLOCK + 12).copied().unwrap_or(0);
    if !(9..=12).contains(&bits) {
        return false;
    }
    let block = 1_usize << bits;
    let end = SUPERBLOCK + if block > SUPERBLOCK { block - SUPERBLOCK } else { block };
    let Some(mut covered) = head.get(SUPERBLOCK..end).map(<[u8]>::to_vec) else { return false };
    let stored = covered.le32(4);
    covered[..4].copy_from_slice(&MAGIC);
    covered[4..8].fill(0);
    crc32c(u32::MAX, &covered) == stored
}

fn cramfs(head: &[u8]) -> bool {
    let magic = 0x28CD_3D45_u32;
    [magic.to_le_bytes(), magic.to_be_bytes()].iter().any(|magic| is_near(head, 0, magic))
        || is_near(head, 16, b"Compressed ROMFS")
}

fn romfs(head: &[u8]) -> bool {
    is_near(head, 0, b"-rom1fs-")
}

fn littlefs(head: &[u8]) -> bool {
    is_near(head, 8, b"littlefs")
}

fn f2fs(head: &[u8]) -> bool {
    let magic = [0x10, 0x20, 0xF5, 0xF2];
    [SUPERBLOCK, COPY].iter().any(|&at| is_near(head, at, &magic))
}

/// True if the boot sector has the name of the format, which Linux does not read, or the jump, the signature and the
/// number of tables.
fn fat(head: &[u8]) -> bool {
    let is_named = is_near(head, 3, b"EXFAT   ")
        || [b"FAT12   ", b"FAT16   "].iter().any(|name| is_near(head, 54, *name))
        || is_near(head, 82, b"FAT32   ");
    let is_boot_sector = head.get(510..512) == Some(&[0x55, 0xAA])
        && head.first() == Some(&0xEB)
        && head.get(2) == Some(&0x90)
        && head.get(16).is_some_and(|tables| matches!(tables, 1 | 2));
    is_named || is_boot_sector && head.get(3..7) != Some(b"NTFS")
}

/// True for the magic number with a small field next to it. Without the magic number, the checksum must match, or the
/// numbers of groups, blocks and inodes must agree.
fn ext(head: &[u8]) -> bool {
    const MAGIC: [u8; 2] = [0x53, 0xEF];
    const HAS_CHECKSUM: u32 = 0x400;
    let Some(block) = head.get(SUPERBLOCK..).and_then(|rest| rest.get(..1024)) else { return false };
    let log = block.le32(24);
    if block[56..58] == MAGIC && (log <= 6 || block.le32(20) <= 1 || block.le32(76) <= 1) {
        return true;
    }
    let mut covered = block[..1020].to_vec();
    covered[56..58].copy_from_slice(&MAGIC);
    if block.le32(100) & HAS_CHECKSUM != 0 && crc32c(u32::MAX, &covered) == block.le32(1020) {
        return true;
    }
    let (inodes, blocks, first) = (block.le32(0), block.le32(4), block.le32(20));
    let (per_group, inodes_per_group) = (block.le32(32), block.le32(40));
    log <= 6
        && inodes > 0
        && first <= 1
        && u64::from(per_group) == 8192_u64 << log
        && u64::from(inodes)
            == u64::from(inodes_per_group) * u64::from(blocks.saturating_sub(first).div_ceil(per_group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_byte_of_a_magic_number_is_allowed() {
        let mut head = vec![0x5A; HEAD];
        assert_eq!(kind_of(&head), None);
        head[..4].copy_from_slice(b"hsxs");
        assert_eq!(kind_of(&head), Some(Kind::Squashfs));
        head[..4].copy_from_slice(b"hxxs");
        assert_eq!(kind_of(&head), None);
        assert_eq!(kind_of(&[]), None);
        assert_eq!(kind_of(b"hsqs"), Some(Kind::Squashfs));
    }
}
