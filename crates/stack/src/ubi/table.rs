//! The volume table, and the state of volumes in memory (Linux: `vtbl.c`).

use super::pebs::LebId;
use super::{Ubi, UbiError, VolumeInfo};
use floatgate_media::ubi::{LAYOUT_VOLUME, LAYOUT_VOLUME_LEBS, VolumeRecord, VolumeTable, VolumeType};
use floatgate_mtd::Mtd;

/// EBA table entry of an unmapped LEB.
pub(super) const UNMAPPED: u32 = u32::MAX;

/// State of a volume, also of the layout volume.
#[derive(Clone, Debug)]
pub(super) struct VolumeState {
    pub(super) id: u32,
    pub(super) record: VolumeRecord,
    /// EBA table: PEB by LEB.
    pub(super) eba: Vec<u32>,
    /// Number of LEBs of a static volume that hold data.
    pub(super) used_lebs: u32,
    /// Number of bytes in the last of them.
    pub(super) last_bytes: u32,
    pub(super) corrupted: bool,
    /// LEBs of a static volume whose CRC was verified.
    pub(super) checked: Vec<bool>,
    /// LEBs whose fastmap mapping is not verified yet.
    pub(super) unconfirmed: Vec<bool>,
    /// Reads data even after an interrupted update.
    pub(super) forgiving: bool,
}

impl VolumeState {
    /// A volume without mapped LEBs.
    pub(super) fn new(id: u32, record: VolumeRecord) -> Self {
        let lebs = record.reserved_pebs as usize;
        Self {
            id,
            record,
            eba: vec![UNMAPPED; lebs],
            used_lebs: 0,
            last_bytes: 0,
            corrupted: false,
            checked: Vec::new(),
            unconfirmed: Vec::new(),
            forgiving: false,
        }
    }

    /// State of the layout volume.
    pub(super) fn layout() -> Self {
        let record = VolumeRecord {
            reserved_pebs: LAYOUT_VOLUME_LEBS,
            alignment: 1,
            volume_type: VolumeType::Dynamic,
            ..VolumeRecord::default()
        };
        Self::new(LAYOUT_VOLUME, record)
    }

    pub(super) fn is_static(&self) -> bool {
        self.record.volume_type == VolumeType::Static
    }

    /// Usable bytes of a LEB.
    pub(super) fn usable(&self, leb_bytes: u32) -> u32 {
        leb_bytes - self.record.data_pad
    }

    /// Number of LEBs that can be read.
    pub(super) fn readable_lebs(&self) -> u32 {
        if self.is_static() { self.used_lebs } else { self.record.reserved_pebs }
    }

    /// Number of readable bytes in a LEB; `None` past the last LEB.
    pub(super) fn leb_end(&self, lnum: u32, leb_bytes: u32) -> Option<u32> {
        if lnum >= self.readable_lebs() {
            return None;
        }
        let last = self.is_static() && lnum + 1 == self.used_lebs;
        Some(if last { self.last_bytes } else { self.usable(leb_bytes) })
    }

    /// Bytes of data in the volume.
    pub(super) fn used_bytes(&self, leb_bytes: u32) -> u64 {
        let whole = u64::from(self.usable(leb_bytes));
        match (self.is_static(), self.used_lebs) {
            (false, _) => whole * u64::from(self.record.reserved_pebs),
            (true, 0) => 0,
            (true, lebs) => whole * u64::from(lebs - 1) + u64::from(self.last_bytes),
        }
    }

    /// Returns an error after an interrupted update.
    pub(super) fn check_marker(&self) -> Result<(), UbiError> {
        match self.record.update_marker {
            0 => Ok(()),
            _ if self.forgiving => Ok(()),
            _ => Err(UbiError::UpdateMarker { id: self.id }),
        }
    }

    pub(super) fn info(&self, leb_bytes: u32) -> VolumeInfo {
        let record = &self.record;
        VolumeInfo {
            id: self.id,
            name: record.name().to_vec(),
            volume_type: record.volume_type,
            reserved_lebs: record.reserved_pebs,
            usable_leb_bytes: self.usable(leb_bytes),
            alignment: record.alignment,
            data_pad: record.data_pad,
            flags: record.flags,
            update_marker: record.update_marker != 0,
            used_lebs: self.readable_lebs(),
            used_bytes: self.used_bytes(leb_bytes),
            corrupted: self.corrupted,
            mapped_lebs: self.eba.iter().filter(|&&pnum| pnum != UNMAPPED).count() as u32,
        }
    }
}

impl Ubi<dyn Mtd> {
    /// Size of a copy of the volume table, rounded up to the minimum I/O size, B.
    pub(super) fn table_bytes_padded(&self) -> usize {
        let bytes = self.io.geometry.volume_table_bytes().next_multiple_of(self.io.min_io() as usize);
        bytes.min(self.io.leb_bytes() as usize)
    }

    /// Encodes the volume table, padded to the minimum I/O size.
    pub(super) fn table_bytes(
        &self,
        records: impl IntoIterator<Item = (u32, VolumeRecord)>,
    ) -> Result<Vec<u8>, UbiError> {
        let geometry = &self.io.geometry;
        // The padding after the table, up to the minimum I/O size, is zero, as in Linux.
        let mut bytes = vec![0; self.table_bytes_padded()];
        VolumeTable::emit(records, geometry, &mut bytes).map_err(UbiError::BadVolume)?;
        Ok(bytes)
    }

    /// Records of the user volumes.
    pub(super) fn records(&self) -> impl Iterator<Item = (u32, VolumeRecord)> + '_ {
        let users = self.volumes.values().filter(|volume| volume.id != LAYOUT_VOLUME);
        users.map(|volume| (volume.id, volume.record))
    }

    /// Writes both copies of the table with changed records; an empty record removes a volume.
    pub(super) fn write_table(&mut self, changes: &[(u32, Option<VolumeRecord>)]) -> Result<(), UbiError> {
        self.io.check_writable()?;
        let changed = |id: u32| changes.iter().any(|change| change.0 == id);
        let kept = self.records().filter(|&(id, _)| !changed(id));
        let new = changes.iter().filter_map(|&(id, record)| Some((id, record?)));
        let bytes = self.table_bytes(kept.chain(new))?;
        (0..LAYOUT_VOLUME_LEBS).try_for_each(|lnum| self.write_table_copy(lnum, &bytes))
    }

    /// Writes one copy. The table has its own CRCs, so no copy flag is needed for the first copy.
    pub(super) fn write_table_copy(&mut self, lnum: u32, bytes: &[u8]) -> Result<(), UbiError> {
        let leb = LebId { volume: LAYOUT_VOLUME, lnum };
        match self.mapping(leb) {
            Some(_) => self.change_any(leb, bytes),
            None => self.write_any(leb, 0, bytes),
        }
    }
}
