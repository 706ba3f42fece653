//! Search for images of all formats in a file: with or without OOB between the pages, at the start or at another
//! offset.

use floatgate_media::jffs2::Header;
use floatgate_media::ubi::EC_MAGIC;
use floatgate_media::ubifs::{Frame, MIN_LEB_BYTES, NODE_MAGIC, Superblock};
use floatgate_stack::store::Store;

pub(crate) use super::jffs2::detect::find_at;
pub(crate) use super::jffs2::write::with_free;
use super::location::{Content, ImageLocation, UbifsShape};
use super::ubi::search::{Hits, OVERLAP, search_all, search_damaged};
use super::{jffs2, ubi};
use crate::ImageError;
use crate::format::magic::{HEAD_BYTES, format_inside, format_of, is_compressed, swapped};
use crate::pages::{FlashSizes, PageShape};

/// Number of bytes of a file that are examined at a time.
const CHUNK: usize = 4 << 20;

/// Size of the largest LEB that is accepted, bytes.
const MAX_LEB_BYTES: u32 = 64 << 20;

/// Searches a whole file for images. They are sorted by their offsets, and none is inside another.
///
/// # Errors
/// The file cannot be read.
pub fn detect(store: &mut dyn Store) -> Result<Vec<ImageLocation>, ImageError> {
    detect_sized(store, &FlashSizes::default())
}

/// Searches a whole file for images on flash of the stated sizes.
///
/// # Errors
/// The errors of [`detect`], and an image with other sizes.
pub(crate) fn detect_sized(
    store: &mut dyn Store,
    sizes: &FlashSizes,
) -> Result<Vec<ImageLocation>, ImageError> {
    let all = detect_in_pages(store, None, sizes)?;
    all.iter().map(|found| with_free(store, found, &all, &|_| Vec::new())).collect()
}

/// Searches a whole file for images on flash of the stated sizes. `pages` is the layout of the pages if OOB was
/// removed.
pub(crate) fn detect_in_pages(
    store: &mut dyn Store,
    pages: Option<PageShape>,
    sizes: &FlashSizes,
) -> Result<Vec<ImageLocation>, ImageError> {
    let size = store.size_bytes();
    let hits = search_all(store, size)?;
    let found = find(store, &hits, pages, sizes)?;
    let mut found = with_jffs2(store, found, pages, sizes)?;
    if found.is_empty() {
        let hits = search_damaged(store, size)?;
        found = find(store, &hits, pages, sizes)?;
    }
    let peb_bytes = sizes.peb_bytes;
    // With several images, the stated size may be the size of one of them.
    if found.iter().all(|found| found.require_block_bytes(peb_bytes).is_err()) {
        found.iter().try_for_each(|found| found.require_block_bytes(peb_bytes))?;
    }
    Ok(found)
}

/// Adds the JFFS2 images. If one overlaps with an image of another format, the image with the lower offset contains
/// the other as data of a file.
fn with_jffs2(
    store: &mut dyn Store,
    mut found: Vec<ImageLocation>,
    pages: Option<PageShape>,
    sizes: &FlashSizes,
) -> Result<Vec<ImageLocation>, ImageError> {
    let mut all = jffs2::detect::find(store, pages, sizes)?;
    let mut head = vec![0; HEAD_BYTES];
    store.read_at(0, &mut head).map_err(ImageError::Store)?;
    // Incompressible data is stored unchanged in a compressed file.
    all.retain(|jffs2| jffs2.offset >= FORMAT_STEP as u64 || !is_compressed(&head));
    all.retain(|jffs2| !found.iter().any(|other| other.holds(jffs2.offset)));
    found.retain(|other| !all.iter().any(|jffs2| jffs2.holds(other.offset)));
    found.append(&mut all);
    found.sort_by_key(|found| found.offset);
    Ok(found)
}

fn find(
    store: &mut dyn Store,
    hits: &Hits,
    pages: Option<PageShape>,
    sizes: &FlashSizes,
) -> Result<Vec<ImageLocation>, ImageError> {
    let size = store.size_bytes();
    let mut found = ubi::detect::find(store, hits, pages, sizes)?;
    for (offset, superblock) in &hits.superblocks {
        let inside = found.iter().any(|region| region.holds(*offset));
        if !inside && is_possible(superblock) {
            let bare = bare_ubifs(*offset, superblock, size);
            let mut outside = Vec::new();
            for other in found {
                if !is_data(store, &bare, other.offset)? {
                    outside.push(other);
                }
            }
            found = outside;
            found.push(bare);
        }
    }
    found.sort_by_key(|found| found.offset);
    Ok(found)
}

/// Size of the shortest image, bytes: two JFFS2 nodes, one of which may consist of a header.
const IMAGE_MIN: u64 = 2 * Header::SIZE as u64;

/// Error for a file without any image.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn explain(store: &mut dyn Store) -> Result<ImageError, ImageError> {
    let size = store.size_bytes();
    if size == 0 {
        return Ok(ImageError::Empty);
    }
    if let Some(byte) = blank(store, size)? {
        return Ok(if size < IMAGE_MIN { ImageError::TooShort(size) } else { ImageError::Blank(byte) });
    }
    let hits = search_all(store, size)?;
    if let Some((offset, superblock)) = hits.superblocks.first() {
        let why =
            superblock.check().err().map_or("the file ends in it".to_owned(), |error| error.to_string());
        return Ok(ImageError::Impossible { what: "a superblock of UBIFS", offset: *offset, why });
    }
    let mut magic = [0; 4];
    store.read_at(0, &mut magic).map_err(ImageError::Store)?;
    let impossible = |what, offset, why: &str| ImageError::Impossible { what, offset, why: why.to_owned() };
    let first = hits.ec.first().map(|&(offset, _)| offset).or((magic == EC_MAGIC).then_some(0));
    Ok(match first {
        Some(offset) => impossible("an eraseblock of UBI", offset, "the file ends before it does"),
        None if magic == NODE_MAGIC => impossible("a node of UBIFS", 0, "it is no good superblock"),
        None => other_contents(store, size)?,
    })
}

/// Distance in bytes between offsets at which other formats are searched; all formats begin at a page.
const FORMAT_STEP: usize = 4096;

/// Largest number of other formats that are listed.
const FORMATS_MAX: usize = 4;

/// Error for a file without an image: its bytes are swapped, or it has other contents.
fn other_contents(store: &mut dyn Store, size: u64) -> Result<ImageError, ImageError> {
    // The buffer must contain a complete superblock of UBIFS.
    let mut head = vec![0; OVERLAP.max(HEAD_BYTES)];
    let mut inside = Vec::new();
    for at in (0..size).step_by(FORMAT_STEP) {
        store.read_at(at, &mut head).map_err(ImageError::Store)?;
        if let Some((group, what)) = swapped(&head) {
            return Ok(ImageError::Swapped { group, what, offset: at });
        }
        match format_of(&head) {
            Some(format) if at == 0 => return Ok(ImageError::OtherFormat(format)),
            _ => inside.extend(format_inside(&head).map(|format| (at, format))),
        }
        if inside.len() == FORMATS_MAX {
            break;
        }
    }
    Ok(if inside.is_empty() { ImageError::Nothing } else { ImageError::OtherFormats(inside) })
}

/// Value of all bytes of the file; `None` if they differ.
fn blank(store: &mut dyn Store, size: u64) -> Result<Option<u8>, ImageError> {
    let mut buffer = vec![0; CHUNK];
    let mut byte = None;
    for start in (0..size).step_by(CHUNK) {
        let len = usize::try_from(size - start).unwrap_or(CHUNK).min(CHUNK);
        let piece = &mut buffer[..len];
        store.read_at(start, piece).map_err(ImageError::Store)?;
        let first = *byte.get_or_insert(piece[0]);
        if piece.iter().any(|&other| other != first) {
            return Ok(None);
        }
    }
    Ok(byte)
}

/// True if LEBs can be identified with this superblock.
const fn is_possible(superblock: &Superblock) -> bool {
    let (leb, unit) = (superblock.leb_bytes, superblock.min_io_bytes);
    leb >= MIN_LEB_BYTES && leb <= MAX_LEB_BYTES && unit.is_power_of_two() && unit >= 8 && unit <= leb
}

/// True for a byte in the data of a filesystem without UBI: the LEB that contains the byte begins with a node. The
/// superblock may state more LEBs than exist.
fn is_data(store: &mut dyn Store, bare: &ImageLocation, at: u64) -> Result<bool, ImageError> {
    let Content::Ubifs(UbifsShape { leb_bytes, .. }) = bare.content else { return Ok(false) };
    let Some(inside) = at.checked_sub(bare.offset).filter(|inside| *inside < bare.len) else {
        return Ok(false);
    };
    let mut bytes = vec![0; 2 * OVERLAP];
    store.read_at(at - inside % u64::from(leb_bytes.max(1)), &mut bytes).map_err(ImageError::Store)?;
    Ok(Frame::parse(&bytes).is_ok())
}

fn bare_ubifs(offset: u64, superblock: &Superblock, size: u64) -> ImageLocation {
    let (leb_bytes, min_io_bytes) = (superblock.leb_bytes, superblock.min_io_bytes);
    let whole = u64::from(leb_bytes) * u64::from(superblock.leb_count);
    let content = Content::Ubifs(UbifsShape { leb_bytes, min_io_bytes });
    ImageLocation::new(offset, whole.min(size - offset), content)
}
