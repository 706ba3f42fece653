//! A stretch of nodes of one filesystem: its borders with other filesystems, its eraseblocks, and its part of the
//! file.
//!
//! Eraseblocks have the size that the user states, or that clean markers, summaries and nodes imply.

use std::collections::{BTreeMap, HashMap};

use floatgate_media::jffs2::{Endian, Header, NODE_ALIGN, NodeType};

use super::grid::{ERASE_MAX, ERASE_MIN, ERASE_USUAL, Grid, Marks, UNUSED_MAX, power_of_two_in, sizes};
use super::shape::Jffs2Shape;
use super::shifts::{Edge, Layout, Node};
use super::splices::Splice;
use crate::ImageError;
use crate::format::location::{Content, ImageLocation};
use crate::pages::PageShape;

/// Nodes of the other byte order or magic number up to this fraction (1 in 4 bytes) of a filesystem are remains of
/// earlier contents of the flash.
const LEFT_OVER: u64 = 4;

/// Number of node pairs with different contents and the same version that are no coincidence.
const RIVALS_MIN: usize = 2;

/// Number of eraseblocks that a garbage collector does not move without erasing one of them.
const COPIED_BLOCKS: u64 = 4;

/// Smallest number of eraseblocks with which Linux mounts a JFFS2.
const BLOCKS_MIN: u64 = 5;

/// Number of nodes after erased flash whose distances imply the eraseblocks.
const RESUMED_MIN: u32 = 4;

/// A stretch of nodes with one byte order.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) endian: Endian,
    /// Offset of the first node in the file.
    pub(super) start: u64,
    /// End of the last node.
    pub(super) end: u64,
    /// Offset of the next node of another stretch, if there is one.
    pub(super) followed: Option<u64>,
    pub(super) rivals: IdentifiedNodes,
    pub(super) nodes: u64,
    /// Number of bytes in nodes.
    pub(super) bytes: u64,
    /// Clean markers, which are at starts of eraseblocks.
    pub(super) markers: Marks,
    /// Ends of summaries, which are ends of eraseblocks.
    pub(super) summaries: Marks,
    /// Sizes of eraseblocks that summaries state, each with the number of these summaries and the end of the last.
    pub(super) summary_sizes: BTreeMap<u64, (u32, u64)>,
    /// Nodes after erased flash, most of which are at starts of eraseblocks.
    pub(super) resumed: Marks,
    /// Size of the file, bytes.
    pub(super) file_bytes: u64,
    /// Size of eraseblocks that the user states.
    pub(super) stated: Option<u64>,
    /// Eraseblocks that begin at the first clean marker, at the first node, and at the start of the file, because the
    /// first node of an image may be damaged.
    pub(super) marked: Option<Grid>,
    pub(super) first: Grid,
    pub(super) absolute: Grid,
    pub(super) places: Vec<Node>,
}

impl Stretch {
    pub(super) fn new(endian: Endian, start: u64, (file_bytes, stated): (u64, Option<u64>)) -> Self {
        let (marked, first, absolute) = (None, Grid::new(start, stated), Grid::new(0, stated));
        Self {
            endian,
            start,
            end: start,
            followed: None,
            rivals: IdentifiedNodes::default(),
            nodes: 0,
            bytes: 0,
            markers: Marks::default(),
            summaries: Marks::default(),
            summary_sizes: BTreeMap::new(),
            resumed: Marks::default(),
            file_bytes,
            stated,
            marked,
            first,
            absolute,
            places: Vec::new(),
        }
    }

    /// Adds a node; `stated` is the size of eraseblocks that the node states.
    pub(super) fn add(&mut self, at: u64, header: &Header, gap: Gap, stated: Option<u64>) {
        self.nodes += 1;
        self.followed = None;
        self.bytes += header.padded_len();
        let end = at + u64::from(header.len);
        let before = std::mem::replace(&mut self.end, at + header.padded_len());
        let edge = match header.node_type {
            NodeType::CleanMarker => {
                self.marked.get_or_insert(Grid::new(at, self.stated));
                self.markers.add(at);
                Edge::Begins
            }
            NodeType::Summary => {
                self.summaries.add(end);
                if let Some(size) = stated {
                    let (count, last_end) = self.summary_sizes.entry(size).or_default();
                    (*count, *last_end) = (*count + 1, end);
                }
                Edge::Ends
            }
            _ => Edge::No,
        };
        let is_apart = gap.filled > 0 || !(at - before).is_multiple_of(NODE_ALIGN.into());
        self.places.push(Node { at, len: header.len, edge, is_apart, expected: gap.expected });
        if self.nodes == 1 || at - before > UNUSED_MAX {
            self.resumed.add(at);
        }
        for grid in self.marked.iter_mut().chain([&mut self.first, &mut self.absolute]) {
            grid.add(before, (at, end), header.node_type == NodeType::Padding);
        }
    }

    /// Offset at which another filesystem of the same byte order begins: at its first identified node, or at a clean
    /// marker or other data between erased flash and this node.
    pub(super) fn border(&self) -> Option<u64> {
        let (last, first) =
            self.rivals.border().or_else(|| self.rivals.copy_border(self.start, self.eraseblocks().bytes))?;
        let behind = self.places.partition_point(|node| node.at <= last);
        let until = self.places.partition_point(|node| node.at < first);
        let begins = |pair: &&[Node]| pair[1].edge == Edge::Begins || pair[1].at > pair[0].padded_end();
        let between = self.places[behind - 1..until].windows(2).rev();
        Some(between.into_iter().find(begins).map_or(first, |pair| pair[1].at))
    }

    /// True for nodes within a filesystem of the other byte order or magic number that are no filesystem themselves:
    /// they are few in comparison, or all in one of its eraseblocks.
    pub(super) fn is_left_over(&self, all: &[Self]) -> bool {
        all.iter().filter(|other| other.start < self.start && self.end < other.end).any(|outer| {
            let Eraseblocks { bytes: erase, into_first, .. } = outer.eraseblocks();
            let begins_block = (self.start - outer.start + into_first).is_multiple_of(erase);
            self.bytes.saturating_mul(LEFT_OVER) <= outer.bytes
                || begins_block && self.end - self.start <= erase
        })
    }
}

/// Offsets of identified nodes, and pairs of nodes with the same inode and version. If their contents differ, the
/// nodes belong to different filesystems: a garbage collector moves nodes unchanged, or gives them a new version.
#[derive(Debug, Default)]
pub(super) struct IdentifiedNodes {
    /// Offsets in the order of the file.
    pub(super) nodes: Vec<u64>,
    pub(super) pairs: Vec<Pair>,
}

/// Two nodes with the same inode and version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) first: u64,
    pub(super) second: u64,
    /// True if their contents are equal: the garbage collector moved the node, or the filesystem was copied.
    pub(super) is_copy: bool,
}

impl IdentifiedNodes {
    /// Number of identified nodes before an offset.
    fn before(&self, byte: u64) -> usize {
        self.nodes.partition_point(|&at| at < byte)
    }

    /// Offset of the last node before a node, and the offset of this node.
    fn with_last(&self, first: u64) -> Option<(u64, u64)> {
        Some((*self.nodes.get(self.before(first).checked_sub(1)?)?, first))
    }

    /// Last node of a filesystem, and first node of the next. Most nodes of one of them must have a rival or a copy
    /// in the other, and some must have a rival.
    fn border(&self) -> Option<(u64, u64)> {
        let first = self.most_apart()?;
        let across = || self.pairs.iter().filter(|pair| pair.first < first && first <= pair.second);
        let (all, rivals) = (across().count(), across().filter(|pair| !pair.is_copy).count());
        let before = self.before(first);
        let after = self.nodes.len() - before;
        let has_rivals = rivals >= RIVALS_MIN && 2 * all > before.min(after);
        let is_update = rivals > 0 && 2 * all > before.max(after);
        if has_rivals || is_update { self.with_last(first) } else { None }
    }

    /// Second node of the pair before which most pairs are separated.
    fn most_apart(&self) -> Option<u64> {
        let sorted = |place: fn(&Pair) -> u64| {
            let mut places: Vec<u64> = self.pairs.iter().map(place).collect();
            places.sort_unstable();
            places
        };
        let (firsts, seconds) = (sorted(|pair| pair.first), sorted(|pair| pair.second));
        let apart = |(number, second): (usize, &u64)| {
            (firsts.partition_point(|first| first < second) - number, std::cmp::Reverse(*second))
        };
        seconds.iter().enumerate().map(apart).max().map(|(_, std::cmp::Reverse(second))| second)
    }

    /// The border for a copy of the filesystem, perhaps with a few changes. Most nodes on both sides have the same
    /// distance, with a free eraseblock between the copies, or with many eraseblocks before the border. A garbage
    /// collector moves only a few eraseblocks, to the next free ones.
    fn copy_border(&self, start: u64, erase_bytes: u64) -> Option<(u64, u64)> {
        let mut by_distance: HashMap<u64, (usize, u64, u64)> = HashMap::new();
        for Pair { first, second, .. } in self.pairs.iter().copied().filter(|pair| pair.is_copy) {
            let (count, from, to) = by_distance.entry(second - first).or_insert((0, second, second));
            (*count, *from, *to) = (*count + 1, second.min(*from), second.max(*to));
        }
        let (count, border, end) = by_distance.into_values().max()?;
        let before = self.before(border);
        let after = self.nodes.len() - before;
        let is_rival = |pair: &&Pair| !pair.is_copy && pair.first < border && pair.second >= border;
        let changed = self.pairs.iter().filter(is_rival).count();
        let (last, _) = self.with_last(border)?;
        let is_apart = border - last > 2 * erase_bytes || border - start >= COPIED_BLOCKS * erase_bytes;
        // A copy of one eraseblock over another may contain most of the nodes if they are short, but none of the
        // contents of the others.
        let is_all = 2 * (end - border) > last - start;
        let is_copy = is_apart && is_all && count >= RIVALS_MIN && 2 * (count + changed) > before.max(after);
        is_copy.then_some((last, border))
    }
}

/// Gap between two nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gap {
    pub(super) filled: u64,
    /// Expected offset of the second node.
    pub(super) expected: Option<u64>,
}

/// Eraseblocks of a stretch.
pub(super) struct Eraseblocks {
    pub(super) bytes: u64,
    /// Number of bytes of the first eraseblock before the first node.
    pub(super) into_first: u64,
    /// True if nothing implies the size.
    is_guess: bool,
}

impl Stretch {
    /// Eraseblocks that most summaries state, unless a node crosses the end of one.
    fn stated_by_summaries(&self) -> Option<Eraseblocks> {
        let (&bytes, &(_, end)) = self.summary_sizes.iter().max_by_key(|(_, (count, _))| *count)?;
        let into_first = (self.start + bytes - end % bytes) % bytes;
        let block = |at: u64| (at - self.start + into_first) / bytes;
        let is_whole = self.places.iter().all(|node| block(node.at) == block(node.end() - 1));
        is_whole.then_some(Eraseblocks { bytes, into_first, is_guess: false })
    }

    /// Eraseblocks that the user states, or that summaries, clean markers and nodes imply: a power of two that no
    /// node crosses.
    pub(super) fn eraseblocks(&self) -> Eraseblocks {
        if self.stated.is_none()
            && let Some(stated) = self.stated_by_summaries()
        {
            return stated;
        }
        let told = self.markers.erase_bytes().into_iter().chain(self.summaries.erase_bytes()).min();
        let alone = self.summaries.first.filter(|_| self.summaries.count == 1);
        let alone = alone.and_then(|end| power_of_two_in(end - self.start));
        let told = told.into_iter().chain(alone).min();
        for grid in self.grids() {
            let bytes = match self.stated {
                Some(stated) => grid.crossing.is_none().then_some(stated),
                None => grid.erase_bytes(told),
            };
            let Some(bytes) = bytes else { continue };
            // A marker may follow the first node.
            let into_first = (self.start + bytes - grid.origin % bytes) % bytes;
            return Eraseblocks { bytes, into_first, is_guess: false };
        }
        let is_possible = |size: &u64| self.first.is_possible(*size);
        let resumed = self.resumed.erase_bytes().filter(|_| self.resumed.count >= RESUMED_MIN);
        let fits = |size: &u64| (ERASE_MIN..=ERASE_MAX).contains(size) && is_possible(size);
        if let Some(bytes) = resumed.filter(fits) {
            return Eraseblocks { bytes, into_first: 0, is_guess: false };
        }
        Eraseblocks { bytes: self.guess(), into_first: 0, is_guess: true }
    }

    /// Usual size of eraseblocks if no node crosses its boundaries, otherwise a larger one. Without further nodes,
    /// whole eraseblocks must fill the file: as many as a partition has at least, or those of an image that
    /// `mkfs.jffs2 --pad` has filled. Otherwise fewer or smaller eraseblocks are accepted.
    fn guess(&self) -> u64 {
        let least = sizes().find(|size| self.first.is_possible(*size)).unwrap_or(ERASE_USUAL);
        let usual = least.max(ERASE_USUAL);
        if self.followed.is_some() {
            return usual;
        }
        let len = self.file_bytes - self.start;
        let is_filled_up = |size: u64| (self.end - self.start).next_multiple_of(size) == len;
        let divide_file = || sizes().filter(|&size| size >= least && len.is_multiple_of(size));
        let is_likely = |size: &u64| *size >= usual && (len >= BLOCKS_MIN * size || is_filled_up(*size));
        divide_file()
            .find(is_likely)
            .or_else(|| divide_file().take_while(|&size| size <= usual).last())
            .unwrap_or(usual)
    }

    /// Possible eraseblocks, the most likely first.
    fn grids(&self) -> impl Iterator<Item = &Grid> {
        self.marked.iter().chain([&self.first, &self.absolute])
    }

    /// True if no node crosses an end of an eraseblock of this size, when the first begins at this offset.
    fn keeps(&self, start: u64, erase_bytes: u64) -> bool {
        let mut same = self.grids().filter(|grid| grid.origin.abs_diff(start).is_multiple_of(erase_bytes));
        same.next().is_none_or(|grid| grid.is_possible(erase_bytes))
    }

    /// Refuses a stated size of eraseblocks that nodes contradict. Nodes must not cross the end of an eraseblock, and
    /// clean markers must be at starts of eraseblocks.
    pub(super) fn require_stated(&self) -> Result<(), ImageError> {
        if let (Some(stated), Some(first)) = (self.stated, self.markers.first) {
            let mut markers = self.places.iter().filter(|node| node.edge == Edge::Begins).map(|node| node.at);
            if let Some(at) = markers.find(|at| !(at - first).is_multiple_of(stated))
                && self.layout_of(stated).is_none()
            {
                let why = format!(
                    "the clean marker at byte {at} ({at:#x}) is {} bytes behind the one at byte {first} ({first:#x}), and each begins an eraseblock",
                    at - first
                );
                return Err(ImageError::PebSize { stated, why });
            }
        }
        match (self.stated, self.first.crossing) {
            (Some(stated), Some(at))
                if self.grids().all(|grid| grid.crossing.is_some()) && self.layout_of(stated).is_none() =>
            {
                let why = format!("the node at byte {at} ({at:#x}) crosses the end of one");
                Err(ImageError::PebSize { stated, why })
            }
            _ => Ok(()),
        }
    }

    fn layout_of(&self, erase_bytes: u64) -> Option<Layout> {
        Layout::fitted(&self.places, erase_bytes).filter(|layout| !layout.is_contradicted())
    }

    /// True if bytes may be missing between nodes.
    fn may_be_shifted(&self, told: &Eraseblocks) -> bool {
        let is_possible = |size| (ERASE_MIN..=ERASE_MAX).contains(&size);
        let marks = [&self.markers, &self.summaries];
        told.is_guess
            || marks.iter().filter_map(|marks| marks.erase_bytes()).any(|size| !is_possible(size))
            || self.places.iter().any(|node| node.is_apart)
    }

    /// Eraseblocks, and the changes that correct the positions of shifted ones. Known pages also imply eraseblocks.
    fn laid_out(&self, pages: Option<PageShape>) -> (Eraseblocks, Vec<Splice>) {
        let known = pages.map(|pages| u64::from(pages.block_bytes()));
        let told = match known {
            Some(bytes) => Eraseblocks { bytes, into_first: self.start % bytes, is_guess: false },
            None => self.eraseblocks(),
        };
        // Nodes whose headers have wrong bits leave gaps, and shift nothing where all others fit the size.
        let is_unshifted =
            || !told.is_guess && self.layout_of(told.bytes).is_some_and(|layout| !layout.is_shifted());
        if !self.may_be_shifted(&told) || is_unshifted() {
            return (told, Vec::new());
        }
        let found = match known.or(self.stated) {
            Some(bytes) => self.layout_of(bytes).map(|layout| (layout, true)),
            None => Layout::find(&self.places).filter(|(_, is_sure)| *is_sure || told.is_guess),
        };
        let found = found.or_else(|| Some((self.layout_of(told.bytes)?, !told.is_guess)));
        match found {
            Some((layout, is_sure)) if layout.is_shifted() || told.is_guess && is_sure => {
                let likely = if known.is_some() { [0, self.start] } else { [self.start, 0] };
                let into_first = layout.bytes_before_first(&self.places, likely);
                let splices = layout.splices(&self.places, into_first, self.endian);
                (Eraseblocks { bytes: layout.erase_bytes, into_first, is_guess: !is_sure }, splices)
            }
            _ => (told, Vec::new()),
        }
    }

    /// Location of the filesystem; `least` is its smallest possible start.
    pub(super) fn found(&self, least: u64, pages: Option<PageShape>) -> ImageLocation {
        let (Eraseblocks { bytes: erase_bytes, into_first, is_guess }, mut splices) = self.laid_out(pages);
        let start = self.start.checked_sub(into_first).filter(|&start| start >= least).unwrap_or(self.start);
        let is_amid = start == self.start && into_first > 0;
        if is_amid && (!splices.is_empty() || !self.keeps(start, erase_bytes)) {
            let head = Splice::new(start..start, into_first, (erase_bytes, erase_bytes), self.endian);
            splices.insert(0, head);
        }
        // Bytes that would fill the last eraseblock can be the beginning of another filesystem.
        let end = self.followed.unwrap_or(self.file_bytes);
        let len = (self.end - start).next_multiple_of(erase_bytes).min(end - start);
        let shape = Jffs2Shape {
            big_endian: self.endian.is_big(),
            old_magic: self.endian.is_old(),
            erase_bytes: u32::try_from(erase_bytes).unwrap_or(u32::MAX),
            erase_is_guess: is_guess,
            page_bytes: pages.map(|pages| pages.page_bytes),
            markers: self.markers.first.is_some(),
            summaries: self.summaries.first.is_some(),
            nodes_end: self.end - start,
        };
        ImageLocation { splices, ..ImageLocation::new(start, len, Content::Jffs2(shape)) }
    }
}
