//! Search for headers of UBI and superblocks of UBIFS in a file.

use floatgate_media::crc;
use floatgate_media::ubi::{EC_MAGIC, EcHeader, ReadFlips, VidHeader};
use floatgate_media::ubifs::{Frame, NODE_MAGIC, Node, Superblock};
use floatgate_stack::store::Store;
use memchr::memmem;

use crate::ImageError;

/// Number of bytes of a file that are examined at a time.
const CHUNK: usize = 4 << 20;

/// Number of bytes after a magic number that a search may need: the size of a superblock node.
pub(crate) const OVERLAP: usize = 4096;

/// Size of an EC header, bytes.
const EC_BYTES: usize = 64;

/// Largest number of headers and superblocks that are stored, as a limit for hostile files.
const HITS: usize = 1 << 20;
const SUPERBLOCKS: usize = 4096;

/// Offset of the type in a node, and the type of a superblock.
const TYPE_AT: usize = 20;
const SUPERBLOCK_TYPE: u8 = 6;

/// Headers found by a search, with their offsets in the file.
#[derive(Default)]
pub(crate) struct Hits {
    pub(crate) ec: Vec<(u64, EcHeader)>,
    pub(crate) superblocks: Vec<(u64, Superblock)>,
}

/// Finds headers and superblocks. If all EC headers are damaged, headers with a wrong CRC and possible fields count,
/// if a VID header follows them.
pub(crate) fn search_all(store: &mut dyn Store, size: u64) -> Result<Hits, ImageError> {
    let hits = search(store, size, (ec_header, superblock))?;
    if hits.ec.is_empty() { search(store, size, (damaged_ec_header, superblock)) } else { Ok(hits) }
}

/// Parsers of an EC header and of a superblock.
type Parsers = (fn(&[u8]) -> Option<EcHeader>, fn(&[u8]) -> Option<Superblock>);

/// Finds headers and superblocks like [`search_all`], and also superblocks with a wrong CRC.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn search_damaged(store: &mut dyn Store, size: u64) -> Result<Hits, ImageError> {
    search(store, size, (ec_header, damaged_superblock))
}

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
    // The erase counter has no effect here.
    header[8..16].fill(0);
    let sum = crc::ubi(&header[..EC_BYTES - 4]);
    header[EC_BYTES - 4..].copy_from_slice(&sum.to_be_bytes());
    let header = ec_header(&header)?;
    let vid = bytes.get(header.vid_header_offset as usize..)?;
    VidHeader::parse(vid.get(..EC_BYTES)?, ReadFlips::default()).ok().map(|_| header)
}

/// Superblock with a wrong CRC, if all its fields are possible. The node has few fields, and is mostly empty.
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
