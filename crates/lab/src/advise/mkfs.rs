//! Options of mkfs and mount for the allocation unit and the page of a card.
//!
//! - ext4: `stride` is a page and `stripe_width` an allocation unit, so that the allocator begins files at borders (Linaro's Flash memory wiki,
//!   Bergmann 2011).
//! - F2FS: a section, which is cleaned as one, is a whole number of allocation units. The number of logs to which F2FS
//!   writes alternately is limited to the number of open units.
//! - NILFS2: a segment is the largest power of two that fits an allocation unit a whole number of times.
//! - FAT: reserved sectors move the first cluster to a border, as required by the `File System Specification` of the SD
//!   Association.

use super::size;
use serde::Serialize;

/// Filesystem of Linux for block devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockFs {
    /// The filesystem ext4.
    Ext4,
    /// The filesystem F2FS.
    F2fs,
    /// The filesystem NILFS2.
    Nilfs2,
    /// FAT16 or FAT32.
    Vfat,
}

impl BlockFs {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Ext4, Self::F2fs, Self::Nilfs2, Self::Vfat];

    /// Name for `mount -t`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::F2fs => "f2fs",
            Self::Nilfs2 => "nilfs2",
            Self::Vfat => "vfat",
        }
    }

    /// Filesystem with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fs| fs.name() == name)
    }

    /// Type of a partition with this filesystem in an MBR.
    pub const fn partition_type(self) -> &'static str {
        match self {
            Self::Vfat => "c",
            _ => "83",
        }
    }
}

/// Requirement on the filesystem of a card that some filesystems do not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The boot ROM of a system on chip loads the next stage from the filesystem.
    Boot,
    /// The filesystem contains the root directory of a Linux system.
    Root,
    /// A program can check and repair the filesystem.
    Fsck,
    /// The filesystem informs the card about free sectors (discard).
    Trim,
    /// Windows and cameras can read the filesystem.
    Windows,
    /// Power may be lost at any time.
    PowerCuts,
}

impl Need {
    /// All values.
    pub const ALL: [Self; 6] =
        [Self::Boot, Self::Root, Self::Fsck, Self::Trim, Self::Windows, Self::PowerCuts];

    /// Name of the requirement in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Root => "root",
            Self::Fsck => "fsck",
            Self::Trim => "trim",
            Self::Windows => "windows",
            Self::PowerCuts => "power-cuts",
        }
    }

    /// Requirement with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|need| need.name() == name)
    }

    /// Reason why a filesystem does not meet the requirement; `None` if it does.
    ///
    /// All filesystems here support discards and fstrim in Linux (FAT since 4.19).
    pub const fn unmet_by(self, fs: BlockFs) -> Option<&'static str> {
        match (self, fs) {
            (Self::Boot, BlockFs::Vfat) => None,
            (Self::Boot, _) => Some("boot ROMs read FAT alone"),
            (Self::Windows, BlockFs::Vfat) => None,
            (Self::Windows, _) => Some("Windows and cameras read FAT alone"),
            (Self::Root, BlockFs::Vfat) => Some("FAT has no owners, modes, links and device nodes"),
            (Self::PowerCuts, BlockFs::Vfat) => {
                Some("FAT has no journal, and its two tables differ after a cut")
            }
            (Self::Fsck, BlockFs::Nilfs2) => Some("nilfs-utils have no fsck"),
            _ => None,
        }
    }
}

/// A partition, with the properties of the flash that matter to a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionShape {
    /// Size of the partition in bytes. It begins at a border of an allocation unit.
    pub bytes: u64,
    /// Size of an allocation unit in bytes.
    pub au_bytes: u64,
    /// Size of a page, which the card programs at once, in bytes.
    pub page_bytes: u64,
    /// Number of allocation units that the card can keep open; `None` if it has no limit.
    pub open_aus: Option<u64>,
}

/// Options to create and mount a filesystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// Program mkfs with its options, without the device.
    pub mkfs: String,
    /// Options for mount.
    pub mount: String,
    /// Reasons for the options, one phrase each.
    pub why: Vec<String>,
}

const SECTOR: u64 = 512;
/// Size of the blocks of ext4, F2FS and NILFS2 in bytes.
const BLOCK: u64 = 4096;
/// Size of a segment of F2FS in bytes.
const F2FS_SEGMENT: u64 = 2 << 20;
/// Minimum number of sections of an F2FS at which sections are made larger than a segment. Six sections are open, and
/// cleaning needs more.
const F2FS_SECTIONS_MIN: u64 = 64;
/// Minimum size of a partition for mkfs.f2fs, with sections of one segment (f2fs-tools 1.15, measured), bytes.
const F2FS_BYTES_MIN: u64 = 52 << 20;
/// Minimum number of segments of a NILFS2. mkfs.nilfs2 refuses fewer, and the cleaner needs some.
const NILFS2_SEGMENTS_MIN: u64 = 64;
/// Minimum and maximum number of blocks in a segment of NILFS2.
const NILFS2_SEGMENT_BLOCKS: (u64, u64) = (16, 1 << 20);
/// Maximum stride and stripe width in blocks. The fields of the superblock have 16 and 32 bits.
const STRIDE_MAX: u64 = u16::MAX as u64;

/// Reason why mkfs refuses a partition of this size; `None` if it does not.
pub fn too_small_for(fs: BlockFs, place: &PartitionShape) -> Option<&'static str> {
    let is_small = fs == BlockFs::F2fs && place.bytes < F2FS_BYTES_MIN;
    is_small.then_some("mkfs.f2fs refuses partitions below 52 MiB")
}

/// Options to create and mount a filesystem on a partition.
pub fn recipe(fs: BlockFs, place: &PartitionShape) -> Recipe {
    match fs {
        BlockFs::Ext4 => ext4(place),
        BlockFs::F2fs => f2fs(place),
        BlockFs::Nilfs2 => nilfs2(place),
        BlockFs::Vfat => vfat(place),
    }
}

/// Stride and stripe width of an ext4 in blocks.
pub fn ext4_stripe(place: &PartitionShape) -> (u64, u64) {
    let width = (place.au_bytes / BLOCK).clamp(1, u64::from(u32::MAX));
    let stride = (place.page_bytes / BLOCK).clamp(1, STRIDE_MAX.min(width));
    (stride, width)
}

fn ext4(place: &PartitionShape) -> Recipe {
    let (stride, width) = ext4_stripe(place);
    Recipe {
        mkfs: format!("mkfs.ext4 -b {BLOCK} -E stride={stride},stripe_width={width}"),
        mount: "noatime".to_owned(),
        why: vec![
            format!("stride: a page of {} is {stride} blocks of 4 KiB", size(place.page_bytes)),
            format!("stripe_width: an allocation unit of {} is {width} blocks", size(place.au_bytes)),
            "no `discard`: run fstrim once a week, so that no file waits for an erase".to_owned(),
        ],
    }
}

/// Number of segments in a section of an F2FS.
pub fn f2fs_segments(place: &PartitionShape) -> u64 {
    let aligned = lcm(place.au_bytes.max(SECTOR), F2FS_SEGMENT) / F2FS_SEGMENT;
    let most = (place.bytes / F2FS_SECTIONS_MIN / F2FS_SEGMENT).max(1);
    match aligned {
        n if n <= most => n,
        // Sections that divide an allocation unit evenly are the next best.
        n => (1..=most).rev().find(|smaller| n.is_multiple_of(*smaller)).unwrap_or(1),
    }
}

/// Number of logs to which F2FS writes alternately: six, four or two.
const fn f2fs_logs(open_aus: u64) -> u64 {
    match open_aus {
        6.. => 6,
        4..=5 => 4,
        _ => 2,
    }
}

/// Option that limits the number of logs, with its reason. A card without a limit gets the default of F2FS.
fn f2fs_logs_option(open_aus: Option<u64>) -> (String, String) {
    match open_aus {
        Some(open) => (
            format!(",active_logs={}", f2fs_logs(open)),
            format!("active_logs: the card keeps {open} allocation units open"),
        ),
        None => (
            String::new(),
            "no `active_logs`: F2FS writes six logs in turn, and the card does not limit that".to_owned(),
        ),
    }
}

fn f2fs(place: &PartitionShape) -> Recipe {
    let segments = f2fs_segments(place);
    let (logs, why_logs) = f2fs_logs_option(place.open_aus);
    let section = segments * F2FS_SEGMENT;
    let fits = section.is_multiple_of(place.au_bytes);
    Recipe {
        mkfs: format!("mkfs.f2fs -s {segments}"),
        mount: format!("noatime{logs}"),
        why: vec![
            match fits {
                true => format!(
                    "-s: a section of {} is cleaned as one and fits allocation units of {}",
                    size(section),
                    size(place.au_bytes)
                ),
                false => format!(
                    "-s: sections of {} divide an allocation unit of {}; larger ones leave too few on this partition",
                    size(section),
                    size(place.au_bytes)
                ),
            },
            why_logs,
        ],
    }
}

/// Number of blocks in a segment of a NILFS2.
pub fn nilfs2_blocks(place: &PartitionShape) -> u64 {
    let unit = place.au_bytes / BLOCK;
    let divisor = if unit == 0 { 1 } else { 1 << unit.trailing_zeros().min(63) };
    let most = (place.bytes / NILFS2_SEGMENTS_MIN / BLOCK).max(1);
    let most = 1 << (63 - most.leading_zeros());
    let (least, limit) = NILFS2_SEGMENT_BLOCKS;
    divisor.min(most).clamp(least, limit)
}

fn nilfs2(place: &PartitionShape) -> Recipe {
    let blocks = nilfs2_blocks(place);
    Recipe {
        mkfs: format!("mkfs.nilfs2 -b {BLOCK} -B {blocks}"),
        mount: "noatime,discard".to_owned(),
        why: vec![
            format!(
                "-B: segments of {} (a power of two of blocks) fit allocation units of {}",
                size(blocks * BLOCK),
                size(place.au_bytes)
            ),
            "`discard`: the cleaner gives whole segments back to the card".to_owned(),
        ],
    }
}

/// Sizes of a FAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatSizes {
    /// Number of bits per entry: 16 or 32.
    pub bits: u64,
    /// Number of sectors per cluster.
    pub cluster: u64,
    /// Number of reserved sectors before the first FAT.
    pub reserved: u64,
    /// Number of sectors of each of the two FATs.
    pub fat: u64,
    /// Position of the first cluster in sectors.
    pub data: u64,
    /// Unit to whose border the first cluster was moved, in sectors.
    pub unit: u64,
}

/// Number of FATs, number of sectors of the root directory of FAT16, and maximum number of reserved sectors (16 bits).
const FATS: u64 = 2;
const ROOT_SECTORS: u64 = 32;
const RESERVED_MAX: u64 = u16::MAX as u64;
/// Minimum number of reserved sectors of FAT32 in mkfs.fat: boot sector, information sector, and their copies.
const RESERVED_MIN: u64 = 32;
/// Maximum size of a cluster, bytes.
const CLUSTER_MAX: u64 = 64 << 10;
/// Minimum number of clusters of a FAT32 (Microsoft, fatgen103), with a margin, because implementations differ
/// slightly.
const FAT32_CLUSTERS_MIN: u64 = 65_525 + 16;
/// Number of clusters that mkfs.fat treats as too many for 16 bits.
const FAT16_CLUSTERS_MAX: u64 = 65_525;
/// Minimum number of clusters of a FAT16, with the same margin.
const FAT16_CLUSTERS_MIN: u64 = 4_085 + 16;

/// Sizes of a FAT whose first cluster is at a border of an allocation unit, or of the largest fraction of it that reserved sectors allow.
pub fn fat_sizes(place: &PartitionShape) -> FatSizes {
    let sectors = place.bytes / SECTOR;
    let page = (place.page_bytes / SECTOR).max(1).next_power_of_two();
    // The cluster has 32 KiB, as on factory-formatted SD cards, or the size of a page if that is larger, but at most
    // the 64 KiB of FAT.
    let mut cluster = page.clamp(64, 128);
    while cluster > 1 && sectors / cluster < FAT32_CLUSTERS_MIN + 2 * FATS && sectors > 4 << 20 {
        cluster /= 2;
    }
    let bits = if sectors / cluster > FAT32_CLUSTERS_MIN { 32 } else { 16 };
    loop {
        let sizes = on_a_border(place, bits, cluster);
        let clusters = sectors.saturating_sub(sizes.data) / cluster;
        match clusters {
            ..FAT16_CLUSTERS_MIN if bits == 16 && cluster > 1 => cluster /= 2,
            FAT16_CLUSTERS_MAX.. if bits == 16 && cluster < CLUSTER_MAX / SECTOR => cluster *= 2,
            _ => return sizes,
        }
    }
}

/// Sizes with the first cluster at a border of an allocation unit, or of the largest fraction of it that reserved sectors allow.
fn on_a_border(place: &PartitionShape, bits: u64, cluster: u64) -> FatSizes {
    let root = if bits == 16 { ROOT_SECTORS } else { 0 };
    let mut unit = (place.au_bytes / SECTOR).max(1);
    loop {
        let sizes = with_unit(place.bytes / SECTOR, bits, cluster, root, unit);
        if sizes.reserved <= RESERVED_MAX || !unit.is_multiple_of(2) {
            return FatSizes { reserved: sizes.reserved.min(RESERVED_MAX), ..sizes };
        }
        unit /= 2;
    }
}

/// Sizes with the first cluster at the first border of `unit` after the FATs. The length of a FAT is computed like in mkfs.fat.
fn with_unit(sectors: u64, bits: u64, cluster: u64, root: u64, unit: u64) -> FatSizes {
    let least = if bits == 32 { RESERVED_MIN } else { 1 };
    let entry_bytes = bits / 8;
    let mut reserved = least;
    let mut sizes = FatSizes { bits, cluster, reserved, fat: 0, data: 0, unit };
    // The length of a FAT decreases with more reserved sectors, so that a few rounds suffice.
    for _ in 0..8 {
        let data = sectors.saturating_sub(reserved + root);
        let clusters = (data * SECTOR + FATS * 2 * entry_bytes) / (cluster * SECTOR + FATS * entry_bytes);
        let fat = ((clusters + 2) * entry_bytes).div_ceil(SECTOR);
        let before = least + FATS * fat + root;
        let aligned = before.next_multiple_of(unit);
        let next = aligned - FATS * fat - root;
        sizes = FatSizes { reserved, fat, data: reserved + FATS * fat + root, ..sizes };
        if next == reserved {
            break;
        }
        reserved = next;
    }
    sizes
}

fn vfat(place: &PartitionShape) -> Recipe {
    let FatSizes { bits, cluster, reserved, fat, data, unit } = fat_sizes(place);
    Recipe {
        mkfs: format!("mkfs.fat -a -F {bits} -s {cluster} -R {reserved} -f {FATS} -S {SECTOR}"),
        mount: "noatime".to_owned(),
        why: vec![
            if cluster * SECTOR < place.page_bytes.min(CLUSTER_MAX) {
                format!("-s: of clusters larger than {} there were too few", size(cluster * SECTOR))
            } else {
                format!(
                    "-s: clusters of {} are no smaller than a page of {}",
                    size(cluster * SECTOR),
                    size(place.page_bytes)
                )
            },
            format!(
                "-R: {reserved} reserved sectors and two FATs of {fat} move the first cluster to {}, a border of {}",
                size(data * SECTOR),
                size(unit * SECTOR)
            ),
            "-a: mkfs.fat must not align by itself, which would move that border".to_owned(),
        ],
    }
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn place(bytes: u64, au_bytes: u64) -> PartitionShape {
        PartitionShape { bytes, au_bytes, page_bytes: 16 << 10, open_aus: Some(5) }
    }

    #[test]
    fn allocation_units_of_three_powers_of_two_are_met_where_a_filesystem_can() {
        let six = place(8 << 30, 6 << 20);
        assert_eq!((ext4_stripe(&six), f2fs_segments(&six), nilfs2_blocks(&six)), ((4, 1536), 3, 512));
        // 3 MiB: two of them are three segments.
        assert_eq!(f2fs_segments(&place(8 << 30, 3 << 20)), 3);
        assert_eq!(f2fs_segments(&place(8 << 30, 1 << 20)), 1);
        // Too large for the partition: sections that divide it.
        assert_eq!(f2fs_segments(&place(2 << 30, 128 << 20)), 16);
    }

    #[test]
    fn f2fs_needs_a_partition_of_52_mib() {
        let refused = |mib: u64, fs| too_small_for(fs, &place(mib << 20, 1 << 20)).is_some();
        assert!(refused(51, BlockFs::F2fs) && !refused(52, BlockFs::F2fs) && !refused(9, BlockFs::Vfat));
    }

    #[test]
    fn logs_of_f2fs_are_limited_where_the_card_limits_them() {
        let mount = |open_aus| recipe(BlockFs::F2fs, &PartitionShape { open_aus, ..place(8 << 30, 4 << 20) });
        assert_eq!(mount(Some(1)).mount, "noatime,active_logs=2");
        assert_eq!(mount(Some(5)).mount, "noatime,active_logs=4");
        let free = mount(None);
        assert_eq!(free.mount, "noatime");
        assert!(free.why.iter().any(|why| why.starts_with("no `active_logs`")), "{:?}", free.why);
    }

    #[test]
    fn the_first_cluster_is_on_a_border_and_reserved_sectors_have_16_bits() {
        for gib in [1, 2, 3, 4, 8, 30, 61, 119] {
            for mib in [1, 3, 4, 5, 6, 8, 12, 16, 24, 64, 128] {
                let place = place((gib << 30) / (mib << 20) * (mib << 20), mib << 20);
                let sizes = fat_sizes(&place);
                assert_eq!(sizes.data % sizes.unit, 0, "{place:?}: {sizes:?}");
                assert!(sizes.reserved <= 65_535 && sizes.reserved >= 1, "{place:?}: {sizes:?}");
                assert!(sizes.unit * SECTOR >= (mib << 20).min(16 << 20) / 2, "{place:?}: {sizes:?}");
            }
        }
    }

    #[test]
    fn small_partitions_have_clusters_enough_for_16_bits() {
        for mib in [16, 32, 64, 100, 256, 512, 1000, 2000] {
            for au in [512, 64 << 10, 4 << 20] {
                let place = place(mib << 20, au);
                let sizes = fat_sizes(&place);
                let clusters = (place.bytes / SECTOR - sizes.data) / sizes.cluster;
                assert_eq!(sizes.bits, 16, "{place:?}");
                assert!((4_085..65_525).contains(&clusters), "{place:?}: {sizes:?}");
            }
        }
    }

    #[test]
    fn partitions_of_any_size_have_a_recipe() {
        for bytes in [0, 512, 1 << 20, 100 << 20, 1 << 62] {
            for au_bytes in [512, 1 << 20, 1 << 40] {
                for page_bytes in [512, 1 << 22] {
                    for fs in BlockFs::ALL {
                        recipe(fs, &PartitionShape { bytes, au_bytes, page_bytes, open_aus: None });
                    }
                }
            }
        }
    }
}
