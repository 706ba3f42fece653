//! Sizes of pages, from what headers tell.

use std::collections::BTreeSet;

use floatgate_media::ubi::{EcHeader, VidHeader};
use floatgate_stack::store::Store;

use crate::ImageError;
use crate::pages::{FlashSizes, PageShape, usual_block};

/// Pages that blocks of chips have.
const PAGES_PER_BLOCK: [u32; 6] = [16, 32, 64, 128, 256, 512];

/// Page sizes that chips have.
const PAGE_BYTES: [u32; 6] = [512, 1024, 2048, 4096, 8192, 16384];

/// Pages and OOB that make up a block of `stride` bytes, where data begin at the end of a page; those that
/// most chips have first. A page of half the size with half the OOB always does as well: what is in the pages
/// has to tell which it is.
pub(crate) fn page_shapes(stride: u64, data_offset: u32, sizes: &FlashSizes) -> Vec<PageShape> {
    let pages_per_block = PAGES_PER_BLOCK.into_iter().chain(sizes.pages.pages_per_block);
    let blocks: BTreeSet<u32> = pages_per_block.filter(|&pages| pages > 0).collect();
    let pages = PAGE_BYTES.into_iter().chain(sizes.pages.page_bytes).filter(|&bytes| bytes > 0);
    let pages: BTreeSet<u32> = pages.collect();
    let shape = |(page_bytes, pages_per_block): (u32, u32)| {
        let full =
            stride.is_multiple_of(u64::from(pages_per_block)).then(|| stride / u64::from(pages_per_block))?;
        let oob_bytes = u32::try_from(full).ok()?.checked_sub(page_bytes)?;
        let is_usual = (page_bytes / 64..=page_bytes / 8).contains(&oob_bytes);
        let is_possible = oob_bytes > 0 && (is_usual || sizes.pages.oob_bytes == Some(oob_bytes));
        let shape = PageShape { page_bytes, oob_bytes, pages_per_block };
        (is_possible && data_offset.is_multiple_of(page_bytes) && sizes.allows(&shape)).then_some(shape)
    };
    let all = pages.into_iter().flat_map(|page| blocks.iter().map(move |&block| (page, block)));
    let mut shapes: Vec<PageShape> = all.filter_map(shape).collect();
    // Larger pages first among the usual ones: 512-byte pages divide every block.
    shapes.sort_by_key(|shape| {
        (shape.pages_per_block != usual_block(shape.page_bytes), std::cmp::Reverse(shape.page_bytes))
    });
    shapes
}

/// Reads data in pages with OOB that begin at a byte of a file.
pub(super) fn read_in_pages(
    store: &dyn Store,
    start: u64,
    pages: &PageShape,
    at: u64,
    buf: &mut [u8],
) -> Result<(), ImageError> {
    let page = u64::from(pages.page_bytes);
    let mut at = at;
    let mut rest = buf;
    while !rest.is_empty() {
        let room = usize::try_from(page - at % page).unwrap_or(usize::MAX).min(rest.len());
        let (piece, behind) = rest.split_at_mut(room);
        let place = start + at / page * u64::from(pages.stride()) + at % page;
        store.read_at(place, piece).map_err(ImageError::Store)?;
        at += room as u64;
        rest = behind;
    }
    Ok(())
}

/// True when data begin with the first page of this size behind the VID header, as Linux has it. A controller that puts OOB between the
/// parts of a page makes pages seem smaller than they are.
pub(super) fn is_page(header: &EcHeader, page_bytes: u32) -> bool {
    let end = u64::from(header.vid_header_offset) + VidHeader::SIZE as u64;
    end.checked_next_multiple_of(page_bytes.into()) == Some(header.data_offset.into())
}

/// The smallest write, bytes: from a UBIFS in the device, if there is one, or from the headers.
///
/// Data begin with the first page behind the VID header. NOR has no pages: there the headers follow each other. Where data begin at
/// twice the VID header's place, that header stands in a page of its own, or in a sub-page where no chip has such pages.
pub(crate) fn min_io_bytes(header: &EcHeader, ubifs: Option<u32>) -> u32 {
    let (vid, data) = (header.vid_header_offset, header.data_offset);
    match ubifs.filter(|&unit| unit <= 8 || is_page(header, unit)) {
        // UBIFS takes smaller units for units of 8.
        Some(8) if vid < 256 => return 1,
        Some(unit) if unit > 8 && unit.is_power_of_two() && data.is_multiple_of(unit) => return unit,
        _ => {}
    }
    if vid < 256 || data == 0 {
        return 1;
    }
    if data == vid.saturating_mul(2) && PAGE_BYTES.contains(&vid) { vid } else { 1 << data.trailing_zeros() }
}
