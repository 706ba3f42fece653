//! Tests of power loss, and of the state that a new driver finds.

use super::bad_blocks::probe_again;
use crate::oracle::Oracle;
use crate::power::PowerCut;
use crate::raw_nand::spec::RawNandSpec;
use crate::raw_nand::testing::Rig;
use crate::raw_nand::testing::{Driver, driver, mlc, mx30lf2g18ac, rig};
use floatgate_mtd::{Error, ErrorKind, Instant, Mtd, Nanos, PairingScheme};

const NOW: Instant = Instant::ZERO;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (floatgate_mtd::random::mix(seed << 32 | i) >> 20) as u8).collect()
}

fn cut(device: &mut Driver, operation: u64, share: f64) {
    device.bus_mut().power_mut().order(Some(PowerCut::During { operation, share }));
}

/// The chip after power was restored, with a new driver.
fn revived(device: &mut Driver, rig: Rig) -> Driver {
    assert!(device.bus().power().is_lost());
    probe_again(device.bus().chip(0).unwrap().clone(), rig)
}

/// Result of a read of the page at `addr`: its data, or the error.
fn page(device: &mut Driver, addr: u64) -> Result<Vec<u8>, ErrorKind> {
    let mut out = vec![0; device.geometry().write_bytes as usize];
    device.read(NOW, addr, &mut out).map(|_| out).map_err(|error| error.kind)
}

/// Writes five pages with a power cut in operation number `operation`. Returns for each page `Some(true)` if it has its
/// data, `Some(false)` if it is erased, `None` if it is uncorrectable.
fn write_five(spec: &RawNandSpec, rig: Rig, operation: u64, share: f64) -> [Option<bool>; 5] {
    let mut device = driver(spec, rig).unwrap();
    let size = device.geometry().write_bytes as usize;
    let data = noise(4, 5 * size);
    cut(&mut device, operation, share);
    let error = device.write(NOW, 0, &data).unwrap_err();
    assert_eq!(error.kind, ErrorKind::PowerLost);
    let mut next = revived(&mut device, rig);
    std::array::from_fn(|index| match page(&mut next, (index * size) as u64) {
        Ok(got) if got == data[index * size..][..size] => Some(true),
        Ok(got) if got.iter().all(|byte| *byte == 0xFF) => Some(false),
        Ok(_) => panic!("page {index} holds something else"),
        Err(kind) => {
            assert_eq!(kind, ErrorKind::Uncorrectable);
            None
        }
    })
}

#[test]
fn pages_before_the_cut_stay_and_pages_after_it_are_erased() {
    let (good, erased, lost) = (Some(true), Some(false), None);
    let spec = mx30lf2g18ac();
    assert_eq!(write_five(&spec, rig(), 3, 0.6), [good, good, lost, erased, erased]);
    // The first pulses do not move the cells far enough.
    assert_eq!(write_five(&spec, rig(), 3, 0.1), [good, good, erased, erased, erased]);
    let mut cached = rig();
    cached.options.cached_programs = true;
    assert_eq!(write_five(&spec, cached, 3, 0.6), [good, good, lost, erased, erased]);
}

#[test]
fn a_cut_msb_program_takes_the_lsb_page() {
    let (good, erased, lost) = (Some(true), Some(false), None);
    let spec = mlc(PairingScheme::Dist3);
    // In the scheme dist3, pages 1 and 4 share cells.
    assert_eq!(write_five(&spec, rig(), 5, 0.6), [good, lost, good, good, lost]);
    assert_eq!(write_five(&spec, rig(), 4, 0.6), [good, good, good, lost, erased]);
}

#[test]
fn the_page_that_was_next_can_still_be_programmed() {
    let mut device = driver(&mlc(PairingScheme::Dist3), Rig { ..rig() }).unwrap();
    let size = device.geometry().write_bytes as usize;
    let mut cached = rig();
    cached.options.cached_programs = true;
    device = probe_again(device.bus().chip(0).unwrap().clone(), cached);
    // The first program is still running while the second page is already in its register.
    let now = device.ready_at();
    device.bus_mut().power_mut().order(Some(PowerCut::At(now + Nanos::from_us(190))));
    assert!(device.write(now, 0, &noise(1, 3 * size)).is_err());
    let mut next = revived(&mut device, rig());
    assert_eq!(page(&mut next, 0), Err(ErrorKind::Uncorrectable));
    next.write(NOW, size as u64, &noise(2, size)).unwrap();
    assert_eq!(page(&mut next, size as u64), Ok(noise(2, size)));
}

/// Erases block 0, whose first page contains data, with a power cut at a share of the erase.
fn erase_cut(share: f64) -> (Driver, Vec<u8>) {
    let mut device = driver(&mx30lf2g18ac(), rig()).unwrap();
    let data = noise(6, 2048);
    device.write(NOW, 0, &data).unwrap();
    cut(&mut device, 1, share);
    let error: Error = device.erase(NOW, 0, 128 << 10).unwrap_err();
    assert_eq!(error.kind, ErrorKind::PowerLost);
    (revived(&mut device, rig()), data)
}

#[test]
fn an_erase_cut_short_leaves_data_a_mess_or_a_weak_block() {
    let (mut early, data) = erase_cut(0.1);
    assert_eq!(page(&mut early, 0), Ok(data));
    let (mut middle, _) = erase_cut(0.5);
    assert_eq!(page(&mut middle, 0), Err(ErrorKind::Uncorrectable));
    let rate = |device: &Driver| device.bus().cells(0).unwrap().rber(0, NOW).total();
    let (mut late, data) = erase_cut(0.9);
    let mut oob = [0; 64];
    late.read_oob(NOW, 0, &mut [], &mut oob, floatgate_mtd::OobMode::Raw).unwrap();
    assert_eq!(oob, [0xFF; 64], "it reads as erased");
    late.write(NOW, 0, &data).unwrap();
    assert!(rate(&late) > 100.0 * rate(&early), "and does not hold");
    // A complete erase makes the block usable again.
    late.erase(NOW, 0, 128 << 10).unwrap();
    late.write(NOW, 0, &data).unwrap();
    assert!(page(&mut late, 0) == Ok(data) && rate(&late) < 1.1 * rate(&early));
}

#[test]
fn what_was_finished_stays_and_nothing_works_until_power_is_back() {
    let mut device = driver(&mx30lf2g18ac(), rig()).unwrap();
    let at = device.write(NOW, 0, &noise(1, 2048)).unwrap().at;
    device.bus_mut().power_mut().order(Some(PowerCut::At(at + Nanos::from_us(5))));
    // No operation was executed, so the driver did not notice the power cut.
    let later = at + Nanos::from_ms(1);
    for _ in 0..2 {
        assert_eq!(device.read(later, 0, &mut [0; 2048]).unwrap_err().kind, ErrorKind::PowerLost);
        assert_eq!(device.write(later, 2048, &[0; 2048]).unwrap_err().kind, ErrorKind::PowerLost);
        assert_eq!(device.erase(later, 0, 128 << 10).unwrap_err().kind, ErrorKind::PowerLost);
    }
    device.bus_mut().power_on();
    // The chip requires a RESET first, which only a new driver sends.
    assert!(matches!(device.read(later, 0, &mut [0; 2048]).unwrap_err().kind, ErrorKind::Refused(_)));
    let mut next = probe_again(device.bus().chip(0).unwrap().clone(), rig());
    assert_eq!(page(&mut next, 0), Ok(noise(1, 2048)));
}
