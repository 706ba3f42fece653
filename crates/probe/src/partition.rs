//! Partition table of a device, boot sectors of its FAT filesystems, and their alignment to the flash.
//!
//! In data-flow order: the first sector is an MBR or a boot sector; an MBR leads to logical partitions or to a GPT.
//! Each partition may begin with the boot sector of a FAT or exFAT. [`Layout::judge`] compares positions with the
//! allocation unit. The data is untrusted: each number is checked against the capacity, chains are bounded, and faults
//! become findings.
//!
//! Tables count in logical sectors. A device states their size. In an image it is the size that puts a GPT header into
//! the second sector.

use crate::answer::Answers;
use crate::registers::Status;
use floatgate_host::{Target, TargetError};
use floatgate_media::disk::exfat::ExfatBoot;
use floatgate_media::disk::fat::{FatBoot, FatType};
use floatgate_media::disk::gpt::{self, GptEntry, GptHeader};
use floatgate_media::disk::mbr::{self, Mbr};
use floatgate_mtd::size::text as size;
use serde::{Serialize, Serializer};

/// Smallest sector, and number of bytes that are decoded of any sector, B.
const SECTOR_MIN: u64 = 512;
/// Largest sector, B.
const SECTOR_MAX: u64 = 4096;

/// Kind of a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// MBR: four entries in the first sector, and a chain of logical partitions.
    Mbr,
    /// GUID partition table (GPT) of UEFI.
    Gpt,
    /// No table: a filesystem begins in the first sector.
    None,
}

/// A FAT or exFAT filesystem. Positions count from the beginning of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Filesystem {
    /// FAT variant.
    #[serde(serialize_with = "as_name")]
    pub kind: FatType,
    /// Cluster size, B.
    pub cluster_bytes: u64,
    /// Position of the first FAT, B.
    pub fat_start_bytes: u64,
    /// Position behind the last FAT, B.
    pub fat_end_bytes: u64,
    /// Position of the first cluster, B.
    pub data_start_bytes: u64,
}

/// An entry of the partition table with its filesystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// Number as in Linux: logical partitions of an MBR count from 5; 0 for a filesystem without a table.
    pub number: u64,
    /// Position, B.
    pub start_bytes: u64,
    /// Length, B.
    pub bytes: u64,
    /// Filesystem, if it is a FAT.
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
    /// Logical sector size of the table, B.
    pub sector_bytes: u64,
    /// Partitions in the order of the table.
    pub partitions: Vec<Partition>,
    /// Faults of the table and misaligned partitions, one sentence each.
    pub findings: Vec<String>,
}

/// A used entry of a table.
#[derive(Clone, Copy)]
struct Entry {
    number: u64,
    /// Type byte of an MBR, 0 in a GPT.
    kind: u8,
    /// First sector and number of sectors.
    start: u64,
    sectors: u64,
}

/// Maximum number of partitions that are read.
const PARTITIONS_MAX: usize = 128;

impl Layout {
    /// Reads the partition table of a device and the boot sectors of its partitions. `None` if the first sector
    /// contains neither.
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
        let all = if primary.iter().any(|entry| entry.kind == mbr::kind::PROTECTIVE) {
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

    /// Primary partitions that are not extended, and all logical ones.
    fn logical(&mut self, target: &mut impl Target, primary: &[Entry]) -> Result<Vec<Entry>, TargetError> {
        let (extended, mut all): (Vec<Entry>, Vec<Entry>) =
            primary.iter().partition(|entry| mbr::kind::EXTENDED.contains(&entry.kind));
        let Some(base) = extended.first().map(|entry| entry.start) else { return Ok(all) };
        let mut at = base;
        for number in 5..5 + PARTITIONS_MAX as u64 {
            let sector = bytes_at(target, at.saturating_mul(self.sector_bytes), SECTOR_MIN)?;
            let Some(chained) = sector.and_then(|sector| entries(&sector)) else {
                self.findings.push(format!("the chain of logical partitions has no table at sector {at}"));
                return Ok(all);
            };
            let (next, own): (Vec<Entry>, Vec<Entry>) =
                chained.into_iter().partition(|entry| mbr::kind::EXTENDED.contains(&entry.kind));
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

    /// Entries of a GPT; empty if its checksum is wrong.
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

    /// Header of a GPT. It is in the second sector of the device, or of the sector size with which the table was made.
    fn gpt_header(&mut self, target: &mut impl Target) -> Result<Option<Vec<u8>>, TargetError> {
        let own = self.sector_bytes;
        for sector in [own, SECTOR_MIN, SECTOR_MAX] {
            let header = bytes_at(target, sector, SECTOR_MIN)?;
            let Some(header) = header.filter(|header| header.starts_with(gpt::SIGNATURE.as_bytes())) else {
                continue;
            };
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
        if partition.filesystem.is_none() && mbr::kind::FAT.contains(&entry.kind) {
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

    /// Adds findings about misaligned partitions, by the measured allocation unit or, without one, by the stated one.
    pub fn judge(&mut self, answers: &Answers, stated: Option<&Status>) {
        let unit = Unit::from_answers(answers, stated);
        let found: Vec<String> = self
            .partitions
            .iter()
            .flat_map(|partition| judged(partition, self.sector_bytes, unit.as_ref(), answers))
            .collect();
        self.findings.extend(found);
    }
}

/// Unit to which partitions and file data should be aligned.
struct Unit {
    bytes: u64,
    /// Position of the first border, B.
    phase: u64,
    /// Name with size and evidence.
    name: String,
}

impl Unit {
    fn from_answers(answers: &Answers, stated: Option<&Status>) -> Option<Self> {
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

    /// Distance from the previous border to a position, B.
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

/// Finding about a misaligned start. A partition whose file data start on a border is fine wherever it begins.
fn misplaced(partition: &Partition, sector: u64, unit: &Unit) -> Option<String> {
    let name = partition.name();
    let start = unit.behind(partition.start_bytes);
    match partition.filesystem.map(|filesystem| filesystem.data_start_bytes) {
        Some(data) if unit.behind(data) == 0 => None,
        Some(data) if start == 0 || partition.number == 0 => Some(format!(
            "the file data of {name} start at {}, {} behind the border of {}: clusters cross borders, and the FAT shares a unit with data",
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

/// Data of a range, `None` if it extends beyond the device.
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

/// Used entries of an MBR, `None` if the sector is not an MBR.
fn entries(sector: &[u8]) -> Option<Vec<Entry>> {
    let used = (1..).zip(Mbr::parse(sector).ok()?.entries).filter(|(_, entry)| entry.is_used());
    let entry = |(number, entry): (u64, mbr::MbrEntry)| Entry {
        number,
        kind: entry.kind,
        start: u64::from(entry.first),
        sectors: u64::from(entry.sectors),
    };
    Some(used.map(entry).collect())
}

/// Used entries of a GPT, or a description of its fault.
fn gpt_entries(
    target: &mut impl Target,
    header: &[u8],
    sector: u64,
) -> Result<Result<Vec<Entry>, String>, TargetError> {
    let header = match GptHeader::parse(header) {
        Ok(header) => header,
        Err(error) => return Ok(Err(format!("its header: {error}"))),
    };
    let (start, bytes) = (header.entries_sector.saturating_mul(sector), header.array_bytes());
    let Some(mut array) = bytes_at(target, start, bytes.next_multiple_of(SECTOR_MIN))? else {
        return Ok(Err(format!("its entries at sector {} are not on the device", header.entries_sector)));
    };
    array.truncate(bytes as usize);
    let used = match header.used(&array) {
        Ok(used) => used,
        Err(error) => return Ok(Err(format!("its header: {error}"))),
    };
    let entry = |(number, entry): (u64, GptEntry)| {
        let sectors = entry.sectors().map_err(|_| {
            format!("partition {number} begins at sector {} and ends at sector {}", entry.first, entry.last)
        })?;
        Ok(Entry { number, kind: 0, start: entry.first, sectors })
    };
    Ok(used.take(PARTITIONS_MAX).map(entry).collect())
}

impl Filesystem {
    /// Parses a boot sector at a position of the device, of a partition of `bytes`. `None` if it is not a valid FAT
    /// boot sector.
    fn parse(boot: &[u8], position: u64, bytes: u64) -> Option<Self> {
        let exfat = ExfatBoot::parse(boot).map(|boot| boot.layout());
        let found = exfat.or_else(|_| FatBoot::parse(boot).map(|boot| boot.layout())).ok()?;
        let at = |offset: u64| position.saturating_add(offset);
        (found.data_start < bytes).then_some(Self {
            kind: found.kind,
            cluster_bytes: found.cluster_bytes,
            fat_start_bytes: at(found.fat_start),
            fat_end_bytes: at(found.fat_end),
            data_start_bytes: at(found.data_start),
        })
    }
}

fn as_name<S: Serializer>(kind: &FatType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(kind)
}

#[cfg(test)]
pub(crate) mod tests;
