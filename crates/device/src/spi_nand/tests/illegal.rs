//! Tests of operations that the chip rejects, without a driver.

use super::rig::spec;
use crate::oracle::Oracle;
use crate::spi::{Data, Mode, SpiChip, SpiOp};
use crate::spi_nand::{ChipOptions, SpiNand};
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};
use std::sync::Arc;

/// A chip with a clock. Each operation takes no time, and waits first unless configured otherwise.
struct Bench {
    chip: SpiNand,
    now: Instant,
    hz: u32,
}

impl Bench {
    fn new(name: &str) -> Self {
        let options = ChipOptions { stores: true, ..ChipOptions::default() };
        Self { chip: SpiNand::new(Arc::new(spec(name)), options), now: Instant::ZERO, hz: 25_000_000 }
    }

    fn unlocked(name: &str) -> Self {
        let mut bench = Self::new(name);
        bench.set(0xA0, 0).unwrap();
        bench
    }

    fn at_once(&mut self, op: SpiOp, data: Data<'_>) -> Result<(), Violation> {
        self.chip.exec(self.now, self.now, self.hz, &op, data)
    }

    fn run(&mut self, op: SpiOp, data: Data<'_>) -> Result<(), Violation> {
        self.now = self.now.max(self.chip.busy_until());
        self.at_once(op, data)
    }

    fn bare(&mut self, opcode: u8) -> Result<(), Violation> {
        self.run(SpiOp::command(opcode), Data::None)
    }

    fn row(&mut self, opcode: u8, row: u32) -> Result<(), Violation> {
        self.run(SpiOp::command(opcode).address(row, 3), Data::None)
    }

    fn set(&mut self, register: u32, value: u8) -> Result<(), Violation> {
        self.run(SpiOp::command(0x1F).address(register, 1).write(1), Data::Out(&[value]))
    }

    fn get(&mut self, register: u32) -> u8 {
        let mut value = [0];
        self.run(SpiOp::command(0x0F).address(register, 1).read(1), Data::In(&mut value)).unwrap();
        value[0]
    }

    fn load(&mut self, column: u32, bytes: &[u8]) -> Result<(), Violation> {
        let op = SpiOp::command(0x84).address(column, 2).write(bytes.len() as u32);
        self.run(op, Data::Out(bytes))
    }

    fn program(&mut self, row: u32) -> Result<(), Violation> {
        self.bare(0x06)?;
        self.load(0, &[0x55; 16])?;
        self.row(0x10, row)
    }

    fn read(&mut self, opcode: u8, mode: &str, dummy: u8, column: u32) -> Result<[u8; 4], Violation> {
        let mut buf = [0; 4];
        let op = SpiOp::command(opcode).mode(mode.parse().unwrap()).address(column, 2).dummy(dummy).read(4);
        self.run(op, Data::In(&mut buf))?;
        Ok(buf)
    }

    fn vcr(&mut self, register: u32, value: u8) -> Result<(), Violation> {
        self.bare(0x06)?;
        self.run(SpiOp::command(0x81).address(register, 3).write(1), Data::Out(&[value]))
    }
}

#[test]
fn power_up_is_locked() {
    let mut b = Bench::new("w35n01jw");
    assert_eq!(b.program(0), Err(Violation::Protected));
    assert_eq!(b.get(0xC0) & 0x0C, 1 << 3, "P_FAIL");
    b.bare(0x06).unwrap();
    assert_eq!(b.row(0xD8, 0), Err(Violation::Protected));
    assert_eq!(b.get(0xC0) & 0x0C, 1 << 3 | 1 << 2, "E_FAIL, too");
    b.set(0xA0, 0).unwrap();
    assert_eq!(b.row(0xD8, 0), Ok(()));
}

#[test]
fn write_enable_is_needed_each_time() {
    let mut b = Bench::unlocked("w35n01jw");
    assert_eq!(b.load(0, &[0]), Err(Violation::NoWriteEnable));
    assert_eq!(b.row(0xD8, 0), Err(Violation::NoWriteEnable));
    b.program(0).unwrap();
    assert_eq!(b.row(0x10, 1), Err(Violation::NoWriteEnable));
    b.bare(0x06).unwrap();
    b.bare(0x04).unwrap();
    assert_eq!(b.row(0xD8, 0), Err(Violation::NoWriteEnable));
    assert_eq!(b.vcr(1, 8), Ok(()));
    let vcr = SpiOp::command(0x81).address(1, 3).write(1);
    assert_eq!(b.run(vcr, Data::Out(&[8])), Err(Violation::NoWriteEnable));
}

#[test]
fn a_busy_chip_takes_status_and_reset_only() {
    let mut b = Bench::unlocked("w35n01jw");
    b.row(0x13, 0).unwrap();
    let status = SpiOp::command(0x0F).address(0xC0, 1).read(1);
    let mut value = [0];
    b.at_once(status, Data::In(&mut value)).unwrap();
    assert_eq!(value[0] & 1, 1);
    let config = SpiOp::command(0x0F).address(0xB0, 1).read(1);
    assert_eq!(b.at_once(config, Data::In(&mut value)), Err(Violation::Busy));
    for op in [SpiOp::command(0x13).address(0, 3), SpiOp::command(0x06)] {
        assert_eq!(b.at_once(op, Data::None), Err(Violation::Busy), "{:#x}", op.opcode);
    }
    b.at_once(SpiOp::command(0xFF), Data::None).unwrap();
    assert_eq!(b.chip.busy_until().since(b.now), Nanos::from_us(5));
    assert_eq!(b.get(0xC0) & 1, 0);
}

#[test]
fn reset_takes_longer_the_more_there_is_to_stop() {
    let mut b = Bench::unlocked("w35n01jw");
    b.bare(0x06).unwrap();
    b.row(0xD8, 0).unwrap();
    b.at_once(SpiOp::command(0xFF), Data::None).unwrap();
    assert_eq!(b.chip.busy_until().since(b.now), Nanos::from_us(500));
    b.set(0xA0, 0).unwrap();
    b.program(0).unwrap();
    b.at_once(SpiOp::command(0xFF), Data::None).unwrap();
    assert_eq!(b.chip.busy_until().since(b.now), Nanos::from_us(10));
    assert_eq!(b.get(0xA0), 0x7C, "reset locks again");
}

#[test]
fn shapes_are_checked() {
    let mut b = Bench::unlocked("w35n01jw");
    b.row(0x13, 0).unwrap();
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 0), Ok([0xFF; 4]));
    assert_eq!(b.read(0x0B, "1S-1S-1S", 7, 0), Err(Violation::WrongMode(0x0B)));
    assert_eq!(b.read(0x0B, "1S-1S-8S", 8, 0), Err(Violation::WrongMode(0x0B)));
    assert_eq!(b.read(0x6B, "1S-1S-4S", 8, 0), Err(Violation::UnknownCommand(0x6B)));
    assert_eq!(b.run(SpiOp::command(0x13).address(0, 2), Data::None), Err(Violation::WrongMode(0x13)));
    assert_eq!(
        b.run(SpiOp::command(0x06).mode(Mode::OCTAL_DTR), Data::None),
        Err(Violation::WrongMode(0x06))
    );
    assert_eq!(b.bare(0xAB), Err(Violation::UnknownCommand(0xAB)));
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 4222), Err(Violation::BadAddress));
    assert_eq!(b.row(0x13, 512 * 64), Err(Violation::BadAddress));
}

#[test]
fn dummy_cycles_of_octal_reads_are_those_of_the_register() {
    let mut b = Bench::unlocked("w35n01jw");
    b.row(0x13, 0).unwrap();
    assert_eq!(b.read(0xCB, "1S-8S-8S", 8, 0), Err(Violation::WrongMode(0xCB)));
    b.vcr(1, 8).unwrap();
    assert_eq!(b.read(0xCB, "1S-8S-8S", 8, 0), Ok([0xFF; 4]));
    b.hz = 87_000_000;
    let limit = Violation::ClockTooFast { hz: 87_000_000, max: 86_000_000 };
    assert_eq!(b.read(0xCB, "1S-8S-8S", 8, 0), Err(limit));
    assert_eq!(b.vcr(1, 9), Err(Violation::Sequence("undefined number of dummy cycles")));
}

#[test]
fn the_clock_has_a_limit() {
    let mut b = Bench::unlocked("w25n01jw");
    b.hz = 170_000_000;
    assert_eq!(b.row(0x13, 0), Err(Violation::ClockTooFast { hz: 170_000_000, max: 166_666_667 }));
    b.hz = 60_000_000;
    b.row(0x13, 0).unwrap();
    let limit = Violation::ClockTooFast { hz: 60_000_000, max: 54_000_000 };
    assert_eq!(b.read(0x03, "1S-1S-1S", 8, 0), Err(limit));
    b.hz = 81_000_000;
    let limit = Violation::ClockTooFast { hz: 81_000_000, max: 80_000_000 };
    assert_eq!(b.read(0x0D, "1S-1D-1D", 8, 0), Err(limit));
}

#[test]
fn four_lanes_need_quad_enable() {
    let mut b = Bench::unlocked("mx35lf2ge4ad");
    b.row(0x13, 0).unwrap();
    assert_eq!(b.read(0x6B, "1S-1S-4S", 8, 0), Err(Violation::WrongMode(0x6B)));
    b.set(0xB0, 0x11).unwrap();
    assert_eq!(b.read(0x6B, "1S-1S-4S", 8, 0), Ok([0xFF; 4]));
    b.set(0xB0, 0x10).unwrap();
    assert_eq!(b.read(0x6B, "1S-1S-4S", 8, 0), Err(Violation::WrongMode(0x6B)));
}

/// If SR4 HS is set, reads on four lanes take eight dummy cycles; otherwise four.
#[test]
fn the_high_speed_bit_decides_the_dummy_cycles() {
    let mut b = Bench::unlocked("w25n01jw");
    b.set(0xB0, 0x19).unwrap();
    b.row(0x13, 0).unwrap();
    assert_eq!(b.read(0xEB, "1S-4S-4S", 8, 0), Err(Violation::WrongMode(0xEB)));
    assert_eq!(b.read(0xEB, "1S-4S-4S", 4, 0), Ok([0xFF; 4]));
    b.set(0xD0, 0x04).unwrap();
    assert_eq!(b.read(0xEB, "1S-4S-4S", 4, 0), Err(Violation::WrongMode(0xEB)));
    assert_eq!(b.read(0xEB, "1S-4S-4S", 8, 0), Ok([0xFF; 4]));
    assert_eq!(b.read(0x6B, "1S-1S-4S", 8, 0), Ok([0xFF; 4]), "others do not care");
}

/// Bits that become wrong after the page was read are not wrong in the cache.
#[test]
fn the_cache_keeps_what_the_array_had() {
    let mut b = Bench::unlocked("w35n01jw");
    b.set(0xB0, 0x08).unwrap();
    b.row(0x13, 0).unwrap();
    b.chip.inject(0, 0);
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 0), Ok([0xFF; 4]));
    b.row(0x13, 0).unwrap();
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 0), Ok([0xFE, 0xFF, 0xFF, 0xFF]));
}

#[test]
fn erasing_a_factory_bad_block_loses_its_marker() {
    let mut b = Bench::unlocked("w35n01jw");
    let options = ChipOptions { seed: 3, stores: true, bad_blocks: 1, ..ChipOptions::default() };
    b.chip = SpiNand::new(b.chip.spec().clone(), options);
    b.set(0xA0, 0).unwrap();
    let block = b.chip.factory_bad()[0];
    assert!(block > 0);
    b.row(0x13, block * 64).unwrap();
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 4095), Ok([0xFF, 0x00, 0xFF, 0xFF]));
    b.bare(0x06).unwrap();
    b.row(0xD8, block * 64).unwrap();
    b.row(0x13, block * 64).unwrap();
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 4095), Ok([0xFF; 4]));
    assert_eq!(b.chip.factory_bad().len(), 0);
}

/// Example of facts 5.1: HFREQ is required from 90 MHz on in octal DTR.
#[test]
fn fast_octal_reads_need_their_bit() {
    let octal = |opcode| SpiOp::command(opcode).mode(Mode::OCTAL_DTR);
    let mut b = Bench::unlocked("w35n01jw");
    b.vcr(1, 12).unwrap();
    b.vcr(0, 0xC7).unwrap();
    b.hz = 100_000_000;
    b.run(octal(0x13).address(0, 2), Data::None).unwrap();
    let read = octal(0x9D).address(0, 2).dummy(12).read(4);
    let limit = Violation::ClockTooFast { hz: 100_000_000, max: 89_999_999 };
    assert_eq!(b.run(read, Data::In(&mut [0; 4])), Err(limit));
    let set = octal(0x1F).address(0xB0B0, 2).write(2);
    b.run(set, Data::Out(&[0x19; 2])).unwrap();
    assert_eq!(b.run(read, Data::In(&mut [0; 4])), Ok(()));
}

/// PAGE READ, a few changed bytes, PROGRAM EXECUTE to another page: the source page does not change, and it may be
/// erased in between.
#[test]
fn pages_are_moved_inside_the_chip() {
    let mut b = Bench::unlocked("w35n01jw");
    b.program(0).unwrap();
    b.row(0x13, 0).unwrap();
    b.bare(0x06).unwrap();
    b.row(0xD8, 0).unwrap();
    b.bare(0x06).unwrap();
    b.load(1, &[0x11]).unwrap();
    b.row(0x10, 64).unwrap();
    b.row(0x13, 64).unwrap();
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 0), Ok([0x55, 0x11, 0x55, 0x55]));
    b.row(0x13, 0).unwrap();
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 0), Ok([0xFF; 4]));
}

#[test]
fn pages_go_in_order_and_not_too_often() {
    for stores in [true, false] {
        let mut b = Bench::unlocked("w35n01jw");
        if !stores {
            b.chip =
                SpiNand::new(Arc::new(spec("w35n01jw")), ChipOptions { stores, ..ChipOptions::default() });
            b.set(0xA0, 0).unwrap();
        }
        b.program(5).unwrap();
        assert_eq!(b.program(4), Err(Violation::OutOfOrder));
        let mut part = |column, bytes: &[u8]| {
            b.bare(0x06)?;
            // A plain load sets the other bytes of the cache to ones, unlike a random load.
            let op = SpiOp::command(0x02).address(column, 2).write(bytes.len() as u32);
            b.run(op, Data::Out(bytes))?;
            b.row(0x10, 5)
        };
        for _ in 0..2 {
            assert_eq!(part(1023, &[0; 2]), Err(Violation::NotErased), "a byte of the first sub-page");
        }
        part(1024, &[0; 1024]).unwrap();
        assert_eq!(part(2047, &[0]), Err(Violation::NotErased));
        part(0, &[0xFF; 16]).unwrap();
        part(3000, &[0; 16]).unwrap();
        assert_eq!(part(2048, &[0]), Err(Violation::TooManyPrograms));
        b.bare(0x06).unwrap();
        b.row(0xD8, 5).unwrap();
        assert_eq!(b.program(4), Ok(()));
    }
}

#[test]
fn caches_must_hold_something() {
    let mut b = Bench::unlocked("w35n01jw");
    assert!(matches!(b.read(0x0B, "1S-1S-1S", 8, 0), Err(Violation::Sequence(_))));
    b.bare(0x06).unwrap();
    assert!(matches!(b.row(0x10, 0), Err(Violation::Sequence(_))));
}

#[test]
fn octal_mode_is_switched_on_and_left_by_the_reset_pin() {
    let octal = |opcode| SpiOp::command(opcode).mode(Mode::OCTAL_DTR);
    let mut b = Bench::unlocked("w35n01jw");
    assert_eq!(b.run(octal(0x13).address(0, 2), Data::None), Err(Violation::WrongMode(0x13)));
    b.vcr(1, 8).unwrap();
    b.vcr(0, 0xE7).unwrap();
    assert_eq!(b.row(0x13, 0), Err(Violation::WrongMode(0x13)));
    assert_eq!(b.bare(0xFF), Err(Violation::WrongMode(0xFF)));
    b.run(octal(0x13).address(0, 2), Data::None).unwrap();
    let mut buf = [0; 4];
    let read = octal(0x9D).address(0, 2).read(4);
    assert_eq!(b.run(read.dummy(12), Data::In(&mut buf)), Err(Violation::WrongMode(0x9D)));
    assert_eq!(b.run(read.dummy(8), Data::In(&mut buf)), Ok(()));
    b.run(octal(0xFF), Data::None).unwrap();
    assert_eq!(b.row(0x13, 0), Err(Violation::WrongMode(0x13)), "a software reset keeps the bus mode");
    b.chip.reset_pin(b.now);
    assert_eq!(b.row(0x13, 0), Ok(()));
}

#[test]
fn the_long_reset_needs_both_commands_in_a_row() {
    let mut b = Bench::unlocked("w35n01jw");
    assert!(matches!(b.bare(0x99), Err(Violation::Sequence(_))));
    b.bare(0x66).unwrap();
    b.bare(0x06).unwrap();
    assert!(matches!(b.bare(0x99), Err(Violation::Sequence(_))));
    b.bare(0x66).unwrap();
    b.bare(0x99).unwrap();
    assert_eq!(b.get(0xA0), 0x7C);
}

/// A wrong plane bit reads the cache of the other plane, like a real chip: wrong data without an error.
#[test]
fn a_wrong_plane_bit_reads_the_other_cache() {
    let mut b = Bench::unlocked("mx35lf2ge4ab");
    let plane_1 = 1 << 12;
    b.bare(0x06).unwrap();
    b.load(plane_1, &[0x11; 4]).unwrap();
    b.row(0x10, 64).unwrap();
    b.row(0x13, 0).unwrap();
    b.row(0x13, 64).unwrap();
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, plane_1), Ok([0x11; 4]));
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 0), Ok([0xFF; 4]));
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 1 << 13), Err(Violation::BadAddress));
}

#[test]
fn plain_loads_blank_the_rest_of_the_cache_and_random_loads_keep_it() {
    let mut b = Bench::unlocked("w35n01jw");
    b.bare(0x06).unwrap();
    b.load(0, &[0x12; 4]).unwrap();
    b.load(2, &[0x34]).unwrap();
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 0), Ok([0x12, 0x12, 0x34, 0x12]));
    let plain = SpiOp::command(0x02).address(1, 2).write(1);
    b.run(plain, Data::Out(&[0x56])).unwrap();
    assert_eq!(b.read(0x0B, "1S-1S-1S", 8, 0), Ok([0xFF, 0x56, 0xFF, 0xFF]));
}

#[test]
fn each_die_has_registers_of_its_own() {
    let mut b = Bench::unlocked("w25m02gv");
    let select = SpiOp::command(0xC2).write(1);
    b.run(select, Data::Out(&[1])).unwrap();
    assert_eq!(b.get(0xA0), 0x7C);
    assert_eq!(b.program(0), Err(Violation::Protected));
    assert_eq!(b.run(select, Data::Out(&[2])), Err(Violation::BadAddress));
    b.run(select, Data::Out(&[0])).unwrap();
    assert_eq!(b.program(0), Ok(()));
}

#[test]
fn winbond_streams_have_no_column_and_end_with_the_block() {
    let mut b = Bench::unlocked("w35n01jw");
    b.vcr(1, 8).unwrap();
    b.set(0xB0, 0x10).unwrap();
    b.row(0x13, 62).unwrap();
    let stream = SpiOp::command(0xCB).mode("1S-8S-8S".parse().unwrap());
    let mut buf = vec![0; 3 * 4096];
    let op = |len: u32| stream.address(0, 1).dummy(7).read(len);
    assert_eq!(
        b.run(stream.address(0, 2).dummy(8).read(4096), Data::In(&mut buf[..4096])),
        Err(Violation::WrongMode(0xCB)),
        "a column is no part of it"
    );
    assert!(matches!(b.run(op(3 * 4096), Data::In(&mut buf)), Err(Violation::Sequence(_))));
    assert_eq!(b.run(op(2 * 4096), Data::In(&mut buf[..2 * 4096])), Ok(()));
    assert!(b.run(op(4096), Data::In(&mut buf[..4096])).is_err(), "one stream per page read");
}

/// 4096 cycles in 17 us are 240.9 MHz in 1S-8S-8S, which exceeds the chip's own limit; slower arrays are the limit.
#[test]
fn a_stream_may_not_outrun_the_array() {
    let mut slow = spec("mx35lf2ge4ad");
    slow.continuous.as_mut().unwrap().t_page_us = Nanos::from_us(50);
    let mut b = Bench::unlocked("mx35lf2ge4ad");
    b.chip = SpiNand::new(Arc::new(slow), ChipOptions::default());
    b.hz = 100_000_000;
    b.set(0xB0, 0x15).unwrap();
    b.row(0x13, 0).unwrap();
    let op = SpiOp::command(0x6B).mode("1S-1S-4S".parse().unwrap()).address(0, 2).dummy(8);
    let mut buf = vec![0; 4096];
    let limit = Violation::ClockTooFast { hz: 100_000_000, max: 81_920_000 };
    assert_eq!(b.run(op.read(4096), Data::In(&mut buf)), Err(limit));
    b.hz = 81_000_000;
    assert_eq!(b.run(op.read(4096), Data::In(&mut buf)), Ok(()));
    let next = SpiOp::command(0x13).address(64, 3);
    assert!(matches!(b.at_once(next, Data::None), Err(Violation::Sequence(_))), "tRST has not passed");
    b.set(0xB0, 0x11).unwrap();
    assert_eq!(b.at_once(next, Data::None), Ok(()));
}

/// Errors contain the forms in which chip and controller support a command. In an earlier version they only stated
/// that this form is invalid.
#[test]
fn bus_errors_say_what_the_chip_offers() {
    use super::rig::{board, controller};
    use crate::spi::{SpiController, SpiMem};
    use crate::timeline::Host;
    let chip = Bench::unlocked("w25n02jw").chip;
    let narrow = crate::spi::SpiProfile { lanes: 2, dtr: false, ..controller() };
    let mut bus = SpiController::new(narrow, board(25_000_000, None), chip);
    let mut offers = |op: SpiOp| {
        let refused = bus.exec(&mut Host::default(), &op, Data::None).unwrap_err();
        bus.offers(&op, &refused).unwrap()
    };
    let row = offers(SpiOp::command(0x13).address(0, 2));
    assert_eq!(row, "the chip takes 0x13 as 1S-1S-1S with 3 address bytes, 0 dummy cycles and no data");
    let unknown = offers(SpiOp::command(0x42));
    assert!(
        unknown.starts_with("the chip takes 0x01, 0x02, 0x03, ") && unknown.contains("0xd8"),
        "{unknown}"
    );
    let read = offers(SpiOp::command(0x3B).mode("1S-4S-4S".parse().unwrap()).address(0, 2));
    assert!(
        read.contains("both take 0x3b as 1S-1S-2S with 2 address bytes, 8 dummy cycles and data from"),
        "{read}"
    );
}

#[test]
fn winbond_has_two_opcodes_for_registers() {
    let set = SpiOp::command(0x01).address(0xA0, 1).write(1);
    let get = SpiOp::command(0x05).address(0xC0, 1).read(1);
    let mut b = Bench::new("w25m02gv");
    b.run(set, Data::Out(&[0])).unwrap();
    assert_eq!(b.get(0xA0), 0);
    b.bare(0x06).unwrap();
    let mut value = [0];
    b.run(get, Data::In(&mut value)).unwrap();
    assert_eq!(value, [0x02]);
    let mut other = Bench::new("mx35lf2ge4ab");
    assert_eq!(other.run(get, Data::In(&mut value)), Err(Violation::UnknownCommand(0x05)));
    assert_eq!(other.run(set, Data::Out(&[0])), Err(Violation::UnknownCommand(0x01)));
}

/// Every form in the table is accepted, in both bus modes.
#[test]
fn forms_that_are_offered_are_taken() {
    for octal in [false, true] {
        let mut b = Bench::unlocked("w35n01jw");
        if octal {
            b.vcr(1, 8).unwrap();
            b.vcr(0, 0xE7).unwrap();
        }
        let all: Vec<_> =
            (0..=255).flat_map(|op| b.chip.shapes(op).into_iter().map(move |s| (op, s))).collect();
        assert!(all.len() > 10);
        for &(opcode, shape) in &all {
            let op = SpiOp::command(opcode)
                .mode(shape.mode)
                .address(0, shape.addr_bytes)
                .dummy(shape.dummy_cycles);
            let mut chip = b.chip.clone();
            let (mut buf, at) = ([0; 2], b.now);
            let outcome = match shape.dir {
                crate::spi::Direction::None => chip.exec(at, at, 1_000_000, &op, Data::None),
                crate::spi::Direction::In => chip.exec(at, at, 1_000_000, &op.read(2), Data::In(&mut buf)),
                crate::spi::Direction::Out => chip.exec(at, at, 1_000_000, &op.write(1), Data::Out(&[0])),
            };
            // A register determines which number of dummy cycles is valid.
            let flexible = all.iter().filter(|(o, s)| (*o, s.mode) == (opcode, shape.mode)).count() > 1;
            let refused = match outcome {
                Err(Violation::UnknownCommand(_)) => true,
                Err(Violation::WrongMode(_)) => !flexible,
                _ => false,
            };
            assert!(!refused, "{opcode:#04x} {shape}: {outcome:?}");
        }
    }
}
