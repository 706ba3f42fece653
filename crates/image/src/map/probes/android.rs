//! Boot images of Android: kernel, ramdisk and device tree in pages.

use sha1::{Digest, Sha1};

use super::{Begins, Probe};
use crate::map::probe_match::{Inner, Kind, ProbeMatch};
use crate::map::view::{Numbers, View};

pub(super) const PROBE: Probe =
    Probe { begins: Begins::Magic { at: 0, magics: &[b"ANDROID!"], step: 4 }, probe };

/// Page size of versions from 3 on, bytes.
const PAGE_OF_3: u64 = 4096;

/// Position of the hash in versions up to 2.
const ID: std::ops::Range<usize> = 576..596;

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let header = view.array::<1660>(0)?;
    let header = &header[..];
    let version = header.le32(40);
    let is_old = version < 3;
    let (page, mut parts) = match version {
        0..=2 => (
            u64::from(header.le32(36)),
            vec![("kernel", header.le32(8)), ("ramdisk", header.le32(16)), ("second", header.le32(24))],
        ),
        3 | 4 => (PAGE_OF_3, vec![("kernel", header.le32(8)), ("ramdisk", header.le32(12))]),
        _ => return None,
    };
    if !(1 << 11..=1 << 17).contains(&page) || !page.is_power_of_two() {
        return None;
    }
    match version {
        1 => parts.push(("recovery_dtbo", header.le32(1632))),
        2 => parts.extend([("recovery_dtbo", header.le32(1632)), ("device tree", header.le32(1648))]),
        4 => parts.push(("signature", header.le32(1580))),
        _ => {}
    }
    let mut at = page;
    let mut found = ProbeMatch::new(Kind::AndroidBoot, 0)
        .number("version", version)
        .number("page_bytes", page)
        .text("cmdline", if is_old { header.text(64, 512) } else { header.text(44, 1536) });
    if is_old {
        found = found.text("name", header.text(48, 16));
    }
    let mut hash = Sha1::new();
    let mut is_whole = true;
    for (name, bytes) in parts {
        let range = at..at + u64::from(bytes);
        if is_old {
            is_whole &= view.each_piece(range, |piece| hash.update(piece)).is_some();
            // An empty part is also hashed, with its length.
            hash.update(bytes.to_le_bytes());
        }
        if bytes > 0 {
            found = found.with(Inner::new(name, at, bytes.into()));
            at += u64::from(bytes).next_multiple_of(page);
        }
    }
    found.len = at;
    let stored = header.get(ID)?;
    if is_old && is_whole && stored.iter().any(|&byte| byte != 0) {
        found = found.sum_is(hash.finalize()[..] == *stored);
    }
    Some(found)
}
