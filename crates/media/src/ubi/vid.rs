//! The volume identifier (VID) header of a mapped PEB: `docs/spec/ubi.md#volume-identifier-header`.

use super::header::{HEADER_BYTES, Kind, ReadFlips, check_signs, open, seal};
use super::{Geometry, INTERNAL_VOLUMES, MAX_VOLUMES};
use crate::error::{MediaError, require};
use crate::wire::{BigWire, codes, layout};

/// Magic number of a VID header (Linux: UBI_VID_HDR_MAGIC).
pub const VID_MAGIC: [u8; 4] = *b"UBI!";

const KIND: Kind = Kind { name: "VID header", magic: u32::from_be_bytes(VID_MAGIC) };

const TYPE_AT: usize = 5;
const COPY_AT: usize = 6;
const COMPAT_AT: usize = 7;
const VOLUME_AT: usize = 8;
const LNUM_AT: usize = 12;
const DATA_SIZE_AT: usize = 20;
const USED_LEBS_AT: usize = 24;
const DATA_PAD_AT: usize = 28;
const DATA_CRC_AT: usize = 32;

codes! {
    /// Type of a volume: dynamic or static.
    pub enum VolumeType(u8) {
        /// Dynamic volume: any LEB can be written at any time.
        Dynamic = 1,
        /// Static volume: written as a whole, each LEB with the CRC of its data.
        Static = 2,
    }
}

codes! {
    /// Handling of an internal volume that the reader does not support.
    pub enum Compat(u8) {
        /// User volume, for which this field is unused.
        None = 0,
        /// The volume is deleted before anything is written.
        Delete = 1,
        /// The device is attached read-only.
        ReadOnly = 2,
        /// The PEBs of the volume are preserved.
        Preserve = 4,
        /// Attaching the device fails.
        Reject = 5,
    }
}

layout! {
    /// The volume identifier header, which names the volume and LEB stored in a PEB.
    ///
    /// Magic, version and CRC are not fields, because they are derived from the other bytes.
    pub big_endian struct VidHeader[64] {
        /// Type of the volume: dynamic or static.
        5 => volume_type: VolumeType,
        /// 1 if the data was copied here from another PEB; `data_crc` then shows whether the copy is complete.
        6 => copy_flag: u8,
        /// Compatibility class of an internal volume.
        7 => compat: Compat,
        /// Id of the volume.
        8 => volume_id: u32,
        /// Number of the LEB.
        12 => lnum: u32,
        /// Number of bytes that `data_crc` covers; 0 in a dynamic volume unless the data was copied here.
        20 => data_size: u32,
        /// Number of LEBs with data in a static volume; 0 in a dynamic volume.
        24 => used_lebs: u32,
        /// Number of bytes at the end of the LEB that the volume's alignment leaves unused.
        28 => data_pad: u32,
        /// CRC-32 of the data.
        32 => data_crc: u32,
        /// Sequence number, which increases with every VID header written to the device; the highest is the
        /// newest.
        40 => sqnum: u64,
    }
}

const _: () = assert!(VidHeader::SIZE == HEADER_BYTES);

impl VidHeader {
    /// Reads the header at the start of `bytes`.
    ///
    /// Linux checks the version of EC headers only; floatgate checks the version of both.
    ///
    /// # Errors
    ///
    /// Erased, erased with bitflips, bad magic, bad CRC, wrong version, or fields that contradict each other.
    pub fn parse(bytes: &[u8], flips: ReadFlips) -> Result<Self, MediaError> {
        let header = Self::decode(open(bytes, &KIND, flips)?, 0);
        header.check_volume()?;
        if header.volume_type == VolumeType::Static {
            header.check_static()?;
        } else {
            header.check_dynamic()?;
        }
        Ok(header)
    }

    /// Writes the header.
    #[must_use]
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        seal(self, &KIND)
    }

    /// True when the data was copied from another PEB, and `data_crc` shows whether the copy is complete.
    #[must_use]
    pub const fn is_copy(&self) -> bool {
        self.copy_flag == 1
    }

    /// True for an internal volume.
    #[must_use]
    pub const fn is_internal(&self) -> bool {
        self.volume_id >= INTERNAL_VOLUMES
    }

    /// Checks sizes against the LEB size of the device.
    ///
    /// # Errors
    ///
    /// Padding of half a LEB or more, more data than a LEB holds, or a LEB of a static volume, other than the
    /// last, that is not full.
    pub fn check(&self, geometry: &Geometry) -> Result<(), MediaError> {
        let leb = geometry.leb_bytes();
        require(self.data_pad < leb / 2, DATA_PAD_AT, "data padding", self.data_pad)?;
        require(self.data_size <= leb, DATA_SIZE_AT, "data size", self.data_size)?;
        let full = self.data_size == leb - self.data_pad;
        let last = self.lnum.saturating_add(1) >= self.used_lebs;
        let partial_allowed = self.volume_type != VolumeType::Static || last;
        require(full || partial_allowed, DATA_SIZE_AT, "data size", self.data_size)
    }

    fn check_volume(&self) -> Result<(), MediaError> {
        require(self.copy_flag <= 1, COPY_AT, "copy flag", self.copy_flag)?;
        check_signs([
            (VOLUME_AT, "volume id", self.volume_id),
            (LNUM_AT, "LEB number", self.lnum),
            (DATA_SIZE_AT, "data size", self.data_size),
            (USED_LEBS_AT, "used LEBs", self.used_lebs),
            (DATA_PAD_AT, "data padding", self.data_pad),
        ])?;
        let known = self.volume_id < MAX_VOLUMES || self.is_internal();
        require(known, VOLUME_AT, "volume id", self.volume_id)?;
        self.compat.known("compatibility", COMPAT_AT)?;
        let fits = (self.compat == Compat::None) != self.is_internal();
        require(fits, COMPAT_AT, "compatibility", self.compat.code())?;
        self.volume_type.known("volume type", TYPE_AT).map(drop)
    }

    fn check_static(&self) -> Result<(), MediaError> {
        require(self.used_lebs > 0, USED_LEBS_AT, "used LEBs", self.used_lebs)?;
        require(self.data_size > 0, DATA_SIZE_AT, "data size", self.data_size)?;
        require(self.lnum < self.used_lebs, LNUM_AT, "LEB number", self.lnum)
    }

    fn check_dynamic(&self) -> Result<(), MediaError> {
        if self.is_copy() {
            require(self.data_size > 0, DATA_SIZE_AT, "data size", self.data_size)?;
        } else {
            require(self.data_crc == 0, DATA_CRC_AT, "data CRC", self.data_crc)?;
            require(self.data_size == 0, DATA_SIZE_AT, "data size", self.data_size)?;
        }
        require(self.used_lebs == 0, USED_LEBS_AT, "used LEBs", self.used_lebs)
    }
}
