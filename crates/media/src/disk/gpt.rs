//! GPT, the partition table of UEFI: a header in the second sector, and an array of entries at a sector given by
//! the header.

use super::SECTOR_BYTES;
use crate::crc;
use crate::error::{MediaError, Reason, require};
use crate::wire::{Wire as _, chunk, layout, signature, span};

/// The letters at the beginning of a header.
pub const SIGNATURE: &str = "EFI PART";

/// Longest array of entries that is read, in bytes. The usual length is 16 KiB.
pub const ARRAY_BYTES_MAX: u64 = 256 << 10;

layout! {
    /// Header of a GPT.
    pub struct GptHeader[92] {
        /// Signature: [`SIGNATURE`].
        0 => signature: [u8; 8],
        /// Revision of the table; 1.0 is stored as 10000h.
        8 => revision: u32,
        /// Length of the header, bytes; the header's checksum covers these bytes.
        12 => header_bytes: u32,
        /// CRC-32 of the header, computed with zeros in this field.
        16 => crc: u32,
        /// Sector of this header.
        24 => own_sector: u64,
        /// Sector of the other copy of the header.
        32 => backup_sector: u64,
        /// First sector that a partition may use.
        40 => first_usable: u64,
        /// Last sector that a partition may use.
        48 => last_usable: u64,
        /// Unique id (GUID) of the disk.
        56 => disk_guid: [u8; 16],
        /// First sector of the array of entries.
        72 => entries_sector: u64,
        /// Number of entries in the array.
        80 => entries: u32,
        /// Length of an entry, bytes.
        84 => entry_bytes: u32,
        /// CRC-32 of the array of entries.
        88 => entries_crc: u32,
    }
}

/// Offset of the header's checksum, B.
const CRC_AT: usize = 16;

impl GptHeader {
    /// Reads a header from its sector. Its array of entries is at most [`ARRAY_BYTES_MAX`] long.
    ///
    /// # Errors
    /// No signature, a wrong length or checksum, or an impossible number or length of entries.
    pub fn parse(bytes: &[u8]) -> Result<Self, MediaError> {
        signature(bytes, 0, SIGNATURE)?;
        let header = Self::decode(chunk::<{ Self::SIZE }>(bytes, 0)?, 0);
        let length = header.header_bytes as usize;
        require(
            (Self::SIZE..=bytes.len()).contains(&length),
            12,
            "length of the header",
            header.header_bytes,
        )?;
        let computed = covered_crc(span(bytes, 0, length)?);
        if computed != header.crc {
            return Err(Reason::BadCrc32 { what: "header", stored: header.crc, computed }.at(CRC_AT));
        }
        let is_known = header.entry_bytes.is_power_of_two() && header.entry_bytes >= GptEntry::SIZE as u32;
        require(is_known, 84, "length of an entry", header.entry_bytes)?;
        require(header.array_bytes() <= ARRAY_BYTES_MAX, 80, "number of entries", header.entries)?;
        Ok(header)
    }

    /// Length of the array of entries, in bytes.
    #[must_use]
    pub const fn array_bytes(&self) -> u64 {
        self.entries as u64 * self.entry_bytes as u64
    }

    /// The used entries of an array, with their numbers from 1 on.
    ///
    /// # Errors
    /// The checksum of the array is wrong.
    pub fn used<'a>(
        &self,
        array: &'a [u8],
    ) -> Result<impl Iterator<Item = (u64, GptEntry)> + use<'a>, MediaError> {
        let computed = crc::ieee(array);
        if computed != self.entries_crc {
            return Err(Reason::BadCrc32 { what: "entries", stored: self.entries_crc, computed }.at(88));
        }
        let entries = array.chunks_exact((self.entry_bytes as usize).max(GptEntry::SIZE));
        Ok((1..).zip(entries.map(|entry| GptEntry::decode(entry, 0))).filter(|(_, entry)| entry.is_used()))
    }

    /// The header as bytes; signature, length and checksums are computed. `array` contains the entries.
    #[must_use]
    pub fn emit(&self, array: &[u8]) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        let mut header =
            Self { header_bytes: Self::SIZE as u32, entries_crc: crc::ieee(array), crc: 0, ..*self };
        header.signature.copy_from_slice(SIGNATURE.as_bytes());
        header.put(&mut bytes, 0);
        header.crc = bytes.get(..Self::SIZE).map_or(0, crc::ieee);
        header.put(&mut bytes, 0);
        bytes
    }
}

/// CRC-32 of a header, computed with zeros in place of the stored checksum.
fn covered_crc(header: &[u8]) -> u32 {
    !header.iter().enumerate().fold(u32::MAX, |register, (at, byte)| {
        let is_own = (CRC_AT..CRC_AT + 4).contains(&at);
        crc::ubi_update(register, &[if is_own { 0 } else { *byte }])
    })
}

layout! {
    /// An entry of the partition array.
    pub struct GptEntry[128] {
        /// Type of the partition (GUID); zeros: the entry is unused.
        0 => kind: [u8; 16],
        /// Unique id (GUID) of the partition.
        16 => guid: [u8; 16],
        /// First sector of the partition.
        32 => first: u64,
        /// Last sector of the partition.
        40 => last: u64,
        /// Attribute bits.
        48 => attributes: u64,
        /// Name of the partition in UTF-16.
        56 => name: [u16; 36],
    }
}

impl GptEntry {
    /// True if the entry describes a partition.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.kind != [0; 16]
    }

    /// Size of the partition, sectors.
    ///
    /// # Errors
    /// The last sector is before the first.
    pub fn sectors(&self) -> Result<u64, MediaError> {
        let sectors = self.last.checked_sub(self.first).and_then(|sectors| sectors.checked_add(1));
        sectors.ok_or_else(|| Reason::OutOfRange { field: "last sector", value: self.last }.at(40))
    }

    /// Writes the entry at position `index` of an array with entries of 128 bytes.
    pub fn emit(&self, array: &mut [u8], index: usize) {
        self.put(array, index * Self::SIZE);
    }
}
