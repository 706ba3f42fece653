//! Tests of paired pages from the view of a user, and of the device that omits MSB pages.

use crate::oracle::Oracle;
use crate::raw_nand::RawNandSpec;
use crate::raw_nand::driver::IdSource;
use crate::raw_nand::spec::MarkerPage;
use crate::raw_nand::testing::{Driver, driver, mlc, mx30lf2g18ac, nv_ddr, rig};
use floatgate_mtd::{
    ErrorKind, FlashKind, Instant, Mtd, OobMode, Pairing, PairingScheme, Phase, SlcMode, SlcModeError,
};

const NOW: Instant = Instant::ZERO;

fn slc(scheme: PairingScheme) -> SlcMode<Driver> {
    SlcMode::new(driver(&mlc(scheme), rig()).unwrap()).unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 4096) as u8).collect()
}

/// The catalogue entry for the example's id contains the pairing, which its parameter page lacks.
#[test]
fn the_catalogue_tells_the_pairing() {
    let spec = mlc(PairingScheme::Dist3);
    let device = driver(&spec, rig()).unwrap();
    assert_eq!(device.info().id_source, IdSource::Onfi);
    assert_eq!(device.geometry().pairing, Pairing::new(PairingScheme::Dist3, 12).unwrap());
    assert_eq!(device.geometry().kind, FlashKind::MlcNand);
    assert_eq!(driver(&nv_ddr(), rig()).unwrap().geometry().pairing, Pairing::NONE);
}

#[test]
fn chips_without_pairs_have_no_slc_mode() {
    let refuse = |spec: &RawNandSpec| SlcMode::new(driver(spec, rig()).unwrap()).unwrap_err();
    assert_eq!(refuse(&mx30lf2g18ac()), SlcModeError::NotMlc);
    assert_eq!(refuse(&nv_ddr()), SlcModeError::UnknownPairing);
}

#[test]
fn blocks_in_slc_mode_hold_half_and_read_back() {
    for scheme in [PairingScheme::Dist3, PairingScheme::Dist6] {
        let mut device = slc(scheme);
        let (page, block) = (device.geometry().write_bytes as usize, device.geometry().erase_bytes as usize);
        assert_eq!(block, 6 * page);
        let data = pattern(2 * block);
        let addr = 3 * block as u64;
        let at = device.write(NOW, addr, &data).unwrap().at;
        let mut back = vec![0; 2 * block - 5];
        let at = device.read(at, addr + 5, &mut back).unwrap().at;
        assert!(back == data[5..]);
        // LSB pages are programmed once each, MSB pages are still erased.
        let pairing = device.inner().geometry().pairing;
        let array = device.inner().bus().array(0).unwrap();
        for row in 36..60 {
            assert_eq!(array.programs(row) == 1, pairing.is_lsb(row as u32 % 12), "{scheme} row {row}");
        }
        let at = device.erase(at, addr, block as u64).unwrap().at;
        device.read(at, addr, &mut back[..page]).unwrap();
        assert!(back[..page].iter().all(|&byte| byte == 0xFF));
        let array = device.inner().bus().array(0).unwrap();
        assert_eq!((array.programs(36), array.programs(48)), (0, 1));
    }
}

/// The array time for programs of a block is the sum over its LSB pages, to the nanosecond.
#[test]
fn slc_mode_programs_at_the_pace_of_lsb_pages() {
    let array = |device: &dyn Mtd| device.breakdown()[Phase::Array].as_ns();
    let mut whole = driver(&mlc(PairingScheme::Dist3), rig()).unwrap();
    let len = whole.geometry().erase_bytes as usize;
    let before = array(&whole);
    whole.write(NOW, 0, &pattern(len)).unwrap();
    let mixed = array(&whole) - before;
    let mut device = slc(PairingScheme::Dist3);
    let before = array(&device);
    device.write(NOW, 0, &pattern(len / 2)).unwrap();
    let lsb = array(&device) - before;
    assert_eq!(mixed - lsb, 6 * 800_000);
    assert!((6 * 200_000..6 * 201_000).contains(&lsb), "{lsb}");
}

#[test]
fn bad_blocks_and_oob_go_through() {
    let mut spec = mlc(PairingScheme::Dist6);
    spec.bad_block_marker.pages = vec![MarkerPage::Last];
    let mut device = SlcMode::new(driver(&spec, rig()).unwrap()).unwrap();
    let (page, block) = (device.geometry().write_bytes, u64::from(device.geometry().erase_bytes));
    let addr = block + 5 * u64::from(page);
    device.write_oob(NOW, addr, &pattern(page as usize), &[3; 8], OobMode::Auto).unwrap();
    let (mut data, mut oob) = (vec![0; page as usize], [0; 8]);
    device.read_oob(NOW, addr, &mut data, &mut oob, OobMode::Auto).unwrap();
    assert!(data == pattern(page as usize) && oob == [3; 8]);
    assert_eq!(device.inner().bus().array(0).unwrap().programs(12 + 7), 1, "the sixth LSB page is page 7");
    device.mark_bad(NOW, addr).unwrap();
    assert!(device.is_bad(NOW, block).unwrap().0 && !device.is_bad(NOW, 2 * block).unwrap().0);
    let error = device.erase(NOW, 0, 3 * block).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::BadBlock, block));
}

#[test]
fn an_uncorrectable_page_does_not_hide_the_others() {
    let mut device = slc(PairingScheme::Dist6);
    let page = device.geometry().write_bytes as usize;
    let data = pattern(4 * page);
    device.write(NOW, 0, &data).unwrap();
    // Pages 1 and 2 of the half-size block are pages 1 and 2 of the full block.
    let array = device.inner_mut().bus_mut().array_mut(0).unwrap();
    for bit in 0..100 {
        array.inject(1, bit * 3);
    }
    let mut back = vec![0; 4 * page];
    let error = device.read(NOW, 0, &mut back).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::Uncorrectable, page as u64));
    assert_eq!(error.at, device.inner().ready_at());
    assert!(back[..page] == data[..page] && back[2 * page..] == data[2 * page..]);
}
