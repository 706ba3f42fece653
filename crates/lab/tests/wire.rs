//! Tests of chips at pin level: for every SPI part, the bytes of an operation have the same effect as the operation.

use crate::common::library;
use floatgate_config::{Config, Kind, Source};
use floatgate_device::ecc_engine::EccProfile;
use floatgate_device::host::HostProfile;
use floatgate_device::oracle::PageTruth;
use floatgate_device::parallel_nor::{CfiDriver, NorMem, NorWire, ParallelNor};
use floatgate_device::raw_nand::{
    self, DataInterface, Instr, NandBoard, NandBus, NandController, NandError, NandWire, RawNand,
    RawNandDriver,
};
use floatgate_device::spec::ChipSpec;
use floatgate_device::spi::{
    Clock, CommandShape, Data, Direction, Mode, PollPlan, ReadOn, SpiChip, SpiController, SpiOp, SpiProfile,
    SpiWire, Width,
};
use floatgate_device::spi_nand::{self, SpiNand, SpiNandDriver};
use floatgate_device::spi_nor::{self, SpiNor, SpiNorDriver};
use floatgate_device::{Host, Otp, OtpArea, Violation};
use floatgate_mtd::random::Random;
use floatgate_mtd::{Instant, Mtd, Nanos, Phase};
use floatgate_sim::rig;
use std::sync::Arc;

/// A chip that executes operations, and its twin that receives the bytes of each. They must never differ.
struct Twins<C> {
    chip: C,
    wire: SpiWire<C>,
    random: Random,
    compared: u64,
}

impl<C: SpiChip + Clone> Twins<C> {
    fn new(chip: C) -> Self {
        let wire = SpiWire::new(chip.clone(), 1);
        Self { chip, wire, random: Random::new(7), compared: 0 }
    }

    /// Sends an operation byte by byte, with its data in pieces.
    fn send(&mut self, op: &SpiOp, data: Data<'_>) {
        let SpiOp { mode, .. } = *op;
        let wire = &mut self.wire;
        wire.select();
        wire.write(mode.cmd, &[op.opcode]);
        if mode.cmd.dtr && mode.cmd.lanes == 8 {
            wire.write(mode.cmd, &[op.ext.second(op.opcode)]);
        }
        wire.write(mode.addr, &op.addr.to_be_bytes()[4 - usize::from(op.addr_bytes)..]);
        wire.dummy(op.dummy_cycles.into());
        // In 8D-8D-8D, two bytes travel in each clock cycle.
        let piece = 2 * (1 + self.random.bits() as usize % 700);
        match data {
            Data::None => {}
            Data::In(out) => out.chunks_mut(piece).for_each(|piece| wire.read(mode.data, piece)),
            Data::Out(bytes) => bytes.chunks(piece).for_each(|piece| wire.write(mode.data, piece)),
        }
        wire.deselect();
    }
}

impl<C: SpiChip> PageTruth for Twins<C> {
    fn keeps_data(&self) -> bool {
        self.chip.keeps_data()
    }
}

impl<C: SpiChip + Clone> SpiChip for Twins<C> {
    fn exec(
        &mut self,
        start: Instant,
        end: Instant,
        hz: u32,
        op: &SpiOp,
        data: Data<'_>,
    ) -> Result<(), Violation> {
        self.wire.set_clock(hz);
        self.wire.advance(start.since(self.wire.now()));
        assert_eq!(self.wire.now(), start);
        self.wire.clear_violations();
        let outcome = match data {
            Data::None => {
                self.send(op, Data::None);
                self.chip.exec(start, end, hz, op, Data::None)
            }
            Data::Out(bytes) => {
                self.send(op, Data::Out(bytes));
                self.chip.exec(start, end, hz, op, Data::Out(bytes))
            }
            Data::In(out) => {
                let mut on_wire = vec![0; out.len()];
                self.send(op, Data::In(&mut on_wire));
                let outcome = self.chip.exec(start, end, hz, op, Data::In(out));
                match outcome {
                    Ok(()) => assert_eq!(out, on_wire, "{op:02x?}"),
                    Err(_) => assert!(on_wire.iter().all(|byte| *byte == 0xFF), "{op:02x?}"),
                }
                outcome
            }
        };
        let recorded = self.wire.violations().recorded().first().map(|one| one.rule);
        assert_eq!(recorded, outcome.err(), "{op:02x?}");
        assert_eq!(self.wire.now(), end, "{op:02x?}");
        assert_eq!(self.wire.chip().busy_until(), self.chip.busy_until(), "{op:02x?}");
        self.compared += 1;
        outcome
    }

    fn busy_until(&self) -> Instant {
        self.chip.busy_until()
    }

    fn busy_since(&self) -> Instant {
        self.chip.busy_since()
    }

    fn busy_what(&self) -> &'static str {
        self.chip.busy_what()
    }

    fn shapes(&self, opcode: u8) -> Vec<CommandShape> {
        self.chip.shapes(opcode)
    }

    fn takes_row_in_command(&self, opcode: u8) -> bool {
        self.chip.takes_row_in_command(opcode)
    }

    fn read_on(&self, op: &SpiOp) -> ReadOn {
        self.chip.read_on(op)
    }

    fn command_name(&self, op: &SpiOp) -> &'static str {
        self.chip.command_name(op)
    }

    fn reset_pin(&mut self, at: Instant) {
        self.chip.reset_pin(at);
        self.wire.chip_mut().reset_pin(at);
    }
}

/// A board without its own costs, on which a part runs in each of its modes.
fn config(part: &str, mode: Option<Mode>) -> Config {
    let mode = mode.map_or_else(String::new, |mode| format!(", mode = '{mode}'"));
    let board = format!(
        "chip = '{part}'\ncontroller = {{ reference_hz = '50 MHz', max_hz = '50 MHz', lanes = 8, dtr = true, mixed_rates = true }}\n\
         bus = {{ clock_hz = '25 MHz', lanes = 8, reset_pin = true{mode} }}\ndriver = {{}}"
    );
    let setup = library().setup_from(&Source::text(part, &board));
    library().resolve(&setup.unwrap(), &[]).unwrap()
}

fn controller<C: SpiChip + Clone>(config: &Config, chip: C) -> SpiController<Twins<C>> {
    let profile = config.extract::<SpiProfile>("controller").unwrap();
    SpiController::new(profile, config.extract("bus").unwrap(), Twins::new(chip))
}

/// Erases, writes and reads two blocks in pieces of any length. Returns the end time, and the number of wrong bytes.
fn use_flash(device: &mut impl Mtd, mut now: Instant) -> (Instant, usize) {
    let mut wrong = 0;
    let geometry = device.geometry().clone();
    let page = geometry.write_bytes.max(256) as usize;
    let data: Vec<u8> = (0..page * 3).map(|at| (at * 7 % 251) as u8).collect();
    for block in [1, 2] {
        let start = block * u64::from(geometry.erase_bytes);
        now = device.erase(now, start, geometry.erase_bytes.into()).unwrap().at;
        now = device.write(now, start, &data).unwrap().at;
        for (from, len) in [(0, data.len()), (page - 2, 4), (2, 30)] {
            let mut out = vec![0; len];
            now = device.read(now, start + from as u64, &mut out).unwrap().at;
            wrong += out.iter().zip(&data[from..]).filter(|(read, written)| read != written).count();
        }
    }
    (now, wrong)
}

/// Random operations with every opcode in its forms, at any address, allowed or not.
fn random_operations<C: SpiChip + Clone>(twins: &mut Twins<C>, mut now: Instant, limit: u32) {
    const WRITE_ENABLE: u8 = 0x06;
    let clock = Clock::new(25_000_000);
    let mut random = Random::new(3);
    for _ in 0..400 {
        let opcode = if random.bits().is_multiple_of(3) { WRITE_ENABLE } else { random.bits() as u8 };
        let shapes = twins.shapes(opcode);
        let shape = shapes.get(random.bits() as usize % shapes.len().max(1)).copied();
        let Some(CommandShape { mode, addr_bytes, dummy_cycles, dir }) = shape else { continue };
        let len = if dir == Direction::None { 0 } else { 2 + random.bits() as u32 % 300 / 2 * 2 };
        let bits = 8 * u32::from(addr_bytes);
        let addr = (random.bits() as u32 % limit) & 1u32.checked_shl(bits).map_or(u32::MAX, |past| past - 1);
        // The length is even, as 8D-8D-8D requires.
        let op =
            SpiOp { opcode, addr: addr & !1, addr_bytes, dummy_cycles, dir, len, ..SpiOp::command(opcode) }
                .mode(mode);
        let end = now + clock.duration(&op);
        let mut bytes = vec![0xA5; len as usize];
        let data = match dir {
            Direction::None => Data::None,
            Direction::In => Data::In(&mut bytes),
            Direction::Out => Data::Out(&bytes),
        };
        let _ = twins.exec(now, end, clock.hz(), &op, data);
        now = end.max(if random.bits().is_multiple_of(2) { twins.busy_until() } else { end });
    }
}

fn parts(wanted: impl Fn(&ChipSpec) -> bool) -> Vec<(String, ChipSpec)> {
    let all = library().names(Kind::Part).map(|name| (name.to_owned(), chip_of(name)));
    all.filter(|(_, chip)| wanted(chip)).collect()
}

fn chip_of(part: &str) -> ChipSpec {
    library().load(Kind::Part, part).unwrap().chip().unwrap()
}

fn modes(part: &str) -> Vec<Option<Mode>> {
    rig::chip_modes(&config(part, None)).into_iter().map(Some).collect()
}

#[test]
fn bytes_do_what_operations_do_on_every_spi_nor() {
    for (part, chip) in parts(|chip| matches!(chip, ChipSpec::SpiNor(_))) {
        let ChipSpec::SpiNor(spec) = chip else { unreachable!() };
        let chip = SpiNor::new((*spec).clone(), 0, true).unwrap();
        for mode in modes(&part) {
            let config = config(&part, mode);
            let options: spi_nor::Options = config.extract_or_default("driver").unwrap();
            let bus = controller(&config, chip.clone());
            let probed = SpiNorDriver::probe(bus, std::slice::from_ref(&*spec), Default::default(), options);
            let Ok(mut driver) = probed else { continue };
            let (mut now, wrong) = use_flash(&mut driver, Instant::ZERO + Nanos::from_ms(100));
            assert_eq!(wrong, 0, "{part}");
            if driver.otp_regions(OtpArea::User) > 0 {
                now = driver.otp_read(now, OtpArea::User, 0, &mut [0; 8]).unwrap().at;
            }
            let twins = driver.bus_mut().chip_mut();
            assert!(twins.compared > 20, "{part}");
            random_operations(twins, now.max(twins.busy_until()), spec.geometry.size_bytes as u32);
        }
    }
}

#[test]
fn bytes_do_what_operations_do_on_every_spi_nand() {
    for (part, chip) in parts(|chip| matches!(chip, ChipSpec::SpiNand(_))) {
        let ChipSpec::SpiNand(spec) = chip else { unreachable!() };
        let options = spi_nand::ChipOptions { stores: true, ..Default::default() };
        let chip = SpiNand::new(Arc::new((*spec).clone()), options);
        for (continuous, mode) in modes(&part).into_iter().flat_map(|mode| [(false, mode), (true, mode)]) {
            let config = config(&part, mode);
            let mut driver: spi_nand::Options = config.extract_or_default("driver").unwrap();
            driver.continuous = continuous;
            let bus = controller(&config, chip.clone());
            let catalogue = std::slice::from_ref(&*spec);
            let ecc = config.extract_or_default("ecc").unwrap();
            let probed = SpiNandDriver::probe(bus, catalogue, Default::default(), ecc, driver);
            let Ok(mut driver) = probed else { continue };
            let (now, wrong) = use_flash(&mut driver, Instant::ZERO + Nanos::from_ms(100));
            assert_eq!(wrong, 0, "{part}");
            let twins = driver.bus_mut().chip_mut();
            assert!(twins.compared > 20, "{part}");
            random_operations(twins, now.max(twins.busy_until()), 1 << 16);
        }
    }
}

fn nor(part: &str) -> SpiWire<SpiNor> {
    let ChipSpec::SpiNor(spec) = chip_of(part) else { panic!("{part}") };
    SpiWire::new(SpiNor::new(*spec, 0, true).unwrap(), 10_000_000)
}

/// Programs one byte at address 0, and waits.
fn program(wire: &mut SpiWire<SpiNor>, byte: u8) {
    wire.transfer(&[0x06], &mut []);
    wire.transfer(&[0x02, 0, 0, 0, byte], &mut []);
    wire.advance(Nanos::from_ms(100));
}

#[test]
fn a_command_that_the_chip_does_not_have_reads_ffh_and_is_recorded() {
    let mut wire = nor("w25q128jv");
    let mut answer = [0; 3];
    wire.advance(Nanos::from_us(5));
    wire.transfer(&[0xD5, 1, 2], &mut answer);
    assert_eq!(answer, [0xFF; 3]);
    let recorded = wire.violations().recorded();
    assert_eq!(recorded.len(), 1);
    assert_eq!((recorded[0].at.as_ns(), recorded[0].rule), (5000, Violation::UnknownCommand(0xD5)));
    assert_eq!(recorded[0].bytes, [0xD5, 1, 2]);
    wire.transfer(&[0x9F], &mut answer);
    assert_eq!((answer, wire.violations().count()), ([0xEF, 0x40, 0x18], 1));
}

#[test]
fn a_command_that_is_cut_short_does_nothing() {
    let mut wire = nor("w25q128jv");
    program(&mut wire, 0x12);
    wire.transfer(&[0x06], &mut []);
    for short in [&[0x20][..], &[0x20, 0, 0]] {
        wire.transfer(short, &mut []);
    }
    assert_eq!(wire.violations().count(), 2);
    // An erase with one byte too many is not executed, either.
    wire.transfer(&[0x20, 0, 0, 0, 0], &mut []);
    assert_eq!(wire.violations().count(), 3);
    let mut byte = [0];
    wire.transfer(&[0x03, 0, 0, 0], &mut byte);
    assert_eq!(byte, [0x12]);
    wire.transfer(&[0x20, 0, 0, 0], &mut []);
    wire.transfer(&[0x03, 0, 0, 0], &mut byte);
    assert_eq!((byte, wire.violations().recorded()[3].rule), ([0xFF], Violation::Busy));
    wire.advance(Nanos::from_ms(1000));
    wire.transfer(&[0x03, 0, 0, 0], &mut byte);
    assert_eq!((byte, wire.violations().count()), ([0xFF], 4));
}

#[test]
fn a_status_read_in_one_window_shows_when_the_chip_becomes_ready() {
    let mut wire = nor("w25q128jv");
    wire.transfer(&[0x06], &mut []);
    wire.transfer(&[0x02, 0, 0, 0, 0x34], &mut []);
    let ready = wire.chip().busy_until();
    wire.select();
    wire.write(Width::X1, &[0x05]);
    let mut status = [1];
    while status[0] & 1 == 1 {
        wire.read(Width::X1, &mut status);
        assert_eq!(status[0] & 1 == 1, wire.now() < ready);
    }
    let mut many = [0xEE; 5000];
    wire.read(Width::X1, &mut many);
    assert_eq!(many, [0; 5000]);
    wire.deselect();
    assert_eq!(wire.violations().count(), 0);
}

#[test]
fn both_directions_at_once_read_what_follows_the_header() {
    let mut wire = nor("w25q128jv");
    program(&mut wire, 0x5A);
    wire.select();
    let mut bytes = [0x03, 0, 0, 0, 0x77, 0x77];
    wire.exchange(&mut bytes);
    wire.deselect();
    assert_eq!(bytes, [0xFF, 0xFF, 0xFF, 0xFF, 0x5A, 0xFF]);
}

#[test]
fn a_stuck_bit_reads_the_same_whatever_is_written() {
    let mut wire = nor("w25q128jv");
    wire.chip_mut().stick(0, 3, true);
    program(&mut wire, 0);
    let mut byte = [0];
    wire.transfer(&[0x03, 0, 0, 0], &mut byte);
    assert_eq!(byte, [0x08]);
}

#[test]
fn power_that_fails_in_an_erase_leaves_a_chip_that_answers_nothing_until_it_is_back() {
    use floatgate_device::power::PowerCut;
    let mut wire = nor("w25q128jv");
    wire.power_mut().order(Some(PowerCut::During { operation: 2, share: 0.5 }));
    program(&mut wire, 0);
    wire.transfer(&[0x06], &mut []);
    wire.transfer(&[0x20, 0, 0, 0], &mut []);
    assert!(!wire.power().is_lost());
    wire.advance(Nanos::from_ms(1000));
    assert!(wire.power().is_lost());
    let mut id = [0; 3];
    wire.transfer(&[0x9F], &mut id);
    assert_eq!((id, wire.violations().count()), ([0xFF; 3], 0));
    wire.power_on();
    wire.advance(Nanos::from_ms(1));
    wire.transfer(&[0x9F], &mut id);
    assert_eq!(id, [0xEF, 0x40, 0x18]);
}

/// A bus for the driver of raw NAND, which converts its operations to cycles.
#[derive(Clone)]
struct Cycles(NandWire<RawNand>);

impl PageTruth for Cycles {
    fn keeps_data(&self) -> bool {
        true
    }
}

impl NandBus for Cycles {
    fn targets(&self) -> u8 {
        (0..).take_while(|target| self.0.chip(*target).is_some()).count() as u8
    }

    fn select(&mut self, target: u8) {
        self.0.select(target.into());
    }

    fn supports(&self, _: DataInterface) -> bool {
        true
    }

    fn cached_reads(&self) -> bool {
        true
    }

    fn sub_page_writes(&self) -> bool {
        true
    }

    fn interface(&self) -> DataInterface {
        self.0.interface()
    }

    fn set_interface(&mut self, _: &mut Host, interface: DataInterface) -> Result<(), NandError> {
        self.0.set_interface(interface);
        Ok(())
    }

    fn exec(&mut self, host: &mut Host, instrs: &mut [Instr<'_>]) -> Result<(), NandError> {
        let wire = &mut self.0;
        wire.advance(host.now().since(wire.now()));
        wire.clear_violations();
        for instr in instrs {
            match instr {
                Instr::Cmd(opcode) => wire.command(*opcode),
                Instr::Addr(address) => address.bytes().iter().for_each(|byte| wire.address(&[*byte])),
                Instr::Wait(_) => wire.wait_ready(),
                Instr::In(out) => out.chunks_mut(700).for_each(|piece| wire.read(piece)),
                Instr::Out(bytes) => bytes.chunks(700).for_each(|piece| wire.write(piece)),
                Instr::RegIn(out) => wire.read_register(out),
                Instr::RegOut(bytes) => wire.write_register(bytes),
            }
            if let Some(broken) = wire.violations().recorded().first() {
                return Err(NandError::Chip(broken.rule));
            }
        }
        wire.end_address();
        host.pass_until(wire.now(), Phase::Waiting);
        Ok(())
    }
}

#[test]
fn cycles_do_what_operations_do_on_every_raw_nand() {
    for (part, chip) in parts(|chip| matches!(chip, ChipSpec::RawNand(_))) {
        let ChipSpec::RawNand(spec) = chip else { unreachable!() };
        let chips = RawNand::package(&spec, raw_nand::ChipOptions::default()).unwrap();
        let board = "controller = { sdr_modes = [0, 1, 2, 3, 4, 5], nvddr_modes = [0, 1, 2, 3, 4, 5] }";
        let text = format!("chip = '{part}'\n{board}\necc = {{ engine = 'none' }}");
        let setup = library().setup_from(&Source::text(&part, &text)).unwrap();
        let config = library().resolve(&setup, &[]).unwrap();
        let (catalogue, host) = (std::slice::from_ref(&*spec), HostProfile::default());
        let ecc: EccProfile = config.extract("ecc").unwrap();
        let bus = NandController::new(
            config.extract("controller").unwrap(),
            NandBoard { interface: None, ..NandBoard::default() },
            chips.clone(),
        );
        let Ok(mut driver) = RawNandDriver::probe(bus, catalogue, host, ecc, Default::default()) else {
            panic!("{part}")
        };
        let wire = Cycles(NandWire::new(chips));
        let mut twin = RawNandDriver::probe(wire, catalogue, host, ecc, Default::default()).unwrap();
        let start = Instant::ZERO + Nanos::from_ms(500);
        // Without ECC some bits are wrong, and they are the same in both.
        assert_eq!(use_flash(&mut driver, start), use_flash(&mut twin, start), "{part}");
    }
}

/// A bus for the driver of parallel NOR, which converts its accesses to cycles.
struct Words(NorWire);

impl Words {
    fn run<T>(&mut self, host: &mut Host, cycles: impl FnOnce(&mut NorWire) -> T) -> Result<T, Violation> {
        self.0.advance(host.now().since(self.0.now()));
        self.0.clear_violations();
        let result = cycles(&mut self.0);
        host.pass_until(self.0.now(), Phase::Waiting);
        self.0.violations().recorded().first().map_or(Ok(result), |broken| Err(broken.rule))
    }
}

impl NorMem for Words {
    fn word_bytes(&self) -> u32 {
        self.0.chip().word_bytes() as u32
    }

    fn command(&mut self, host: &mut Host, addr: u32, command: u8) -> Result<(), Violation> {
        let addr = addr - addr % self.word_bytes();
        self.run(host, |wire| wire.write(addr, command.into()))
    }

    fn program(&mut self, host: &mut Host, addr: u32, data: &[u8]) -> Result<(), Violation> {
        let width = self.word_bytes() as usize;
        self.run(host, |wire| {
            for (addr, word) in (addr..).step_by(width).zip(data.chunks(width)) {
                wire.write(addr, u16::from_le_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
            }
        })
    }

    fn read(&mut self, host: &mut Host, addr: u32, buf: &mut [u8]) -> Result<(), Violation> {
        self.run(host, |wire| wire.read(addr, buf))
    }

    fn wait(&mut self, host: &mut Host, _: PollPlan) -> bool {
        host.pass_until(self.0.chip().busy_until(), Phase::Array);
        true
    }

    fn status(&mut self, host: &mut Host, addr: u32) -> Result<u8, Violation> {
        let width = self.word_bytes();
        let mut word = [0; 2];
        self.run(host, |wire| wire.read(addr - addr % width, &mut word[..width as usize]))?;
        Ok(word[0])
    }
}

#[test]
fn the_driver_works_by_cycles_on_every_parallel_nor() {
    for (_, chip) in parts(|chip| matches!(chip, ChipSpec::ParallelNor(_))) {
        let ChipSpec::ParallelNor(spec) = chip else { unreachable!() };
        let wires = [8, 16].into_iter().filter_map(|bits| ParallelNor::new((*spec).clone(), bits, true).ok());
        for chip in wires {
            let words = Words(NorWire::new(chip));
            let mut driver =
                CfiDriver::probe(words, Instant::ZERO, HostProfile::default(), Default::default()).unwrap();
            let (_, wrong) = use_flash(&mut driver, Instant::ZERO + Nanos::from_ms(500));
            assert_eq!(wrong, 0);
        }
    }
}

#[test]
fn cycles_that_no_chip_knows_are_recorded() {
    let ChipSpec::RawNand(spec) = chip_of("mt29f2g08abaea") else { panic!("another kind") };
    let mut wire = NandWire::new(RawNand::package(&spec, raw_nand::ChipOptions::default()).unwrap());
    wire.command(0x90);
    wire.address(&[0]);
    let mut id = [0; 2];
    wire.read_register(&mut id);
    assert_eq!(id, [0xFF; 2], "before the first RESET");
    assert_eq!(wire.violations().recorded()[0].bytes, [0x90]);
    wire.clear_violations();
    wire.command(0xFF);
    assert!(!wire.is_ready());
    wire.wait_ready();
    assert!(wire.is_ready());
    wire.command(0x90);
    wire.address(&[0]);
    wire.read_register(&mut id);
    assert_eq!((id, wire.violations().count()), ([0x2C, 0xDA], 0));
    wire.address(&[0; 20]);
    wire.command(0xB3);
    assert_eq!(wire.violations().count(), 2);
}
