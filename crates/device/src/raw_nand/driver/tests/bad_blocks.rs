//! Tests of bad blocks: markers, tables, failures.

use crate::nand::BlockState;
use crate::oracle::{Faults, Oracle};
use crate::raw_nand::chip::{ChipOptions, RawNand};
use crate::raw_nand::controller::{NandBoard, NandController};
use crate::raw_nand::driver::{BadBlocks, Options};
use crate::raw_nand::spec::{MarkerPage, RawNandSpec};
use crate::raw_nand::testing::Rig;
use crate::raw_nand::testing::{Driver, driver, ideal_controller, mx30lf2g18ac, nand128w3a2bn, rig, wire};
use floatgate_mtd::{ErrorKind, Instant, Mtd};

const NOW: Instant = Instant::ZERO;

fn small() -> RawNandSpec {
    let mut spec = mx30lf2g18ac();
    spec.geometry.blocks_per_lun = 64;
    spec.factory_bad.per_lun = 5;
    // With this seed the blocks of the table are not bad.
    let bad =
        |spec: &RawNandSpec| RawNand::package(spec, ChipOptions::timing_only()).unwrap()[0].factory_bad();
    while bad(&spec).iter().any(|block| *block >= 60 || [5, 7, 9, 11].contains(block)) {
        spec.factory_bad.seed += 1;
    }
    spec
}

fn on_flash() -> Rig {
    let mut rig = rig();
    rig.options.bad_blocks = BadBlocks::OnFlash;
    rig
}

fn bad(device: &Driver) -> Vec<u32> {
    let bad = |block: &u32| matches!(device.block_state(*block), BlockState::Worn | BlockState::FactoryBad);
    (0..device.geometry().blocks()).filter(bad).collect()
}

/// Connects a chip to a new controller and probes it with a new driver.
pub(super) fn probe_again(chip: RawNand, rig: Rig) -> Driver {
    let spec = chip.spec().clone();
    let bus = NandController::new(ideal_controller(), NandBoard::default(), vec![chip]);
    crate::raw_nand::testing::probe(bus, rig, &[spec]).unwrap()
}

/// The same chips on another controller, after a power cycle.
fn again(device: &Driver, rig: Rig) -> Driver {
    probe_again(device.bus().chip(0).unwrap().clone(), rig)
}

#[test]
fn a_scan_finds_the_makers_marks() {
    let mut odd = small();
    odd.bad_block_marker.pages = vec![MarkerPage::Second, MarkerPage::Last];
    odd.bad_block_marker.oob_byte = Some(3);
    let mut tiny = nand128w3a2bn();
    tiny.factory_bad.per_lun = 9;
    for spec in [small(), odd, tiny] {
        for stores in [true, false] {
            let device =
                crate::raw_nand::testing::probe(wire(&spec, stores), rig(), std::slice::from_ref(&spec))
                    .unwrap();
            assert_eq!(bad(&device), device.bus().factory_bad());
            assert_eq!(bad(&device).len(), spec.factory_bad.per_lun as usize);
        }
    }
}

#[test]
fn bad_blocks_are_not_erased() {
    let mut device = driver(&small(), rig()).unwrap();
    let block = bad(&device)[0];
    let size = u64::from(device.geometry().erase_bytes);
    let error = device.erase(NOW, u64::from(block) * size, size).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::BadBlock, u64::from(block) * size));
    assert!(device.is_bad(NOW, u64::from(block) * size + 5).unwrap().0);
}

#[test]
fn marks_read_on_demand_are_those_of_a_scan() {
    for (stores, multi_plane) in [(true, false), (false, false), (true, true)] {
        let spec = small();
        let mut rig = rig();
        rig.options = Options { bad_blocks: BadBlocks::OnDemand, multi_plane, ..rig.options };
        let mut device =
            crate::raw_nand::testing::probe(wire(&spec, stores), rig, std::slice::from_ref(&spec)).unwrap();
        assert_eq!(bad(&device), [], "no mark is read at probe");
        let size = u64::from(device.geometry().erase_bytes);
        let marked = device.bus().factory_bad();
        for block in 0..device.geometry().blocks() {
            let addr = u64::from(block) * size;
            if block % 2 == 0 {
                assert_eq!(device.erase(NOW, addr, size).is_err(), marked.contains(&block), "{block}");
            }
            assert_eq!(device.is_bad(NOW, addr).unwrap().0, marked.contains(&block), "{block}");
        }
        assert_eq!(bad(&device), marked);
    }
}

#[test]
fn marks_made_here_are_found_by_the_next_scan() {
    for spec in [small(), nand128w3a2bn()] {
        let mut device = driver(&spec, rig()).unwrap();
        let size = u64::from(device.geometry().erase_bytes);
        let page = vec![0; device.geometry().write_bytes as usize];
        device.write(NOW, 7 * size, &page).unwrap();
        device.mark_bad(NOW, 7 * size).unwrap();
        device.mark_bad(NOW, 7 * size).unwrap();
        assert!(bad(&device).contains(&7));
        assert_eq!(bad(&again(&device, rig())), bad(&device));
    }
}

#[test]
fn a_table_on_flash_survives() {
    let mut device = driver(&small(), on_flash()).unwrap();
    let size = u64::from(device.geometry().erase_bytes);
    device.mark_bad(NOW, 11 * size).unwrap();
    let expected = bad(&device);
    assert_eq!(expected.len(), 6);
    // Without markers, only the table contains the bad blocks.
    let mut wiped = again(&device, on_flash());
    let chip = wiped.bus_mut().chip_mut(0).unwrap();
    for block in &expected {
        chip.array_mut(0).unwrap().erase(*block as usize);
    }
    let next = again(&wiped, on_flash());
    assert_eq!(bad(&next), expected);
    assert_eq!(next.block_state(11), BlockState::Worn);
    let factory = device.bus().factory_bad()[0];
    assert_eq!(next.block_state(factory), BlockState::FactoryBad);
    assert_eq!(next.block_state(63), BlockState::Reserved);
    let mut next = next;
    assert!(next.is_bad(NOW, 63 * size).unwrap().0, "users keep off the table");
}

/// Signature and version are at bytes 8 and 12 of the OOB, `Bbt0` in the last block, its mirror before it; two bits per
/// block.
#[test]
fn the_table_has_linuxs_format() {
    let mut spec = small();
    spec.factory_bad.per_lun = 0;
    let mut device = driver(&spec, on_flash()).unwrap();
    let size = u64::from(device.geometry().erase_bytes);
    device.mark_bad(NOW, 5 * size).unwrap();
    for (block, signature) in [(63, b"Bbt0"), (62, b"1tbB")] {
        let page = device.bus().array(0).unwrap().stored(block * 64).unwrap();
        assert_eq!(&page[2048 + 8..2048 + 12], signature);
        assert_eq!((page[2048 + 12], page[2048]), (2, 0xFF));
        assert_eq!(page[..4], [0xFF, 0b1111_1011, 0xFF, 0xFF]);
    }
}

#[test]
fn the_newer_copy_wins_and_a_lost_one_is_replaced() {
    let mut device = driver(&small(), on_flash()).unwrap();
    let old = device.bus().array(0).unwrap().stored(63 * 64).unwrap().to_vec();
    let size = u64::from(device.geometry().erase_bytes);
    device.mark_bad(NOW, 9 * size).unwrap();
    // Power was lost between the two copies: the first copy still has the old version.
    let array = device.bus_mut().array_mut(0).unwrap();
    array.erase(63);
    array.program(63 * 64, 0, &old);
    let next = again(&device, on_flash());
    assert!(bad(&next).contains(&9));
    let page = next.bus().array(0).unwrap().stored(63 * 64).unwrap();
    assert_eq!(page[2048 + 12], 2, "the older copy was written again");
    // One copy is missing completely.
    let mut next = next;
    next.bus_mut().array_mut(0).unwrap().erase(63);
    let last = again(&next, on_flash());
    assert_eq!(bad(&last), bad(&next));
    assert!(last.bus().array(0).unwrap().stored(63 * 64).is_some());
}

#[test]
fn a_failing_table_block_is_left() {
    let mut spec = small();
    spec.factory_bad.per_lun = 0;
    let mut chip = RawNand::package(&spec, ChipOptions::default()).unwrap().remove(0);
    chip.set_faults(63 * 131_072, Faults::ERASE);
    let bus = NandController::new(ideal_controller(), NandBoard::default(), vec![chip]);
    let device = crate::raw_nand::testing::probe(bus, on_flash(), &[spec]).unwrap();
    assert_eq!(device.block_state(63), BlockState::Worn);
    let signature = |block: usize| {
        let page = device.bus().array(0).unwrap().stored(block * 64).unwrap();
        page[2048 + 8..2048 + 12].to_vec()
    };
    assert_eq!((signature(62), signature(61)), (b"Bbt0".to_vec(), b"1tbB".to_vec()));
}

#[test]
fn failures_are_reported_where_they_happen() {
    for cached_programs in [false, true] {
        let mut rig = rig();
        rig.options.cached_programs = cached_programs;
        rig.options.multi_plane = true;
        let mut device = driver(&mx30lf2g18ac(), rig).unwrap();
        let size = u64::from(device.geometry().erase_bytes);
        let faults = Faults::BOTH;
        device.bus_mut().chip_mut(0).unwrap().set_faults(3 * size, faults);
        let error = device.write(NOW, 3 * size, &[0; 3 * 2048]).unwrap_err();
        assert_eq!((error.kind, error.addr), (ErrorKind::ProgramFailed, 3 * size));
        let error = device.erase(NOW, 2 * size, 2 * size).unwrap_err();
        assert_eq!((error.kind, error.addr), (ErrorKind::EraseFailed, 3 * size));
        // The device is still usable.
        device.write(NOW, 4 * size, &[0; 2048]).unwrap();
    }
}
