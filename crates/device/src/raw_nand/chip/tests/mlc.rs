//! Tests of chips with two bits per cell: LSB pages are fast, MSB pages slow, with every program command.
//!
//! The example has 12 pages per block in two planes. LSB pages are 0 to 3, 6 and 7 (200 us), MSB pages the others (800
//! us).

use super::Bench;
use crate::raw_nand::testing::{mlc, nv_ddr};
use crate::violation::Violation;
use floatgate_mtd::{Nanos, PairingScheme};

const LSB: Nanos = Nanos::from_us(200);
const MSB: Nanos = Nanos::from_us(800);

fn bench() -> Bench {
    Bench::new(&mlc(PairingScheme::Dist6))
}

/// Subtracts tWB of mode 0.
fn wb(busy: Nanos) -> Nanos {
    busy - Nanos::from_ns(200)
}

/// Program time (tPROG) of `page` in `block`.
fn time(bench: &mut Bench, block: u32, page: u32) -> Nanos {
    let row = bench.chip.map.encode(block, page);
    bench.load(0, row, &[row as u8]).unwrap();
    bench.cmd(0x10).unwrap();
    wb(bench.wait())
}

#[test]
fn each_page_takes_the_time_of_its_group() {
    let mut bench = bench();
    let times: Vec<Nanos> = (0..12).map(|page| time(&mut bench, 2, page)).collect();
    assert_eq!(times, [LSB, LSB, LSB, LSB, MSB, MSB, LSB, LSB, MSB, MSB, MSB, MSB]);
    let mean = times.iter().copied().sum::<Nanos>().as_ns() / 12;
    assert_eq!(Nanos::from_ns(mean), nv_ddr().timing.t_prog_us.typ, "what the chip without the table takes");
    let mut plain = Bench::new(&nv_ddr());
    assert_eq!(time(&mut plain, 0, 0), Nanos::from_ns(mean));
}

/// Linux's slc-mode programs only LSB pages, in ascending order with gaps. A lower page is rejected.
#[test]
fn pages_may_be_left_out_on_the_way_up() {
    let mut bench = bench();
    for page in [0, 1, 2, 3, 6, 7] {
        assert_eq!(time(&mut bench, 0, page), LSB);
    }
    assert_eq!(bench.program(0, 4, &[0]), Err(Violation::OutOfOrder));
    bench.program(0, 11, &[0]).unwrap();
    bench.erase(0).unwrap();
    assert_eq!(time(&mut bench, 0, 7), LSB);
}

#[test]
fn cached_programs_take_the_time_of_each_page() {
    let mut bench = bench();
    bench.load(0, 3, &[1]).unwrap();
    bench.cmd(0x15).unwrap();
    bench.wait();
    bench.load(0, 4, &[1]).unwrap();
    bench.cmd(0x15).unwrap();
    assert!(bench.wait() > LSB - Nanos::from_us(5), "the rest of the LSB page");
    bench.load(0, 6, &[1]).unwrap();
    bench.cmd(0x10).unwrap();
    let rest = bench.wait();
    assert!(rest > MSB + LSB - Nanos::from_us(15) && rest < MSB + LSB, "{rest}");
}

#[test]
fn planes_program_the_same_page_together() {
    for (page, want) in [(7, LSB), (8, MSB)] {
        let mut bench = bench();
        bench.load(0, page, &[1]).unwrap();
        bench.cmd(0x11).unwrap();
        bench.wait();
        bench.cmd(0x81).unwrap();
        let second = bench.chip.map.encode(1, page);
        bench.at(0, second).unwrap();
        bench.put(&[2]).unwrap();
        bench.cmd(0x10).unwrap();
        assert_eq!(wb(bench.wait()), want);
        // Program of the second plane alone.
        assert_eq!(time(&mut bench, 3, page), want);
    }
}

#[test]
fn copyback_takes_the_time_of_its_target() {
    let mut bench = bench();
    bench.program(0, 0, &[7]).unwrap();
    for (page, want) in [(0, LSB), (4, MSB)] {
        let target = bench.chip.map.encode(2, page);
        bench.cmd(0x00).unwrap();
        bench.at(0, 0).unwrap();
        bench.cmd(0x35).unwrap();
        bench.wait();
        bench.cmd(0x85).unwrap();
        bench.at(0, target).unwrap();
        bench.cmd(0x10).unwrap();
        assert_eq!(wb(bench.wait()), want);
        assert_eq!(bench.read(0, target, 1).unwrap(), [7]);
    }
}
