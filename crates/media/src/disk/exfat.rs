//! exFAT: the boot region, and the entries of a directory that name clusters.

use super::fat::{FatLayout, FatType};
use super::{BOOT_SIGNATURE, BOOT_SIGNATURE_AT, SECTOR_BYTES, require_boot_signature};
use crate::error::{MediaError, Reason, require};
use crate::wire::{Wire as _, chunk, layout, store};

/// End of a chain in the FAT.
pub const END_OF_CHAIN: u32 = 0xFFFF_FFFF;
/// First entry of the FAT: the medium.
pub const FAT_MEDIUM: u32 = 0xFFFF_FFF8;
/// Sectors of the boot region; a copy follows it.
pub const BOOT_REGION_SECTORS: usize = 12;
/// Name of the filesystem in the boot sector.
pub const NAME: [u8; 8] = *b"EXFAT   ";
/// Largest cluster, as a power of two in bytes: 32 MiB.
const CLUSTER_SHIFT_MAX: u8 = 25;

layout! {
    /// The boot sector. Sectors of the filesystem count from it.
    pub struct ExfatBoot[512] {
        /// Jump to the boot code.
        0 => jump: [u8; 3],
        /// [`NAME`].
        3 => name: [u8; 8],
        /// Sector of the disk at which the filesystem begins.
        64 => partition_start: u64,
        /// Sectors of the filesystem.
        72 => sectors: u64,
        /// First sector of the FAT.
        80 => fat_start: u32,
        /// Sectors of a FAT.
        84 => fat_sectors: u32,
        /// First sector of the first cluster.
        88 => heap_start: u32,
        /// Number of clusters.
        92 => clusters: u32,
        /// First cluster of the root directory.
        96 => root_cluster: u32,
        /// Serial number.
        100 => serial: u32,
        /// Revision: 1.0 is 100h.
        104 => revision: u16,
        /// Which FAT is active, and whether the filesystem is in use.
        106 => flags: u16,
        /// Bytes of a sector, as a power of two.
        108 => sector_shift: u8,
        /// Sectors of a cluster, as a power of two.
        109 => cluster_shift: u8,
        /// Number of FATs.
        110 => fats: u8,
        /// Number of the drive: 80h is the first disk.
        111 => drive: u8,
        /// Percent of the clusters in use; 255: unknown.
        112 => percent_in_use: u8,
        /// [`BOOT_SIGNATURE`].
        510 => signature: u16,
    }
}

/// Bytes of the boot sector that change while the filesystem is in use; the checksum leaves them out.
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

    /// Positions of the filesystem's areas.
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

    /// The boot region for sectors of 512 bytes: this sector, eight for boot code, one for parameters, a reserved one, and the checksum.
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

/// Checksum of the sectors of a boot region, without the last one, which holds it.
#[must_use]
pub fn region_checksum(sectors: &[u8]) -> u32 {
    let counted = sectors.iter().enumerate().filter(|(at, _)| !NOT_COUNTED.contains(at));
    checksum(counted.map(|(_, byte)| *byte))
}

/// Checksum of the boot region and of the table of capital letters.
pub fn checksum(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0_u32, |sum, byte| sum.rotate_right(1).wrapping_add(u32::from(byte)))
}

/// Types of directory entries, the byte [`ExfatEntry::kind`].
pub mod kind {
    /// The bitmap of the clusters in use.
    pub const BITMAP: u8 = 0x81;
    /// The table of capital letters.
    pub const CAPITAL_LETTERS: u8 = 0x82;
    /// The label of the filesystem.
    pub const LABEL: u8 = 0x83;
}

layout! {
    /// An entry of a directory that names clusters.
    pub struct ExfatEntry[32] {
        /// Type of the entry.
        0 => kind: u8,
        /// Checksum of a table of capital letters.
        4 => checksum: u32,
        /// First cluster.
        20 => cluster: u32,
        /// Length in bytes.
        24 => bytes: u64,
    }
}

impl ExfatEntry {
    /// Writes the entry into a directory.
    pub fn emit(&self, directory: &mut [u8], index: usize) {
        self.put(directory, index * Self::SIZE);
    }
}
