//! Firmware with a TRX header: a checksum, and offsets of its parts.

use super::{Begins, Probe};
use crate::map::probe_match::{Inner, Kind, ProbeMatch};
use crate::map::view::{Numbers, View};

pub(super) const PROBE: Probe = Probe { begins: Begins::Magic { at: 0, magics: &[b"HDR0"], step: 4 }, probe };

/// First byte that the checksum covers: the flags.
const SUMMED_FROM: u64 = 12;

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let header = view.array::<32>(0)?;
    let header = &header[..];
    let len = u64::from(header.le32(4));
    let version = header.le16(14);
    let parts: usize = match version {
        1 => 3,
        2 => 4,
        _ => return None,
    };
    let header_bytes = 16 + 4 * parts as u64;
    if len < header_bytes {
        return None;
    }
    let mut offsets: Vec<u64> = (0..parts)
        .map(|index| u64::from(header.le32(16 + 4 * index)))
        .filter(|offset| (header_bytes..len).contains(offset))
        .collect();
    offsets.sort_unstable();
    offsets.dedup();
    let sum = view.crc32_raw(SUMMED_FROM..len);
    let found = ProbeMatch::new(Kind::Trx, len)
        .number("version", version)
        .sum_if_whole(sum.map(|sum| sum == header.le32(8)));
    let ends = offsets.iter().skip(1).copied().chain([len]);
    let parts = (0..).zip(offsets.iter().zip(ends));
    Some(parts.fold(found, |found, (index, (at, end))| {
        found.with(Inner::new(format!("part {index}"), *at, end - at))
    }))
}
