//! Reader of exFAT (Microsoft: "exFAT specification"). A file has a set of directory entries with its attributes, data
//! and name.

use std::collections::BTreeMap;
use std::sync::Arc;

use floatgate_media::disk::exfat::{self as boot, BOOT_REGION_SECTORS, region_checksum};
use floatgate_stack::fs::{Error, FileType, Timestamp};

use super::chains::{Clusters, Listed, Next};
use super::media::Media;
use super::recent::Recent;
use super::{Directories, Findings, Inode, MAX_NAMES, Names, Tree, broken, fat};
use crate::map::view::Numbers as _;

/// Size of a directory entry, bytes.
const ENTRY: usize = 32;

/// Types of entries: a file, its data, a piece of its name. Unused entries have the highest bit cleared; 0 ends a directory.
const END: u8 = 0;
const FILE: u8 = 0x85;
const STREAM: u8 = 0xC0;
const NAME: u8 = 0xC1;

/// Number of UTF-16 units in a piece of a name.
const PIECE: usize = 15;

/// Attributes of a file: read-only, directory.
const READ_ONLY: u16 = 0x01;
const DIRECTORY: u16 = 0x10;

/// Flag of data in contiguous clusters, which are not listed in the table.
const NO_CHAIN: u8 = 0x02;

/// Entry of the table at the end of a chain.
const END_OF_CHAIN: u32 = 0xFFFF_FFFF;

/// Maximum size of a directory, bytes (256 MiB in the specification).
const DIRECTORY_MAX: u64 = 64 << 20;

/// Object ID of the root directory.
const ROOT: u32 = 0;

/// A file or directory.
#[derive(Clone)]
struct Node {
    is_directory: bool,
    is_read_only: bool,
    first: u32,
    is_contiguous: bool,
    /// Bytes of the file, and those that were written; the others read as zeros.
    size: u64,
    written: u64,
    times: [Timestamp; 3],
}

pub(super) struct Exfat {
    media: Media,
    /// Offset of the table.
    table: u64,
    clusters: Clusters,
    nodes: Vec<Node>,
    directories: Directories,
    /// Directories by their first cluster, so that a directory that contains itself is entered only once.
    known: BTreeMap<u32, u32>,
    /// Clusters of the directories that were read.
    listed: Listed,
    chains: Recent<u32, Vec<u32>>,
    losses: Vec<String>,
    flaws: Vec<String>,
}

/// Offset of the boot region to read, with the damage of both boot regions.
fn boot_region(media: &Media) -> (u64, Vec<String>, Vec<String>) {
    let shift = media.array::<1>(108).map_or(9, |[shift]| shift.clamp(9, 12));
    let sector = 1_usize << shift;
    let (sectors, second) = ((BOOT_REGION_SECTORS - 1) * sector, (BOOT_REGION_SECTORS * sector) as u64);
    let sum = |start: u64| {
        let region = media.bytes(start, sectors)?;
        let sum = region_checksum(&region);
        (media.le32(start + sectors as u64)? == sum && region.get(3..11) == Some(&boot::NAME[..]))
            .then_some(sum)
    };
    let told = |what: &str| vec![format!("exFAT: {what}")];
    match (sum(0), sum(second)) {
        (Some(first), Some(other)) if first == other => (0, Vec::new(), Vec::new()),
        (Some(_), Some(_)) => (0, Vec::new(), told("its two boot regions differ: the first one is read")),
        (Some(_), None) => (0, Vec::new(), told("the checksum of its second boot region is wrong")),
        (None, Some(_)) => {
            let what =
                "the checksum of its boot region is wrong: the second one is read, and Linux mounts neither";
            (second, told(what), Vec::new())
        }
        (None, None) => (0, told("the checksums of both boot regions are wrong"), Vec::new()),
    }
}

impl Exfat {
    pub(super) fn new(media: Media) -> Result<Self, Error> {
        let (start, losses, flaws) = boot_region(&media);
        let sector = media.bytes(start, 512).ok_or_else(broken)?;
        let shifts = (u32::from(sector[108]), u32::from(sector[109]));
        if !(9..=12).contains(&shifts.0) || shifts.0 + shifts.1 > 25 {
            return Err(broken());
        }
        let bytes = |at: usize| u64::from(sector.le32(at)) << shifts.0;
        let cluster = 1_u64 << (shifts.0 + shifts.1);
        let (table, heap, root) = (bytes(80), bytes(88), sector.le32(96));
        // The number is limited to the clusters in the dump.
        let room = media.len().saturating_sub(heap).div_ceil(cluster);
        let count = u64::from(sector.le32(92)).min(room);
        let clusters = Clusters { bytes: cluster, start: heap, count };
        let root = Node {
            is_directory: true,
            is_read_only: false,
            first: root,
            is_contiguous: false,
            size: DIRECTORY_MAX,
            written: DIRECTORY_MAX,
            times: [super::NEVER; 3],
        };
        let known = BTreeMap::from([(root.first, ROOT)]);
        let (nodes, directories, chains) = (vec![root], BTreeMap::new(), Recent::new(8));
        let listed = Listed::default();
        Ok(Self { media, table, clusters, nodes, directories, known, listed, chains, losses, flaws })
    }

    /// The cluster that follows one of a file or directory.
    fn next(&self, cluster: u32, is_contiguous: bool) -> Next {
        let next = if is_contiguous {
            cluster.checked_add(1)
        } else {
            self.media.le32(self.table + u64::from(cluster) * 4)
        };
        match next {
            Some(next) if self.clusters.has(next) => Next::Cluster(next),
            Some(END_OF_CHAIN) => Next::End,
            _ => Next::Damaged,
        }
    }

    /// Clusters of a file, up to the first one that does not exist.
    fn chain(&mut self, inode: u32) -> Option<Arc<Vec<u32>>> {
        if let Some(chain) = self.chains.get(inode) {
            return Some(chain);
        }
        let Node { first, size, is_contiguous, .. } = *self.nodes.get(inode as usize)?;
        let most = size.div_ceil(self.clusters.bytes);
        let chain = self.clusters.follow(first, most, |cluster| self.next(cluster, is_contiguous));
        Some(self.chains.put(inode, chain))
    }

    /// Clusters of a directory, and true if no other directory uses them.
    fn directory(&mut self, inode: u32) -> Option<(Vec<u32>, bool)> {
        let Node { first, size, is_contiguous, .. } = *self.nodes.get(inode as usize)?;
        let most = size.min(DIRECTORY_MAX).div_ceil(self.clusters.bytes);
        let mut listed = std::mem::take(&mut self.listed);
        let next = |cluster| self.next(cluster, is_contiguous);
        let found = listed.chain(&self.clusters, (first, most), next);
        self.listed = listed;
        Some(found)
    }

    /// Reads bytes of clusters in their order.
    fn read_chain(&self, chain: &[u32], at: u64, buf: &mut [u8]) -> Option<()> {
        self.media.read_pieces(at, buf, &|at| self.clusters.place(chain, at))
    }
}

/// File described by a set of entries; `None` if the set is damaged.
fn file(entry: &[u8; ENTRY], set: &[u8]) -> Option<(Vec<u8>, Node)> {
    let stream = set.get(..ENTRY).filter(|stream| stream.first() == Some(&STREAM))?;
    let units: Vec<u16> = set
        .chunks_exact(ENTRY)
        .skip(1)
        .filter(|piece| piece.first() == Some(&NAME))
        .flat_map(|piece| (0..PIECE).map(|unit| piece.le16(2 + 2 * unit)).collect::<Vec<_>>())
        .take(usize::from(*stream.get(3)?))
        .collect();
    let entry = &entry[..];
    let attributes = entry.le16(4);
    let time = |at: usize, hundredths: u8, zone: u8| {
        let time = fat::time(entry.le16(at + 2), entry.le16(at), hundredths);
        // Quarters of an hour from UTC, if they are known.
        let quarters = i64::from((zone << 1).cast_signed() >> 1);
        let ahead = if zone & 0x80 == 0 { 0 } else { quarters * 900 };
        Timestamp { seconds: time.seconds - ahead, ..time }
    };
    let node = Node {
        is_directory: attributes & DIRECTORY != 0,
        is_read_only: attributes & READ_ONLY != 0,
        first: stream.le32(20),
        is_contiguous: *stream.get(1)? & NO_CHAIN != 0,
        size: stream.le64(24),
        written: stream.le64(8),
        times: [time(16, 0, entry[24]), time(12, entry[21], entry[23]), time(8, entry[20], entry[22])],
    };
    (!units.is_empty()).then(|| (String::from_utf16_lossy(&units).into_bytes(), node))
}

impl Tree for Exfat {
    fn findings(&self) -> Findings {
        Findings { losses: self.losses.clone(), flaws: self.flaws.clone(), ..Findings::default() }
    }

    fn root(&self) -> u32 {
        ROOT
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        let node = self.nodes.get(inode as usize)?;
        let [atime, mtime, ctime] = node.times;
        let (kind, bits) = if node.is_directory { (0o040_000, 0o755) } else { (0o100_000, 0o644) };
        let bits = if node.is_read_only { bits & !0o222 } else { bits };
        let size = if node.is_directory { 0 } else { node.size };
        let found = Inode::of_mode(kind | bits, size)?;
        debug_assert!(matches!(found.file_type, FileType::Directory | FileType::Regular));
        Some(Inode { atime, mtime, ctime, ..found })
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let (chain, is_own) = self.directory(directory).filter(|(chain, _)| !chain.is_empty())?;
        let end = (chain.len() as u64 * self.clusters.bytes).min(DIRECTORY_MAX);
        let mut at = 0;
        while at < end {
            let mut entry = [0; ENTRY];
            self.read_chain(&chain, at, &mut entry)?;
            match entry[0] {
                END => return Some(()),
                FILE => {
                    let others = usize::from(entry[1]);
                    let mut set = vec![0; others * ENTRY];
                    self.read_chain(&chain, at + ENTRY as u64, &mut set)?;
                    if names.len() >= MAX_NAMES {
                        return None;
                    }
                    let (name, node) = file(&entry, &set)?;
                    let number = u32::try_from(self.nodes.len()).ok()?;
                    let is_new =
                        !node.is_directory || *self.known.entry(node.first).or_insert(number) == number;
                    let number = if is_new { number } else { *self.known.get(&node.first)? };
                    if is_new {
                        self.nodes.push(node);
                    }
                    names.push((name, number));
                    at += (others * ENTRY) as u64;
                }
                _ => {}
            }
            at += ENTRY as u64;
        }
        is_own.then_some(())
    }

    fn kept_names(&mut self) -> Option<&mut Directories> {
        Some(&mut self.directories)
    }

    /// Bytes after those that were written are zeros.
    fn read(&mut self, inode: u32, at: u64, out: &mut [u8]) -> Option<()> {
        let written = self.nodes.get(inode as usize)?.written.saturating_sub(at).min(out.len() as u64);
        let chain = self.chain(inode)?;
        self.read_chain(&chain, at, out.get_mut(..usize::try_from(written).ok()?)?)
    }
}
