//! YAFFS2: headers of objects in pages. Which page belongs to which file stands in the OOB, or at the end of the page.

use super::{Begins, Probe};
use crate::map::found::{Found, Kind};
use crate::map::view::{Numbers, View};

pub(super) const PROBE: Probe = Probe { begins: Begins::Head { step: 512, test: begins }, probe };

/// Distances between pages, bytes: without OOB, and with the OOB of common chips.
const STRIDES: [u64; 7] = [2048, 2112, 2176, 4096, 4224, 4320, 512];

/// Fewest headers that are believed.
const MIN_HEADERS: u64 = 2;

/// Pages without a header that a file has at most.
const MAX_FILE_PAGES: u64 = 1 << 16;

/// Bytes of a header that are looked at.
const HEADER: usize = 300;

/// True when the header of an object begins: a type, a parent, a checksum that is no longer used, a name, a mode.
fn begins(head: &[u8]) -> bool {
    let word = |at| if head.first() == Some(&0) { head.be32(at) } else { head.le32(at) };
    let name = head.get(10..266).unwrap_or_default();
    let len = memchr::memchr(0, name).unwrap_or(0);
    let is_printable = name.iter().take(len).all(|byte| !byte.is_ascii_control());
    let (kind, mode) = (word(0), word(268));
    let is_mode = match kind {
        1 => mode >> 12 == 8,
        2 => mode >> 12 == 10,
        3 => mode >> 12 == 4,
        4 => true,
        5 => matches!(mode >> 12, 1 | 2 | 6 | 12),
        _ => false,
    };
    is_mode
        && (1..1 << 18).contains(&word(4))
        && head.get(8..10) == Some(&[0xFF, 0xFF])
        && is_printable
        && (len > 0 || kind == 3)
}

fn probe(view: &View<'_>) -> Option<Found> {
    STRIDES.iter().find_map(|&stride| with_stride(view, stride))
}

fn with_stride(view: &View<'_>, stride: u64) -> Option<Found> {
    let (mut at, mut headers, mut files, mut end) = (0, 0_u64, 0_u64, 0);
    while let Some(head) = view.bytes(at, HEADER) {
        if !begins(&head) {
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
        Found::new(Kind::Yaffs, end.min(view.len()))
            .number("page_stride", stride)
            .number("objects", headers)
            .number("files", files)
    })
}
