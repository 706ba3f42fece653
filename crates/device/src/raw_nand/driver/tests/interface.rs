//! Tests of the data interface that driver, controller and chip select.

use crate::raw_nand::chip::{ChipOptions, RawNand};
use crate::raw_nand::controller::{NandBoard, NandController, NandProfile};
use crate::raw_nand::spec::{FeatureSpec, RawNandSpec};
use crate::raw_nand::testing::{Driver, ideal_controller, mx30lf2g18ac, nand128w3a2bn, nv_ddr, rig};
use crate::raw_nand::timing::{DataInterface, Modes};
use floatgate_mtd::{Instant, Mtd};

fn probe(spec: &RawNandSpec, profile: NandProfile, board: NandBoard, known: &[RawNandSpec]) -> Driver {
    let bus = NandController::new(profile, board, RawNand::package(spec, ChipOptions::default()).unwrap());
    let mut device = crate::raw_nand::testing::probe(bus, rig(), known).unwrap();
    // The selected interface works.
    let page = vec![0xA5; device.geometry().write_bytes as usize];
    let mut back = vec![0; page.len()];
    device.write(Instant::ZERO, 0, &page).unwrap();
    device.read(Instant::ZERO, 0, &mut back).unwrap();
    assert!(back == page);
    device
}

fn chosen(spec: &RawNandSpec, known: &[RawNandSpec]) -> DataInterface {
    probe(spec, ideal_controller(), NandBoard::default(), known).interface()
}

fn quirk(set: bool, get: bool, advertised: bool, timing_mode: bool) -> RawNandSpec {
    let mut spec = nv_ddr();
    spec.features = FeatureSpec { set, get, advertised, timing_mode };
    spec
}

#[test]
fn the_best_common_mode_wins() {
    assert_eq!(chosen(&nv_ddr(), &[]), DataInterface::NvDdr(5));
    let mut profile = ideal_controller();
    profile.nvddr_modes = Modes::up_to(2);
    let device = probe(&nv_ddr(), profile.clone(), NandBoard::default(), &[]);
    assert_eq!(device.interface(), DataInterface::NvDdr(2));
    assert_eq!(device.bus().chip(0).unwrap().interface(), DataInterface::NvDdr(2));
    profile.nvddr_modes = Modes::NONE;
    profile.sdr_modes = Modes::up_to(4);
    assert_eq!(probe(&nv_ddr(), profile, NandBoard::default(), &[]).interface(), DataInterface::Sdr(4));
}

#[test]
fn the_board_has_the_last_word() {
    let board = NandBoard { interface: Some(DataInterface::Sdr(3)), ..NandBoard::default() };
    assert_eq!(probe(&nv_ddr(), ideal_controller(), board, &[]).interface(), DataInterface::Sdr(3));
}

#[test]
fn without_set_features_the_promised_sdr_mode_is_used() {
    assert_eq!(chosen(&quirk(false, false, false, false), &[]), DataInterface::Sdr(5));
    let spec = nand128w3a2bn();
    assert_eq!(chosen(&spec, std::slice::from_ref(&spec)), DataInterface::Sdr(0));
}

#[test]
fn set_without_get_is_not_checked() {
    let spec = quirk(true, false, true, true);
    // The parameter page promises both features; only the catalogue is correct.
    assert_eq!(chosen(&spec, std::slice::from_ref(&spec)), DataInterface::NvDdr(5));
    assert_eq!(chosen(&spec, &[]), DataInterface::Sdr(0), "GET FEATURES fails, so nobody knows");
}

#[test]
fn supported_but_not_advertised_needs_the_catalogue() {
    // Such a chip must be configured before it runs faster; without the catalogue the procedure is
    // unknown.
    let spec = quirk(true, true, false, true);
    assert_eq!(chosen(&spec, std::slice::from_ref(&spec)), DataInterface::NvDdr(5));
}

#[test]
fn advertised_but_not_honoured_falls_back() {
    let spec = quirk(true, true, true, false);
    assert_eq!(chosen(&spec, &[]), DataInterface::Sdr(0));
    assert_eq!(chosen(&spec, std::slice::from_ref(&spec)), DataInterface::Sdr(5));
    let mx = mx30lf2g18ac();
    assert_eq!(chosen(&mx, &[]), DataInterface::Sdr(0));
    assert_eq!(chosen(&mx, std::slice::from_ref(&mx)), DataInterface::Sdr(5));
}

#[test]
fn status_polling_replaces_the_ready_pin() {
    for spec in [mx30lf2g18ac(), nv_ddr(), nand128w3a2bn()] {
        let board = NandBoard { no_ready_pin: true, ..NandBoard::default() };
        let mut device = probe(&spec, ideal_controller(), board, std::slice::from_ref(&spec));
        let data = vec![0x42; 4 * device.geometry().write_bytes as usize];
        let mut back = vec![0; data.len()];
        let block = u64::from(device.geometry().erase_bytes);
        device.write(Instant::ZERO, block, &data).unwrap();
        device.read(Instant::ZERO, block, &mut back).unwrap();
        assert!(back == data);
        let before = device.breakdown();
        device.erase(Instant::ZERO, 0, u64::from(device.geometry().erase_bytes)).unwrap();
        let cost = device.breakdown() - before;
        assert!(cost[floatgate_mtd::Phase::Polling].as_ns() > 0);
    }
}
