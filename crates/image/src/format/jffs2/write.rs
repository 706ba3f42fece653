//! Mount of a JFFS2 in a file for writing.

use std::ops::Range;

use floatgate_media::jffs2::{Endian, Header, NODE_ALIGN, NodeType, ZERO_FILL};
use floatgate_mtd::{FlashKind, Geometry};
use floatgate_stack::jffs2::MountOptions;
use floatgate_stack::store::Window;
use floatgate_stack::{Store, StoreFlash, StoreMode};

use super::grid::{GAP, sizes};
use super::mount::{FileJffs2, geometry, mount_flash};
use super::nodes::pad;
use super::shape::Jffs2Shape;
use crate::ImageError;
use crate::format::location::{Content, ImageLocation};
use crate::format::magic::{HEAD_BYTES, format_inside};
use crate::image::{Image, fill};
use crate::part::Part;

/// Size of the largest JFFS2, bytes: offsets are 32-bit numbers.
const BYTES_MAX: u64 = 1 << 32;

/// Size of the program buffer that is assumed for NOR: the page of an SPI NOR chip, bytes.
const NOR_BUFFER: u32 = 256;

/// Number of pages in a NAND eraseblock, and page sizes; a JFFS2 image does not contain them. With too large a page,
/// a change leaves a little space unused at its end. With too small a page, Linux leaves the space unused.
const PAGES: u32 = 64;
const PAGE_MIN: u32 = 512;
const PAGE_MAX: u32 = 8192;

/// Smallest number of eraseblocks for a change, including those that Linux keeps free.
const ROOM: u32 = 6;

/// Number of bytes of a file that are examined at a time.
pub(super) const CHUNK: usize = 1 << 20;

/// Eraseblocks of a file to which a JFFS2 may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Current number of eraseblocks.
    pub(crate) blocks: u32,
    /// Largest number of eraseblocks if a command lets the JFFS2 grow.
    pub(crate) most: u32,
    /// Largest number of eraseblocks that can be requested: the next command finds as many again.
    pub(crate) lasting: u32,
    /// Number of eraseblocks up to the end of the file, or with space for a change, if the data after the JFFS2 has
    /// no known format and may have overwritten it.
    pub(crate) over: Option<u32>,
    /// Largest number of eraseblocks of any JFFS2.
    pub(crate) limit: u32,
    erase_bytes: u32,
    /// Offset after the last node at which other data than erased flash begins.
    pub(crate) foreign: Option<u64>,
    /// End of the JFFS2: the end of its last eraseblock, or of its last node if other data follows in this
    /// eraseblock.
    own_end: u64,
}

impl Extent {
    /// Examines the data after a JFFS2. Erased flash before other data does not belong to the JFFS2, because another
    /// partition may use it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(image: &Image, found: &ImageLocation, shape: &Jffs2Shape) -> Result<Self, ImageError> {
        let store = &*image.store()?;
        let erase = u64::from(shape.erase_bytes);
        let size = store.size_bytes();
        let own = found.len.next_multiple_of(erase);
        let nodes_end = found.offset + shape.nodes_end;
        let nodes_end = nodes_end + padding(store, nodes_end)?;
        let foreign = first_written(store, nodes_end, size.min(found.offset + own), found)?;
        let behind = size.max(found.offset + own);
        let next = first_written(store, found.offset + own, behind, found)?;
        let blocks = |bytes: u64| u32::try_from(bytes.min(BYTES_MAX - erase) / erase).unwrap_or(u32::MAX);
        let whole = blocks(own);
        let most = blocks(next.map_or(u64::MAX, |next| next - found.offset)).max(whole);
        let is_unknown = match foreign.or(next) {
            Some(at) => image.next_image(found).is_none() && !is_format(store, at)?,
            None => false,
        };
        // Clean markers show that eraseblocks belong to the JFFS2.
        let lasting = if next.is_none() || shape.is_nor() { most } else { whole };
        let to_end = blocks((size - found.offset).next_multiple_of(erase));
        let over = is_unknown.then(|| to_end.max(whole.saturating_add(ROOM)));
        let own_end = if foreign.is_some() { nodes_end } else { size.min(found.offset + found.len) };
        let erase_bytes = shape.erase_bytes;
        let limit = blocks(u64::MAX);
        Ok(Self { blocks: whole, most, lasting, over, limit, erase_bytes, foreign, own_end })
    }

    /// Part of the file that belongs to the image, to be cut out.
    pub(crate) fn own_part(&self, image: &Image, found: &ImageLocation) -> Part {
        image.part(found.offset..self.own_end)
    }

    /// Size of a JFFS2 with `blocks` eraseblocks in bytes, between its current number and the available number. With
    /// `recover`, the space of data that may have overwritten it is also available.
    pub(crate) fn bytes(&self, blocks: Option<u32>, recover: bool) -> u64 {
        let most = if recover && self.over.is_some() { self.limit } else { self.most };
        u64::from(blocks.unwrap_or(0).clamp(self.blocks, most)) * u64::from(self.erase_bytes)
    }
}

/// Number of zero bytes after the last node that fill its page, if they are too few for a padding node.
fn padding(store: &dyn Store, end: u64) -> Result<u64, ImageError> {
    let mut bytes = [0xFF; ZERO_FILL + 1];
    store.read_at(end, &mut bytes).map_err(ImageError::Store)?;
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    Ok(if zeros <= ZERO_FILL { zeros as u64 } else { 0 })
}

/// True if a known format begins at an offset of a file.
pub(super) fn is_format(store: &dyn Store, at: u64) -> Result<bool, ImageError> {
    let mut head = [0; HEAD_BYTES];
    store.read_at(at, &mut head).map_err(ImageError::Store)?;
    Ok(format_inside(&head).is_some())
}

/// Writes clean markers to the erased eraseblocks in a part of NOR flash. They show that the eraseblocks belong to
/// the filesystem, and their distances show the size.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn mark_clean(
    store: &mut dyn Store,
    free: Range<u64>,
    erase: u64,
    endian: Endian,
) -> Result<(), ImageError> {
    let mut marker = [0; Header::SIZE];
    Header::new(NodeType::CleanMarker, Header::SIZE as u32).emit(endian, &mut marker);
    let mut blocks = free.step_by(usize::try_from(erase).unwrap_or(usize::MAX));
    blocks.try_for_each(|at| store.write_at(at, &marker)).map_err(ImageError::Store)
}

/// Location of a JFFS2 that includes the free eraseblocks of its partition: erased flash up to the start or the end
/// of the file. Linux writes its first eraseblocks anywhere in a partition. Erased flash before other data may be
/// another partition. `all` are the images of the file; `bad_pebs` returns the bad eraseblocks of a location.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn with_free(
    store: &dyn Store,
    found: &ImageLocation,
    all: &[ImageLocation],
    bad_pebs: &dyn Fn(&ImageLocation) -> Vec<u32>,
) -> Result<ImageLocation, ImageError> {
    let mut whole = ImageLocation { bad_pebs: bad_pebs(found), ..found.clone() };
    let (Content::Jffs2(shape), None) = (&found.content, found.pages) else { return Ok(whole) };
    let (erase, size, end) = (u64::from(shape.erase_bytes), store.size_bytes(), found.offset + found.len);
    if found.offset.is_multiple_of(erase) {
        let mut longer = ImageLocation { offset: 0, len: end, ..found.clone() };
        longer.bad_pebs = bad_pebs(&longer);
        if first_written(store, 0, found.offset, &longer)?.is_none() {
            let nodes_end = found.offset + shape.nodes_end;
            longer.content = Content::Jffs2(Jffs2Shape { nodes_end, ..*shape });
            whole = longer;
        }
    }
    let free = size.saturating_sub(end) / erase * erase;
    let is_last = all.iter().all(|other| other.offset < end);
    if free > 0 && found.len.is_multiple_of(erase) && is_last && is_own(store, end, size, &whole)? {
        whole.len += free;
    }
    Ok(whole)
}

/// Largest number of bytes after the last node that may be overwritten data of the JFFS2. A longer range is other
/// data.
const OVERWRITTEN_MAX: u64 = GAP;

/// True if the range after the last eraseblock with nodes, from `end` on, belongs to a JFFS2. It must be erased up to
/// the end of the file, except for a few overwritten eraseblocks. At least as many erased eraseblocks must follow
/// these: other data at the end of a file cannot be recognised.
fn is_own(store: &dyn Store, end: u64, size: u64, found: &ImageLocation) -> Result<bool, ImageError> {
    let Some(first) = first_written(store, end, size, found)? else { return Ok(true) };
    let erase = u64::from(found.block_bytes().unwrap_or(u32::MAX));
    let start = first - (first - end) % erase;
    if is_format(store, start)? {
        return Ok(false);
    }
    let mut behind = start + erase;
    while let Some(next) = first_written(store, behind.min(size), size, found)? {
        behind = next - (next - end) % erase + erase;
        if behind - start > OVERWRITTEN_MAX {
            break;
        }
    }
    let overwritten = behind - start;
    Ok(overwritten <= OVERWRITTEN_MAX.max(erase) && size.saturating_sub(behind) >= overwritten)
}

/// Offset of the first byte in a range that is not erased and not in a bad eraseblock.
pub(super) fn first_written(
    store: &dyn Store,
    start: u64,
    end: u64,
    found: &ImageLocation,
) -> Result<Option<u64>, ImageError> {
    let mut buffer = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(CHUNK).min(CHUNK)];
    let mut at = start;
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        let piece = &mut buffer[..len];
        store.read_at(at, piece).map_err(ImageError::Store)?;
        let mut written = (at..).zip(&*piece).filter(|(_, byte)| **byte != 0xFF);
        match written.next() {
            None => at += len as u64,
            Some((place, _)) => match found.end_of_bad(place) {
                Some(end_of_bad) => at = end_of_bad,
                None => return Ok(Some(place)),
            },
        }
    }
    Ok(None)
}

/// Replaces data after the last node of its eraseblock by padding. If it is no node, nodes in later eraseblocks would
/// make it damage.
fn pad_tail(store: &mut dyn Store, found: &ImageLocation, shape: &Jffs2Shape) -> Result<(), ImageError> {
    let block_end = found.offset + shape.nodes_end.next_multiple_of(shape.erase_bytes.into());
    let start = found.offset + shape.nodes_end.next_multiple_of(NODE_ALIGN.into());
    let end = block_end.min(store.size_bytes());
    if first_written(store, start, end, found)?.is_some() {
        let mut tail = vec![0xFF; usize::try_from(end - start).unwrap_or(0)];
        pad(&mut tail, shape.endian());
        store.write_at(start, &tail).map_err(ImageError::Store)?;
    }
    Ok(())
}

/// Erases data in the eraseblocks after the last one with nodes, as Linux does during a mount.
fn erase_overwritten(
    store: &mut dyn Store,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    len: u64,
) -> Result<(), ImageError> {
    let erase = u64::from(shape.erase_bytes);
    let end = store.size_bytes().min(found.offset + len);
    let mut start = found.offset + shape.nodes_end.next_multiple_of(erase);
    while let Some(at) = first_written(store, start, end, found)? {
        start += (at - start) / erase * erase;
        let block = vec![0xFF; usize::try_from((end - start).min(erase)).unwrap_or(0)];
        store.write_at(start, &block).map_err(ImageError::Store)?;
        start += erase;
    }
    Ok(())
}

/// Mounts `bytes` of a file for writing. A shorter file is extended by erased flash, and the data after the last
/// eraseblock with nodes is erased. With `recover`, files without a name are removed.
///
/// # Errors
/// No part of the image can be mounted, files have lost their names, no eraseblock is free for a change, or the host
/// reports an error.
fn mount(
    mut store: Box<dyn Store>,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    len: u64,
    recover: bool,
) -> Result<FileJffs2, ImageError> {
    if recover && shape.page_bytes.is_none() {
        pad_tail(&mut *store, found, shape)?;
    }
    erase_overwritten(&mut *store, found, shape, len)?;
    fill(&mut *store, found.offset + len).map_err(ImageError::Store)?;
    if shape.is_nor() {
        let (erase, end) = (u64::from(shape.erase_bytes), found.offset + len);
        let new = found.offset + found.len.next_multiple_of(erase)..end;
        mark_clean(&mut *store, new, erase, shape.endian())?;
    }
    let window = Window::new(store, found.offset, len);
    let flash = StoreFlash::new(window, writable_geometry(shape, len), StoreMode::WriteThrough)
        .with_bad_blocks(found.bad_pebs.iter().copied());
    let options = MountOptions {
        endian: Some(shape.endian()),
        // The next command derives the size of eraseblocks from summaries, or from clean markers, which are in the
        // OOB of a dump.
        summaries: shape.summaries || !shape.markers && shape.page_bytes.is_none(),
        stable: true,
        keeps_nameless: !recover,
        ..MountOptions::default()
    };
    let mut fs = mount_flash(flash, &options)?;
    match fs.missing_eraseblocks()? {
        Some((have, need)) => Err(ImageError::NoEraseblocks { have, need }),
        None => Ok(fs),
    }
}

/// Mounts an image for writing, unless this would destroy data that may not belong to it.
///
/// # Errors
/// The size of eraseblocks is a guess, other data is after the last node (unless `recover` is set), or as [`mount`].
pub(super) fn mount_in_place(
    image: &Image,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    recover: bool,
) -> Result<FileJffs2, ImageError> {
    let store = image.store()?;
    image.require_pages(found)?;
    if shape.erase_is_guess {
        // A summary would state the guessed size.
        let possible = sizes().filter_map(|size| u32::try_from(size).ok()).collect();
        return Err(ImageError::GuessedEraseblocks { guess: shape.erase_bytes, possible });
    }
    let extent = Extent::read(image, found, shape)?;
    if let Some(at) = extent.foreign.filter(|_| !recover) {
        let (offset, own) = (image.file_byte(at), extent.own_part(image, found));
        let can_grow = extent.most > extent.blocks;
        return Err(ImageError::Jffs2Tail { offset, own, can_grow, over: extent.over });
    }
    let len = extent.bytes(image.lebs, recover);
    image.reserve(found.offset + len)?;
    mount(store, found, shape, len, recover)
}

/// Flash for which a JFFS2 was made, as its nodes imply it.
fn writable_geometry(shape: &Jffs2Shape, len: u64) -> Geometry {
    if shape.is_nor() {
        return Geometry { buffer_bytes: NOR_BUFFER, ..geometry(shape, len) };
    }
    let usual = (shape.erase_bytes / PAGES).clamp(PAGE_MIN, PAGE_MAX);
    let page = shape.page_bytes.unwrap_or(usual);
    Geometry {
        kind: FlashKind::SlcNand,
        write_bytes: page,
        buffer_bytes: page,
        sub_page_bytes: page,
        ..geometry(shape, len)
    }
}
