//! What is in a file: UBI, a bare UBIFS, with OOB between the pages or without, at its start or somewhere inside.

use floatgate_media::ubi::{EcHeader, ReadFlips, VidHeader};
use floatgate_media::ubifs::{Frame, Node, Superblock};
use floatgate_stack::store::Store;
use memchr::memmem;
use serde::Serialize;

use super::ImageError;

/// Bytes of a file that are looked at together.
const CHUNK: usize = 4 << 20;

/// Bytes a search may need past the place where a magic stands: a superblock node.
const OVERLAP: usize = 4096;

/// Bytes of an EC header.
const EC_BYTES: usize = 64;

/// Smallest and largest eraseblock that is believed, bytes of pages.
const PEB_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 20;

/// "UBI#".
const EC_MAGIC: &[u8] = b"UBI#";

/// The magic of a UBIFS node, little-endian.
const NODE_MAGIC: [u8; 4] = 0x0610_1831_u32.to_le_bytes();

/// Where the type of a node stands in it, and the type of a superblock.
const TYPE_AT: usize = 20;
const SUPERBLOCK_TYPE: u8 = 6;

/// Pages a block has with most chips, by page size.
const USUAL_BLOCKS: [(u32, u32); 5] = [(512, 32), (2048, 64), (4096, 64), (8192, 128), (16384, 256)];

/// A stretch of a file with something in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// What it is.
    #[serde(flatten)]
    pub content: Content,
}

/// What was found.
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
    /// A UBIFS without UBI.
    Ubifs {
        /// Bytes of a LEB.
        leb_bytes: u32,
        /// Smallest write.
        min_io_bytes: u32,
    },
}

/// Where things stand in a UBI device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UbiShape {
    /// Bytes of a PEB.
    pub peb_bytes: u32,
    /// Byte in a PEB where the VID header begins.
    pub vid_header_offset: u32,
    /// Byte in a PEB where data begin.
    pub data_offset: u32,
    /// The smallest write, as a filesystem in a volume has it.
    #[serde(skip)]
    pub min_io_bytes: Option<u32>,
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
}

/// Headers that a search found, with their offsets in the file.
#[derive(Default)]
struct Hits {
    ec: Vec<(u64, EcHeader)>,
    superblocks: Vec<(u64, Superblock)>,
}

/// Looks through a whole file for images. Those that begin first come first; none lies inside another.
///
/// # Errors
/// The file cannot be read.
pub fn detect(store: &mut dyn Store) -> Result<Vec<Found>, ImageError> {
    let size = store.size_bytes();
    let hits = search(store, size)?;
    let mut found = ubi_regions(&hits.ec, size);
    let mut end = 0;
    for region in &mut found {
        begin_earlier(store, region, end)?;
        end = region.offset + region.len;
    }
    for (offset, superblock) in &hits.superblocks {
        let around =
            found.iter_mut().find(|region| (region.offset..region.offset + region.len).contains(offset));
        match around.map(|region| &mut region.content) {
            None => found.push(bare_ubifs(*offset, superblock, size)),
            Some(Content::Ubi(shape) | Content::UbiWithOob { ubi: shape, .. }) => {
                shape.min_io_bytes.get_or_insert(superblock.min_io_bytes);
            }
            Some(Content::Ubifs { .. }) => {}
        }
    }
    found.sort_by_key(|found| found.offset);
    Ok(found)
}

fn search(store: &mut dyn Store, size: u64) -> Result<Hits, ImageError> {
    let (ec, node) = (memmem::Finder::new(EC_MAGIC), memmem::Finder::new(&NODE_MAGIC));
    let mut hits = Hits::default();
    let mut buffer = Vec::new();
    let mut start = 0;
    while start < size {
        let len = (size - start).min((CHUNK + OVERLAP) as u64);
        buffer.resize(usize::try_from(len).unwrap_or(0), 0);
        store.read_at(start, &mut buffer).map_err(ImageError::Store)?;
        let here = |at: &usize| *at < CHUNK;
        let headers = ec.find_iter(&buffer).take_while(here);
        hits.ec.extend(headers.filter_map(|at| Some((start + at as u64, ec_header(buffer.get(at..)?)?))));
        let nodes = node.find_iter(&buffer).take_while(here);
        hits.superblocks
            .extend(nodes.filter_map(|at| Some((start + at as u64, superblock(buffer.get(at..)?)?))));
        start += CHUNK as u64;
    }
    Ok(hits)
}

/// Takes PEBs before the first good EC header in, down to a byte, whose own EC header is damaged: the VID header is good, or most
/// of the EC header.
fn begin_earlier(store: &mut dyn Store, region: &mut Found, down_to: u64) -> Result<(), ImageError> {
    let Content::Ubi(shape) = region.content else { return Ok(()) };
    let peb = u64::from(shape.peb_bytes);
    let mut offsets = [0; 8];
    offsets[..4].copy_from_slice(&shape.vid_header_offset.to_be_bytes());
    offsets[4..].copy_from_slice(&shape.data_offset.to_be_bytes());
    while region.offset >= down_to + peb {
        let start = region.offset - peb;
        let (mut ec, mut vid) = ([0; EC_BYTES], [0; EC_BYTES]);
        store.read_at(start, &mut ec).map_err(ImageError::Store)?;
        store.read_at(start + u64::from(shape.vid_header_offset), &mut vid).map_err(ImageError::Store)?;
        let is_like_ec = ec.starts_with(EC_MAGIC) || ec[16..24] == offsets;
        if !is_like_ec && VidHeader::parse(&vid, ReadFlips::default()).is_err() {
            return Ok(());
        }
        (region.offset, region.len) = (start, region.len + peb);
    }
    Ok(())
}

fn ec_header(bytes: &[u8]) -> Option<EcHeader> {
    EcHeader::parse(bytes.get(..EC_BYTES)?, ReadFlips::default()).ok()
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

fn bare_ubifs(offset: u64, superblock: &Superblock, size: u64) -> Found {
    let (leb_bytes, min_io_bytes) = (superblock.leb_bytes, superblock.min_io_bytes);
    let whole = u64::from(leb_bytes) * u64::from(superblock.leb_count);
    Found { offset, len: whole.min(size - offset), content: Content::Ubifs { leb_bytes, min_io_bytes } }
}

/// EC headers in even distances, with the same offsets in them, are UBI devices.
fn ubi_regions(hits: &[(u64, EcHeader)], size: u64) -> Vec<Found> {
    let mut regions = Vec::new();
    let mut rest = hits;
    while let Some(&(offset, first)) = rest.first() {
        let same = |header: &EcHeader| {
            (header.vid_header_offset, header.data_offset, header.image_seq)
                == (first.vid_header_offset, first.data_offset, first.image_seq)
        };
        let stride = stride(rest, &same);
        let fits = |(at, header): &(u64, EcHeader)| {
            same(header) && (at - offset).is_multiple_of(stride.unwrap_or(size))
        };
        let members = rest
            .iter()
            .take_while(|(at, header)| fits(&(*at, *header)) || !same(header) && inside(rest, *at, stride))
            .count();
        let last = rest[..members.max(1)].last().map_or(offset, |&(at, _)| at);
        let stride = stride.unwrap_or(size - offset);
        let end = last.saturating_add(stride).min(size);
        regions.extend(region(offset, end, stride, &first, size));
        rest = rest.iter().position(|&(at, _)| at >= end).map_or(&[], |next| &rest[next..]);
    }
    regions
}

/// Whether a header lies inside a PEB (an image stored in a volume) and not where one begins.
fn inside(hits: &[(u64, EcHeader)], at: u64, stride: Option<u64>) -> bool {
    let Some((first, stride)) = hits.first().map(|hit| hit.0).zip(stride) else { return false };
    !(at - first).is_multiple_of(stride)
}

/// The distance from a header to the next that occurs most often, the smallest of equals.
fn stride(hits: &[(u64, EcHeader)], same: &impl Fn(&EcHeader) -> bool) -> Option<u64> {
    let offsets: Vec<u64> =
        hits.iter().filter(|(_, header)| same(header)).map(|hit| hit.0).take(4096).collect();
    let mut counts = std::collections::BTreeMap::new();
    for pair in offsets.windows(2) {
        *counts.entry(pair[1] - pair[0]).or_insert(0u32) += 1;
    }
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|&(_, count)| count == most).map(|(distance, _)| distance)
}

fn region(offset: u64, end: u64, stride: u64, header: &EcHeader, size: u64) -> Option<Found> {
    let (vid_header_offset, data_offset) = (header.vid_header_offset, header.data_offset);
    let shape = |peb_bytes| UbiShape { peb_bytes, vid_header_offset, data_offset, min_io_bytes: None };
    let pages = (!stride.is_power_of_two()).then(|| page_shape(stride, data_offset)).flatten();
    let content = match pages {
        Some(pages) => {
            Content::UbiWithOob { pages, ubi: shape(pages.page_bytes.checked_mul(pages.pages_per_block)?) }
        }
        None if PEB_BYTES.contains(&stride) || stride == size - offset => {
            Content::Ubi(shape(u32::try_from(stride).ok()?))
        }
        None => return None,
    };
    // A PEB that is erased or bad has no header: what follows the last one in whole PEBs belongs to the device.
    let rest = size - end;
    let len = end - offset + rest - rest % stride;
    Some(Found { offset, len, content })
}

/// Pages and OOB that make up a block of so many bytes. Where several do, the one whose block most chips have.
fn page_shape(stride: u64, data_offset: u32) -> Option<PageShape> {
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
