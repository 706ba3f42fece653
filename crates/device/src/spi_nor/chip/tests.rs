use super::*;
use crate::oracle::{Faults, Oracle};
use crate::spi::{CmdExt, Mode};
use crate::spi_nor::spec::Protection;
use crate::spi_nor::test_parts::{self, MX25UW12845G, MX25UW51245G, N25Q128A, W25Q128JV};
use floatgate_mtd::Nanos;
use proptest::prelude::*;

/// A chip at the end of a slow bus, which executes one operation after another.
struct Bench {
    chip: SpiNor,
    now: Instant,
    hz: u32,
}

impl Bench {
    fn new(part: &str) -> Self {
        let chip = SpiNor::new(test_parts::spec(part), 1, true).unwrap();
        Self { chip, now: Instant::from_ns(1_000), hz: 20_000_000 }
    }

    fn run(&mut self, op: SpiOp, data: Data<'_>) -> Result<(), Violation> {
        let end = self.now + Nanos::from_us(1);
        let outcome = self.chip.exec(self.now, end, self.hz, &op, data);
        self.now = end;
        outcome
    }

    fn cmd(&mut self, opcode: u8) -> Result<(), Violation> {
        self.run(SpiOp::command(opcode), Data::None)
    }

    fn get(&mut self, op: SpiOp) -> Result<Vec<u8>, Violation> {
        let mut out = vec![0; op.len as usize];
        self.run(op, Data::In(&mut out)).map(|()| out)
    }

    fn register(&mut self, opcode: u8) -> u8 {
        self.get(SpiOp::command(opcode).read(1)).unwrap()[0]
    }

    fn put(&mut self, op: SpiOp, bytes: &[u8]) -> Result<(), Violation> {
        self.run(op.write(bytes.len() as u32), Data::Out(bytes))
    }

    fn wait(&mut self) {
        self.now = self.now.max(self.chip.busy_until());
    }

    fn program(&mut self, addr: u32, bytes: &[u8]) -> Result<(), Violation> {
        self.cmd(0x06)?;
        self.put(SpiOp::command(0x02).address(addr, 3), bytes)
    }

    fn erase(&mut self, opcode: u8, addr: u32) -> Result<(), Violation> {
        self.cmd(0x06)?;
        self.run(SpiOp::command(opcode).address(addr, 3), Data::None)
    }

    fn read(&mut self, addr: u32, len: u32) -> Result<Vec<u8>, Violation> {
        self.get(SpiOp::command(0x03).address(addr, 3).read(len))
    }
}

#[test]
fn programs_clear_bits_and_wrap_within_the_page() {
    let mut b = Bench::new(W25Q128JV);
    b.program(0x1FE, &[1, 2, 3, 4]).unwrap();
    assert_eq!(b.chip.busy_what(), "tPP");
    b.wait();
    assert_eq!(b.read(0x1FE, 2).unwrap(), [1, 2]);
    assert_eq!(b.read(0x100, 3).unwrap(), [3, 4, 0xFF]);
    assert_eq!(b.read(0x200, 1).unwrap(), [0xFF]);
}

#[test]
fn bits_go_back_to_one_only_by_erasing() {
    let mut b = Bench::new(W25Q128JV);
    b.program(0, &[0x0F, 0x55]).unwrap();
    b.wait();
    assert_eq!(b.program(0, &[0x1F]), Err(Violation::NotErased));
    // Clearing more bits, and FFh as padding, are allowed.
    b.program(0, &[0x05, 0xFF]).unwrap();
    b.wait();
    assert_eq!(b.read(0, 2).unwrap(), [0x05, 0x55]);
    b.erase(0x20, 0xFFF).unwrap();
    b.wait();
    b.program(0, &[0x1F]).unwrap();
}

#[test]
fn every_rule_of_the_command_set_is_kept() {
    let mut b = Bench::new(W25Q128JV);
    let program = SpiOp::command(0x02).address(0, 3);
    assert_eq!(b.cmd(0x00), Err(Violation::UnknownCommand(0x00)));
    assert_eq!(b.put(program, &[0]), Err(Violation::NoWriteEnable));
    assert_eq!(b.run(SpiOp::command(0x20).address(0, 3), Data::None), Err(Violation::NoWriteEnable));
    b.cmd(0x06).unwrap();
    b.cmd(0x04).unwrap();
    assert_eq!(b.put(program, &[0]), Err(Violation::NoWriteEnable));
    b.cmd(0x06).unwrap();
    assert!(matches!(b.put(program, &[0; 257]), Err(Violation::Sequence(_))));
    assert_eq!(b.put(program.address(0, 4), &[0]), Err(Violation::WrongMode(0x02)));
    assert_eq!(b.put(program.dummy(8), &[0]), Err(Violation::WrongMode(0x02)));
    let fast = SpiOp::command(0x0B).address(0, 3).read(4);
    assert_eq!(b.get(fast), Err(Violation::WrongMode(0x0B)));
    assert!(b.get(fast.dummy(8)).is_ok());
    assert_eq!(b.get(fast.dummy(8).mode("1-1-2".parse().unwrap())), Err(Violation::WrongMode(0x0B)));
    assert_eq!(b.read(0xFF_FFFF, 2), Err(Violation::BadAddress));
    assert_eq!(b.read(0x100_0000, 1), Err(Violation::BadAddress));
    assert_eq!(b.get(SpiOp::command(0x05).dummy(1).read(1)), Err(Violation::WrongMode(0x05)));
    assert_eq!(b.run(SpiOp::command(0x06).read(1), Data::In(&mut [0])), Err(Violation::WrongMode(0x06)));
    // Rejected commands leave the write enable latch set.
    assert_eq!(b.register(0x05) & 2, 2);
    b.put(program, &[0]).unwrap();
    assert_eq!(b.register(0x05) & 3, 1);
    assert_eq!(b.read(0, 1), Err(Violation::Busy));
    assert_eq!(b.cmd(0x06), Err(Violation::Busy));
    assert_eq!(b.get(SpiOp::command(0x9F).read(3)), Err(Violation::Busy));
    b.wait();
    assert_eq!(b.register(0x05) & 3, 0);
}

#[test]
fn clocks_have_limits() {
    let mut b = Bench::new(W25Q128JV);
    b.hz = 104_000_000;
    assert_eq!(b.read(0, 1), Err(Violation::ClockTooFast { hz: 104_000_000, max: 50_000_000 }));
    assert!(b.get(SpiOp::command(0x0B).address(0, 3).dummy(8).read(1)).is_ok());
    b.hz = 134_000_000;
    assert!(matches!(b.cmd(0x06), Err(Violation::ClockTooFast { .. })));
}

#[test]
fn four_lines_need_the_quad_enable_bit() {
    let mut b = Bench::new(W25Q128JV);
    let quad = SpiOp::command(0x6B).address(0, 3).dummy(8).read(4).mode("1-1-4".parse().unwrap());
    assert!(matches!(b.get(quad), Err(Violation::Sequence(_))));
    b.cmd(0x06).unwrap();
    b.put(SpiOp::command(0x31), &[0x02]).unwrap();
    assert_eq!(b.register(0x05) & 1, 1);
    b.wait();
    assert!(b.get(quad).is_ok());
    // The bit is non-volatile, so a reset does not change it.
    b.cmd(0x66).unwrap();
    b.cmd(0x99).unwrap();
    b.wait();
    assert!(b.get(quad).is_ok());
}

#[test]
fn protection_bits_protect() {
    let mut b = Bench::new(N25Q128A);
    let protect = |b: &mut Bench, value: u8| {
        b.cmd(0x06).unwrap();
        b.put(SpiOp::command(0x01), &[value]).unwrap();
        b.wait();
    };
    // BP = 1 protects the last 64 KiB; with TB the first 64 KiB.
    protect(&mut b, 1 << 2);
    assert_eq!(b.program(0xFF_0000, &[0]), Err(Violation::Protected));
    assert_eq!(b.erase(0xD8, 0xFF_0000), Err(Violation::Protected));
    b.cmd(0x06).unwrap();
    assert_eq!(b.cmd(0xC7), Err(Violation::Protected));
    b.program(0xFE_FFFF, &[0]).unwrap();
    b.wait();
    protect(&mut b, 1 << 2 | 1 << 5);
    assert_eq!(b.program(0, &[0]), Err(Violation::Protected));
    b.program(0x1_0000, &[0]).unwrap();
    b.wait();
    // BP3 is bit 6; BP = 9 and higher values protect everything.
    protect(&mut b, 1 << 6 | 1 << 2);
    assert_eq!(b.program(0x80_0000, &[0]), Err(Violation::Protected));
    protect(&mut b, 0);
    b.program(0, &[0]).unwrap();
}

#[test]
fn a_program_takes_longer_with_each_byte() {
    let mut b = Bench::new(W25Q128JV);
    let times = [1, 2, 128, 256].map(|len| {
        b.program(0x1000 * len, &vec![0; len as usize]).unwrap();
        let time = b.chip.busy_until().since(b.chip.busy_since());
        b.wait();
        time
    });
    assert!(times.is_sorted_by(|shorter, longer| shorter < longer), "{times:?}");
}

/// The tail of the published times: some erases of a subsector take longer than the others.
#[test]
fn the_tail_makes_some_erases_slow() {
    let spec = test_parts::profile(N25Q128A, Some("measured"));
    let typical = spec.erase.values().find(|erase| erase.tail.is_some()).map(|erase| erase.t_us.typ).unwrap();
    let mut b = Bench { chip: SpiNor::new(spec, 1, true).unwrap(), ..Bench::new(N25Q128A) };
    let slow = (0..400).filter(|block| {
        b.erase(0x20, block << 12).unwrap();
        let time = b.chip.busy_until().since(b.chip.busy_since());
        b.wait();
        assert!(time >= typical);
        time > typical
    });
    assert!((10..100).contains(&slow.count()));
}

/// Micron's chips keep the write enable latch and set bits of the flag status register; Winbond's clear the latch.
#[test]
fn a_refused_program_leaves_its_mark_in_the_registers() {
    for (part, latch) in [(N25Q128A, 1 << 1), (W25Q128JV, 0)] {
        let mut b = Bench::new(part);
        b.cmd(0x06).unwrap();
        b.put(SpiOp::command(0x01), &[0b0001_1100]).unwrap();
        b.wait();
        assert_eq!(b.program(0xFF_0000, &[0]), Err(Violation::Protected), "{part}");
        assert_eq!(b.register(0x05), 0b0001_1100 | latch, "{part}");
        assert_eq!(b.erase(0xD8, 0xFF_0000), Err(Violation::Protected), "{part}");
        assert_eq!(b.register(0x05), 0b0001_1100 | latch, "{part}");
        if part == N25Q128A {
            assert_eq!(b.register(0x70), 1 << 7 | 1 << 5 | 1 << 4 | 1 << 1);
            b.cmd(0x50).unwrap();
            assert_eq!(b.register(0x70), 1 << 7);
        }
    }
}

/// SRP with WP# low locks the status registers, unless the quad enable bit makes WP# a data line. SRL locks them until
/// power-off. Micron's chips have no quad enable bit.
#[test]
fn the_pin_wp_locks_the_status_registers() {
    let write = |b: &mut Bench, opcode: u8, value: u8| {
        b.cmd(0x06).unwrap();
        let outcome = b.put(SpiOp::command(opcode), &[value]);
        b.wait();
        outcome
    };
    for part in [W25Q128JV, N25Q128A, MX25UW12845G] {
        let mut spec = test_parts::spec(part);
        spec.protection =
            Some(Protection { bp_bits: vec![2, 3, 4], tb_bit: None, cmp_bit: None, unit_bytes: 1 << 18 });
        let mut b = Bench { chip: SpiNor::new(spec, 1, true).unwrap(), ..Bench::new(part) };
        b.chip.set_wp_low(true);
        write(&mut b, 0x01, 1 << 7 | 1 << 2).unwrap();
        assert_eq!(write(&mut b, 0x01, 0), Err(Violation::Protected), "{part}");
        assert_eq!(b.register(0x05), 1 << 7 | 1 << 2 | 1 << 1, "{part}: bits stay, and the latch does");
        // Neither a reset nor a power loss unlocks the registers that the pin locks.
        b.chip.power_cycle(b.now);
        b.wait();
        assert_eq!(write(&mut b, 0x01, 0), Err(Violation::Protected), "{part}");
        b.chip.set_wp_low(false);
        write(&mut b, 0x01, 0).unwrap();
    }
    let mut b = Bench::new(W25Q128JV);
    b.chip.set_wp_low(true);
    write(&mut b, 0x31, 0x02).unwrap();
    write(&mut b, 0x01, 1 << 7).unwrap();
    write(&mut b, 0x01, 0).unwrap();
    write(&mut b, 0x31, 0x01).unwrap();
    for opcode in [0x01, 0x31, 0x11] {
        assert_eq!(write(&mut b, opcode, 0), Err(Violation::Protected), "{opcode:#04x}");
    }
    b.chip.power_cycle(b.now);
    b.wait();
    assert_eq!(b.register(0x35), 0);
    write(&mut b, 0x01, 0).unwrap();
}

/// CMP of status register 2 inverts the protected range: the range that BP and TB leave unprotected is protected.
#[test]
fn the_complement_bit_inverts_the_locked_range() {
    let mut spec = test_parts::spec(W25Q128JV);
    spec.protection =
        Some(Protection { bp_bits: vec![2, 3, 4], tb_bit: Some(5), cmp_bit: Some(6), unit_bytes: 1 << 18 });
    let size = spec.geometry.size_bytes as u32;
    let mut b = Bench { chip: SpiNor::new(spec, 1, true).unwrap(), ..Bench::new(W25Q128JV) };
    let mut ends = |first: u8, second: u8| {
        for (opcode, value) in [(0x01, first), (0x31, second)] {
            b.cmd(0x06).unwrap();
            b.put(SpiOp::command(opcode), &[value]).unwrap();
            b.wait();
        }
        [0, size - 256].map(|addr| {
            let is_free = b.program(addr, &[0xFF]).is_ok();
            b.wait();
            is_free
        })
    };
    // BP = 1 protects the end; with TB the start.
    assert_eq!(ends(1 << 2, 0), [true, false]);
    assert_eq!(ends(1 << 2, 1 << 6), [false, true]);
    assert_eq!(ends(1 << 2 | 1 << 5, 0), [false, true]);
    assert_eq!(ends(1 << 2 | 1 << 5, 1 << 6), [true, false]);
    // BP = 0 protects nothing; with CMP it protects everything.
    assert_eq!(ends(0, 0), [true, true]);
    assert_eq!(ends(0, 1 << 6), [false, false]);
}

#[test]
fn reset_needs_both_commands_in_a_row_and_spoils_what_was_under_way() {
    let mut b = Bench::new(W25Q128JV);
    assert!(matches!(b.cmd(0x99), Err(Violation::Sequence(_))));
    b.cmd(0x66).unwrap();
    b.register(0x05);
    assert!(matches!(b.cmd(0x99), Err(Violation::Sequence(_))));
    b.cmd(0x66).unwrap();
    b.read(0, 1).unwrap();
    assert!(matches!(b.cmd(0x99), Err(Violation::Sequence(_))));
    b.program(0, &[0x0F; 256]).unwrap();
    b.wait();
    let reset_after = |b: &mut Bench, ms| {
        b.erase(0x20, 0).unwrap();
        b.now += Nanos::from_ms(ms);
        b.cmd(0x66).unwrap();
        b.cmd(0x99).unwrap();
        assert_eq!(b.chip.busy_what(), "tRST");
        b.wait();
        b.read(0, 4096).unwrap()
    };
    // The erase first programs every cell, then erases all cells together.
    let early = reset_after(&mut b, 3);
    assert!(early[..256] == [0; 256] && early[4000..] == [0xFF; 96]);
    let middle = reset_after(&mut b, 25);
    let wrong = |page: &[u8]| page.iter().map(|b| b.count_zeros()).sum::<u32>();
    assert!(middle.chunks(256).all(|page| (512..1536).contains(&wrong(page))));
    b.erase(0x20, 0).unwrap();
    b.wait();
    assert_eq!(b.read(0, 4096).unwrap(), [0xFF; 4096]);
}

#[test]
fn suspended_work_goes_on_where_it_was() {
    let mut b = Bench::new(W25Q128JV);
    assert!(matches!(b.cmd(0x75), Err(Violation::Sequence(_))));
    assert!(matches!(b.cmd(0x7A), Err(Violation::Sequence(_))));
    b.erase(0x20, 0).unwrap();
    let begun = b.now;
    b.now = begun + Nanos::from_ms(10);
    b.cmd(0x75).unwrap();
    let left = (begun + Nanos::from_ms(45)).since(b.now);
    assert_eq!(b.register(0x05) & 1, 1);
    b.wait();
    assert_eq!(b.register(0x35) >> 7, 1);
    assert!(b.read(4096, 16).is_ok());
    assert!(matches!(b.read(4000, 200), Err(Violation::Sequence(_))));
    assert!(matches!(b.erase(0x20, 8192), Err(Violation::Sequence(_))));
    assert!(matches!(b.program(100, &[0]), Err(Violation::Sequence(_))));
    b.program(4096, &[0]).unwrap();
    b.wait();
    b.cmd(0x04).unwrap();
    b.cmd(0x7A).unwrap();
    assert_eq!(b.chip.busy_until(), b.now + left);
    b.wait();
    assert_eq!(b.register(0x35) >> 7, 0);
    assert_eq!(b.read(0, 1).unwrap(), [0xFF]);
}

#[test]
fn a_failing_page_and_block_are_told_in_the_flag_status_register() {
    let mut b = Bench::new(N25Q128A);
    b.chip.set_faults(0x1080, Faults::PROGRAM);
    b.program(0x1000, &[0; 4]).unwrap();
    assert_eq!(b.register(0x70), 0);
    b.wait();
    assert_eq!(b.register(0x70), 1 << 7 | 1 << 4);
    assert_eq!(b.read(0x1000, 4).unwrap(), [0, 0, 0xFF, 0xFF]);
    // The fail bit stays set until it is cleared.
    b.program(0, &[0; 4]).unwrap();
    b.wait();
    assert_eq!(b.register(0x70), 1 << 7 | 1 << 4);
    b.cmd(0x50).unwrap();
    assert_eq!(b.register(0x70), 1 << 7);
    b.chip.set_faults(0x1_2345, Faults::ERASE);
    b.erase(0xD8, 0x1_0000).unwrap();
    b.wait();
    assert_eq!(b.register(0x70), 1 << 7 | 1 << 5);
}

/// Measured properties of the Cryptech part: 8.5 % of its subsectors are slow, and the mean is the published 58.1 ms.
#[test]
fn the_measured_part_has_slow_blocks() {
    let spec = test_parts::profile(N25Q128A, Some("measured"));
    let mut chip = SpiNor::new(spec.clone(), 42, false).unwrap();
    let mut times = Vec::new();
    let mut now = Instant::ZERO;
    for block in 0..4096u32 {
        let op = SpiOp::command(0x20).address(block * 4096, 3);
        chip.exec(now, now, 1_000_000, &SpiOp::command(0x06), Data::None).unwrap();
        chip.exec(now, now, 1_000_000, &op, Data::None).unwrap();
        times.push(chip.busy_until().since(now));
        now = chip.busy_until();
    }
    let slow = times.iter().filter(|t| **t > Nanos::from_ms(66)).count();
    assert!((300..400).contains(&slow), "{slow}");
    let mean = now.as_ns() as f64 / 4096.0 / 1e6;
    assert!((mean - 58.1).abs() < 0.1, "{mean}");
    let mut other = SpiNor::new(spec, 43, false).unwrap();
    other.exec(now, now, 1_000_000, &SpiOp::command(0x06), Data::None).unwrap();
    other.exec(now, now, 1_000_000, &SpiOp::command(0xD8).address(0, 3), Data::None).unwrap();
    assert_eq!(other.busy_until().since(now), Nanos::from_us(259_130));
}

fn octal(opcode: u8) -> SpiOp {
    SpiOp { ext: CmdExt::Invert, ..SpiOp::command(opcode).mode(Mode::OCTAL_DTR) }
}

fn to_octal(b: &mut Bench) {
    b.cmd(0x06).unwrap();
    b.put(SpiOp::command(0x72).address(0, 4), &[0x02]).unwrap();
}

#[test]
fn octal_dtr_has_its_own_rules() {
    let mut b = Bench::new(MX25UW12845G);
    let read = octal(0xEE).address(0, 4).dummy(20).read(4);
    assert_eq!(b.get(read), Err(Violation::WrongMode(0xEE)));
    assert_eq!(b.put(SpiOp::command(0x72).address(0, 4), &[0x02]), Err(Violation::NoWriteEnable));
    to_octal(&mut b);
    assert_eq!(b.get(read).unwrap(), [0xFF; 4]);
    assert_eq!(b.read(0, 1), Err(Violation::WrongMode(0x03)));
    assert_eq!(b.cmd(0x06), Err(Violation::WrongMode(0x06)));
    assert_eq!(b.get(SpiOp { ext: CmdExt::Repeat, ..read }), Err(Violation::UnknownCommand(0xEE)));
    assert_eq!(b.get(read.dummy(14)), Err(Violation::WrongMode(0xEE)));
    assert!(matches!(b.get(read.dummy(16)), Err(Violation::Sequence(_))));
    assert!(matches!(b.get(read.read(3)), Err(Violation::Sequence(_))));
    assert!(matches!(b.get(read.address(1, 4)), Err(Violation::Sequence(_))));
    let id = b.get(octal(0x9F).address(0, 4).dummy(4).read(6)).unwrap();
    assert_eq!(id, [0xC2, 0xC2, 0x81, 0x81, 0x38, 0x38]);
    assert_eq!(b.get(octal(0x05).address(0, 4).dummy(4).read(2)).unwrap(), [0, 0]);
    b.run(octal(0x06), Data::None).unwrap();
    b.put(octal(0x12).address(0x100, 4), &[1, 2]).unwrap();
    assert_eq!(b.get(octal(0x05).address(0, 4).dummy(4).read(2)).unwrap(), [1, 1]);
    b.wait();
    assert_eq!(b.get(read.address(0x100, 4).read(2)).unwrap(), [1, 2]);
}

#[test]
fn both_resets_lead_back_to_one_line() {
    let mut b = Bench::new(MX25UW12845G);
    to_octal(&mut b);
    b.chip.reset_pin(b.now);
    b.wait();
    assert_eq!(b.read(0, 1).unwrap(), [0xFF]);
    to_octal(&mut b);
    b.run(octal(0x66), Data::None).unwrap();
    b.run(octal(0x99), Data::None).unwrap();
    b.wait();
    assert_eq!(b.read(0, 1).unwrap(), [0xFF]);
    // The package does not have the reset pin.
    let mut spec = test_parts::spec(MX25UW12845G);
    spec.reset_pin = false;
    b.chip = SpiNor::new(spec, 1, true).unwrap();
    to_octal(&mut b);
    b.chip.reset_pin(b.now);
    assert_eq!(b.read(0, 1), Err(Violation::WrongMode(0x03)));
}

#[test]
fn dummy_cycles_are_configured_before_they_are_used() {
    let mut b = Bench::new(MX25UW12845G);
    b.cmd(0x06).unwrap();
    b.put(SpiOp::command(0x72).address(0x300, 4), &[4]).unwrap();
    assert_eq!(b.get(SpiOp::command(0x71).address(0x300, 4).read(1)).unwrap(), [4]);
    b.cmd(0x06).unwrap();
    assert!(matches!(b.put(SpiOp::command(0x72).address(0x300, 4), &[9]), Err(Violation::Sequence(_))));
    assert_eq!(b.put(SpiOp::command(0x72).address(0x400, 4), &[0]), Err(Violation::BadAddress));
    to_octal(&mut b);
    let read = octal(0xEE).address(0, 4).dummy(12).read(2);
    assert!(b.get(read).is_ok());
    assert!(matches!(b.get(read.dummy(20)), Err(Violation::Sequence(_))));
    b.hz = 134_000_000;
    assert!(matches!(b.get(read), Err(Violation::ClockTooFast { .. })));
}

#[test]
fn large_parts_need_four_address_bytes() {
    let mut b = Bench::new(MX25UW51245G);
    let far = 0x200_0000;
    assert_eq!(b.read(far, 1), Err(Violation::BadAddress));
    assert!(b.get(SpiOp::command(0x13).address(far, 4).read(1)).is_ok());
    assert_eq!(b.get(SpiOp::command(0x03).address(far, 4).read(1)), Err(Violation::WrongMode(0x03)));
    b.cmd(0xB7).unwrap();
    assert!(b.get(SpiOp::command(0x03).address(far, 4).read(1)).is_ok());
    assert_eq!(b.read(0, 1), Err(Violation::WrongMode(0x03)));
    b.cmd(0xE9).unwrap();
    assert!(b.read(0, 1).is_ok());
}

#[test]
fn other_banks_can_be_read_while_one_is_written() {
    let bank = 0x100_0000;
    let mut b = Bench::new(MX25UW51245G);
    let read = |addr| SpiOp::command(0x13).address(addr, 4).read(16);
    b.program(0, &[0; 16]).unwrap();
    assert_eq!(b.get(read(0)), Err(Violation::Busy));
    assert_eq!(b.get(read(bank - 8)), Err(Violation::Busy));
    assert!(b.get(read(bank)).is_ok());
    assert_eq!(b.cmd(0x06), Err(Violation::Busy));
    // Without banks no read is possible.
    let mut b = Bench::new(MX25UW12845G);
    b.program(0, &[0; 16]).unwrap();
    assert_eq!(b.get(read(0x80_0000)), Err(Violation::Busy));
    // During a register write no bank can be read.
    let mut b = Bench::new(MX25UW51245G);
    b.cmd(0x06).unwrap();
    b.put(SpiOp::command(0x01), &[0]).unwrap();
    assert_eq!(b.get(read(bank)), Err(Violation::Busy));
}

#[test]
fn security_registers_lock_for_good() {
    let mut b = Bench::new(W25Q128JV);
    let read = |addr| SpiOp::command(0x48).address(addr, 3).dummy(8).read(4);
    let write = |addr| SpiOp::command(0x42).address(addr, 3);
    b.cmd(0x06).unwrap();
    b.put(write(0x2000), &[1, 2, 3, 4]).unwrap();
    b.wait();
    assert_eq!(b.get(read(0x2000)).unwrap(), [1, 2, 3, 4]);
    assert_eq!(b.get(read(0x1000)).unwrap(), [0xFF; 4]);
    assert_eq!(b.get(read(0x0000)), Err(Violation::BadAddress));
    assert_eq!(b.get(read(0x20FE)), Err(Violation::BadAddress));
    assert_eq!(b.get(read(0x4000)), Err(Violation::BadAddress));
    let lock = |b: &mut Bench, value: u8| {
        b.cmd(0x06).unwrap();
        b.put(SpiOp::command(0x31), &[value]).unwrap();
        b.wait();
    };
    lock(&mut b, 1 << 4);
    b.cmd(0x06).unwrap();
    assert_eq!(b.put(write(0x2000), &[0]), Err(Violation::Protected));
    assert_eq!(b.run(SpiOp::command(0x44).address(0x2000, 3), Data::None), Err(Violation::Protected));
    b.run(SpiOp::command(0x44).address(0x1000, 3), Data::None).unwrap();
    b.wait();
    lock(&mut b, 0);
    assert_eq!(b.register(0x35), 1 << 4);
}

#[test]
fn information_rows_lock_for_good() {
    let mut b = Bench::new(test_parts::IS25LP256);
    let read = |addr| SpiOp::command(0x68).address(addr, 3).dummy(8).read(4);
    let write = |addr| SpiOp::command(0x62).address(addr, 3);
    b.cmd(0x06).unwrap();
    b.put(write(0x3000), &[1, 2, 3, 4]).unwrap();
    b.wait();
    assert_eq!(b.get(read(0x3000)).unwrap(), [1, 2, 3, 4]);
    assert_eq!(b.get(read(0x0000)).unwrap(), [0xFF; 4]);
    assert_eq!(b.get(read(0x4000)), Err(Violation::BadAddress));
    b.cmd(0x06).unwrap();
    b.put(SpiOp::command(0x42), &[0x8F]).unwrap();
    b.wait();
    // Only lock bits are stored, and they are permanent.
    assert_eq!(b.register(0x48), 0x80);
    b.cmd(0x06).unwrap();
    b.put(SpiOp::command(0x42), &[0]).unwrap();
    b.wait();
    assert_eq!(b.register(0x48), 0x80);
    b.cmd(0x06).unwrap();
    assert_eq!(b.put(write(0x3000), &[0]), Err(Violation::Protected));
    assert_eq!(b.run(SpiOp::command(0x64).address(0x3000, 3), Data::None), Err(Violation::Protected));
    b.put(write(0x2000), &[0]).unwrap();
}

#[test]
fn the_unique_id_is_each_chips_own() {
    let id = |len, dummy| SpiOp::command(0x4B).dummy(dummy).read(len);
    let mut b = Bench::new(W25Q128JV);
    let first = b.get(id(16, 32)).unwrap();
    assert_eq!(first[..8], first[8..], "eight bytes, over and over");
    assert!(first.iter().any(|&byte| byte != 0xFF && byte != 0));
    assert_eq!(b.get(id(8, 8)), Err(Violation::WrongMode(0x4B)));
}

#[test]
fn impossible_specifications_are_refused() {
    let change = |f: &dyn Fn(&mut SpiNorSpec)| {
        let mut spec = test_parts::spec(MX25UW12845G);
        f(&mut spec);
        SpiNor::new(spec, 0, true).is_err()
    };
    assert!(!change(&|_| {}));
    assert!(change(&|s| s.id.truncate(2)));
    assert!(change(&|s| s.geometry.size_bytes = 3 << 20));
    assert!(change(&|s| s.geometry.banks = 3));
    assert!(change(&|s| s.erase.clear()));
    assert!(change(&|s| s.octal = None));
    assert!(change(&|s| s.registers = crate::spi_nor::spec::RegisterSet::Plain));
    assert!(change(&|s| s.geometry.page_bytes = 8192));
    assert!(change(&|s| s.protection.iter_mut().for_each(|p| p.bp_bits.push(8))));
    assert!(change(&|s| s.erase.values_mut().for_each(|e| e.bytes = 5000)));
}

proptest! {
    /// The chip answers every sequence of operations without a panic.
    #[test]
    fn no_sequence_of_operations_panics(
        ops in prop::collection::vec((any::<u8>(), any::<u32>(), 0u8..5, 0u8..21, 0u32..300, 0u8..3, any::<bool>()), 1..60),
        part in 0usize..5,
    ) {
        let mut b = Bench::new(test_parts::ALL.get(part).unwrap_or(&test_parts::EVERY_MODE));
        for (opcode, addr, addr_bytes, dummy, len, dir, wide) in ops {
            let mut op = SpiOp::command(opcode).address(addr, addr_bytes).dummy(dummy);
            op.mode = if wide { Mode::OCTAL_DTR } else { Mode::SINGLE };
            op.ext = CmdExt::Invert;
            let _ = b.cmd(0x06);
            let _ = match dir {
                0 => b.run(op, Data::None),
                1 => b.get(op.read(len)).map(drop),
                _ => b.put(op, &vec![opcode; len as usize]),
            };
        }
    }
}
