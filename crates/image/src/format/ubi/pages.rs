//! Sizes of pages, from what headers tell.

use floatgate_media::ubi::EcHeader;

use crate::detect::PageShape;

/// Pages a block has with most chips, by page size.
pub(crate) const USUAL_BLOCKS: [(u32, u32); 5] =
    [(512, 32), (2048, 64), (4096, 64), (8192, 128), (16384, 256)];

/// Page sizes that chips have.
const PAGE_BYTES: [u32; 5] = [512, 2048, 4096, 8192, 16384];

/// Pages and OOB that make up a block of so many bytes. Where several do, the one whose block most chips have.
pub(crate) fn page_shape(stride: u64, data_offset: u32) -> Option<PageShape> {
    let shapes = USUAL_BLOCKS.into_iter().flat_map(|(page_bytes, usual)| {
        [16, 32, 64, 128, 256, 512].into_iter().filter_map(move |pages_per_block| {
            let full = stride
                .is_multiple_of(u64::from(pages_per_block))
                .then(|| stride / u64::from(pages_per_block))?;
            let oob_bytes = u32::try_from(full).ok()?.checked_sub(page_bytes)?;
            let usual_oob = (page_bytes / 64..=page_bytes / 8).contains(&oob_bytes);
            let shape = PageShape { page_bytes, oob_bytes, pages_per_block };
            (usual_oob && data_offset.is_multiple_of(page_bytes)).then_some((pages_per_block != usual, shape))
        })
    });
    // Larger pages first among the usual ones: 512-byte pages divide every block.
    shapes
        .min_by_key(|&(unusual, shape)| (unusual, std::cmp::Reverse(shape.page_bytes)))
        .map(|(_, shape)| shape)
}

/// The smallest write, bytes: that of a UBIFS in the device, if there is one, or what headers tell.
///
/// Data begin with the first page behind the VID header. NOR has no pages: there the headers follow each other. Where data begin at
/// twice the VID header's place, that header stands in a page of its own, or in a sub-page where no chip has such pages.
pub(crate) fn min_io_bytes(header: &EcHeader, ubifs: Option<u32>) -> u32 {
    let (vid, data) = (header.vid_header_offset, header.data_offset);
    match ubifs {
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
