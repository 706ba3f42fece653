//! Tests of the first sectors of disks and partitions.

use floatgate_media::disk::exfat::{self, ExfatBoot, ExfatEntry};
use floatgate_media::disk::fat::{FatBoot, FatInformation, FatType};
use floatgate_media::disk::gpt::{GptEntry, GptHeader};
use floatgate_media::disk::mbr::{Mbr, MbrEntry, kind};
use floatgate_media::disk::member::{ends_as_swap, is_lvm_label, is_raid_0_90, is_raid_1};
use floatgate_media::{MediaError, Reason};
use proptest::prelude::*;

/// A FAT32 filesystem of 2 GiB minus 4 MiB.
fn fat32() -> FatBoot {
    FatBoot {
        jump: [0xEB, 0x58, 0x90],
        sector_bytes: 512,
        cluster_sectors: 8,
        reserved_sectors: 32,
        fats: 2,
        sectors_32: 4_186_112,
        fat_sectors_32: 4096,
        ..FatBoot::default()
    }
}

fn exfat() -> ExfatBoot {
    ExfatBoot {
        sectors: 131_072,
        fat_start: 2048,
        fat_sectors: 512,
        heap_start: 8192,
        clusters: 480,
        sector_shift: 9,
        cluster_shift: 8,
        fats: 1,
        ..ExfatBoot::default()
    }
}

fn gpt() -> (GptHeader, Vec<u8>) {
    let mut array = vec![0; 4 * GptEntry::SIZE];
    GptEntry { kind: [0xA2; 16], first: 2048, last: 4095, ..GptEntry::default() }.emit(&mut array, 0);
    GptEntry { kind: [0xA2; 16], first: 4096, last: 8191, ..GptEntry::default() }.emit(&mut array, 2);
    (GptHeader { entries_sector: 2, entries: 4, entry_bytes: 128, ..GptHeader::default() }, array)
}

#[test]
fn fields_stand_where_the_specifications_have_them() {
    let mbr = Mbr::new(0x6C66, &[MbrEntry::new(kind::FAT32, 8192, 100)]).emit();
    assert_eq!(mbr[440..442], [0x66, 0x6C]);
    assert_eq!(mbr[446..462], [0, 0xFE, 0xFF, 0xFF, 0x0C, 0xFE, 0xFF, 0xFF, 0, 0x20, 0, 0, 100, 0, 0, 0]);
    assert_eq!(mbr[510..], [0x55, 0xAA]);
    let boot = fat32().emit();
    assert_eq!((boot[13], boot[16], &boot[36..40]), (8, 2, &[0, 0x10, 0, 0][..]));
    let information = FatInformation { free_clusters: 7, ..FatInformation::default() }.emit();
    assert_eq!((&information[..4], &information[484..489]), (&b"RRaA"[..], &b"rrAa\x07"[..]));
    let region = exfat().emit_region();
    assert_eq!((&region[3..11], &region[88..92]), (&b"EXFAT   "[..], &[0, 0x20, 0, 0][..]));
    // The checksum fills the last sector and does not cover the percentage in use.
    assert_eq!(ExfatBoot { percent_in_use: 50, ..exfat() }.emit_region()[11 * 512..], region[11 * 512..]);
    assert_ne!(ExfatBoot { serial: 1, ..exfat() }.emit_region()[11 * 512..], region[11 * 512..]);
    let mut directory = [0; 64];
    ExfatEntry { kind: exfat::kind::BITMAP, cluster: 2, bytes: 60, checksum: 0 }.emit(&mut directory, 1);
    assert_eq!((directory[32], directory[52], directory[56]), (0x81, 2, 60));
}

#[test]
fn emitted_structures_are_read_again() {
    let mbr = Mbr::new(1, &[MbrEntry::new(kind::LINUX, 1, 2), MbrEntry::new(kind::EXFAT, 3, 4)]);
    assert_eq!(Mbr::parse(&mbr.emit()), Ok(mbr));
    assert_eq!(mbr.entries.iter().filter(|entry| entry.is_used()).count(), 2);
    let layout = FatBoot::parse(&fat32().emit()).unwrap().layout();
    assert_eq!((layout.kind, layout.cluster_bytes), (FatType::Fat32, 4096));
    assert_eq!((layout.fat_start, layout.fat_end, layout.data_start), (32 * 512, 8224 * 512, 8224 * 512));
    let layout = ExfatBoot::parse(&exfat().emit_region()).unwrap().layout();
    assert_eq!((layout.kind, layout.cluster_bytes), (FatType::ExFat, 128 << 10));
    assert_eq!((layout.fat_start, layout.fat_end, layout.data_start), (1 << 20, 2560 * 512, 4 << 20));
    let (header, array) = gpt();
    let header = GptHeader::parse(&header.emit(&array)).unwrap();
    let used: Vec<(u64, Result<u64, MediaError>)> =
        header.used(&array).unwrap().map(|(number, entry)| (number, entry.sectors())).collect();
    assert_eq!(used, [(1, Ok(2048)), (3, Ok(4096))]);
}

/// The number of clusters alone determines the type of a FAT (fatgen103).
#[test]
fn the_type_of_a_fat_follows_from_its_clusters() {
    for (clusters, expected) in
        [(4084, FatType::Fat12), (4085, FatType::Fat16), (65_524, FatType::Fat16), (65_525, FatType::Fat32)]
    {
        let boot = FatBoot { sectors_32: 8224 + 8 * clusters + 7, ..fat32() };
        assert_eq!(FatBoot::parse(&boot.emit()).unwrap().layout().kind, expected, "{clusters}");
    }
}

#[test]
fn damage_is_refused_with_its_place() {
    let offset = |error: MediaError| error.offset;
    let mut mbr = Mbr::new(1, &[]).emit();
    assert_eq!(Mbr::parse(&mbr[..511]).map_err(offset), Err(0));
    mbr[446 + 16] = 1;
    assert_eq!(Mbr::parse(&mbr).map_err(offset), Err(462));
    for (at, value) in [(0, 0), (11, 1), (13, 3), (16, 0), (510, 0)] {
        let mut boot = fat32().emit();
        boot[at] = value;
        assert_eq!(FatBoot::parse(&boot).map_err(offset), Err(at));
    }
    for (at, value) in [(3, 0), (108, 8), (109, 17), (110, 3), (510, 0)] {
        let mut boot = exfat().emit_region();
        boot[at] = value;
        assert_eq!(ExfatBoot::parse(&boot).map_err(offset), Err(at));
    }
    let (header, mut array) = gpt();
    let mut bytes = header.emit(&array);
    let header = GptHeader::parse(&bytes).unwrap();
    array[40] ^= 1;
    let refused = header.used(&array).map(drop).unwrap_err();
    assert!(matches!(refused.reason, Reason::BadCrc32 { what: "entries", .. }), "{refused}");
    bytes[72] ^= 1;
    assert_eq!(GptHeader::parse(&bytes).map_err(offset), Err(16));
    let back = GptEntry { kind: [1; 16], first: 9, last: 8, ..GptEntry::default() };
    assert_eq!(back.sectors().map_err(offset), Err(40));
}

#[test]
fn members_of_sets_have_signatures() {
    assert!(ends_as_swap(b"..SWAPSPACE2") && ends_as_swap(b"SWAP-SPACE") && !ends_as_swap(b""));
    let raid = |version: u32| [0xA92B_4EFC, version].map(u32::to_le_bytes).concat();
    assert!(is_raid_1(&raid(1)) && !is_raid_1(&raid(2)) && !is_raid_1(&[]));
    assert!(is_raid_0_90(&raid(0)) && is_raid_0_90(&0xA92B_4EFC_u32.to_be_bytes()));
    let label: Vec<u8> = b"LABELONE".iter().chain(&[0; 16]).chain(b"LVM2 001").copied().collect();
    assert!(is_lvm_label(&label) && !is_lvm_label(&label[..31]));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600), signed: bool) {
        let mut bytes = bytes;
        if signed && bytes.len() >= 512 {
            bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
        }
        let _ = Mbr::parse(&bytes);
        let _ = GptHeader::parse(&bytes);
        let _ = FatBoot::parse(&bytes).map(|boot| boot.layout());
        let _ = ExfatBoot::parse(&bytes).map(|boot| boot.layout());
    }
}
