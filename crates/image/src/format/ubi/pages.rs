//! Page sizes, derived from headers.

use std::collections::BTreeSet;

use floatgate_media::ubi::{EcHeader, VidHeader};
use floatgate_stack::store::Store;

use crate::ImageError;
use crate::pages::{FlashSizes, PageShape, usual_block};

/// Numbers of pages in a block.
const PAGES_PER_BLOCK: [u32; 6] = [16, 32, 64, 128, 256, 512];

/// Page sizes of chips, bytes.
const PAGE_BYTES: [u32; 6] = [512, 1024, 2048, 4096, 8192, 16384];

/// Layouts of pages and OOB for a block of `stride` bytes, in which data begins at the end of a page; the most common
/// first. A layout with half the page size and half the OOB is always possible as well, so the contents of the pages
/// must decide.
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
    // Larger pages are first among the usual layouts, because 512-byte pages divide every block.
    shapes.sort_by_key(|shape| {
        (shape.pages_per_block != usual_block(shape.page_bytes), std::cmp::Reverse(shape.page_bytes))
    });
    shapes
}

/// Reads data in pages with OOB that begin at an offset of a file.
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

/// True if data begins with the first page of this size after the VID header, as in Linux. A controller with OOB
/// between the parts of a page makes pages look smaller than they are.
pub(super) fn is_page(header: &EcHeader, page_bytes: u32) -> bool {
    let end = u64::from(header.vid_header_offset) + VidHeader::SIZE as u64;
    end.checked_next_multiple_of(page_bytes.into()) == Some(header.data_offset.into())
}

/// Smallest write in bytes, from a UBIFS in the device or from the headers.
///
/// Data begins with the first page after the VID header. NOR has no pages: its headers follow each other directly. If
/// data begins at twice the offset of the VID header, the header has its own page, or its own sub-page if no chip has
/// such a page size.
pub(crate) fn min_io_bytes(header: &EcHeader, ubifs: Option<u32>) -> u32 {
    let (vid, data) = (header.vid_header_offset, header.data_offset);
    match ubifs.filter(|&unit| unit <= 8 || is_page(header, unit)) {
        // UBIFS rounds smaller units up to 8.
        Some(8) if vid < 256 => return 1,
        Some(unit) if unit > 8 && unit.is_power_of_two() && data.is_multiple_of(unit) => return unit,
        _ => {}
    }
    if vid < 256 || data == 0 {
        return 1;
    }
    if data == vid.saturating_mul(2) && PAGE_BYTES.contains(&vid) { vid } else { 1 << data.trailing_zeros() }
}
