//! exFAT: the boot region, and the directory entries that refer to clusters.

use super::fat::{FatLayout, FatType};
use super::{BOOT_SIGNATURE, BOOT_SIGNATURE_AT, SECTOR_BYTES, require_boot_signature};
use crate::error::{MediaError, Reason, require};
use crate::wire::{Wire as _, chunk, layout, store};

/// FAT entry that marks the end of a cluster chain.
pub const END_OF_CHAIN: u32 = 0xFFFF_FFFF;
/// Value of the first FAT entry: the media type.
pub const FAT_MEDIUM: u32 = 0xFFFF_FFF8;
/// Number of sectors in the boot region; a copy of the region follows it.
pub const BOOT_REGION_SECTORS: usize = 12;
/// Name of the filesystem in the boot sector.
pub const NAME: [u8; 8] = *b"EXFAT   ";
/// Largest cluster, as a power of two in bytes: 32 MiB.
const CLUSTER_SHIFT_MAX: u8 = 25;

layout! {
    /// The boot sector. Sector numbers of the filesystem are relative to this sector.
    pub struct ExfatBoot[512] {
        /// Jump instruction to the boot code.
        0 => jump: [u8; 3],
        /// Filesystem name: [`NAME`].
        3 => name: [u8; 8],
        /// Sector of the disk at which the filesystem begins.
        64 => partition_start: u64,
        /// Size of the filesystem, sectors.
        72 => sectors: u64,
        /// First sector of the FAT.
        80 => fat_start: u32,
        /// Size of one FAT, sectors.
        84 => fat_sectors: u32,
        /// First sector of the first cluster.
        88 => heap_start: u32,
        /// Number of clusters.
        92 => clusters: u32,
        /// First cluster of the root directory.
        96 => root_cluster: u32,
        /// Serial number of the volume.
        100 => serial: u32,
        /// Filesystem revision; 1.0 is stored as 100h.
        104 => revision: u16,
        /// Volume flags: active FAT, filesystem in use.
        106 => flags: u16,
        /// Size of a sector, as a power of two in bytes.
        108 => sector_shift: u8,
        /// Sectors per cluster, as a power of two.
        109 => cluster_shift: u8,
        /// Number of FATs.
        110 => fats: u8,
        /// Drive number of the BIOS; 80h is the first disk.
        111 => drive: u8,
        /// Percentage of clusters in use; 255: unknown.
        112 => percent_in_use: u8,
        /// Signature: [`BOOT_SIGNATURE`].
        510 => signature: u16,
    }
}

/// Offsets of boot sector bytes that change while the filesystem is in use; the checksum omits them.
const NOT_COUNTED: [usize; 3] = [106, 107, 112];

impl ExfatBoot {
    /// Reads a boot sector.
    ///
    /// # Errors
    /// Fewer than 512 bytes, no signature or name, or sizes that no exFAT has.
    pub fn parse(bytes: &[u8]) -> Result<Self, MediaError> {
        let boot = Self::decode(chunk::<SECTOR_BYTES>(bytes, 0)?, 0);
        require_boot_signature(boot.signature)?;
        if boot.name != NAME {
            return Err(Reason::BadSignature { expected: "EXFAT" }.at(3));
        }
        require((9..=12).contains(&boot.sector_shift), 108, "sector shift", boot.sector_shift)?;
        let is_cluster = boot.cluster_shift <= CLUSTER_SHIFT_MAX - boot.sector_shift;
        require(is_cluster, 109, "cluster shift", boot.cluster_shift)?;
        require((1..=2).contains(&boot.fats), 110, "number of FATs", boot.fats)?;
        require(boot.clusters > 0, 92, "number of clusters", boot.clusters)?;
        require(boot.fat_start > 0, 80, "first sector of the FAT", boot.fat_start)?;
        require(boot.fat_sectors > 0, 84, "sectors of a FAT", boot.fat_sectors)?;
        require(
            boot.fat_end() <= u64::from(boot.heap_start),
            88,
            "first sector of the clusters",
            boot.heap_start,
        )?;
        Ok(boot)
    }

    fn fat_end(&self) -> u64 {
        u64::from(self.fat_start) + u64::from(self.fats) * u64::from(self.fat_sectors)
    }

    /// Positions of the areas of the filesystem.
    #[must_use]
    pub fn layout(&self) -> FatLayout {
        let in_bytes = |sectors: u64| sectors << self.sector_shift.min(12);
        FatLayout {
            kind: FatType::ExFat,
            cluster_bytes: in_bytes(1 << self.cluster_shift.min(CLUSTER_SHIFT_MAX)),
            fat_start: in_bytes(u64::from(self.fat_start)),
            fat_end: in_bytes(self.fat_end()),
            data_start: in_bytes(u64::from(self.heap_start)),
        }
    }

    /// The boot region for sectors of 512 bytes: this sector, eight sectors of boot code, parameters, a reserved sector, the checksum.
    #[must_use]
    pub fn emit_region(&self) -> [u8; BOOT_REGION_SECTORS * SECTOR_BYTES] {
        let mut bytes = [0; BOOT_REGION_SECTORS * SECTOR_BYTES];
        Self { name: NAME, signature: BOOT_SIGNATURE, ..*self }.put(&mut bytes, 0);
        for sector in 1..=8 {
            BOOT_SIGNATURE.put(&mut bytes, sector * SECTOR_BYTES + BOOT_SIGNATURE_AT);
        }
        let sum_at = (BOOT_REGION_SECTORS - 1) * SECTOR_BYTES;
        let sum = region_checksum(bytes.get(..sum_at).unwrap_or_default());
        for at in (sum_at..sum_at + SECTOR_BYTES).step_by(4) {
            store(&mut bytes, at, &sum.to_le_bytes());
        }
        bytes
    }
}

/// Checksum over the sectors of a boot region, except the last sector, which stores it.
#[must_use]
pub fn region_checksum(sectors: &[u8]) -> u32 {
    let counted = sectors.iter().enumerate().filter(|(at, _)| !NOT_COUNTED.contains(at));
    checksum(counted.map(|(_, byte)| *byte))
}

/// Checksum of the boot region and of the up-case table.
pub fn checksum(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0_u32, |sum, byte| sum.rotate_right(1).wrapping_add(u32::from(byte)))
}

/// Directory entry types: the values of [`ExfatEntry::kind`].
pub mod kind {
    /// Bitmap of the clusters in use.
    pub const BITMAP: u8 = 0x81;
    /// The up-case table, which maps letters to capital letters.
    pub const CAPITAL_LETTERS: u8 = 0x82;
    /// The volume label.
    pub const LABEL: u8 = 0x83;
}

layout! {
    /// A directory entry that refers to a chain of clusters.
    pub struct ExfatEntry[32] {
        /// Type of the entry: a constant of [`mod@kind`].
        0 => kind: u8,
        /// Checksum of the up-case table.
        4 => checksum: u32,
        /// First cluster of the data.
        20 => cluster: u32,
        /// Length of the data, bytes.
        24 => bytes: u64,
    }
}

impl ExfatEntry {
    /// Writes the entry at position `index` of a directory.
    pub fn emit(&self, directory: &mut [u8], index: usize) {
        self.put(directory, index * Self::SIZE);
    }
}
