//! YAFFS2: headers of objects in pages, with tags in the OOB or at the end of the page.

use super::{Begins, Probe};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};
use crate::yaffs::{self, Chunk, Shape};

/// Size of the largest range in front of a filesystem that is no multiple of a usual alignment, such as the header of a programmer, bytes.
const FRONT: usize = 64 << 10;

pub(super) const PROBE: Probe =
    Probe { begins: Begins::Head { step: 32, front: FRONT, test: yaffs::begins }, probe };

/// Distances between pages of a dump without tags: without OOB, and with the OOB of common chips.
const STRIDES: [u64; 7] = [2048, 2112, 2176, 4096, 4224, 4320, 512];

/// Smallest number of headers for a match.
const MIN_HEADERS: u64 = 2;

/// Largest number of pages of a file without a header.
const MAX_FILE_PAGES: u64 = 1 << 16;

/// Number of examined bytes of a header.
const HEADER: usize = 300;

/// Number of chunks without good tags, as in bad blocks, that end the filesystem.
const MAX_BROKEN: u64 = 512;

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    with_tags(view).or_else(|| STRIDES.iter().find_map(|&stride| without_tags(view, stride)))
}

/// Filesystem whose chunks have tags, with a header at the start of the range.
fn with_tags(view: &View<'_>) -> Option<ProbeMatch> {
    let shape = Shape::find(&|at, buf| view.read(at, buf), 0)?;
    let stride = shape.stride();
    let mut bytes = vec![0; usize::try_from(stride).ok()?];
    let (mut end, mut chunks, mut headers, mut broken) = (0, 0_u64, 0_u64, 0);
    for at in (0..view.len()).step_by(bytes.len()) {
        if end == at && is_cut(view, at, stride) {
            end = at + stride;
        }
        if broken > MAX_BROKEN || view.read(at, &mut bytes).is_none() {
            break;
        }
        match shape.chunk(&bytes) {
            Chunk::Written(tags) => {
                (end, broken, chunks) = (at + stride, 0, chunks + 1);
                headers += u64::from(tags.is_header() && !tags.is_copy());
            }
            Chunk::Erased => {}
            Chunk::Broken => broken += 1,
        }
    }
    // A single header without an ECC for its tags may be other data.
    if chunks < if shape.has_ecc { 1 } else { MIN_HEADERS } {
        return None;
    }
    let mut before = 0;
    for back in 1.. {
        let Some(wider) = view.widened(back * stride) else { break };
        if back * stride - before > MAX_BROKEN * stride || wider.read(0, &mut bytes).is_none() {
            break;
        }
        if let Chunk::Written(_) = shape.chunk(&bytes) {
            before = back * stride;
        }
    }
    let found = ProbeMatch { before, ..ProbeMatch::new(Kind::Yaffs, end) }
        .number("page_bytes", shape.page)
        .number("oob_bytes", shape.oob)
        .text("tags", shape.place())
        .text("byte_order", shape.order.name())
        .number("headers", headers);
    Some(if shape.has_ecc { found.sum_is(true) } else { found })
}

/// True if a range ends within a page that is not erased.
fn is_cut(view: &View<'_>, at: u64, stride: u64) -> bool {
    let rest = view.len() - at;
    let bytes = (rest < stride).then(|| view.bytes(at, usize::try_from(rest).ok()?)).flatten();
    bytes.is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0xFF))
}

/// Filesystem without tags. It ends where the data of a file does not follow its header.
fn without_tags(view: &View<'_>, stride: u64) -> Option<ProbeMatch> {
    let (mut at, mut headers, mut files, mut end) = (0, 0_u64, 0_u64, 0);
    while let Some(head) = view.bytes(at, HEADER) {
        if !yaffs::begins(&head) {
            break;
        }
        let is_big = head[0] == 0;
        let number = |at| if is_big { head.be32(at) } else { head.le32(at) };
        headers += 1;
        let mut pages = 1;
        if number(0) == 1 {
            files += 1;
            let page = stride / 512 * 512;
            pages += u64::from(number(292)).div_ceil(page);
        }
        if pages > MAX_FILE_PAGES {
            break;
        }
        at += pages * stride;
        end = at;
    }
    (headers >= MIN_HEADERS).then(|| {
        ProbeMatch::new(Kind::Yaffs, end.min(view.len()))
            .number("page_stride", stride)
            .number("objects", headers)
            .number("files", files)
            .text("tags", "missing: the dump has no OOB")
    })
}
