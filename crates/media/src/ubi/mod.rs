//! UBI: headers of physical eraseblocks (PEBs), the volume table, fastmap.
//!
//! In data-flow order: [`Geometry`] defines the offsets in a PEB; [`EcHeader`] and [`VidHeader`] are read there. The
//! two copies of the [`VolumeTable`] are the layout volume's logical eraseblocks (LEBs). A [`Fastmap`] replaces a scan
//! of all headers.
//!
//! A parser checks a structure against itself; `check` methods check it against a geometry. Integers are big-endian.
//! Tables of the bytes: `docs/spec/ubi.md`. Source of the facts: Linux 6.12, `drivers/mtd/ubi`.

mod ec;
mod fastmap;
mod geometry;
mod header;
mod vid;
mod volume_table;

pub use ec::{EC_MAGIC, EcHeader};
pub use fastmap::{
    Fastmap, FastmapCounts, FastmapPool, FastmapSuperblock, FastmapVolume, FastmapVolumeType, FastmapWriter,
    PebEc, PebList, VolumeMap, Volumes,
};
pub use geometry::{Flash, Geometry};
pub use header::ReadFlips;
pub use vid::{Compat, VID_MAGIC, VidHeader, VolumeType};
pub use volume_table::{Copies, VolumeFlags, VolumeRecord, VolumeTable};

/// Version of the UBI format.
pub const VERSION: u8 = 1;

/// Maximum value of an erase counter.
pub const MAX_ERASE_COUNT: u64 = 0x7FFF_FFFF;

/// Maximum number of volumes of a device, without internal ones.
pub const MAX_VOLUMES: u32 = 128;

/// Maximum length of a volume name, bytes.
pub const MAX_NAME_BYTES: usize = 127;

/// First id of internal volumes; 4096 ids are reserved for them.
pub const INTERNAL_VOLUMES: u32 = 0x7FFF_EFFF;

/// Id of the layout volume, which contains the volume table.
pub const LAYOUT_VOLUME: u32 = INTERNAL_VOLUMES;

/// Number of LEBs of the layout volume; each contains one copy of the table.
pub const LAYOUT_VOLUME_LEBS: u32 = 2;

/// Name of the layout volume in Linux; it is not stored on flash.
pub const LAYOUT_VOLUME_NAME: &str = "layout volume";

/// Value of [`VidHeader::compat`] in the layout volume.
pub const LAYOUT_VOLUME_COMPAT: Compat = Compat::Reject;

/// Volume id of a fastmap's first PEB, its anchor.
pub const FASTMAP_SUPERBLOCK_VOLUME: u32 = LAYOUT_VOLUME + 1;

/// Volume id of a fastmap's other PEBs.
pub const FASTMAP_DATA_VOLUME: u32 = LAYOUT_VOLUME + 2;

/// Number of PEBs at the start of the device that can hold the anchor of a fastmap.
pub const FASTMAP_ANCHOR_PEBS: u32 = 64;
