//! Tests of JEDEC parameter pages.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use crate::common::mangle;
use floatgate_media::jedec::{self, JedecCommands, JedecEcc, JedecFeatures, JedecPage, JedecRevision};
use floatgate_media::{AddressCycles, Endurance, Reason, Text};
use proptest::prelude::*;

/// Parameter page of an invented toggle-mode MLC chip.
fn sample() -> JedecPage {
    JedecPage {
        revision: JedecRevision::V1_0,
        features: JedecFeatures::TOGGLE_DDR | JedecFeatures::MULTI_PLANE_READ,
        commands: JedecCommands::from_bits(JedecCommands::READ_CACHE | JedecCommands::GET_SET_FEATURES),
        copies: 3,
        manufacturer: Text::new("FLOATGATE").unwrap(),
        model: Text::new("FG58TEG6").unwrap(),
        jedec_id: [0x98, 0, 0, 0, 0, 0],
        page_bytes: 16384,
        spare_bytes: 1280,
        pages_per_block: 256,
        blocks_per_lun: 2092,
        luns: 1,
        address_cycles: AddressCycles::new(2, 3).unwrap(),
        bits_per_cell: 2,
        programs_per_page: 1,
        plane_bits: 1,
        t_prog_us: 1400,
        t_bers_us: 5000,
        t_r_us: 50,
        ecc: [
            JedecEcc {
                bits: 40,
                codeword_exponent: 10,
                max_bad_blocks_per_lun: 44,
                endurance: Endurance { value: 3, exponent: 3 },
            },
            JedecEcc::default(),
            JedecEcc::default(),
            JedecEcc::default(),
        ],
        ..JedecPage::default()
    }
}

#[test]
fn bytes_stand_where_jesd230_has_them() {
    let bytes = jedec::emit(&sample());
    assert_eq!(&bytes[..4], b"JESD");
    assert_eq!(bytes[8..11], [0x06, 0, 0]);
    assert_eq!(bytes[13], 3);
    assert_eq!(&bytes[44..52], b"FG58TEG6");
    assert_eq!(bytes[80..86], [0, 0x40, 0, 0, 0, 5]);
    assert_eq!(bytes[101..103], [0x23, 2]);
    assert_eq!(bytes[153..159], [0x78, 5, 0x88, 0x13, 50, 0]);
    assert_eq!(bytes[211..217], [40, 10, 44, 0, 3, 3]);
    let parsed = jedec::parse(&bytes).unwrap();
    assert_eq!(parsed, sample());
    assert_eq!(parsed.chip_bytes(), Some(16384 * 256 * 2092));
    assert_eq!(parsed.bus_width(), 8);
    assert!(parsed.commands.contains(JedecCommands::READ_CACHE));
}

#[test]
fn a_good_copy_is_found() {
    let mut bytes = jedec::emit(&sample()).repeat(3);
    bytes[0] = 0;
    bytes[600] ^= 4;
    assert_eq!(jedec::parse_copies(&bytes), Ok(sample()));
    bytes[1100] ^= 4;
    let error = jedec::parse_copies(&bytes).unwrap_err();
    assert_eq!(error.reason, Reason::BadSignature { expected: "JESD" });
}

#[test]
fn every_corruption_is_noticed() {
    mangle(&jedec::emit(&sample()), |bytes| assert!(jedec::parse(bytes).is_err()));
}

proptest! {
    #[test]
    fn round_trip(
        sizes in (1u32.., 1u32.., 1u32.., 1u8..),
        commands in any::<u32>(),
        bytes in prop::array::uniform32(any::<u8>()),
        words in any::<[u16; 4]>(),
    ) {
        let page = JedecPage {
            page_bytes: sizes.0,
            pages_per_block: sizes.1,
            blocks_per_lun: sizes.2,
            luns: sizes.3,
            commands: JedecCommands::from_bits(commands),
            jedec_id: [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]],
            toggle_speeds: words[0],
            t_adl_ns: words[1],
            vendor_revision: words[2],
            guaranteed_blocks: bytes[6],
            ..sample()
        };
        prop_assert_eq!(jedec::parse(&jedec::emit(&page)), Ok(page));
    }

    #[test]
    fn anything_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..1600)) {
        let _ = jedec::parse_copies(&bytes);
    }
}
