//! Attaching what is left of a damaged device, to read it.

use super::attach::TableCopies;
use super::scan::Scan;
use super::{AttachFault, Ubi, UbiError};
use floatgate_media::ubi::{INTERNAL_VOLUMES, VolumeRecord};
use floatgate_mtd::Mtd;
use std::collections::BTreeMap;

/// LEBs that volumes can have beyond the PEBs of the flash: images end early, and made-up sizes must not take memory.
const MISSING_LEBS_MAX: u32 = 1 << 16;

/// Bytes of a record of the volume table.
const RECORD_BYTES: usize = 172;

impl Ubi<dyn Mtd> {
    /// Damage that a forgiving attach has passed over, in the order in which it was found.
    pub fn damage(&self) -> &[AttachFault] {
        &self.damage
    }

    /// The volumes, each from the first copy of the table that has a good record of it. Those that LEBs belong to, but no good
    /// table knows, are made up from what the LEBs say.
    pub(super) fn salvage_table(
        &self,
        scan: &mut Scan,
        copies: &TableCopies,
    ) -> Result<Vec<(u32, VolumeRecord)>, AttachFault> {
        let users = scan.found.iter().any(|found| found.header.volume_id < INTERNAL_VOLUMES);
        if copies.iter().all(Option::is_none) {
            let fault = if scan.found.is_empty() { AttachFault::Empty } else { AttachFault::NoVolumeTable };
            if !users {
                return Err(fault);
            }
            scan.damage.push(fault);
        }
        let (mut records, lost) = self.good_records(copies);
        for (id, record) in traces(scan) {
            if lost.contains(&id) && !records.contains_key(&id) {
                scan.damage.push(AttachFault::LostRecord { id });
                records.insert(id, record);
            }
        }
        for (&id, _) in records.iter().filter(|(_, record)| record.update_marker != 0) {
            scan.damage.push(UbiError::UpdateMarker { id }.into());
        }
        let mut room = u64::from(self.good_pebs().saturating_add(MISSING_LEBS_MAX));
        records.retain(|_, record| {
            let left = room.checked_sub(u64::from(record.reserved_pebs));
            room = left.unwrap_or(room);
            left.is_some()
        });
        Ok(records.into_iter().collect())
    }

    /// Good records by volume, and the volumes of which no copy has a good one, be it an empty one.
    fn good_records(&self, copies: &TableCopies) -> (BTreeMap<u32, VolumeRecord>, Vec<u32>) {
        let geometry = &self.io.geometry;
        let most = self.good_pebs().saturating_add(MISSING_LEBS_MAX);
        let mut records = BTreeMap::new();
        let mut lost = Vec::new();
        for id in 0..geometry.volume_slots() {
            let at = id as usize * RECORD_BYTES;
            let held = copies.iter().flatten().filter_map(|copy| copy.get(at..at + RECORD_BYTES));
            let good = held.filter_map(|bytes| VolumeRecord::parse(bytes, geometry, most).ok()).next();
            match good {
                Some(Some(record)) => drop(records.insert(id, record)),
                Some(None) => {}
                None => lost.push(id),
            }
        }
        (records, lost)
    }
}

/// What LEBs say of their volumes.
fn traces(scan: &Scan) -> BTreeMap<u32, VolumeRecord> {
    let mut all: BTreeMap<u32, VolumeRecord> = BTreeMap::new();
    let most = u32::try_from(scan.pebs.len()).unwrap_or(u32::MAX).saturating_add(MISSING_LEBS_MAX);
    for found in scan.found.iter().filter(|found| found.header.volume_id < INTERNAL_VOLUMES) {
        let header = &found.header;
        let lebs = header.lnum.saturating_add(1).max(header.used_lebs);
        let name = format!("volume-{}", header.volume_id);
        let record = VolumeRecord::new(name.as_bytes(), header.volume_type, lebs, header.data_pad);
        let Ok(record) = record else { continue };
        let traced = all.entry(header.volume_id).or_insert(record);
        traced.reserved_pebs = traced.reserved_pebs.max(lebs).min(most);
    }
    all
}
