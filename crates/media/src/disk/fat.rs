//! FAT12, FAT16 and FAT32: the boot sector, and the FSInfo sector of FAT32.

use super::{BOOT_SIGNATURE, SECTOR_BYTES, require_boot_signature};
use crate::error::{MediaError, Reason, require};
use crate::wire::{Wire as _, chunk, layout};
use core::fmt;

/// Minimum number of clusters of FAT16; fewer clusters make a FAT12.
pub const FAT16_CLUSTERS_MIN: u64 = 4085;
/// Minimum number of clusters of FAT32; fewer clusters make a FAT16.
pub const FAT32_CLUSTERS_MIN: u64 = 65_525;
/// Size of a directory entry, B.
const ENTRY_BYTES: u64 = 32;
/// Largest sector size of FAT and exFAT, B.
const SECTOR_BYTES_MAX: u16 = 4096;

/// Type of a FAT filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FatType {
    /// FAT12: FAT entries of 12 bits.
    Fat12,
    /// FAT16: FAT entries of 16 bits.
    Fat16,
    /// FAT32: FAT entries of 32 bits.
    Fat32,
    /// exFAT, the filesystem of SDXC cards.
    ExFat,
}

impl fmt::Display for FatType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fat12 => "FAT12",
            Self::Fat16 => "FAT16",
            Self::Fat32 => "FAT32",
            Self::ExFat => "exFAT",
        })
    }
}

/// Positions of the areas of a FAT or exFAT, in bytes from its boot sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatLayout {
    /// Type of the filesystem.
    pub kind: FatType,
    /// Cluster size, B: the unit of allocation.
    pub cluster_bytes: u64,
    /// Start of the first FAT.
    pub fat_start: u64,
    /// End of the last FAT.
    pub fat_end: u64,
    /// Start of the first cluster.
    pub data_start: u64,
}

layout! {
    /// The boot sector. The fields from offset 36 on are those of FAT32.
    pub struct FatBoot[512] {
        /// Jump instruction to the boot code.
        0 => jump: [u8; 3],
        /// Name of the system that created the filesystem.
        3 => oem: [u8; 8],
        /// Size of a sector, bytes.
        11 => sector_bytes: u16,
        /// Sectors per cluster, a power of two.
        13 => cluster_sectors: u8,
        /// Number of sectors before the first FAT.
        14 => reserved_sectors: u16,
        /// Number of FATs.
        16 => fats: u8,
        /// Number of root directory entries; 0 in FAT32.
        17 => root_entries: u16,
        /// Size of the filesystem, sectors; 0: see [`sectors_32`](Self::sectors_32).
        19 => sectors_16: u16,
        /// Media type; F8h is a fixed disk.
        21 => medium: u8,
        /// Size of one FAT, sectors; 0: see [`fat_sectors_32`](Self::fat_sectors_32).
        22 => fat_sectors_16: u16,
        /// Sectors per track.
        24 => track_sectors: u16,
        /// Number of heads.
        26 => heads: u16,
        /// Number of sectors of the disk before the filesystem.
        28 => hidden_sectors: u32,
        /// Size of the filesystem, sectors.
        32 => sectors_32: u32,
        /// Size of one FAT, sectors.
        36 => fat_sectors_32: u32,
        /// Flags that name the active FATs.
        40 => flags: u16,
        /// Version of the format: 0.
        42 => version: u16,
        /// First cluster of the root directory.
        44 => root_cluster: u32,
        /// Sector number of [`FatInformation`].
        48 => information_sector: u16,
        /// Sector number of the copy of this boot sector.
        50 => backup_sector: u16,
        /// Drive number of the BIOS; 80h is the first disk.
        64 => drive: u8,
        /// 29h if serial number, label and type name follow.
        66 => extended_signature: u8,
        /// Serial number of the volume.
        67 => serial: u32,
        /// Volume label.
        71 => label: [u8; 11],
        /// Name of the FAT type; no system uses it.
        82 => type_name: [u8; 8],
        /// Signature: [`BOOT_SIGNATURE`].
        510 => signature: u16,
    }
}

impl FatBoot {
    /// Reads a boot sector.
    ///
    /// # Errors
    /// Fewer than 512 bytes, no signature, or sizes that no FAT has.
    pub fn parse(bytes: &[u8]) -> Result<Self, MediaError> {
        let boot = Self::decode(chunk::<SECTOR_BYTES>(bytes, 0)?, 0);
        require_boot_signature(boot.signature)?;
        require(matches!(boot.jump[0], 0xEB | 0xE9), 0, "jump to the boot code", boot.jump[0])?;
        Self::parse_sizes(bytes)
    }

    /// Reads the sizes of a boot sector. Jump and signature are not checked, as Linux checks neither.
    ///
    /// # Errors
    /// Fewer than 512 bytes, or sizes that no FAT has.
    pub fn parse_sizes(bytes: &[u8]) -> Result<Self, MediaError> {
        let boot = Self::decode(chunk::<SECTOR_BYTES>(bytes, 0)?, 0);
        let is_size = boot.sector_bytes.is_power_of_two()
            && (SECTOR_BYTES as u16..=SECTOR_BYTES_MAX).contains(&boot.sector_bytes);
        require(is_size, 11, "bytes of a sector", boot.sector_bytes)?;
        require(boot.cluster_sectors.is_power_of_two(), 13, "sectors of a cluster", boot.cluster_sectors)?;
        require(boot.reserved_sectors > 0, 14, "reserved sectors", boot.reserved_sectors)?;
        require((1..=2).contains(&boot.fats), 16, "number of FATs", boot.fats)?;
        require(boot.fat_sectors() > 0, 22, "sectors of a FAT", boot.fat_sectors_16)?;
        if boot.clusters() == 0 {
            return Err(Reason::Inconsistent { what: "no room for a cluster" }.at(32));
        }
        Ok(boot)
    }

    /// The sector as bytes; the signature is set.
    #[must_use]
    pub fn emit(&self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        Self { signature: BOOT_SIGNATURE, ..*self }.put(&mut bytes, 0);
        bytes
    }

    /// Positions of the areas. The number of clusters alone determines the type (fatgen103).
    #[must_use]
    pub fn layout(&self) -> FatLayout {
        let in_bytes = |sectors: u64| sectors * u64::from(self.sector_bytes);
        let kind = match self.clusters() {
            clusters if clusters < FAT16_CLUSTERS_MIN => FatType::Fat12,
            clusters if clusters < FAT32_CLUSTERS_MIN => FatType::Fat16,
            _ => FatType::Fat32,
        };
        FatLayout {
            kind,
            cluster_bytes: in_bytes(u64::from(self.cluster_sectors)),
            fat_start: in_bytes(u64::from(self.reserved_sectors)),
            fat_end: in_bytes(self.fat_end()),
            data_start: in_bytes(self.data_start()),
        }
    }

    /// Size of one FAT, sectors.
    #[must_use]
    pub fn fat_sectors(&self) -> u64 {
        either(self.fat_sectors_16, self.fat_sectors_32)
    }

    fn fat_end(&self) -> u64 {
        u64::from(self.reserved_sectors) + u64::from(self.fats) * self.fat_sectors()
    }

    /// First sector after the root directory of FAT12 and FAT16.
    fn data_start(&self) -> u64 {
        let root_bytes = u64::from(self.root_entries) * ENTRY_BYTES;
        self.fat_end() + root_bytes.div_ceil(u64::from(self.sector_bytes).max(1))
    }

    /// Number of clusters in the filesystem.
    #[must_use]
    pub fn clusters(&self) -> u64 {
        let sectors = either(self.sectors_16, self.sectors_32);
        sectors.saturating_sub(self.data_start()) / u64::from(self.cluster_sectors).max(1)
    }
}

/// The 16-bit field, or the 32-bit field if the 16-bit field is 0.
const fn either(short: u16, long: u32) -> u64 {
    if short == 0 { long as u64 } else { short as u64 }
}

layout! {
    /// FSInfo, the sector of FAT32 with the number of free clusters.
    pub struct FatInformation[512] {
        /// The letters "RRaA".
        0 => signature: [u8; 4],
        /// The letters "rrAa".
        484 => signature_2: [u8; 4],
        /// Number of free clusters.
        488 => free_clusters: u32,
        /// Cluster at which the search for a free cluster begins.
        492 => next_free: u32,
        /// Signature: [`BOOT_SIGNATURE`].
        510 => boot_signature: u16,
    }
}

impl FatInformation {
    /// The sector as bytes; the signatures are set.
    #[must_use]
    pub fn emit(&self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        let signed =
            Self { signature: *b"RRaA", signature_2: *b"rrAa", boot_signature: BOOT_SIGNATURE, ..*self };
        signed.put(&mut bytes, 0);
        bytes
    }
}
