//! Fastmap, a map of all PEBs on flash that replaces the scan of all headers:
//! `docs/spec/ubi.md#fastmap`.

mod write;

use super::{MAX_VOLUMES, VolumeType};
use crate::crc;
use crate::error::{MediaError, Reason, require};
use crate::wire::{BigWire, codes, layout, span};

pub use write::FastmapWriter;

/// Version of the fastmap format.
const VERSION: u8 = 1;

/// Maximum number of PEBs of a fastmap.
const MAX_PEBS: u32 = 32;

/// Maximum number of PEBs in a pool.
const MAX_POOL: usize = 256;

const SUPERBLOCK_MAGIC: u32 = 0x7B11_D69F;
const HEADER_MAGIC: u32 = 0xD4B8_2EF7;
const POOL_MAGIC: u32 = 0x67AF_4D08;
const VOLUME_MAGIC: u32 = 0xFA37_0ED1;
const MAP_MAGIC: u32 = 0xF0C0_40A8;

const VERSION_AT: usize = 4;
const DATA_CRC_AT: usize = 8;
const PEBS_AT: usize = 12;
const HEADER_AT: usize = FastmapSuperblock::SIZE;
const POOLS_AT: usize = HEADER_AT + FastmapCounts::SIZE;
const POOL_BYTES: usize = 8 + 4 * MAX_POOL + 16;
const LISTS_AT: usize = POOLS_AT + 2 * POOL_BYTES;
const MAP_HEADER_BYTES: usize = 8;

/// Map entry of a LEB that is not mapped.
const UNMAPPED: u32 = u32::MAX;

layout! {
    /// Superblock of a fastmap: the list of the fastmap's own PEBs.
    /// `docs/spec/ubi.md#fastmap-superblock`
    pub big_endian struct FastmapSuperblock[312] {
        /// CRC-32 of all LEBs of the fastmap, with this field zero.
        8 => data_crc: u32,
        /// Number of the fastmap's own PEBs, 1 to 32.
        12 => peb_count: u32,
        /// Numbers of the fastmap's own PEBs, in order; the first is the anchor.
        16 => pebs: [u32; 32],
        /// Erase counters of the fastmap's own PEBs.
        144 => erase_counts: [u32; 32],
        /// Zero on the media; Linux stores the highest sequence number here after reading.
        272 => sqnum: u64,
    }
}

layout! {
    /// Numbers of entries in the lists that follow. `docs/spec/ubi.md#fastmap-header`
    pub big_endian struct FastmapCounts[32] {
        /// Number of free PEBs.
        4 => free: u32,
        /// Number of mapped PEBs.
        8 => used: u32,
        /// Number of mapped PEBs that need scrubbing.
        12 => scrub: u32,
        /// Number of bad PEBs, which are not listed.
        16 => bad: u32,
        /// Number of PEBs to be erased.
        20 => erase: u32,
        /// Number of volumes, including the layout volume.
        24 => volumes: u32,
    }
}

codes! {
    /// Type of a volume in the encoding of fastmaps, which differs from the encoding of VID
    /// headers.
    pub enum FastmapVolumeType(u8) {
        /// Dynamic volume: any LEB can be written at any time.
        Dynamic = 3,
        /// Static volume: written as a whole, each LEB with the CRC of its data.
        Static = 4,
    }
}

impl FastmapVolumeType {
    /// The type in the encoding of VID headers and the volume table; `None` for an unknown code.
    #[must_use]
    pub const fn volume_type(self) -> Option<VolumeType> {
        match self {
            Self::Dynamic => Some(VolumeType::Dynamic),
            Self::Static => Some(VolumeType::Static),
            Self::Other(_) => None,
        }
    }
}

impl From<VolumeType> for FastmapVolumeType {
    fn from(volume_type: VolumeType) -> Self {
        match volume_type {
            VolumeType::Dynamic => Self::Dynamic,
            VolumeType::Static => Self::Static,
            VolumeType::Other(code) => Self::Other(code),
        }
    }
}

layout! {
    /// A volume as a fastmap describes it. `docs/spec/ubi.md#fastmap-volume`
    pub big_endian struct FastmapVolume[32] {
        /// Id of the volume.
        4 => volume_id: u32,
        /// Type of the volume.
        8 => volume_type: FastmapVolumeType,
        /// Number of bytes at the end of each LEB that the alignment leaves unused.
        12 => data_pad: u32,
        /// Number of LEBs in use.
        16 => used_lebs: u32,
        /// Number of bytes in use in the last LEB.
        20 => last_leb_bytes: u32,
    }
}

layout! {
    /// A PEB with its erase counter. `docs/spec/ubi.md#fastmap-erase-counter`
    pub big_endian struct PebEc[8] {
        /// Number of the PEB.
        0 => pnum: u32,
        /// Erase counter of the PEB.
        4 => erase_count: u32,
    }
}

impl FastmapSuperblock {
    /// Reads the superblock at the start of the anchor's data.
    ///
    /// # Errors
    ///
    /// Bad magic, wrong version, or a number of PEBs out of range.
    pub fn parse(bytes: &[u8]) -> Result<Self, MediaError> {
        let bytes = span(bytes, 0, Self::SIZE)?;
        check_magic(bytes, 0, "fastmap superblock", SUPERBLOCK_MAGIC)?;
        let found = u8::decode(bytes, VERSION_AT);
        if found != VERSION {
            let (found, known) = (u32::from(found), u32::from(VERSION));
            return Err(Reason::WrongVersion { what: "fastmap", found, known }.at(VERSION_AT));
        }
        let superblock = Self::decode(bytes, 0);
        let count = superblock.peb_count;
        require((1..=MAX_PEBS).contains(&count), PEBS_AT, "fastmap PEBs", count)?;
        Ok(superblock)
    }

    /// The PEBs of the fastmap with their erase counters, the anchor first.
    pub fn pebs(&self) -> impl Iterator<Item = PebEc> + '_ {
        let count = usize::try_from(self.peb_count).unwrap_or(0);
        let pairs = self.pebs.iter().zip(&self.erase_counts).take(count);
        pairs.map(|(&pnum, &erase_count)| PebEc { pnum, erase_count })
    }
}

/// PEBs that were in a pool when the fastmap was written, and must be scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastmapPool<'a> {
    /// Maximum number of PEBs in the pool.
    pub max_len: u16,
    pebs: &'a [u8],
}

impl<'a> FastmapPool<'a> {
    /// Numbers of the PEBs in the pool.
    pub fn pebs(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.pebs.as_chunks().0.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// Advances the offset of the reader or writer of a fastmap by `need` bytes.
///
/// UBI rejects a fastmap that reaches the last byte of its LEBs, so reader and writer stop before
/// it.
fn step(len: usize, at: usize, need: usize) -> Result<usize, MediaError> {
    let end = at.checked_add(need).filter(|&end| end < len);
    end.ok_or_else(|| Reason::Truncated { need, have: len.saturating_sub(at) }.at(at))
}

fn check_magic(bytes: &[u8], at: usize, what: &'static str, expected: u32) -> Result<(), MediaError> {
    let found = u32::decode(bytes, at);
    if found == expected {
        return Ok(());
    }
    Err(Reason::BadMagic { what, expected, found }.at(at))
}

/// The four lists of PEBs, in the order in which they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PebList {
    /// Free PEBs.
    Free,
    /// Mapped PEBs.
    Used,
    /// Mapped PEBs that need scrubbing.
    Scrub,
    /// PEBs to be erased.
    Erase,
}

/// A fastmap with verified CRC and structure, borrowing the bytes it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fastmap<'a> {
    /// Fastmap superblock with the list of its PEBs.
    pub superblock: FastmapSuperblock,
    /// Numbers of entries in the lists.
    pub counts: FastmapCounts,
    /// Pool of PEBs for user data.
    pub pool: FastmapPool<'a>,
    /// Pool of PEBs for wear levelling.
    pub wl_pool: FastmapPool<'a>,
    lists: [&'a [u8]; 4],
    volumes: &'a [u8],
}

impl<'a> Fastmap<'a> {
    /// Reads a fastmap from the concatenated data of all its PEBs.
    ///
    /// # Errors
    ///
    /// The errors of [`FastmapSuperblock::parse`], a bad CRC, a bad magic number, or a list that
    /// extends past the end.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MediaError> {
        let superblock = FastmapSuperblock::parse(bytes)?;
        let computed = data_crc(bytes);
        if superblock.data_crc != computed {
            let stored = superblock.data_crc;
            return Err(Reason::BadCrc32 { what: "fastmap", stored, computed }.at(DATA_CRC_AT));
        }
        step(bytes.len(), 0, LISTS_AT)?;
        check_magic(bytes, HEADER_AT, "fastmap header", HEADER_MAGIC)?;
        let counts = FastmapCounts::decode(bytes, HEADER_AT);
        let pool = parse_pool(bytes, POOLS_AT)?;
        let wl_pool = parse_pool(bytes, POOLS_AT + POOL_BYTES)?;
        let mut at = LISTS_AT;
        let mut lists = [&[][..]; 4];
        let lengths = [counts.free, counts.used, counts.scrub, counts.erase];
        for (list, count) in lists.iter_mut().zip(lengths) {
            *list = entries(bytes, &mut at, count, PebEc::SIZE)?;
        }
        let volumes = volume_bytes(bytes, at, counts.volumes)?;
        Ok(Self { superblock, counts, pool, wl_pool, lists, volumes })
    }

    /// One of the lists of PEBs.
    pub fn pebs(&self, list: PebList) -> impl ExactSizeIterator<Item = PebEc> + use<'a> {
        let [free, used, scrub, erase] = self.lists;
        let bytes = match list {
            PebList::Free => free,
            PebList::Used => used,
            PebList::Scrub => scrub,
            PebList::Erase => erase,
        };
        bytes.chunks_exact(PebEc::SIZE).map(|bytes| PebEc::decode(bytes, 0))
    }

    /// The volumes with their LEB maps.
    #[must_use]
    pub const fn volumes(&self) -> Volumes<'a> {
        Volumes { rest: self.volumes }
    }
}

/// CRC-32 of a fastmap, computed with zeros in its own field.
fn data_crc(bytes: &[u8]) -> u32 {
    let (head, tail) = bytes.split_at(DATA_CRC_AT.min(bytes.len()));
    let register = crc::ubi_update(crc::ubi(head), &[0; 4]);
    crc::ubi_update(register, tail.get(4..).unwrap_or(&[]))
}

fn parse_pool(bytes: &[u8], at: usize) -> Result<FastmapPool<'_>, MediaError> {
    check_magic(bytes, at, "fastmap pool", POOL_MAGIC)?;
    let (len, max_len) = (u16::decode(bytes, at + 4), u16::decode(bytes, at + 6));
    require(usize::from(len) <= MAX_POOL, at + 4, "pool size", len)?;
    require(usize::from(max_len) <= MAX_POOL, at + 6, "largest pool size", max_len)?;
    Ok(FastmapPool { max_len, pebs: span(bytes, at + 8, 4 * usize::from(len))? })
}

/// The bytes of `count` entries of `width` bytes from offset `at` on; advances `at` past them.
fn entries<'a>(bytes: &'a [u8], at: &mut usize, count: u32, width: usize) -> Result<&'a [u8], MediaError> {
    let need = usize::try_from(count).ok().and_then(|count| count.checked_mul(width));
    let need =
        need.ok_or_else(|| Reason::OutOfRange { field: "entries", value: u64::from(count) }.at(*at))?;
    let end = step(bytes.len(), *at, need)?;
    let out = span(bytes, *at, need)?;
    *at = end;
    Ok(out)
}

/// Checks `count` volumes with their maps and returns their encoded bytes.
fn volume_bytes(bytes: &[u8], start: usize, count: u32) -> Result<&[u8], MediaError> {
    let mut at = start;
    for _ in 0..count {
        at = volume_end(bytes, at)?;
    }
    span(bytes, start, at - start)
}

/// Checks the volume at `at` and returns the offset of the next volume.
fn volume_end(bytes: &[u8], at: usize) -> Result<usize, MediaError> {
    let mut end = step(bytes.len(), at, FastmapVolume::SIZE + MAP_HEADER_BYTES)?;
    check_magic(bytes, at, "fastmap volume", VOLUME_MAGIC)?;
    let map_at = at + FastmapVolume::SIZE;
    check_magic(bytes, map_at, "fastmap map", MAP_MAGIC)?;
    entries(bytes, &mut end, u32::decode(bytes, map_at + 4), 4)?;
    Ok(end)
}

/// Iterator over the volumes of a fastmap.
#[derive(Debug, Clone)]
pub struct Volumes<'a> {
    rest: &'a [u8],
}

/// A volume with its map: the PEB of each LEB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeMap<'a> {
    /// Type and size of the volume.
    pub volume: FastmapVolume,
    pnums: &'a [u8],
}

impl<'a> VolumeMap<'a> {
    /// PEB of each LEB in the order of LEBs; `None` if the LEB is not mapped.
    pub fn pnums(&self) -> impl ExactSizeIterator<Item = Option<u32>> + use<'a> {
        let pnums = self.pnums.as_chunks().0.iter().map(|bytes| u32::from_be_bytes(*bytes));
        // Linux reads the numbers as signed integers and treats negative ones as not mapped.
        pnums.map(|pnum| Some(pnum).filter(|pnum| pnum >> 31 == 0))
    }
}

impl<'a> Iterator for Volumes<'a> {
    type Item = VolumeMap<'a>;

    fn next(&mut self) -> Option<VolumeMap<'a>> {
        let (head, rest) = self.rest.split_at_checked(FastmapVolume::SIZE + MAP_HEADER_BYTES)?;
        let count = usize::try_from(u32::decode(head, FastmapVolume::SIZE + 4)).ok()?;
        let (pnums, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
        self.rest = rest;
        Some(VolumeMap { volume: FastmapVolume::decode(head, 0), pnums })
    }
}

/// Maximum size of the fastmap of a device with this many PEBs, bytes.
pub(super) const fn content_bytes(pebs: u32) -> u64 {
    let volume = (FastmapVolume::SIZE + MAP_HEADER_BYTES) as u64;
    let per_peb = PebEc::SIZE as u64 + 4;
    LISTS_AT as u64 + per_peb * pebs as u64 + volume * (MAX_VOLUMES as u64 + 1)
}
