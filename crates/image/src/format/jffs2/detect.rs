//! Search for JFFS2 in a file: stretches of nodes with good headers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

use floatgate_media::jffs2::{
    Body, DirentNode, Endian, Header, Inode, NODE_ALIGN, NodeType, SummaryMarker, ZERO_FILL,
};
use floatgate_stack::store::Store;
use memchr::memmem;

use super::grid::{ERASE_MIN, GAP, sizes};
use super::pages::{self, LocatedNode};
use super::shape::Jffs2Shape;
use super::stretch::{Gap, Pair, Stretch};
use crate::ImageError;
use crate::format::location::{Content, ImageLocation};
use crate::pages::{FlashSizes, PageShape};

/// Number of bytes of a file that are examined at a time.
const CHUNK: usize = 4 << 20;

/// Size of the largest eraseblock that the user may state, bytes: several chips in parallel.
const STATED_MAX: u64 = 64 << 20;

/// Smallest number of nodes of an image. A single match may be other data.
const NODES_MIN: u64 = 2;

/// Size of a piece of the data between nodes that is examined at a time, bytes.
const PIECE: usize = 1 << 16;

/// Largest number of nodes and clean markers that are examined to find the pages of a dump with OOB.
const PLACES: usize = 1 << 11;

/// Number of bytes after a chunk that are also examined: the length of a dirent, the longest node that identifies a
/// filesystem.
const OVERLAP: usize = 40 + 255;

/// Largest number of nodes that are stored to distinguish filesystems. It exceeds the number of files of a flash of 1
/// GiB.
const REMEMBERED: usize = 1 << 22;

/// Largest number of consecutive filesystems of one byte order that are distinguished.
const BORDERS_MAX: usize = 64;

/// Key of a node in its filesystem: true for a name, inode, version.
type Key = (bool, u32, u32);

/// Key of a node in its filesystem, and a hash of its contents, for valid nodes of inodes and names with good CRCs.
fn identity(header: &Header, bytes: &[u8], endian: Endian) -> Option<(Key, u64)> {
    let node = bytes.get(..header.len as usize);
    let (key, content) = match header.node_type {
        _ if header.obsolete => return None,
        NodeType::Inode => {
            let head = bytes.get(..Inode::SIZE)?;
            let inode = Inode::parse(head, endian).ok()?;
            ((false, inode.inode, inode.version), head)
        }
        NodeType::Dirent => {
            let dirent = DirentNode::parse(node?, endian).ok()?.dirent;
            ((true, dirent.parent, dirent.version), node?)
        }
        _ => return None,
    };
    let mut hasher = DefaultHasher::new();
    content[Header::SIZE..].hash(&mut hasher);
    Some((key, hasher.finish()))
}

/// Searches for filesystems: stretches of nodes. Data of nodes is not searched, because a file in a JFFS2 may contain
/// another JFFS2. `pages` are the pages from which OOB was removed; without them, dumps with OOB are also searched.
/// `sizes` are the sizes of the flash that the user states.
///
/// # Errors
/// The file cannot be read, or nodes contradict the stated size.
pub(crate) fn find(
    store: &mut dyn Store,
    pages: Option<PageShape>,
    sizes: &FlashSizes,
) -> Result<Vec<ImageLocation>, ImageError> {
    let size = store.size_bytes();
    let stated = sizes.peb_bytes.map(u64::from);
    let is_possible =
        |bytes: u64| (ERASE_MIN..=STATED_MAX).contains(&bytes) && bytes.is_multiple_of(NODE_ALIGN.into());
    if let Some(stated) = stated.filter(|&stated| !is_possible(stated)) {
        let why = format!("eraseblocks have {ERASE_MIN} to {STATED_MAX} bytes, a multiple of {NODE_ALIGN}");
        return Err(ImageError::PebSize { stated, why });
    }
    let mut borders = Vec::new();
    let search = loop {
        let mut search = Search { borders: borders.clone(), stated, ..Search::default() };
        search.run(store, size)?;
        let new =
            search.stretches.iter().filter_map(Stretch::border).filter(|border| !borders.contains(border));
        let new: Vec<u64> = new.collect();
        // Blocks that the OOB marks as bad may contain any data.
        if pages.is_some() || new.is_empty() || borders.len() + new.len() > BORDERS_MAX {
            break search;
        }
        borders.extend(new);
    };
    let mut all = search.stretches;
    if pages.is_none()
        && let Some(found) = with_oob(&search.first, &search.markers, size, sizes)
    {
        return Ok(vec![found]);
    }
    let mut found: Vec<ImageLocation> = Vec::new();
    leave_unstated(&mut all)?;
    for stretch in all.iter().filter(|stretch| !stretch.is_left_over(&all)) {
        let ends = all.iter().map(|other| other.end);
        // The last eraseblock of the previous image continues after its last node.
        let ends = ends.chain(found.iter().map(|other| other.offset + other.len));
        let before = ends.filter(|&end| end <= stretch.start).max();
        let mut one = stretch.found(before.unwrap_or(0), pages);
        if found.iter().any(|other| other.offset == one.offset) {
            one = stretch.found(stretch.start, pages);
        }
        found.push(one);
    }
    Ok(found)
}

/// Clears the stated size for a stretch whose nodes contradict it, if the size may belong to another filesystem.
fn leave_unstated(all: &mut [Stretch]) -> Result<(), ImageError> {
    let own: Vec<&Stretch> = all.iter().filter(|stretch| !stretch.is_left_over(all)).collect();
    if own.iter().all(|stretch| stretch.require_stated().is_err()) {
        own.iter().try_for_each(|stretch| stretch.require_stated())?;
    }
    for stretch in all {
        if stretch.require_stated().is_err() {
            stretch.stated = None;
        }
    }
    Ok(())
}

/// Filesystem that begins with a node at this offset of a file; data before it is ignored. `None` if no filesystem
/// begins there. Otherwise as [`find`].
///
/// # Errors
/// The file cannot be read.
pub(crate) fn find_at(
    store: &mut dyn Store,
    at: u64,
    pages: Option<PageShape>,
    stated: Option<u32>,
) -> Result<Option<ImageLocation>, ImageError> {
    let size = store.size_bytes();
    let mut search = Search { borders: vec![at], stated: stated.map(u64::from), ..Search::default() };
    search.run(store, size)?;
    let stretch = search.stretches.iter().find(|stretch| stretch.start == at);
    Ok(stretch.map(|stretch| stretch.found(at, pages)))
}

/// Search for nodes of both byte orders.
#[derive(Default)]
struct Search {
    /// Stretches in the order of their starts; stretches of one byte order do not overlap.
    stretches: Vec<Stretch>,
    /// Index of the last stretch of each byte order and magic number.
    last: [Option<usize>; Endian::ALL.len()],
    /// First nodes of all stretches, and offsets of clean markers in the form that they have in the OOB.
    first: Vec<LocatedNode>,
    markers: Vec<u64>,
    /// End of the last node.
    next: u64,
    /// End of a damaged node that contains other nodes.
    expected: Option<u64>,
    /// Offsets at which another filesystem begins.
    borders: Vec<u64>,
    /// Size of eraseblocks that the user states.
    stated: Option<u64>,
    /// Offset and hash of each node that distinguishes filesystems, by stretch and key.
    seen: HashMap<(usize, Key), (u64, u64)>,
}

/// A node that was found: offset, header, byte order, and its key with its hash.
type Hit = (u64, Header, Endian, Option<(Key, u64)>);

impl Search {
    fn run(&mut self, store: &mut dyn Store, size: u64) -> Result<(), ImageError> {
        let magics = Endian::ALL.map(|endian| (endian, memmem::Finder::new(&endian.magic()).into_owned()));
        let mut buffer = vec![0; CHUNK + OVERLAP];
        for start in (0..size).step_by(CHUNK) {
            let len = usize::try_from(size - start).unwrap_or(usize::MAX).min(buffer.len());
            store.read_at(start, &mut buffer[..len]).map_err(ImageError::Store)?;
            let mut hits: Vec<Hit> = Vec::new();
            for (endian, magic) in &magics {
                let places = magic.find_iter(&buffer[..len]).take_while(|at| *at < CHUNK);
                let marker = pages::clean_marker(*endian);
                for at in places {
                    let (place, bytes) = (start + at as u64, &buffer[at..len]);
                    match Header::parse(bytes, *endian) {
                        Ok(header) => {
                            let header = header.as_scanned(bytes);
                            let identity = identity(&header, bytes, *endian);
                            hits.push((place, header, *endian, identity));
                        }
                        Err(_) if bytes.starts_with(&marker) && self.markers.len() < PLACES => {
                            self.markers.push(place);
                        }
                        Err(_) => {}
                    }
                }
            }
            hits.sort_unstable_by_key(|hit| hit.0);
            for (number, (at, header, endian, identity)) in hits.iter().enumerate() {
                let (at, endian) = (*at, *endian);
                if at >= self.next && at + u64::from(header.len) <= size {
                    if is_cut_short(store, &hits[number..])? {
                        self.expected = Some(at + header.padded_len());
                        continue;
                    }
                    let stretch = self.add(store, at, header, endian)?;
                    if let Some((key, content)) = *identity {
                        self.compare(stretch, key, (at, content));
                    }
                }
            }
        }
        self.stretches.retain(|stretch| stretch.nodes >= NODES_MIN);
        Ok(())
    }

    /// Searches the stretch of a node for another node with the same key.
    fn compare(&mut self, stretch: usize, key: Key, (at, content): (u64, u64)) {
        if self.seen.len() >= REMEMBERED {
            return;
        }
        let rivals = &mut self.stretches[stretch].rivals;
        match self.seen.entry((stretch, key)) {
            Entry::Occupied(first) if rivals.pairs.len() < REMEMBERED => {
                let (first, said) = *first.get();
                rivals.pairs.push(Pair { first, second: at, is_copy: said == content });
            }
            Entry::Occupied(_) => return,
            Entry::Vacant(place) => {
                place.insert((at, content));
            }
        }
        rivals.nodes.push(at);
    }

    /// Adds a node. Returns its stretch. A few nodes of another byte order or magic number do not end a stretch.
    fn add(
        &mut self,
        store: &mut dyn Store,
        at: u64,
        header: &Header,
        endian: Endian,
    ) -> Result<usize, ImageError> {
        if self.first.len() < PLACES {
            self.first.push(LocatedNode { at, header: *header, endian });
        }
        self.next = at + header.padded_len();
        let said = size_by_summary(store, at, header, endian)?;
        for last in self.last.into_iter().flatten() {
            self.stretches[last].followed.get_or_insert(at);
        }
        let last = &mut self.last[endian as usize];
        if let Some(number) = *last
            && let stretch = &mut self.stretches[number]
            && !self.borders.iter().any(|&border| stretch.end <= border && border <= at)
            && let filled = filled(store, stretch.end, at)?
            && filled <= GAP
        {
            stretch.add(at, header, Gap { filled, expected: self.expected.take() }, said);
            return Ok(number);
        }
        let number = self.stretches.len();
        *last = Some(number);
        let mut stretch = Stretch::new(endian, at, (store.size_bytes(), self.stated));
        stretch.add(at, header, Gap::default(), said);
        self.stretches.push(stretch);
        Ok(number)
    }
}

/// Size of eraseblocks that a summary implies. The marker in its last bytes, which are also the last bytes of the
/// eraseblock, contains the position of the summary.
fn size_by_summary(
    store: &mut dyn Store,
    at: u64,
    header: &Header,
    endian: Endian,
) -> Result<Option<u64>, ImageError> {
    let mut bytes = [0; SummaryMarker::SIZE];
    let marker_at = u64::from(header.len).checked_sub(bytes.len() as u64);
    let Some(marker_at) = marker_at.filter(|_| header.node_type == NodeType::Summary) else {
        return Ok(None);
    };
    store.read_at(at + marker_at, &mut bytes).map_err(ImageError::Store)?;
    let size = SummaryMarker::parse(&bytes, endian)
        .map(|marker| u64::from(marker.offset) + u64::from(header.len))
        .filter(|size| sizes().any(|possible| possible == *size));
    Ok(size)
}

/// Layout of a dump in pages with OOB, if the first nodes and clean markers of a file imply one.
fn with_oob(nodes: &[LocatedNode], markers: &[u64], size: u64, sizes: &FlashSizes) -> Option<ImageLocation> {
    let (pages, origin) = pages::find(nodes, markers, sizes)?;
    let block = u64::from(pages.stride()) * u64::from(pages.pages_per_block);
    let block_start = |node: &LocatedNode| node.at.checked_sub(origin).map(|at| origin + at / block * block);
    let offset = nodes.iter().find_map(block_start)?;
    let end = nodes.iter().rev().find_map(block_start)? + block;
    let shape = Jffs2Shape::in_pages(nodes.first()?.endian, pages);
    let found = ImageLocation::new(offset, end.min(size) - offset, Content::Jffs2(shape));
    Some(ImageLocation { pages: Some(pages), ..found })
}

/// Number of bytes between two nodes that are not erased, counted in pieces. Nodes with more than [`GAP`] such bytes
/// between them belong to different filesystems.
fn filled(store: &mut dyn Store, end: u64, at: u64) -> Result<u64, ImageError> {
    let mut buffer = vec![0; usize::try_from(at - end).unwrap_or(PIECE).min(PIECE)];
    let mut filled = 0;
    for start in (end..at).step_by(PIECE) {
        let len = usize::try_from(at - start).unwrap_or(usize::MAX).min(buffer.len());
        let piece = &mut buffer[..len];
        store.read_at(start, piece).map_err(ImageError::Store)?;
        // A space that is too small for a padding node is filled with zeros.
        let is_padding = at - end <= ZERO_FILL as u64 && piece.iter().all(|&byte| byte == 0);
        filled += if is_padding || piece.iter().all(|&byte| byte == 0xFF) { 0 } else { len as u64 };
        if filled > GAP {
            break;
        }
    }
    Ok(filled)
}

/// True for a damaged node that contains the start of other nodes, and no node begins at its end: bytes of the node
/// are missing. `hits` begins with this node.
fn is_cut_short(store: &mut dyn Store, hits: &[Hit]) -> Result<bool, ImageError> {
    let [(at, header, endian, _), others @ ..] = hits else { return Ok(false) };
    let end = at + header.padded_len();
    let mut inside = others.iter().map(|other| other.0).take_while(|&other| other <= end).peekable();
    if inside.peek().is_none_or(|&first| first == end) || inside.any(|other| other == end) {
        return Ok(false);
    }
    let mut node = vec![0; (header.len as usize).min(CHUNK)];
    store.read_at(*at, &mut node).map_err(ImageError::Store)?;
    Ok(Body::parse(header, &node, *endian).is_err())
}
