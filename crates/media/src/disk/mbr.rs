//! MBR, the partition table of a PC, in the first sector. Logical partitions have tables of the same format, linked to a chain.

use super::{BOOT_SIGNATURE, SECTOR_BYTES, require_boot_signature};
use crate::error::{MediaError, require};
use crate::wire::{Wire as _, chunk, layout};

/// Partition types: the values of [`MbrEntry::kind`].
pub mod kind {
    /// exFAT or NTFS.
    pub const EXFAT: u8 = 0x07;
    /// FAT32 addressed by sector numbers (LBA).
    pub const FAT32: u8 = 0x0C;
    /// A Linux filesystem.
    pub const LINUX: u8 = 0x83;
    /// The only partition of a protective MBR, in front of a GPT.
    pub const PROTECTIVE: u8 = 0xEE;
    /// Types of extended partitions, which contain logical partitions.
    pub const EXTENDED: [u8; 3] = [0x05, 0x0F, 0x85];
    /// Types of partitions with FAT12, FAT16 or FAT32.
    pub const FAT: [u8; 6] = [0x01, 0x04, 0x06, 0x0B, FAT32, 0x0E];
}

/// Cylinder, head and sector for positions that these fields cannot express.
const CHS_BEYOND: [u8; 3] = [0xFE, 0xFF, 0xFF];

layout! {
    /// One of the four entries of a partition table.
    pub struct MbrEntry[16] {
        /// Boot flag: 80h for a bootable partition.
        0 => flags: u8,
        /// Cylinder, head and sector of the partition's start.
        1 => first_chs: [u8; 3],
        /// Type of the partition; 0: the entry is unused.
        4 => kind: u8,
        /// Cylinder, head and sector of the partition's end.
        5 => last_chs: [u8; 3],
        /// First sector of the partition. For a logical partition it is relative to the sector of its table.
        8 => first: u32,
        /// Size of the partition, sectors.
        12 => sectors: u32,
    }
}

impl MbrEntry {
    /// An entry whose position is given by sector numbers only.
    #[must_use]
    pub const fn new(kind: u8, first: u32, sectors: u32) -> Self {
        Self { flags: 0, first_chs: CHS_BEYOND, kind, last_chs: CHS_BEYOND, first, sectors }
    }

    /// True if the entry describes a partition.
    #[must_use]
    pub const fn is_used(&self) -> bool {
        self.kind != 0
    }
}

layout! {
    /// The first sector of a disk with a partition table.
    pub struct Mbr[512] {
        /// Identifier of the disk.
        440 => disk_id: u32,
        /// The four entries of the table.
        446 => entries: [MbrEntry; 4],
        /// Signature: [`BOOT_SIGNATURE`].
        510 => signature: u16,
    }
}

impl Mbr {
    /// A partition table of at most four partitions.
    #[must_use]
    pub fn new(disk_id: u32, partitions: &[MbrEntry]) -> Self {
        let mut entries = [MbrEntry::default(); 4];
        entries.iter_mut().zip(partitions).for_each(|(entry, partition)| *entry = *partition);
        Self { disk_id, entries, signature: BOOT_SIGNATURE }
    }

    /// Reads a partition table from its sector.
    ///
    /// # Errors
    /// Fewer than 512 bytes, no signature, or impossible boot flags: the sector holds the boot code of a filesystem instead of a
    /// table.
    pub fn parse(bytes: &[u8]) -> Result<Self, MediaError> {
        let sector = chunk::<SECTOR_BYTES>(bytes, 0)?;
        let mbr = Self::decode(sector, 0);
        require_boot_signature(mbr.signature)?;
        for (index, entry) in mbr.entries.iter().enumerate() {
            require(entry.flags & 0x7F == 0, 446 + MbrEntry::SIZE * index, "partition flags", entry.flags)?;
        }
        Ok(mbr)
    }

    /// The sector as bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        self.put(&mut bytes, 0);
        bytes
    }
}
