//! Detection of the contents of a file: UBI, a bare UBIFS, JFFS2, with OOB between the pages or without, at its start or somewhere inside.

use floatgate_media::crc;
use floatgate_media::jffs2::Header;
use floatgate_media::ubi::{EC_MAGIC, EcHeader, ReadFlips, VidHeader};
use floatgate_media::ubifs::{Frame, MIN_LEB_BYTES, NODE_MAGIC, Node, Superblock};
use floatgate_stack::store::Store;
use memchr::memmem;
use serde::Serialize;

use super::content::{HEAD_BYTES, format_inside, format_of, is_compressed, swapped};
pub use super::format::jffs2::Jffs2Shape;
pub use super::format::jffs2::shifts::Splice;
use super::format::jffs2::write::with_free;
use super::{FlashSizes, ImageError, Selection};

/// Bytes of a file that are looked at together.
const CHUNK: usize = 4 << 20;

/// Bytes a search may need past the place where a magic stands: a superblock node.
const OVERLAP: usize = 4096;

/// Bytes of an EC header.
const EC_BYTES: usize = 64;

/// Headers and superblocks that are kept, against files that hold nothing else.
const HITS: usize = 1 << 20;
const SUPERBLOCKS: usize = 4096;

/// Largest LEB that is believed, bytes.
const MAX_LEB_BYTES: u32 = 64 << 20;

/// Offset of the type in a node, and the type of a superblock.
const TYPE_AT: usize = 20;
const SUPERBLOCK_TYPE: u8 = 6;

/// A stretch of a file with something in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Content of the image.
    #[serde(flatten)]
    pub content: Content,
    /// PEBs of a UBI device, or eraseblocks of a JFFS2, in blocks that are marked bad in the OOB of a dump.
    #[serde(skip)]
    pub bad_pebs: Vec<u32>,
    /// Changes that put the eraseblocks of a JFFS2 into their places, which missing bytes have shifted.
    #[serde(skip)]
    pub splices: Vec<Splice>,
}

/// Content found in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "content", rename_all = "kebab-case")]
pub enum Content {
    /// A UBI device.
    Ubi(UbiShape),
    /// A UBI device in pages with their OOB.
    UbiWithOob {
        /// The pages.
        pages: PageShape,
        /// The device without the OOB.
        ubi: UbiShape,
    },
    /// A JFFS2.
    Jffs2(Jffs2Shape),
    /// A JFFS2 in pages with their OOB.
    Jffs2WithOob {
        /// The pages.
        pages: PageShape,
    },
    /// A UBIFS without UBI.
    Ubifs {
        /// Bytes of a LEB.
        leb_bytes: u32,
        /// Smallest write.
        min_io_bytes: u32,
    },
}

impl Found {
    pub(crate) const fn new(offset: u64, len: u64, content: Content) -> Self {
        Self { offset, len, content, bad_pebs: Vec::new(), splices: Vec::new() }
    }

    /// True when a byte of the file is in the image.
    pub(crate) fn holds(&self, at: u64) -> bool {
        (self.offset..self.offset + self.len).contains(&at)
    }

    /// Bytes of a PEB or an eraseblock, in a dump one block; `None` of a UBIFS without UBI.
    pub(crate) const fn block_bytes(&self) -> Option<u32> {
        match &self.content {
            Content::Ubi(shape) | Content::UbiWithOob { ubi: shape, .. } => Some(shape.peb_bytes),
            Content::Jffs2(shape) => Some(shape.erase_bytes),
            Content::Jffs2WithOob { pages } => Some(pages.block_bytes()),
            Content::Ubifs { .. } => None,
        }
    }

    /// Refuses a size of PEBs or eraseblocks that was stated and is another one.
    pub(crate) fn require_block_bytes(&self, stated: Option<u32>) -> Result<(), ImageError> {
        match (stated, self.block_bytes()) {
            (Some(stated), Some(bytes)) if stated != bytes => {
                let why = format!("what begins at byte {} has such of {bytes} bytes", self.offset);
                Err(ImageError::PebSize { stated: stated.into(), why })
            }
            _ => Ok(()),
        }
    }

    /// First byte behind the block with this byte, if that is marked bad.
    pub(crate) fn end_of_bad(&self, at: u64) -> Option<u64> {
        let bytes = u64::from(self.block_bytes()?);
        let number = at.checked_sub(self.offset)? / bytes;
        let is_bad = u32::try_from(number).is_ok_and(|number| self.bad_pebs.contains(&number));
        is_bad.then_some(self.offset + (number + 1) * bytes)
    }

    /// True of what has volumes: UBI.
    pub(crate) const fn has_volumes(&self) -> bool {
        matches!(self.content, Content::Ubi(_) | Content::UbiWithOob { .. })
    }

    /// Refuses a filesystem without UBI where a volume is wanted.
    pub(crate) fn require_volume(&self, selection: &Selection) -> Result<(), ImageError> {
        match &selection.volume {
            Some(wanted) if !self.has_volumes() => {
                Err(ImageError::NoVolume { wanted: wanted.clone(), names: Vec::new() })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a JFFS2, which has no LEBs, where something of UBI or UBIFS is wanted.
    pub(crate) const fn require_lebs(&self, what: &'static str) -> Result<(), ImageError> {
        match self.content {
            Content::Jffs2(_) => Err(ImageError::NotForJffs2(what)),
            _ => Ok(()),
        }
    }
}

/// Offsets and sizes in a UBI device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UbiShape {
    /// Bytes of a PEB.
    pub peb_bytes: u32,
    /// Byte in a PEB where the VID header begins.
    pub vid_header_offset: u32,
    /// Byte in a PEB where data begin.
    pub data_offset: u32,
    /// Smallest write, bytes: a page; 1 on NOR. A guess unless there is OOB, or a UBIFS that tells.
    pub min_io_bytes: u32,
}

/// Pages with OOB, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PageShape {
    /// Bytes of a page without OOB.
    pub page_bytes: u32,
    /// Bytes of its OOB.
    pub oob_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
}

impl PageShape {
    /// Bytes of a page with its OOB.
    #[must_use]
    pub const fn stride(&self) -> u32 {
        self.page_bytes + self.oob_bytes
    }

    /// Bytes of the data of a block.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.page_bytes.saturating_mul(self.pages_per_block)
    }
}

/// Headers that a search found, with their offsets in the file.
#[derive(Default)]
pub(crate) struct Hits {
    pub(crate) ec: Vec<(u64, EcHeader)>,
    pub(crate) superblocks: Vec<(u64, Superblock)>,
}

/// Looks through a whole file for images. Those that begin first come first; none lies inside another.
///
/// # Errors
/// The file cannot be read.
pub fn detect(store: &mut dyn Store) -> Result<Vec<Found>, ImageError> {
    detect_sized(store, &FlashSizes::default())
}

/// As [`detect`], of flash of which sizes were stated.
///
/// # Errors
/// As [`detect`]; an image of another size.
pub(crate) fn detect_sized(store: &mut dyn Store, sizes: &FlashSizes) -> Result<Vec<Found>, ImageError> {
    let all = detect_in_pages(store, None, sizes)?;
    all.iter().map(|found| with_free(store, found, &all, |_| Vec::new())).collect()
}

/// As [`detect_sized`], with the pages that the OOB was taken out of, if there was some.
pub(crate) fn detect_in_pages(
    store: &mut dyn Store,
    pages: Option<PageShape>,
    sizes: &FlashSizes,
) -> Result<Vec<Found>, ImageError> {
    let size = store.size_bytes();
    let hits = search_all(store, size)?;
    let found = find(store, &hits, pages, sizes)?;
    let mut found = with_jffs2(store, found, pages, sizes)?;
    if found.is_empty() {
        let hits = search(store, size, (ec_header, damaged_superblock))?;
        found = find(store, &hits, pages, sizes)?;
    }
    let peb_bytes = sizes.peb_bytes;
    // Of several images it is the size of one.
    if found.iter().all(|found| found.require_block_bytes(peb_bytes).is_err()) {
        found.iter().try_for_each(|found| found.require_block_bytes(peb_bytes))?;
    }
    Ok(found)
}

/// Adds what there is of JFFS2. Where one overlaps with another format the first holds the other one as data of a file.
fn with_jffs2(
    store: &mut dyn Store,
    mut found: Vec<Found>,
    pages: Option<PageShape>,
    sizes: &FlashSizes,
) -> Result<Vec<Found>, ImageError> {
    let mut all = crate::format::jffs2::detect::find(store, pages, sizes)?;
    let mut head = vec![0; HEAD_BYTES];
    store.read_at(0, &mut head).map_err(ImageError::Store)?;
    // What does not become smaller stands in a compressed file as it was.
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
) -> Result<Vec<Found>, ImageError> {
    let size = store.size_bytes();
    let mut found = crate::format::ubi::detect::find(store, hits, pages, sizes)?;
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

/// Bytes of the shortest image: two nodes of a JFFS2, of which one may be no more than a header.
const IMAGE_MIN: u64 = 2 * Header::SIZE as u64;

/// Error for a file in which nothing was found.
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

/// Bytes between two places where another format is looked for: all formats begin at a page.
const FORMAT_STEP: usize = 4096;

/// Other formats that are listed.
const FORMATS_MAX: usize = 4;

/// Error for a file without an image: bytes that are swapped, or what else there is.
fn other_contents(store: &mut dyn Store, size: u64) -> Result<ImageError, ImageError> {
    // A superblock of UBIFS is recognised as a whole.
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

/// The byte that a file has nothing but.
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

/// True when LEBs can be told by a superblock.
const fn is_possible(superblock: &Superblock) -> bool {
    let (leb, unit) = (superblock.leb_bytes, superblock.min_io_bytes);
    leb >= MIN_LEB_BYTES && leb <= MAX_LEB_BYTES && unit.is_power_of_two() && unit >= 8 && unit <= leb
}

/// Headers and superblocks. Where every EC header is damaged, those count that are good but for their CRC and that a VID header follows.
fn search_all(store: &mut dyn Store, size: u64) -> Result<Hits, ImageError> {
    let hits = search(store, size, (ec_header, superblock))?;
    if hits.ec.is_empty() { search(store, size, (damaged_ec_header, superblock)) } else { Ok(hits) }
}

/// Parsers of an EC header and of a superblock.
type Parsers = (fn(&[u8]) -> Option<EcHeader>, fn(&[u8]) -> Option<Superblock>);

fn search(store: &mut dyn Store, size: u64, (ec_header, superblock): Parsers) -> Result<Hits, ImageError> {
    let (ec, node) = (memmem::Finder::new(&EC_MAGIC), memmem::Finder::new(&NODE_MAGIC));
    let mut hits = Hits::default();
    let mut buffer = Vec::new();
    let mut start = 0;
    while start < size {
        let len = (size - start).min((CHUNK + OVERLAP) as u64);
        buffer.resize(usize::try_from(len).unwrap_or(0), 0);
        store.read_at(start, &mut buffer).map_err(ImageError::Store)?;
        let here = |at: &usize| *at < CHUNK;
        let headers = ec.find_iter(&buffer).take_while(here);
        let room = HITS.saturating_sub(hits.ec.len());
        let parsed = headers.filter_map(|at| Some((start + at as u64, ec_header(buffer.get(at..)?)?)));
        hits.ec.extend(parsed.take(room));
        let nodes = node.find_iter(&buffer).take_while(here);
        let room = SUPERBLOCKS.saturating_sub(hits.superblocks.len());
        let parsed = nodes.filter_map(|at| Some((start + at as u64, superblock(buffer.get(at..)?)?)));
        hits.superblocks.extend(parsed.take(room));
        start += CHUNK as u64;
    }
    Ok(hits)
}

fn ec_header(bytes: &[u8]) -> Option<EcHeader> {
    EcHeader::parse(bytes.get(..EC_BYTES)?, ReadFlips::default()).ok()
}

fn damaged_ec_header(bytes: &[u8]) -> Option<EcHeader> {
    let mut header = *bytes.first_chunk::<EC_BYTES>()?;
    // The erase counter does not matter here.
    header[8..16].fill(0);
    let sum = crc::ubi(&header[..EC_BYTES - 4]);
    header[EC_BYTES - 4..].copy_from_slice(&sum.to_be_bytes());
    let header = ec_header(&header)?;
    let vid = bytes.get(header.vid_header_offset as usize..)?;
    VidHeader::parse(vid.get(..EC_BYTES)?, ReadFlips::default()).ok().map(|_| header)
}

/// A superblock whose CRC is wrong, if all its fields are possible: they are few, and most of the node is empty.
fn damaged_superblock(bytes: &[u8]) -> Option<Superblock> {
    let mut bytes = bytes.get(..Superblock::SIZE)?.to_vec();
    let sum = crc::ubi(&bytes[8..]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    superblock(&bytes).filter(|superblock| superblock.grown(superblock.max_leb_count).check().is_ok())
}

fn superblock(bytes: &[u8]) -> Option<Superblock> {
    if bytes.get(TYPE_AT) != Some(&SUPERBLOCK_TYPE) {
        return None;
    }
    match Frame::parse(bytes).ok()?.node().ok()? {
        Node::Superblock(superblock) => Some(superblock),
        _ => None,
    }
}

/// Whether a byte is in the data of a filesystem without UBI: a node begins the LEB that it is in. A superblock can speak of more LEBs
/// than there are.
fn is_data(store: &mut dyn Store, bare: &Found, at: u64) -> Result<bool, ImageError> {
    let Content::Ubifs { leb_bytes, .. } = bare.content else { return Ok(false) };
    let Some(inside) = at.checked_sub(bare.offset).filter(|inside| *inside < bare.len) else {
        return Ok(false);
    };
    let mut bytes = vec![0; 2 * OVERLAP];
    store.read_at(at - inside % u64::from(leb_bytes.max(1)), &mut bytes).map_err(ImageError::Store)?;
    Ok(Frame::parse(&bytes).is_ok())
}

fn bare_ubifs(offset: u64, superblock: &Superblock, size: u64) -> Found {
    let (leb_bytes, min_io_bytes) = (superblock.leb_bytes, superblock.min_io_bytes);
    let whole = u64::from(leb_bytes) * u64::from(superblock.leb_count);
    let content = Content::Ubifs { leb_bytes, min_io_bytes };
    Found::new(offset, whole.min(size - offset), content)
}
