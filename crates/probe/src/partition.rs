//! Partition table of a device and the boot sectors of its FAT file systems: what is there, and what of it does not fit the flash.
//!
//! In the order data flows: the first sector is an MBR or a boot sector; an MBR leads to logical partitions or to a GPT; each partition may
//! begin with the boot sector of a FAT or exFAT. [`Layout::judge`] compares places with the allocation unit. Nothing that a device holds is
//! trusted: each number is checked against the capacity, chains are bounded, and faults become findings.
//!
//! Layouts: UEFI Specification 2.10 (chapter 5), Microsoft's FAT specification (fatgen103) and exFAT specification. Tables count in logical sectors: of a device those
//! that it has, of an image those at whose second one the header of a GPT is.

use crate::answer::{Answers, size};
use crate::registers::Status;
use crate::target::{Target, TargetError};
use serde::Serialize;

/// Smallest sector, and length of all that is decoded of a sector, B.
const SECTOR_MIN: u64 = 512;
/// Largest sector, B.
const SECTOR_MAX: u64 = 4096;

/// Kind of a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// Four entries in the first sector, and a chain of logical partitions.
    Mbr,
    /// The table of UEFI.
    Gpt,
    /// No table: a file system begins in the first sector.
    None,
}

/// Kind of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum FatType {
    /// FAT with entries of 12 bits.
    #[serde(rename = "FAT12")]
    Fat12,
    /// FAT with entries of 16 bits.
    #[serde(rename = "FAT16")]
    Fat16,
    /// FAT with entries of 32 bits.
    #[serde(rename = "FAT32")]
    Fat32,
    /// The file system of SDXC cards.
    #[serde(rename = "exFAT")]
    ExFat,
}

impl FatType {
    /// Name of the file system.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fat12 => "FAT12",
            Self::Fat16 => "FAT16",
            Self::Fat32 => "FAT32",
            Self::ExFat => "exFAT",
        }
    }
}

/// A FAT or exFAT file system. Positions count from the beginning of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Filesystem {
    /// Kind of the file system.
    pub kind: FatType,
    /// Unit in which files get room, B.
    pub cluster_bytes: u64,
    /// Position of the first FAT, B.
    pub fat_start_bytes: u64,
    /// Position behind the last FAT, B.
    pub fat_end_bytes: u64,
    /// Position of the first cluster, B.
    pub data_start_bytes: u64,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// Number as Linux counts: logical partitions of an MBR from 5; 0 for a file system without a table.
    pub number: u64,
    /// Position, B.
    pub start_bytes: u64,
    /// Length, B.
    pub bytes: u64,
    /// File system, if it is a FAT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<Filesystem>,
}

impl Partition {
    fn name(&self) -> String {
        match self.number {
            0 => "the file system".to_owned(),
            number => format!("partition {number}"),
        }
    }

    const fn end(&self) -> u64 {
        self.start_bytes.saturating_add(self.bytes)
    }
}

/// Partitions of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// Kind of the table.
    pub table: Table,
    /// Logical sector in which the table counts, B.
    pub sector_bytes: u64,
    /// Partitions in the order of the table.
    pub partitions: Vec<Partition>,
    /// Faults of the table, and places that do not fit the flash, a sentence each.
    pub findings: Vec<String>,
}

/// An entry of a table that is in use.
#[derive(Clone, Copy)]
struct Entry {
    number: u64,
    /// Type byte of an MBR, 0 in a GPT.
    kind: u8,
    /// First sector and number of sectors.
    start: u64,
    sectors: u64,
}

/// Type of the only partition of an MBR that protects a GPT.
const PROTECTIVE: u8 = 0xEE;
/// Types of partitions with FAT.
const FAT_TYPES: [u8; 6] = [0x01, 0x04, 0x06, 0x0B, 0x0C, 0x0E];
/// Types of partitions that hold others.
const EXTENDED: [u8; 3] = [0x05, 0x0F, 0x85];
/// Most partitions that are looked at.
const PARTITIONS_MAX: usize = 128;
/// Longest array of entries of a GPT, B: 16 KiB are usual.
const ARRAY_MAX: u64 = 256 << 10;

impl Layout {
    /// Reads the table of a device, and the boot sectors of its partitions. `None` when the first sector has neither.
    ///
    /// # Errors
    /// A read fails.
    pub fn read(target: &mut impl Target) -> Result<Option<Self>, TargetError> {
        let capacity = target.capacity();
        let sector_bytes = target.sector_bytes();
        let Some(first) = bytes_at(target, 0, SECTOR_MIN)? else { return Ok(None) };
        if let Some(filesystem) = Filesystem::parse(&first, 0, capacity) {
            let whole =
                Partition { number: 0, start_bytes: 0, bytes: capacity, filesystem: Some(filesystem) };
            return Ok(Some(Self {
                table: Table::None,
                sector_bytes,
                partitions: vec![whole],
                findings: Vec::new(),
            }));
        }
        let Some(primary) = entries(&first) else { return Ok(None) };
        let mut layout =
            Self { table: Table::Mbr, sector_bytes, partitions: Vec::new(), findings: Vec::new() };
        let all = if primary.iter().any(|entry| entry.kind == PROTECTIVE) {
            layout.table = Table::Gpt;
            layout.gpt(target)?
        } else {
            layout.logical(target, &primary)?
        };
        for entry in all {
            layout.add(target, entry)?;
        }
        layout.find_overlaps();
        Ok(Some(layout))
    }

    /// The primary partitions that hold no others, and the logical ones.
    fn logical(&mut self, target: &mut impl Target, primary: &[Entry]) -> Result<Vec<Entry>, TargetError> {
        let (extended, mut all): (Vec<Entry>, Vec<Entry>) =
            primary.iter().partition(|entry| EXTENDED.contains(&entry.kind));
        let Some(base) = extended.first().map(|entry| entry.start) else { return Ok(all) };
        let mut at = base;
        for number in 5..5 + PARTITIONS_MAX as u64 {
            let sector = bytes_at(target, at.saturating_mul(self.sector_bytes), SECTOR_MIN)?;
            let Some(chained) = sector.and_then(|sector| entries(&sector)) else {
                self.findings.push(format!("the chain of logical partitions has no table at sector {at}"));
                return Ok(all);
            };
            let (next, own): (Vec<Entry>, Vec<Entry>) =
                chained.into_iter().partition(|entry| EXTENDED.contains(&entry.kind));
            all.extend(own.first().map(|entry| Entry { number, start: at + entry.start, ..*entry }));
            let Some(next) = next.first().map(|entry| base + entry.start) else { return Ok(all) };
            if next <= at {
                self.findings.push(format!("the chain of logical partitions goes back to sector {next}"));
                return Ok(all);
            }
            at = next;
        }
        self.findings.push(format!("more than {PARTITIONS_MAX} logical partitions: the others are left out"));
        Ok(all)
    }

    /// Entries of a GPT. A table whose checksum is wrong has none.
    fn gpt(&mut self, target: &mut impl Target) -> Result<Vec<Entry>, TargetError> {
        let Some(header) = self.gpt_header(target)? else {
            self.findings.push("the GPT is damaged: sector 1 has no header".to_owned());
            return Ok(Vec::new());
        };
        match gpt_entries(target, &header, self.sector_bytes)? {
            Ok(entries) => Ok(entries),
            Err(problem) => {
                self.findings.push(format!("the GPT is damaged: {problem}"));
                Ok(Vec::new())
            }
        }
    }

    /// Header of a GPT, in the second sector of the device or, where sectors were others when it was made, of that size.
    fn gpt_header(&mut self, target: &mut impl Target) -> Result<Option<Vec<u8>>, TargetError> {
        let own = self.sector_bytes;
        for sector in [own, SECTOR_MIN, SECTOR_MAX] {
            let header = bytes_at(target, sector, SECTOR_MIN)?;
            let Some(header) = header.filter(|header| header.starts_with(GPT_SIGNATURE)) else { continue };
            if sector != own {
                self.sector_bytes = sector;
                self.findings.push(format!("the GPT counts in sectors of {sector} B: a device with sectors of {own} B shows no partitions"));
            }
            return Ok(Some(header));
        }
        Ok(None)
    }

    fn add(&mut self, target: &mut impl Target, entry: Entry) -> Result<(), TargetError> {
        let in_bytes = |sectors: u64| sectors.saturating_mul(self.sector_bytes);
        let (start_bytes, bytes) = (in_bytes(entry.start), in_bytes(entry.sectors));
        let mut partition = Partition { number: entry.number, start_bytes, bytes, filesystem: None };
        let (name, capacity) = (partition.name(), target.capacity());
        if entry.start == 0 || bytes == 0 || partition.end() > capacity {
            self.findings.push(format!(
                "{name} has {} sectors from sector {}, which are not all on the device of {}",
                entry.sectors,
                entry.start,
                size(capacity)
            ));
        }
        let boot = bytes_at(target, start_bytes, SECTOR_MIN)?;
        partition.filesystem = boot.and_then(|boot| Filesystem::parse(&boot, start_bytes, bytes));
        if partition.filesystem.is_none() && FAT_TYPES.contains(&entry.kind) {
            self.findings.push(format!("{name} is stated to be a FAT, but has no valid boot sector"));
        }
        self.partitions.push(partition);
        Ok(())
    }

    fn find_overlaps(&mut self) {
        let mut sorted: Vec<&Partition> = self.partitions.iter().collect();
        sorted.sort_by_key(|partition| partition.start_bytes);
        let overlap = |pair: &[&Partition]| match pair {
            [left, right] if right.start_bytes < left.end() => {
                Some(format!("{} and {} overlap", left.name(), right.name()))
            }
            _ => None,
        };
        let found: Vec<String> = sorted.windows(2).filter_map(overlap).collect();
        self.findings.extend(found);
    }

    /// Adds findings about places that do not fit the flash: as measured, otherwise as the card states it.
    pub fn judge(&mut self, answers: &Answers, stated: Option<&Status>) {
        let unit = Unit::of(answers, stated);
        let found: Vec<String> = self
            .partitions
            .iter()
            .flat_map(|partition| judged(partition, self.sector_bytes, unit.as_ref(), answers))
            .collect();
        self.findings.extend(found);
    }
}

/// Unit to whose borders partitions and file data belong.
struct Unit {
    bytes: u64,
    /// Position of the first border, B.
    phase: u64,
    /// Name with the size and its evidence.
    name: String,
}

impl Unit {
    fn of(answers: &Answers, stated: Option<&Status>) -> Option<Self> {
        let measured = |kind: &str, bytes: u64, phase: u64, confidence: f64| {
            let evidence = format!("measured, {:.0} % sure", confidence * 100.0);
            Self { bytes, phase, name: format!("{kind} of {} ({evidence})", size(bytes)) }
        };
        let positive = |count: Option<u64>| count.filter(|bytes| *bytes > 0);
        if let Some(bytes) = positive(answers.erase_block.count()) {
            let phase = answers.phase.count().unwrap_or(0) % bytes;
            return Some(measured("an allocation unit", bytes, phase, answers.erase_block.confidence));
        }
        if let Some(bytes) = positive(stated.and_then(|status| status.au_bytes)) {
            let name = format!("an allocation unit of {} (stated by the card)", size(bytes));
            return Some(Self { bytes, phase: 0, name });
        }
        let page = positive(answers.page.count())?;
        Some(measured("a page", page, 0, answers.page.confidence))
    }

    /// Bytes from the last border to a position.
    const fn behind(&self, position: u64) -> u64 {
        // The phase is below the unit, so that the difference is not below 0.
        (position % self.bytes + self.bytes - self.phase) % self.bytes
    }
}

/// Findings about one partition.
fn judged(partition: &Partition, sector: u64, unit: Option<&Unit>, answers: &Answers) -> Vec<String> {
    let name = partition.name();
    let mut found: Vec<String> =
        unit.and_then(|unit| misplaced(partition, sector, unit)).into_iter().collect();
    let Some(filesystem) = partition.filesystem else { return found };
    if let Some(page) = answers.page.count().filter(|page| filesystem.cluster_bytes < *page) {
        let cluster = size(filesystem.cluster_bytes);
        let page = size(page);
        found.push(format!(
            "{name} has clusters of {cluster}, less than the {page} that the card writes at once: a write of one cluster copies its neighbours"
        ));
    }
    if let Some(area) = answers.fat_area.count().filter(|area| filesystem.fat_end_bytes > *area) {
        found.push(format!(
            "the FATs of {name} reach to {}, the area that the card keeps for them only to {}",
            size(filesystem.fat_end_bytes),
            size(area)
        ));
    }
    found
}

/// A finding about the start. File data on a border are right wherever their partition starts.
fn misplaced(partition: &Partition, sector: u64, unit: &Unit) -> Option<String> {
    let name = partition.name();
    let start = unit.behind(partition.start_bytes);
    match partition.filesystem.map(|filesystem| filesystem.data_start_bytes) {
        Some(data) if unit.behind(data) == 0 => None,
        Some(data) if start == 0 || partition.number == 0 => Some(format!(
            "the file data of {name} start at {}, {} behind the border of {}: clusters lie across borders, and the FAT shares a unit with data",
            size(data),
            size(unit.behind(data)),
            unit.name
        )),
        _ if start == 0 => None,
        _ => Some(format!(
            "{name} starts at {} sectors, not on {}: it is {} behind the border",
            partition.start_bytes / sector,
            unit.name,
            size(start)
        )),
    }
}

/// Contents of a range, `None` where it is not all on the device.
pub(crate) fn bytes_at(
    target: &mut impl Target,
    position: u64,
    bytes: u64,
) -> Result<Option<Vec<u8>>, TargetError> {
    if position.checked_add(bytes).is_none_or(|end| end > target.capacity()) {
        return Ok(None);
    }
    let mut contents = vec![0; bytes as usize];
    for (piece, at) in contents.chunks_mut(4096).zip((position..).step_by(4096)) {
        target.read(at, piece)?;
    }
    Ok(Some(contents))
}

/// Little-endian number of `count` bytes, at most 8; bytes behind the end are 0.
pub(crate) fn le(bytes: &[u8], at: usize, count: usize) -> u64 {
    let field = bytes.get(at..).unwrap_or_default().iter().take(count);
    field.rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Entries of an MBR that are in use, `None` when the sector is none.
fn entries(sector: &[u8]) -> Option<Vec<Entry>> {
    if le(sector, 510, 2) != 0xAA55 {
        return None;
    }
    let table = sector.get(446..510)?;
    // Boot code of a file system that is unknown here has anything in its place.
    if table.chunks(16).any(|entry| entry.first().is_none_or(|flag| flag & 0x7F != 0)) {
        return None;
    }
    let entry = |(number, entry): (u64, &[u8])| Entry {
        number,
        kind: le(entry, 4, 1) as u8,
        start: le(entry, 8, 4),
        sectors: le(entry, 12, 4),
    };
    Some((1..).zip(table.chunks(16)).map(entry).filter(|entry| entry.kind != 0).collect())
}

/// Entries of a GPT that are in use, or what is wrong with it.
fn gpt_entries(
    target: &mut impl Target,
    header: &[u8],
    sector: u64,
) -> Result<Result<Vec<Entry>, String>, TargetError> {
    let array = match GptArray::parse(header) {
        Ok(array) => array,
        Err(problem) => return Ok(Err(problem)),
    };
    let (start, bytes) = (array.lba.saturating_mul(sector), array.count * array.entry_bytes);
    let Some(contents) = bytes_at(target, start, bytes.next_multiple_of(SECTOR_MIN))? else {
        return Ok(Err(format!("its entries at sector {} are not on the device", array.lba)));
    };
    let Some(contents) = contents.get(..bytes as usize) else { return Ok(Ok(Vec::new())) };
    if crc32fast::hash(contents) != array.crc {
        return Ok(Err("the checksum of its entries is wrong".to_owned()));
    }
    Ok(array.entries(contents))
}

/// First bytes of the header of a GPT.
const GPT_SIGNATURE: &[u8] = b"EFI PART";

/// Place of the entries of a GPT.
struct GptArray {
    lba: u64,
    count: u64,
    entry_bytes: u64,
    crc: u32,
}

impl GptArray {
    fn parse(header: &[u8]) -> Result<Self, String> {
        let length = le(header, 12, 4);
        let Some(covered) =
            header.get(..usize::try_from(length).unwrap_or(usize::MAX)).filter(|all| all.len() >= 92)
        else {
            return Err(format!("its header states a length of {length} bytes"));
        };
        // The checksum is that of the header with 0 in its own place.
        let mut covered = covered.to_vec();
        covered[16..20].fill(0);
        if u64::from(crc32fast::hash(&covered)) != le(header, 16, 4) {
            return Err("the checksum of its header is wrong".to_owned());
        }
        let (lba, count, entry_bytes) = (le(header, 72, 8), le(header, 80, 4), le(header, 84, 4));
        if !entry_bytes.is_power_of_two() || entry_bytes < 128 || count * entry_bytes > ARRAY_MAX {
            return Err(format!("it states {count} entries of {entry_bytes} bytes"));
        }
        Ok(Self { lba, count, entry_bytes, crc: le(header, 88, 4) as u32 })
    }

    fn entries(&self, contents: &[u8]) -> Result<Vec<Entry>, String> {
        let all = (1..).zip(contents.chunks(self.entry_bytes as usize));
        let used = all.filter(|(_, entry)| entry.iter().take(16).any(|byte| *byte != 0));
        let entry = |(number, entry): (u64, &[u8])| {
            let (start, last) = (le(entry, 32, 8), le(entry, 40, 8));
            let sectors = last.checked_sub(start).and_then(|sectors| sectors.checked_add(1));
            let sectors = sectors.ok_or_else(|| {
                format!("partition {number} begins at sector {start} and ends at sector {last}")
            })?;
            Ok(Entry { number, kind: 0, start, sectors })
        };
        used.take(PARTITIONS_MAX).map(entry).collect()
    }
}

impl Filesystem {
    /// Decodes a boot sector at a position of the device, of a partition of `bytes`. `None` when it is none, or makes no sense.
    fn parse(boot: &[u8], position: u64, bytes: u64) -> Option<Self> {
        if le(boot, 510, 2) != 0xAA55 {
            return None;
        }
        let found = if boot.get(3..11)? == b"EXFAT   " { Self::exfat(boot) } else { Self::fat(boot) }?;
        let at = |offset: u64| position.saturating_add(offset);
        (found.data_start_bytes < bytes).then_some(Self {
            fat_start_bytes: at(found.fat_start_bytes),
            fat_end_bytes: at(found.fat_end_bytes),
            data_start_bytes: at(found.data_start_bytes),
            ..found
        })
    }

    /// A FAT; positions count from the boot sector.
    fn fat(boot: &[u8]) -> Option<Self> {
        let sector = le(boot, 11, 2);
        let (cluster, reserved, fats) = (le(boot, 13, 1), le(boot, 14, 2), le(boot, 16, 1));
        let either = |short: u64, long: u64| if short == 0 { long } else { short };
        let (total, fat) =
            (either(le(boot, 19, 2), le(boot, 32, 4)), either(le(boot, 22, 2), le(boot, 36, 4)));
        let is_jump = matches!(boot.first(), Some(0xEB | 0xE9));
        if !is_jump || !sector.is_power_of_two() || !(512..=4096).contains(&sector) {
            return None;
        }
        if !cluster.is_power_of_two() || reserved == 0 || !(1..=2).contains(&fats) || fat == 0 {
            return None;
        }
        let end = reserved + fats * fat;
        let data = end + (le(boot, 17, 2) * 32).div_ceil(sector);
        // The number of clusters alone makes the type (fatgen103).
        let kind = match total.checked_sub(data)? / cluster {
            0 => return None,
            1..4085 => FatType::Fat12,
            4085..65_525 => FatType::Fat16,
            _ => FatType::Fat32,
        };
        Some(Self {
            kind,
            cluster_bytes: cluster * sector,
            fat_start_bytes: reserved * sector,
            fat_end_bytes: end * sector,
            data_start_bytes: data * sector,
        })
    }

    /// An exFAT; positions count from the boot sector.
    fn exfat(boot: &[u8]) -> Option<Self> {
        let (sector_bits, cluster_bits, fats) = (le(boot, 108, 1), le(boot, 109, 1), le(boot, 110, 1));
        if !(9..=12).contains(&sector_bits)
            || sector_bits + cluster_bits > 25
            || !(1..=2).contains(&fats)
            || le(boot, 92, 4) == 0
        {
            return None;
        }
        let (fat, data) = (le(boot, 80, 4), le(boot, 88, 4));
        let end = fat + fats * le(boot, 84, 4);
        (0 < fat && fat < end && end <= data).then_some(Self {
            kind: FatType::ExFat,
            cluster_bytes: 1 << (sector_bits + cluster_bits),
            fat_start_bytes: fat << sector_bits,
            fat_end_bytes: end << sector_bits,
            data_start_bytes: data << sector_bits,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
