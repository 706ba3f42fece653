//! The memory array of a chip: pages in eraseblocks, copy-on-write, allocated only when written.
//!
//! A clone of an array costs one pointer per block. Erased pages take no memory, and pages that repeat the bytes of others take little. In
//! timing-only mode no data is stored, and reads leave the buffer unchanged. For NAND in this mode, two bytes per page record the programs
//! since the last erase.

mod samples;

use crate::violation::Violation;
use samples::{Contents, Samples};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Pages in eraseblocks. A page is the unit that is programmed at once, including its OOB bytes.
#[derive(Clone, Debug)]
pub struct Array {
    page_bytes: usize,
    pages_per_block: usize,
    /// Number of bits of a row that are the page number; `None` if the number of pages per block is not a power of two.
    page_shift: Option<u8>,
    blocks: Vec<Option<Arc<Block>>>,
    /// Byte sequences that several pages have in common.
    samples: Arc<Samples>,
    stores: bool,
    /// Injected bit errors: sorted bit offsets by page row. The map is usually empty.
    flips: BTreeMap<u32, Vec<u32>>,
    /// Limits for the programs of a page between two erases; NAND only.
    sub_pages: Option<SubPages>,
    /// Programs of each block since its last erase in timing-only mode; empty otherwise.
    marks: Vec<Option<Arc<[Mark]>>>,
    /// Division of a page into the steps of an on-die ECC engine.
    steps: Option<Steps>,
    /// True if the ECC of any step was ever spoiled.
    spoils: bool,
}

/// Rule for partial programs of a NAND page between two erases: at most NOP programs, and each sub-page and each OOB byte only once. Bytes
/// FFh clear no bit: a part that is loaded only with FFh stays unprogrammed, although the program is counted (drivers fill the unused part
/// of a page with FFh).
#[derive(Clone, Copy, Debug)]
pub struct SubPages {
    /// Size of a sub-page without OOB, bytes.
    bytes: usize,
    /// Size of a page without the OOB bytes that follow it, bytes.
    data_bytes: usize,
    /// Number of partial programs (NOP): maximum number of programs of a page between two erases.
    nop: u8,
}

/// Maximum number of sub-pages in a page, limited by the width of a mask.
const SUB_PAGES_MAX: u32 = 8;

impl SubPages {
    /// Sub-pages of a chip whose pages may be programmed `nop` times. Their number is `nop`, rounded down to a power of two, so that each
    /// can be programmed separately.
    pub fn new(data_bytes: u32, nop: u8) -> Self {
        let parts = (1 << nop.max(1).ilog2()).min(SUB_PAGES_MAX);
        Self { bytes: (data_bytes / parts).max(1) as usize, data_bytes: data_bytes as usize, nop }
    }

    /// Splits the data part of `bytes`, which begin at `column`, into pieces, each with the number of its sub-page.
    fn pieces(self, column: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
        let data = &bytes[..self.data_bytes.saturating_sub(column).min(bytes.len())];
        let first = (self.bytes - column % self.bytes).min(data.len());
        let (head, rest) = data.split_at(first);
        let pieces = std::iter::once(head).chain(rest.chunks(self.bytes));
        (column / self.bytes..).zip(pieces)
    }

    /// Mask of the sub-pages in which `bytes`, from `column` on, contain a zero bit.
    pub fn written(self, column: usize, bytes: &[u8]) -> u8 {
        let written = self.pieces(column, bytes).filter(|(_, piece)| is_written(piece));
        written.fold(0, |mask, (index, _)| mask | 1 << index.min(SUB_PAGES_MAX as usize - 1))
    }

    /// True if `new`, from `column` on, would program a sub-page or an OOB byte that is already programmed in the page `old`.
    fn overlap(self, old: &[u8], column: usize, new: &[u8]) -> bool {
        let oob = self.data_bytes.saturating_sub(column).min(new.len());
        let old_oob = &old[(column + oob).min(old.len())..];
        let both = |(old, new): (&u8, &u8)| *old != 0xFF && *new != 0xFF;
        self.written(0, old) & self.written(column, new) != 0 || old_oob.iter().zip(&new[oob..]).any(both)
    }
}

/// Bytes in a page register that are to be programmed.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<'a> {
    /// Column of the first byte.
    pub column: usize,
    /// Bytes to program; empty in timing-only mode.
    pub bytes: &'a [u8],
    /// Mask of the sub-pages in which the bytes contain a zero bit, for timing-only mode ([`SubPages::written`]).
    pub sub_pages: u8,
}

/// Programs of a page in timing-only mode.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Number of programs since the last erase.
    programs: u8,
    /// Mask of the programmed sub-pages.
    sub_pages: u8,
}

/// Division of a page by an on-die ECC engine: the data from column 0 on, in steps.
#[derive(Clone, Copy, Debug)]
struct Steps {
    step_bytes: usize,
    data_bytes: usize,
}

impl Steps {
    /// Bit of a step in the mask of a page. No chip has more steps than the mask has bits.
    fn bit(step: usize) -> u64 {
        1 << step.min(63)
    }

    /// Mask of the steps whose ECC becomes invalid when `new` is programmed over `old` from `column` on. The ECC is programmed like the
    /// data, so the cells contain the AND of two codewords. This is a codeword only if both are equal or one of them is erased.
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

    /// Steps of a page: the mask bit and the byte range of each.
    fn all(self) -> impl Iterator<Item = (u64, Range<usize>)> {
        let bytes =
            move |step: usize| step * self.step_bytes..((step + 1) * self.step_bytes).min(self.data_bytes);
        (0..self.data_bytes.div_ceil(self.step_bytes)).map(move |step| (Self::bit(step), bytes(step)))
    }
}

fn is_written(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| *byte != 0xFF)
}

/// Programs bytes over the beginning of other bytes; bits only change from 1 to 0.
fn clear_bits(old: &mut [u8], new: &[u8]) {
    old.iter_mut().zip(new).for_each(|(old, new)| *old &= new);
}

/// Offsets of the bits of a page that change from 1 to 0 when `new` is programmed over `old`. Both begin at byte `from`.
fn cleared(from: usize, old: &[u8], new: &[u8]) -> Vec<u32> {
    let bytes = (from..).zip(old.iter().zip(new).map(|(old, new)| old & !new));
    let bits = |(at, byte): (usize, u8)| {
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| (at * 8) as u32 + bit)
    };
    bytes.flat_map(bits).collect()
}

/// An eraseblock that is not completely erased.
#[derive(Clone, Debug)]
struct Block {
    pages: Vec<Page>,
}

/// Content of a block at one moment, to be restored later.
#[derive(Clone, Debug)]
pub(crate) struct BlockContent {
    block: Option<Arc<Block>>,
    marks: Option<Arc<[Mark]>>,
}

#[derive(Clone, Debug, Default)]
struct Page {
    /// Bytes of the page; `None` if it is erased.
    data: Option<Contents>,
    /// Number of programs since the last erase.
    programs: u8,
    /// True if a program changed a page that was already programmed.
    mixed: bool,
    /// Mask of the steps whose on-die ECC does not match their data.
    spoiled: u64,
}

impl Array {
    /// Creates an erased array. With `stores` false the array is in timing-only mode.
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

    /// Sets the limits of a NAND chip for programs of a page between two erases.
    #[must_use]
    pub fn with_sub_pages(self, sub_pages: SubPages) -> Self {
        let marks = if self.stores { Vec::new() } else { vec![None; self.blocks.len()] };
        Self { sub_pages: Some(sub_pages), marks, ..self }
    }

    /// Sets the steps of an on-die ECC engine, which divides `data_bytes` of a page.
    #[must_use]
    pub fn with_steps(self, step_bytes: usize, data_bytes: usize) -> Self {
        let steps =
            Some(Steps { step_bytes: step_bytes.max(1), data_bytes: data_bytes.min(self.page_bytes) });
        Self { steps, ..self }
    }

    /// True if data is stored.
    pub const fn stores(&self) -> bool {
        self.stores
    }

    /// Size of a page, bytes.
    pub const fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Number of rows (pages) in the array.
    pub fn rows(&self) -> usize {
        self.blocks.len() * self.pages_per_block
    }

    /// Block and page of a row.
    #[inline]
    fn split(&self, row: usize) -> (usize, usize) {
        // The two divisions would cost more than all other work of a page access.
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

    /// Number of programs of the page since the last erase of its block. In timing-only mode only NAND has this number.
    pub fn programs(&self, row: usize) -> u8 {
        self.page(row).map_or(self.mark(row).programs, |p| p.programs)
    }

    /// Programs of a page in timing-only mode.
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
            // After an erase, even a failed one, the page may be programmed.
            0 => Ok(()),
            programs if programs >= sub_pages.nop => Err(Violation::TooManyPrograms),
            _ if self.is_programmed_in(row, sub_pages, loaded) => Err(Violation::NotErased),
            _ => Ok(()),
        }
    }

    /// True if a loaded sub-page or OOB byte was already programmed.
    fn is_programmed_in(&self, row: usize, sub_pages: SubPages, loaded: Loaded<'_>) -> bool {
        match self.stored(row) {
            Some(old) => sub_pages.overlap(&old, loaded.column, loaded.bytes),
            None => self.mark(row).sub_pages & loaded.sub_pages != 0,
        }
    }

    /// Records a program in timing-only mode.
    pub fn mark_programmed(&mut self, row: usize, sub_pages: u8) {
        let (block, page) = self.split(row);
        let per_block = self.pages_per_block;
        let Some(marks) = self.marks.get_mut(block) else { return };
        let marks = marks.get_or_insert_with(|| vec![Mark::default(); per_block].into());
        let mark = &mut Arc::make_mut(marks)[page];
        mark.programs = mark.programs.saturating_add(1);
        mark.sub_pages |= sub_pages;
    }

    /// Resets the records of a block in timing-only mode.
    fn unmark(&mut self, block: usize) {
        if let Some(marks) = self.marks.get_mut(block) {
            *marks = None;
        }
    }

    /// True if the page contains the unchanged bytes of a single program. Always false in timing-only mode.
    pub fn is_as_programmed(&self, row: usize) -> bool {
        self.page(row).is_some_and(|page| page.data.is_some() && !page.mixed)
    }

    /// True if an on-die ECC engine cannot correct a step because the step was programmed twice with different bytes, or without the
    /// engine.
    #[inline]
    pub fn is_spoiled(&self, row: usize, step: usize) -> bool {
        self.spoils && self.page(row).is_some_and(|page| page.spoiled & Steps::bit(step) != 0)
    }

    /// True if the on-die ECC engine cannot correct at least one step of the page, see [`Self::is_spoiled`].
    #[inline]
    pub fn has_spoiled(&self, row: usize) -> bool {
        self.spoils && self.page(row).is_some_and(|page| page.spoiled != 0)
    }

    /// True if the page was not programmed since the last erase of its block. Always false in timing-only mode.
    pub fn is_erased(&self, row: usize) -> bool {
        self.stores && self.held(row).is_none()
    }

    #[inline]
    fn held(&self, row: usize) -> Option<&Contents> {
        self.page(row)?.data.as_ref()
    }

    /// The stored page without injected errors; `None` if it is erased or data is not stored.
    pub fn stored(&self, row: usize) -> Option<Cow<'_, [u8]>> {
        self.held(row).map(|held| self.bytes(held))
    }

    /// The unpacked bytes of a page.
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

    /// Reads `out.len()` bytes of a page from `column` on, with injected bit errors. Columns beyond the page read as 0xFF.
    pub fn read(&self, row: usize, column: usize, out: &mut [u8]) {
        self.read_with(row, column, out, self.flips(row));
    }

    /// Reads bytes from a byte address on, across page boundaries.
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

    /// Reads a page as [`Self::read`], but inverts the bits in `wrong` (ascending offsets) instead of the injected ones.
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

    /// Programs bytes of a page; bits only change from 1 to 0. Columns beyond the page are ignored.
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

    /// Programs a page while the on-die ECC engine is off, so that the ECC bytes do not change. In a step that has ECC bytes, up to
    /// `strength` changed bits count as bit errors. With more changed bits, or in an erased step, the engine cannot correct the data.
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

    /// Changes bits of a page from 1 to 0. The ECC of the `spoiled` steps becomes invalid.
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

    /// Programs a page with the content of another page; an erased source has no effect. If the target is erased, both share the memory.
    pub fn copy(&mut self, from: usize, to: usize) {
        let Some(data) = self.page(from).and_then(|page| page.data.clone()) else { return };
        if self.held(to).is_some() {
            return self.program(to, 0, &self.bytes(&data));
        }
        self.page_to_program(to).data = Some(data);
    }

    /// The page to program; its number of programs is incremented.
    fn page_to_program(&mut self, row: usize) -> &mut Page {
        let per_block = self.pages_per_block;
        let (block, page) = self.split(row);
        let block = self.blocks[block]
            .get_or_insert_with(|| Arc::new(Block { pages: vec![Page::default(); per_block] }));
        let page = &mut Arc::make_mut(block).pages[page];
        page.programs = page.programs.saturating_add(1);
        page
    }

    /// Erases a block: releases its memory and removes its injected errors.
    pub fn erase(&mut self, block: usize) {
        self.blocks[block] = None;
        self.unmark(block);
        if !self.flips.is_empty() {
            let first = (block * self.pages_per_block) as u32;
            let after = first + self.pages_per_block as u32;
            self.flips.retain(|row, _| !(first..after).contains(row));
        }
    }

    /// Reverts the first program of an erased page.
    pub fn undo_program(&mut self, row: usize) {
        let (block, page) = self.split(row);
        if let Some(block) = &mut self.blocks[block] {
            Arc::make_mut(block).pages[page] = Page::default();
        }
        if let Some(Some(marks)) = self.marks.get_mut(block) {
            Arc::make_mut(marks)[page] = Mark::default();
        }
    }

    /// Content of a block without injected errors, without a copy of the data.
    pub(crate) fn content(&self, block: usize) -> BlockContent {
        let marks = self.marks.get(block).cloned().flatten();
        BlockContent { block: self.blocks[block].clone(), marks }
    }

    /// Restores the content of a block.
    pub(crate) fn restore(&mut self, block: usize, content: BlockContent) {
        self.blocks[block] = content.block;
        if let Some(marks) = self.marks.get_mut(block) {
            *marks = content.marks;
        }
    }

    /// Range of the rows of a block.
    pub(crate) const fn rows_of(&self, block: usize) -> std::ops::Range<usize> {
        block * self.pages_per_block..(block + 1) * self.pages_per_block
    }

    /// Sets the bytes of a page to the state after a power cut.
    pub(crate) fn put(&mut self, row: usize, bytes: Vec<u8>) {
        let per_block = self.pages_per_block;
        let (block, page) = self.split(row);
        let block = self.blocks[block]
            .get_or_insert_with(|| Arc::new(Block { pages: vec![Page::default(); per_block] }));
        let data = Some(Contents::Plain(Arc::from(bytes)));
        Arc::make_mut(block).pages[page] = Page { data, programs: 1, mixed: true, spoiled: 0 };
    }

    /// Records a failed erase of the block: the data is unchanged, and the pages may be programmed again.
    pub fn fail_erase(&mut self, block: usize) {
        if let Some(block) = &mut self.blocks[block] {
            Arc::make_mut(block).pages.iter_mut().for_each(|page| page.programs = 0);
        }
        self.unmark(block);
    }

    /// Injects a bit error: bit `bit` (byte * 8 + bit number) of the page reads inverted until the block is erased. A second injection of
    /// the same bit cancels the first.
    pub fn inject(&mut self, row: usize, bit: u32) {
        let flips = self.flips.entry(row as u32).or_default();
        match flips.binary_search(&bit) {
            Ok(at) => drop(flips.remove(at)),
            Err(at) => flips.insert(at, bit),
        }
    }

    /// True if the array has injected bit errors.
    #[inline]
    pub fn has_flips(&self) -> bool {
        !self.flips.is_empty()
    }

    /// Sorted offsets of the injected bit errors of a page.
    #[inline]
    pub fn flips(&self, row: usize) -> &[u32] {
        if self.flips.is_empty() {
            return &[];
        }
        self.flips.get(&(row as u32)).map_or(&[], Vec::as_slice)
    }

    /// Memory used by page data, bytes, for tests.
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

    /// Loads `len` bytes of `value` from a column on, and programs them.
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

    /// Clean markers, bad block markers and ECC bytes of later sub-pages use different OOB bytes.
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
