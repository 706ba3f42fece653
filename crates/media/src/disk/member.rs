//! Signatures of swap, Linux RAID and LVM2. Many systems activate devices with these signatures
//! automatically.

use crate::wire::Wire as _;

/// Page sizes of the architectures of Linux, in bytes. The swap signature is at the end of the first page.
pub const SWAP_PAGES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// True if `bytes`, which end at the end of a page, end with the swap signature.
#[must_use]
pub fn ends_as_swap(bytes: &[u8]) -> bool {
    bytes.ends_with(b"SWAPSPACE2") || bytes.ends_with(b"SWAP-SPACE")
}

/// Unit of the position of RAID superblock version 0.90, in bytes: it is in the last 64 KiB that begin at a
/// multiple of 64 KiB.
pub const RAID_0_90: u64 = 64 << 10;
/// Minimum distance of RAID superblock version 1.0 from the end of the device, in bytes.
pub const RAID_1_0: u64 = 8 << 10;
/// Alignment of RAID superblock version 1.0, in bytes.
pub const RAID_1_0_UNIT: u64 = 4 << 10;
/// Offsets of RAID superblock versions 1.1 and 1.2, in bytes.
pub const RAID_1_1_AND_1_2: [u64; 2] = [0, 4096];

/// Magic number at the beginning of a RAID superblock.
const RAID_MAGIC: u32 = 0xA92B_4EFC;

/// True for a Linux RAID superblock of version 1, which is little-endian.
#[must_use]
pub fn is_raid_1(superblock: &[u8]) -> bool {
    (u32::decode(superblock, 0), u32::decode(superblock, 4)) == (RAID_MAGIC, 1)
}

/// True for a Linux RAID superblock of version 0.90, which has the byte order of the machine that wrote it.
#[must_use]
pub fn is_raid_0_90(superblock: &[u8]) -> bool {
    let magic = u32::decode(superblock, 0);
    magic == RAID_MAGIC || magic.swap_bytes() == RAID_MAGIC
}

/// Number of sectors of 512 bytes at the start of a device, one of which has the LVM2 label.
pub const LVM_SECTORS: u64 = 4;

/// True for a sector with the LVM2 label.
#[must_use]
pub fn is_lvm_label(sector: &[u8]) -> bool {
    sector.starts_with(b"LABELONE") && sector.get(24..).is_some_and(|kind| kind.starts_with(b"LVM2 001"))
}
