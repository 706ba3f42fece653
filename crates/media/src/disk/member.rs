//! Signatures of swap, Linux RAID and LVM2. A system uses devices with these signatures automatically.

use crate::wire::Wire as _;

/// Sizes of pages of Linux's architectures, in bytes. The signature of swap is at the end of the first page.
pub const SWAP_PAGES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// True if bytes that end with a page end with the signature of swap.
#[must_use]
pub fn ends_as_swap(bytes: &[u8]) -> bool {
    bytes.ends_with(b"SWAPSPACE2") || bytes.ends_with(b"SWAP-SPACE")
}

/// Version 0.90 of a RAID's superblock is in the last 64 KiB that begin at a multiple of 64 KiB.
pub const RAID_0_90: u64 = 64 << 10;
/// Version 1.0 is this far before the end at least, in bytes.
pub const RAID_1_0: u64 = 8 << 10;
/// Version 1.0 is at a multiple of this, in bytes.
pub const RAID_1_0_UNIT: u64 = 4 << 10;
/// Offsets of versions 1.1 and 1.2, in bytes.
pub const RAID_1_1_AND_1_2: [u64; 2] = [0, 4096];

/// Number at the beginning of a superblock.
const RAID_MAGIC: u32 = 0xA92B_4EFC;

/// True for a superblock of version 1 of Linux's RAID, which is little-endian.
#[must_use]
pub fn is_raid_1(superblock: &[u8]) -> bool {
    (u32::decode(superblock, 0), u32::decode(superblock, 4)) == (RAID_MAGIC, 1)
}

/// True for a superblock of version 0.90 of Linux's RAID, which has the byte order of its machine.
#[must_use]
pub fn is_raid_0_90(superblock: &[u8]) -> bool {
    let magic = u32::decode(superblock, 0);
    magic == RAID_MAGIC || magic.swap_bytes() == RAID_MAGIC
}

/// Sectors of 512 bytes, one of the first of which has the label of LVM2.
pub const LVM_SECTORS: u64 = 4;

/// True for a sector with the label of LVM2.
#[must_use]
pub fn is_lvm_label(sector: &[u8]) -> bool {
    sector.starts_with(b"LABELONE") && sector.get(24..).is_some_and(|kind| kind.starts_with(b"LVM2 001"))
}
