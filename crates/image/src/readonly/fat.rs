//! FAT12, FAT16 and FAT32 with long names (Microsoft: fatgen103; layouts in `floatgate_media::disk::fat`).

use std::collections::BTreeMap;
use std::sync::Arc;

use floatgate_media::disk::fat::{FatBoot, FatLayout, FatType};
use floatgate_stack::fs::{BLOCK_BYTES, Error, FileType, Timestamp};

use super::media::Media;
use super::recent::{InodeNumbers, Recent};
use super::{Inode, MAX_NAMES, Names, Tree, broken};
use crate::map::Numbers as _;

/// Bytes of an entry of a directory.
const ENTRY: u64 = 32;

/// Place of the root, which has no entry.
const ROOT: u64 = u64::MAX;

/// Attributes of an entry: read-only, a volume label, a directory, a piece of a long name.
const READ_ONLY: u8 = 0x01;
const LABEL: u8 = 0x08;
const DIRECTORY: u8 = 0x10;
const LONG_NAME: u8 = 0x0F;

/// First byte of an entry: none follows, it was deleted, it stands for E5h.
const END: u8 = 0;
const DELETED: u8 = 0xE5;
const ESCAPED: u8 = 0x05;

/// Flags of Windows NT: the name or its extension is lower case.
const LOWER_NAME: u8 = 0x08;
const LOWER_EXTENSION: u8 = 0x10;

/// Most bytes of a directory: 65536 entries.
const DIRECTORY_MAX: u64 = 65_536 * ENTRY;

/// Units of UTF-16 in a piece of a long name, and the flag of the last piece.
const PIECE: usize = 13;
const LAST_PIECE: u8 = 0x40;

/// Days from 1970 to 1980.
const DAYS_TO_1980: i64 = 3652;

pub(super) struct Fat {
    media: Media,
    layout: FatLayout,
    clusters: u64,
    /// The root directory: its length in bytes for FAT12 and FAT16, where it is in front of the clusters, and
    /// its first cluster for FAT32.
    root: (u64, u32),
    places: InodeNumbers,
    root_number: u32,
    /// Directories by their first cluster: one that holds itself is entered once.
    directories: BTreeMap<u32, u32>,
    chains: Recent<u32, Vec<u32>>,
    table: Recent<u64, Vec<u8>>,
}

/// Bytes of a directory or a file.
enum Extent {
    /// In front of the clusters.
    Root {
        at: u64,
        len: u64,
    },
    Chain(Arc<Vec<u32>>),
}

/// True of the boot sector of an exFAT.
pub(super) fn is_exfat(media: &Media) -> bool {
    media.array::<11>(0).is_some_and(|head| head.ends_with(b"EXFAT   "))
}

impl Fat {
    pub(super) fn new(media: Media) -> Result<Self, Error> {
        let sector = media.bytes(0, 512).ok_or_else(broken)?;
        let boot = FatBoot::parse(&sector).map_err(|error| Error::Damaged(error.to_string()))?;
        let layout = boot.layout();
        let sectors = if boot.sectors_16 == 0 { boot.sectors_32 } else { boot.sectors_16.into() };
        let bytes = u64::from(sectors) * u64::from(boot.sector_bytes);
        let cluster_bytes = layout.cluster_bytes.max(1);
        let clusters = bytes.saturating_sub(layout.data_start) / cluster_bytes;
        // What leads in circles ends after as many steps as there are clusters.
        let clusters = clusters.min(media.len() / cluster_bytes + 1);
        let first = if layout.kind == FatType::Fat32 { boot.root_cluster } else { 0 };
        let root = (u64::from(boot.root_entries) * ENTRY, first);
        let mut places = InodeNumbers::default();
        let root_number = places.number(ROOT).ok_or_else(broken)?;
        let (chains, table) = (Recent::new(8), Recent::new(8));
        let directories = BTreeMap::from([(first, root_number)]);
        Ok(Self { media, layout, clusters, root, places, root_number, directories, chains, table })
    }

    /// Two or four bytes of the table at a byte of it; 0 behind its end.
    fn table(&mut self, at: u64, len: usize) -> Option<[u8; 4]> {
        const CHUNK: u64 = 4096;
        let mut bytes = [0; 4];
        for (index, byte) in bytes.iter_mut().take(len).enumerate() {
            let at = at + index as u64;
            let chunk = match self.table.get(at / CHUNK) {
                Some(chunk) => chunk,
                None => {
                    let start = self.layout.fat_start + at / CHUNK * CHUNK;
                    let left = self.layout.fat_end.min(self.media.len()).checked_sub(start)?;
                    let chunk = self.media.bytes(start, usize::try_from(left.min(CHUNK)).ok()?)?;
                    self.table.put(at / CHUNK, chunk)
                }
            };
            *byte = *chunk.get(usize::try_from(at % CHUNK).ok()?)?;
        }
        Some(bytes)
    }

    /// The cluster that follows one; `None` of damage, `Some(None)` at the end.
    fn next(&mut self, cluster: u32) -> Option<Option<u32>> {
        let at = u64::from(cluster);
        let (value, end) = match self.layout.kind {
            FatType::Fat12 => {
                let pair = u32::from_le_bytes(self.table(at + at / 2, 2)?);
                (if cluster & 1 == 1 { pair >> 4 } else { pair & 0xFFF }, 0xFF8)
            }
            FatType::Fat16 => (u32::from_le_bytes(self.table(at * 2, 2)?), 0xFFF8),
            _ => (u32::from_le_bytes(self.table(at * 4, 4)?) & 0xFFF_FFFF, 0xFFF_FFF8),
        };
        if value >= end {
            return Some(None);
        }
        self.is_cluster(value).then_some(Some(value))
    }

    fn is_cluster(&self, cluster: u32) -> bool {
        cluster >= 2 && u64::from(cluster) < self.clusters + 2
    }

    /// The chain of clusters from `first` on; a chain without an end is returned empty.
    fn chain(&mut self, first: u32) -> Arc<Vec<u32>> {
        if let Some(chain) = self.chains.get(first) {
            return chain;
        }
        let mut chain = Vec::new();
        let mut next = Some(first).filter(|first| self.is_cluster(*first));
        while let Some(cluster) = next {
            if chain.len() as u64 >= self.clusters {
                chain.clear();
                break;
            }
            chain.push(cluster);
            next = self.next(cluster).flatten();
        }
        self.chains.put(first, chain)
    }

    fn entry(&self, place: u64) -> Option<[u8; ENTRY as usize]> {
        self.media.array(place)
    }

    /// First cluster of an entry.
    fn first(&self, entry: &[u8]) -> u32 {
        let high = if self.layout.kind == FatType::Fat32 { entry.le16(20) } else { 0 };
        u32::from(high) << 16 | u32::from(entry.le16(26))
    }

    fn extent(&mut self, inode: u32) -> Option<Extent> {
        let place = self.places.place(inode)?;
        let first = if place != ROOT {
            let entry = self.entry(place)?;
            self.first(&entry)
        } else if self.layout.kind == FatType::Fat32 {
            self.root.1
        } else {
            return Some(Extent::Root { at: self.layout.fat_end, len: self.root.0 });
        };
        Some(Extent::Chain(self.chain(first)))
    }

    /// Place on the media of a byte of a directory or a file, and the bytes that follow there.
    fn place(&self, extent: &Extent, at: u64) -> Option<(u64, u64)> {
        match extent {
            Extent::Root { at: start, len } => Some((start + at, len.checked_sub(at)?)),
            Extent::Chain(chain) => {
                let bytes = self.layout.cluster_bytes;
                let cluster = chain.get(usize::try_from(at / bytes).ok()?)?;
                let start = self.layout.data_start + u64::from(cluster - 2) * bytes;
                Some((start + at % bytes, bytes - at % bytes))
            }
        }
    }

    fn len(&self, extent: &Extent) -> u64 {
        match extent {
            Extent::Root { len, .. } => *len,
            Extent::Chain(chain) => chain.len() as u64 * self.layout.cluster_bytes,
        }
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let extent = self.extent(directory)?;
        let end = self.len(&extent).min(DIRECTORY_MAX);
        let mut long = LongName::default();
        // A directory has a cluster at least.
        if end == 0 {
            return None;
        }
        for at in (0..end).step_by(ENTRY as usize) {
            let (place, _) = self.place(&extent, at)?;
            let entry = self.entry(place)?;
            match entry[0] {
                END => return Some(()),
                DELETED => long = LongName::default(),
                _ if entry[11] & 0x3F == LONG_NAME => long.add(&entry),
                _ if entry[11] & LABEL != 0 => long = LongName::default(),
                _ => {
                    let name = std::mem::take(&mut long).finish(&entry).unwrap_or_else(|| short_name(&entry));
                    if names.len() >= MAX_NAMES {
                        return None;
                    }
                    if name != b"." && name != b".." {
                        let number = self.places.number(place)?;
                        let number = if entry[11] & DIRECTORY == 0 {
                            number
                        } else {
                            *self.directories.entry(self.first(&entry)).or_insert(number)
                        };
                        names.push((name, number));
                    }
                }
            }
        }
        Some(())
    }
}

/// The pieces of a long name, the last of which comes first.
#[derive(Default)]
struct LongName {
    /// Number of the next piece.
    next: u8,
    sum: u8,
    units: Vec<u16>,
}

impl LongName {
    fn add(&mut self, entry: &[u8]) {
        let number = entry[0] & !LAST_PIECE;
        let starts = entry[0] & LAST_PIECE != 0;
        if starts {
            *self = Self { next: number, sum: entry[13], units: Vec::new() };
        }
        if number == 0 || number > 20 || number != self.next || entry[13] != self.sum {
            *self = Self::default();
            return;
        }
        let places = (1..11).step_by(2).chain((14..26).step_by(2)).chain((28..32).step_by(2));
        let mut units: Vec<u16> = places.map(|at| entry.le16(at)).collect();
        debug_assert_eq!(units.len(), PIECE);
        units.append(&mut self.units);
        self.units = units;
        self.next = number - 1;
    }

    /// The name, if all its pieces are there and belong to a short entry.
    fn finish(self, entry: &[u8]) -> Option<Vec<u8>> {
        let sum = entry.get(..11)?.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
        if self.next != 0 || self.units.is_empty() || sum != self.sum {
            return None;
        }
        let units: Vec<u16> = self.units.into_iter().take_while(|unit| *unit != 0).collect();
        Some(String::from_utf16_lossy(&units).into_bytes())
    }
}

/// The name of eight characters with an extension of three. Bytes above 7Fh are of a code page that the filesystem does not name.
fn short_name(entry: &[u8]) -> Vec<u8> {
    let part = |bytes: &[u8], is_lower: bool| -> Vec<u8> {
        let end = bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
        let bytes = bytes.get(..end).unwrap_or_default();
        if is_lower { bytes.to_ascii_lowercase() } else { bytes.to_vec() }
    };
    let flags = entry[12];
    let mut name = part(&entry[..8], flags & LOWER_NAME != 0);
    if let Some(first) = name.first_mut().filter(|first| **first == ESCAPED) {
        *first = DELETED;
    }
    let extension = part(&entry[8..11], flags & LOWER_EXTENSION != 0);
    if !extension.is_empty() {
        name.push(b'.');
        name.extend(extension);
    }
    name
}

/// A date and a time, which FAT has in an unknown zone: UTC is taken.
pub(super) fn time(date: u16, time: u16, hundredths: u8) -> Timestamp {
    if date == 0 {
        return super::NEVER;
    }
    let (years, month, day) = (i64::from(date >> 9), i64::from(date >> 5 & 15), i64::from(date & 31));
    // Days before each month of a year that is no leap year.
    const BEFORE: [i64; 13] = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    // 2100 is the only fourth year up to 2107 that is no leap year.
    let year = years + 1980;
    let leap_days = (years + 3) / 4 - i64::from(year > 2100);
    let is_leap = year % 4 == 0 && year != 2100;
    let month_days = BEFORE.get(usize::try_from(month).unwrap_or(0)).copied().unwrap_or(0);
    let days = DAYS_TO_1980
        + years * 365
        + leap_days
        + month_days
        + i64::from(is_leap && month > 2)
        + (day - 1).max(0);
    let (hours, minutes, pairs) = (i64::from(time >> 11), i64::from(time >> 5 & 63), i64::from(time & 31));
    let seconds = days * 86_400 + hours * 3600 + minutes * 60 + pairs * 2 + i64::from(hundredths / 100);
    Timestamp { seconds, nanoseconds: u32::from(hundredths % 100) * 10_000_000 }
}

impl Tree for Fat {
    fn root(&self) -> u32 {
        self.root_number
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        let place = self.places.place(inode)?;
        if place == ROOT {
            return Some(Inode::plain(FileType::Directory, 0));
        }
        let entry = self.entry(place)?;
        let entry = &entry[..];
        let is_directory = entry[11] & DIRECTORY != 0;
        let (kind, bits) = if is_directory { (0o040_000, 0o755) } else { (0o100_000, 0o644) };
        let bits = if entry[11] & READ_ONLY != 0 { bits & !0o222 } else { bits };
        let size = if is_directory { 0 } else { entry.le32(28) };
        Some(Inode {
            atime: time(entry.le16(18), 0, 0),
            mtime: time(entry.le16(24), entry.le16(22), 0),
            ctime: time(entry.le16(16), entry.le16(14), entry[13]),
            ..Inode::of_mode(kind | bits, size.into())?
        })
    }

    fn names(&mut self, directory: u32) -> (Names, bool) {
        let mut names = Names::new();
        let is_whole = self.read_names(directory, &mut names).is_some();
        (names, is_whole)
    }

    fn block(&mut self, inode: u32, block: u32, out: &mut [u8; BLOCK_BYTES]) -> Option<()> {
        let size = self.inode(inode)?.size;
        let extent = self.extent(inode)?;
        let start = u64::from(block) * BLOCK_BYTES as u64;
        let len = size.checked_sub(start)?.min(BLOCK_BYTES as u64);
        out.fill(0);
        let mut done = 0;
        while done < len {
            let (place, follow) = self.place(&extent, start + done)?;
            let piece = follow.min(len - done);
            let range = usize::try_from(done).ok()?..usize::try_from(done + piece).ok()?;
            self.media.read(place, out.get_mut(range)?)?;
            done += piece;
        }
        Some(())
    }
}
