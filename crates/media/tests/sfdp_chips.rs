//! Tests with SFDP areas of real chips: field by field and byte for byte.

#![allow(clippy::unwrap_used, clippy::panic)] // functions outside #[test] fail tests too

use crate::common::dump;
use crate::common::sfdp_dumps::{MX25UW51245G, SST26VF064B, W25Q01, W25Q128};
use floatgate_media::sfdp::{
    self, AddressBytes, CommandExtension, FastRead, FourByteCommands, Lines, QuadEnable, Region, Sfdp,
};

/// Tables of a dump, after a check that they are emitted byte for byte.
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
    let read = |wait_states, mode_clocks, opcode| Some(FastRead { wait_states, mode_clocks, opcode });
    assert_eq!(bfpt.fast_read(Lines::S112), read(8, 0, 0x3b));
    assert_eq!(bfpt.fast_read(Lines::S122), read(2, 2, 0xbb));
    assert_eq!(bfpt.fast_read(Lines::S114), read(8, 0, 0x6b));
    assert_eq!(bfpt.fast_read(Lines::S144), read(4, 2, 0xeb));
    assert_eq!(bfpt.fast_read(Lines::S222), None);
    assert_eq!(bfpt.fast_read(Lines::S188), None);
    let erase = bfpt.erase_types().map(|erase| (erase.bytes(), erase.opcode));
    let kib = |kib: u32| Some(kib << 10);
    assert_eq!(erase[..3], [(kib(4), 0x20), (kib(32), 0x52), (kib(64), 0xd8)]);
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
    assert_eq!((timing.power_down_opcode, timing.power_up_opcode), (0xb9, 0xab));
    assert_eq!(timing.soft_reset & 0x10, 0x10);
}

#[test]
fn winbond_w25q01_four_byte_instructions() {
    let sfdp = exact(W25Q01, 0xff);
    assert_eq!(sfdp.bfpt.body.capacity_bytes(), Some(128 << 20));
    assert_eq!(sfdp.bfpt.body.basic.address_bytes, AddressBytes::ThreeOrFour);
    let table = sfdp.four_byte.unwrap().body;
    assert!(table.commands.contains(FourByteCommands::ERASE_1 | FourByteCommands::ERASE_3));
    assert!(table.commands.contains(FourByteCommands::READ));
    assert!(!table.commands.contains(FourByteCommands::ERASE_2));
    assert_eq!(table.erase_opcodes, [0x21, 0xff, 0xdc, 0xff]);
}

#[test]
fn microchip_sector_map() {
    let sfdp = exact(SST26VF064B, 0xff);
    let map = sfdp.sector_map.unwrap().body;
    let regions: Vec<_> =
        map.map(0).unwrap().regions.iter().map(|region| (region.bytes() >> 10, region.erase_types)).collect();
    assert_eq!(regions, [(32, 0b11), (32, 0b101), (8064, 0b1001), (32, 0b101), (32, 0b11)]);
    let total: u64 = map.maps[0].regions.iter().map(Region::bytes).sum();
    assert_eq!(sfdp.bfpt.body.capacity_bytes(), Some(total));
    assert_eq!((sfdp.others[0].body.id, sfdp.others[0].body.dwords.len()), (0x01bf, 24));
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
    assert_eq!(settings.map(|s| (s.mhz, s.clocks)), [(166, 16), (133, 12), (100, 10)]);

    let map = sfdp.sccr.unwrap().body;
    // The register map contains the pattern of each setting of profile 1.0.
    for setting in settings {
        assert_eq!(map.head.dummy_pattern(setting.clocks), Some(setting.pattern));
    }
    assert_eq!(map.head.dummy_pattern(20), Some(0));
    assert_eq!(map.head.dummy_pattern(22), None);
    assert_eq!((map.head.wip.available, map.head.wip.bit), (true, 0));
    assert_eq!((map.head.wel.read_opcode, map.head.wel.bit), (0x05, 1));
    assert_eq!((map.head.program_error.read_opcode, map.head.erase_error.bit), (0x2b, 6));
    assert_eq!((map.head.dummy_volatile.address, map.head.dummy_volatile.bits()), (3, 3));
    let enable = map.head.octal_dtr_volatile;
    assert!(enable.available && enable.addressed && enable.second_byte && !enable.inverted);
    assert_eq!((enable.write_opcode, enable.read_opcode, enable.bit), (0x72, 0x71, 1));
    assert!(map.tail.unwrap().octal_dtr_nonvolatile.inverted);

    let steps = sfdp.octal_sequence.unwrap().body.steps;
    assert_eq!(steps[0].sent(), [0x06]);
    assert_eq!(steps[3].sent(), [0x72, 0, 0, 0, 0, 2]);
    assert_eq!(sfdp.four_byte.unwrap().body.erase_opcodes, [0x21, 0xdc, 0xff, 0xff]);
}
