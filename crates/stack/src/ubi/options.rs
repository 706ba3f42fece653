//! Options of format, attach and volumes, and the properties that callers can query.

use super::ReadOnlyReason;
use super::pebs::LebId;
use super::reserve::MAX_BAD_PER_1024;
use floatgate_media::ubi::{VolumeFlags, VolumeType};
use floatgate_mtd::Instant;

/// Options of [`Ubi::format`](super::Ubi::format).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FormatOptions {
    /// Start time of formatting.
    pub now: Instant,
    /// Image sequence number for all EC headers; 0 matches any.
    pub image_seq: u32,
    /// Offset of the VID header in a PEB; `None` for the default of Linux and ubinize.
    pub vid_header_offset: Option<u32>,
    /// Initial value of all erase counters; `None` continues the existing ones.
    pub erase_count: Option<u32>,
}

/// Use of fastmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum FastmapUse {
    /// Fastmaps are ignored and their PEBs are erased.
    #[default]
    Never,
    /// An existing fastmap is used to attach; none is written.
    Read,
    /// An existing fastmap is used to attach, and a fastmap is maintained (Linux: `fm_autoconvert`).
    Write,
}

/// Options of [`Ubi::attach`](super::Ubi::attach).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachOptions {
    /// Start time of the attach.
    pub now: Instant,
    /// Offset of the VID header in a PEB; `None` for the default of Linux and ubinize.
    pub vid_header_offset: Option<u32>,
    /// Never writes or erases.
    pub read_only: bool,
    /// Use of fastmaps.
    pub fastmap: FastmapUse,
    /// Expected bad PEBs per 1024 of the chip, for which good ones are reserved (Linux: `max_beb_per1024`, 20).
    pub max_bad_per_1024: u32,
    /// Expects bad PEBs in proportion to the partition, like Linux before 3.7. Newer versions count the whole chip,
    /// because all of its bad blocks may be in this partition.
    pub bad_limit_of_partition: bool,
    /// Difference of erase counters that triggers wear levelling (Linux: 4096).
    pub wear_threshold: u32,
    /// Image sequence number for empty flash (Linux: a random one); 0 matches any.
    pub new_image_seq: u32,
    /// Assumes that a power loss may have interrupted a write, which Linux does not handle. Data written last may be
    /// readable only for now, and a PEB that looks erased may not retain new data. So the last written LEB is written
    /// again, and the few PEBs in which a write may have begun are erased. `false` saves that time.
    pub after_power_cut: bool,
    /// Attaches the remains of a damaged device, or of an image that is shorter than its volumes, and records the
    /// damage ([`Ubi::damage`](super::Ubi::damage)). Requires `read_only`.
    pub forgiving: bool,
    /// Grows an auto-resize volume to all available LEBs, as Linux does. `false` keeps its auto-resize flag, so that a
    /// modified image still fits flash of any size.
    pub autoresize: bool,
}

impl Default for AttachOptions {
    fn default() -> Self {
        Self {
            now: Instant::ZERO,
            vid_header_offset: None,
            read_only: false,
            fastmap: FastmapUse::Never,
            max_bad_per_1024: MAX_BAD_PER_1024,
            bad_limit_of_partition: false,
            wear_threshold: 4096,
            new_image_seq: 0,
            after_power_cut: true,
            forgiving: false,
            autoresize: true,
        }
    }
}

/// Parameters of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVolume {
    /// Volume id; `None` for the lowest free one.
    pub id: Option<u32>,
    /// Name, 1 to 127 bytes without zeros.
    pub name: Vec<u8>,
    /// Type of the volume: dynamic or static.
    pub volume_type: VolumeType,
    /// Number of reserved LEBs, at least 1.
    pub lebs: u32,
    /// Alignment of the usable bytes of a LEB; 1 for none.
    pub alignment: u32,
    /// Flags of the volume.
    pub flags: VolumeFlags,
}

impl NewVolume {
    /// Parameters of a dynamic volume of `lebs` LEBs.
    #[must_use]
    pub fn dynamic(name: impl Into<Vec<u8>>, lebs: u32) -> Self {
        let flags = VolumeFlags::default();
        Self { id: None, name: name.into(), volume_type: VolumeType::Dynamic, lebs, alignment: 1, flags }
    }

    /// Parameters of a static volume of `lebs` LEBs.
    #[must_use]
    pub fn fixed(name: impl Into<Vec<u8>>, lebs: u32) -> Self {
        Self { volume_type: VolumeType::Static, ..Self::dynamic(name, lebs) }
    }
}

/// Method by which a device was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttachKind {
    /// A scan of all headers.
    Scan,
    /// A fastmap, without a scan.
    Fastmap,
}

/// Properties of a UBI device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Offsets of headers and data in a PEB.
    pub geometry: floatgate_media::ubi::Geometry,
    /// Number of PEBs of the flash.
    pub pebs: u32,
    /// PEBs that are not marked bad.
    pub good_pebs: u32,
    /// PEBs that are marked bad.
    pub bad_pebs: u32,
    /// Erased and available PEBs.
    pub free_pebs: u32,
    /// PEBs waiting to be erased.
    pub pending_pebs: u32,
    /// PEBs kept for inspection: they have a corrupt header, and data that no power cut explains.
    pub corrupted_pebs: u32,
    /// Mapped PEBs that could not be read when their LEB was to be moved.
    pub erroneous_pebs: u32,
    /// PEBs of unknown internal volumes that must be preserved.
    pub alien_pebs: u32,
    /// LEBs available for new volumes.
    pub available_lebs: u32,
    /// PEBs reserved to replace bad ones.
    pub bad_reserve: u32,
    /// Image sequence number.
    pub image_seq: u32,
    /// Highest erase counter.
    pub erase_count_max: u32,
    /// Mean erase counter of the good PEBs.
    pub erase_count_mean: u32,
    /// Lowest erase counter.
    pub erase_count_min: u32,
    /// Maximum number of volumes in the table.
    pub volumes_max: u32,
    /// Method by which the device was attached.
    pub attach_kind: AttachKind,
    /// Sequence number of the next VID header.
    pub sqnum: u64,
    /// Reason why the device is read-only, if it is.
    pub read_only: Option<ReadOnlyReason>,
}

/// Properties of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Volume id.
    pub id: u32,
    /// Name of the volume.
    pub name: Vec<u8>,
    /// Type of the volume: dynamic or static.
    pub volume_type: VolumeType,
    /// Number of reserved LEBs.
    pub reserved_lebs: u32,
    /// Usable bytes of a LEB.
    pub usable_leb_bytes: u32,
    /// Alignment of the usable bytes.
    pub alignment: u32,
    /// Unused bytes at the end of each LEB.
    pub data_pad: u32,
    /// Flags of the volume.
    pub flags: VolumeFlags,
    /// True if an update is in progress or was interrupted.
    pub update_marker: bool,
    /// LEBs with data; all LEBs of a dynamic volume.
    pub used_lebs: u32,
    /// Bytes of data in a static volume; the size of a dynamic one.
    pub used_bytes: u64,
    /// True if LEBs of a static volume are missing or failed their CRC.
    pub corrupted: bool,
    /// Number of mapped LEBs.
    pub mapped_lebs: u32,
}

/// Erase counter and use of a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PebInfo {
    /// Number of the PEB.
    pub pnum: u32,
    /// Number of erases; the mean of the others if its header is lost.
    pub erase_count: u32,
    /// Use of the PEB.
    pub state: super::PebState,
    /// LEB in the PEB, also while it waits to be erased.
    pub leb: Option<LebId>,
}
