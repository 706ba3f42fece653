//! The volume table, of which each LEB of the layout volume holds a copy: `docs/spec/ubi.md#volume-table`.

use super::header::check_signs;
use super::{Geometry, MAX_NAME_BYTES, MAX_VOLUMES, VolumeType};
use crate::crc;
use crate::error::{MediaError, Reason, require};
use crate::flags::flags;
use crate::wire::{BigWire, layout, room, span};

/// Size of a record, bytes.
pub(super) const RECORD_BYTES: usize = VolumeRecord::SIZE;

const ALIGNMENT_AT: usize = 4;
const DATA_PAD_AT: usize = 8;
const TYPE_AT: usize = 12;
const MARKER_AT: usize = 13;
const NAME_LEN_AT: usize = 14;
const NAME_AT: usize = 16;

/// Offset of the CRC of the bytes before it.
const CRC_AT: usize = 168;

flags! {
    /// Flags of a volume record.
    pub struct VolumeFlags(u8) {
        /// The volume grows to all free PEBs when the device is first attached.
        AUTORESIZE = 0,
        /// The CRC of a static volume is not checked when it is opened.
        SKIP_CRC_CHECK = 1,
    }
}

layout! {
    /// A record of the volume table; its index in the table is the volume's id.
    ///
    /// The CRC is not a field, because it is derived from the other bytes.
    pub big_endian struct VolumeRecord[172] {
        /// Number of PEBs reserved for the volume; 0 in an empty record.
        0 => reserved_pebs: u32,
        /// Alignment of the usable size of a LEB, bytes; 1 for none.
        4 => alignment: u32,
        /// Number of bytes at the end of each LEB that the alignment leaves unused.
        8 => data_pad: u32,
        /// Type of the volume: dynamic or static.
        12 => volume_type: VolumeType,
        /// Update marker: 1 while the volume is being rewritten and its data is incomplete.
        13 => update_marker: u8,
        /// Length of the name, bytes.
        14 => name_len: u16,
        /// Name of the volume, padded with zeros.
        16 => name: [u8; 128],
        /// Flags of the volume.
        144 => flags: VolumeFlags,
    }
}

impl VolumeRecord {
    /// A record without flags.
    ///
    /// # Errors
    ///
    /// A name that is empty, longer than [`MAX_NAME_BYTES`] or contains a zero byte.
    pub fn new(
        name: &[u8],
        volume_type: VolumeType,
        reserved_pebs: u32,
        data_pad: u32,
    ) -> Result<Self, MediaError> {
        let mut record = Self { reserved_pebs, alignment: 1, data_pad, volume_type, ..Self::default() };
        record.rename(name)?;
        Ok(record)
    }

    /// Name of the volume without the zero padding.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.name.get(..usize::from(self.name_len)).unwrap_or(&self.name)
    }

    /// Renames the volume.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new); the record is then unchanged.
    pub fn rename(&mut self, name: &[u8]) -> Result<(), MediaError> {
        let mut renamed = Self { name: [0; 128], ..*self };
        let len = name.len();
        let bad = Reason::OutOfRange { field: "volume name length", value: len as u64 }.at(NAME_LEN_AT);
        renamed.name_len = u16::try_from(len).map_err(|_| bad)?;
        renamed.name.get_mut(..len).ok_or(bad)?.copy_from_slice(name);
        renamed.check_name()?;
        *self = renamed;
        Ok(())
    }

    /// Reads one record of a table by itself; `None` for an empty record.
    ///
    /// # Errors
    ///
    /// A damaged record, or invalid values.
    pub fn parse(bytes: &[u8], geometry: &Geometry, good_pebs: u32) -> Result<Option<Self>, MediaError> {
        check_record(span(bytes, 0, RECORD_BYTES)?, geometry, good_pebs)?;
        Ok(Some(Self::decode(bytes, 0)).filter(|record| record.reserved_pebs != 0))
    }

    /// Writes the record.
    #[must_use]
    pub fn emit(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        self.put(&mut out, 0);
        crc::ubi(out.split_at(CRC_AT).0).put(&mut out, CRC_AT);
        out
    }

    /// Checks the fields against the device; offsets are those in the record.
    ///
    /// # Errors
    ///
    /// The first field that does not fit: alignment, padding, type, marker, PEBs, name.
    pub fn check(&self, geometry: &Geometry, good_pebs: u32) -> Result<(), MediaError> {
        check_signs([
            (0, "reserved PEBs", self.reserved_pebs),
            (ALIGNMENT_AT, "alignment", self.alignment),
            (DATA_PAD_AT, "data padding", self.data_pad),
        ])?;
        self.check_alignment(geometry)?;
        self.volume_type.known("volume type", TYPE_AT)?;
        require(self.update_marker <= 1, MARKER_AT, "update marker", self.update_marker)?;
        if self.reserved_pebs > good_pebs {
            return Err(Reason::TooFewPebs { reserved: self.reserved_pebs }.at(0));
        }
        self.check_name()
    }

    fn check_alignment(&self, geometry: &Geometry) -> Result<(), MediaError> {
        let unit = geometry.flash().min_io_bytes;
        let good = self.alignment == 1 || self.alignment.is_multiple_of(unit);
        let small = self.alignment <= geometry.leb_bytes();
        require(good && small, ALIGNMENT_AT, "alignment", self.alignment)?;
        let pad = geometry.data_pad(self.alignment);
        require(pad.is_some(), ALIGNMENT_AT, "alignment", self.alignment)?;
        require(pad == Some(self.data_pad), DATA_PAD_AT, "data padding", self.data_pad)
    }

    /// Checks that the name contains no zero byte and is padded with zeros.
    fn check_name(&self) -> Result<(), MediaError> {
        let len = usize::from(self.name_len);
        require(len <= MAX_NAME_BYTES, NAME_LEN_AT, "volume name length", self.name_len)?;
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        require(end > 0, NAME_AT, "volume name", 0u8)?;
        require(end == len, NAME_LEN_AT, "volume name length", self.name_len)
    }
}

/// Checks the record at the start of `bytes`, independently of other records.
fn check_record(bytes: &[u8], geometry: &Geometry, good_pebs: u32) -> Result<(), MediaError> {
    check_crc(bytes)?;
    let record = VolumeRecord::decode(bytes, 0);
    if record.reserved_pebs != 0 {
        return record.check(geometry, good_pebs);
    }
    if bytes.iter().take(CRC_AT).any(|&byte| byte != 0) {
        return Err(Reason::Inconsistent { what: "an empty volume record has contents" }.at(0));
    }
    Ok(())
}

fn check_crc(bytes: &[u8]) -> Result<(), MediaError> {
    let (body, tail) = span(bytes, 0, RECORD_BYTES)?.split_at(CRC_AT);
    let (stored, computed) = (u32::decode(tail, 0), crc::ubi(body));
    if stored == computed {
        return Ok(());
    }
    Err(Reason::BadCrc32 { what: "volume record", stored, computed }.at(CRC_AT))
}

/// Number of records in the table of a device with LEBs of this size.
pub(super) const fn slots(leb_bytes: u32) -> u32 {
    let fit = leb_bytes / RECORD_BYTES as u32;
    if fit < MAX_VOLUMES { fit } else { MAX_VOLUMES }
}

/// A volume table whose records have been checked. It borrows the bytes of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeTable<'a> {
    bytes: &'a [u8],
}

/// Valid copies of the volume table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Copies {
    /// Both copies are valid and equal.
    Both,
    /// The first copy is valid and newer: the second must be rewritten.
    First,
    /// Only the second copy is valid: the first must be rewritten.
    Second,
}

impl<'a> VolumeTable<'a> {
    /// Reads one copy of the table from the start of its LEB.
    ///
    /// # Errors
    ///
    /// [`Reason::BadCrc32`] if a record is damaged; the other copy may then be used. Any other reason if a record has
    /// a good CRC but invalid values, or if two volumes have the same name.
    pub fn parse(bytes: &'a [u8], geometry: &Geometry, good_pebs: u32) -> Result<Self, MediaError> {
        let table = Self { bytes: span(bytes, 0, geometry.volume_table_bytes())? };
        // Nearly all records are empty, and a comparison is faster than a CRC.
        let empty = VolumeRecord::default().emit();
        let records = table.bytes.chunks_exact(RECORD_BYTES).enumerate();
        for (slot, bytes) in records.filter(|(_, bytes)| *bytes != empty) {
            let place = |error: MediaError| error.shifted(slot * RECORD_BYTES);
            check_record(bytes, geometry, good_pebs).map_err(place)?;
        }
        table.check_names()?;
        Ok(table)
    }

    /// Reads both copies and chooses the newer good one, as Linux does.
    ///
    /// A change writes the first copy and then the second. Therefore the first copy is used if it is good. The second
    /// is used only if the first is missing or fails its CRC. `None` stands for an unmapped LEB.
    ///
    /// # Errors
    ///
    /// The error of the first copy if a power cut cannot have caused it, otherwise the error of the second copy.
    pub fn parse_copies(
        copies: [Option<&'a [u8]>; 2],
        geometry: &Geometry,
        good_pebs: u32,
    ) -> Result<(Self, Copies), MediaError> {
        let [first, second] = copies.map(|copy| copy.unwrap_or(&[]));
        match Self::parse(first, geometry, good_pebs) {
            Ok(table) if second.starts_with(table.bytes) => Ok((table, Copies::Both)),
            Ok(table) => Ok((table, Copies::First)),
            Err(MediaError { reason: Reason::BadCrc32 { .. } | Reason::Truncated { .. }, .. }) => {
                Self::parse(second, geometry, good_pebs).map(|table| (table, Copies::Second))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a table to the start of `out` and returns its length; records of all other ids are empty.
    ///
    /// # Errors
    ///
    /// No room, or an id past the table's end.
    pub fn emit(
        volumes: impl IntoIterator<Item = (u32, VolumeRecord)>,
        geometry: &Geometry,
        out: &mut [u8],
    ) -> Result<usize, MediaError> {
        let out = room(out, geometry.volume_table_bytes())?;
        let empty = VolumeRecord::default().emit();
        for place in out.chunks_exact_mut(RECORD_BYTES) {
            place.copy_from_slice(&empty);
        }
        for (id, record) in volumes {
            let bad = Reason::OutOfRange { field: "volume id", value: u64::from(id) }.at(0);
            let slot = usize::try_from(id).map_err(|_| bad)?;
            let place = out.chunks_exact_mut(RECORD_BYTES).nth(slot).ok_or(bad)?;
            place.copy_from_slice(&record.emit());
        }
        Ok(out.len())
    }

    /// The volumes with their ids, lowest id first.
    pub fn volumes(&self) -> impl Iterator<Item = (u32, VolumeRecord)> + use<'a> {
        let records = self.bytes.chunks_exact(RECORD_BYTES).map(|bytes| VolumeRecord::decode(bytes, 0));
        (0u32..).zip(records).filter(|(_, record)| record.reserved_pebs != 0)
    }

    /// The volume with this id.
    #[must_use]
    pub fn get(&self, id: u32) -> Option<VolumeRecord> {
        let bytes = self.bytes.chunks_exact(RECORD_BYTES).nth(usize::try_from(id).ok()?)?;
        Some(VolumeRecord::decode(bytes, 0)).filter(|record| record.reserved_pebs != 0)
    }

    /// The encoded bytes of the table.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn check_names(&self) -> Result<(), MediaError> {
        for (id, record) in self.volumes() {
            let twin = |(other, twin): (u32, VolumeRecord)| other < id && twin.name() == record.name();
            if self.volumes().any(twin) {
                let at = id as usize * RECORD_BYTES + NAME_AT;
                return Err(Reason::Inconsistent { what: "two volumes have one name" }.at(at));
            }
        }
        Ok(())
    }
}
