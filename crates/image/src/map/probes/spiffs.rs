//! SPIFFS: each block ends its lookup table with a magic number that counts the blocks that follow.

use super::{Begins, Probe};
use crate::map::found::{Found, Kind};
use crate::map::view::{Numbers, View};

pub(super) const PROBE: Probe = Probe { begins: Begins::Head { step: 4096, test: begins }, probe };

/// Lower half of the magic number, which is combined with the bytes of a page and the number of blocks that follow.
const MAGIC: u16 = 0x0529;

/// Sizes of a page and a block: those of ESP-IDF and Arduino first.
const SHAPES: [(u64, u64); 5] = [(256, 4096), (256, 8192), (256, 65536), (512, 8192), (512, 65536)];

/// Fewest blocks whose numbers are believed.
const MIN_BLOCKS: u16 = 4;

/// Most blocks without a number.
const MAX_ERASED: usize = 2;

/// Place of the magic number in a block: before the erase counter, which ends the pages of the lookup table.
const fn magic_at(page: u64, block: u64) -> u64 {
    let entries = block / page * 2;
    entries.next_multiple_of(page) - 4
}

fn blocks(bytes: &[u8], page: u64, block: u64) -> u16 {
    let at = magic_at(page, block) as usize;
    match bytes.get(at..at + 2) {
        Some(magic) => magic.le16(0) ^ MAGIC ^ page as u16,
        None => 0,
    }
}

/// Bytes of a page and of a block of the SPIFFS of `len` bytes that begins with these bytes. Two shapes can have their numbers at one place: that of the second block
/// decides.
pub(crate) fn shape(head: &[u8], len: u64) -> Option<(u64, u64)> {
    let is_shape = |&(page, block): &(u64, u64)| {
        let count = blocks(head, page, block);
        let second = usize::try_from(block).ok().and_then(|block| head.get(block..));
        let second = second.map_or(0, |second| blocks(second, page, block));
        let is_next = second == 0 || second >= 0x4000 || second + 1 == count;
        (MIN_BLOCKS..0x4000).contains(&count) && u64::from(count) * block <= len && is_next
    };
    SHAPES.into_iter().find(is_shape)
}

fn begins(head: &[u8]) -> bool {
    // Ids of objects: free, or small numbers with a flag.
    let first = head.le16(0);
    (first == 0xFFFF || first & 0x7FFF < 0x2000)
        && SHAPES.iter().any(|&(page, block)| (MIN_BLOCKS..0x4000).contains(&blocks(head, page, block)))
}

fn probe(view: &View<'_>) -> Option<Found> {
    SHAPES.iter().find_map(|&(page, block)| {
        let number = |index: u64| {
            let magic = view.array(index * block + magic_at(page, block))?;
            Some(u16::from_le_bytes(magic) ^ MAGIC ^ page as u16)
        };
        let count = number(0)?;
        if !(MIN_BLOCKS..0x4000).contains(&count) || u64::from(count) * block > view.len() {
            return None;
        }
        // A block that was just erased has no number. The search ends with the first one too many: bytes of any kind begin what may be a SPIFFS.
        let allowed = usize::from(count - MIN_BLOCKS).min(MAX_ERASED);
        let mut others = (0..count).filter(|&index| number(index.into()) != Some(count - index));
        others.nth(allowed).is_none().then(|| {
            Found::new(Kind::Spiffs, u64::from(count) * block)
                .number("page_bytes", page)
                .number("block_bytes", block)
                .number("blocks", count)
        })
    })
}
