//! Tests with CFI query structures of real chips, and with invented ones.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use crate::common::{dump, mangle};
use floatgate_media::List;
use floatgate_media::cfi::{
    self, AmdBase, AmdTable, AmdV11, AmdV15, BusView, Cfi, CfiIdentification, EraseRegion, Extended,
    IntelProtection, IntelTable,
};
use proptest::prelude::*;

/// Macronix 256 Mbit, AMD command set, table version 1.3.
const MX29GL256: &str = "
    10: 515259 0200 4000 0000 0000 27 36 00 00 03 06 09 13 03 05 03 02 19 0200 0600 01
    2d: ff000002
    40: 505249 31 33 14 02 01 00 08 00 00 02 95 a5 05 01
";

/// Intel 28F160S5, command set 1, table version 1.0.
const I28F160S5: &str = "
    10: 515259 0100 3100 0000 0000 27 55 27 55 03 06 0a 0f 04 04 04 04 15 0200 0500 01
    2d: 1f000001
    31: 505249 31 30 0f000000 01 0300 50 50 00
";

/// Intel with two regions, table version 1.3 and a protection register.
const INTEL_256: &str = "
    10: 515259 0100 0a01 0000 0000 17 20 85 95 08 09 0a 00 01 01 02 00 19 0100 0600 02
    2d: fe000002 03800000
    10a: 505249 31 33 e6030040 01 0300 18 90 02 8000 03 03
";

/// Query bytes of a device as a bus of this width returns them.
fn shown(device: &[u8], view: BusView) -> Vec<u8> {
    match view {
        BusView::X8 => device.to_vec(),
        BusView::X16 => device.iter().flat_map(|byte| [*byte, 0]).collect(),
        BusView::X16AsX8 => device.iter().flat_map(|byte| [*byte, *byte]).collect(),
    }
}

const VIEWS: [BusView; 3] = [BusView::X8, BusView::X16, BusView::X16AsX8];

/// Parses a dump and checks that it is emitted byte for byte on every bus.
fn exact(text: &str) -> Cfi {
    let device = dump(text, 0);
    let parsed = cfi::parse(&device, BusView::X8).unwrap();
    for view in VIEWS {
        let bytes = shown(&device, view);
        assert_eq!(cfi::parse(&bytes, view), Ok(parsed));
        let mut out = vec![0; bytes.len()];
        assert_eq!(cfi::emit(&parsed, view, &mut out), Ok(bytes.len()));
        assert_eq!(out, bytes);
    }
    parsed
}

#[test]
fn amd_command_set() {
    let cfi = exact(MX29GL256);
    let id = cfi.identification;
    assert_eq!((id.command_set, id.interface), (2, 2));
    assert_eq!((id.chip_bytes(), id.buffer_bytes()), (Some(32 << 20), Some(64)));
    assert_eq!((id.word_us(), id.buffer_us()), (Some(8), Some(64)));
    assert_eq!((id.block_erase_ms(), id.chip_erase_ms()), (Some(512), Some(524_288)));
    assert_eq!((id.word_max_us(), id.buffer_max_us()), (Some(64), Some(2048)));
    assert_eq!((id.block_erase_max_ms(), id.chip_erase_max_ms()), (Some(4096), Some(2_097_152)));
    let [region] = cfi.regions.as_slice() else { panic!("one region") };
    assert_eq!((region.blocks(), region.block_bytes()), (256, 128 << 10));
    let Some(Extended::Amd { version, table }) = cfi.extended else { panic!("an AMD table") };
    assert_eq!(version, *b"13");
    assert_eq!((table.base.erase_suspend, table.base.page), (2, 2));
    assert_eq!((table.v11.unwrap().boot, table.program_suspend), (5, Some(1)));
    assert!(table.v15.is_none());
}

#[test]
fn intel_command_set() {
    let cfi = exact(I28F160S5);
    assert_eq!(cfi.identification.chip_bytes(), Some(2 << 20));
    let Some(Extended::Intel { table, protection, .. }) = cfi.extended else { panic!("an Intel table") };
    assert_eq!((table.features, table.vcc, protection), (0x0f, 0x50, None));

    let cfi = exact(INTEL_256);
    assert_eq!(cfi.regions.iter().map(EraseRegion::blocks).collect::<Vec<_>>(), [255, 32772]);
    assert_eq!(cfi.regions[1].block_bytes(), 128);
    assert_eq!(cfi.identification.chip_erase_ms(), None);
    let Some(Extended::Intel { protection, .. }) = cfi.extended else { panic!("an Intel table") };
    assert_eq!(protection.unwrap().lock_at, 0x80);
}

#[test]
fn emit_refuses_contradictions() {
    let good = exact(MX29GL256);
    let mut out = [0; 0x200];
    let mut error = |cfi: &Cfi| cfi::emit(cfi, BusView::X8, &mut out).unwrap_err().to_string();
    let mut none = good;
    none.extended = None;
    assert_eq!(error(&none), "byte 0x0: extended table does not match the command set");
    let mut other = good;
    other.identification.command_set = 1;
    assert_eq!(error(&other), "byte 0x0: extended table does not match the command set");
    let mut early = good;
    early.identification.extended_at = 0x20;
    assert_eq!(error(&early), "byte 0x0: extended table overlaps the query");
    let mut version = good;
    if let Some(Extended::Amd { version, .. }) = &mut version.extended {
        *version = *b"15";
    }
    assert_eq!(error(&version), "byte 0x0: AMD table parts do not match its version");
}

#[test]
fn corruption_never_panics() {
    for text in [MX29GL256, I28F160S5, INTEL_256] {
        let device = dump(text, 0);
        for end in 0..device.len() {
            assert!(cfi::parse(&device[..end], BusView::X8).is_err());
        }
        let mut out = vec![0; 1 << 18];
        mangle(&device, |bytes| {
            for view in VIEWS {
                let Ok(parsed) = cfi::parse(bytes, view) else {
                    continue;
                };
                if let Ok(end) = cfi::emit(&parsed, view, &mut out) {
                    let again = cfi::parse(&out[..end], view).map(|cfi| cfi.extended);
                    assert_eq!(again, Ok(parsed.extended));
                }
            }
        });
    }
}

prop_compose! {
    fn any_extended()(
        kind in 0u8..3,
        minor in b'0'..=b'9',
        bytes in any::<[u8; 16]>(),
        fields in 0u8..3,
    ) -> (u16, Option<Extended>) {
        let version = [b'1', minor];
        match kind {
            0 => (0, None),
            1 => {
                let protection = IntelProtection { user_exponent: bytes[0], ..Default::default() };
                let table =
                    IntelTable { vcc: bytes[1], protection_fields: fields, ..Default::default() };
                let protection = (fields > 0).then_some(protection);
                (1, Some(Extended::Intel { version, table, protection }))
            }
            _ => {
                let base = AmdBase { burst: bytes[2], ..Default::default() };
                let v11 = AmdV11 { boot: bytes[3], ..Default::default() };
                let v15 = AmdV15 { software: bytes[4], ..Default::default() };
                let table = AmdTable {
                    base,
                    v11: (minor >= b'1').then_some(v11),
                    program_suspend: (minor >= b'3').then_some(bytes[5]),
                    v15: (minor >= b'5').then_some(v15),
                };
                (2, Some(Extended::Amd { version, table }))
            }
        }
    }
}

proptest! {
    #[test]
    fn round_trip(
        (command_set, extended) in any_extended(),
        size_exponent in 0u8..64,
        times in any::<[u8; 8]>(),
        shapes in prop::collection::vec(any::<(u16, u16)>(), 0..8),
        view in prop::sample::select(VIEWS.to_vec()),
    ) {
        let regions: Vec<_> = shapes
            .iter()
            .map(|&(more_blocks, size_code)| EraseRegion { more_blocks, size_code })
            .collect();
        let identification = CfiIdentification {
            signature: *b"QRY",
            command_set,
            extended_at: if extended.is_some() { 0x60 } else { 0 },
            size_exponent,
            word_typical: times[0],
            chip_erase_max: times[1],
            regions: regions.len() as u8,
            ..CfiIdentification::default()
        };
        let cfi = Cfi { identification, regions: List::from_slice(&regions).unwrap(), extended };
        let mut out = [0; 0x100];
        let end = cfi::emit(&cfi, view, &mut out).unwrap();
        prop_assert_eq!(cfi::parse(&out[..end], view), Ok(cfi));
    }

    #[test]
    fn anything_is_answered(tail in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = vec![0; 16];
        bytes.extend(b"QRY");
        bytes.extend(tail);
        let _ = cfi::parse(&bytes, BusView::X8);
    }
}
