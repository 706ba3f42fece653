//! A JFFS2 of a file, mounted for writing.

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

/// Largest JFFS2, bytes: places are numbers of 32 bits.
const BYTES_MAX: u64 = 1 << 32;

/// The program buffer that is assumed for NOR: the page of an SPI NOR chip.
const NOR_BUFFER: u32 = 256;

/// Pages of an eraseblock of NAND, and their sizes: the image of a JFFS2 does not tell. With too large a page a little is left unused at the
/// end of a change, with too small a one Linux leaves it unused.
const PAGES: u32 = 64;
const PAGE_MIN: u32 = 512;
const PAGE_MAX: u32 = 8192;

/// Eraseblocks that a change takes at least, those that Linux keeps free among them.
const ROOM: u32 = 6;

/// Bytes of a file that are looked at together.
pub(super) const CHUNK: usize = 1 << 20;

/// The eraseblocks of a file that a JFFS2 may write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Eraseblocks that it has.
    pub(crate) blocks: u32,
    /// Eraseblocks that it can have when a command lets it grow.
    pub(crate) most: u32,
    /// Eraseblocks that it can be told to have: as many as the next command finds again.
    pub(crate) lasting: u32,
    /// Eraseblocks up to the end of the file, or with room for a change, if what follows tells nothing of itself and may have overwritten the image.
    pub(crate) over: Option<u32>,
    /// The most that any JFFS2 has.
    pub(crate) limit: u32,
    erase_bytes: u32,
    /// Byte behind the last node where something else begins than erased flash.
    pub(crate) foreign: Option<u64>,
    /// Byte behind what is its own: its last eraseblock, or its last node if something else follows in that.
    own_end: u64,
}

impl Extent {
    /// Looks at what is behind a JFFS2. Erased flash before something else is not its own: another partition may have it.
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
        // Clean markers tell that eraseblocks are its own.
        let lasting = if next.is_none() || shape.is_nor() { most } else { whole };
        let to_end = blocks((size - found.offset).next_multiple_of(erase));
        let over = is_unknown.then(|| to_end.max(whole.saturating_add(ROOM)));
        let own_end = if foreign.is_some() { nodes_end } else { size.min(found.offset + found.len) };
        let erase_bytes = shape.erase_bytes;
        let limit = blocks(u64::MAX);
        Ok(Self { blocks: whole, most, lasting, over, limit, erase_bytes, foreign, own_end })
    }

    /// The part of the file that is the image's own, to be cut out.
    pub(crate) fn own_part(&self, image: &Image, found: &ImageLocation) -> Part {
        image.part(found.offset..self.own_end)
    }

    /// Bytes of a JFFS2 with `blocks` eraseblocks, but at least those that it has and at most those with
    /// room. One that is to `recover` has place over what may have overwritten it.
    pub(crate) fn bytes(&self, blocks: Option<u32>, recover: bool) -> u64 {
        let most = if recover && self.over.is_some() { self.limit } else { self.most };
        u64::from(blocks.unwrap_or(0).clamp(self.blocks, most)) * u64::from(self.erase_bytes)
    }
}

/// Bytes behind the last node that fill its page, where they are too few for a padding node: zeros.
fn padding(store: &dyn Store, end: u64) -> Result<u64, ImageError> {
    let mut bytes = [0xFF; ZERO_FILL + 1];
    store.read_at(end, &mut bytes).map_err(ImageError::Store)?;
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    Ok(if zeros <= ZERO_FILL { zeros as u64 } else { 0 })
}

/// True when a format that tells itself begins at a byte of a file.
pub(super) fn is_format(store: &dyn Store, at: u64) -> Result<bool, ImageError> {
    let mut head = [0; HEAD_BYTES];
    store.read_at(at, &mut head).map_err(ImageError::Store)?;
    Ok(format_inside(&head).is_some())
}

/// Begins the eraseblocks of a part of NOR flash in which nothing is written with clean markers: they say that these belong to the filesystem, and their
/// distances how large they are.
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

/// A JFFS2 with the free eraseblocks of its partition: erased flash up to the beginning or the end of the file. Linux writes its first
/// eraseblocks anywhere in a partition. Erased flash between it and something else may be another partition. `all` are the images of the
/// file; `bad_pebs` tells the bad eraseblocks of a place.
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

/// Most bytes behind the last node that something has overwritten: more of them are data of their own.
const OVERWRITTEN_MAX: u64 = GAP;

/// True when what is behind the last eraseblock with nodes, at `end`, belongs to a JFFS2: it is erased up to the end of the file, but for a few
/// eraseblocks that something has overwritten. At least as many erased ones follow these: nothing else that ends a file tells its own data.
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

/// The first byte between two of a file that is not erased, and not in an eraseblock that is bad.
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

/// Makes what is no node behind the last node of its eraseblock padding: nodes in later eraseblocks would make it damage.
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

/// Erases what is no node in the eraseblocks behind the last one with nodes, as Linux does when it mounts.
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

/// Mounts `bytes` of a file for writing. A file that ends before gets erased flash up to there, and what is
/// behind the last eraseblock with nodes becomes such. Files that have lost their names are removed if it is
/// to `recover`.
///
/// # Errors
/// No part of the image can be mounted; files that have lost their names; no eraseblock is free for any
/// change; the host's.
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
        // Either they or clean markers, which the OOB has in a dump, tell the next command the size of eraseblocks.
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

/// Mounts what was found for writing, unless that would destroy what may be other data.
///
/// # Errors
/// A guess of the size of eraseblocks; something behind the last node, unless it is to `recover`; as [`mount`].
pub(super) fn mount_in_place(
    image: &Image,
    found: &ImageLocation,
    shape: &Jffs2Shape,
    recover: bool,
) -> Result<FileJffs2, ImageError> {
    let store = image.store()?;
    image.require_pages(found)?;
    if shape.erase_is_guess {
        // A summary would state what is a guess.
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

/// The flash that a JFFS2 was made for, as its nodes imply it.
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
