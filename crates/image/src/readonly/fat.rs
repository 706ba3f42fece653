//! FAT12, FAT16 and FAT32 with long names (Microsoft: fatgen103; layouts in `floatgate_media::disk::fat`).

use std::collections::BTreeMap;
use std::sync::Arc;

use floatgate_media::disk::fat::{FatBoot, FatLayout, FatType};
use floatgate_stack::fs::{Error, FileType, Timestamp};

use super::chains::{Clusters, End, Length, Lengths, Listed, Next};
use super::media::Media;
use super::recent::{InodeNumbers, Recent};
use super::{Directories, Findings, Inode, MAX_NAMES, Names, Tree, broken};
use crate::map::view::Numbers as _;
use crate::words::count;

/// Size of a directory entry, bytes.
const ENTRY: u64 = 32;

/// Pseudo-position of the root directory, which has no entry.
const ROOT: u64 = u64::MAX;

/// Attributes of an entry: read-only, volume label, directory, piece of a long name.
const READ_ONLY: u8 = 0x01;
const LABEL: u8 = 0x08;
const DIRECTORY: u8 = 0x10;
const LONG_NAME: u8 = 0x0F;

/// Special first bytes of an entry: end of the directory, deleted entry, name that begins with E5h.
const END: u8 = 0;
const DELETED: u8 = 0xE5;
const ESCAPED: u8 = 0x05;

/// Flags of Windows NT: the name or its extension is lower case.
const LOWER_NAME: u8 = 0x08;
const LOWER_EXTENSION: u8 = 0x10;

/// Maximum size of a directory, bytes: 65536 entries.
const DIRECTORY_MAX: u64 = 65_536 * ENTRY;

/// Number of UTF-16 units in a piece of a long name, and flag of the last piece.
const PIECE: usize = 13;
const LAST_PIECE: u8 = 0x40;

/// Days from 1970 to 1980.
const DAYS_TO_1980: i64 = 3652;

pub(super) struct Fat {
    media: Media,
    layout: FatLayout,
    clusters: Clusters,
    /// Root directory: for FAT12 and FAT16 its length in bytes (it is before the clusters), for FAT32 its first
    /// cluster.
    root: (u64, u32),
    places: InodeNumbers,
    root_number: u32,
    /// Directories by their first cluster, so that a directory that contains itself is entered only once.
    directories: BTreeMap<u32, u32>,
    /// Names of directories that were read, and the clusters that these have.
    names: Directories,
    listed: Listed,
    chains: Recent<(u32, u64), Vec<u32>>,
    /// Lengths of the chains in each FAT.
    lengths: [Lengths; 2],
    /// Entries of the FATs that were read, for a test.
    steps: u64,
    /// Offsets of the FATs: the one that is read, and the other one.
    tables: [Option<u64>; 2],
    table_bytes: u64,
    table: Recent<(usize, u64), Vec<u8>>,
    losses: Vec<String>,
    flaws: Vec<String>,
}

/// Flag in the boot sector of a FAT32: the FATs are not copies of each other.
const NO_MIRROR: u16 = 0x80;

/// Maximum size of a FAT that is searched, sectors.
const FAT_SECTORS_MAX: u16 = 16_384;

/// Limits of the audit: number of entries whose chains are compared with their sizes, depth of directories, and number of listed
/// losses.
const AUDITED: usize = 1 << 18;
const AUDITED_DEPTH: usize = 128;
const LOSSES_MAX: usize = 1000;

/// Number of bytes of the FATs that are compared at a time: a multiple of all entry sizes.
const COMPARED: usize = 12_288;

/// True if a FAT begins at this offset, recognised by its media byte.
fn is_table(media: &Media, boot: &FatBoot, at: u64) -> bool {
    media.array::<3>(at) == Some([boot.medium, 0xFF, 0xFF])
}

/// Size of a FAT, bytes.
fn table_bytes(boot: &FatBoot) -> u64 {
    boot.fat_sectors() * u64::from(boot.sector_bytes)
}

/// True if the FAT has an entry for each cluster.
fn is_long_enough(boot: &FatBoot) -> bool {
    let halves = match boot.layout().kind {
        FatType::Fat12 => 3,
        FatType::Fat16 => 4,
        _ => 8,
    };
    (boot.clusters() + 2) * halves <= table_bytes(boot) * 2
}

/// Boot sector with a corrected FAT length, if the second FAT is not at the expected offset. The length follows from its actual
/// offset.
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

/// Range of a directory or a file on the media.
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
        let count = bytes.saturating_sub(layout.data_start) / cluster_bytes;
        // The number is limited to the clusters in the dump.
        let count = count.min(media.len() / cluster_bytes + 1);
        let clusters = Clusters { bytes: cluster_bytes, start: layout.data_start, count };
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
            names: BTreeMap::new(),
            listed: Listed::default(),
            chains,
            lengths: <[Lengths; 2]>::default(),
            steps: 0,
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

    /// Reports differences between the two FATs.
    fn compare_tables(&mut self) {
        let [Some(first), Some(second)] = self.tables else { return };
        let end = self.clusters.end();
        let in_piece = match self.layout.kind {
            FatType::Fat12 => COMPARED as u64 * 2 / 3,
            FatType::Fat16 => COMPARED as u64 / 2,
            _ => COMPARED as u64 / 4,
        };
        let mut differ = 0;
        for (piece, at) in (0..self.table_bytes).step_by(COMPARED).enumerate() {
            let len = usize::try_from(self.table_bytes - at).map_or(COMPARED, |left| left.min(COMPARED));
            let [one, other] = [first, second].map(|table| self.media.bytes(table + at, len));
            if one == other {
                continue;
            }
            // The second entry has flags of the last unmounting.
            let from = u32::try_from(piece as u64 * in_piece).map_or(end, |from| from.clamp(2, end));
            let to = u32::try_from((piece as u64 + 1) * in_piece).map_or(end, |to| to.min(end));
            differ += (from..to).filter(|&cluster| self.value(cluster, 0) != self.value(cluster, 1)).count();
        }
        if differ > 0 {
            self.flaws.push(format!(
                "FAT: the two FATs differ in {}: the one is read whose chains fit the files, and Linux reads the first",
                count(differ as u64, "cluster")
            ));
        }
    }

    /// Compares the cluster chains of all files with the file sizes and with each other.
    fn audit(&mut self) {
        let mut owned = vec![false; self.clusters.end() as usize];
        // Directories with the index of their parent, and with their depth.
        let mut places: Vec<(usize, Vec<u8>)> = vec![(0, Vec::new())];
        let (mut open, mut entries, mut is_complete) = (vec![(self.root_number, 0, 0)], 0, true);
        let mut entered = std::collections::BTreeSet::from([self.root_number]);
        let (mut is_empty, mut shared) = (true, Vec::new());
        while let Some((directory, place, depth)) = open.pop() {
            if directory != self.root_number && !self.has_dot(directory) {
                let path = path_of(&places, place, None);
                self.record(format!("{path}: the directory does not begin with its own entry"));
            }
            let (names, is_whole) = self.names(directory);
            is_complete &= is_whole;
            if let Some((first, size)) = self.start(directory) {
                self.own(&mut owned, first, size);
            }
            for (name, inode) in names {
                is_empty = false;
                entries += 1;
                if entries > AUDITED {
                    return;
                }
                let Some(found) = self.inode(inode) else { continue };
                if found.file_type == FileType::Directory {
                    is_complete &= depth < AUDITED_DEPTH;
                    if depth < AUDITED_DEPTH && entered.insert(inode) {
                        open.push((inode, places.len(), depth + 1));
                        places.push((place, name));
                    }
                    continue;
                }
                let Some((first, size)) = self.start(inode) else { continue };
                let wanted = found.size.div_ceil(self.clusters.bytes);
                let length = self.chosen(first, size).1;
                if u64::from(length.clusters) > wanted {
                    let (path, has) =
                        (path_of(&places, place, Some(&name)), count(length.clusters.into(), "cluster"));
                    self.record(format!("{path}: its chain has {has}, and its size asks for {wanted}"));
                }
                if self.own(&mut owned, first, size) && shared.len() < LOSSES_MAX {
                    shared.push(path_of(&places, place, Some(&name)));
                }
            }
        }
        for path in shared {
            self.record(format!("{path}: another file has its clusters, too"));
        }
        let end = self.clusters.end();
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

    fn record(&mut self, loss: String) {
        if self.losses.len() < LOSSES_MAX {
            self.losses.push(loss);
        }
    }

    /// Marks the clusters of a chain as used, up to the first one that is already marked. Returns true if there is such
    /// a cluster.
    fn own(&mut self, owned: &mut [bool], first: u32, size: Option<u64>) -> bool {
        let (which, length) = self.chosen(first, size);
        let (mut at, mut left) = (first, length.clusters);
        while left > 0 {
            let Some(owned) = owned.get_mut(at as usize) else { return false };
            if std::mem::replace(owned, true) {
                return true;
            }
            match self.next(at, which) {
                Next::Cluster(cluster) => at = cluster,
                Next::End | Next::Damaged => return false,
            }
            left -= 1;
        }
        false
    }

    /// True if a directory begins with the entry `.`.
    fn has_dot(&mut self, directory: u32) -> bool {
        let Some(place) = self.places.place(directory) else { return false };
        let Some(own) = self.entry(place).map(|entry| self.first(&entry)) else { return false };
        let dot = self.clusters.place(&[own], 0).filter(|_| self.clusters.has(own));
        let dot = dot.and_then(|(place, _)| self.entry(place));
        dot.is_some_and(|dot| dot.starts_with(b".          ") && self.first(&dot) == own)
    }

    /// Reads two or four bytes at an offset of a FAT; 0 after its end.
    fn table(&mut self, which: usize, at: u64, len: usize) -> Option<[u8; 4]> {
        const CHUNK: u64 = 4096;
        let table = (*self.tables.get(which)?)?;
        let (mut bytes, mut done) = ([0; 4], 0);
        // An entry of FAT12 may be in two chunks.
        while done < len {
            let at = at + done as u64;
            let chunk = match self.table.get((which, at / CHUNK)) {
                Some(chunk) => chunk,
                None => {
                    let start = table + at / CHUNK * CHUNK;
                    let left = (table + self.table_bytes).min(self.media.len()).checked_sub(start)?;
                    let chunk = self.media.bytes(start, usize::try_from(left.min(CHUNK)).ok()?)?;
                    self.table.put((which, at / CHUNK), chunk)
                }
            };
            let rest = chunk.get(usize::try_from(at % CHUNK).ok()?..).filter(|rest| !rest.is_empty())?;
            let piece = rest.len().min(len - done);
            bytes.get_mut(done..done + piece)?.copy_from_slice(rest.get(..piece)?);
            done += piece;
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

    /// The cluster that follows one in a FAT.
    fn next(&mut self, cluster: u32, which: usize) -> Next {
        self.steps += 1;
        match self.value(cluster, which) {
            Some(value) if value >= self.end() => Next::End,
            Some(value) if self.clusters.has(value) => Next::Cluster(value),
            _ => Next::Damaged,
        }
    }

    fn length(&mut self, first: u32, which: usize) -> Length {
        let mut lengths = self.lengths.get_mut(which).map(std::mem::take).unwrap_or_default();
        let clusters = self.clusters;
        let length = lengths.of(&clusters, first, |cluster| self.next(cluster, which));
        if let Some(own) = self.lengths.get_mut(which) {
            *own = lengths;
        }
        length
    }

    /// FAT from which the chain of a file is read, and the length of the chain. The second FAT is used only if its chain is complete and
    /// has the right length for the file size, while the chain in the first FAT does not.
    fn chosen(&mut self, first: u32, size: Option<u64>) -> (usize, Length) {
        let wanted = size.map(|size| size.div_ceil(self.clusters.bytes));
        let fits = |length: Length| {
            length.end == End::Whole && wanted.is_none_or(|wanted| u64::from(length.clusters) == wanted)
        };
        let length = self.length(first, 0);
        if self.tables[1].is_some() && !fits(length) {
            let other = self.length(first, 1);
            if fits(other) {
                return (1, other);
            }
        }
        (0, length)
    }

    /// Clusters of a file of this size; none if the chain has no end.
    fn chain(&mut self, first: u32, size: u64) -> Arc<Vec<u32>> {
        if let Some(chain) = self.chains.get((first, size)) {
            return chain;
        }
        let (which, length) = self.chosen(first, Some(size));
        let most = size.div_ceil(self.clusters.bytes).min(length.clusters.into());
        let clusters = self.clusters;
        let chain = clusters.follow(first, most, |cluster| self.next(cluster, which));
        self.chains.put((first, size), chain)
    }

    fn entry(&self, place: u64) -> Option<[u8; ENTRY as usize]> {
        self.media.array(place)
    }

    /// First cluster of an entry.
    fn first(&self, entry: &[u8]) -> u32 {
        let high = if self.layout.kind == FatType::Fat32 { entry.le16(20) } else { 0 };
        u32::from(high) << 16 | u32::from(entry.le16(26))
    }

    /// First cluster of a directory or a file, and size of the file; `None` for a root directory before the clusters.
    fn start(&self, inode: u32) -> Option<(u32, Option<u64>)> {
        let place = self.places.place(inode)?;
        if place != ROOT {
            let entry = self.entry(place)?;
            let is_file = entry[11] & DIRECTORY == 0;
            return Some((self.first(&entry), is_file.then(|| u64::from(entry[..].le32(28)))));
        }
        (self.layout.kind == FatType::Fat32).then_some((self.root.1, None))
    }

    /// Range of a directory, and true if no other directory uses it.
    fn directory(&mut self, inode: u32) -> (Extent, bool) {
        let Some((first, _)) = self.start(inode) else {
            return (Extent::Root { at: self.layout.fat_end, len: self.root.0 }, true);
        };
        let which = self.chosen(first, None).0;
        let (mut listed, clusters) = (std::mem::take(&mut self.listed), self.clusters);
        let most = DIRECTORY_MAX.div_ceil(clusters.bytes);
        let (chain, is_own) = listed.chain(&clusters, (first, most), |cluster| self.next(cluster, which));
        self.listed = listed;
        (Extent::Chain(Arc::new(chain)), is_own)
    }

    /// Position on the media of a byte of a directory or a file, and number of contiguous bytes from it.
    fn place(&self, extent: &Extent, at: u64) -> Option<(u64, u64)> {
        match extent {
            Extent::Root { at: start, len } => Some((start + at, len.checked_sub(at)?)),
            Extent::Chain(chain) => self.clusters.place(chain, at),
        }
    }

    fn len(&self, extent: &Extent) -> u64 {
        match extent {
            Extent::Root { len, .. } => *len,
            Extent::Chain(chain) => chain.len() as u64 * self.clusters.bytes,
        }
    }
}

/// Path of a directory, or of a file in it, in messages.
fn path_of(places: &[(usize, Vec<u8>)], mut place: usize, name: Option<&[u8]>) -> String {
    let mut parts: Vec<&[u8]> = name.into_iter().collect();
    while let Some((parent, name)) = places.get(place).filter(|_| place > 0) {
        parts.push(name);
        place = *parent;
    }
    parts.iter().rev().map(|part| format!("/{}", String::from_utf8_lossy(part))).collect()
}

/// Pieces of a long name, which are stored in reverse order.
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

    /// The long name, if all its pieces exist and belong to this short entry.
    fn finish(self, entry: &[u8]) -> Option<Vec<u8>> {
        let sum = entry.get(..11)?.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
        if self.next != 0 || self.units.is_empty() || sum != self.sum {
            return None;
        }
        let units: Vec<u16> = self.units.into_iter().take_while(|unit| *unit != 0).collect();
        Some(String::from_utf16_lossy(&units).into_bytes())
    }
}

/// Short name: eight characters and an extension of three. Bytes above 7Fh belong to a code page that the filesystem does not
/// state.
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

/// Converts a date and a time of FAT. The time zone is unknown, so UTC is assumed.
pub(super) fn time(date: u16, time: u16, hundredths: u8) -> Timestamp {
    if date == 0 {
        return super::NEVER;
    }
    let (years, month, day) = (i64::from(date >> 9), i64::from(date >> 5 & 15), i64::from(date & 31));
    // Number of days before each month of a common year.
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
    fn findings(&self) -> Findings {
        Findings { losses: self.losses.clone(), flaws: self.flaws.clone(), ..Findings::default() }
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

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let (extent, is_own) = self.directory(directory);
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
        is_own.then_some(())
    }

    fn kept_names(&mut self) -> Option<&mut Directories> {
        Some(&mut self.names)
    }

    fn read(&mut self, inode: u32, start: u64, out: &mut [u8]) -> Option<()> {
        let size = self.inode(inode)?.size;
        let (first, _) = self.start(inode)?;
        let extent = Extent::Chain(self.chain(first, size));
        self.media.read_pieces(start, out, &|at| self.place(&extent, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A FAT16 with 512-byte clusters, whose root directory is full of files and directories.
    fn hostile(next: impl Fn(u32) -> u16) -> Fat {
        const SECTORS: usize = 8192;
        const FAT: usize = 33;
        const ROOT: usize = 512;
        let mut image = vec![0; SECTORS * 512];
        image[..3].copy_from_slice(&[0xEB, 0x3C, 0x90]);
        image[11..24].copy_from_slice(&[0, 2, 1, 1, 0, 1, 0, 2, 0, 32, 0xF8, FAT as u8, 0]);
        image[510..512].copy_from_slice(&[0x55, 0xAA]);
        for cluster in 2..SECTORS as u32 {
            let at = 512 + cluster as usize * 2;
            image[at..at + 2].copy_from_slice(&next(cluster).to_le_bytes());
        }
        image[512..516].copy_from_slice(&[0xF8, 0xFF, 0xFF, 0xFF]);
        for file in 0..ROOT {
            let entry = &mut image[(1 + FAT) * 512 + file * 32..][..32];
            entry[..11].copy_from_slice(format!("F{file:010}").as_bytes());
            entry[11] = if file % 2 == 0 { 0x20 } else { DIRECTORY };
            entry[26..28].copy_from_slice(&(2 + 3 * file as u16).to_le_bytes());
            entry[28..32].copy_from_slice(&(4_u32 << 20).to_le_bytes());
        }
        Fat::new(Media::new(Box::new(image), 0, u64::MAX)).unwrap()
    }

    /// If all files share one chain, or all chains contain loops, the audit reads each entry of the table only a few times, not once for each
    /// file.
    #[test]
    fn a_hostile_table_is_checked_in_linear_time() {
        for next in [
            &(|cluster: u32| if cluster < 8000 { cluster as u16 + 1 } else { 0xFFFF }) as &dyn Fn(u32) -> u16,
            &|cluster| if cluster < 8000 { cluster as u16 + 1 } else { 2 },
            &|cluster| cluster as u16,
        ] {
            let fat = hostile(next);
            assert!(fat.steps < 4 * 8192, "{} steps", fat.steps);
            assert!(!fat.losses.is_empty());
        }
    }
}
