use super::*;
use crate::answer::{Answer, Value};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// A device of which only some sectors are not zeros.
#[derive(Clone)]
pub(crate) struct Disk {
    capacity: u64,
    /// Logical sector, B.
    sector: u64,
    sectors: BTreeMap<u64, Vec<u8>>,
}

impl Disk {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity, sector: 512, sectors: BTreeMap::new() }
    }

    pub(crate) fn put(&mut self, sector: u64, at: usize, field: &[u8]) {
        let bytes = self.sectors.entry(sector).or_insert_with(|| vec![0; 512]);
        bytes[at..at + field.len()].copy_from_slice(field);
    }

    /// Writes an MBR with entries of type, first sector and number of sectors.
    fn mbr(mut self, sector: u64, entries: &[(u8, u32, u32)]) -> Self {
        for (index, (kind, start, sectors)) in entries.iter().enumerate() {
            let at = 446 + 16 * index;
            self.put(sector, at + 4, &[*kind]);
            self.put(sector, at + 8, &start.to_le_bytes());
            self.put(sector, at + 12, &sectors.to_le_bytes());
        }
        self.put(sector, 510, &[0x55, 0xAA]);
        self
    }

    /// Writes a boot sector of a FAT32 with two FATs.
    fn fat32(mut self, sector: u64, cluster: u8, reserved: u16, fat: u32, total: u32) -> Self {
        self.put(sector, 0, &[0xEB, 0x58, 0x90]);
        self.put(sector, 11, &512_u16.to_le_bytes());
        self.put(sector, 13, &[cluster]);
        self.put(sector, 14, &reserved.to_le_bytes());
        self.put(sector, 16, &[2]);
        self.put(sector, 32, &total.to_le_bytes());
        self.put(sector, 36, &fat.to_le_bytes());
        self.put(sector, 510, &[0x55, 0xAA]);
        self
    }

    /// Writes a GPT with partitions from first to last sector.
    pub(crate) fn gpt(self, partitions: &[(u64, u64)]) -> Self {
        self.gpt_in(512, partitions)
    }

    /// Disk with a GPT for sectors of another size.
    fn gpt_in(self, sector: u64, partitions: &[(u64, u64)]) -> Self {
        let of_512 = |number: u64| number * sector / 512;
        let mut disk = self.mbr(0, &[(mbr::kind::PROTECTIVE, 1, u32::MAX)]);
        let mut array = vec![0; 128 * GptEntry::SIZE];
        for (index, (first, last)) in partitions.iter().enumerate() {
            GptEntry { kind: [0xA2; 16], first: *first, last: *last, ..GptEntry::default() }
                .emit(&mut array, index);
        }
        for (sector, bytes) in (of_512(2)..).zip(array.chunks(512)) {
            disk.put(sector, 0, bytes);
        }
        let header = GptHeader { entries_sector: 2, entries: 128, entry_bytes: 128, ..GptHeader::default() };
        let header = header.emit(&array);
        disk.put(of_512(1), 0, &header);
        disk
    }

    fn layout(&self) -> Option<Layout> {
        Layout::read(&mut self.clone()).unwrap()
    }
}

impl Target for Disk {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn sector_bytes(&self) -> u64 {
        self.sector
    }

    fn read(&mut self, position: u64, buf: &mut [u8]) -> Result<u64, TargetError> {
        assert!(position.is_multiple_of(512) && position + buf.len() as u64 <= self.capacity);
        for (sector, piece) in (position / 512..).zip(buf.chunks_mut(512)) {
            match self.sectors.get(&sector) {
                Some(bytes) => piece.copy_from_slice(bytes),
                None => piece.fill(0),
            }
        }
        Ok(1)
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<u64, TargetError> {
        unreachable!("a layout is only read")
    }

    fn flush(&mut self) -> Result<u64, TargetError> {
        Ok(0)
    }

    fn idle(&mut self, _: u64) {}

    fn clock_ns(&self) -> u64 {
        0
    }
}

fn answers(au: Option<u64>, phase: u64, page: Option<u64>, fat_area: Option<u64>) -> Answers {
    let answer = |value: Option<u64>| match value {
        Some(bytes) => Answer::found(Value::Count(bytes), "B", 0.97, "measured".to_owned()),
        None => Answer::unknown("B", 0.5, "not visible"),
    };
    Answers {
        erase_block: answer(au),
        phase: answer(Some(phase)),
        page: answer(page),
        fat_area: answer(fat_area),
        ..Answers::unknown("not measured")
    }
}

fn findings(disk: &Disk, answers: &Answers, stated: Option<&Status>) -> Vec<String> {
    let mut layout = disk.layout().unwrap();
    layout.judge(answers, stated);
    layout.findings
}

/// A card as old tools format it: everything from sector 63 on.
fn from_63() -> Disk {
    Disk::new(2048 * MIB).mbr(0, &[(0x0C, 63, 4_194_304 - 63)]).fat32(63, 8, 32, 4096, 4_194_304 - 63)
}

/// A card whose file data start at 8 MiB.
fn aligned() -> Disk {
    let length = 4_194_304 - 8192;
    Disk::new(2048 * MIB).mbr(0, &[(0x0C, 8192, length)]).fat32(8192, 64, 7168, 512, length)
}

#[test]
fn places_of_a_fat_are_found() {
    let layout = aligned().layout().unwrap();
    let filesystem = Filesystem {
        kind: FatType::Fat16,
        cluster_bytes: 32 << 10,
        fat_start_bytes: 4 * MIB + 7168 * 512,
        fat_end_bytes: 8 * MIB,
        data_start_bytes: 8 * MIB,
    };
    assert_eq!((layout.table, layout.findings.as_slice()), (Table::Mbr, &[][..]));
    let [partition] = layout.partitions.as_slice() else { panic!("{layout:?}") };
    assert_eq!((partition.number, partition.start_bytes, partition.end()), (1, 4 * MIB, 2048 * MIB));
    // 4 186 112 sectors hold 65 280 clusters of 32 KiB, fewer than a FAT32 has.
    assert_eq!(partition.filesystem, Some(filesystem));
    let smaller = from_63().layout().unwrap();
    assert_eq!(smaller.partitions[0].filesystem.map(|found| found.kind), Some(FatType::Fat32));
}

#[test]
fn sector_63_is_on_no_border() {
    let found = findings(&from_63(), &answers(Some(4 * MIB), 0, Some(16 << 10), Some(2 * MIB)), None);
    let [start, clusters, fat] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(
        start,
        "partition 1 starts at 63 sectors, not on an allocation unit of 4 MiB (measured, 97 % sure): it is 32256 B behind the border"
    );
    assert!(clusters.contains("clusters of 4 KiB, less than the 16 KiB"), "{clusters}");
    assert!(fat.contains("only to 2 MiB"), "{fat}");
}

#[test]
fn what_is_on_the_borders_is_not_found_fault_with() {
    let good = answers(Some(4 * MIB), 0, Some(16 << 10), Some(16 * MIB));
    assert!(findings(&aligned(), &good, None).is_empty());
    // Borders may be anywhere.
    let shifted = findings(&aligned(), &answers(Some(4 * MIB), MIB, None, None), None);
    assert!(shifted.len() == 1 && shifted[0].contains("it is 3 MiB behind the border"), "{shifted:?}");
    let phase = 63 * 512 % (4 * MIB);
    let plain = Disk::new(64 * MIB).mbr(0, &[(0x83, 63, 1000)]);
    assert!(findings(&plain, &answers(Some(4 * MIB), phase, None, None), None).is_empty());
}

#[test]
fn what_was_not_measured_is_taken_from_the_card_or_the_page() {
    let nothing = answers(None, 0, None, None);
    assert!(findings(&from_63(), &nothing, None).is_empty());
    let stated = Status { au_bytes: Some(4 * MIB), ..Status::default() };
    assert!(findings(&from_63(), &nothing, Some(&stated))[0].contains("stated by the card"));
    assert!(findings(&from_63(), &answers(None, 0, Some(4096), None), None)[0].contains("a page of 4 KiB"));
}

#[test]
fn data_in_the_middle_of_a_unit_are_found() {
    let disk = Disk::new(2048 * MIB).mbr(0, &[(0x0C, 8192, 100_000)]).fat32(8192, 8, 32, 100, 100_000);
    let found = findings(&disk, &answers(Some(4 * MIB), 0, None, None), None);
    assert!(
        found.len() == 1 && found[0].contains("file data of partition 1 start at 4212 KiB, 116 KiB behind"),
        "{found:?}"
    );
}

#[test]
fn a_file_system_needs_no_table() {
    let disk = Disk::new(64 * MIB).fat32(0, 8, 32, 100, 131_072);
    let layout = disk.layout().unwrap();
    assert_eq!((layout.table, layout.partitions[0].number), (Table::None, 0));
    let mut exfat = Disk::new(64 * MIB);
    exfat.put(0, 3, b"EXFAT   ");
    for (at, value) in [(80, 2048_u32), (84, 512), (88, 8192), (92, 500)] {
        exfat.put(0, at, &value.to_le_bytes());
    }
    exfat.put(0, 108, &[9, 8, 1]);
    exfat.put(0, 510, &[0x55, 0xAA]);
    let found = exfat.layout().unwrap().partitions[0].filesystem.unwrap();
    assert_eq!((found.kind, found.cluster_bytes), (FatType::ExFat, 128 << 10));
    assert_eq!((found.fat_start_bytes, found.fat_end_bytes, found.data_start_bytes), (MIB, 5 << 18, 4 * MIB));
    assert_eq!(Disk::new(64 * MIB).layout(), None);
    assert_eq!(Disk::new(0).layout(), None);
}

#[test]
fn logical_partitions_are_followed_and_chains_end() {
    let disk = Disk::new(64 * MIB).mbr(0, &[(0x83, 2048, 2048), (0x05, 8192, 65_536)]);
    let chain = disk
        .clone()
        .mbr(8192, &[(0x83, 2048, 4096), (0x05, 16_384, 8192)])
        .mbr(24_576, &[(0x83, 2048, 4096)]);
    let layout = chain.layout().unwrap();
    let places: Vec<(u64, u64)> =
        layout.partitions.iter().map(|found| (found.number, found.start_bytes / 512)).collect();
    assert_eq!(places, [(1, 2048), (5, 10_240), (6, 26_624)]);
    assert!(layout.findings.is_empty(), "{:?}", layout.findings);
    let circle = disk.clone().mbr(8192, &[(0x83, 2048, 4096), (0x05, 0, 8192)]);
    assert!(circle.layout().unwrap().findings[0].contains("goes back to sector 8192"));
    assert!(disk.layout().unwrap().findings[0].contains("no table at sector 8192"));
    // A chain that goes on and on, without end.
    let mut long = Disk::new(64 * MIB).mbr(0, &[(0x0F, 1000, 100_000)]);
    for at in 0..1000 {
        long = long.mbr(1000 + at, &[(0x83, 1, 1), (0x05, at as u32 + 1, 1)]);
    }
    let layout = long.layout().unwrap();
    assert_eq!(layout.partitions.len(), PARTITIONS_MAX);
    assert!(layout.findings.iter().any(|found| found.contains("more than 128")), "{:?}", layout.findings);
}

#[test]
fn a_gpt_is_read_and_a_damaged_one_is_not_believed() {
    let disk = Disk::new(64 * MIB).gpt(&[(8192, 16_383), (16_384, 131_071 - 34)]);
    let layout = disk.layout().unwrap();
    let places: Vec<(u64, u64)> =
        layout.partitions.iter().map(|found| (found.start_bytes, found.bytes)).collect();
    assert_eq!(layout.table, Table::Gpt);
    assert_eq!(places, [(4 * MIB, 4 * MIB), (8 * MIB, (131_072 - 34 - 16_384) * 512)]);
    assert!(layout.findings.is_empty(), "{:?}", layout.findings);
    for (sector, at, message) in
        [(1, 0, "no header"), (1, 13, "length"), (1, 60, "bad header CRC"), (2, 33, "bad entries CRC")]
    {
        let mut broken = disk.clone();
        broken.sectors.get_mut(&sector).unwrap()[at] ^= 0x40;
        let layout = broken.layout().unwrap();
        assert!(layout.findings[0].contains(message), "{at}: {:?}", layout.findings);
        assert!(layout.partitions.is_empty());
    }
    let back = Disk::new(64 * MIB).gpt(&[(9000, 8192)]).layout().unwrap();
    assert!(
        back.findings[0].contains("begins at sector 9000 and ends at sector 8192"),
        "{:?}",
        back.findings
    );
    let wide = Disk::new(64 * MIB).gpt(&[(0, u64::MAX), (u64::MAX, u64::MAX)]).layout().unwrap();
    assert!(!wide.findings.is_empty());
}

#[test]
fn sectors_of_4_kib_are_those_of_the_device_or_of_the_header() {
    let image = Disk::new(64 * MIB).gpt_in(4096, &[(1024, 2047), (2048, 4095)]);
    let device = Disk { sector: 4096, ..image.clone() };
    for (disk, findings) in [(device, 0), (image, 1)] {
        let layout = disk.layout().unwrap();
        let places: Vec<(u64, u64)> =
            layout.partitions.iter().map(|found| (found.start_bytes, found.bytes)).collect();
        assert_eq!(places, [(4 * MIB, 4 * MIB), (8 * MIB, 8 * MIB)]);
        assert_eq!((layout.sector_bytes, layout.findings.len()), (4096, findings), "{:?}", layout.findings);
    }
    // The other way round: an image of a usual card on a device with large sectors.
    let small = Disk { sector: 4096, ..Disk::new(64 * MIB).gpt(&[(8192, 16_383)]) }.layout().unwrap();
    assert_eq!((small.sector_bytes, small.partitions[0].start_bytes), (512, 4 * MIB));
    assert!(
        small.findings[0].contains("a device with sectors of 4096 B shows no partitions"),
        "{:?}",
        small.findings
    );
    // An MBR has no header: it counts as the device does.
    let mbr = Disk { sector: 4096, ..Disk::new(64 * MIB).mbr(0, &[(0x83, 1024, 1024)]) }.layout().unwrap();
    assert_eq!((mbr.partitions[0].start_bytes, mbr.partitions[0].bytes), (4 * MIB, 4 * MIB));
}

#[test]
fn partitions_beyond_the_end_or_one_over_another_are_found() {
    let disk =
        Disk::new(64 * MIB).mbr(0, &[(0x83, 2048, 131_072), (0x83, 4096, 10), (0x0B, u32::MAX, u32::MAX)]);
    let found = disk.layout().unwrap().findings;
    for part in [
        "partition 1 has 131072 sectors",
        "partition 1 and partition 2 overlap",
        "partition 3 is stated to be a FAT",
    ] {
        assert!(found.iter().any(|finding| finding.contains(part)), "{part}: {found:?}");
    }
}

#[test]
fn any_byte_may_be_anything() {
    let gpt = Disk::new(64 * MIB).gpt(&[(8192, 16_383)]);
    let all = answers(Some(4 * MIB), 12_345, Some(16 << 10), Some(MIB));
    for disk in [from_63(), aligned(), gpt] {
        let places: Vec<u64> =
            disk.sectors.keys().copied().filter(|sector| *sector < 3 || *sector > 60).collect();
        for (sector, at) in places.iter().flat_map(|sector| (0..512).map(move |at| (*sector, at))) {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut broken = disk.clone();
                broken.sectors.get_mut(&sector).unwrap()[at] = value;
                if let Some(mut layout) = broken.layout() {
                    layout.judge(&all, None);
                }
            }
        }
        for capacity in [512, 1024, 32_768, 4 * MIB] {
            let _ = Disk { capacity, ..disk.clone() }.layout();
        }
    }
}
