//! Broadcom's image tag before a firmware, and CFE, the boot loader of its boards, with its NVRAM.

use super::{Begins, Probe};
use crate::map::probe_match::{Inner, Kind, ProbeMatch};
use crate::map::view::{Numbers, View};
use floatgate_media::crc;

pub(super) const TAG: Probe =
    Probe { begins: Begins::Magic { at: 4, magics: &[b"Broadcom Corporatio"], step: 4 }, probe: tag };
pub(super) const CFE: Probe =
    Probe { begins: Begins::Magic { at: CFE_AT, magics: &[b"CFE1CFE1"], step: 4096 }, probe: cfe };

/// Length of the tag, and position of its checksum, which covers the bytes before it.
const TAG_BYTES: u64 = 256;
const TAG_SUM: usize = 236;

/// Positions in CFE: its mark, its version and its NVRAM.
const CFE_AT: usize = 0x4E0;
const VERSION_AT: usize = 0x570;
const NVRAM_AT: usize = 0x580;

/// Smallest size of the CFE block, bytes.
const CFE_BYTES: u64 = 64 << 10;

/// Versions of the NVRAM: the length that its checksum covers, and the position of the checksum.
const NVRAM_SUMS: [(u32, usize, usize); 4] =
    [(4, 300, 296), (5, 1024, 1020), (6, 1024, 1020), (7, 3072, 3068)];

/// Parses a decimal number in a text field.
fn decimal(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    bytes.text(at, len).trim().parse().ok()
}

fn tag(view: &View<'_>) -> Option<ProbeMatch> {
    let tag = view.bytes(0, TAG_BYTES as usize)?;
    let total = decimal(&tag, 62, 10)?;
    let found = ProbeMatch::new(Kind::BroadcomTag, TAG_BYTES + total)
        .text("version", tag.text(0, 4))
        .text("chip", tag.text(38, 6))
        .text("board", tag.text(44, 16))
        .sum_is(crc::ubi(&tag[..TAG_SUM]) == tag.be32(TAG_SUM));
    // The image begins with its root filesystem or its kernel, whichever has the lower address.
    let parts = [("rootfs", 94, 106), ("kernel", 116, 128), ("CFE", 72, 84)];
    let placed = parts.iter().filter_map(|&(name, at, len)| {
        Some((
            name,
            decimal(&tag, at, 12).filter(|at| *at > 0)?,
            decimal(&tag, len, 10).filter(|len| *len > 0)?,
        ))
    });
    let placed: Vec<(&str, u64, u64)> = placed.collect();
    let first = placed.iter().map(|part| part.1).min().unwrap_or(0);
    let inside = placed.iter().filter(|part| part.1 - first + part.2 <= total);
    Some(
        inside
            .fold(found, |found, &(name, at, len)| found.with(Inner::new(name, TAG_BYTES + at - first, len))),
    )
}

fn cfe(view: &View<'_>) -> Option<ProbeMatch> {
    let nvram_max = 3072;
    let bytes = view.bytes(0, NVRAM_AT + nvram_max)?;
    let version = bytes.get(VERSION_AT..)?;
    let version = match version.strip_prefix(b"cfe-v") {
        Some(numbers) => numbers.iter().take(5).map(u8::to_string).collect::<Vec<_>>().join("."),
        None => String::new(),
    };
    let nvram = bytes.get(NVRAM_AT..)?;
    let sum = NVRAM_SUMS.iter().find(|sum| sum.0 == nvram.be32(0)).and_then(|&(_, len, at)| {
        let mut covered = nvram.get(..len)?.to_vec();
        covered.get_mut(at..at + 4)?.fill(0);
        Some(crc::ubi(&covered) == nvram.be32(at))
    });
    let mac: Vec<String> = nvram.get(288..294)?.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(
        ProbeMatch::new(Kind::Cfe, CFE_BYTES.min(view.len()))
            .text("version", version)
            .text("board", nvram.text(260, 16))
            .text("mac", mac.join(":"))
            .text("bootline", nvram.text(4, 256))
            .sum_if_whole(sum),
    )
}
