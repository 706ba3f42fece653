//! First sectors of disks, cards and partitions: partition tables, FAT and exFAT, and signatures of swap, RAID and LVM.
//!
//! | module | format | document |
//! | --- | --- | --- |
//! | [`mbr`] | partition table of a PC, logical partitions | UEFI Specification 2.10, chapter 5.2 |
//! | [`gpt`] | partition table of UEFI | UEFI Specification 2.10, chapter 5.3 |
//! | [`fat`] | boot sector and FSInfo of FAT12, FAT16 and FAT32 | fatgen103, 2000 |
//! | [`exfat`] | boot region and directory entries of exFAT | exFAT specification, 2019 |
//! | [`member`] | swap, Linux's RAID, LVM2 | mkswap(8), md(4), lvm(8) |
//!
//! Only the first 512 bytes of a sector are decoded, because 512 bytes is the smallest sector size.

pub mod exfat;
pub mod fat;
pub mod gpt;
pub mod mbr;
pub mod member;

use crate::error::{MediaError, Reason};

/// Smallest sector size, bytes.
pub const SECTOR_BYTES: usize = 512;

/// Signature 55h AAh in the last two bytes of an MBR and of each boot sector.
pub const BOOT_SIGNATURE: u16 = 0xAA55;

/// Offset of [`BOOT_SIGNATURE`] in a sector.
const BOOT_SIGNATURE_AT: usize = 510;

fn require_boot_signature(found: u16) -> Result<(), MediaError> {
    if found == BOOT_SIGNATURE {
        return Ok(());
    }
    Err(Reason::BadSignature { expected: "55h AAh" }.at(BOOT_SIGNATURE_AT))
}
