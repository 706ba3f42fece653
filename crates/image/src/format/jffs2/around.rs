//! Parts of a file around a JFFS2 that are neither erased nor belong to an image: other data, or data that overwrote
//! the image.

use std::ops::Range;

use floatgate_stack::Store;

use super::mount::FileJffs2;
use super::shape::Jffs2Shape;
use super::write::{CHUNK, Extent, first_written};
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::format::magic::{HEAD_BYTES, format_inside};
use crate::image::Image;
use crate::part::Part;

/// Parts of the file before a JFFS2 and after its last node that contain other data. Parts with a recognised format
/// are omitted, and also parts that the mount reports as damage.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn around(
    image: &Image,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    fs: &FileJffs2,
) -> Result<[Option<Part>; 2], ImageError> {
    let store = image.store()?;
    let own_end = found.offset + found.len;
    let ends = image.found.iter().map(|other| other.offset + other.len);
    let before = ends.filter(|&end| end <= found.offset).max().unwrap_or(0);
    let next = image.next_image(found).unwrap_or(store.size_bytes());
    let tail = tail(image, found, shape, fs)?;
    let before = unknown(&*store, before..found.offset, found)?;
    let behind = unknown(&*store, tail.unwrap_or(own_end)..next, found)?;
    Ok([before, behind].map(|range| range.map(|range| image.part(range))))
}

/// Parts around a JFFS2 that may have overwritten its nodes. The part after the last node qualifies if the filesystem
/// would continue there: the file begins with the JFFS2, and contains no other image. In a dump of a chip, other data
/// usually follows. The part before the JFFS2 qualifies if directories that contain names have no name themselves.
pub(crate) fn overwritten(
    image: &Image,
    found: &ImageLocation,
    [front, behind]: [Option<Part>; 2],
    fs: &FileJffs2,
) -> impl Iterator<Item = Part> {
    let front = front.filter(|_| fs.counts().nameless_directories > 0);
    let behind = behind.filter(|_| found.offset == 0 && image.found.len() == 1);
    front.into_iter().chain(behind)
}

/// Offset from which other data follows the last node of a JFFS2 within its eraseblocks, unless the mount reports
/// this data as damage.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn tail(
    image: &Image,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    fs: &FileJffs2,
) -> Result<Option<u64>, ImageError> {
    let is_told = fs.damaged_nodes().iter().any(|damage| damage.at >= shape.nodes_end);
    Ok(Extent::read(image, found, shape)?.foreign.filter(|_| !is_told))
}

/// Range of a part from the first to the last byte that is not erased, unless a known format begins there.
fn unknown(
    store: &dyn Store,
    part: Range<u64>,
    found: &ImageLocation,
) -> Result<Option<Range<u64>>, ImageError> {
    let Some(first) = first_written(store, part.start, part.end, found)? else { return Ok(None) };
    let mut head = [0; HEAD_BYTES];
    store.read_at(first, &mut head).map_err(ImageError::Store)?;
    let is_known = format_inside(&head).is_some();
    Ok(if is_known { None } else { Some(first..end_of_written(store, first..part.end)?) })
}

/// End of the last byte that is not erased.
fn end_of_written(store: &dyn Store, part: Range<u64>) -> Result<u64, ImageError> {
    let mut buffer = vec![0; CHUNK];
    let mut end = part.end;
    while end > part.start {
        let start = part.start.max(end.saturating_sub(CHUNK as u64));
        let piece = &mut buffer[..usize::try_from(end - start).unwrap_or(CHUNK)];
        store.read_at(start, piece).map_err(ImageError::Store)?;
        if let Some(last) = piece.iter().rposition(|&byte| byte != 0xFF) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(end)
}
