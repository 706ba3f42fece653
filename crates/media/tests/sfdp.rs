//! Tests with SFDP areas of invented chips, with broken areas, and with arbitrary bytes.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use crate::common::sfdp_dumps::{MX25UW51245G, SST26VF064B, W25Q01, W25Q128};
use crate::common::{dump, mangle};
use floatgate_media::sfdp::{
    self, Bfpt, BfptBasic, BfptDtr, BfptOctal, BfptTiming, FastRead, FourByte, Lines, Map, OctalSequence,
    OtherTable, Profile1, Region, Sccr, SectorMap, Sfdp, Table,
};
use floatgate_media::{List, Reason};
use proptest::prelude::*;

#[test]
fn density_codes() {
    let bytes = |density| {
        let basic = BfptBasic { density, ..BfptBasic::default() };
        Bfpt { basic, ..Bfpt::default() }.capacity_bytes()
    };
    assert_eq!(bytes(0x07ff_ffff), Some(16 << 20));
    assert_eq!(bytes(0x8000_0020), Some(512 << 20));
    assert_eq!(bytes(0x8000_003f), Some(1 << 60));
    assert_eq!((bytes(0x8000_0040), bytes(u32::MAX), bytes(6)), (None, None, None));
    for size in [1, 4096, 3 << 20, 256 << 20, 512 << 20, 1 << 40] {
        assert_eq!(bytes(Bfpt::density_code(size).unwrap()), Some(size), "{size}");
    }
    assert_eq!(Bfpt::density_code(0), None);
    assert_eq!(Bfpt::density_code((1 << 40) + 1), None);
}

/// Tables laid out for an invented chip.
fn invented() -> Sfdp {
    let density = Bfpt::density_code(32 << 20).unwrap();
    let basic = BfptBasic { density, ..BfptBasic::default() };
    let octal = BfptOctal::default();
    let timing = BfptTiming { page_exponent: 8, ..BfptTiming::default() };
    let dtr = BfptDtr { has_4d: true, ..BfptDtr::default() };
    let body = Bfpt { basic, timing: Some(timing), octal: Some(octal), dtr: Some(dtr) };
    let mut sfdp = Sfdp {
        minor: 10,
        access_protocol: 0xff,
        bfpt: Table::new(1, 10, body),
        sector_map: Some(Table::new(1, 0, SectorMap::uniform(32 << 20, 1).unwrap())),
        profile1: Some(Table::new(1, 0, Profile1::default())),
        sccr: Some(Table::new(1, 0, Sccr::default())),
        octal_sequence: Some(Table::new(1, 0, OctalSequence::default())),
        four_byte: Some(Table::new(1, 0, FourByte::default())),
        ..Sfdp::default()
    };
    sfdp.lay_out().unwrap();
    sfdp
}

#[test]
fn laid_out_tables_round_trip() {
    let sfdp = invented();
    let mut out = [0xff; 1024];
    let end = sfdp::emit(&sfdp, &mut out).unwrap();
    assert_eq!(sfdp::parse(&out[..end]), Ok(sfdp));
    assert_eq!(sfdp.bfpt.pointer, 64);
    let dtr = sfdp.bfpt.body.fast_read(Lines::D144);
    assert_eq!((dtr, sfdp.bfpt.body.fast_read(Lines::D111)), (Some(FastRead::default()), None));
}

#[test]
fn emit_refuses_what_no_bits_hold() {
    let mut out = [0; 1024];
    let error = |sfdp: &Sfdp, out: &mut [u8]| sfdp::emit(sfdp, out).unwrap_err().to_string();

    let mut wide = invented();
    wide.bfpt.body.basic.read_144.wait_states = 32;
    assert_eq!(error(&wide, &mut out), "byte 0x40: read_144 out of range: 32");
    let mut clash = invented();
    clash.bfpt.body.basic.reserved[1] = 1;
    assert_eq!(error(&clash, &mut out), "byte 0x40: reserved bits out of range: 0x1");
    let mut overlap = invented();
    overlap.sccr.as_mut().unwrap().pointer = 72;
    assert_eq!(error(&overlap, &mut out), "byte 0x48: tables overlap");
    let mut slots = invented();
    slots.sccr.as_mut().unwrap().slot = 1;
    assert_eq!(error(&slots, &mut out), "byte 0x0: table slot out of range: 1");
    let mut far = invented();
    far.bfpt.pointer = 1 << 24;
    assert_eq!(error(&far, &mut out), "byte 0x0: table pointer out of range: 0x1000000");
    let mut gap = invented();
    gap.bfpt.body.timing = None;
    assert_eq!(error(&gap, &mut out), "byte 0x40: a BFPT part without those before it");
    let short = sfdp::emit(&invented(), &mut out[..100]).unwrap_err();
    assert!(matches!(short.reason, Reason::NoRoom { have: 100, .. }), "{short}");
}

#[test]
fn newest_bfpt_is_taken() {
    let mut sfdp = invented();
    let old = OtherTable { id: sfdp::id::BFPT, dwords: List::from_slice(&[7; 9]).unwrap() };
    sfdp.others = List::from_slice(&[Table::new(1, 0, old)]).unwrap();
    sfdp.lay_out().unwrap();
    // The old table's header comes first, as the standard requires.
    let slot = sfdp.others[0].slot;
    sfdp.bfpt.slot = slot;
    let first = Table { slot: 0, ..sfdp.others[0] };
    sfdp.others = List::from_slice(&[first]).unwrap();
    let mut out = [0xff; 1024];
    let end = sfdp::emit(&sfdp, &mut out).unwrap();
    assert_eq!(sfdp::parse(&out[..end]), Ok(sfdp));
}

#[test]
fn corruption_never_panics() {
    for text in [W25Q128, W25Q01, SST26VF064B, MX25UW51245G] {
        let bytes = dump(text, 0xff);
        for end in 0..bytes.len() {
            assert!(sfdp::parse(&bytes[..end]).is_err(), "{end}");
        }
        let mut out = vec![0; 1 << 12];
        mangle(&bytes, |mangled| check(mangled, &mut out));
    }
}

/// Checks that parsing, emitting and parsing again yields the same tables.
fn check(bytes: &[u8], out: &mut [u8]) {
    let Ok(parsed) = sfdp::parse(bytes) else {
        return;
    };
    if let Ok(end) = sfdp::emit(&parsed, out) {
        assert_eq!(sfdp::parse(&out[..end]), Ok(parsed));
    }
}

/// DWORDs as bytes.
fn bytes_of(words: &[u32]) -> impl Iterator<Item = u8> + '_ {
    words.iter().flat_map(|word| word.to_le_bytes())
}

proptest! {
    #[test]
    fn any_dwords_re_emit_exactly(
        mut bfpt in prop::collection::vec(any::<u32>(), 23),
        parts in 0usize..4,
        power in 3u32..64,
        sccr in prop::collection::vec(any::<u32>(), 28),
        profile in prop::collection::vec(any::<u32>(), 6),
        four in any::<[u32; 2]>(),
        sequence in any::<[u32; 8]>(),
        vendor in prop::collection::vec(any::<u32>(), 0..64),
    ) {
        bfpt[1] = 1 << 31 | power;
        bfpt.truncate([9, 16, 20, 23][parts]);
        let tables: [(u16, &[u32]); 6] = [
            (0xff00, &bfpt), (0xff87, &sccr), (0xff05, &profile),
            (0xff84, &four), (0xff0a, &sequence), (0x12ef, &vendor),
        ];
        let mut bytes = b"SFDP\x0a\x01\x05\xff".to_vec();
        let mut at = 8 * 7;
        for (id, words) in tables {
            let [low, high] = id.to_le_bytes();
            bytes.extend([low, 3, 1, words.len() as u8, at as u8, (at >> 8) as u8, 0, high]);
            at += 4 * words.len();
        }
        bytes.extend(tables.iter().flat_map(|(_, words)| bytes_of(words)));
        let parsed = sfdp::parse(&bytes).unwrap();
        let mut out = vec![0; bytes.len()];
        prop_assert_eq!(sfdp::emit(&parsed, &mut out), Ok(bytes.len()));
        prop_assert_eq!(out, bytes);
    }

    #[test]
    fn sector_maps_round_trip(
        shapes in prop::collection::vec(prop::collection::vec((1u64..1 << 24, 0u8..16), 1..8), 1..8),
        padding in any::<u8>(),
    ) {
        let count = shapes.len();
        let maps: Vec<_> = shapes.iter().enumerate().map(|(index, regions)| {
            let regions: Vec<_> =
                regions.iter().map(|(units, types)| Region::new(256 * units, *types).unwrap()).collect();
            Map::new(index as u8, &regions, index + 1 == count).unwrap()
        }).collect();
        let body = SectorMap { maps: List::from_slice(&maps).unwrap(), padding, ..SectorMap::default() };
        let mut sfdp = invented();
        sfdp.sector_map = Some(Table::new(1, 0, body));
        let mut out = vec![0; 4096];
        if sfdp.lay_out().is_ok() {
            let end = sfdp::emit(&sfdp, &mut out).unwrap();
            prop_assert_eq!(sfdp::parse(&out[..end]), Ok(sfdp));
        }
    }

    #[test]
    fn anything_is_answered(tail in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut bytes = b"SFDP\x06\x01\x02\xff\x00\x06\x01\x09\x20\x00\x00\xff".to_vec();
        bytes.extend(tail);
        check(&bytes, &mut [0; 2048]);
    }
}
