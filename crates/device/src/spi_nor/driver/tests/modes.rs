//! Tests of the commands that the driver selects or rejects.

use super::*;
use crate::oracle::{Faults, Oracle};
use crate::spi::Data;
use crate::timeline::Host;

fn mode(rig: &Rig) -> String {
    rig.read_op().mode.to_string()
}

#[test]
fn the_fastest_common_mode_is_taken() {
    assert_eq!(mode(&Setup::new(W25Q128JV).ready()), "1S-4S-4S");
    assert_eq!(mode(&Setup::new(W25Q128JV).board("lanes = 2").ready()), "1S-2S-2S");
    let rig = Setup::new(W25Q128JV).board("lanes = 1").ready();
    // Without dummy cycles, READ is faster if the bus is slow enough for it.
    assert_eq!((mode(&rig).as_str(), rig.read_op().opcode), ("1S-1S-1S", 0x03));
    let fast = Setup::new(W25Q128JV).board("lanes = 1").clock("100 MHz").ready();
    assert_eq!(fast.read_op().opcode, 0x0B);
    assert_eq!(rig.program_op().mode.to_string(), "1S-1S-1S");
}

/// Linux programs on one data line with three address bytes. With four address bytes it uses the lines in the table of
/// four-byte commands.
#[test]
fn programs_are_as_wide_as_linux_makes_them() {
    let programs = |setup: Setup| setup.ready().program_op().mode.to_string();
    assert_eq!(programs(Setup::new(W25Q128JV)), "1S-1S-1S");
    assert_eq!(programs(Setup::new(W25Q128JV).options(|o| o.wide_programs = true)), "1S-1S-4S");
    assert_eq!(programs(Setup::new(test_parts::EVERY_MODE)), "1S-8S-8S");
}

#[test]
fn a_limit_is_a_ceiling_whose_data_phase_must_be_reached() {
    let limited = |limit: &str| Setup::new(W25Q128JV).board(&format!("mode = '{limit}'")).probe();
    assert_eq!(mode(&limited("1-1-4").unwrap()), "1S-1S-4S");
    assert_eq!(mode(&limited("1-4-4").unwrap()), "1S-4S-4S");
    // Required wide commands are not silently replaced.
    assert!(matches!(limited("4-4-4"), Err(ProbeError::ModeNotOffered { .. })));
    let Err(ProbeError::ModeNotOffered { offered, .. }) = limited("8-8-8") else { panic!("offered") };
    let offered: Vec<String> = offered.iter().map(Mode::to_string).collect();
    assert_eq!(offered, ["1S-1S-1S", "1S-1S-2S", "1S-1S-4S", "1S-2S-2S", "1S-4S-4S"]);
    let message = limited("1S-4D-4D").unwrap_err().to_string();
    assert!(message.contains("1S-4D-4D") && message.contains("1S-4S-4S"), "{message}");
}

#[test]
fn stateful_modes_need_the_reset_pin() {
    let octal = || Setup::new(MX25UW12845G).board("mode = '8D-8D-8D'");
    assert_eq!(octal().probe().unwrap_err(), ProbeError::NoResetPin { mode: Mode::OCTAL_DTR });
    let rig = octal().board("reset_pin = true").ready();
    assert_eq!((mode(&rig).as_str(), rig.program_op().opcode), ("8D-8D-8D", 0x12));
    // Without a request, the driver uses the safe mode.
    assert_eq!(mode(&Setup::new(MX25UW12845G).ready()), "1S-1S-1S");
    assert_eq!(mode(&Setup::new(MX25UW12845G).board("reset_pin = true").ready()), "8D-8D-8D");
}

#[test]
fn dummy_cycles_follow_the_clock() {
    let dummy = |clock: &str| {
        let rig = Setup::new(MX25UW12845G).clock(clock).board("reset_pin = true").ready();
        rig.read_op().dummy_cycles
    };
    assert_eq!(dummy("20 MHz"), 10);
    assert_eq!(dummy("133 MHz"), 12);
    assert_eq!(dummy("200 MHz"), 20);
}

#[test]
fn octal_transfers_of_any_length_and_place() {
    let mut rig = Setup::new(MX25UW12845G).board("reset_pin = true").ready();
    let data = bytes(9001, 5);
    let at = rig.ready_at();
    let mut at = rig.write(at, 301, &data).unwrap().at;
    for (from, len) in [(301, 9001), (301, 1), (302, 1), (302, 2), (303, 5000), (304, 4096)] {
        let mut got = vec![0; len];
        at = rig.read(at, from as u64, &mut got).unwrap().at;
        assert_eq!(got, data[from - 301..][..len], "{from} {len}");
    }
    let mut around = vec![0; 2];
    rig.read(at, 300, &mut around).unwrap();
    assert_eq!(around, [0xFF, data[0]]);
}

#[test]
fn unknown_chips_work_from_sfdp_alone() {
    let reach = [(W25Q128JV, "1S-4S-4S"), (N25Q128A, "1S-4S-4S"), (MX25UW12845G, "8D-8D-8D")];
    for (part, expected) in reach.into_iter().chain([(MX25UW51245G, "8D-8D-8D")]) {
        let known = Setup::new(part).board("reset_pin = true").ready();
        let mut rig = Setup::new(part).board("reset_pin = true").unknown().ready();
        assert_eq!(mode(&rig), expected);
        assert_eq!(rig.geometry(), known.geometry());
        let last = rig.geometry().size_bytes - 4096;
        let data = bytes(777, 9);
        let at = rig.ready_at();
        let at = rig.write(at, last + 100, &data).unwrap().at;
        let mut got = vec![0; 777];
        let at = rig.read(at, last + 100, &mut got).unwrap().at;
        assert_eq!(got, data);
        rig.erase(at, last, 4096).unwrap();
    }
}

#[test]
fn nothing_known_and_nothing_told() {
    let error = Setup::new(W25Q128JV).spec(|s| s.sfdp = false).unknown().probe().unwrap_err();
    assert_eq!(error, ProbeError::Unknown { id: vec![0xEF, 0x40, 0x18, 0, 0, 0] });
    let known = Setup::new(W25Q128JV).spec(|s| s.sfdp = false).ready();
    assert_eq!(known.spec().id, [0xEF, 0x40, 0x18]);
    let dead = Setup::new(W25Q128JV).spec(|s| s.id = vec![0xFF; 6]).probe().unwrap_err();
    assert_eq!(dead, ProbeError::NoChip);
}

#[test]
fn a_chip_with_a_longer_id_is_told_apart() {
    let special = |s: &mut SpiNorSpec| {
        s.id = vec![0xEF, 0x40, 0x18, 0x77];
        s.endurance_cycles = 5;
    };
    let rig = Setup::new(W25Q128JV).spec(special).ready();
    assert_eq!(rig.spec().endurance_cycles, 5);
}

#[test]
fn large_parts_are_reached_either_way() {
    let far = 0x300_0123;
    let by_mode = |s: &mut SpiNorSpec| {
        s.reads_4b.clear();
        s.programs_4b.clear();
        s.octal = None;
        s.dummy = None;
        s.erase.values_mut().for_each(|e| e.opcode_4b = None);
    };
    let commands = Setup::new(MX25UW51245G).ready();
    assert_eq!((commands.read_op().opcode, commands.read_op().addr_bytes), (0x13, 4));
    let mode = Setup::new(MX25UW51245G).spec(by_mode).ready();
    assert_eq!((mode.read_op().opcode, mode.read_op().addr_bytes), (0x03, 4));
    for mut rig in [commands, mode] {
        let at = rig.ready_at();
        let at = rig.write(at, far, b"beyond").unwrap().at;
        let mut got = [0; 6];
        let at = rig.read(at, far, &mut got).unwrap().at;
        assert_eq!(&got, b"beyond");
        let at = rig.erase(at, 0x300_0000, 4096).unwrap().at;
        rig.read(at, far, &mut got).unwrap();
        assert_eq!(got, [0xFF; 6]);
    }
    let stuck = |s: &mut SpiNorSpec| {
        by_mode(s);
        s.addressing = crate::spi_nor::spec::Addressing::Fixed;
    };
    let error = Setup::new(MX25UW51245G).spec(stuck).probe().unwrap_err();
    assert_eq!(error, ProbeError::OutOfReach { size: 64 << 20 });
}

#[test]
fn erase_block_sizes() {
    let sized = |bytes| Setup::new(W25Q128JV).options(|o| o.erase_bytes = bytes).probe();
    assert_eq!(sized(0).unwrap().geometry().erase_bytes, 4096);
    assert_eq!(sized(65536).unwrap().geometry().erase_bytes, 65536);
    let error = sized(8192).unwrap_err();
    assert_eq!(error, ProbeError::NoEraseType { wanted: 8192, offered: vec![4096, 32768, 65536] });
}

const PHY: &str = "[phy]\ntaps = 128\ntap_ps = 50\nround_trip_ps = 4000\nunstable_ps = 1000\nmin_eye_taps = 8\nclock_hz = '166 MHz'\n";

#[test]
fn the_phy_is_calibrated_and_used() {
    let phy = || {
        let mut setup = Setup::new(MX25UW12845G).board("reset_pin = true").board("phy = true");
        setup.controller.push_str(PHY);
        setup
    };
    let mut rig = phy().ready();
    assert!(matches!(rig.phy(), PhyState::Calibrated { .. }));
    let data = bytes(512, 1);
    let at = rig.ready_at();
    let at = rig.write(at, 0, &data).unwrap().at;
    let mut got = vec![0; 512];
    let done = rig.read(at, 0, &mut got).unwrap().at;
    assert_eq!(got, data);
    // The read takes 20 dummy cycles, and 512 bytes at 332 MB/s.
    assert!(done.since(at) < Nanos::from_us(3), "{}", done.since(at));
    // Without stored data the times are the same.
    let mut timing_only = phy();
    timing_only.stores = false;
    let mut fast = timing_only.ready();
    let start = fast.ready_at();
    assert_eq!(fast.read(start, 0, &mut got).unwrap().at.since(start), done.since(at));
    // The flash has no blank range for the pattern.
    let error = phy().options(|o| o.write_pattern = false).probe().unwrap_err();
    assert_eq!(error, ProbeError::PatternPlace { addr: 0xFF_F000 });
}

/// Transfers data in every stateless mode, with four-byte commands and with a changed address mode, by catalogue and by
/// SFDP.
#[test]
fn every_mode_carries_data() {
    let modes = [
        "1-1-1", "1-1-2", "1-2-2", "1-1-4", "1-4-4", "1-1-8", "1-8-8", "1S-1D-1D", "1S-2D-2D", "1S-4D-4D",
        "8D-8D-8D",
    ];
    for (limit, known) in modes.into_iter().flat_map(|m| [(m, true), (m, false)]) {
        for small in [false, true] {
            let mut setup = Setup::new(test_parts::EVERY_MODE).board("reset_pin = true");
            setup = setup.board(&format!("mode = '{limit}'"));
            if small {
                setup = setup.spec(|s| s.geometry.size_bytes = 16 << 20);
            }
            setup.known = known;
            let mut rig = setup.ready();
            assert_eq!(rig.read_op().mode, limit.parse().unwrap());
            assert_eq!(rig.read_op().addr_bytes, if small && limit != "8D-8D-8D" { 3 } else { 4 });
            let data = bytes(1001, 1);
            let at = rig.ready_at();
            let at = rig.write(at, 0xFF_0001, &data).unwrap().at;
            let mut got = vec![0; 1001];
            let at = rig.read(at, 0xFF_0001, &mut got).unwrap().at;
            assert_eq!(got, data, "{limit} {known} {small}");
            rig.erase(at, 0xFF_0000, 4096).unwrap();
        }
    }
}

#[test]
fn more_lanes_and_double_rate_are_faster() {
    let time = |mode: &str| {
        let setup = Setup::new(test_parts::EVERY_MODE).board("reset_pin = true");
        let mut rig = setup.board(&format!("mode = '{mode}'")).ready();
        let at = rig.ready_at();
        rig.read(at, 0, &mut [0; 512]).unwrap().at.since(at)
    };
    let ladder = ["1-1-1", "1-1-2", "1-1-4", "1-4-4", "1-1-8", "1-8-8", "8D-8D-8D"].map(time);
    assert!(ladder.is_sorted_by(|a, b| a > b), "{ladder:?}");
    assert!(time("1S-4D-4D") < time("1-4-4"));
    // The limit also applies to program commands.
    let rig = Setup::new(test_parts::EVERY_MODE).board("mode = '1-8-8'").ready();
    assert_eq!((rig.program_op().opcode, rig.program_op().addr_bytes), (0x8E, 4));
}

#[test]
fn the_quad_enable_bit_is_set_in_each_way() {
    use crate::spi_nor::spec::QuadEnable;
    for way in [QuadEnable::Sr1Bit6, QuadEnable::Sr2Bit1, QuadEnable::Sr2Bit1By01] {
        for known in [true, false] {
            let mut setup = Setup::new(W25Q128JV).spec(|s| s.quad_enable = way);
            setup.known = known;
            assert_eq!(mode(&setup.ready()), "1S-4S-4S", "{way:?}");
        }
    }
    // Configuration register 1 is the second data byte of 01h.
    let rig = Setup::new(test_parts::S25FL128S).ready();
    assert_eq!((mode(&rig).as_str(), rig.program_op().opcode), ("1S-4S-4S", 0x02));
}

#[test]
fn no_eye_no_phy() {
    let mut setup = Setup::new(MX25UW12845G).board("reset_pin = true").board("phy = true");
    setup.controller.push_str(&PHY.replace("unstable_ps = 1000", "unstable_ps = 2900"));
    let error = setup.probe().unwrap_err();
    assert!(matches!(error, ProbeError::Spi(crate::spi::SpiError::NoEye { .. })), "{error}");
}

#[test]
fn a_released_chip_is_found_again_without_its_reset_pin() {
    let four_byte_mode = |s: &mut SpiNorSpec| s.erase.values_mut().for_each(|e| e.opcode_4b = None);
    for (part, soft_reset, board) in [
        (MX25UW12845G, true, "reset_pin = true"),
        (MX25UW12845G, false, "reset_pin = true"),
        (MX25UW51245G, false, ""),
        (test_parts::EVERY_MODE, false, ""),
        (W25Q128JV, true, ""),
    ] {
        let setup = Setup::new(part).spec(four_byte_mode).spec(|s| s.soft_reset = soft_reset).board(board);
        let (spec, plain) = (setup.spec.clone(), Setup::new(part).board);
        let mut rig = setup.ready();
        let at = rig.ready_at();
        let at = rig.write(at, 300, b"kept").unwrap().at;
        let (released, at) = rig.release(at).unwrap();
        let bus = bus(released.chip().clone(), CONTROLLER, &plain);
        let (profile, options) = (HostProfile::default(), Options::default());
        let mut again = SpiNorDriver::probe_at(at, bus, &[spec], profile, options).unwrap();
        let mut got = [0; 4];
        let at = again.ready_at();
        again.read(at, 300, &mut got).unwrap();
        assert_eq!(&got, b"kept");
    }
}

/// The bytes 1, 2, 3, 4 written on a single lane read as 2, 1, 4, 3 in 8D-8D-8D.
#[test]
fn a_chip_that_swaps_bytes_needs_a_controller_that_swaps_them_back() {
    let setup = |swaps: bool| {
        let mut setup = Setup::new(MX25UW12845G).board("reset_pin = true");
        setup.controller = setup.controller.replace("swap16 = true", &format!("swap16 = {swaps}"));
        setup
    };
    let in_array = |mut rig: Rig| {
        let at = rig.write(rig.ready_at(), 0, &[1, 2, 3, 4]).unwrap().at;
        let mut got = [0; 4];
        rig.read(at, 0, &mut got).unwrap();
        assert_eq!(got, [1, 2, 3, 4]);
        rig.bus().chip().array(0).unwrap().stored(0).unwrap()[..4].to_vec()
    };
    let careless = || setup(false).options(|o| o.ignore_swap16 = true);
    for (rig, octal, expected) in [
        (setup(true).ready(), true, [1, 2, 3, 4]),
        (setup(false).ready(), false, [1, 2, 3, 4]),
        (careless().ready(), true, [2, 1, 4, 3]),
    ] {
        assert_eq!(rig.read_op().mode == Mode::OCTAL_DTR, octal);
        assert_eq!(in_array(rig), expected);
    }
    let asked = setup(false).board("mode = '8D-8D-8D'").probe().unwrap_err();
    assert_eq!(asked, ProbeError::SwappedWords { mode: Mode::OCTAL_DTR });
}

/// Registers, dummy cycles and commands as in Linux's `cypress_nor_octal_dtr_en`.
#[test]
fn semper_chips_switch_by_any_register() {
    let mut rig = Setup::new(test_parts::SEMPER).clock("200 MHz").board("reset_pin = true").ready();
    let read = *rig.read_op();
    assert_eq!((read.mode, read.opcode, read.dummy_cycles, read.addr_bytes), (Mode::OCTAL_DTR, 0xEE, 24, 4));
    let data = bytes(1001, 9);
    let at = rig.write(rig.ready_at(), 0x100_0001, &data).unwrap().at;
    let mut got = vec![0; 1001];
    let at = rig.read(at, 0x100_0001, &mut got).unwrap().at;
    assert_eq!(got, data);
    // A failure is reported and cleared.
    let faults = Faults { erase: true, ..Faults::default() };
    rig.bus_mut().chip_mut().set_faults(0, faults);
    assert_eq!(rig.erase(at, 0, 0x4_0000).unwrap_err().kind, ErrorKind::EraseFailed);
    let at = rig.ready_at();
    assert!(rig.erase(at, 0x4_0000, 0x4_0000).is_ok());
    let end = rig.ready_at();
    let (mut bus, end) = rig.release(end).unwrap();
    let mut host = Host::default();
    host.resume(end);
    let mut id = [0; 3];
    let op = SpiOp { max_hz: 50_000_000, ..SpiOp::command(0x9F).read(3) };
    bus.exec(&mut host, &op, Data::In(&mut id)).unwrap();
    assert_eq!(id, [0x34, 0x5B, 0x1A]);
}
