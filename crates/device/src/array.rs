//! The memory array: pages in eraseblocks, copy-on-write, allocated only when written.
//!
//! Cloning an array copies one pointer per block. Erased pages take no memory, and pages that repeat others little. In timing-only mode no data is stored
//! and reads leave the buffer as it was; of NAND, two bytes per page tell what was programmed since the erase.

mod samples;

use crate::violation::Violation;
use samples::{Contents, Samples};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Pages in eraseblocks. "Page" is whatever is programmed at once, OOB included.
#[derive(Clone, Debug)]
pub struct Array {
    page_bytes: usize,
    pages_per_block: usize,
    /// Bits of a row that number pages, where they are a power of two.
    page_shift: Option<u8>,
    blocks: Vec<Option<Arc<Block>>>,
    /// Bytes that pages have in common.
    samples: Arc<Samples>,
    stores: bool,
    /// Injected bit errors: page row -> bit offsets, sorted. Empty in the usual case.
    flips: BTreeMap<u32, Vec<u32>>,
    /// Limits on the programs of a page between two erases, on NAND.
    sub_pages: Option<SubPages>,
    /// Programs since the erase in timing-only mode; empty otherwise.
    marks: Vec<Option<Arc<[Mark]>>>,
    /// The steps of an ECC engine in the chip.
    steps: Option<Steps>,
    /// A step was spoiled at some time.
    spoils: bool,
}

/// Rule by which a page of NAND is programmed in parts between two erases: NOP times at most, and each sub-page and each OOB byte
/// once. Bytes FFh clear no bit: a part that is loaded with nothing else is left unprogrammed, although the program counts
/// (drivers fill the rest of a page with FFh).
#[derive(Clone, Copy, Debug)]
pub struct SubPages {
    /// Data bytes of one.
    bytes: usize,
    /// Data bytes of the page; the OOB follows.
    data_bytes: usize,
    /// Programs of a page between two erases.
    nop: u8,
}

/// Most sub-pages of a page: bits of a mask.
const SUB_PAGES_MAX: u32 = 8;

impl SubPages {
    /// The sub-pages of a chip whose pages may be programmed `nop` times: as many as can be programmed one by one, rounded down to
    /// a power of two.
    pub fn new(data_bytes: u32, nop: u8) -> Self {
        let parts = (1 << nop.max(1).ilog2()).min(SUB_PAGES_MAX);
        Self { bytes: (data_bytes / parts).max(1) as usize, data_bytes: data_bytes as usize, nop }
    }

    /// The part of `bytes`, which begin at `column`, that lies in the data; with the sub-page that each piece of it is in.
    fn pieces(self, column: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
        let data = &bytes[..self.data_bytes.saturating_sub(column).min(bytes.len())];
        let first = (self.bytes - column % self.bytes).min(data.len());
        let (head, rest) = data.split_at(first);
        let pieces = std::iter::once(head).chain(rest.chunks(self.bytes));
        (column / self.bytes..).zip(pieces)
    }

    /// Mask of the sub-pages in which `bytes`, from `column` on, have a zero bit.
    pub fn written(self, column: usize, bytes: &[u8]) -> u8 {
        let written = self.pieces(column, bytes).filter(|(_, piece)| is_written(piece));
        written.fold(0, |mask, (index, _)| mask | 1 << index.min(SUB_PAGES_MAX as usize - 1))
    }

    /// True when `new`, from `column` on, programs a sub-page or an OOB byte that `old`, the page, has programmed.
    fn overlap(self, old: &[u8], column: usize, new: &[u8]) -> bool {
        let oob = self.data_bytes.saturating_sub(column).min(new.len());
        let old_oob = &old[(column + oob).min(old.len())..];
        let both = |(old, new): (&u8, &u8)| *old != 0xFF && *new != 0xFF;
        self.written(0, old) & self.written(column, new) != 0 || old_oob.iter().zip(&new[oob..]).any(both)
    }
}

/// Bytes in a page register that are about to be programmed.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<'a> {
    /// First column.
    pub column: usize,
    /// The bytes; none in timing-only mode.
    pub bytes: &'a [u8],
    /// The sub-pages in which they have a zero bit, for timing-only mode ([`SubPages::written`]).
    pub sub_pages: u8,
}

/// State of a page in timing-only mode.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Programs since the last erase.
    programs: u8,
    /// Mask of the sub-pages that were programmed.
    sub_pages: u8,
}

/// Division of a page by an ECC engine in the chip: the data from column 0 on, in steps.
#[derive(Clone, Copy, Debug)]
struct Steps {
    step_bytes: usize,
    data_bytes: usize,
}

impl Steps {
    /// The bit of a step in the mask of a page; no part has as many as would share the last one.
    fn bit(step: usize) -> u64 {
        1 << step.min(63)
    }

    /// The steps whose ECC no longer fits when `new` is programmed over `old` from `column` on. The ECC is programmed like the data: what
    /// the cells hold is the AND of two codewords, which is one only where they are equal, or one of them is erased.
    fn spoiled(self, old: &[u8], column: usize, new: &[u8]) -> u64 {
        let end = column + new.len();
        let spoils = |(_, step): &(u64, Range<usize>)| {
            if step.start >= end || step.end <= column {
                return false;
            }
            let (from, to) = (step.start.max(column) - column, step.end.min(end) - column);
            let (old, new) = (&old[step.clone()], &new[from..to]);
            old != new && is_written(old) && is_written(new)
        };
        self.all().filter(spoils).fold(0, |all, (bit, _)| all | bit)
    }

    /// The steps of a page: their bits in a mask, and their bytes.
    fn all(self) -> impl Iterator<Item = (u64, Range<usize>)> {
        let bytes =
            move |step: usize| step * self.step_bytes..((step + 1) * self.step_bytes).min(self.data_bytes);
        (0..self.data_bytes.div_ceil(self.step_bytes)).map(move |step| (Self::bit(step), bytes(step)))
    }
}

fn is_written(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| *byte != 0xFF)
}

/// Programs bytes over the beginning of others: bits go from 1 to 0 only.
fn clear_bits(old: &mut [u8], new: &[u8]) {
    old.iter_mut().zip(new).for_each(|(old, new)| *old &= new);
}

/// The bits of a page that programming `new` over `old` brings from 1 to 0; both begin at byte `from`.
fn cleared(from: usize, old: &[u8], new: &[u8]) -> Vec<u32> {
    let bytes = (from..).zip(old.iter().zip(new).map(|(old, new)| old & !new));
    let bits = |(at, byte): (usize, u8)| {
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| (at * 8) as u32 + bit)
    };
    bytes.flat_map(bits).collect()
}

/// One eraseblock that is not wholly erased.
#[derive(Clone, Debug)]
struct Block {
    pages: Vec<Page>,
}

/// Content of a block at some time.
#[derive(Clone, Debug)]
pub(crate) struct BlockContent {
    block: Option<Arc<Block>>,
    marks: Option<Arc<[Mark]>>,
}

#[derive(Clone, Debug, Default)]
struct Page {
    /// `None` while erased.
    data: Option<Contents>,
    /// Programs since the last erase.
    programs: u8,
    /// A program found it programmed already.
    mixed: bool,
    /// Steps whose ECC in the chip does not fit their data.
    spoiled: u64,
}

impl Array {
    /// An erased array. `stores` false gives a timing-only array.
    pub fn new(page_bytes: usize, pages_per_block: usize, blocks: usize, stores: bool) -> Self {
        let page_shift = pages_per_block.is_power_of_two().then(|| pages_per_block.trailing_zeros() as u8);
        let blocks = vec![None; blocks];
        Self {
            page_bytes,
            pages_per_block,
            page_shift,
            blocks,
            samples: Arc::new(Samples::new(page_bytes)),
            stores,
            flips: BTreeMap::new(),
            sub_pages: None,
            marks: Vec::new(),
            steps: None,
            spoils: false,
        }
    }

    /// The array of a NAND chip, which limits the programs of a page between two erases.
    #[must_use]
    pub fn with_sub_pages(self, sub_pages: SubPages) -> Self {
        let marks = if self.stores { Vec::new() } else { vec![None; self.blocks.len()] };
        Self { sub_pages: Some(sub_pages), marks, ..self }
    }

    /// The array behind an ECC engine in the chip, which divides `data_bytes` of a page into steps.
    #[must_use]
    pub fn with_steps(self, step_bytes: usize, data_bytes: usize) -> Self {
        let steps =
            Some(Steps { step_bytes: step_bytes.max(1), data_bytes: data_bytes.min(self.page_bytes) });
        Self { steps, ..self }
    }

    /// True when data is kept.
    pub const fn stores(&self) -> bool {
        self.stores
    }

    /// Bytes per page.
    pub const fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Rows (pages) in the array.
    pub fn rows(&self) -> usize {
        self.blocks.len() * self.pages_per_block
    }

    /// Block and page of a row.
    #[inline]
    fn split(&self, row: usize) -> (usize, usize) {
        // Two divisions cost more than all else on the way to a page.
        match self.page_shift {
            Some(shift) => (row >> shift, row & ((1 << shift) - 1)),
            None => (row / self.pages_per_block, row % self.pages_per_block),
        }
    }

    #[inline]
    fn page(&self, row: usize) -> Option<&Page> {
        let (block, page) = self.split(row);
        Some(&self.blocks[block].as_ref()?.pages[page])
    }

    /// Number of times that the page was programmed since its block was erased. In timing-only mode only NAND counts them.
    pub fn programs(&self, row: usize) -> u8 {
        self.page(row).map_or(self.mark(row).programs, |p| p.programs)
    }

    /// State of a page in timing-only mode.
    #[inline]
    fn mark(&self, row: usize) -> Mark {
        let (block, page) = self.split(row);
        self.marks.get(block).and_then(Option::as_ref).map_or(Mark::default(), |marks| marks[page])
    }

    /// Checks the limits on programs of a page between two erases ([`SubPages`]).
    ///
    /// # Errors
    /// [`Violation::TooManyPrograms`] and [`Violation::NotErased`].
    #[inline]
    pub fn check_program(&self, row: usize, loaded: Loaded<'_>) -> Result<(), Violation> {
        let Some(sub_pages) = self.sub_pages else { return Ok(()) };
        match self.programs(row) {
            // After an erase that failed, too, the page may be programmed.
            0 => Ok(()),
            programs if programs >= sub_pages.nop => Err(Violation::TooManyPrograms),
            _ if self.is_programmed_in(row, sub_pages, loaded) => Err(Violation::NotErased),
            _ => Ok(()),
        }
    }

    /// True when a sub-page or an OOB byte that is loaded was programmed already.
    fn is_programmed_in(&self, row: usize, sub_pages: SubPages, loaded: Loaded<'_>) -> bool {
        match self.stored(row) {
            Some(old) => sub_pages.overlap(&old, loaded.column, loaded.bytes),
            None => self.mark(row).sub_pages & loaded.sub_pages != 0,
        }
    }

    /// Notes a program in timing-only mode.
    pub fn mark_programmed(&mut self, row: usize, sub_pages: u8) {
        let (block, page) = self.split(row);
        let per_block = self.pages_per_block;
        let Some(marks) = self.marks.get_mut(block) else { return };
        let marks = marks.get_or_insert_with(|| vec![Mark::default(); per_block].into());
        let mark = &mut Arc::make_mut(marks)[page];
        mark.programs = mark.programs.saturating_add(1);
        mark.sub_pages |= sub_pages;
    }

    /// Forgets the programs of a block in timing-only mode.
    fn unmark(&mut self, block: usize) {
        if let Some(marks) = self.marks.get_mut(block) {
            *marks = None;
        }
    }

    /// True when the page holds the bytes of a single program, unchanged. `false` in timing-only mode.
    pub fn is_as_programmed(&self, row: usize) -> bool {
        self.page(row).is_some_and(|page| page.data.is_some() && !page.mixed)
    }

    /// True when an ECC engine in the chip cannot correct a step: it was programmed twice, with different bytes, or
    /// without the engine.
    #[inline]
    pub fn is_spoiled(&self, row: usize, step: usize) -> bool {
        self.spoils && self.page(row).is_some_and(|page| page.spoiled & Steps::bit(step) != 0)
    }

    /// The same of any step of the page.
    #[inline]
    pub fn has_spoiled(&self, row: usize) -> bool {
        self.spoils && self.page(row).is_some_and(|page| page.spoiled != 0)
    }

    /// True when the page has not been programmed since its block was erased. `false` in timing-only mode.
    pub fn is_erased(&self, row: usize) -> bool {
        self.stores && self.held(row).is_none()
    }

    #[inline]
    fn held(&self, row: usize) -> Option<&Contents> {
        self.page(row)?.data.as_ref()
    }

    /// The stored page, `None` while it is erased (or nothing is stored). Injected errors are not applied.
    pub fn stored(&self, row: usize) -> Option<Cow<'_, [u8]>> {
        self.held(row).map(|held| self.bytes(held))
    }

    /// The bytes of a page.
    fn bytes<'a>(&self, held: &'a Contents) -> Cow<'a, [u8]> {
        match held {
            Contents::Plain(bytes) => Cow::Borrowed(bytes),
            Contents::Packed(packed) => {
                let mut bytes = vec![0xFF; self.page_bytes];
                self.samples.read(packed, 0, &mut bytes);
                Cow::Owned(bytes)
            }
        }
    }

    /// Reads `out.len()` bytes of a page from `column`, injected bit errors included. Columns beyond the page read 0xFF.
    pub fn read(&self, row: usize, column: usize, out: &mut [u8]) {
        self.read_with(row, column, out, self.flips(row));
    }

    /// Reads bytes from a byte address, over as many pages as they take.
    pub(crate) fn read_range(&self, addr: u64, out: &mut [u8]) {
        let page = self.page_bytes;
        let (mut row, mut column) = (addr as usize / page, addr as usize % page);
        let mut rest = out;
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(rest.len().min(page - column));
            self.read(row, column, now);
            (row, column, rest) = (row + 1, 0, later);
        }
    }

    /// As [`Self::read`], with these bits of the page, ascending, inverted instead of the injected ones.
    pub fn read_with(&self, row: usize, column: usize, out: &mut [u8], wrong: &[u32]) {
        if !self.stores {
            return;
        }
        let inside = self.page_bytes.saturating_sub(column).min(out.len());
        let (within, beyond) = out.split_at_mut(inside);
        match self.held(row) {
            Some(Contents::Plain(data)) => within.copy_from_slice(&data[column..column + inside]),
            Some(Contents::Packed(packed)) => self.samples.read(packed, column, within),
            None => within.fill(0xFF),
        }
        beyond.fill(0xFF);
        let before = |byte: usize| move |bit: &u32| (*bit as usize) < byte * 8;
        let (from, to) =
            (wrong.partition_point(before(column)), wrong.partition_point(before(column + inside)));
        for &bit in wrong.get(from..to).unwrap_or(&[]) {
            out[bit as usize / 8 - column] ^= 1 << (bit % 8);
        }
    }

    /// Programs bytes of a page: bits can only go from 1 to 0. Columns beyond the page are ignored.
    pub fn program(&mut self, row: usize, column: usize, bytes: &[u8]) {
        if !self.stores {
            return;
        }
        let bytes = &bytes[..self.page_bytes.saturating_sub(column).min(bytes.len())];
        let spoiled = self
            .steps
            .map_or(0, |steps| self.stored(row).map_or(0, |old| steps.spoiled(&old, column, bytes)));
        self.clear_page_bits(row, column, bytes, spoiled);
    }

    /// Programs a page while an ECC engine in the chip is off, which leaves the ECC bytes as they are. Up to `strength` bits of a step that has
    /// ECC bytes are wrong bits for them; of any more, and of a step that was erased, nothing is known to the engine.
    pub fn program_without_ecc(&mut self, row: usize, bytes: &[u8], strength: usize) {
        let Some(steps) = self.steps.filter(|_| self.stores) else { return self.program(row, 0, bytes) };
        let (mut bytes, mut wrong, mut spoiled) = (bytes.to_vec(), Vec::new(), 0);
        let (before, known) = (self.stored(row), self.page(row).map_or(0, |page| page.spoiled));
        for (bit, step) in steps.all() {
            let (old, new) = (before.as_ref().map(|page| &page[step.clone()]), &mut bytes[step.clone()]);
            let old = old.filter(|old| is_written(old) && known & bit == 0);
            match old.map(|old| cleared(step.start, old, new)) {
                Some(bits) if bits.len() <= strength => {
                    new.fill(0xFF);
                    wrong.extend(bits);
                }
                _ if is_written(new) => spoiled |= bit,
                _ => {}
            }
        }
        self.clear_page_bits(row, 0, &bytes, spoiled);
        wrong.retain(|bit| self.flips(row).binary_search(bit).is_err());
        wrong.into_iter().for_each(|bit| self.inject(row, bit));
    }

    /// Brings bits of a page from 1 to 0, where the ECC of the `spoiled` steps fits no longer.
    fn clear_page_bits(&mut self, row: usize, column: usize, bytes: &[u8], spoiled: u64) {
        let new = match self.held(row) {
            None if bytes.len() == self.page_bytes => Some(self.samples.contents(bytes)),
            Some(Contents::Plain(_)) => None,
            held => {
                let mut page =
                    held.map_or_else(|| vec![0xFF; self.page_bytes], |held| self.bytes(held).into_owned());
                clear_bits(&mut page[column..], bytes);
                Some(self.samples.contents(&page))
            }
        };
        let page = self.page_to_program(row);
        page.spoiled |= spoiled;
        page.mixed |= page.data.is_some();
        match (new, &mut page.data) {
            (Some(new), data) => *data = Some(new),
            (None, Some(Contents::Plain(data))) => clear_bits(&mut Arc::make_mut(data)[column..], bytes),
            (None, _) => {}
        }
        self.spoils |= spoiled != 0;
    }

    /// Programs a page with the content of another; nothing when that is erased. An erased page shares the memory.
    pub fn copy(&mut self, from: usize, to: usize) {
        let Some(data) = self.page(from).and_then(|page| page.data.clone()) else { return };
        if self.held(to).is_some() {
            return self.program(to, 0, &self.bytes(&data));
        }
        self.page_to_program(to).data = Some(data);
    }

    /// A page, with one more program counted.
    fn page_to_program(&mut self, row: usize) -> &mut Page {
        let per_block = self.pages_per_block;
        let (block, page) = self.split(row);
        let block = self.blocks[block]
            .get_or_insert_with(|| Arc::new(Block { pages: vec![Page::default(); per_block] }));
        let page = &mut Arc::make_mut(block).pages[page];
        page.programs = page.programs.saturating_add(1);
        page
    }

    /// Erases a block: its memory is given back, its injected errors are gone.
    pub fn erase(&mut self, block: usize) {
        self.blocks[block] = None;
        self.unmark(block);
        if !self.flips.is_empty() {
            let first = (block * self.pages_per_block) as u32;
            let after = first + self.pages_per_block as u32;
            self.flips.retain(|row, _| !(first..after).contains(row));
        }
    }

    /// The first program of an erased page never took place.
    pub fn undo_program(&mut self, row: usize) {
        let (block, page) = self.split(row);
        if let Some(block) = &mut self.blocks[block] {
            Arc::make_mut(block).pages[page] = Page::default();
        }
        if let Some(Some(marks)) = self.marks.get_mut(block) {
            Arc::make_mut(marks)[page] = Mark::default();
        }
    }

    /// Content of a block without injected errors. Nothing is copied.
    pub(crate) fn content(&self, block: usize) -> BlockContent {
        let marks = self.marks.get(block).cloned().flatten();
        BlockContent { block: self.blocks[block].clone(), marks }
    }

    /// The block holds this again.
    pub(crate) fn restore(&mut self, block: usize, content: BlockContent) {
        self.blocks[block] = content.block;
        if let Some(marks) = self.marks.get_mut(block) {
            *marks = content.marks;
        }
    }

    /// Rows of a block.
    pub(crate) const fn rows_of(&self, block: usize) -> std::ops::Range<usize> {
        block * self.pages_per_block..(block + 1) * self.pages_per_block
    }

    /// The page holds these bytes: what a cut left of it.
    pub(crate) fn put(&mut self, row: usize, bytes: Vec<u8>) {
        let per_block = self.pages_per_block;
        let (block, page) = self.split(row);
        let block = self.blocks[block]
            .get_or_insert_with(|| Arc::new(Block { pages: vec![Page::default(); per_block] }));
        let data = Some(Contents::Plain(Arc::from(bytes)));
        Arc::make_mut(block).pages[page] = Page { data, programs: 1, mixed: true, spoiled: 0 };
    }

    /// An erase of the block failed: its data is still there, and its pages may be programmed again.
    pub fn fail_erase(&mut self, block: usize) {
        if let Some(block) = &mut self.blocks[block] {
            Arc::make_mut(block).pages.iter_mut().for_each(|page| page.programs = 0);
        }
        self.unmark(block);
    }

    /// Injects a bit error: bit `bit` (byte * 8 + bit number) of the page reads inverted until the block is erased.
    /// Injecting it twice takes it back.
    pub fn inject(&mut self, row: usize, bit: u32) {
        let flips = self.flips.entry(row as u32).or_default();
        match flips.binary_search(&bit) {
            Ok(at) => drop(flips.remove(at)),
            Err(at) => flips.insert(at, bit),
        }
    }

    /// True when any bit errors are injected.
    #[inline]
    pub fn has_flips(&self) -> bool {
        !self.flips.is_empty()
    }

    /// The injected bit errors of a page, sorted.
    #[inline]
    pub fn flips(&self, row: usize) -> &[u32] {
        if self.flips.is_empty() {
            return &[];
        }
        self.flips.get(&(row as u32)).map_or(&[], Vec::as_slice)
    }

    /// Bytes of page data held, for tests of memory use.
    pub fn held_bytes(&self) -> usize {
        let pages = self.blocks.iter().flatten().flat_map(|b| &b.pages);
        pages.filter_map(|p| p.data.as_ref()).map(Contents::held_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_follows_what_is_written_and_clones_share_it() {
        let mut a = Array::new(2112, 64, 1024, true);
        assert_eq!(a.held_bytes(), 0);
        a.program(5, 0, &[0x55; 2112]);
        a.program(5, 2048, &[0x00]);
        assert_eq!((a.held_bytes(), a.programs(5)), (2112, 2));
        let b = a.clone();
        a.erase(0);
        let mut out = [0; 3];
        b.read(5, 2047, &mut out);
        assert_eq!(out, [0x55, 0x00, 0x55]);
        a.read(5, 2047, &mut out);
        assert_eq!(out, [0xFF; 3]);
        assert_eq!(a.held_bytes(), 0);
    }

    #[test]
    fn a_copy_is_as_good_as_a_program() {
        let mut a = Array::new(4, 2, 2, true);
        a.program(0, 0, &[1, 2, 3, 4]);
        a.copy(0, 2);
        a.copy(1, 3);
        a.program(0, 0, &[0; 4]);
        assert_eq!((a.stored(2).as_deref(), a.programs(2)), (Some(&[1, 2, 3, 4][..]), 1));
        assert!(a.is_erased(3), "the source is erased");
        a.program(1, 0, &[6; 4]);
        a.copy(1, 2);
        assert_eq!(a.stored(2).as_deref(), Some(&[0, 2, 2, 4][..]), "bits go to 0 only");
        assert!(!a.is_as_programmed(2));
    }

    #[test]
    fn steps_that_were_programmed_twice_are_spoiled_unless_one_codeword_is_left() {
        let mut a = Array::new(20, 2, 2, true).with_steps(4, 16);
        a.program(0, 0, &[1, 2, 3, 4, 0xFF, 0xFF, 0xFF, 0xFF, 9, 9, 9, 9]);
        a.program(0, 0, &[1, 2, 3, 4, 5, 6, 7, 8, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert!(!a.has_spoiled(0), "equal, erased before, left alone");
        a.program(0, 6, &[0xFF, 0xFF, 9, 8]);
        let spoiled: Vec<usize> = (0..4).filter(|step| a.is_spoiled(0, *step)).collect();
        assert_eq!(spoiled, [2]);
        a.program(0, 16, &[1; 4]);
        a.program(0, 16, &[2; 4]);
        assert!(!a.is_spoiled(0, 4), "OOB");
        let held = a.content(0);
        a.erase(0);
        assert!(!a.has_spoiled(0));
        a.restore(0, held);
        assert!(a.is_spoiled(0, 2), "an erase that power interrupted");
    }

    #[test]
    fn injected_errors_show_and_go_with_the_block() {
        let mut a = Array::new(16, 4, 2, true);
        a.inject(1, 9);
        let mut out = [0; 16];
        a.read(1, 0, &mut out);
        assert_eq!(out[1], 0xFD);
        a.erase(0);
        assert!(a.flips(1).is_empty());
    }

    /// Loads `value` into `len` bytes from a column on.
    fn try_program(a: &mut Array, column: usize, len: usize, value: u8) -> Result<(), Violation> {
        let bytes = vec![value; len];
        let sub_pages = a.sub_pages.unwrap().written(column, &bytes);
        a.check_program(0, Loaded { column, bytes: &bytes, sub_pages })?;
        a.program(0, column, &bytes);
        a.mark_programmed(0, sub_pages);
        Ok(())
    }

    #[test]
    fn sub_pages_are_programmed_once_and_pages_nop_times() {
        for stores in [true, false] {
            let mut a = Array::new(20, 2, 2, stores).with_sub_pages(SubPages::new(16, 5));
            assert_eq!(try_program(&mut a, 0, 4, 0), Ok(()), "4 sub-pages");
            assert_eq!(try_program(&mut a, 3, 2, 0), Err(Violation::NotErased), "a byte of the first one");
            assert_eq!(try_program(&mut a, 0, 20, 0xFF), Ok(()), "it changes nothing");
            assert_eq!(try_program(&mut a, 7, 2, 0), Ok(()), "parts of two");
            assert_eq!(try_program(&mut a, 4, 1, 0), Err(Violation::NotErased), "a part that was left");
            assert_eq!(try_program(&mut a, 12, 4, 0), Ok(()));
            assert_eq!(try_program(&mut a, 16, 1, 0), Ok(()), "OOB");
            assert_eq!(a.programs(0), 5);
            assert_eq!(try_program(&mut a, 17, 1, 0), Err(Violation::TooManyPrograms));
            let held = a.content(0);
            a.erase(0);
            assert_eq!(try_program(&mut a, 0, 20, 0), Ok(()));
            assert_eq!(try_program(&mut a, 0, 1, 0), Err(Violation::NotErased));
            a.fail_erase(0);
            assert_eq!(try_program(&mut a, 0, 1, 0), Ok(()), "of an erase that failed nothing is known");
            a.restore(0, held);
            assert_eq!(try_program(&mut a, 0, 1, 0), Err(Violation::TooManyPrograms));
        }
    }

    /// Clean markers, bad block markers and ECC bytes of later sub-pages go to OOB bytes of their own.
    #[test]
    fn each_oob_byte_is_programmed_once() {
        let mut a = Array::new(20, 2, 2, true).with_sub_pages(SubPages::new(16, 4));
        assert_eq!(try_program(&mut a, 18, 1, 0x19), Ok(()));
        assert_eq!(try_program(&mut a, 18, 1, 0), Err(Violation::NotErased));
        assert_eq!(try_program(&mut a, 12, 6, 0), Ok(()), "data, and OOB bytes before it");
        assert_eq!(try_program(&mut a, 8, 9, 0), Err(Violation::NotErased), "both");
    }

    #[test]
    fn timing_only_stores_nothing() {
        let mut a = Array::new(16, 4, 2, false);
        a.program(0, 0, &[0; 16]);
        let mut out = [7; 2];
        a.read(0, 0, &mut out);
        assert_eq!((out, a.held_bytes()), ([7, 7], 0));
    }
}
