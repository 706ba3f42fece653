//! SFDP areas of real chips, and invented ones.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers outside #[test] fail tests too

mod common;

use common::{dump, mangle};
use floatgate_media::sfdp::{
    self, AddressBytes, Bfpt, BfptBasic, BfptDtr, BfptOctal, BfptTiming, CommandExtension,
    FastRead, FourByte, FourByteCommands, Lines, Map, OctalSequence, OtherTable, Profile1,
    QuadEnable, Region, Sccr, SectorMap, Sfdp, Table,
};
use floatgate_media::{List, Reason};
use proptest::prelude::*;

/// Winbond W25Q128JV, JESD216A.
const W25Q128: &str = "
    000: 53464450 050100ff 00050110 800000ff
    080: e520f9ff ffffff07 44eb086b 083b42bb feffffff ffff0000 ffff40eb 0c200f52
    0a0: 10d80000 3602a600 82ea14c9 e9637633 7a757a75 f7a2d55c 19f74dff e930f880
";

/// Winbond W25Q01JV up to its first two tables, JESD216B with 4-byte instructions.
const W25Q01: &str = "
    000: 53464450 060101ff 00060110 800000ff 84000102 d00000ff
    080: e520fbff ffffff3f 44eb086b 083b42bb feffffff ffff0000 ffff40eb 0c200f52
    0a0: 10d80000 3602a600 82ea14e2 e9637633 7a757a75 f7a2d55c 19f74dff e970f9a5
    0d0: ff0af0ff 21ffdcff
";

/// Microchip SST26VF064B: a sector map and a vendor's table.
const SST26VF064B: &str = "
    000: 53464450 060102ff 00060110 300000ff 81000106 000100ff bf000118 00020001
    030: fd20f1ff ffffff03 44eb086b 083b80bb feffffff ffff00ff ffff440b 0c200dd8
    050: 0fd810d8 20914824 806f1d81 ed0f7738 30b030b0 f7ffffff 29c25cff f030c080
    100: ff0004ff f37f0000 f57f0000 f9ff7d00 f57f0000 f37f0000
    200: bf2643ff b95ffdff 30f260f3 32ff0a12 2346ff0f 19320f19 19ffffff ffffffff
    220: 00669938 ff050135 06040232 b0307242 8de89888 a585c09f af5affff 06ec060c
    240: 0003080b ffffffff ff07ffff 0202ff06 0300fdfd 040700fc 0300fefe 0202070e
";

/// Macronix MX25UW51245G: JESD216D, octal.
const MX25UW51245G: &str = "
    000: 53464450 080104fd 00070114 400000ff 8701011c 900000ff 0a000108 000100ff
    020: 05000105 200100ff 84000102 340100ff
    040: e5208aff ffffff1f 00ff00ff 00ff00ff eeffffff ffff00ff ffff00ff 0c2010d8
    060: 00ff00ff 8b790100 8f1200e2 cc046746 30b030b0 f4bdd55c 000000ff 10100020
    080: 00000000 00007ca3 48000000 00007777 00000000 00000040 0fd1fff3 0fd1fff3
    0a0: 00050090 000500b1 002b0095 002b0096 727103b8 727103b8 00000000 90a31882
    0c0: 00c06996 00000000 00000000 72710098 727100b8 72710099 00000000 72710098
    0e0: 727100f8 72710099 727100f9 00000000 00000000 011501d0 727106d8 00008650
    100: 00000601 00000000 02000103 00020000 00000601 00000000 00007206 00020000
    120: 00eec069 72727171 00d8f7f6 00000000 14459880 43060f00 21dcffff
";

/// What the tables of a dump say, after checking that they re-emit byte for byte.
fn exact(text: &str, fill: u8) -> Sfdp {
    let bytes = dump(text, fill);
    let parsed = sfdp::parse(&bytes).unwrap();
    let mut out = vec![fill; bytes.len()];
    assert_eq!(sfdp::emit(&parsed, &mut out), Ok(bytes.len()));
    assert_eq!(out, bytes);
    parsed
}

#[test]
fn winbond_w25q128() {
    let bfpt = exact(W25Q128, 0xff).bfpt.body;
    assert_eq!(bfpt.capacity_bytes(), Some(16 << 20));
    assert_eq!(bfpt.page_bytes(), 256);
    assert_eq!(bfpt.basic.address_bytes, AddressBytes::Three);
    let read = |wait_states, mode_clocks, opcode| {
        Some(FastRead {
            wait_states,
            mode_clocks,
            opcode,
        })
    };
    assert_eq!(bfpt.fast_read(Lines::S112), read(8, 0, 0x3b));
    assert_eq!(bfpt.fast_read(Lines::S122), read(2, 2, 0xbb));
    assert_eq!(bfpt.fast_read(Lines::S114), read(8, 0, 0x6b));
    assert_eq!(bfpt.fast_read(Lines::S144), read(4, 2, 0xeb));
    assert_eq!(bfpt.fast_read(Lines::S222), None);
    assert_eq!(bfpt.fast_read(Lines::S188), None);
    let erase = bfpt
        .erase_types()
        .map(|erase| (erase.bytes(), erase.opcode));
    let kib = |kib: u32| Some(kib << 10);
    assert_eq!(
        erase[..3],
        [(kib(4), 0x20), (kib(32), 0x52), (kib(64), 0xd8)]
    );
    assert_eq!(erase[3].0, None);
    let typical = bfpt.erase_typical_ms().unwrap();
    assert_eq!(typical[..3], [64, 128, 160]);
    let timing = bfpt.timing.unwrap();
    assert_eq!(timing.erase_factor(), 14);
    assert_eq!(timing.page_program_us(), 704);
    assert_eq!(timing.chip_erase_ms(), 40_000);
    assert_eq!(timing.quad_enable, QuadEnable::Status2Bit1Kept);
    assert!(!timing.no_suspend);
    assert_eq!((timing.suspend_opcode, timing.resume_opcode), (0x75, 0x7a));
    assert_eq!(timing.erase_suspend_ns(), 20_000);
    assert_eq!(
        (timing.power_down_opcode, timing.power_up_opcode),
        (0xb9, 0xab)
    );
    assert_eq!(timing.soft_reset & 0x10, 0x10);
}

#[test]
fn winbond_w25q01_four_byte_instructions() {
    let sfdp = exact(W25Q01, 0xff);
    assert_eq!(sfdp.bfpt.body.capacity_bytes(), Some(128 << 20));
    assert_eq!(
        sfdp.bfpt.body.basic.address_bytes,
        AddressBytes::ThreeOrFour
    );
    let table = sfdp.four_byte.unwrap().body;
    assert!(
        table
            .commands
            .contains(FourByteCommands::ERASE_1 | FourByteCommands::ERASE_3)
    );
    assert!(table.commands.contains(FourByteCommands::READ));
    assert!(!table.commands.contains(FourByteCommands::ERASE_2));
    assert_eq!(table.erase_opcodes, [0x21, 0xff, 0xdc, 0xff]);
}

#[test]
fn microchip_sector_map() {
    let sfdp = exact(SST26VF064B, 0xff);
    let map = sfdp.sector_map.unwrap().body;
    let regions: Vec<_> = map
        .map(0)
        .unwrap()
        .regions
        .iter()
        .map(|region| (region.bytes() >> 10, region.erase_types))
        .collect();
    assert_eq!(
        regions,
        [
            (32, 0b11),
            (32, 0b101),
            (8064, 0b1001),
            (32, 0b101),
            (32, 0b11)
        ]
    );
    let total: u64 = map.maps[0].regions.iter().map(Region::bytes).sum();
    assert_eq!(sfdp.bfpt.body.capacity_bytes(), Some(total));
    assert_eq!(
        (sfdp.others[0].body.id, sfdp.others[0].body.dwords.len()),
        (0x01bf, 24)
    );
}

#[test]
fn macronix_octal() {
    let sfdp = exact(MX25UW51245G, 0);
    assert_eq!(sfdp.access_protocol, 0xfd);
    let bfpt = sfdp.bfpt.body;
    assert_eq!(bfpt.capacity_bytes(), Some(64 << 20));
    let octal = bfpt.octal.unwrap();
    assert_eq!(octal.command_extension, CommandExtension::Invert);
    assert!(octal.swapped_bytes);
    assert_eq!(sfdp::speed_mhz(octal.speed_8d), Some(166));
    assert!(bfpt.dtr.is_none());

    let profile = sfdp.profile1.unwrap().body;
    assert_eq!(profile.commands.read_opcode, 0xee);
    assert!(profile.commands.read_status_address && !profile.commands.read_status_wait_8);
    let [at_200, at_166, at_133, at_100] = profile.commands.dummy_settings();
    assert!(at_200.is_none());
    let settings = [at_166, at_133, at_100].map(|setting| setting.unwrap());
    assert_eq!(
        settings.map(|s| (s.mhz, s.clocks)),
        [(166, 16), (133, 12), (100, 10)]
    );

    let map = sfdp.sccr.unwrap().body;
    // The register map has the pattern of each setting that profile 1.0 has.
    for setting in settings {
        assert_eq!(
            map.head.dummy_pattern(setting.clocks),
            Some(setting.pattern)
        );
    }
    assert_eq!(map.head.dummy_pattern(20), Some(0));
    assert_eq!(map.head.dummy_pattern(22), None);
    assert_eq!((map.head.wip.available, map.head.wip.bit), (true, 0));
    assert_eq!((map.head.wel.read_opcode, map.head.wel.bit), (0x05, 1));
    assert_eq!(
        (map.head.program_error.read_opcode, map.head.erase_error.bit),
        (0x2b, 6)
    );
    assert_eq!(
        (
            map.head.dummy_volatile.address,
            map.head.dummy_volatile.bits()
        ),
        (3, 3)
    );
    let enable = map.head.octal_dtr_volatile;
    assert!(enable.available && enable.addressed && enable.second_byte && !enable.inverted);
    assert_eq!(
        (enable.write_opcode, enable.read_opcode, enable.bit),
        (0x72, 0x71, 1)
    );
    assert!(map.tail.unwrap().octal_dtr_nonvolatile.inverted);

    let steps = sfdp.octal_sequence.unwrap().body.steps;
    assert_eq!(steps[0].sent(), [0x06]);
    assert_eq!(steps[3].sent(), [0x72, 0, 0, 0, 0, 2]);
    assert_eq!(
        sfdp.four_byte.unwrap().body.erase_opcodes,
        [0x21, 0xdc, 0xff, 0xff]
    );
}

#[test]
fn density_codes() {
    let bytes = |density| {
        let basic = BfptBasic {
            density,
            ..BfptBasic::default()
        };
        Bfpt {
            basic,
            ..Bfpt::default()
        }
        .capacity_bytes()
    };
    assert_eq!(bytes(0x07ff_ffff), Some(16 << 20));
    assert_eq!(bytes(0x8000_0020), Some(512 << 20));
    assert_eq!(bytes(0x8000_003f), Some(1 << 60));
    assert_eq!(
        (bytes(0x8000_0040), bytes(u32::MAX), bytes(6)),
        (None, None, None)
    );
    for size in [1, 4096, 3 << 20, 256 << 20, 512 << 20, 1 << 40] {
        assert_eq!(
            bytes(Bfpt::density_code(size).unwrap()),
            Some(size),
            "{size}"
        );
    }
    assert_eq!(Bfpt::density_code(0), None);
    assert_eq!(Bfpt::density_code((1 << 40) + 1), None);
}

/// Tables laid out for an invented chip.
fn invented() -> Sfdp {
    let density = Bfpt::density_code(32 << 20).unwrap();
    let basic = BfptBasic {
        density,
        ..BfptBasic::default()
    };
    let octal = BfptOctal::default();
    let timing = BfptTiming {
        page_exponent: 8,
        ..BfptTiming::default()
    };
    let dtr = BfptDtr {
        has_4d: true,
        ..BfptDtr::default()
    };
    let body = Bfpt {
        basic,
        timing: Some(timing),
        octal: Some(octal),
        dtr: Some(dtr),
    };
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
    assert_eq!(
        (dtr, sfdp.bfpt.body.fast_read(Lines::D111)),
        (Some(FastRead::default()), None)
    );
}

#[test]
fn emit_refuses_what_no_bits_hold() {
    let mut out = [0; 1024];
    let error = |sfdp: &Sfdp, out: &mut [u8]| sfdp::emit(sfdp, out).unwrap_err().to_string();

    let mut wide = invented();
    wide.bfpt.body.basic.read_144.wait_states = 32;
    assert_eq!(
        error(&wide, &mut out),
        "byte 0x40: read_144 out of range: 0x20"
    );
    let mut clash = invented();
    clash.bfpt.body.basic.reserved[1] = 1;
    assert_eq!(
        error(&clash, &mut out),
        "byte 0x40: reserved bits out of range: 0x1"
    );
    let mut overlap = invented();
    overlap.sccr.as_mut().unwrap().pointer = 72;
    assert_eq!(error(&overlap, &mut out), "byte 0x48: tables overlap");
    let mut slots = invented();
    slots.sccr.as_mut().unwrap().slot = 1;
    assert_eq!(
        error(&slots, &mut out),
        "byte 0x0: table slot out of range: 0x1"
    );
    let mut far = invented();
    far.bfpt.pointer = 1 << 24;
    assert_eq!(
        error(&far, &mut out),
        "byte 0x0: table pointer out of range: 0x1000000"
    );
    let mut gap = invented();
    gap.bfpt.body.timing = None;
    assert_eq!(
        error(&gap, &mut out),
        "byte 0x40: a BFPT part without those before it"
    );
    let short = sfdp::emit(&invented(), &mut out[..100]).unwrap_err();
    assert!(
        matches!(short.reason, Reason::NoRoom { have: 100, .. }),
        "{short}"
    );
}

#[test]
fn newest_bfpt_is_taken() {
    let mut sfdp = invented();
    let old = OtherTable {
        id: sfdp::id::BFPT,
        dwords: List::from_slice(&[7; 9]).unwrap(),
    };
    sfdp.others = List::from_slice(&[Table::new(1, 0, old)]).unwrap();
    sfdp.lay_out().unwrap();
    // The old table's header comes first, as the standard wants.
    let slot = sfdp.others[0].slot;
    sfdp.bfpt.slot = slot;
    let first = Table {
        slot: 0,
        ..sfdp.others[0]
    };
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

/// What is read and can be written reads the same again.
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
