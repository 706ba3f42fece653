//! Legacy images of U-Boot: a header of 64 bytes with two checksums.

use super::{Begins, Probe};
use crate::map::probe_match::{Inner, Kind, ProbeMatch};
use crate::map::view::{Numbers, View};
use floatgate_media::crc;

pub(super) const PROBE: Probe =
    Probe { begins: Begins::Magic { at: 0, magics: &[&[0x27, 0x05, 0x19, 0x56]], step: 1 }, probe };

const HEADER_BYTES: usize = 64;

/// Names of image types, by number.
const TYPES: [&str; 15] = [
    "invalid",
    "standalone",
    "kernel",
    "ramdisk",
    "multi-file",
    "firmware",
    "script",
    "filesystem",
    "device tree",
    "kwbimage",
    "imximage",
    "UBL",
    "OMAP",
    "AIS",
    "kernel without load address",
];

/// Type whose data begins with a list of lengths.
const MULTI: u8 = 4;
const SCRIPT: u8 = 6;

/// Largest number of images in a multi-file image.
const MAX_IMAGES: usize = 32;

/// Names of compressions, by number.
pub(super) const COMPRESSIONS: [&str; 7] = ["none", "gzip", "bzip2", "lzma", "lzo", "lz4", "zstd"];

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let mut header = view.array::<HEADER_BYTES>(0)?;
    let stored = header[..].be32(4);
    header[4..8].fill(0);
    if !crc::ubi(&header) != stored {
        return None;
    }
    let header = &header[..];
    let size = u64::from(header.be32(12));
    let name = |names: &[&'static str], code: u8| names.get(usize::from(code)).copied().unwrap_or("unknown");
    let end = HEADER_BYTES as u64 + size;
    let sum = view.crc32(HEADER_BYTES as u64..end);
    let found = ProbeMatch::new(Kind::UImage, end)
        .text("name", header.text(32, 32))
        .text("type", name(&TYPES, header[30]))
        .text("compression", name(&COMPRESSIONS, header[31]))
        .number("time", header.be32(8))
        .number("load", header.be32(16))
        .number("entry", header.be32(20))
        .sum_if_whole(sum.map(|sum| sum == header.be32(24)));
    Some(inner(view, header[30], size).into_iter().fold(found, ProbeMatch::with))
}

/// Images after the header; for a list, the images with the listed lengths.
fn inner(view: &View<'_>, kind: u8, size: u64) -> Vec<Inner> {
    let start = HEADER_BYTES as u64;
    if kind != MULTI && kind != SCRIPT {
        return vec![Inner::new("payload", start, size)];
    }
    let lengths =
        (0..MAX_IMAGES as u64).map_while(|index| view.be32(start + 4 * index).filter(|len| *len > 0));
    let lengths: Vec<u64> = lengths.map(u64::from).collect();
    let mut at = start + 4 * (lengths.len() as u64 + 1);
    let mut inner = Vec::new();
    for (index, len) in lengths.into_iter().enumerate() {
        inner.push(Inner::new(format!("image {index}"), at, len));
        at += len.next_multiple_of(4);
    }
    inner
}
