//! Tests of the chip without a driver, cycle by cycle.

use super::test_parts::{j3, s29gl128p, small, us};
use super::*;
use crate::oracle::{Faults, Oracle};
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

/// A chip with a clock that each cycle advances by 100 ns.
struct Bench {
    chip: ParallelNor,
    now: Instant,
    bits: u8,
}

impl Bench {
    fn new(spec: ParallelNorSpec, bits: u8) -> Self {
        Self { chip: ParallelNor::new(spec, bits, true).unwrap(), now: Instant::ZERO, bits }
    }

    fn w(&mut self, addr: u32, value: u16) -> Result<(), Violation> {
        self.now += Nanos::from_ns(100);
        self.chip.write(self.now, addr, value)
    }

    fn all(&mut self, cycles: &[(u32, u16)]) -> Result<(), Violation> {
        cycles.iter().try_for_each(|&(addr, value)| self.w(addr, value))
    }

    /// Checks that the last cycle is rejected for this reason, and that the earlier cycles are
    /// accepted.
    fn refuses(&mut self, cycles: &[(u32, u16)], why: Violation) {
        let (last, before) = cycles.split_last().unwrap();
        self.all(before).unwrap();
        assert_eq!(self.w(last.0, last.1), Err(why), "{cycles:x?}");
    }

    fn r(&mut self, addr: u32) -> Result<u16, Violation> {
        self.now += Nanos::from_ns(100);
        let mut word = [0; 2];
        self.chip.read(self.now, addr, &mut word[..usize::from(self.bits / 8)])?;
        Ok(u16::from_le_bytes(word))
    }

    fn status(&mut self) -> u8 {
        self.r(0).unwrap() as u8
    }

    fn wait(&mut self) {
        self.now = self.now.max(self.chip.busy_until());
    }

    fn later(&mut self, time: Nanos) {
        self.now += time;
    }
}

const U1: (u32, u16) = (0xAAA, 0xAA);
const U2: (u32, u16) = (0x554, 0x55);

fn amd() -> Bench {
    Bench::new(small(s29gl128p()), 16)
}

fn program(addr: u32, value: u16) -> [(u32, u16); 4] {
    [U1, U2, (0xAAA, 0xA0), (addr, value)]
}

fn erase(addr: u32) -> [(u32, u16); 6] {
    [U1, U2, (0xAAA, 0x80), U1, U2, (addr, 0x30)]
}

#[test]
fn amd_sequences_that_are_refused() {
    use Violation::{Busy, Protected, Sequence, UnknownCommand};
    let cases: &[(&[(u32, u16)], Violation)] = &[
        (&[(0xAAA, 0xA0)], Sequence("unlock cycles missing")),
        (&[(0, 0x25)], Sequence("unlock cycles missing")),
        (&[(0x554, 0xAA)], Sequence("first cycle at the wrong address")),
        (&[(0x54, 0x98)], Sequence("first cycle at the wrong address")),
        (&[U1, (0xAAA, 0x55)], Sequence("second unlock cycle missing")),
        (&[U1, (0xAAA, 0xA0)], Sequence("second unlock cycle missing")),
        (&[U1, U2, (0x554, 0xA0)], Sequence("command cycle at the wrong address")),
        (&[U1, U2, (0xAAA, 0x77)], UnknownCommand(0x77)),
        (&[U1, U2, (0xAAA, 0x80), (0, 0x30)], Sequence("unlock cycles missing after 80h")),
        (&[U1, U2, (0xAAA, 0x80), U1, U2, (0, 0x31)], Sequence("80h erases with 30h or 10h only")),
        (&[U1, U2, (0, 0x25), (0x1000, 0)], Sequence("word count for another block")),
        (&[U1, U2, (0, 0x25), (0, 32)], Sequence("more words announced than the program buffer holds")),
        (
            &[U1, U2, (0, 0x25), (0, 1), (0, 0), (4, 0)],
            Sequence("buffer words must follow each other, as many as announced"),
        ),
        (
            &[U1, U2, (0, 0x25), (0, 1), (0, 0), (0, 0x29)],
            Sequence("buffer words must follow each other, as many as announced"),
        ),
        (
            &[U1, U2, (0, 0x25), (0, 0), (0, 0), (2, 0)],
            Sequence("29h must follow the announced number of words"),
        ),
        (
            &[U1, U2, (0, 0x25), (0, 1), (0x3E, 0), (0x40, 0)],
            Sequence("buffer words must lie in one buffer line"),
        ),
        (
            &[U1, U2, (0, 0x25), (0, 0), (0, 0), (0x1000, 0x29)],
            Sequence("buffer words or 29h in another block"),
        ),
        (&[(0, 0x30)], Sequence("nothing to resume")),
        (&[(0xAA, 0x98), U1], Sequence("query and autoselect are left by reset first")),
        (&[(0, 0x70)], UnknownCommand(0x70)),
        (&[U1, U2, (0xAAA, 0xA0), (0, 0), U1], Busy),
        (&[U1, U2, (0xAAA, 0x80), U1, U2, (0, 0x30), U1], Busy),
        (&[U1, U2, (0xAAA, 0x80), U1, U2, (0x3000, 0x30)], Protected),
        (&[U1, U2, (0xAAA, 0x80), U1, U2, (0xAAA, 0x10)], Protected),
        (&[U1, U2, (0xAAA, 0xA0), (0x3000, 0)], Protected),
    ];
    for (cycles, why) in cases {
        let mut bench = amd();
        bench.chip.protect(0x3000);
        bench.refuses(cycles, *why);
    }
}

#[test]
fn a_refused_sequence_is_forgotten() {
    let mut bench = amd();
    bench.refuses(&[U1, (0, 0)], Violation::Sequence("second unlock cycle missing"));
    bench.all(&program(0x20, 0x1234)).unwrap();
    bench.wait();
    assert_eq!(bench.r(0x20), Ok(0x1234));
}

#[test]
fn amd_status_while_it_programs() {
    let mut bench = amd();
    bench.all(&program(0x20, 0x0081)).unwrap();
    let (a, b) = (bench.status(), bench.status());
    assert_eq!((a ^ b, a & 0xA0), (0x40, 0), "DQ6 toggles, DQ7 is the inverse of bit 7");
    assert_eq!(bench.chip.read(bench.now, 0, &mut [0; 4]), Err(Violation::Busy));
    bench.wait();
    assert_eq!(bench.r(0x20), Ok(0x0081));
    bench.all(&program(0x20, 0x0082)).unwrap_err();
    bench.all(&program(0x20, 0x0080)).unwrap();
}

#[test]
fn ones_cannot_be_programmed_over_zeros() {
    let mut bench = amd();
    bench.all(&program(0, 0x00F0)).unwrap();
    bench.wait();
    assert_eq!(bench.all(&program(0, 0x0100)), Err(Violation::NotErased));
    let mut intel = Bench::new(small(j3()), 16);
    intel.all(&[(0, 0x40), (0, 0x00F0)]).unwrap();
    intel.wait();
    assert_eq!(intel.all(&[(0, 0x40), (0, 0x00F1)]), Err(Violation::NotErased));
}

#[test]
fn several_blocks_join_an_erase_while_its_window_is_open() {
    let mut bench = amd();
    bench.all(&erase(0)).unwrap();
    assert_eq!(bench.status() & 0x88, 0, "DQ7 low, DQ3 low: the window is open");
    bench.w(0x1000, 0x30).unwrap();
    let second = bench.now;
    assert_eq!(bench.chip.busy_until(), second + us(50) + Nanos::from_ms(1000));
    bench.later(us(60));
    assert_eq!(bench.status() & 0x88, 0x08, "DQ3: too late for further blocks");
    assert_eq!(bench.w(0x2000, 0x30), Err(Violation::Busy));
}

#[test]
fn chip_erase_takes_as_long_as_all_blocks() {
    let mut bench = amd();
    bench.all(&program(0x3000, 0)).unwrap();
    bench.wait();
    bench.all(&[U1, U2, (0xAAA, 0x80), U1, U2, (0xAAA, 0x10)]).unwrap();
    assert_eq!(bench.chip.busy_until(), bench.now + Nanos::from_ms(2000));
    bench.wait();
    assert_eq!(bench.r(0x3000), Ok(0xFFFF));
}

#[test]
fn amd_failures_show_dq5_until_reset() {
    let mut bench = amd();
    bench.chip.set_faults(0, Faults::BOTH);
    bench.all(&program(0, 0)).unwrap();
    assert_eq!(bench.chip.busy_until(), bench.now + us(512));
    bench.wait();
    let (a, b) = (bench.status(), bench.status());
    assert_eq!((a ^ b, b & 0x20), (0x40, 0x20));
    assert_eq!(bench.w(0, 0x30), Err(Violation::Sequence("reset must follow a failure")));
    bench.w(0, 0xF0).unwrap();
    assert_eq!(bench.r(0), Ok(0xFFFF));
}

#[test]
fn amd_erase_suspend_for_reads_and_programs() {
    let mut bench = amd();
    bench.all(&program(0x1000, 0x5555)).unwrap();
    bench.wait();
    bench.all(&erase(0)).unwrap();
    let planned = bench.chip.busy_until();
    bench.later(Nanos::from_ms(100));
    bench.w(0, 0xB0).unwrap();
    let stop = bench.chip.busy_until();
    assert_eq!(stop, bench.now + us(20));
    bench.wait();
    assert_eq!(bench.r(0x1000), Ok(0x5555));
    assert_eq!(bench.r(0), Err(Violation::Sequence("read of what a suspended operation is changing")));
    assert_eq!(
        bench.all(&program(2, 0)),
        Err(Violation::Sequence("program in a block whose erase is suspended"))
    );
    assert_eq!(
        bench.all(&erase(0x1000)),
        Err(Violation::Sequence("not possible while an erase is suspended"))
    );
    bench.all(&program(0x1002, 0x1111)).unwrap();
    bench.wait();
    bench.w(0, 0x30).unwrap();
    assert_eq!(bench.chip.busy_until(), bench.now + planned.since(stop), "what was left, no more");
    bench.wait();
    assert_eq!((bench.r(0), bench.r(0x1002)), (Ok(0xFFFF), Ok(0x1111)));
}

#[test]
fn a_late_suspend_and_its_resume_do_nothing() {
    let mut bench = amd();
    bench.all(&program(0, 0)).unwrap();
    bench.wait();
    bench.all(&[(0, 0xB0), (0, 0x30)]).unwrap();
    assert_eq!(bench.w(0, 0x30), Err(Violation::Sequence("nothing to resume")));
}

#[test]
fn secured_silicon_is_written_once_and_locked() {
    let mut bench = amd();
    let enter = [U1, U2, (0xAAA, 0x88)];
    let leave = [U1, U2, (0xAAA, 0x90), (0, 0)];
    bench.all(&enter).unwrap();
    bench.all(&program(0x10, 0xBEEF)).unwrap();
    bench.wait();
    assert_eq!(bench.r(0x10), Ok(0xBEEF));
    bench.all(&leave).unwrap();
    assert_eq!(bench.r(0x10), Ok(0xFFFF));
    bench.all(&[U1, U2, (0xAAA, 0x40), (0, 0xA0), (0, 0xFFFE)]).unwrap();
    bench.wait();
    assert_eq!(bench.r(0), Ok(0xFFFE));
    bench.all(&[(0, 0x90), (0, 0)]).unwrap();
    bench.all(&enter).unwrap();
    assert_eq!(bench.all(&program(0x12, 0)), Err(Violation::Protected));
}

#[test]
fn ids_in_both_widths() {
    let mut wide = amd();
    wide.all(&[U1, U2, (0xAAA, 0x90)]).unwrap();
    assert_eq!([0, 2, 0x1C, 0x1E].map(|a| wide.r(a).unwrap()), [0x0001, 0x227E, 0x2221, 0x2201]);
    let mut narrow = Bench::new(small(s29gl128p()), 8);
    narrow.all(&[U1, (0x555, 0x55), (0xAAA, 0x90)]).unwrap();
    assert_eq!([0, 2, 3, 0x1C, 0x1E].map(|a| narrow.r(a).unwrap()), [0x01, 0x7E, 0x7E, 0x21, 0x01]);
    assert!(Bench::new(small(s29gl128p()), 8).all(&[U1, U2]).is_err());
}

#[test]
fn intel_sequences_that_are_refused() {
    use Violation::{Busy, Sequence, UnknownCommand};
    let cases: &[(&[(u32, u16)], Violation)] = &[
        (&[(0, 0xAA)], UnknownCommand(0xAA)),
        (&[(0, 0xF0)], UnknownCommand(0xF0)),
        (&[(0, 0x20), (0, 0xFF)], Sequence("20h must be followed by D0h in the same block")),
        (&[(0, 0x20), (0x1000, 0xD0)], Sequence("20h must be followed by D0h in the same block")),
        (&[(0, 0x60), (0, 0x02)], Sequence("60h must be followed by 01h or D0h")),
        (&[(0, 0xD0)], Sequence("nothing to resume")),
        (&[(0, 0xE8), (0, 16)], Sequence("more words announced than the program buffer holds")),
        (&[(0, 0xE8), (0, 0), (0, 0), (0, 0xFF)], Sequence("D0h must follow the announced number of words")),
        (&[(0, 0x40), (0, 0), (0, 0xFF)], Busy),
        (&[(0, 0x40), (0x4000, 0)], Violation::BadAddress),
    ];
    for (cycles, why) in cases {
        Bench::new(small(j3()), 16).refuses(cycles, *why);
    }
}

#[test]
fn intel_status_and_failures() {
    let mut bench = Bench::new(small(j3()), 16);
    bench.chip.set_faults(0x1000, Faults::BOTH);
    bench.all(&[(0, 0x40), (0, 0x1234)]).unwrap();
    assert_eq!(bench.status(), 0);
    assert!(bench.chip.read(bench.now, 0, &mut [0; 4]).is_err());
    bench.wait();
    assert_eq!(bench.status(), 0x80);
    bench.all(&[(0, 0xFF)]).unwrap();
    assert_eq!(bench.r(0), Ok(0x1234));
    bench.all(&[(0x1000, 0x20), (0x1000, 0xD0)]).unwrap();
    assert_eq!(bench.chip.busy_until(), bench.now + Nanos::from_ms(5000));
    bench.wait();
    assert_eq!(bench.status(), 0xA0);
    assert_eq!(
        bench.w(0, 0x40),
        Err(Violation::Sequence("the status register must be cleared after a failure"))
    );
    bench.all(&[(0, 0x50), (0, 0x40), (2, 0)]).unwrap();
}

#[test]
fn intel_locks_legacy_and_instant() {
    let mut legacy = Bench::new(small(j3()), 16);
    legacy.all(&[(0, 0x60), (0, 0x01)]).unwrap();
    legacy.wait();
    legacy.all(&[(0, 0x40), (0, 0)]).unwrap();
    assert_eq!(legacy.status(), 0x92, "ready, program error, block locked");
    legacy.all(&[(0, 0x50), (0x3000, 0x60), (0x3000, 0xD0)]).unwrap();
    assert_eq!(legacy.chip.busy_until(), legacy.now + Nanos::from_ms(500));
    legacy.wait();
    legacy.all(&[(0, 0x20), (0, 0xD0)]).unwrap();

    let mut instant = Bench::new(ParallelNorSpec { lock: LockScheme::Instant, ..small(j3()) }, 16);
    instant.all(&[(0, 0x20), (0, 0xD0)]).unwrap();
    assert_eq!(instant.status(), 0xA2, "locked at power-on");
    instant.all(&[(0, 0x50), (0, 0x60), (0, 0xD0), (0, 0x90)]).unwrap();
    assert_eq!((instant.r(4), instant.r(0x1004)), (Ok(0), Ok(1)));
}

#[test]
fn intel_suspends_programs_and_erases() {
    let mut bench = Bench::new(small(j3()), 16);
    bench.all(&[(0, 0x20), (0, 0xD0)]).unwrap();
    bench.later(Nanos::from_ms(10));
    bench.w(0, 0xB0).unwrap();
    bench.wait();
    assert_eq!(bench.status(), 0xC0);
    bench.all(&[(0x1000, 0x40), (0x1000, 0x00FF)]).unwrap();
    bench.w(0x1000, 0xB0).unwrap();
    bench.wait();
    assert_eq!(bench.status(), 0xC4, "both are suspended");
    assert!(bench.all(&[(0x2000, 0x40), (0x2000, 0)]).is_err());
    bench.all(&[(0, 0xFF)]).unwrap();
    assert_eq!(bench.r(0x2000), Ok(0xFFFF));
    bench.w(0, 0xD0).unwrap();
    bench.wait();
    assert_eq!(bench.status(), 0xC0, "the program goes on first");
    bench.w(0, 0xD0).unwrap();
    bench.wait();
    assert_eq!(bench.status(), 0x80);
}

#[test]
fn intel_protection_register() {
    let mut bench = Bench::new(small(j3()), 16);
    bench.all(&[(0, 0x90)]).unwrap();
    assert_eq!(bench.r(0x100), Ok(0xFFFE), "the maker's part is locked, the user's is not");
    assert_ne!(bench.r(0x102), Ok(0xFFFF));
    assert_eq!(bench.all(&[(0x102, 0xC0), (0x102, 0)]), Err(Violation::Protected));
    bench.all(&[(0x10A, 0xC0), (0x10A, 0x4321)]).unwrap();
    bench.wait();
    bench.all(&[(0x100, 0xC0), (0x100, 0xFFFD)]).unwrap();
    bench.wait();
    bench.w(0, 0x90).unwrap();
    assert_eq!((bench.r(0x100), bench.r(0x10A)), (Ok(0xFFFC), Ok(0x4321)));
    assert_eq!(bench.all(&[(0x10C, 0xC0), (0x10C, 0)]), Err(Violation::Protected));
}

#[test]
fn impossible_chips_are_named() {
    let bad = |change: fn(&mut ParallelNorSpec)| {
        let mut spec = s29gl128p();
        change(&mut spec);
        ParallelNor::new(spec, 16, false).unwrap_err()
    };
    type Break = fn(&mut ParallelNorSpec);
    let cases: [(Break, &str); 8] = [
        (|s| s.geometry.size_bytes = 3, "`size_bytes` must be a power of two"),
        (|s| s.geometry.regions[0].blocks = 7, "the erase regions hold"),
        (|s| s.geometry.regions[0].block_bytes = 1000, "eraseblocks must be"),
        (|s| s.timing.t_buffer_us = None, "a program buffer needs"),
        (|s| s.geometry.interface = Interface::X8, "the chip does not offer a 16-bit bus"),
        (|s| s.id.truncate(2), "`id` holds"),
        (|s| s.cfi_version = "x".into(), "the CFI query cannot express"),
        (|s| s.otp.as_mut().unwrap().factory_bytes = 8, "`otp` sizes"),
    ];
    for (change, problem) in cases {
        let bad = bad(change);
        assert!(bad.key.is_empty() && bad.problem.starts_with(problem), "{bad}");
    }
}
