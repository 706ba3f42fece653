//! A sample of a dump: pages with data from all of its parts.

use super::keystream::Keystream;
use super::stream::{Chunk, Dump, Grouping, Pages, all_ff};
use super::{EccError, PageGeometry, Transform};
use std::collections::HashMap;

/// Most pages that a code is tried on.
const TRIED: usize = 64;

/// Bytes of the pages that are kept of a group, unless the sample becomes too large.
const KEPT_BYTES: usize = 8192;

/// Most bytes of a sample.
const SAMPLE_BYTES: usize = 64 << 20;

/// Bytes of the smallest step.
const PIECE: usize = 256;

/// Most zero bits of an erased piece.
const ERASED_BITFLIPS: u32 = 16;

/// Most wrong bits of a piece of another repeated byte.
const FILLED_BITFLIPS: u32 = 8;

/// Bytes of a page for each wrong bit by which pages with the same data differ at most.
const BYTES_PER_BITFLIP: usize = 32;

/// Pages of which one may be a worn copy of another.
const COPIES_PART: usize = 8;

/// Pages with data, from everywhere in a dump.
pub struct Sample {
    /// In the order of the dump.
    pub(super) groups: Vec<Group>,
    /// Pages of the dump in each group: a block, or several of a large dump.
    pub(super) group_pages: u64,
    /// Pages that are kept of a group.
    kept: usize,
    /// Bytes of the pages.
    bytes: usize,
    /// Randomizers that constant data show.
    pub(super) keystream: Keystream,
}

/// Pages next to each other, of which some are kept.
#[derive(Default)]
pub(super) struct Group {
    /// Those with the most data, the first one first.
    pub(super) pages: Vec<Page>,
    /// It has a bad block marker.
    pub(super) is_marked: bool,
}

/// A page with data.
pub(super) struct Page {
    /// Number in the dump.
    pub(super) number: u64,
    /// Data, then OOB.
    pub(super) raw: Vec<u8>,
    /// Bytes of the data.
    page_bytes: usize,
    /// True if a piece is more than one repeated byte with a few wrong bits, and the number of pieces that are not one repeated byte.
    pieces: (bool, usize),
}

/// Picks pages with data from all parts of a dump, which is read once.
///
/// # Errors
/// A dump without a whole page, without data, or with too little data; what reading meets.
pub fn sample(
    geometry: &PageGeometry,
    dump: Dump<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Sample, EccError> {
    let mut pages = Pages::new(geometry, 0, dump);
    let (shape, mut chunk) = (pages.shape(), Chunk::default());
    let group_pages = Grouping::new(geometry).pages as u64;
    let kept = (KEPT_BYTES / geometry.page_bytes as usize).max(2);
    let keystream = Keystream::new(geometry.pages_per_block);
    let mut sample = Sample { groups: Vec::new(), group_pages, kept, bytes: 0, keystream };
    let (mut number, mut is_erased) = (0_u64, true);
    let marker = &geometry.marker;
    let tells_bad = geometry.pages_per_block.is_some() && shape.has_markers();
    while pages.next(&mut chunk)? {
        for (data, oob) in (0..chunk.pages).map(|at| shape.page(&chunk, at)) {
            is_erased = is_erased && all_ff(data);
            let has_marker =
                tells_bad && marker.pages.iter().any(|page| u64::from(*page) == number % group_pages);
            let is_marked = has_marker && oob.get(marker.byte as usize).is_some_and(|byte| *byte != 0xFF);
            sample.add(number, (data, oob), is_marked);
            number += 1;
        }
        progress(pages.offset());
    }
    match number {
        0 => Err(pages.too_short()),
        _ if is_erased => Err(EccError::AllErased),
        _ if sample.groups.iter().all(|group| group.pages.is_empty()) => Err(EccError::TooLittle),
        _ => {
            sample.leave_copies();
            Ok(sample)
        }
    }
}

impl Sample {
    fn add(&mut self, number: u64, (data, oob): (&[u8], &[u8]), is_marked: bool) {
        let at = usize::try_from(number / self.group_pages).unwrap_or(usize::MAX);
        if self.groups.len() <= at {
            self.groups.push(Group::default());
        }
        let Some(group) = self.groups.last_mut() else { return };
        group.is_marked |= is_marked;
        let (mut is_varied, mut uneven) = (false, 0);
        for piece in data.chunks(PIECE).filter(|piece| !is_constant(piece) && !is_nearly_erased(piece)) {
            uneven += 1;
            is_varied = is_varied || !is_nearly_filled(piece);
        }
        // Randomized pages have no constant pieces.
        if uneven * PIECE == data.len() {
            self.keystream.add(number, data);
        }
        let pieces = (is_varied, uneven);
        let least = group.pages.iter().map(|page| page.pieces).min().unwrap_or_default();
        if uneven == 0 || group.pages.len() >= self.kept && pieces <= least {
            return;
        }
        group.pages.push(Page { number, raw: [data, oob].concat(), page_bytes: data.len(), pieces });
        self.bytes += data.len() + oob.len();
        self.bytes -= group.keep(self.kept);
        if self.bytes > SAMPLE_BYTES {
            self.shrink();
        }
    }

    /// Leaves out the worn copies of other pages, if there are many: each of them looks different, and shows no more.
    fn leave_copies(&mut self) {
        let are_new = are_new(self.groups.iter().flat_map(|group| &group.pages));
        let copies = are_new.iter().filter(|is_new| !**is_new).count();
        if copies * COPIES_PART > are_new.len() {
            let mut are_new = are_new.into_iter();
            self.groups.iter_mut().for_each(|group| group.pages.retain(|_| are_new.next().unwrap_or(true)));
        }
    }

    /// Keeps fewer pages of each group, or makes larger groups of them.
    fn shrink(&mut self) {
        if self.kept > 1 {
            self.kept /= 2;
        } else {
            self.group_pages *= 2;
            let mut groups = std::mem::take(&mut self.groups).into_iter();
            while let Some(mut group) = groups.next() {
                if let Some(next) = groups.next() {
                    group.is_marked &= next.is_marked;
                    group.pages.extend(next.pages);
                }
                self.groups.push(group);
            }
        }
        let kept = self.kept;
        self.groups.iter_mut().for_each(|group| {
            group.keep(kept);
        });
        let pages = self.groups.iter().flat_map(|group| &group.pages);
        self.bytes = pages.map(|page| page.raw.len()).sum();
    }

    /// The pages with their bytes or bits exchanged.
    pub(super) fn transformed(&self, transform: Transform) -> Self {
        let page = |page: &Page| {
            let mut raw = page.raw.clone();
            transform.apply(&mut raw);
            Page { raw, ..*page }
        };
        let group = |group: &Group| Group { pages: group.pages.iter().map(page).collect(), ..*group };
        let groups = self.groups.iter().map(group).collect();
        Self { groups, keystream: self.keystream.clone(), ..*self }
    }

    /// True where the OOB of all pages is erased.
    pub(super) fn has_blank_oob(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.pages).all(|page| all_ff(page.oob()))
    }

    /// Pages from all parts of some groups, as many as a code is tried on.
    pub(super) fn spread(&self, groups: impl Iterator<Item = usize>) -> Vec<&Page> {
        let groups = groups.filter_map(|at| self.groups.get(at));
        let pages: Vec<&Page> = groups.flat_map(|group| &group.pages).collect();
        let stride = pages.len().div_ceil(TRIED).max(1);
        pages.into_iter().step_by(stride).collect()
    }
}

impl Page {
    pub(super) fn data(&self) -> &[u8] {
        self.raw.get(..self.page_bytes).unwrap_or(&[])
    }

    pub(super) fn oob(&self) -> &[u8] {
        self.raw.get(self.page_bytes..).unwrap_or(&[])
    }
}

impl Group {
    /// Keeps the pages with the most data; the number of bytes that are dropped.
    fn keep(&mut self, most: usize) -> usize {
        self.pages.sort_by_key(|page| std::cmp::Reverse(page.pieces));
        let dropped: usize = self.pages.iter().skip(most).map(|page| page.raw.len()).sum();
        self.pages.truncate(most);
        dropped
    }
}

/// True of erased flash with a few wrong bits.
fn is_nearly_erased(piece: &[u8]) -> bool {
    is_nearly(piece, 0xFF, ERASED_BITFLIPS)
}

/// True of one repeated byte with a few wrong bits.
fn is_nearly_filled(piece: &[u8]) -> bool {
    // Two of three bytes are right.
    let [one, two, three, ..] = piece else { return false };
    is_nearly(piece, if one == three { *one } else { *two }, FILLED_BITFLIPS)
}

/// Most pages with the same OOB and different data that are remembered: the OOB of some layouts holds the ECC of only a part of the page.
const SAME_OOB: usize = 8;

/// True for each page that does not differ from an earlier one with the same OOB by only a few wrong bits.
pub(super) fn are_new<'p>(pages: impl Iterator<Item = &'p Page>) -> Vec<bool> {
    let mut earlier: HashMap<&[u8], Vec<&[u8]>> = HashMap::new();
    let is_new = pages.map(|page| {
        let (all, data) = (earlier.entry(page.oob()).or_default(), page.data());
        if all.contains(&data) {
            return true;
        }
        let is_new = !all.iter().any(|one| is_worn_copy(one, data));
        if is_new && all.len() < SAME_OOB {
            all.push(data);
        }
        is_new
    });
    is_new.collect()
}

/// True of pages with the same data that differ by a few wrong bits.
fn is_worn_copy(one: &[u8], other: &[u8]) -> bool {
    let wrong: u32 = one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum();
    wrong as usize * BYTES_PER_BITFLIP <= one.len()
}

/// True when at most some bits differ from a repeated byte.
fn is_nearly(piece: &[u8], fill: u8, most: u32) -> bool {
    let mut wrong = 0;
    // In parts, so that data are left after the first.
    piece.chunks(32).all(|part| {
        wrong += part.iter().map(|byte| (byte ^ fill).count_ones()).sum::<u32>();
        wrong <= most
    })
}

/// True when all bytes are the same.
pub(super) fn is_constant(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| Some(byte) == bytes.first())
}
