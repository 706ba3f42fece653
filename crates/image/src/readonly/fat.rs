//! FAT12, FAT16 and FAT32 with long names (Microsoft: fatgen103; layouts in `floatgate_media::disk::fat`).

use std::collections::BTreeMap;
use std::sync::Arc;

use floatgate_media::disk::fat::{FatBoot, FatLayout, FatType};
use floatgate_stack::fs::{BLOCK_BYTES, Error, FileType, Timestamp};

use super::media::Media;
use super::recent::{InodeNumbers, Recent};
use super::{Inode, MAX_NAMES, Names, Tree, broken};
use crate::map::Numbers as _;
use crate::words::count;

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
    /// Places of the FATs: the one that is read, and the other one.
    tables: [Option<u64>; 2],
    table_bytes: u64,
    table: Recent<(usize, u64), Vec<u8>>,
    losses: Vec<String>,
    flaws: Vec<String>,
}

/// A flag in the boot sector of a FAT32: the FATs are not the same.
const NO_MIRROR: u16 = 0x80;

/// Most sectors of a FAT that is looked for.
const FAT_SECTORS_MAX: u16 = 16_384;

/// Most entries whose chains are compared with their sizes.
const AUDITED: usize = 1 << 18;

/// True where a FAT begins: with the medium.
fn is_table(media: &Media, boot: &FatBoot, at: u64) -> bool {
    media.array::<3>(at) == Some([boot.medium, 0xFF, 0xFF])
}

/// Bytes of a FAT.
fn table_bytes(boot: &FatBoot) -> u64 {
    boot.fat_sectors() * u64::from(boot.sector_bytes)
}

/// True where a FAT has an entry for each cluster.
fn is_long_enough(boot: &FatBoot) -> bool {
    let halves = match boot.layout().kind {
        FatType::Fat12 => 3,
        FatType::Fat16 => 4,
        _ => 8,
    };
    (boot.clusters() + 2) * halves <= table_bytes(boot) * 2
}

/// The boot sector with the length of a FAT that the place of the second FAT tells, if it does not stand where the boot sector has it.
fn with_found_length(media: &Media, boot: &FatBoot) -> Option<FatBoot> {
    let start = boot.layout().fat_start;
    if boot.fats != 2 || !is_table(media, boot, start) {
        return None;
    }
    let of_length = |sectors: u16| match boot.root_entries {
        0 => FatBoot { fat_sectors_16: 0, fat_sectors_32: sectors.into(), ..*boot },
        _ => FatBoot { fat_sectors_16: sectors, ..*boot },
    };
    let is_it = |found: &FatBoot| {
        is_table(media, found, start + table_bytes(found)) && found.clusters() > 0 && is_long_enough(found)
    };
    (1..=FAT_SECTORS_MAX).map(of_length).find(is_it)
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
        let mut boot = FatBoot::parse_sizes(&sector).map_err(|error| Error::Damaged(error.to_string()))?;
        let (mut losses, mut flaws) = (Vec::new(), Vec::new());
        let second = |boot: &FatBoot| boot.layout().fat_start + table_bytes(boot);
        let is_misplaced = boot.fats == 2 && !is_table(&media, &boot, second(&boot));
        if (is_misplaced || !is_long_enough(&boot))
            && let Some(found) = with_found_length(&media, &boot)
        {
            let (told, found_sectors) = (boot.fat_sectors(), found.fat_sectors());
            losses.push(format!(
                "FAT: the boot sector tells FATs of {told} sectors, and the second one begins after {found_sectors}: this is taken"
            ));
            boot = found;
        } else if !is_long_enough(&boot) {
            losses.push("FAT: the boot sector tells FATs that are too short for the clusters".to_owned());
        }
        let layout = boot.layout();
        let is_mirrored = layout.kind != FatType::Fat32 || boot.flags & NO_MIRROR == 0;
        let mut tables = [Some(layout.fat_start), (boot.fats == 2 && is_mirrored).then(|| second(&boot))];
        let is_good = tables.map(|at| at.is_some_and(|at| is_table(&media, &boot, at)));
        match (is_good, tables[1]) {
            ([true, false], Some(_)) => {
                flaws.push("FAT: the beginning of the second FAT is damaged".to_owned());
                tables[1] = None;
            }
            ([false, true], _) => {
                losses.push(
                    "FAT: the beginning of the first FAT is damaged: the second one is read".to_owned(),
                );
                tables.swap(0, 1);
            }
            ([false, false], _) => {
                losses.push("FAT: no FAT begins with the medium, as each has to".to_owned());
            }
            _ => {}
        }
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
        let table_bytes = table_bytes(&boot);
        let mut fs = Self {
            media,
            layout,
            clusters,
            root,
            places,
            root_number,
            directories,
            chains,
            tables,
            table_bytes,
            table,
            losses,
            flaws,
        };
        fs.compare_tables();
        fs.audit();
        Ok(fs)
    }

    /// Tells where the two FATs differ.
    fn compare_tables(&mut self) {
        if self.tables[1].is_none() {
            return;
        }
        // The second entry has flags of the last unmounting.
        let end = u32::try_from(self.clusters + 2).unwrap_or(u32::MAX);
        let differ = (2..end).filter(|&cluster| self.value(cluster, 0) != self.value(cluster, 1)).count();
        if differ > 0 {
            self.flaws.push(format!(
                "FAT: the two FATs differ in {}: the one is read whose chains fit the files, and Linux reads the first",
                count(differ as u64, "cluster")
            ));
        }
    }

    /// Compares the chains of all files with their sizes and with each other.
    fn audit(&mut self) {
        let mut owned = vec![false; usize::try_from(self.clusters + 2).unwrap_or(0)];
        let (mut open, mut entries, mut is_complete) = (vec![(self.root_number, String::new())], 0, true);
        let mut entered = std::collections::BTreeSet::from([self.root_number]);
        let (mut is_empty, mut shared) = (true, Vec::new());
        while let Some((directory, path)) = open.pop() {
            if directory != self.root_number && !self.has_dot(directory) {
                self.losses.push(format!("{path}: the directory does not begin with its own entry"));
            }
            let (names, is_whole) = self.names(directory);
            is_complete &= is_whole;
            if let Some(Extent::Chain(chain)) = self.extent(directory) {
                own(&mut owned, &chain);
            }
            for (name, inode) in names {
                is_empty = false;
                entries += 1;
                if entries > AUDITED {
                    return;
                }
                let path = format!("{path}/{}", String::from_utf8_lossy(&name));
                let Some(found) = self.inode(inode) else { continue };
                if found.file_type == FileType::Directory {
                    if entered.insert(inode) {
                        open.push((inode, path));
                    }
                    continue;
                }
                let Some(Extent::Chain(chain)) = self.extent(inode) else { continue };
                let wanted = found.size.div_ceil(self.layout.cluster_bytes.max(1));
                if chain.len() as u64 > wanted {
                    let has = count(chain.len() as u64, "cluster");
                    self.losses.push(format!("{path}: its chain has {has}, and its size asks for {wanted}"));
                }
                if own(&mut owned, &chain) {
                    shared.push(path);
                }
            }
        }
        self.losses
            .extend(shared.into_iter().map(|path| format!("{path}: another file has its clusters, too")));
        let end = u32::try_from(self.clusters + 2).unwrap_or(u32::MAX);
        let is_lost = |&cluster: &u32| {
            let is_free = matches!(self.value(cluster, 0), None | Some(0)) || self.is_bad(cluster);
            !is_free && !owned.get(cluster as usize).copied().unwrap_or(true)
        };
        let lost = (2..end).filter(is_lost).count() as u64;
        if lost == 0 || !is_complete {
            return;
        }
        let lost = count(lost, "cluster");
        if is_empty {
            self.losses
                .push(format!("FAT: the root directory is empty, and {lost} in use belong to no file"));
        } else {
            self.flaws.push(format!("FAT: {lost} in use belong to no file"));
        }
    }

    /// True when a directory begins with the entry of itself.
    fn has_dot(&mut self, directory: u32) -> bool {
        let Some(place) = self.places.place(directory) else { return false };
        let own = self.entry(place).map(|entry| self.first(&entry));
        let Some(extent) = self.extent(directory) else { return false };
        let dot = self.place(&extent, 0).and_then(|(place, _)| self.entry(place));
        dot.is_some_and(|dot| dot.starts_with(b".          ") && Some(self.first(&dot)) == own)
    }

    /// Two or four bytes of a FAT at a byte of it; 0 behind its end.
    fn table(&mut self, which: usize, at: u64, len: usize) -> Option<[u8; 4]> {
        const CHUNK: u64 = 4096;
        let table = (*self.tables.get(which)?)?;
        let mut bytes = [0; 4];
        for (index, byte) in bytes.iter_mut().take(len).enumerate() {
            let at = at + index as u64;
            let chunk = match self.table.get((which, at / CHUNK)) {
                Some(chunk) => chunk,
                None => {
                    let start = table + at / CHUNK * CHUNK;
                    let left = (table + self.table_bytes).min(self.media.len()).checked_sub(start)?;
                    let chunk = self.media.bytes(start, usize::try_from(left.min(CHUNK)).ok()?)?;
                    self.table.put((which, at / CHUNK), chunk)
                }
            };
            *byte = *chunk.get(usize::try_from(at % CHUNK).ok()?)?;
        }
        Some(bytes)
    }

    /// Entry of a cluster in a FAT.
    fn value(&mut self, cluster: u32, which: usize) -> Option<u32> {
        let at = u64::from(cluster);
        Some(match self.layout.kind {
            FatType::Fat12 => {
                let pair = u32::from_le_bytes(self.table(which, at + at / 2, 2)?);
                if cluster & 1 == 1 { pair >> 4 } else { pair & 0xFFF }
            }
            FatType::Fat16 => u32::from_le_bytes(self.table(which, at * 2, 2)?),
            _ => u32::from_le_bytes(self.table(which, at * 4, 4)?) & 0xFFF_FFFF,
        })
    }

    /// Smallest entry that ends a chain. The one before marks a bad cluster.
    const fn end(&self) -> u32 {
        match self.layout.kind {
            FatType::Fat12 => 0xFF8,
            FatType::Fat16 => 0xFFF8,
            _ => 0xFFF_FFF8,
        }
    }

    fn is_bad(&mut self, cluster: u32) -> bool {
        self.value(cluster, 0) == Some(self.end() - 1)
    }

    /// The cluster that follows one; `None` of damage, `Some(None)` at the end.
    fn next(&mut self, cluster: u32, which: usize) -> Option<Option<u32>> {
        let value = self.value(cluster, which)?;
        if value >= self.end() {
            return Some(None);
        }
        self.is_cluster(value).then_some(Some(value))
    }

    fn is_cluster(&self, cluster: u32) -> bool {
        cluster >= 2 && u64::from(cluster) < self.clusters + 2
    }

    /// The chain of clusters from `first` on, of a file of this size; a chain without an end is returned empty. The chain in the other FAT is
    /// taken where only this chain is whole and has the length that the size asks for.
    fn chain(&mut self, first: u32, size: Option<u64>) -> Arc<Vec<u32>> {
        if let Some(chain) = self.chains.get(first) {
            return chain;
        }
        let wanted = size.map(|size| size.div_ceil(self.layout.cluster_bytes.max(1)));
        let fits = |(chain, is_whole): &(Vec<u32>, bool)| {
            *is_whole && wanted.is_none_or(|wanted| chain.len() as u64 == wanted)
        };
        let mut found = self.follow(first, 0);
        if self.tables[1].is_some() && !fits(&found) {
            let other = self.follow(first, 1);
            found = if fits(&other) { other } else { found };
        }
        self.chains.put(first, found.0)
    }

    /// The chain in a FAT, and true where it has an end.
    fn follow(&mut self, first: u32, which: usize) -> (Vec<u32>, bool) {
        let mut chain = Vec::new();
        let mut next = Some(first).filter(|first| self.is_cluster(*first));
        let mut is_whole = false;
        while let Some(cluster) = next {
            if chain.len() as u64 >= self.clusters {
                return (Vec::new(), false);
            }
            chain.push(cluster);
            let follows = self.next(cluster, which);
            is_whole = follows == Some(None);
            next = follows.flatten();
        }
        (chain, is_whole)
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
        let (first, size) = if place != ROOT {
            let entry = self.entry(place)?;
            let is_file = entry[11] & DIRECTORY == 0;
            (self.first(&entry), is_file.then(|| u64::from(entry[..].le32(28))))
        } else if self.layout.kind == FatType::Fat32 {
            (self.root.1, None)
        } else {
            return Some(Extent::Root { at: self.layout.fat_end, len: self.root.0 });
        };
        Some(Extent::Chain(self.chain(first, size)))
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

/// Notes the clusters of a chain, and tells whether one of them was noted before.
fn own(owned: &mut [bool], chain: &[u32]) -> bool {
    let mut is_shared = false;
    for cluster in chain {
        if let Some(owned) = owned.get_mut(*cluster as usize) {
            is_shared |= std::mem::replace(owned, true);
        }
    }
    is_shared
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
    fn losses(&self) -> Vec<String> {
        self.losses.clone()
    }

    fn flaws(&self) -> Vec<String> {
        self.flaws.clone()
    }

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
