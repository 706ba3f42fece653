//! The format with which cards leave the factory: the partition table alone in the first allocation unit, FATs in the second, file data
//! from an allocation unit's beginning on (Chubb 2015). FAT32 up to 32 GiB, as SDHC has it, exFAT above, as SDXC.

use super::LoadedCard;
use crate::Error;
use floatgate_media::disk::exfat::{
    self, BOOT_REGION_SECTORS, END_OF_CHAIN, ExfatBoot, ExfatEntry, FAT_MEDIUM,
};
use floatgate_media::disk::fat::{FAT32_CLUSTERS_MIN, FatBoot, FatInformation};
use floatgate_media::disk::mbr::{self, Mbr, MbrEntry};
use floatgate_mtd::SECTOR_BYTES;

/// Sectors from an address on; all others of a new card are zeros.
pub(super) struct Content {
    pub(super) lba: u64,
    pub(super) bytes: Vec<u8>,
}

const SECTOR: u64 = SECTOR_BYTES as u64;

/// Largest SDHC card.
const FAT32_BYTES_MAX: u64 = 32 << 30;
/// Cluster of SDHC cards: 64 KiB (Chubb 2015). Smaller cards have smaller ones.
const FAT32_CLUSTER_SECTORS: u64 = 128;
/// Cluster of SDXC cards: 128 KiB.
const EXFAT_CLUSTER_SECTORS: u64 = 256;
/// Sectors before the first FAT: boot sector, information, and their backups; of exFAT two boot regions.
const RESERVED_SECTORS_MIN: u64 = 32;
const _: () = assert!(RESERVED_SECTORS_MIN as usize >= 2 * BOOT_REGION_SECTORS);
/// Sector of the copy of the boot sector of a FAT32.
const FAT32_BACKUP_SECTOR: u64 = 6;
/// The field has 16 bits.
const RESERVED_SECTORS_MAX: u64 = 65_535;
/// Serial number of the volume: any.
const SERIAL: u32 = 0x666C_6761;

/// Content of a card from the factory.
///
/// # Errors
/// A card that is too small for the format.
pub(super) fn format(card: &LoadedCard) -> Result<Vec<Content>, Error> {
    let spec = &card.spec;
    let capacity = spec.fake.map_or(spec.capacity_bytes, |fake| fake.claimed_bytes);
    let (sectors, au) = (capacity / SECTOR, spec.au_bytes / SECTOR);
    let content = if capacity <= FAT32_BYTES_MAX { fat32(sectors, au) } else { exfat(sectors, au) };
    content.ok_or_else(|| {
        Error::request(
            format!(
                "a card of {capacity} bytes with allocation units of {} is too small for its format",
                spec.au_bytes
            ),
            "choose a larger card, or override `card.capacity_bytes`",
        )
    })
}

/// A table with one partition of Linux, from the second allocation unit of a card to its end.
///
/// # Errors
/// A card of fewer than two units, or with more sectors than the table can say.
pub(super) fn one_partition(sectors: u64, au_bytes: u64) -> Result<Content, Error> {
    let start = au_bytes / SECTOR;
    let length = sectors.checked_sub(start).filter(|length| *length > 0);
    length.and_then(|length| partition_table(mbr::kind::LINUX, start, length)).ok_or_else(|| {
        Error::request(
            format!("a card of {sectors} sectors with allocation units of {au_bytes} bytes has no room for a partition"),
            "choose another card, or override `card.capacity_bytes`",
        )
    })
}

/// A table of one partition.
fn partition_table(kind: u8, start: u64, sectors: u64) -> Option<Content> {
    let partition = MbrEntry::new(kind, u32::try_from(start).ok()?, u32::try_from(sectors).ok()?);
    Some(Content { lba: 0, bytes: Mbr::new(SERIAL, &[partition]).emit().to_vec() })
}

/// Bytes of the first entries of a FAT, in whole sectors.
fn fat(entries: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES), 0);
    bytes
}

/// FAT32 as in Microsoft's specification of 2000 (fatgen103). `None` for a card that is too small.
fn fat32(sectors: u64, au: u64) -> Option<Vec<Content>> {
    let of_size = |cluster: &u64| sectors / cluster > FAT32_CLUSTERS_MIN + 2 * au / cluster + 16;
    let cluster = std::iter::successors(Some(FAT32_CLUSTER_SECTORS), |size| Some(size / 2))
        .take_while(|size| *size > 0)
        .find(of_size)?;
    let fat_sectors = ((sectors / cluster + 2) * 4).div_ceil(SECTOR);
    let data = au + (RESERVED_SECTORS_MIN + 2 * fat_sectors).next_multiple_of(au);
    // Where the field cannot reach back to the beginning of the second unit, the partition begins inside it.
    let earliest = (data - 2 * fat_sectors).saturating_sub(RESERVED_SECTORS_MAX).next_multiple_of(cluster);
    let start = earliest.max(au);
    let reserved = data - 2 * fat_sectors - start;
    let length = sectors.checked_sub(start)?;
    let clusters = sectors.checked_sub(data)? / cluster;
    if clusters < FAT32_CLUSTERS_MIN {
        return None;
    }
    let boot = FatBoot {
        jump: [0xEB, 0x58, 0x90],
        oem: *b"MSDOS5.0",
        sector_bytes: SECTOR_BYTES as u16,
        cluster_sectors: cluster as u8,
        reserved_sectors: reserved as u16,
        fats: 2,
        medium: 0xF8,
        track_sectors: 63,
        heads: 255,
        hidden_sectors: u32::try_from(start).ok()?,
        sectors_32: u32::try_from(length).ok()?,
        fat_sectors_32: u32::try_from(fat_sectors).ok()?,
        root_cluster: 2,
        information_sector: 1,
        backup_sector: FAT32_BACKUP_SECTOR as u16,
        drive: 0x80,
        extended_signature: 0x29,
        serial: SERIAL,
        label: *b"NO NAME    ",
        type_name: *b"FAT32   ",
        ..FatBoot::default()
    };
    let information =
        FatInformation { free_clusters: clusters as u32 - 1, next_free: 3, ..FatInformation::default() };
    let head = [boot.emit(), information.emit()].concat();
    let table = fat(&[0x0FFF_FFF8, 0x0FFF_FFFF, 0x0FFF_FFFF]);
    let first_fat = start + reserved;
    Some(vec![
        partition_table(mbr::kind::FAT32, start, length)?,
        Content { lba: start, bytes: head.clone() },
        Content { lba: start + FAT32_BACKUP_SECTOR, bytes: head },
        Content { lba: first_fat, bytes: table.clone() },
        Content { lba: first_fat + fat_sectors, bytes: table },
    ])
}

/// exFAT as in Microsoft's specification of 2019. `None` for a card that is too small.
fn exfat(sectors: u64, au: u64) -> Option<Vec<Content>> {
    let cluster = EXFAT_CLUSTER_SECTORS;
    let fat_sectors = ((sectors / cluster + 2) * 4).div_ceil(SECTOR);
    let heap = (RESERVED_SECTORS_MIN + fat_sectors).next_multiple_of(au);
    let length = sectors.checked_sub(au)?;
    let clusters = length.checked_sub(heap)? / cluster;
    // The bitmap of the clusters from cluster 2 on, then the table of capital letters, then the root directory.
    let bitmap_bytes = clusters.div_ceil(8);
    let bitmap_clusters = bitmap_bytes.div_ceil(cluster * SECTOR);
    let (capitals, root) = (2 + bitmap_clusters, 3 + bitmap_clusters);
    let used = bitmap_clusters + 2;
    let boot = ExfatBoot {
        jump: [0xEB, 0x76, 0x90],
        partition_start: au,
        sectors: length,
        fat_start: RESERVED_SECTORS_MIN as u32,
        fat_sectors: u32::try_from(fat_sectors).ok()?,
        heap_start: u32::try_from(heap).ok()?,
        clusters: u32::try_from(clusters).ok()?,
        root_cluster: u32::try_from(root).ok()?,
        serial: SERIAL,
        revision: 0x100,
        sector_shift: SECTOR_BYTES.trailing_zeros() as u8,
        cluster_shift: cluster.trailing_zeros() as u8,
        fats: 1,
        drive: 0x80,
        percent_in_use: 0xFF,
        ..ExfatBoot::default()
    };
    let region = boot.emit_region();
    let chain = (3..2 + bitmap_clusters as u32).chain([END_OF_CHAIN; 3]);
    let table: Vec<u32> = [FAT_MEDIUM, END_OF_CHAIN].into_iter().chain(chain).collect();
    let mut bitmap = vec![0; (used.div_ceil(8) as usize).next_multiple_of(SECTOR_BYTES)];
    (0..used as usize).for_each(|cluster| bitmap[cluster / 8] |= 1 << (cluster % 8));
    let mut letters = capital_letters();
    let mut directory = vec![0; SECTOR_BYTES];
    // A label without letters comes first.
    let entries = [
        ExfatEntry { kind: exfat::kind::LABEL, ..ExfatEntry::default() },
        ExfatEntry { kind: exfat::kind::BITMAP, cluster: 2, bytes: bitmap_bytes, checksum: 0 },
        ExfatEntry {
            kind: exfat::kind::CAPITAL_LETTERS,
            checksum: exfat::checksum(letters.iter().copied()),
            cluster: capitals as u32,
            bytes: letters.len() as u64,
        },
    ];
    (0..).zip(entries).for_each(|(index, entry)| entry.emit(&mut directory, index));
    letters.resize(letters.len().next_multiple_of(SECTOR_BYTES), 0);
    let place = |number: u64| au + heap + (number - 2) * cluster;
    Some(vec![
        partition_table(mbr::kind::EXFAT, au, length)?,
        Content { lba: au, bytes: region.repeat(2) },
        Content { lba: au + RESERVED_SECTORS_MIN, bytes: fat(&table) },
        Content { lba: place(2), bytes: bitmap },
        Content { lba: place(capitals), bytes: letters },
        Content { lba: place(root), bytes: directory },
    ])
}

/// The table of capital letters: those of ASCII, and a run of all other characters, which stay as they are.
fn capital_letters() -> Vec<u8> {
    const ASCII: u16 = 128;
    let ascii = (0..ASCII as u8).map(|letter| u16::from(letter.to_ascii_uppercase()));
    let run = [0xFFFF, u16::MAX - ASCII + 1];
    ascii.chain(run).flat_map(u16::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::load;
    use floatgate_config::Library;

    fn content(card: &str) -> (LoadedCard, Vec<Content>) {
        let card = load(&Library::built_in(), card, &[]).unwrap();
        let content = format(&card).unwrap();
        (card, content)
    }

    #[test]
    fn the_table_is_alone_in_its_unit_and_the_fats_are_in_the_next() {
        for name in
            ["kingston-class-10", "sandisk-ultra-16g", "toshiba-exceria-32g", "fake-limbo-32g", "a2-128g"]
        {
            let (card, content) = content(name);
            let au = card.spec.au_bytes / SECTOR;
            assert_eq!((content[0].lba, content[0].bytes.len()), (0, SECTOR_BYTES), "{name}");
            let fats = content[1..].iter().map(|content| content.lba / au);
            assert!(fats.clone().all(|unit| unit >= 1), "{name}");
            assert_eq!(fats.min(), Some(1), "{name}");
        }
    }

    #[test]
    fn a_card_may_be_too_small() {
        assert!(fat32(60_000, 8192).is_none());
        assert!(fat32(100_000, 64).is_some());
        assert!(exfat(8192, 8192).is_none());
    }
}
