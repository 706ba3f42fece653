//! Partition tables of disks, FAT and exFAT.

use floatgate_media::disk::exfat::ExfatBoot;
use floatgate_media::disk::fat::FatBoot;
use floatgate_media::disk::gpt::{GptEntry, GptHeader};
use floatgate_media::disk::mbr::Mbr;

use super::{Begins, Probe};
use crate::map::partitions::Partition;
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};

pub(super) const GPT: Probe =
    Probe { begins: Begins::Magic { at: 0, magics: &[b"EFI PART"], step: 512 }, probe: gpt };
pub(super) const FAT: Probe =
    Probe { begins: Begins::Head { step: 512, front: 0, test: begins_fat }, probe: fat };
pub(super) const EXFAT: Probe =
    Probe { begins: Begins::Magic { at: 3, magics: &[b"EXFAT   "], step: 512 }, probe: exfat };
pub(super) const MBR: Probe =
    Probe { begins: Begins::Head { step: 512, front: 0, test: begins_mbr }, probe: mbr };

const SECTOR: u64 = 512;

/// Largest distance from the entries of a copy to its header, bytes.
const ENTRIES_MAX: u64 = 1 << 20;

fn has_signature(head: &[u8]) -> bool {
    head.get(510..512) == Some(&[0x55, 0xAA])
}

fn begins_fat(head: &[u8]) -> bool {
    has_signature(head) && FatBoot::parse(head).is_ok()
}

/// A table of the size of a boot sector is accepted only at the start of a dump; [`mbr`] checks its offset.
fn begins_mbr(head: &[u8]) -> bool {
    has_signature(head) && Mbr::parse(head).is_ok_and(|mbr| mbr.entries.iter().any(|entry| entry.is_used()))
}

/// A table is found by its header. It counts sectors, whose size follows from the sector number of the header.
fn gpt(view: &View<'_>) -> Option<ProbeMatch> {
    let sector = view.bytes(0, SECTOR as usize)?;
    let header = GptHeader::parse(&sector).ok()?;
    let sector_bytes =
        view.start().checked_div(header.own_sector).filter(|bytes| [512, 2048, 4096].contains(bytes))?;
    let is_first = header.own_sector < header.backup_sector;
    let entries = header.entries_sector.checked_mul(sector_bytes)?;
    let entries_at = entries.checked_sub(view.start());
    // In the copy at the end of a disk, the entries are before the header.
    let before = view.start().saturating_sub(entries);
    let is_before = !is_first && (header.array_bytes()..=ENTRIES_MAX).contains(&before);
    let before = if is_before { before } else { 0 };
    let array = match entries_at {
        Some(at) => view.bytes(at, usize::try_from(header.array_bytes()).ok()?),
        None if is_before => {
            let whole = view.widened(before)?;
            whole.bytes(0, usize::try_from(header.array_bytes()).ok()?)
        }
        None => None,
    };
    let end = match entries_at {
        Some(at) if is_first => at.checked_add(header.array_bytes())?,
        _ => sector_bytes,
    };
    let found = ProbeMatch { before, ..ProbeMatch::new(Kind::Gpt, end.max(sector_bytes)) }
        .text("copy", if is_first { "first" } else { "second" })
        .number("sector_bytes", sector_bytes);
    let Some(array) = array else { return Some(found) };
    let partitions: Vec<Partition> = match header.used(&array) {
        Ok(used) => used.filter_map(|(number, entry)| partition(number, &entry, sector_bytes)).collect(),
        Err(_) => return Some(found.sum_is(false)),
    };
    let found = found.number("partitions", partitions.len() as u64).sum_is(true);
    Some(ProbeMatch { partitions, ..found })
}

fn partition(number: u64, entry: &GptEntry, sector_bytes: u64) -> Option<Partition> {
    let units: Vec<u16> = entry.name.iter().copied().take_while(|&unit| unit != 0).collect();
    let name = String::from_utf16_lossy(&units);
    let name = if name.is_empty() { format!("{number}") } else { name };
    let len = entry.sectors().ok()?.checked_mul(sector_bytes)?;
    Some(Partition::new("GPT", name, entry.first.checked_mul(sector_bytes)?, Some(len)))
}

fn mbr(view: &View<'_>) -> Option<ProbeMatch> {
    if view.start() != 0 {
        return None;
    }
    let sector = view.bytes(0, SECTOR as usize)?;
    let used: Vec<_> =
        Mbr::parse(&sector).ok()?.entries.into_iter().filter(|entry| entry.is_used()).collect();
    let partitions: Vec<Partition> = (1..)
        .zip(&used)
        .map(|(number, entry)| {
            let bytes = |sectors: u32| u64::from(sectors) * SECTOR;
            Partition::new(
                "MBR",
                format!("{number}, type {:02x}", entry.kind),
                bytes(entry.first),
                Some(bytes(entry.sectors)),
            )
        })
        .collect();
    let found = ProbeMatch::new(Kind::Mbr, SECTOR).number("partitions", partitions.len() as u64);
    Some(ProbeMatch { partitions, ..found })
}

fn fat(view: &View<'_>) -> Option<ProbeMatch> {
    let sector = view.bytes(0, SECTOR as usize)?;
    let boot = FatBoot::parse(&sector).ok()?;
    let sectors = if boot.sectors_16 == 0 { boot.sectors_32 } else { boot.sectors_16.into() };
    let layout = boot.layout();
    let label_at = if layout.kind == floatgate_media::disk::fat::FatType::Fat32 { 71 } else { 43 };
    let found = ProbeMatch::new(Kind::Fat, u64::from(sectors) * u64::from(boot.sector_bytes))
        .text("version", layout.kind.to_string())
        .text("label", sector.text(label_at, 11))
        .number("cluster_bytes", layout.cluster_bytes);
    // Each FAT begins with the medium byte.
    let second = layout.fat_start + boot.fat_sectors() * u64::from(boot.sector_bytes);
    let is_fat = |at| view.array::<1>(at).is_none_or(|[medium]| medium == boot.medium);
    (is_fat(layout.fat_start) || boot.fats == 2 && is_fat(second)).then_some(found)
}

/// Label of an exFAT, which is in one of the first entries of the root directory.
fn exfat_label(view: &View<'_>, sector: &[u8]) -> Option<String> {
    const LABEL: u8 = 0x83;
    let (shift, cluster) = (sector.get(108)?.min(&12), sector.get(109)?.min(&25));
    let heap = u64::from(sector.le32(88)) << shift;
    let root = u64::from(sector.le32(96).checked_sub(2)?) << (shift + cluster);
    let entries = view.bytes(heap.checked_add(root)?, 512)?;
    let label = entries.chunks_exact(32).find(|entry| entry.first() == Some(&LABEL))?;
    let len = usize::from(*label.get(1)?).min(11);
    let units: Vec<u16> = (0..len).map(|unit| label.le16(2 + 2 * unit)).collect();
    Some(String::from_utf16_lossy(&units))
}

fn exfat(view: &View<'_>) -> Option<ProbeMatch> {
    let sector = view.bytes(0, SECTOR as usize)?;
    let boot = ExfatBoot::parse(&sector).ok()?;
    let len = boot.sectors.checked_mul(1 << boot.sector_shift.min(12))?;
    Some(
        ProbeMatch::new(Kind::Fat, len)
            .text("version", "exFAT")
            .text("label", exfat_label(view, &sector).unwrap_or_default())
            .number("cluster_bytes", boot.layout().cluster_bytes),
    )
}
