//! Options that callers set, and the facts that they get.

use super::ReadOnlyReason;
use super::pebs::LebId;
use super::reserve::MAX_BAD_PER_1024;
use floatgate_media::ubi::{VolumeFlags, VolumeType};
use floatgate_mtd::Instant;

/// Options of [`Ubi::format`](super::Ubi::format).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FormatOptions {
    /// Time at which formatting begins.
    pub now: Instant,
    /// Image sequence number of all EC headers; 0 matches any.
    pub image_seq: u32,
    /// Byte in a PEB where the VID header goes; `None` for the place Linux and ubinize choose.
    pub vid_header_offset: Option<u32>,
    /// Start all erase counters here instead of counting on from those found.
    pub erase_count: Option<u32>,
}

/// Use of a fastmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum FastmapUse {
    /// Not at all; PEBs of one are erased.
    #[default]
    Never,
    /// Attach by one that is there, write none.
    Read,
    /// Attach by one that is there, keep one up to date (Linux: `fm_autoconvert`).
    Write,
}

/// Options of [`Ubi::attach`](super::Ubi::attach).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachOptions {
    /// Time at which attaching begins.
    pub now: Instant,
    /// Byte in a PEB where the VID header is; `None` for the place Linux and ubinize choose.
    pub vid_header_offset: Option<u32>,
    /// Neither write nor erase anything, ever.
    pub read_only: bool,
    /// Use of a fastmap.
    pub fastmap: FastmapUse,
    /// Bad PEBs expected among 1024 of the chip: good ones are set aside for them (Linux: `max_beb_per1024`, 20).
    pub max_bad_per_1024: u32,
    /// Expects bad PEBs in proportion to the partition, as Linux before 3.7 did. Since then all of the chip counts, because all of
    /// its bad blocks may be in this partition.
    pub bad_limit_of_partition: bool,
    /// Difference of erase counters from which data are moved (Linux: 4096).
    pub wear_threshold: u32,
    /// Image sequence number for flash that is empty (Linux: a random one); 0 matches any.
    pub new_image_seq: u32,
    /// Power may have gone away in the middle of a write, which Linux does not provide for: what was written last may
    /// read well and not hold, and a PEB that looks erased may not hold what is written to it. So the LEB written last is
    /// written again, and the few PEBs that a write may have begun in are erased. `false` saves that time.
    pub after_power_cut: bool,
    /// Together with `read_only`: attaches what is left of a damaged device, or of an image that is shorter than its volumes, and
    /// notes what is damaged ([`Ubi::damage`](super::Ubi::damage)).
    pub forgiving: bool,
    /// A volume that asks for all the space left gets it, as Linux does. `false`: it goes on asking, so that an image that is
    /// changed here still fits flash of any size.
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

/// A volume to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVolume {
    /// Volume id; `None` for the lowest free one.
    pub id: Option<u32>,
    /// Name, 1 to 127 bytes without zeros.
    pub name: Vec<u8>,
    /// Type of the volume: dynamic or static.
    pub volume_type: VolumeType,
    /// LEBs set aside for it, at least 1.
    pub lebs: u32,
    /// Usable bytes of a LEB are a multiple of this; 1 for none.
    pub alignment: u32,
    /// Flags of the volume.
    pub flags: VolumeFlags,
}

impl NewVolume {
    /// A dynamic volume of `lebs` LEBs without anything special.
    #[must_use]
    pub fn dynamic(name: impl Into<Vec<u8>>, lebs: u32) -> Self {
        let flags = VolumeFlags::default();
        Self { id: None, name: name.into(), volume_type: VolumeType::Dynamic, lebs, alignment: 1, flags }
    }

    /// A static volume of `lebs` LEBs without anything special.
    #[must_use]
    pub fn fixed(name: impl Into<Vec<u8>>, lebs: u32) -> Self {
        Self { volume_type: VolumeType::Static, ..Self::dynamic(name, lebs) }
    }
}

/// Method by which a device was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttachKind {
    /// All headers were read.
    Scan,
    /// A fastmap stood for them.
    Fastmap,
}

/// A UBI device as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Offsets of headers and data in a PEB.
    pub geometry: floatgate_media::ubi::Geometry,
    /// PEBs of the flash.
    pub pebs: u32,
    /// Those not marked bad.
    pub good_pebs: u32,
    /// Those marked bad.
    pub bad_pebs: u32,
    /// Erased and ready.
    pub free_pebs: u32,
    /// Waiting to be erased.
    pub pending_pebs: u32,
    /// Set aside for inspection: a corrupt header, and data that no power cut explains.
    pub corrupted_pebs: u32,
    /// Mapped, but not readable when they were to be moved.
    pub erroneous_pebs: u32,
    /// Of unknown internal volumes that are to be left alone.
    pub alien_pebs: u32,
    /// LEBs that a new volume may have.
    pub available_lebs: u32,
    /// PEBs set aside to replace bad ones.
    pub bad_reserve: u32,
    /// Image sequence number.
    pub image_seq: u32,
    /// Highest erase counter.
    pub erase_count_max: u32,
    /// Mean erase counter of the good PEBs.
    pub erase_count_mean: u32,
    /// Lowest erase counter.
    pub erase_count_min: u32,
    /// Volumes the table has room for.
    pub volumes_max: u32,
    /// Method by which the device was attached.
    pub attach_kind: AttachKind,
    /// Sequence number of the next VID header.
    pub sqnum: u64,
    /// Reason for which the device is read-only, if it is.
    pub read_only: Option<ReadOnlyReason>,
}

/// A volume as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Volume id.
    pub id: u32,
    /// Name of the volume.
    pub name: Vec<u8>,
    /// Type of the volume: dynamic or static.
    pub volume_type: VolumeType,
    /// LEBs set aside for it.
    pub reserved_lebs: u32,
    /// Bytes of a LEB that it uses.
    pub usable_leb_bytes: u32,
    /// Unit the usable size is a multiple of.
    pub alignment: u32,
    /// Bytes at the end of each LEB that are not used.
    pub data_pad: u32,
    /// Flags of the volume.
    pub flags: VolumeFlags,
    /// An update was cut off, or is under way.
    pub update_marker: bool,
    /// LEBs with data: all of a dynamic volume.
    pub used_lebs: u32,
    /// Bytes of data: what was written to a static volume, all of a dynamic one.
    pub used_bytes: u64,
    /// LEBs of a static volume are missing or failed their CRC.
    pub corrupted: bool,
    /// LEBs that are mapped to PEBs.
    pub mapped_lebs: u32,
}

/// Erase counter and use of a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PebInfo {
    /// The PEB.
    pub pnum: u32,
    /// Times it was erased; the mean of the others where its header was lost.
    pub erase_count: u32,
    /// Use of the PEB.
    pub state: super::PebState,
    /// The LEB it holds, or held until it was to be erased.
    pub leb: Option<LebId>,
}
