//! Tests with ONFI parameter pages of real chips, and with invented ones.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use crate::common::{hex, mangle};
use floatgate_media::onfi::{
    self, EccInfo, OnfiCommands, OnfiExtendedPage, OnfiFeatures, OnfiPage, OnfiRevision, Section,
};
use floatgate_media::{AddressCycles, Endurance, List, Reason, Text};
use proptest::prelude::*;

/// Micron MT29F2G08ABBEAHC: the page printed in its data sheet.
const MT29F2G: &str = "
    4F4E4649 0200 0000 3F00 0000 0000 00 0000000000000000000000000000000000
    4D4943524F4E202020202020 4D54323946324730384142424541484320202020
    2C 0000 00000000000000000000000000
    00080000 4000 00020000 1000 40000000 00080000 01 23 01 2800 0105 01 0000 04 00 04 01 0E
    00000000000000000000000000
    0A 1F00 1F00 5802 B80B 1900 6400 00 00 00 0000 0000 0000 00 00 0000 0000 0000 0000 0000 00 00
    0100 01 00 00 02 04 80 01 81 04 01 02 01 0A 00
";

/// Micron MT29F32G08ABCDBJ4: ONFI 3.0, followed by the extended page.
const MT29F32G: &str = "
    4F4E4649 7E00 F81D FF0F 0F00 0300 03 0000000000000000000000000000000000
    4D4943524F4E202020202020 4D5432394633324730384142434442 4A3420 2020
    2C 0000 00000000000000000000000000
    00400000 C004 00000000 0000 00010000 18040000 01 23 01 3100 0604 01 0000 02 00 FF 01 1E
    00000000000000000000000000
    05 3F00 0000 9402 401F 2D00 C800 3F 7F 02 2800 2D00 2800 05 07 2D00 4600 0000 1F FF
    0000 00 00
    0100 01 00 00 00 04 10 01 81 04 02 02 01 1E 90 0A
";

const MT29F32G_EXTENDED: &str = "
    BD70 45505053 00000000000000000000
    0201 0000 0000 0000 0000 0000 0000 0000
    18 0A 6400 0503 0000 0000000000000000
";

/// Fills a page without its trailing zeros up to full length and adds the checksum.
fn page(text: &str, crc: [u8; 2]) -> Vec<u8> {
    let mut bytes = hex(text);
    assert!(bytes.len() <= 254, "{}", bytes.len());
    bytes.resize(254, 0);
    bytes.extend(crc);
    bytes
}

fn mt29f2g() -> Vec<u8> {
    page(MT29F2G, [0x57, 0x1E])
}

#[test]
fn micron_page_of_the_data_sheet() {
    let parsed = onfi::parse(&mt29f2g()).unwrap();
    assert_eq!(parsed.revision.newest(), Some((1, 0)));
    assert_eq!(parsed.manufacturer.as_str(), "MICRON");
    assert_eq!(parsed.model.as_str(), "MT29F2G08ABBEAHC");
    assert_eq!(parsed.jedec_id, 0x2C);
    assert_eq!((parsed.page_bytes, parsed.spare_bytes), (2048, 64));
    assert_eq!((parsed.pages_per_block, parsed.blocks_per_lun, parsed.luns), (64, 2048, 1));
    assert_eq!(parsed.chip_bytes(), Some(256 << 20));
    assert_eq!((parsed.address_cycles.column(), parsed.address_cycles.row()), (2, 3));
    assert_eq!(parsed.max_bad_blocks_per_lun, 40);
    assert_eq!(parsed.endurance.cycles(), Some(100_000));
    assert_eq!((parsed.ecc_bits, parsed.planes()), (4, Some(2)));
    assert_eq!((parsed.t_prog_us, parsed.t_bers_us, parsed.t_r_us), (600, 3000, 25));
    assert_eq!(parsed.t_ccs_ns, 100);
    assert_eq!(parsed.sdr_modes.fastest(), Some(4));
    assert!(parsed.commands.contains(OnfiCommands::READ_UNIQUE_ID | OnfiCommands::READ_CACHE));
    assert_eq!(parsed.bus_width(), 8);
    assert_eq!(parsed.crc(), 0x1E57);
    assert_eq!(onfi::emit(&parsed).to_vec(), mt29f2g());
}

#[test]
fn micron_page_with_an_extended_page() {
    let bytes = page(MT29F32G, [0x63, 0x8A]);
    // The printed page has a vendor byte directly before the checksum.
    let mut bytes = bytes;
    bytes[253] = 0x01;
    let parsed = onfi::parse(&bytes).unwrap();
    assert_eq!(parsed.revision.newest(), Some((3, 0)));
    assert!(parsed.features.contains(OnfiFeatures::NV_DDR | OnfiFeatures::EXTENDED_PAGE));
    assert_eq!((parsed.nv_ddr_modes, parsed.nv_ddr2_modes), (0x3F, 0x7F));
    assert_eq!(parsed.ecc_bits, 0xFF);
    assert_eq!(parsed.chip_bytes(), Some(16384 * 256 * 1048));
    assert_eq!(parsed.extended_bytes(), 48);
    assert_eq!(onfi::emit(&parsed).to_vec(), bytes);

    let extended = hex(MT29F32G_EXTENDED);
    let ecc = OnfiExtendedPage::parse(&extended).unwrap();
    let info = ecc.ecc.unwrap();
    assert_eq!((info.bits, info.codeword_bytes()), (24, Some(1024)));
    assert_eq!((info.max_bad_blocks_per_lun, info.endurance.cycles()), (100, Some(5000)));
    assert_eq!(ecc, OnfiExtendedPage::with_ecc(info));
    let mut out = [0xAA; 64];
    assert_eq!(ecc.emit(&mut out), Ok(48));
    assert_eq!(out[..48], extended[..]);
}

#[test]
fn first_good_copy_wins() {
    let mut bytes = mt29f2g().repeat(3);
    bytes[80] ^= 1;
    let mut other = onfi::parse(&mt29f2g()).unwrap();
    other.date_code = 0x1234;
    bytes[256..512].copy_from_slice(&onfi::emit(&other));
    assert_eq!(onfi::parse_copies(&bytes), Ok(other));
}

#[test]
fn majority_recovers_three_bad_copies() {
    let mut bytes = mt29f2g().repeat(3);
    bytes[80] ^= 0x10;
    bytes[256 + 90] ^= 0x01;
    bytes[512 + 254] ^= 0x80;
    assert_eq!(onfi::parse_copies(&bytes), onfi::parse(&mt29f2g()));
    // The same wrong bit in two copies outvotes the good copy.
    bytes[256 + 80] ^= 0x10;
    let error = onfi::parse_copies(&bytes).unwrap_err();
    assert!(matches!(error.reason, Reason::BadCrc { .. }), "{error}");
    // Two copies are too few for a majority.
    assert!(onfi::parse_copies(&bytes[..512]).is_err());
    assert!(onfi::parse_copies(&[]).is_err());
}

#[test]
fn copies_are_written_one_after_another() {
    let parsed = onfi::parse(&mt29f2g()).unwrap();
    let mut out = [0; 800];
    assert_eq!(onfi::emit_copies(&parsed, 3, &mut out), Ok(768));
    assert_eq!(out[..768], mt29f2g().repeat(3)[..]);
    let error = onfi::emit_copies(&parsed, 4, &mut out).unwrap_err();
    assert_eq!(error.reason, Reason::NoRoom { need: 1024, have: 800 });
}

#[test]
fn every_corruption_is_noticed() {
    // A 16-bit CRC detects every single-bit error.
    let bytes = mt29f2g();
    mangle(&bytes, |mangled| assert!(onfi::parse(mangled).is_err()));
    mangle(&bytes.repeat(3), |mangled| {
        let _ = onfi::parse_copies(mangled);
    });
    mangle(&hex(MT29F32G_EXTENDED), |mangled| {
        assert!(OnfiExtendedPage::parse(mangled).is_err());
    });
}

#[test]
fn zero_geometry_is_refused() {
    let mut broken = onfi::parse(&mt29f2g()).unwrap();
    broken.pages_per_block = 0;
    let error = onfi::parse(&onfi::emit(&broken)).unwrap_err();
    assert_eq!(error.to_string(), "byte 0x5c: pages_per_block out of range: 0");
}

fn any_page() -> impl Strategy<Value = OnfiPage> {
    let geometry = (1u32.., 1u32.., 1u32.., 1u8.., any::<u16>());
    let bits = (any::<u16>(), any::<u16>(), any::<u16>(), 0u8..16, 0u8..16);
    let rest = (any::<[u8; 12]>(), any::<[u16; 8]>(), prop::array::uniform32(any::<u8>()));
    (geometry, bits, rest).prop_map(|(geometry, bits, (name, words, bytes))| {
        let mut vendor = [0; 88];
        vendor[..32].copy_from_slice(&bytes);
        OnfiPage {
            page_bytes: geometry.0,
            pages_per_block: geometry.1,
            blocks_per_lun: geometry.2,
            luns: geometry.3,
            spare_bytes: geometry.4,
            revision: OnfiRevision::from_bits(bits.0),
            features: OnfiFeatures::from_bits(bits.1),
            commands: OnfiCommands::from_bits(bits.2),
            address_cycles: AddressCycles::new(bits.3, bits.4).unwrap(),
            manufacturer: Text::from_bytes(name),
            endurance: Endurance { value: bytes[0], exponent: bytes[1] },
            t_prog_us: words[0],
            t_bers_us: words[1],
            t_r_us: words[2],
            t_ccs_ns: words[3],
            nv_ddr_modes: bytes[2],
            vendor_revision: words[4],
            vendor,
            ..OnfiPage::default()
        }
    })
}

proptest! {
    #[test]
    fn page_round_trip(page in any_page()) {
        prop_assert_eq!(onfi::parse(&onfi::emit(&page)), Ok(page));
    }

    #[test]
    fn majority_survives_one_wrong_bit_in_each_copy(
        page in any_page(),
        bits in prop::collection::hash_set(0usize..2048, 3),
    ) {
        let copy = onfi::emit(&page);
        let mut bytes = copy.repeat(3);
        for (index, bit) in bits.into_iter().enumerate() {
            bytes[256 * index + bit / 8] ^= 1 << (bit % 8);
        }
        prop_assert_eq!(onfi::parse_copies(&bytes), Ok(page));
    }

    #[test]
    fn extended_round_trip(kinds in prop::collection::vec(1u8..5, 0..8), ecc in any::<[u8; 8]>()) {
        let sections: Vec<_> = kinds.iter().map(|&kind| Section { kind, units: kind }).collect();
        let info = EccInfo {
            bits: ecc[0],
            codeword_exponent: ecc[1],
            max_bad_blocks_per_lun: u16::from(ecc[2]),
            endurance: Endurance { value: ecc[3], exponent: ecc[4] },
        };
        let page = OnfiExtendedPage {
            sections: List::from_slice(&sections).unwrap(),
            ecc: kinds.contains(&2).then_some(info),
        };
        let mut out = vec![0; page.len_bytes()];
        prop_assert_eq!(page.emit(&mut out), Ok(out.len()));
        prop_assert_eq!(OnfiExtendedPage::parse(&out), Ok(page));
    }

    #[test]
    fn anything_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..1100)) {
        let _ = onfi::parse_copies(&bytes);
        let _ = OnfiExtendedPage::parse(&bytes);
    }
}
