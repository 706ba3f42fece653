//! Creating, removing, resizing and renaming volumes (Linux: `vmt.c`).

use super::pebs::LebId;
use super::table::{UNMAPPED, VolumeState};
use super::{NewVolume, Ubi, UbiError};
use floatgate_media::ubi::{LAYOUT_VOLUME, VolumeRecord};
use floatgate_mtd::Mtd;

impl Ubi<dyn Mtd> {
    /// Creates a volume and returns its id.
    ///
    /// # Errors
    /// The id or name exists; an invalid name, size, type or alignment; no space, no slot, read-only.
    pub fn create_volume(&mut self, new: &NewVolume) -> Result<u32, UbiError> {
        self.io.check_writable()?;
        let id = self.free_id(new.id)?;
        let record = self.new_record(new)?;
        if let Some(twin) = self.id_of(record.name()) {
            return Err(UbiError::VolumeExists { id: twin });
        }
        self.reserve(new.lebs)?;
        let result = self.flush_works(Some(id), None).and_then(|()| self.write_table(&[(id, Some(record))]));
        if let Err(error) = result {
            self.counts.available += new.lebs;
            return Err(error);
        }
        self.volumes.insert(id, VolumeState::new(id, record));
        self.volumes_changed()?;
        Ok(id)
    }

    /// The requested id, or the lowest free one.
    fn free_id(&self, wanted: Option<u32>) -> Result<u32, UbiError> {
        let slots = self.io.geometry.volume_slots();
        match wanted {
            Some(id) if id >= slots => Err(UbiError::BadVolumeId { id, slots }),
            Some(id) if self.volumes.contains_key(&id) => Err(UbiError::VolumeExists { id }),
            Some(id) => Ok(id),
            None => {
                let free = (0..slots).find(|id| !self.volumes.contains_key(id));
                free.ok_or(UbiError::NoSlot { slots })
            }
        }
    }

    fn new_record(&self, new: &NewVolume) -> Result<VolumeRecord, UbiError> {
        if new.lebs == 0 {
            return Err(UbiError::BadArgument { what: "LEBs of a volume", value: 0 });
        }
        let bad_alignment =
            UbiError::BadArgument { what: "alignment of a volume", value: u64::from(new.alignment) };
        let data_pad = self.io.geometry.data_pad(new.alignment).ok_or(bad_alignment)?;
        let mut record =
            VolumeRecord::new(&new.name, new.volume_type, new.lebs, data_pad).map_err(UbiError::BadVolume)?;
        record.alignment = new.alignment;
        record.flags = new.flags;
        record.check(&self.io.geometry, self.good_pebs().max(new.lebs)).map_err(UbiError::BadVolume)?;
        Ok(record)
    }

    /// Id of the volume with this name.
    #[must_use]
    pub fn id_of(&self, name: &[u8]) -> Option<u32> {
        self.records().find(|(_, record)| record.name() == name).map(|(id, _)| id)
    }

    fn reserve(&mut self, lebs: u32) -> Result<(), UbiError> {
        let available = self.counts.available;
        let left = available.checked_sub(lebs);
        self.counts.available = left.ok_or(UbiError::NoSpace { need: u64::from(lebs), available })?;
        Ok(())
    }

    /// Returns PEBs to the reserve for bad ones first, then to the available ones.
    fn release(&mut self, lebs: u32) {
        self.counts.available += lebs;
        let wanted = self.counts.bad_limit.saturating_sub(self.counts.bad);
        let more = wanted.saturating_sub(self.counts.reserve).min(self.counts.available);
        self.counts.available -= more;
        self.counts.reserve += more;
    }

    /// State of a user volume.
    pub(super) fn user_volume(&self, id: u32) -> Result<&VolumeState, UbiError> {
        self.io.check_writable()?;
        if id == LAYOUT_VOLUME {
            return Err(UbiError::NoVolume { id });
        }
        self.volume_state(id)
    }

    /// Removes a volume; its PEBs are erased later.
    ///
    /// # Errors
    /// The volume does not exist, read-only.
    pub fn remove_volume(&mut self, id: u32) -> Result<(), UbiError> {
        self.user_volume(id)?;
        self.write_table(&[(id, None)])?;
        self.forget_volume(id);
        self.volumes_changed()
    }

    /// Drops the state of a removed volume.
    fn forget_volume(&mut self, id: u32) {
        let lebs = self.unmap_from(id, 0);
        self.volumes.remove(&id);
        self.release(lebs);
    }

    /// Unmaps all LEBs from `first` on and returns their number.
    pub(super) fn unmap_from(&mut self, id: u32, first: u32) -> u32 {
        let lebs = self.volumes.get(&id).map_or(0, |volume| volume.record.reserved_pebs);
        (first..lebs).for_each(|lnum| self.unmap_any(LebId { volume: id, lnum }));
        lebs.saturating_sub(first)
    }

    /// Sets the number of LEBs of a volume. LEBs after a new end are unmapped and erased before the table changes.
    ///
    /// # Errors
    /// The volume does not exist, no LEBs, fewer than the data of a static volume needs, no space, read-only.
    pub fn resize_volume(&mut self, id: u32, lebs: u32) -> Result<(), UbiError> {
        let volume = self.user_volume(id)?;
        let (old, record) =
            (volume.record.reserved_pebs, VolumeRecord { reserved_pebs: lebs, ..volume.record });
        if lebs == 0 || lebs < volume.used_lebs {
            return Err(UbiError::BadArgument { what: "LEBs of a volume", value: u64::from(lebs) });
        }
        if lebs > old {
            return self.grow_volume(id, record, lebs - old);
        }
        if lebs < old {
            self.unmap_from(id, lebs);
            self.flush_works(Some(id), None)?;
            self.write_table(&[(id, Some(record))])?;
            self.set_record(id, record);
            self.release(old - lebs);
            self.volumes_changed()?;
        }
        Ok(())
    }

    pub(super) fn grow_volume(&mut self, id: u32, record: VolumeRecord, more: u32) -> Result<(), UbiError> {
        self.reserve(more)?;
        if let Err(error) = self.write_table(&[(id, Some(record))]) {
            self.counts.available += more;
            return Err(error);
        }
        self.set_record(id, record);
        self.volumes_changed()
    }

    /// Updates the state after a record was written.
    pub(super) fn set_record(&mut self, id: u32, record: VolumeRecord) {
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.record = record;
            volume.eba.resize(record.reserved_pebs as usize, UNMAPPED);
            for marks in [&mut volume.checked, &mut volume.unconfirmed] {
                if !marks.is_empty() {
                    marks.resize(record.reserved_pebs as usize, false);
                }
            }
        }
    }

    /// Renames volumes atomically. A volume whose name another volume gets, and that is not renamed itself, is removed.
    ///
    /// # Errors
    /// A duplicate id or name, an invalid name, no such volume, read-only.
    pub fn rename_volumes(&mut self, names: &[(u32, &[u8])]) -> Result<(), UbiError> {
        let mut changes = Vec::new();
        for (at, &(id, name)) in names.iter().enumerate() {
            let mut record = self.user_volume(id)?.record;
            let twice = names[..at].iter().any(|&(other, twin)| other == id || twin == name);
            if twice {
                return Err(UbiError::VolumeExists { id });
            }
            if record.name() != name {
                record.rename(name).map_err(UbiError::BadVolume)?;
                changes.push((id, Some(record)));
            }
        }
        let removed = self.overwritten(&changes);
        changes.extend(removed.iter().map(|&id| (id, None)));
        if changes.is_empty() {
            return Ok(());
        }
        self.write_table(&changes)?;
        changes.iter().for_each(|&(id, record)| match record {
            Some(record) => self.set_record(id, record),
            None => self.forget_volume(id),
        });
        self.volumes_changed()
    }

    /// Volumes whose names other volumes get.
    fn overwritten(&self, changes: &[(u32, Option<VolumeRecord>)]) -> Vec<u32> {
        let renamed = |id: u32| changes.iter().any(|change| change.0 == id);
        let taken = |name: &[u8]| changes.iter().flat_map(|change| change.1).any(|new| new.name() == name);
        let lost = self.records().filter(|(id, record)| !renamed(*id) && taken(record.name()));
        lost.map(|(id, _)| id).collect()
    }
}
