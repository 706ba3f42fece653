//! Remains of a damaged volume table.

use super::scan::ClaimedPeb;
use super::{AttachFault, UbiError};
use floatgate_media::ubi::{Geometry, VolumeRecord, VolumeTable};
use floatgate_media::{MediaError, crc};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of LEBs of volumes beyond the PEBs of the flash: an image may be truncated, but a false size must not
/// allocate memory.
pub const MISSING_LEBS_MAX: u32 = 1 << 16;

/// Size of a volume record, with its CRC at the end, B.
const RECORD: usize = 172;

/// Remains of the volume table.
pub(super) struct SalvagedTable {
    pub(super) volumes: BTreeMap<u32, VolumeRecord>,
    /// Damage of both copies.
    pub(super) damage: [Option<MediaError>; 2],
    /// True if Linux finds no good copy.
    pub(super) lost: bool,
    pub(super) faults: Vec<AttachFault>,
}

impl SalvagedTable {
    /// Reads the volumes from the first good copy; otherwise each volume from the first copy with a good record of it.
    /// Volumes without a good record are reconstructed from their LEBs. A copy without a PEB in `seen` was found by a
    /// guess.
    pub(super) fn read(
        copies: &[Option<Vec<u8>>; 2],
        geometry: &Geometry,
        good_pebs: u32,
        seen: [Option<u32>; 2],
        users: &[&ClaimedPeb],
    ) -> Self {
        let most = good_pebs.saturating_add(MISSING_LEBS_MAX);
        let parse = |copy: &Option<Vec<u8>>| {
            let table = VolumeTable::parse(copy.as_deref().unwrap_or_default(), geometry, most)?;
            Ok(table.volumes().collect())
        };
        let [first, second]: [Result<BTreeMap<u32, VolumeRecord>, MediaError>; 2] =
            copies.each_ref().map(parse);
        let damage = [first.as_ref().err().copied(), second.as_ref().err().copied()];
        let counts = |copy: usize| damage[copy].is_none() && seen[copy].is_some();
        let lost = !counts(0) && !counts(1);
        let good = if counts(1) && !counts(0) { second.or(first) } else { first.or(second) };
        let mut table = Self { volumes: BTreeMap::new(), damage, lost, faults: Vec::new() };
        if lost {
            let of_seen =
                seen.iter().zip(damage).find_map(|(seen, damage)| damage.filter(|_| seen.is_some()));
            table.faults.push(of_seen.map_or(AttachFault::NoVolumeTable, AttachFault::VolumeTable));
        }
        match good {
            Ok(volumes) => table.volumes = volumes,
            Err(_) => table.assemble(copies, geometry, most, users),
        }
        let marked = table.volumes.iter().filter(|(_, record)| record.update_marker != 0);
        table.faults.extend(marked.map(|(&id, _)| UbiError::UpdateMarker { id }.into()));
        table
    }

    fn assemble(
        &mut self,
        copies: &[Option<Vec<u8>>; 2],
        geometry: &Geometry,
        most: u32,
        users: &[&ClaimedPeb],
    ) {
        let mut lost = BTreeSet::new();
        for id in 0..geometry.volume_slots() {
            match record_of(copies, id, |bytes| VolumeRecord::parse(bytes, geometry, most).ok()) {
                Some(record) => self.volumes.extend(record.map(|record| (id, record))),
                None => drop(lost.insert(id)),
            }
        }
        for (id, record) in made_up(users, &lost, most) {
            self.faults.push(AttachFault::LostRecord { id });
            self.volumes.insert(id, record);
        }
    }
}

/// First good record of a volume in any copy, otherwise the first that becomes good by correcting one byte with its
/// CRC. An empty record is valid too.
fn record_of(
    copies: &[Option<Vec<u8>>; 2],
    id: u32,
    parse: impl Fn(&[u8]) -> Option<Option<VolumeRecord>>,
) -> Option<Option<VolumeRecord>> {
    let at = id as usize * RECORD;
    let held = || copies.iter().flatten().filter_map(|copy| copy.get(at..)?.first_chunk::<RECORD>());
    let good = held().find_map(|bytes| parse(bytes));
    good.or_else(|| held().find_map(|bytes| parse(&correct_record(*bytes)?)))
}

/// Volumes of lost records, reconstructed from their LEBs.
fn made_up(users: &[&ClaimedPeb], lost: &BTreeSet<u32>, most: u32) -> BTreeMap<u32, VolumeRecord> {
    let mut all: BTreeMap<u32, VolumeRecord> = BTreeMap::new();
    for found in users.iter().filter(|found| lost.contains(&found.header.volume_id)) {
        let header = &found.header;
        let lebs = header.lnum.saturating_add(1).max(header.used_lebs);
        let name = format!("volume-{}", header.volume_id);
        let record = VolumeRecord::new(name.as_bytes(), header.volume_type, lebs, header.data_pad);
        let Ok(record) = record else { continue };
        let record_of = all.entry(header.volume_id).or_insert(record);
        record_of.reserved_pebs = record_of.reserved_pebs.max(lebs).min(most);
    }
    all
}

/// Corrects a record with one wrong byte by its CRC.
fn correct_record(bytes: [u8; RECORD]) -> Option<[u8; RECORD]> {
    let is_good = |bytes: &[u8; RECORD]| {
        let (body, sum) = bytes.split_at(RECORD - 4);
        crc::ubi(body).to_be_bytes() == *sum
    };
    for at in 0..RECORD {
        let mut tried = bytes;
        for value in 0..=u8::MAX {
            tried[at] = value;
            if is_good(&tried) {
                return Some(tried);
            }
        }
    }
    None
}
