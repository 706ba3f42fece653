//! Tests with requests as the kernel module sends them.

use super::protocol::*;
use super::{BadRequest, Driver, Form, LinuxBus};
use crate::rig::{self, RigOptions};
use crate::socket::Socket;
use floatgate_config::{Library, Override};

/// The first setup with this chip, wired for Linux.
fn bus(setup: &str, set: &[String]) -> LinuxBus {
    let library = Library::built_in();
    let set = Override::parse_all(set).unwrap();
    let config = library.resolve(&library.setup(setup).unwrap(), &set).unwrap();
    rig::linux_bus(&config, RigOptions::default()).unwrap()
}

fn quad_nor() -> LinuxBus {
    bus("w25q128jv", &[])
}

/// The module's side of the protocol.
struct Kernel {
    bus: LinuxBus,
    id: u32,
}

impl Kernel {
    fn new(bus: LinuxBus) -> Self {
        Self { bus, id: 0 }
    }

    fn ask(&mut self, head: RawRequest, body: &[u8]) -> (i32, Vec<u8>) {
        self.id += 1;
        let mut request = Vec::new();
        RawRequest { id: self.id, ..head }.put(&mut request);
        request.extend(body);
        let answer = self.bus.answer(&request).unwrap();
        let [id, result] = [0, 4].map(|at| i32::from_le_bytes(answer[at..at + 4].try_into().unwrap()));
        assert_eq!(id as u32, self.id);
        (result, answer[8..].to_vec())
    }

    fn spi(&mut self, kind: u32, op: RawSpiOp, in_len: u32, out: &[u8]) -> (i32, Vec<u8>) {
        let mut body = Vec::new();
        op.put(&mut body);
        body.extend(out);
        self.ask(RawRequest { kind, in_len, out_len: out.len() as u32, ..RawRequest::default() }, &body)
    }

    fn read(&mut self, op: RawSpiOp, length: u32) -> Vec<u8> {
        let (result, data) = self.spi(
            EXEC,
            RawSpiOp { dir: DATA_IN as u8, data_lanes: op.data_lanes.max(1), ..op },
            length,
            &[],
        );
        assert_eq!(result, 0);
        data
    }

    fn write(&mut self, op: RawSpiOp, bytes: &[u8]) {
        let dir = if bytes.is_empty() { NO_DATA } else { DATA_OUT };
        assert_eq!(self.spi(EXEC, RawSpiOp { dir: dir as u8, data_lanes: 1, ..op }, 0, bytes).0, 0);
    }

    fn nand(&mut self, steps: &[RawInstr], in_len: u32, out: &[u8]) -> (i32, Vec<u8>) {
        let mut body = Vec::new();
        steps.iter().for_each(|step| step.put(&mut body));
        body.extend(out);
        let count = steps.len() as u32;
        self.ask(
            RawRequest { kind: NAND, count, in_len, out_len: out.len() as u32, ..RawRequest::default() },
            &body,
        )
    }
}

fn op(opcode: u16) -> RawSpiOp {
    RawSpiOp { opcode, cmd_bytes: 1, cmd_lanes: 1, ..RawSpiOp::default() }
}

fn at(opcode: u16, addr: u64, addr_bytes: u8) -> RawSpiOp {
    RawSpiOp { addr, addr_bytes, addr_lanes: 1, ..op(opcode) }
}

fn dummy(op: RawSpiOp, bytes: u8, lanes: u8) -> RawSpiOp {
    RawSpiOp { dummy_bytes: bytes, dummy_lanes: lanes, ..op }
}

fn fast_read(addr: u64) -> RawSpiOp {
    dummy(at(0x0B, addr, 3), 1, 1)
}

#[test]
fn an_id_is_read_in_linuxs_three_ways() {
    let mut kernel = Kernel::new(bus("bcm47622-w25n01gv", &[]));
    kernel.write(op(0xFF), &[]);
    assert_eq!(kernel.read(op(0x9F), 4), [0x00, 0xEF, 0xAA, 0x21]);
    assert_eq!(kernel.read(at(0x9F, 0, 1), 3), [0xEF, 0xAA, 0x21]);
    assert_eq!(kernel.read(dummy(op(0x9F), 1, 1), 3), [0xEF, 0xAA, 0x21]);
    assert_eq!(kernel.bus.violations().count(), 0);
}

#[test]
fn the_controller_says_which_lanes_there_are() {
    let supports = |bus: LinuxBus, lanes: u8| {
        let read = dummy(RawSpiOp { dir: DATA_IN as u8, data_lanes: lanes, ..at(0x6B, 0, 3) }, 1, 1);
        Kernel::new(bus).spi(SUPPORTS, read, 0, &[]).0
    };
    let wired = |lanes: u8| bus("w25q128jv", &[format!("bus.lanes={lanes}")]);
    assert_eq!([1, 2, 4, 8].map(|lanes| supports(quad_nor(), lanes)), [1, 1, 1, 0]);
    assert_eq!([1, 2, 4, 8].map(|lanes| supports(wired(1), lanes)), [1, 0, 0, 0]);
    // An operation that no chip has is answered with "not supported", not with an error.
    assert_eq!(Kernel::new(quad_nor()).spi(SUPPORTS, RawSpiOp { cmd_bytes: 2, ..op(0x1234) }, 0, &[]).0, 0);
}

#[test]
fn a_page_is_erased_programmed_and_read_in_the_chips_time() {
    let mut kernel = Kernel::new(quad_nor());
    let page: Vec<u8> = (0..=255).collect();
    kernel.write(op(0x06), &[]);
    kernel.write(at(0x20, 0x1000, 3), &[]);
    // The first status read happens when the chip is ready.
    assert_eq!(kernel.read(op(0x05), 1)[0] & 1, 0);
    let erased = kernel.bus.done_at();
    assert!(erased.as_ns() > 10_000_000, "{erased:?}");
    kernel.write(op(0x06), &[]);
    kernel.write(at(0x02, 0x1000, 3), &page);
    assert_eq!(kernel.read(op(0x05), 1)[0] & 1, 0);
    assert_eq!(kernel.read(fast_read(0x1000), 256), page);
    assert!(kernel.bus.done_at() > erased && kernel.bus.on_wires().as_ns() > 0);
    let forms: Vec<(u8, u64, u64)> = kernel
        .bus
        .chosen()
        .iter()
        .map(|chosen| match chosen.form {
            Form::Spi { opcode, .. } => (opcode, chosen.count, chosen.bytes),
            Form::Nand { .. } => panic!(),
        })
        .collect();
    assert_eq!(forms, [(0x06, 2, 0), (0x20, 1, 0), (0x05, 2, 2), (0x02, 1, 256), (0x0B, 1, 256)]);
    assert_eq!((kernel.bus.changes(), kernel.bus.violations().count()), (2, 0));
    let mut other = quad_nor();
    other.set_contents(&kernel.bus.contents()).unwrap();
    assert_eq!(Kernel::new(other).read(fast_read(0x1000), 256), page);
}

#[test]
fn a_clock_above_the_limit_of_a_command_is_recorded() {
    let mut kernel = Kernel::new(quad_nor());
    assert_eq!(kernel.read(at(0x03, 0, 3), 1), [0xFF]);
    // Linux since 6.14 states the maximum clock of an operation.
    kernel.read(RawSpiOp { max_hz: 50_000_000, ..at(0x03, 0, 3) }, 1);
    assert_eq!(kernel.bus.violations().count(), 1);
}

#[test]
fn a_program_without_write_enable_is_recorded() {
    let mut kernel = Kernel::new(quad_nor());
    kernel.write(at(0x02, 0, 3), &[0; 4]);
    assert_eq!(kernel.read(fast_read(0), 4), [0xFF; 4]);
    assert_eq!(kernel.bus.violations().count(), 1);
}

#[test]
fn after_a_power_cut_nothing_works() {
    let mut kernel = Kernel::new(quad_nor());
    kernel.bus.cut_power(1);
    kernel.write(op(0x06), &[]);
    kernel.write(at(0x20, 0, 3), &[]);
    let status = RawSpiOp { dir: DATA_IN as u8, data_lanes: 1, ..op(0x05) };
    assert_eq!(kernel.spi(EXEC, status, 1, &[]), (-5, vec![]));
    assert!(kernel.bus.is_dead());
}

fn instr(kind: u32, value: u8, len: u32) -> RawInstr {
    RawInstr { kind: kind as u8, value, len, ..RawInstr::default() }
}

#[test]
fn a_raw_nand_takes_lists_of_instructions() {
    let mut kernel = Kernel::new(bus("imx6-mx30lf2g18ac", &[]));
    let (cmd, wait) = (|opcode| instr(INSTR_CMD, opcode, 0), instr(INSTR_WAIT, 0, 1000));
    let addr = |cycles: u8| instr(INSTR_ADDR, cycles, 0);
    assert_eq!(kernel.nand(&[cmd(0xFF), wait], 0, &[]).0, 0);
    assert_eq!(kernel.nand(&[cmd(0x90), addr(1), instr(INSTR_DATA_IN, 1, 2)], 2, &[]), (0, vec![0xC2, 0xDA]));
    assert_eq!(kernel.nand(&[cmd(0x60), addr(3), cmd(0xD0), wait], 0, &[]).0, 0);
    let page = vec![0x5A; 2048];
    let program = [cmd(0x80), addr(5), instr(INSTR_DATA_OUT, 0, 2048), cmd(0x10), wait];
    assert_eq!(kernel.nand(&program, 0, &page).0, 0);
    let read = [cmd(0x00), addr(5), cmd(0x30), wait, instr(INSTR_DATA_IN, 0, 2048)];
    assert_eq!(kernel.nand(&read, 2048, &[]), (0, page));
    // Reads data of a chip that does not exist, and of a chip without waiting for tR.
    let impatient = [cmd(0x00), addr(5), cmd(0x30), instr(INSTR_WAIT, 0, 0)];
    assert_eq!(kernel.nand(&impatient, 0, &[]).0, -110);
    assert_eq!((kernel.bus.changes(), kernel.bus.violations().count()), (2, 0));
}

#[test]
fn interfaces_are_those_of_the_controller() {
    let mut kernel = Kernel::new(bus("imx6-mx30lf2g18ac", &[]));
    let mut set = |nvddr, mode, check_only| {
        let mut body = Vec::new();
        RawInterface { nvddr, mode, check_only }.put(&mut body);
        kernel.ask(RawRequest { kind: INTERFACE, ..RawRequest::default() }, &body).0
    };
    assert_eq!([set(0, 4, 1), set(0, 4, 0), set(1, 0, 1), set(0, 77, 1)], [0, 0, -95, -95]);
}

#[test]
fn the_module_tells_what_became_of_the_chip() {
    let mut kernel = Kernel::new(quad_nor());
    let ready = |target| RawRequest { kind: READY, target, ..RawRequest::default() };
    assert_eq!(kernel.bus.driver(), Driver::Probing);
    kernel.ask(ready(u32::MAX), &[]);
    assert_eq!(kernel.bus.driver(), Driver::Missing);
    kernel.ask(ready(3), &[]);
    assert_eq!(kernel.bus.driver(), Driver::Attached(3));
}

#[test]
fn what_is_no_request_is_an_error() {
    let mut bus = quad_nor();
    let mut refused = |head: RawRequest, body: &[u8]| {
        let mut request = Vec::new();
        head.put(&mut request);
        request.extend(body);
        bus.answer(&request).unwrap_err()
    };
    let head = |kind| RawRequest { kind, ..RawRequest::default() };
    assert_eq!(refused(head(99), &[]), BadRequest::Value("kind", 99));
    assert_eq!(refused(head(EXEC), &[0; 3]), BadRequest::Length(27));
    assert_eq!(
        refused(RawRequest { in_len: u32::MAX, ..head(EXEC) }, &[]),
        BadRequest::Value("in_len", u32::MAX.into())
    );
    assert_eq!(refused(RawRequest { out_len: 7, ..head(READY) }, &[]), BadRequest::Length(24));
    assert_eq!(
        refused(RawRequest { count: u32::MAX, ..head(NAND) }, &[]),
        BadRequest::Value("count", u32::MAX.into())
    );
    let mut body = Vec::new();
    instr(INSTR_DATA_IN, 0, 9).put(&mut body);
    assert_eq!(
        refused(RawRequest { count: 1, in_len: 8, ..head(NAND) }, &body),
        BadRequest::Value("in_len", 8)
    );
    let mut body = Vec::new();
    op(0x05).put(&mut body);
    assert_eq!(refused(RawRequest { in_len: 1, ..head(EXEC) }, &body), BadRequest::Value("in_len", 1));
    assert_eq!(bus.answer(&[]).unwrap_err(), BadRequest::Length(0));
}

/// A repeatable sequence of pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }

    /// A request of valid structure with arbitrary values.
    fn request(&mut self) -> Vec<u8> {
        let kind = self.pick(&[SUPPORTS, EXEC, EXEC, MAPPED, POLL, NAND, NAND, INTERFACE]);
        let length = self.pick(&[0, 1, 2, 4, 256, 2112, 9000]);
        let mut body = Vec::new();
        let (mut count, mut in_len, mut out_len) = (0, 0, 0);
        match kind {
            NAND => {
                count = self.next() as u32 % 7;
                for _ in 0..count {
                    let step = self.pick(&[INSTR_CMD, INSTR_ADDR, INSTR_DATA_IN, INSTR_DATA_OUT, INSTR_WAIT]);
                    let any = self.next() as u8;
                    let opcode =
                        self.pick(&[0x00, 0x30, 0x80, 0x10, 0x60, 0xD0, 0x70, 0x90, 0xEC, 0xEF, 0xFF, any]);
                    let value = if step == INSTR_ADDR { self.next() as u8 % 9 } else { opcode };
                    let addr = self.next().to_le_bytes();
                    RawInstr { addr, ..instr(step, value, length) }.put(&mut body);
                    in_len += if step == INSTR_DATA_IN { length } else { 0 };
                    out_len += if step == INSTR_DATA_OUT { length } else { 0 };
                }
            }
            INTERFACE => {
                RawInterface { nvddr: self.next() as u32 % 2, mode: self.next() as u32 % 300, check_only: 0 }
                    .put(&mut body);
            }
            _ => {
                let dir = if kind == POLL { DATA_IN } else { self.pick(&[NO_DATA, DATA_IN, DATA_OUT]) };
                let lanes = |numbers: &mut Self| numbers.pick(&[1, 1, 1, 2, 4, 8]);
                let any = self.next() as u16 % 256;
                let opcode =
                    self.pick(&[0x06, 0x05, 0x01, 0x02, 0x03, 0x0B, 0x13, 0x10, 0xD8, 0x1F, 0x0F, 0x9F, any]);
                let op = RawSpiOp {
                    addr: self.next(),
                    opcode,
                    cmd_bytes: 1,
                    cmd_lanes: lanes(self),
                    addr_bytes: self.next() as u8 % 5,
                    addr_lanes: lanes(self),
                    dummy_bytes: self.next() as u8 % 5,
                    dummy_lanes: lanes(self),
                    data_lanes: lanes(self),
                    dir: dir as u8,
                    max_hz: self.pick(&[0, 1, u32::MAX]),
                    ..RawSpiOp::default()
                };
                op.put(&mut body);
                (in_len, out_len) = match (kind, dir) {
                    (SUPPORTS, _) | (_, NO_DATA) => (0, 0),
                    (_, DATA_IN) => (length, 0),
                    _ => (0, length),
                };
                if kind == POLL {
                    RawPoll { initial_us: self.next() as u32, interval_us: self.next() as u32 }
                        .put(&mut body);
                }
            }
        }
        body.extend((0..out_len).map(|at| at as u8));
        let mut request = Vec::new();
        RawRequest { id: 7, kind, count, target: self.next() as u32 % 3, out_len, in_len }.put(&mut request);
        request.extend(body);
        request
    }
}

#[test]
fn any_request_is_answered_and_time_goes_on() {
    for part in ["w25q64jv", "mx25uw12845g", "w25n01gv", "w35n01jw", "mx30lf2g18ac", "mt29f32g08abcdb"] {
        let (mut numbers, mut bus, mut answered) = (Numbers(1), bus(part, &[]), 0);
        for _ in 0..2000 {
            let (request, before) = (numbers.request(), bus.done_at());
            answered += u32::from(bus.answer(&request).is_ok_and(|answer| answer[..4] == [7, 0, 0, 0]));
            assert!(bus.done_at() >= before, "{part}");
        }
        assert!(answered > 1000 && bus.violations().count() > 10, "{part}: {answered}");
    }
}
