//! SPIFFS: each block ends its lookup table with a magic number, which usually contains the number of the following
//! blocks.

use std::cmp::Reverse;

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};

pub(super) const PROBE: Probe = Probe { begins: Begins::Head { step: 4096, front: 0, test: begins }, probe };

/// Lower 16 bits of the magic number, which is combined with the page size and, as an option, with the number of
/// following blocks.
const MAGIC: u16 = 0x0529;

/// Smallest number of blocks whose numbers are accepted, and smallest number of blocks in a filesystem without its
/// end.
const MIN_BLOCKS: u16 = 4;

/// Block numbers are below this limit.
const MAX_BLOCKS: u16 = 0x4000;

/// Largest number of blocks without a number.
const MAX_ERASED: usize = 2;

/// Size of the range in which the lookup table of the first block ends, bytes.
const HEAD: u64 = 4096;

/// Sizes of a page and of a block, bytes.
#[derive(Clone, Copy)]
struct Shape {
    page: u64,
    block: u64,
}

impl Shape {
    /// All shapes: pages of 128 to 4096 bytes, and blocks of 4 to 256 KiB.
    fn all() -> impl Iterator<Item = Self> {
        let of_block =
            |block: u32| (7..=12_u32).map(move |page| Self { page: 1_u64 << page, block: 1_u64 << block });
        (12..=18_u32).flat_map(of_block).filter(|shape| shape.has_magic())
    }

    /// Size of the pages with the lookup table, bytes.
    const fn table_bytes(self) -> u64 {
        (self.block / self.page * 2).next_multiple_of(self.page)
    }

    /// Size of the entries in the lookup table, bytes: two for each page outside the table.
    const fn entry_bytes(self) -> u64 {
        (self.block - self.table_bytes()) / self.page * 2
    }

    /// Offset of the magic number in a block. The erase counter follows it at the end of the table's pages.
    const fn magic_at(self) -> u64 {
        self.table_bytes() - 4
    }

    /// True if the entries leave space for the magic number.
    const fn has_magic(self) -> bool {
        self.table_bytes() < self.block && self.table_bytes() <= HEAD && self.entry_bytes() <= self.magic_at()
    }

    /// Number of a block in its magic number.
    const fn number(self, magic: u16) -> u16 {
        magic ^ MAGIC ^ self.page as u16
    }

    /// Number of the first block, if the bytes can be its lookup table; 0 without numbers.
    fn first(self, head: &[u8]) -> Option<u16> {
        let at = self.magic_at() as usize;
        let gap = head.get(self.entry_bytes() as usize..at)?;
        let number = self.number(head.get(at..at + 2)?.le16(0));
        let is_number = number == 0 || (MIN_BLOCKS..MAX_BLOCKS).contains(&number);
        (is_number && gap.iter().all(|byte| *byte == 0xFF)).then_some(number)
    }

    /// Number of blocks, and number of blocks with a block number, if all existing numbers fit this shape.
    fn count(self, head: &[u8], len: u64, magic: &impl Fn(u64) -> Option<u16>) -> Option<(u64, u64)> {
        let first = self.first(head)?;
        let number = |index: u64| magic(index * self.block + self.magic_at()).map(|magic| self.number(magic));
        if first == 0 {
            // Without numbers, the last block is the block before the first one without a magic number.
            let most = (len / self.block).min(MAX_BLOCKS.into());
            let count = (0..most).take_while(|&index| number(index) == Some(0)).count() as u64;
            return (count >= u64::from(MIN_BLOCKS)).then_some((count, count));
        }
        let there = u16::try_from(len / self.block).unwrap_or(u16::MAX).min(first);
        // A block that was just erased has no number. The search stops at the first block too many without a number,
        // because many kinds of data start like a SPIFFS.
        let allowed = usize::from(there.checked_sub(MIN_BLOCKS)?).min(MAX_ERASED);
        let mut others = (0..there).filter(|&index| number(index.into()) != Some(first - index));
        let erased = others.by_ref().take(allowed).count() as u64;
        others.next().is_none().then(|| (first.into(), u64::from(there) - erased))
    }
}

/// Page size, block size and number of blocks of the SPIFFS that begins with these bytes; the dump has `len` bytes of
/// it. `magic` reads two bytes.
///
/// The numbers of some shapes are at the same positions. All these shapes except one fit only a part of the blocks,
/// so the shape with most bytes is the right one.
pub(crate) fn shape(head: &[u8], len: u64, magic: impl Fn(u64) -> Option<u16>) -> Option<(u64, u64, u64)> {
    let fitting = Shape::all().filter_map(|shape| Some((shape, shape.count(head, len, &magic)?)));
    let best = fitting.max_by_key(|(shape, (_, fit))| (fit * shape.block, Reverse(shape.block)));
    best.map(|(shape, (count, _))| (shape.page, shape.block, count))
}

/// True if these bytes can be the lookup table of a block: nearly all of its IDs are free, deleted or small.
fn has_ids(table: &[u8]) -> bool {
    let is_id = |id: &&[u8]| id.le16(0) == 0xFFFF || id.le16(0) & 0x7FFF < 0x2000;
    let all = table.chunks_exact(2).len();
    all > 0 && table.chunks_exact(2).filter(is_id).count() * 10 >= all * 9
}

fn begins(head: &[u8]) -> bool {
    // IDs of objects: free, or small numbers with a flag.
    let first = head.le16(0);
    (first == 0xFFFF || first & 0x7FFF < 0x2000) && Shape::all().any(|shape| shape.first(head).is_some())
}

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let head = view.bytes(0, view.len().min(HEAD) as usize)?;
    let (page, block, blocks) = shape(&head, view.len(), |at| view.array(at).map(u16::from_le_bytes))?;
    let before = if is_behind_first(view, page, block) { block } else { 0 };
    Some(
        ProbeMatch { before, ..ProbeMatch::new(Kind::Spiffs, blocks * block) }
            .number("page_bytes", page)
            .number("block_bytes", block)
            .number("blocks", blocks + before / block),
    )
}

/// True if the part starts after the first block of a dump, and this block can be the first block of the filesystem:
/// its magic number is damaged, or it was just erased.
fn is_behind_first(view: &View<'_>, page: u64, block: u64) -> bool {
    let entries = Shape { page, block }.entry_bytes();
    view.start() == block
        && view
            .widened(block)
            .and_then(|whole| whole.bytes(0, usize::try_from(entries).ok()?))
            .is_some_and(|table| has_ids(&table))
}
