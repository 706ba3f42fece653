//! Tests of OOB, OTP, protection and correction.

use crate::capability::{Otp, OtpArea};
use crate::ecc_engine::{EccProfile, EngineKind};
use crate::oracle::Oracle;
use crate::raw_nand::testing::{Driver, driver, mx30lf2g18ac, nand128w3a2bn, nv_ddr, rig};
use floatgate_mtd::{ErrorKind, Instant, Mtd, OobMode};

const NOW: Instant = Instant::ZERO;

fn inject(device: &mut Driver, row: usize, bits: &[u32]) {
    let array = device.bus_mut().array_mut(0).unwrap();
    bits.iter().for_each(|bit| array.inject(row, *bit));
}

#[test]
fn oob_bytes_go_where_the_layout_says() {
    let mut device = driver(&mx30lf2g18ac(), rig()).unwrap();
    // BCH with 4 bits over 512 bytes has 4 * 7 bytes at the end of the OOB.
    assert_eq!(device.geometry().oob_free_bytes, 64 - 2 - 28);
    let data = [0x42; 2048];
    let user: Vec<u8> = (0..34).collect();
    device.write_oob(NOW, 0, &data, &user, OobMode::Auto).unwrap();
    let (mut page, mut oob) = ([0; 2048], [0; 64]);
    device.read_oob(NOW, 0, &mut page, &mut oob, OobMode::Raw).unwrap();
    assert_eq!((page, &oob[2..36], oob[0]), (data, &user[..], 0xFF));
    let mut free = [0; 34];
    device.read_oob(NOW, 0, &mut [], &mut free, OobMode::Auto).unwrap();
    assert_eq!(free[..], user);
    // OOB bytes alone, in place mode, on the next page.
    device.write_oob(NOW, 2048, &[], &[0xFF, 0xFF, 0x0F], OobMode::Place).unwrap();
    device.read_oob(NOW, 2048, &mut page, &mut oob, OobMode::Place).unwrap();
    assert_eq!((page, oob[2]), ([0xFF; 2048], 0x0F));
    assert!(device.read_oob(NOW, 0, &mut [], &mut [0; 35], OobMode::Auto).is_err());
    assert!(device.read_oob(NOW, 0, &mut [0; 7], &mut [], OobMode::Raw).is_err());
}

#[test]
fn small_pages_have_their_own_layout() {
    let mut device = driver(&nand128w3a2bn(), rig()).unwrap();
    assert_eq!(device.geometry().oob_free_bytes, 8);
    device.write_oob(NOW, 512, &[0; 512], &[1, 2, 3], OobMode::Auto).unwrap();
    let mut oob = [0; 16];
    device.read_oob(NOW, 512, &mut [], &mut oob, OobMode::Raw).unwrap();
    assert_eq!(oob[8..12], [1, 2, 3, 0xFF]);
}

#[test]
fn bit_errors_are_corrected_counted_and_given_up() {
    let mut device = driver(&mx30lf2g18ac(), rig()).unwrap();
    let data = [0x5A; 4 * 2048];
    device.write(NOW, 0, &data).unwrap();
    inject(&mut device, 1, &[0, 9, 5000]);
    inject(&mut device, 2, &[2048 * 8]);
    let mut back = [0; 4 * 2048];
    let done = device.read(NOW, 0, &mut back).unwrap();
    assert_eq!((done.bitflips, done.bitflips_max, back), (3, 2, data));
    inject(&mut device, 2, &[1, 2, 3, 4, 5]);
    let error = device.read(NOW, 0, &mut back).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::Uncorrectable, 2 * 2048));
    assert_eq!(back[3 * 2048..], data[3 * 2048..], "the pages after it were read");
    let mut raw = [0; 2048];
    device.read_oob(NOW, 2 * 2048, &mut raw, &mut [], OobMode::Raw).unwrap();
    assert_eq!(raw[0], 0x5A ^ 0x3E);
}

/// A chip with on-die ECC reports results in its status and does not count bits.
#[test]
fn on_die_ecc_reports_by_status() {
    let mut spec = mx30lf2g18ac();
    spec.ecc = crate::raw_nand::spec::NandEcc { strength: 8, step_bytes: 512, on_die: true };
    let rig = crate::raw_nand::testing::Rig { ecc: EccProfile::default(), ..rig() };
    assert!(driver(&mx30lf2g18ac(), rig).is_err(), "this one does not");
    let mut device = driver(&spec, rig).unwrap();
    assert_eq!((device.geometry().ecc_strength, device.geometry().oob_free_bytes), (8, 62));
    assert!(!device.reads_sequentially());
    let data = [0xC3; 4 * 2048];
    device.write(NOW, 0, &data).unwrap();
    let mut read = |bits: &[u32]| {
        inject(&mut device, 1, bits);
        let mut back = [0; 4 * 2048];
        let done = device.read(NOW, 0, &mut back);
        (done.map(|done| done.bitflips_max).map_err(|error| error.kind), back == data)
    };
    assert_eq!(read(&[0, 700, 5000]), (Ok(0), true));
    assert_eq!(read(&[1, 2, 3, 4]), (Ok(6), true));
    assert_eq!(read(&[5, 6, 7]), (Err(ErrorKind::Uncorrectable), false));
}

#[test]
fn on_die_ecc_fails_where_a_step_was_programmed_twice() {
    let mut spec = mx30lf2g18ac();
    spec.ecc = crate::raw_nand::spec::NandEcc { strength: 8, step_bytes: 512, on_die: true };
    let rig = crate::raw_nand::testing::Rig { ecc: EccProfile::default(), ..rig() };
    let mut device = driver(&spec, rig).unwrap();
    let mut back = [0; 2048];
    device.write(NOW, 0, &[0xC3; 2048]).unwrap();
    super::ecc::fail_erase(&mut device);
    device.write(NOW, 0, &[0xC3; 2048]).unwrap();
    assert!(device.read(NOW, 0, &mut back).is_ok(), "the same bytes");
    super::ecc::fail_erase(&mut device);
    device.write(NOW, 0, &[0x66; 2048]).unwrap();
    assert_eq!(device.read(NOW, 0, &mut back).unwrap_err().kind, ErrorKind::Uncorrectable);
    assert_eq!(back, [0x42; 2048]);
}

/// Read retry is tried, does not correct errors that are not caused by the cells, and restores the normal mode.
#[test]
fn read_retry_steps_through_its_modes() {
    let mut device = driver(&nv_ddr(), rig()).unwrap();
    let page = vec![0; 16 << 10];
    device.write(NOW, 0, &page).unwrap();
    inject(&mut device, 0, &(0..25).collect::<Vec<_>>());
    device.host_mut().record(true);
    let error = device.read(NOW, 0, &mut vec![0; 16 << 10]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Uncorrectable);
    let spans = device.host_mut().take_spans();
    let count = |what| spans.iter().filter(|span| span.what == what).count();
    assert_eq!((count("READ 30h"), count("SET FEATURES EFh")), (4, 4));
    assert_eq!(device.bus().chip(0).unwrap().read_retry_mode(0), 0);
    assert!(!device.reads_sequentially());
}

#[test]
fn otp_reads_writes_and_locks() {
    let mut device = driver(&mx30lf2g18ac(), rig()).unwrap();
    assert_eq!((device.otp_regions(OtpArea::User), device.otp_regions(OtpArea::Factory)), (1, 0));
    let size = 30 * 2112;
    let region = device.otp_info(NOW, OtpArea::User, 0).unwrap().0;
    assert_eq!((region.len, region.locked), (size, false));
    device.otp_write(NOW, 2110, &[1, 2, 3, 4]).unwrap();
    let mut back = [0; 6];
    device.otp_read(NOW, OtpArea::User, 2109, &mut back).unwrap();
    assert_eq!(back, [0xFF, 1, 2, 3, 4, 0xFF]);
    assert!(matches!(
        device.otp_write(NOW, size - 1, &[0; 2]).unwrap_err().kind,
        ErrorKind::OutOfRange { .. }
    ));
    assert!(device.otp_lock(NOW, 0, 2112).is_err());
    device.otp_lock(NOW, 0, size).unwrap();
    assert!(device.otp_info(NOW, OtpArea::User, 0).unwrap().0.locked);
    assert_eq!(device.otp_write(NOW, 0, &[0]).unwrap_err().kind, ErrorKind::WriteProtected);
    device.otp_read(NOW, OtpArea::User, 2109, &mut back).unwrap();
    assert_eq!(back[1], 1);
    // Normal pages were not changed.
    device.read(NOW, 2 * 2048, &mut back).unwrap();
    assert_eq!(back, [0xFF; 6]);
    assert_eq!(driver(&nand128w3a2bn(), rig()).unwrap().otp_regions(OtpArea::User), 0);
}

#[test]
fn protection_shows_as_write_protected() {
    let mut device = driver(&mx30lf2g18ac(), rig()).unwrap();
    device.protect(NOW, true).unwrap();
    assert_eq!(device.write(NOW, 0, &[0; 2048]).unwrap_err().kind, ErrorKind::WriteProtected);
    assert_eq!(device.erase(NOW, 0, 128 << 10).unwrap_err().kind, ErrorKind::WriteProtected);
    device.protect(NOW, false).unwrap();
    device.write(NOW, 0, &[0; 2048]).unwrap();
    assert!(driver(&nand128w3a2bn(), rig()).unwrap().protect(NOW, true).is_err());
}

#[test]
fn rules_of_the_chip_reach_the_caller() {
    let mut device = driver(&nand128w3a2bn(), rig()).unwrap();
    device.write(NOW, 0, &[0; 512]).unwrap();
    for _ in 0..2 {
        assert_eq!(device.write(NOW, 0, &[0; 512]).unwrap_err().kind, ErrorKind::NotErased);
    }
    for _ in 1..3 {
        device.write(NOW, 0, &[0xFF; 512]).unwrap();
    }
    assert_eq!(device.write(NOW, 0, &[0xFF; 512]).unwrap_err().kind, ErrorKind::NotErased, "NOP is 3");
    device.read(NOW, 0, &mut [0; 4]).unwrap();
    assert!(matches!(device.write(NOW, 3, &[0; 512]).unwrap_err().kind, ErrorKind::Misaligned { unit: 512 }));
    assert!(device.read(NOW, 16 << 20, &mut [0]).is_err());
    assert!(device.erase(NOW, 0, 512).is_err());
}

#[test]
fn ecc_that_does_not_fit_is_refused() {
    let ecc = EccProfile { engine: EngineKind::Software, strength: Some(40), ..EccProfile::default() };
    let error = driver(&mx30lf2g18ac(), crate::raw_nand::testing::Rig { ecc, ..rig() }).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Unsupported(_)));
}
