//! Tests of the effects of the cells at the chip's bus.

use super::Bench;
use crate::cells::{CellsProfile, ErrorSpec};
use crate::oracle::Oracle;
use crate::raw_nand::spec::RawNandSpec;
use crate::raw_nand::testing::{mlc, mx30lf2g18ac, nv_ddr};
use floatgate_mtd::{Nanos, PairingScheme};

const FAIL: u8 = 1;

fn cells(change: impl FnOnce(&mut CellsProfile)) -> CellsProfile {
    let mut profile = CellsProfile::default();
    change(&mut profile);
    profile
}

/// A chip whose pages have 1.5 wrong bits per thousand.
fn bad(spec: RawNandSpec) -> RawNandSpec {
    RawNandSpec { errors: Some(ErrorSpec { floor: 1.5e-3, ..spec.facts().error_spec() }), ..spec }
}

fn wrong(page: &[u8], byte: u8) -> u32 {
    page.iter().map(|b| (b ^ byte).count_ones()).sum()
}

#[test]
fn times_change_with_wear_and_end_with_failure() {
    let typical = mx30lf2g18ac().timing;
    let us = |bench: &mut Bench| {
        bench.load(0, 70, &[0x55; 2112]).unwrap();
        bench.cmd(0x10).unwrap();
        let program = bench.wait();
        let failed = bench.status() & FAIL != 0;
        bench.cmd(0x60).unwrap();
        bench.row(64).unwrap();
        bench.cmd(0xD0).unwrap();
        (program, bench.wait(), failed, bench.status() & FAIL != 0)
    };
    let wb = Nanos::from_ns(200);
    let mut new = Bench::with_cells(&mx30lf2g18ac(), cells(|_| ()));
    assert_eq!(us(&mut new), (typical.t_prog_us.typ + wb, typical.t_bers_us.typ + wb, false, false));
    let mut worn = Bench::with_cells(&mx30lf2g18ac(), cells(|cells| cells.cycles = 600_000));
    let (program, erase, ..) = us(&mut worn);
    assert!(program < typical.t_prog_us.typ && erase > typical.t_bers_us.typ, "{program} {erase}");
    assert!(erase <= typical.t_bers_us.max + wb);
    let mut dead = Bench::with_cells(&mx30lf2g18ac(), cells(|cells| cells.cycles = 100_000_000));
    let (.., program_failed, erase_failed) = us(&mut dead);
    assert!(program_failed && erase_failed);
    // The failed erase left the result of the failed program: neither the intended data nor erased.
    let page = dead.read(0, 70, 2112).unwrap();
    assert!(wrong(&page, 0x55) > 100 && wrong(&page, 0xFF) > 1000);
}

#[test]
fn lsb_and_msb_pages_take_their_share_of_the_pulses() {
    let spec = mlc(PairingScheme::Dist3);
    let programs = |cycles| {
        let mut bench = Bench::with_cells(&spec, cells(|cells| cells.cycles = cycles));
        let mut times = [Nanos::ZERO; 3];
        for (row, time) in times.iter_mut().enumerate() {
            bench.load(0, row as u32, &[0; 16]).unwrap();
            bench.cmd(0x10).unwrap();
            *time = bench.wait();
        }
        times.map(|time| (time.as_ns() - 200) as f64)
    };
    let (fresh, worn) = (programs(500), programs(1_000_000));
    assert_eq!(fresh, [200e3, 200e3, 800e3]);
    assert!(worn[0] < fresh[0] && (worn[2] / worn[0] - 4.0).abs() < 1e-3, "{worn:?}");
}

#[test]
fn every_way_to_the_register_brings_the_errors_along() {
    let mut bench = Bench::new(&bad(nv_ddr()));
    let full = 16_384 + 1216;
    // Blocks 0 and 1 (row addresses from 16 on) are in different planes; the pages of each are programmed in
    // order.
    for row in (0..4).chain(16..18) {
        bench.program(0, row, &vec![0; full]).unwrap();
    }
    let expected = full as f64 * 8.0 * 1.5e-3;
    let check = |page: Vec<u8>, what: &str| {
        let n = f64::from(wrong(&page, 0));
        assert!((n - expected).abs() < 6.0 * expected.sqrt(), "{what}: {n} wrong bits, {expected} expected");
        page
    };
    let plain = check(bench.read(0, 1, full).unwrap(), "plain");
    // In a second read the same bits are wrong, with few exceptions.
    let again = check(bench.read(0, 1, full).unwrap(), "again");
    let differ: u32 = plain.iter().zip(&again).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert!(differ < 40, "{differ}");
    bench.read(0, 0, 1).unwrap();
    for (opcode, row) in [(0x31, 0), (0x31, 1), (0x31, 2), (0x3F, 3)] {
        bench.cmd(opcode).unwrap();
        bench.wait();
        let page = check(bench.get(full).unwrap(), "cached");
        let differ: u32 = plain.iter().zip(&page).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(differ < 40, row == 1, "row {row}");
    }
    bench.cmd(0x00).unwrap();
    bench.at(0, 1).unwrap();
    bench.cmd(0x32).unwrap();
    bench.wait();
    check(bench.read(0, 17, full).unwrap(), "second plane");
    bench.cmd(0x06).unwrap();
    bench.at(0, 1).unwrap();
    bench.cmd(0xE0).unwrap();
    check(bench.get(full).unwrap(), "first plane");
}

#[test]
fn copyback_carries_errors_along() {
    let mut bench = Bench::with_cells(&bad(nv_ddr()), cells(|_| ()));
    let full = 16_384 + 1216;
    bench.program(0, 0, &vec![0; full]).unwrap();
    bench.cmd(0x00).unwrap();
    bench.at(0, 0).unwrap();
    bench.cmd(0x35).unwrap();
    bench.wait();
    bench.cmd(0x85).unwrap();
    bench.at(0, 32).unwrap();
    bench.cmd(0x10).unwrap();
    bench.wait();
    // The first page of block 2 has index 24.
    let copied = wrong(&bench.chip.array(0).unwrap().stored(24).unwrap(), 0);
    assert!(copied > 100, "{copied} bits were wrong in the copy");
    let page = bench.read(0, 32, full).unwrap();
    assert!(wrong(&page, 0) > copied * 3 / 2);
}

#[test]
fn the_model_can_be_switched_off() {
    let off = cells(|cells| (cells.wear, cells.errors, cells.cycles) = (false, false, 100_000_000));
    let mut bench = Bench::with_cells(&bad(mx30lf2g18ac()), off);
    bench.program(0, 9, &[0x33; 2112]).unwrap();
    assert_eq!(bench.status() & FAIL, 0);
    assert_eq!(bench.read(0, 9, 2112).unwrap(), [0x33; 2112]);
}
