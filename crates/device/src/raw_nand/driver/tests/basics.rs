//! Tests of identification, and of reads that return the written data.

use crate::oracle::{Faults, Oracle};
use crate::raw_nand::driver::{ChipInfo, IdSource};
use crate::raw_nand::spec::{JedecSpec, RawNandSpec};
use crate::raw_nand::testing::{driver, mx30lf2g18ac, nand128w3a2bn, nv_ddr, rig, wire};
use crate::wire::Device;
use floatgate_mtd::{ErrorKind, Instant, Mtd};

fn discovered(spec: &RawNandSpec, known: &[RawNandSpec]) -> ChipInfo {
    crate::raw_nand::testing::probe(wire(spec, true), rig(), known).unwrap().info().clone()
}

#[test]
fn onfi_pages_tell_everything() {
    for spec in [mx30lf2g18ac(), nv_ddr()] {
        let info = discovered(&spec, &[]);
        assert_eq!(info.id_source, IdSource::Onfi);
        assert_eq!(info.geometry, spec.geometry);
        assert_eq!(info.ecc, spec.ecc);
        assert_eq!((info.sdr_modes, info.nvddr_modes), (spec.sdr_modes, spec.nvddr_modes));
        assert_eq!((info.t_r_max, info.t_bers_max), (spec.timing.t_r_us.max, spec.timing.t_bers_us.max));
        assert_eq!((info.nop, info.id), (spec.nop, spec.id));
        assert_eq!(info.model, spec.onfi.unwrap().model);
    }
}

#[test]
fn jedec_pages_tell_the_geometry() {
    let mut spec = nv_ddr();
    spec.onfi = None;
    spec.jedec = Some(JedecSpec { manufacturer: "TOSHIBA".into(), model: "TH58".into(), copies: 3 });
    let info = discovered(&spec, &[]);
    assert_eq!((info.id_source, info.geometry, info.ecc), (IdSource::Jedec, spec.geometry, spec.ecc));
}

#[test]
fn chips_without_parameter_page_are_known_by_id() {
    let spec = nand128w3a2bn();
    let info = discovered(&spec, &[]);
    assert_eq!(info.id_source, IdSource::IdBytes);
    assert_eq!(info.geometry.page_bytes, 512);
    assert_eq!(info.geometry.blocks_per_lun, 1024);
    let info = discovered(&spec, &[mx30lf2g18ac(), spec.clone()]);
    assert_eq!((info.id_source, info.geometry), (IdSource::Catalogue, spec.geometry));
}

#[test]
fn every_target_that_answers_counts() {
    let mut spec = nand128w3a2bn();
    spec.geometry.targets = 2;
    let device = driver(&spec, rig()).unwrap();
    assert_eq!(device.geometry().size_bytes, 2 * 1024 * 32 * 512);
}

#[test]
fn an_empty_socket_is_no_device() {
    let mut bus = wire(&mx30lf2g18ac(), true);
    bus = crate::raw_nand::NandController::new(bus.profile().clone(), bus.board().clone(), Vec::new());
    let error = crate::raw_nand::testing::probe(bus, rig(), &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::DeviceLost);
}

#[test]
fn written_pages_read_back_and_erase() {
    for spec in [mx30lf2g18ac(), nand128w3a2bn(), nv_ddr()] {
        let mut device = driver(&spec, rig()).unwrap();
        let (page, block) =
            (device.geometry().write_bytes as usize, u64::from(device.geometry().erase_bytes));
        let data: Vec<u8> = (0..3 * page).map(|i| (i * 7 + i / page) as u8).collect();
        let addr = 3 * block;
        let at = device.write(Instant::ZERO, addr, &data).unwrap().at;
        let mut back = vec![0; data.len()];
        let at = device.read(at, addr, &mut back).unwrap().at;
        assert!(back == data);
        let mut part = [0; 5];
        let at = device.read(at, addr + page as u64 - 2, &mut part).unwrap().at;
        assert_eq!(part, data[page - 2..page + 3]);
        let at = device.erase(at, addr, block).unwrap().at;
        device.read(at, addr, &mut back).unwrap();
        assert!(back.iter().all(|byte| *byte == 0xFF));
    }
}

#[test]
fn one_page_written_holds_one_page() {
    let mut device = driver(&mx30lf2g18ac(), rig()).unwrap();
    let held = |device: &crate::raw_nand::testing::Driver| device.bus().array(0).unwrap().held_bytes();
    assert_eq!(held(&device), 0);
    device.write(Instant::ZERO, 0, &[0x5A; 2048]).unwrap();
    assert_eq!(held(&device), 2048 + 64);
}

#[test]
fn the_oracle_looks_past_the_command_set_and_breaks_blocks() {
    let mut device: Box<dyn Device> = Box::new(driver(&mx30lf2g18ac(), rig()).unwrap());
    let block = u64::from(device.geometry().erase_bytes);
    let at = device.write(Instant::ZERO, 0, &[0; 2048]).unwrap().at;
    let oracle = device.oracle();
    assert_eq!(oracle.array(0).unwrap().stored(0).unwrap()[..2048], [0; 2048]);
    assert!(oracle.array(1).is_none() && oracle.factory_bad().is_empty());
    oracle.set_faults(block, Faults::ERASE);
    let fresh = oracle.cells(0).unwrap().rber(0, at).total();
    oracle.cells_mut(0).unwrap().bake(365.0, 85.0);
    assert!(oracle.cells(0).unwrap().rber(0, at).total() > fresh);
    let error = device.erase(at, 0, 2 * block).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::EraseFailed, block));
    device.oracle().set_faults(block, Faults::NONE);
    assert!(device.erase(error.at, block, block).is_ok());
}
