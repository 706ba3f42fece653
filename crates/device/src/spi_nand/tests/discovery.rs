//! Tests of chip identification, and of the operations that the driver selects for a board.

use super::rig::{PARTS, Rig, board, controller, database, spec};
use crate::capability::{Otp, OtpArea};
use crate::ecc_engine::{EccProfile, EngineKind};
use crate::host::HostProfile;
use crate::spi::{Mode, SpiController};
use crate::spi_nand::{ChipOptions, Options, ProbeError, SpiNand, SpiNandDriver};
use floatgate_media::onfi;
use floatgate_mtd::Mtd;
use std::sync::Arc;

fn any_engine(name: &str) -> EccProfile {
    let engine = if spec(name).ecc.on_die { EngineKind::OnDie } else { EngineKind::Software };
    EccProfile { engine, ..EccProfile::default() }
}

fn rig(name: &str, mode: &str) -> Rig {
    Rig { ecc: any_engine(name), ..Rig::new(mode) }
}

#[test]
fn every_chip_is_found_by_its_id_alone() {
    for (name, _) in PARTS {
        let d = rig(name, "1S-1S-1S").driver(name);
        assert_eq!(*d.spec(), spec(name), "{name}");
    }
}

#[test]
fn an_unknown_chip_is_named_by_its_bytes() {
    let mut strange = spec("w35n01jw");
    strange.id = vec![0xEF, 0xEE, 0x77];
    let chip = SpiNand::new(Arc::new(strange), ChipOptions::default());
    let bus = SpiController::new(controller(), board(25_000_000, None), chip);
    let found = SpiNandDriver::probe(
        bus,
        &database(),
        HostProfile::default(),
        EccProfile::default(),
        Options::default(),
    );
    assert_eq!(found.err(), Some(ProbeError::UnknownId(vec![0xEF, 0xEE, 0x77, 0, 0])));
}

/// The two other forms of READ ID.
#[test]
fn ids_without_dummy_byte_are_found_too() {
    use crate::spi_nand::spec::IdRead;
    for way in [IdRead::Opcode, IdRead::Address, IdRead::Dummy] {
        let mut chip_spec = spec("w25n01jw");
        chip_spec.id_read = way;
        let chip = SpiNand::new(Arc::new(chip_spec.clone()), ChipOptions::default());
        let bus = SpiController::new(controller(), board(25_000_000, None), chip);
        let mut known = database();
        known.push(chip_spec.clone());
        let (host, ecc) = (HostProfile::default(), EccProfile::default());
        let d = SpiNandDriver::probe(bus, &known, host, ecc, Options::default()).unwrap();
        assert_eq!(*d.spec(), chip_spec, "{way:?}");
    }
}

#[test]
fn the_parameter_page_says_what_the_part_file_says() {
    for (name, _) in PARTS {
        let mut d = rig(name, "1S-1S-1S").driver(name);
        let g = spec(name).geometry;
        let mut copies = vec![0; 3 * onfi::PAGE_BYTES];
        let at = u64::from(g.page_bytes);
        d.otp_read(d.ready_at(), OtpArea::Factory, at, &mut copies).unwrap();
        let page = onfi::parse_copies(&copies).unwrap();
        assert_eq!(page.model.as_str().to_lowercase(), *name);
        assert_eq!((page.page_bytes, u32::from(page.spare_bytes)), (g.page_bytes, g.oob_bytes));
        assert_eq!((page.pages_per_block, page.blocks_per_lun), (g.pages_per_block, g.blocks_per_lun));
        assert_eq!(page.endurance.cycles(), Some(u64::from(spec(name).endurance_cycles)));
        assert!(copies.chunks(onfi::PAGE_BYTES).all(|copy| onfi::parse(copy).is_ok()));
    }
}

#[test]
fn unique_ids_follow_the_seed_and_check_out() {
    let id = |seed| {
        let mut rig = rig("w25n01jw", "1S-1S-1S");
        rig.chip.seed = seed;
        let mut d = rig.driver("w25n01jw");
        let mut id = [0; 32];
        d.otp_read(d.ready_at(), OtpArea::Factory, 0, &mut id).unwrap();
        id
    };
    let first = id(7);
    assert!((0..16).all(|i| first[i] == !first[i + 16]));
    assert_eq!(first, id(7));
    assert_ne!(first, id(8));
}

/// Example of facts 1.1: fewer dummy cycles at a low clock, more at a high clock.
#[test]
fn dummy_cycles_follow_the_clock() {
    for (mhz, dummy) in [(25, 8), (86, 8), (100, 12), (124, 12), (150, 16), (166, 20)] {
        let mut rig = Rig::new("1S-8S-8S");
        rig.board.clock_hz = mhz * 1_000_000;
        let d = rig.driver("w35n01jw");
        assert_eq!((d.read_operation().dummy_cycles, d.read_operation().opcode), (dummy, 0xCB), "{mhz} MHz");
    }
}

#[test]
fn high_speed_reads_are_enabled_when_they_pay() {
    for (mhz, dummy) in [(100, 4), (166, 8)] {
        let mut rig = Rig::new("1S-4S-4S");
        rig.board.clock_hz = mhz * 1_000_000;
        let mut d = rig.driver("w25n01jw");
        assert_eq!(d.read_operation().dummy_cycles, dummy, "{mhz} MHz");
        d.read(d.ready_at(), 0, &mut [0; 2048]).unwrap();
    }
}

/// Random loads are preferred among equal ones; plain loads are used if only they are wide.
#[test]
fn program_loads_are_as_wide_as_the_limit_allows() {
    for (mode, opcode) in [("1S-1S-1S", 0x84), ("1S-1S-8S", 0x82), ("1S-8S-8S", 0xC4), ("1S-1D-8D", 0x82)] {
        assert_eq!(Rig::new(mode).driver("w35n01jw").load_operation().opcode, opcode, "{mode}");
    }
    let octal = Rig::new("8D-8D-8D").driver("w35n01jw").load_operation();
    assert_eq!((octal.opcode, octal.mode), (0xC4, Mode::OCTAL_DTR));
}

#[test]
fn the_widest_common_mode_is_taken_without_a_limit() {
    let read_mode = |dtr, lanes, reset_pin| {
        let mut rig = Rig::new("1S-1S-1S");
        rig.board.mode = None;
        (rig.profile.dtr, rig.profile.lanes, rig.board.reset_pin) = (dtr, lanes, reset_pin);
        rig.driver("w35n01jw").read_operation().mode.to_string()
    };
    assert_eq!(read_mode(true, 8, true), "8D-8D-8D");
    assert_eq!(read_mode(true, 8, false), "1S-1D-8D");
    assert_eq!(read_mode(false, 8, true), "1S-8S-8S");
    assert_eq!(read_mode(false, 4, true), "1S-1S-1S");
}

#[test]
fn modes_out_of_reach_are_refused_with_what_is_on_offer() {
    let error = Rig::new("1S-4S-4S").probe("w35n01jw").err().unwrap();
    let text = error.to_string();
    assert!(text.contains("1S-4S-4S") && text.contains("1S-8S-8S"), "{text}");
    let mut rig = Rig::new("1S-8S-8S");
    rig.profile.lanes = 4;
    let offered = vec![Mode::SINGLE];
    let wanted = "1S-8S-8S".parse().unwrap();
    assert_eq!(rig.probe("w35n01jw").err(), Some(ProbeError::ModeNotOffered { wanted, offered }));
}

#[test]
fn stateful_modes_need_a_reset_pin() {
    let mut rig = Rig::new("8D-8D-8D");
    rig.board.reset_pin = false;
    assert_eq!(rig.probe("w35n01jw").err(), Some(ProbeError::NoResetPin(Mode::OCTAL_DTR)));
}

/// A restarted host finds the chip in 8D; the reset pin returns it to a single lane.
#[test]
fn a_chip_left_in_octal_mode_is_found_again() {
    let d = Rig::new("8D-8D-8D").driver("w35n01jw");
    let bus = d.bus().clone();
    let (host, ecc) = (HostProfile::default(), EccProfile::default());
    let again = SpiNandDriver::probe(bus, &database(), host, ecc, Options::default());
    assert_eq!(again.unwrap().read_operation().mode, Mode::OCTAL_DTR);
}

#[test]
fn an_engine_the_chip_lacks_is_refused() {
    assert_eq!(Rig::new("1S-1S-1S").probe("mx35lf2g14ac").err(), Some(ProbeError::NoOnDieEcc));
}
