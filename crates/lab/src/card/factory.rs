//! The format with which cards leave the factory: the partition table alone in the first allocation unit, FATs in the second, file data
//! from an allocation unit's beginning on (Chubb 2015). FAT32 up to 32 GiB, as SDHC has it, exFAT above, as SDXC.

use super::LoadedCard;
use crate::Error;
use floatgate_mtd::SECTOR_BYTES;

/// Sectors from an address on; all others of a new card are zeros.
pub(super) struct Content {
    pub(super) lba: u64,
    pub(super) bytes: Vec<u8>,
}

const SECTOR: u64 = SECTOR_BYTES as u64;

/// Largest SDHC card.
const FAT32_BYTES_MAX: u64 = 32 << 30;
/// Fewest clusters of a FAT32; with fewer it would be a FAT16.
const FAT32_CLUSTERS_MIN: u64 = 65_525;
/// Cluster of SDHC cards: 64 KiB (Chubb 2015). Smaller cards have smaller ones.
const FAT32_CLUSTER_SECTORS: u64 = 128;
/// Cluster of SDXC cards: 128 KiB.
const EXFAT_CLUSTER_SECTORS: u64 = 256;
/// Sectors before the first FAT: boot sector, information, and their backups.
const RESERVED_SECTORS_MIN: u64 = 32;
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
        Error::asked(
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
    length.and_then(|length| partition_table(0x83, start, length)).ok_or_else(|| {
        Error::asked(
            format!("a card of {sectors} sectors with allocation units of {au_bytes} bytes has no room for a partition"),
            "choose another card, or override `card.capacity_bytes`",
        )
    })
}

/// The partition table: one partition, of which only the address in sectors counts.
fn partition_table(kind: u8, start: u64, sectors: u64) -> Option<Content> {
    let mut bytes = vec![0; SECTOR_BYTES];
    put(&mut bytes, 440, &SERIAL.to_le_bytes());
    // Cylinder, head and sector are beyond what the fields can say.
    put(&mut bytes, 446, &[0, 0xFE, 0xFF, 0xFF, kind, 0xFE, 0xFF, 0xFF]);
    put(&mut bytes, 454, &u32::try_from(start).ok()?.to_le_bytes());
    put(&mut bytes, 458, &u32::try_from(sectors).ok()?.to_le_bytes());
    put(&mut bytes, 510, &[0x55, 0xAA]);
    Some(Content { lba: 0, bytes })
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
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
    let mut boot = vec![0; SECTOR_BYTES];
    put(&mut boot, 0, &[0xEB, 0x58, 0x90]);
    put(&mut boot, 3, b"MSDOS5.0");
    put(&mut boot, 11, &(SECTOR_BYTES as u16).to_le_bytes());
    put(&mut boot, 13, &[cluster as u8]);
    put(&mut boot, 14, &(reserved as u16).to_le_bytes());
    // Two FATs; a fixed medium; a geometry of 63 sectors and 255 heads.
    put(&mut boot, 16, &[2]);
    put(&mut boot, 21, &[0xF8]);
    put(&mut boot, 24, &[63, 0, 255, 0]);
    put(&mut boot, 28, &u32::try_from(start).ok()?.to_le_bytes());
    put(&mut boot, 32, &u32::try_from(length).ok()?.to_le_bytes());
    put(&mut boot, 36, &u32::try_from(fat_sectors).ok()?.to_le_bytes());
    // Root directory in cluster 2, information in sector 1, backup in sector 6.
    put(&mut boot, 44, &2_u32.to_le_bytes());
    put(&mut boot, 48, &[1, 0, 6, 0]);
    put(&mut boot, 64, &[0x80, 0, 0x29]);
    put(&mut boot, 67, &SERIAL.to_le_bytes());
    put(&mut boot, 71, b"NO NAME    FAT32   ");
    put(&mut boot, 510, &[0x55, 0xAA]);
    let mut information = vec![0; SECTOR_BYTES];
    put(&mut information, 0, b"RRaA");
    put(&mut information, 484, b"rrAa");
    put(&mut information, 488, &(clusters as u32 - 1).to_le_bytes());
    put(&mut information, 492, &3_u32.to_le_bytes());
    put(&mut information, 510, &[0x55, 0xAA]);
    let head: Vec<u8> = boot.into_iter().chain(information).collect();
    let table = fat(&[0x0FFF_FFF8, 0x0FFF_FFFF, 0x0FFF_FFFF]);
    let first_fat = start + reserved;
    Some(vec![
        partition_table(0x0C, start, length)?,
        Content { lba: start, bytes: head.clone() },
        Content { lba: start + 6, bytes: head },
        Content { lba: first_fat, bytes: table.clone() },
        Content { lba: first_fat + fat_sectors, bytes: table },
    ])
}

/// End of a chain in exFAT.
const LAST: u32 = 0xFFFF_FFFF;

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
    let layout = ExfatLayout { start: au, length, fat_sectors, heap, clusters, root };
    let regions = layout.boot_region()?;
    let chain = (3..2 + bitmap_clusters as u32).chain([LAST; 3]);
    let table: Vec<u32> = [0xFFFF_FFF8, LAST].into_iter().chain(chain).collect();
    let mut bitmap = vec![0; (used.div_ceil(8) as usize).next_multiple_of(SECTOR_BYTES)];
    (0..used as usize).for_each(|cluster| bitmap[cluster / 8] |= 1 << (cluster % 8));
    let letters = capital_letters();
    let mut directory = vec![0; SECTOR_BYTES];
    // A label without letters comes first.
    put(&mut directory, 0, &[0x83]);
    put(&mut directory, 32, &entry(0x81, [0; 4], 2, bitmap_bytes));
    let sum = checksum(letters.iter().copied()).to_le_bytes();
    put(&mut directory, 64, &entry(0x82, sum, capitals as u32, letters.len() as u64));
    let mut letters = letters;
    letters.resize(letters.len().next_multiple_of(SECTOR_BYTES), 0);
    let place = |number: u64| au + heap + (number - 2) * cluster;
    Some(vec![
        partition_table(0x07, au, length)?,
        Content { lba: au, bytes: [&regions[..], &regions[..]].concat() },
        Content { lba: au + RESERVED_SECTORS_MIN, bytes: fat(&table) },
        Content { lba: place(2), bytes: bitmap },
        Content { lba: place(capitals), bytes: letters },
        Content { lba: place(root), bytes: directory },
    ])
}

/// An entry of the root directory that names clusters.
fn entry(kind: u8, sum: [u8; 4], cluster: u32, bytes: u64) -> [u8; 32] {
    let mut entry = [0; 32];
    entry[0] = kind;
    put(&mut entry, 4, &sum);
    put(&mut entry, 20, &cluster.to_le_bytes());
    put(&mut entry, 24, &bytes.to_le_bytes());
    entry
}

/// The checksum of exFAT.
fn checksum(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0_u32, |sum, byte| sum.rotate_right(1).wrapping_add(u32::from(byte)))
}

/// The table of capital letters: those of ASCII, and a run of all other characters, which stay as they are.
fn capital_letters() -> Vec<u8> {
    const ASCII: u16 = 128;
    let ascii = (0..ASCII as u8).map(|letter| u16::from(letter.to_ascii_uppercase()));
    let run = [0xFFFF, u16::MAX - ASCII + 1];
    ascii.chain(run).flat_map(u16::to_le_bytes).collect()
}

/// Sizes and places of an exFAT in sectors and clusters; `start` counts from the beginning of the card, all others from there.
struct ExfatLayout {
    start: u64,
    length: u64,
    fat_sectors: u64,
    heap: u64,
    clusters: u64,
    root: u64,
}

impl ExfatLayout {
    /// The boot region: 11 sectors and their checksum.
    fn boot_region(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 12 * SECTOR_BYTES];
        put(&mut bytes, 0, &[0xEB, 0x76, 0x90]);
        put(&mut bytes, 3, b"EXFAT   ");
        put(&mut bytes, 64, &self.start.to_le_bytes());
        put(&mut bytes, 72, &self.length.to_le_bytes());
        let words = [RESERVED_SECTORS_MIN, self.fat_sectors, self.heap, self.clusters, self.root];
        for (at, word) in (80..).step_by(4).zip(words) {
            put(&mut bytes, at, &u32::try_from(word).ok()?.to_le_bytes());
        }
        put(&mut bytes, 100, &SERIAL.to_le_bytes());
        let cluster_shift = EXFAT_CLUSTER_SECTORS.trailing_zeros() as u8;
        // Revision 1.0, no flags, sectors of 2^9 bytes, one FAT, how full it is unknown.
        put(&mut bytes, 104, &[0, 1, 0, 0, 9, cluster_shift, 1, 0x80, 0xFF]);
        put(&mut bytes, 510, &[0x55, 0xAA]);
        for sector in 1..9 {
            put(&mut bytes, sector * SECTOR_BYTES + 510, &[0x55, 0xAA]);
        }
        let counted = bytes[..11 * SECTOR_BYTES].iter().zip(0..);
        // Flags and the share in use change without it.
        let counted = counted.filter(|(_, at)| ![106, 107, 112].contains(at)).map(|(byte, _)| *byte);
        let sum = checksum(counted).to_le_bytes();
        bytes[11 * SECTOR_BYTES..].chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&sum));
        Some(bytes)
    }
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
