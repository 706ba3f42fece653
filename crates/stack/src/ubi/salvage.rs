//! A forgiving attach that reads the remains of a damaged device.

use super::salvaged_table::MISSING_LEBS_MAX;
use super::scan::Scan;
use super::survey::Survey;
use super::{AttachFault, AttachOptions, Counts, Ubi};
use floatgate_media::ubi::VolumeRecord;
use floatgate_mtd::Mtd;

impl Ubi<dyn Mtd> {
    /// Damage that a forgiving attach ignored, in order of discovery.
    pub fn damage(&self) -> &[AttachFault] {
        &self.damage
    }

    /// Attaches the remains of a damaged device.
    pub(super) fn attach_remains(&mut self, options: &AttachOptions) -> Result<(), AttachFault> {
        let mut scan = Scan::forgiving(self.io.pebs);
        let pebs = self.io.pebs;
        scan.read(&mut self.io, 0..pebs)?;
        let nothing = if scan.found.is_empty() { AttachFault::Empty } else { AttachFault::NoVolumeTable };
        let survey = Survey::from_scan(&mut scan, &mut self.io)?;
        if survey.volumes().next().is_none() && survey.faults.contains(&AttachFault::NoVolumeTable) {
            return Err(nothing);
        }
        self.counts = Counts::from_scan(&scan);
        let mut room = u64::from(self.good_pebs().saturating_add(MISSING_LEBS_MAX));
        let has_room = |&(_, record): &(u32, &VolumeRecord)| {
            let left = room.checked_sub(u64::from(record.reserved_pebs));
            room = left.unwrap_or(room);
            left.is_some()
        };
        let records: Vec<(u32, VolumeRecord)> =
            survey.volumes().filter(has_room).map(|(id, record)| (id, *record)).collect();
        self.take_over(&mut scan, &records, options)?;
        self.damage = survey.faults;
        self.damage.append(&mut scan.faults);
        Ok(())
    }
}
