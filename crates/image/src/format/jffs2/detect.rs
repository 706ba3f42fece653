//! Where a JFFS2 is in a file: stretches of nodes whose headers are good.

use floatgate_media::jffs2::{Endian, Header, NodeType};
use floatgate_stack::store::Store;
use memchr::memmem;

use super::Jffs2Shape;
use crate::ImageError;
use crate::detect::{Content, Found};

/// Bytes of a file that are looked at together.
const CHUNK: usize = 4 << 20;

/// Eraseblocks are powers of two between these, bytes; the last is that of `mkfs.jffs2` where nothing tells.
const ERASE_MIN: u64 = 4 << 10;
const ERASE_MAX: u64 = 4 << 20;
const ERASE_USUAL: u64 = 64 << 10;

/// Nodes that an image has at least. One alone can be anything that looks like one.
const NODES_MIN: u64 = 2;

/// Longest stretch between two nodes that may hold something else than erased flash: what damage leaves.
const GAP: u64 = 1 << 20;

/// Bytes that an eraseblock may leave unused behind its last node: those of the longest node, and of a page.
const UNUSED_MAX: u64 = 12 << 10;

/// Boundaries between eraseblocks that no node crosses, of which two are no chance: nodes lie side by side.
const BOUNDARIES_MIN: u32 = 2;

/// So many are believed before clean markers and summaries.
const BOUNDARIES_SURE: u32 = 5;

/// Eraseblocks as they could lie: a byte of the file where one begins, and what nodes say of each size.
#[derive(Clone, Copy, Debug)]
struct Grid {
    origin: u64,
    /// Sizes of eraseblocks that no node crosses, as bits of their logarithm.
    possible: u32,
    /// For each size by its logarithm, boundaries with nodes on both sides that none crosses.
    kept: [u32; 32],
}

impl Grid {
    const fn new(origin: u64) -> Self {
        Self { origin, possible: u32::MAX, kept: [0; 32] }
    }

    /// Takes in a node between two bytes of the file; the one before it ended at `before`.
    fn add(&mut self, before: u64, at: u64, end: u64) {
        let Some(first) = at.checked_sub(self.origin) else { return };
        let before = before.checked_sub(self.origin + 1);
        for size in sizes() {
            let bit = size.trailing_zeros();
            if first / size != (end - 1 - self.origin) / size {
                self.possible &= !(1 << bit);
            }
            let is_near =
                before.is_some_and(|last| first - last <= UNUSED_MAX && first / size != last / size);
            self.kept[bit as usize] += u32::from(is_near);
        }
    }

    const fn is_possible(&self, size: u64) -> bool {
        self.possible & 1 << size.trailing_zeros() != 0
    }

    /// The size that clean markers and summaries tell, or the smallest that enough nodes keep to.
    fn erase_bytes(&self, told: Option<u64>) -> Option<u64> {
        let fits = |size: &u64| (ERASE_MIN..=ERASE_MAX).contains(size) && self.is_possible(*size);
        let kept = |least: u32| {
            let enough = move |size: &u64| self.kept[size.trailing_zeros() as usize] >= least;
            sizes().find(|size| fits(size) && enough(size))
        };
        match (told.filter(fits), kept(BOUNDARIES_SURE)) {
            // Of some markers nothing may be left.
            (Some(told), Some(kept)) => Some(told.min(kept)),
            (told, _) => told.or_else(|| kept(BOUNDARIES_MIN)),
        }
    }
}

/// A stretch of nodes in one byte order.
#[derive(Debug)]
struct Stretch {
    endian: Endian,
    /// Byte of the file where the first node begins.
    start: u64,
    /// Byte behind the last node.
    end: u64,
    nodes: u64,
    /// Smallest distance between clean markers, which begin eraseblocks.
    marker: Option<u64>,
    marker_distance: Option<u64>,
    /// The same of the ends of summaries, which end eraseblocks.
    summary_end: Option<u64>,
    summary_distance: Option<u64>,
    /// Eraseblocks from the first clean marker on, from the first node, and from the beginning of the file: the first node of an image may
    /// be damaged.
    marked: Option<Grid>,
    first: Grid,
    absolute: Grid,
}

impl Stretch {
    fn new(endian: Endian, start: u64) -> Self {
        let (marker, marker_distance, summary_end, summary_distance) = (None, None, None, None);
        let (marked, first, absolute) = (None, Grid::new(start), Grid::new(0));
        Self {
            endian,
            start,
            end: start,
            nodes: 0,
            marker,
            marker_distance,
            summary_end,
            summary_distance,
            marked,
            first,
            absolute,
        }
    }

    fn add(&mut self, at: u64, header: &Header) {
        self.nodes += 1;
        let end = at + u64::from(header.len);
        let before = std::mem::replace(&mut self.end, at + header.padded_len());
        match header.node_type {
            NodeType::CleanMarker => {
                self.marked.get_or_insert(Grid::new(at));
                nearer(&mut self.marker, &mut self.marker_distance, at);
            }
            NodeType::Summary => nearer(&mut self.summary_end, &mut self.summary_distance, end),
            _ => {}
        }
        for grid in self.marked.iter_mut().chain([&mut self.first, &mut self.absolute]) {
            grid.add(before, at, end);
        }
    }

    /// Where the first eraseblock begins, and bytes of each: a power of two that clean markers and summaries allow, and no node crosses.
    fn eraseblocks(&self) -> (u64, u64) {
        let told = self.marker_distance.into_iter().chain(self.summary_distance).min();
        let alone = self.summary_end.map(|end| end - self.start).filter(|_| self.summary_distance.is_none());
        let told = told.into_iter().chain(alone).map(|bytes| 1 << bytes.trailing_zeros().min(63)).min();
        for grid in self.marked.iter().chain([&self.first, &self.absolute]) {
            let Some(size) = grid.erase_bytes(told) else { continue };
            // A marker may stand behind the first node.
            let into = (self.start + size - grid.origin % size) % size;
            return (self.start.checked_sub(into).unwrap_or(self.start), size);
        }
        let possible = || sizes().filter(|size| self.first.is_possible(*size));
        let usual =
            possible().next().map(|size| size.max(ERASE_USUAL)).filter(|size| self.first.is_possible(*size));
        (self.start, usual.or_else(|| possible().next()).unwrap_or(ERASE_USUAL))
    }

    /// What is found of it; `least` is the byte where it can begin.
    fn found(&self, least: u64, size: u64) -> Found {
        let (start, erase_bytes) = self.eraseblocks();
        let start = if start < least { self.start } else { start };
        let len = (self.end - start).next_multiple_of(erase_bytes).min(size - start);
        let shape = Jffs2Shape {
            big_endian: self.endian == Endian::Big,
            erase_bytes: u32::try_from(erase_bytes).unwrap_or(u32::MAX),
            markers: self.marker.is_some(),
            summaries: self.summary_end.is_some(),
            nodes_end: self.end - start,
        };
        Found { offset: start, len, content: Content::Jffs2(shape), bad_pebs: Vec::new() }
    }
}

/// Notes a place, and its distance from the last one if that is the smallest.
fn nearer(last: &mut Option<u64>, distance: &mut Option<u64>, at: u64) {
    if let Some(last) = last.replace(at) {
        let new = at.saturating_sub(last);
        *distance = Some(distance.map_or(new, |old| old.min(new)));
    }
}

fn sizes() -> impl Iterator<Item = u64> {
    (ERASE_MIN.trailing_zeros()..=ERASE_MAX.trailing_zeros()).map(|bits| 1 << bits)
}

/// Looks for stretches of nodes. Their data are not looked at: a file in a JFFS2 may hold another one.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn find(store: &mut dyn Store) -> Result<Vec<Found>, ImageError> {
    let size = store.size_bytes();
    let magics = [Endian::Little, Endian::Big]
        .map(|endian| (endian, memmem::Finder::new(&endian.magic()).into_owned()));
    let mut all: Vec<Stretch> = Vec::new();
    let mut buffer = vec![0; CHUNK + Header::SIZE];
    let mut next = 0;
    for start in (0..size).step_by(CHUNK) {
        let len = usize::try_from(size - start).unwrap_or(usize::MAX).min(buffer.len());
        store.read_at(start, &mut buffer[..len]).map_err(ImageError::Store)?;
        let mut hits: Vec<(u64, Header, Endian)> = Vec::new();
        for (endian, magic) in &magics {
            let places = magic.find_iter(&buffer[..len]).take_while(|at| *at < CHUNK);
            hits.extend(places.filter_map(|at| {
                Some((start + at as u64, Header::parse(&buffer[at..len], *endian).ok()?, *endian))
            }));
        }
        hits.sort_unstable_by_key(|hit| hit.0);
        for (at, header, endian) in hits {
            if at < next || at + u64::from(header.len) > size {
                continue;
            }
            let same = match all.last() {
                Some(last) if last.endian == endian => is_near(store, last.end, at)?,
                _ => false,
            };
            if !same {
                all.push(Stretch::new(endian, at));
            }
            if let Some(stretch) = all.last_mut() {
                stretch.add(at, &header);
                next = stretch.end;
            }
        }
    }
    all.retain(|stretch| stretch.nodes >= NODES_MIN);
    let ends = std::iter::once(0).chain(all.iter().map(|stretch| stretch.end));
    Ok(all.iter().zip(ends).map(|(stretch, least)| stretch.found(least, size)).collect())
}

/// True when a node may belong to the same filesystem as the one that ended before: little is between, or erased flash.
fn is_near(store: &mut dyn Store, end: u64, at: u64) -> Result<bool, ImageError> {
    if at - end <= GAP {
        return Ok(true);
    }
    let mut buffer = vec![0; 1 << 16];
    let mut filled = 0;
    for start in (end..at).step_by(buffer.len()) {
        let len = usize::try_from(at - start).unwrap_or(usize::MAX).min(buffer.len());
        let piece = &mut buffer[..len];
        store.read_at(start, piece).map_err(ImageError::Store)?;
        filled += if piece.iter().all(|&byte| byte == 0xFF) { 0 } else { len as u64 };
        if filled > GAP {
            return Ok(false);
        }
    }
    Ok(true)
}
