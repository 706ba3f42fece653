//! Both copies of a GPT in a map: each is one part with its entries.

use std::io::Write as _;

use floatgate_image::Image;
use floatgate_image::map::{Checksum, Kind, map};
use floatgate_media::disk::gpt::{GptEntry, GptHeader};

const SECTOR: usize = 512;

/// Sectors of the disk, and of the entries.
const SECTORS: u64 = 128;
const ENTRIES: u64 = 32;

fn header(own: u64, backup: u64, entries: u64) -> GptHeader {
    GptHeader {
        signature: *b"EFI PART",
        revision: 0x1_0000,
        header_bytes: 92,
        crc: 0,
        own_sector: own,
        backup_sector: backup,
        first_usable: 34,
        last_usable: SECTORS - 34,
        disk_guid: [1; 16],
        entries_sector: entries,
        entries: 128,
        entry_bytes: 128,
        entries_crc: 0,
    }
}

#[test]
fn the_entries_of_the_second_copy_belong_to_it() {
    let mut array = vec![0; ENTRIES as usize * SECTOR];
    let entry =
        GptEntry { kind: [2; 16], guid: [3; 16], first: 40, last: 60, attributes: 0, name: [0x61; 36] };
    entry.emit(&mut array, 0);
    let mut disk = vec![0; SECTORS as usize * SECTOR];
    let last = SECTORS - 1;
    for (own, backup, entries) in [(1, last, 2), (last, 1, last - ENTRIES)] {
        let at = own as usize * SECTOR;
        disk[at..at + SECTOR].copy_from_slice(&header(own, backup, entries).emit(&array));
        let at = entries as usize * SECTOR;
        disk[at..at + array.len()].copy_from_slice(&array);
    }
    disk[45 * SECTOR..46 * SECTOR].fill(0x5A);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::File::create(&path).unwrap().write_all(&disk).unwrap();
    let map = map(&Image::open_any(&path, None).unwrap()).unwrap();
    let tables: Vec<_> = map.top().filter(|part| part.kind == Kind::Gpt).collect();
    let places: Vec<(u64, u64)> = tables.iter().map(|part| (part.offset, part.len)).collect();
    let sector = SECTOR as u64;
    let expected = [(sector, (1 + ENTRIES) * sector), ((last - ENTRIES) * sector, (1 + ENTRIES) * sector)];
    assert_eq!(places, expected, "{map:#?}");
    assert!(tables.iter().all(|part| part.checksum == Checksum::Good));
    assert_eq!(map.top().map(|part| part.len).sum::<u64>(), map.size);
}
