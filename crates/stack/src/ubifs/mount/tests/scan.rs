//! Tests of scanning the bytes of a LEB.

use super::*;
use crate::ubifs::scan::{Scanned, first_written, scan, scan_node};
use floatgate_media::ubifs::pad;

/// Scans a LEB of the main area with these contents.
fn scanned(bytes: &[u8], start: u32) -> Result<(Vec<u32>, u32)> {
    let mut core = fresh();
    let lnum = core.io.layout().limits.main.end - 1;
    core.io.change(lnum, bytes).unwrap();
    let leb = scan(&mut core.io, lnum, start)?;
    assert!(leb.nodes.iter().all(|node| leb.frame(node).is_ok()));
    Ok((leb.nodes.iter().map(|node| node.place.offset).collect(), leb.end))
}

/// Bytes of two nodes of 64 bytes each, with padding up to a minimum I/O unit.
fn two_nodes() -> Vec<u8> {
    let mut bytes = nodes(&mut fresh(), &[(b"one", Group::None), (b"two", Group::Last)]);
    assert_eq!(bytes.len(), 128);
    bytes.resize(UNIT as usize, 0);
    pad(&mut bytes[128..]);
    bytes
}

#[test]
fn nodes_padding_and_empty_space() {
    let bytes = two_nodes();
    assert_eq!(scanned(&bytes, 0), Ok((vec![0, 64], UNIT)));
    assert_eq!(scanned(&[&bytes[..], &bytes].concat(), UNIT), Ok((vec![UNIT, UNIT + 64], 2 * UNIT)));
    assert_eq!(scanned(&[], 0), Ok((vec![], 0)));
    assert_eq!(scanned(&vec![0xFF; LEB as usize], LEB - UNIT), Ok((vec![], LEB - UNIT)));
}

#[test]
fn padding_too_short_for_a_node() {
    let mut bytes = two_nodes();
    bytes[128..].fill(0xCE);
    pad(&mut bytes[152..]);
    assert_eq!(scanned(&bytes, 0), Ok((vec![0, 64], UNIT)));
    // 20 padding bytes end at an offset at which no node can begin.
    bytes[148..].fill(0xFF);
    assert!(scanned(&bytes, 0).unwrap_err().is_damage());
}

#[test]
fn damage_has_its_place() {
    let good = two_nodes();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        scanned(&bytes, 0).unwrap_err()
    };
    assert!(matches!(with(100, 0x55), Error::Node { offset: 64, .. }));
    assert!(matches!(with(64, 0), Error::Corrupt { offset: 64, .. }));
    // This byte is in the length field of the padding node.
    assert!(matches!(with(128 + 24, 0xFF), Error::Node { offset: 128, .. }));
    let hole = [&good[..], &vec![0xFF; UNIT as usize], &good].concat();
    assert!(matches!(scanned(&hole, 0), Err(Error::Corrupt { offset: 1024, .. })));
    let mut open = good.clone();
    open[128..].fill(0xFF);
    assert!(matches!(scanned(&open, 0), Err(Error::Corrupt { offset: 128, .. })));
}

#[test]
fn padding_past_the_end_is_no_padding() {
    let mut bytes = vec![0; 64];
    pad(&mut bytes);
    assert!(matches!(scan_node(&bytes), Scanned::Padding(64)));
    assert!(matches!(scan_node(&bytes[..56]), Scanned::BadPadding));
    assert!(matches!(scan_node(&[0xFF; 8]), Scanned::Empty));
    assert!(matches!(scan_node(&bytes[..16]), Scanned::Garbage));
    assert!(matches!(scan_node(&[0xCE; 8]), Scanned::Padding(8)));
}

#[test]
fn the_first_written_byte_is_found() {
    let mut bytes = vec![0xFF; 10_000];
    assert_eq!(first_written(&bytes), None);
    for at in [9_999, 8_192, 4_096, 4_095, 0] {
        bytes[at] = 0xFE;
        assert_eq!(first_written(&bytes), Some(at));
    }
}
