//! FAT12, FAT16 and FAT32: the boot sector, and the sector of FAT32 that counts free clusters.

use super::{BOOT_SIGNATURE, SECTOR_BYTES, require_boot_signature};
use crate::error::{MediaError, Reason, require};
use crate::wire::{Wire as _, chunk, layout};
use core::fmt;

/// Fewest clusters of a FAT16; with fewer it is a FAT12.
pub const FAT16_CLUSTERS_MIN: u64 = 4085;
/// Fewest clusters of a FAT32; with fewer it is a FAT16.
pub const FAT32_CLUSTERS_MIN: u64 = 65_525;
/// Bytes of an entry of a directory.
const ENTRY_BYTES: u64 = 32;
/// Largest sector that a FAT or exFAT has, in bytes.
const SECTOR_BYTES_MAX: u16 = 4096;

/// Type of a FAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FatType {
    /// Entries of 12 bits.
    Fat12,
    /// Entries of 16 bits.
    Fat16,
    /// Entries of 32 bits.
    Fat32,
    /// The filesystem of SDXC cards.
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
    /// The boot sector. Fields from offset 36 on are those of FAT32.
    pub struct FatBoot[512] {
        /// Jump to the boot code.
        0 => jump: [u8; 3],
        /// System that made the filesystem.
        3 => oem: [u8; 8],
        /// Bytes of a sector.
        11 => sector_bytes: u16,
        /// Sectors of a cluster, a power of two.
        13 => cluster_sectors: u8,
        /// Sectors before the first FAT.
        14 => reserved_sectors: u16,
        /// Number of FATs.
        16 => fats: u8,
        /// Entries of the root directory; 0 in FAT32.
        17 => root_entries: u16,
        /// Sectors of the filesystem; 0: see [`sectors_32`](Self::sectors_32).
        19 => sectors_16: u16,
        /// Medium: F8h is a fixed disk.
        21 => medium: u8,
        /// Sectors of a FAT; 0: see [`fat_sectors_32`](Self::fat_sectors_32).
        22 => fat_sectors_16: u16,
        /// Sectors of a track.
        24 => track_sectors: u16,
        /// Number of heads.
        26 => heads: u16,
        /// Sectors before the filesystem, on its disk.
        28 => hidden_sectors: u32,
        /// Sectors of the filesystem.
        32 => sectors_32: u32,
        /// Sectors of a FAT.
        36 => fat_sectors_32: u32,
        /// Which FATs are active.
        40 => flags: u16,
        /// Version: 0.
        42 => version: u16,
        /// First cluster of the root directory.
        44 => root_cluster: u32,
        /// Sector of [`FatInformation`].
        48 => information_sector: u16,
        /// Sector of the copy of this sector.
        50 => backup_sector: u16,
        /// Number of the drive: 80h is the first disk.
        64 => drive: u8,
        /// 29h: serial number, label and type follow.
        66 => extended_signature: u8,
        /// Serial number.
        67 => serial: u32,
        /// Volume label.
        71 => label: [u8; 11],
        /// Name of the type, which nothing reads.
        82 => type_name: [u8; 8],
        /// [`BOOT_SIGNATURE`].
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

    /// Reads the sizes of a boot sector, whatever its jump and its signature are: Linux reads neither.
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

    /// The bytes of the sector, with its signature.
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

    /// Sectors of a FAT.
    #[must_use]
    pub fn fat_sectors(&self) -> u64 {
        either(self.fat_sectors_16, self.fat_sectors_32)
    }

    fn fat_end(&self) -> u64 {
        u64::from(self.reserved_sectors) + u64::from(self.fats) * self.fat_sectors()
    }

    /// Sector after the root directory of FAT12 and FAT16.
    fn data_start(&self) -> u64 {
        let root_bytes = u64::from(self.root_entries) * ENTRY_BYTES;
        self.fat_end() + root_bytes.div_ceil(u64::from(self.sector_bytes).max(1))
    }

    /// Number of clusters.
    #[must_use]
    pub fn clusters(&self) -> u64 {
        let sectors = either(self.sectors_16, self.sectors_32);
        sectors.saturating_sub(self.data_start()) / u64::from(self.cluster_sectors).max(1)
    }
}

/// The 16-bit field, or the 32-bit field if that is 0.
const fn either(short: u16, long: u32) -> u64 {
    if short == 0 { long as u64 } else { short as u64 }
}

layout! {
    /// FSInfo: the sector of FAT32 that counts free clusters.
    pub struct FatInformation[512] {
        /// "RRaA".
        0 => signature: [u8; 4],
        /// "rrAa".
        484 => signature_2: [u8; 4],
        /// Free clusters.
        488 => free_clusters: u32,
        /// Cluster from which a search for a free one begins.
        492 => next_free: u32,
        /// [`BOOT_SIGNATURE`].
        510 => boot_signature: u16,
    }
}

impl FatInformation {
    /// The bytes of the sector, with its signatures.
    #[must_use]
    pub fn emit(&self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        let signed =
            Self { signature: *b"RRaA", signature_2: *b"rrAa", boot_signature: BOOT_SIGNATURE, ..*self };
        signed.put(&mut bytes, 0);
        bytes
    }
}
