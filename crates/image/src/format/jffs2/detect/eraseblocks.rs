//! The eraseblocks of a stretch of nodes: those that were stated, or that clean markers, summaries and nodes tell; and the part of the file that
//! they make.

use floatgate_media::jffs2::NODE_ALIGN;

use super::super::Jffs2Shape;
use super::super::shifts::{Edge, Layout, Splice};
use super::Stretch;
use crate::ImageError;
use crate::detect::{Content, Found, PageShape};

/// Eraseblocks are powers of two between these, bytes; the last is that of `mkfs.jffs2` where nothing tells.
pub(super) const ERASE_MIN: u64 = 4 << 10;
const ERASE_MAX: u64 = 4 << 20;
pub(in super::super) const ERASE_USUAL: u64 = 64 << 10;

/// Fewest eraseblocks of which Linux mounts a JFFS2.
const BLOCKS_MIN: u64 = 5;

/// Bytes that an eraseblock may leave unused behind its last node: those of the longest node, and of a page.
pub(super) const UNUSED_MAX: u64 = 12 << 10;

/// Boundaries between eraseblocks that no node crosses, of which two are no chance: nodes lie side by side.
const BOUNDARIES_MIN: u32 = 2;

/// Nodes behind erased flash whose distances tell the eraseblocks.
const RESUMED_MIN: u32 = 4;

/// So many are believed before clean markers and summaries.
const BOUNDARIES_SURE: u32 = 5;

/// Eraseblocks as they could lie: a byte of the file where one begins, and what nodes say of each size.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Grid {
    origin: u64,
    /// Sizes of eraseblocks that no node crosses, as bits of their logarithm.
    possible: u32,
    /// For each size by its logarithm, boundaries with nodes on both sides that none crosses.
    kept: [u32; 32],
    /// The size that was stated, if any.
    stated: Option<u64>,
    /// First byte of the first node that crosses a boundary of that size.
    crossing: Option<u64>,
}

impl Grid {
    pub(in super::super) const fn new(origin: u64, stated: Option<u64>) -> Self {
        Self { origin, possible: u32::MAX, kept: [0; 32], stated, crossing: None }
    }

    /// Takes in a node between two bytes of the file; the one before it ended at `before`. What fills up a page or an eraseblock, or what a repair has left
    /// of damage, does not tell where others begin: `is_padding`.
    pub(in super::super) fn add(&mut self, before: u64, (at, end): (u64, u64), is_padding: bool) {
        let Some(first) = at.checked_sub(self.origin) else { return };
        let last = end - 1 - self.origin;
        if self.stated.is_some_and(|size| first / size != last / size) {
            self.crossing.get_or_insert(at);
        }
        let before = before.checked_sub(self.origin + 1);
        for size in sizes() {
            let bit = size.trailing_zeros();
            if first / size != last / size {
                self.possible &= !(1 << bit);
            }
            let is_near =
                before.is_some_and(|last| first - last <= UNUSED_MAX && first / size != last / size);
            if is_padding {
                continue;
            }
            // Behind a gap it is no chance, either.
            let is_behind_gap =
                first.is_multiple_of(size) && before.is_some_and(|last| first - last > u64::from(NODE_ALIGN));
            self.kept[bit as usize] += match (is_near, is_behind_gap) {
                (true, true) => BOUNDARIES_MIN,
                (is_near, _) => is_near.into(),
            };
        }
    }

    const fn is_possible(&self, size: u64) -> bool {
        match self.stated {
            Some(stated) if stated == size => self.crossing.is_none(),
            _ => self.possible & 1 << size.trailing_zeros() != 0,
        }
    }

    /// The size that clean markers and summaries tell, or the smallest that enough nodes keep to.
    pub(in super::super) fn erase_bytes(&self, told: Option<u64>) -> Option<u64> {
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

/// Places of which each begins an eraseblock, or each ends one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) first: Option<u64>,
    count: u32,
    /// Distances of the others from the first, all their bits.
    apart: u64,
}

impl Marks {
    pub(super) fn add(&mut self, at: u64) {
        self.count = self.count.saturating_add(1);
        self.apart |= at - *self.first.get_or_insert(at);
    }

    /// The largest power of two that divides all distances.
    fn erase_bytes(&self) -> Option<u64> {
        power_of_two_in(self.apart)
    }
}

/// The largest power of two that divides a number that is not 0.
fn power_of_two_in(bytes: u64) -> Option<u64> {
    (bytes > 0).then(|| 1 << bytes.trailing_zeros())
}

/// Eraseblocks of a stretch.
pub(super) struct Eraseblocks {
    pub(super) bytes: u64,
    /// Bytes that the first has before the first node.
    pub(super) into_first: u64,
    /// Nothing tells the size.
    is_guess: bool,
}

/// Sizes of eraseblocks, the smallest first.
pub(crate) fn sizes() -> impl Iterator<Item = u64> {
    (ERASE_MIN.trailing_zeros()..=ERASE_MAX.trailing_zeros()).map(|bits| 1 << bits)
}

impl Stretch {
    /// The eraseblocks that most summaries state, unless a node crosses the end of one.
    fn said(&self) -> Option<Eraseblocks> {
        let (&bytes, &(_, end)) = self.said.iter().max_by_key(|(_, (count, _))| *count)?;
        let into_first = (self.start + bytes - end % bytes) % bytes;
        let block = |at: u64| (at - self.start + into_first) / bytes;
        let is_whole = self.places.iter().all(|node| block(node.at) == block(node.end() - 1));
        is_whole.then_some(Eraseblocks { bytes, into_first, is_guess: false })
    }

    /// The eraseblocks that were stated, or those that summaries, clean markers and nodes tell: a power of two that no node crosses.
    pub(super) fn eraseblocks(&self) -> Eraseblocks {
        if self.stated.is_none()
            && let Some(said) = self.said()
        {
            return said;
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
            // A marker may stand behind the first node.
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

    /// The size that is usual, if no node crosses it, or a larger one. Where no other nodes follow, whole eraseblocks fill the file: as many as a partition
    /// has at least, or those of an image that `mkfs.jffs2 --pad` has filled up; else fewer are believed, or smaller ones.
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

    /// Eraseblocks as they could lie, those that are most likely first.
    fn grids(&self) -> impl Iterator<Item = &Grid> {
        self.marked.iter().chain([&self.first, &self.absolute])
    }

    /// True when no node crosses the end of an eraseblock of this size, if the first one begins at this byte.
    fn keeps(&self, start: u64, erase_bytes: u64) -> bool {
        let mut same = self.grids().filter(|grid| grid.origin.abs_diff(start).is_multiple_of(erase_bytes));
        same.next().is_none_or(|grid| grid.is_possible(erase_bytes))
    }

    /// Refuses a stated size of eraseblocks that nodes contradict: they cross no end of one, and clean markers stand at none but the beginning.
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
        Layout::of(&self.places, erase_bytes).filter(|layout| !layout.is_contradicted())
    }

    /// True when something may be missing between nodes.
    fn may_be_shifted(&self, told: &Eraseblocks) -> bool {
        let is_possible = |size| (ERASE_MIN..=ERASE_MAX).contains(&size);
        let marks = [&self.markers, &self.summaries];
        told.is_guess
            || marks.iter().filter_map(|marks| marks.erase_bytes()).any(|size| !is_possible(size))
            || self.places.iter().any(|node| node.is_apart)
    }

    /// The eraseblocks, and what puts those into their places that are shifted. Pages that are known tell them, too.
    fn laid_out(&self, pages: Option<PageShape>) -> (Eraseblocks, Vec<Splice>) {
        let known = pages.map(|pages| u64::from(pages.block_bytes()));
        let told = match known {
            Some(bytes) => Eraseblocks { bytes, into_first: self.start % bytes, is_guess: false },
            None => self.eraseblocks(),
        };
        if !self.may_be_shifted(&told) {
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

    /// The part of it that is found; `least` is the byte where it can begin.
    pub(super) fn found(&self, least: u64, pages: Option<PageShape>) -> Found {
        let (Eraseblocks { bytes: erase_bytes, into_first, is_guess }, mut splices) = self.laid_out(pages);
        let start = self.start.checked_sub(into_first).filter(|&start| start >= least).unwrap_or(self.start);
        let is_amid = start == self.start && into_first > 0;
        if is_amid && (!splices.is_empty() || !self.keeps(start, erase_bytes)) {
            let head = Splice::new(start..start, into_first, (erase_bytes, erase_bytes), self.endian);
            splices.insert(0, head);
        }
        // What would fill up the last eraseblock can be the beginning of another filesystem.
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
        Found { offset: start, len, content: Content::Jffs2(shape), bad_pebs: Vec::new(), splices }
    }
}
