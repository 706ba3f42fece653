//! SPI NAND: `spinand_init`, then each read and program that Linux may choose.

use super::{Bench, parts};
use floatgate_config::{Kind, Library};
use floatgate_device::spi::{Data, Mode, SpiOp};
use floatgate_device::spi_nand::{ChipOptions, SpiNand, SpiNandSpec};
use std::sync::Arc;

/// A read from cache as Linux defines it: mode, opcode, dummy bytes, clock limit in MHz (0: none).
type Read = (&'static str, u8, u32, u32);

/// Byte that follows the opcode of READ ID: an address byte or a dummy byte.
#[derive(Clone, Copy)]
enum Id {
    Address,
    Dummy,
}

/// Configuration that must be written before a read variant is used (`configure_chip`).
#[derive(Clone, Copy, PartialEq)]
enum Configure {
    Nothing,
    /// Linux: `w25n0xjw_hs_cfg`.
    HighSpeed,
    /// Linux: `w35n0xjw_vcr_cfg`.
    Vcr,
}

struct Chip {
    parts: &'static [&'static str],
    id: Id,
    reads: &'static [Read],
    loads: &'static [(&'static str, u8)],
    /// Linux: `SPINAND_HAS_QE_BIT`.
    quad_bit: bool,
    /// Bits that the maker's `init` sets in the configuration register.
    init: u8,
    configure: Configure,
    targets: u8,
}

const X4: &[(&str, u8)] = &[("1S-1S-4S", 0x32), ("1S-1S-1S", 0x02), ("1S-1S-4S", 0x34), ("1S-1S-1S", 0x84)];

/// Reads of most makers; the dummy bytes of dual and quad I/O differ.
macro_rules! reads {
    ($quad_io:expr, $dual_io:expr) => {
        &[
            ("1S-4S-4S", 0xEB, $quad_io, 0),
            ("1S-1S-4S", 0x6B, 1, 0),
            ("1S-2S-2S", 0xBB, $dual_io, 0),
            ("1S-1S-2S", 0x3B, 1, 0),
            ("1S-1S-1S", 0x0B, 1, 0),
            ("1S-1S-1S", 0x03, 1, 0),
        ]
    };
}

/// Reads without dual and quad I/O.
const OUTPUT_ONLY: &[Read] =
    &[("1S-1S-4S", 0x6B, 1, 0), ("1S-1S-2S", 0x3B, 1, 0), ("1S-1S-1S", 0x0B, 1, 0), ("1S-1S-1S", 0x03, 1, 0)];

const BUF: u8 = 1 << 3;

const PLAIN: Chip = Chip {
    parts: &[],
    id: Id::Dummy,
    reads: OUTPUT_ONLY,
    loads: X4,
    quad_bit: true,
    init: 0,
    configure: Configure::Nothing,
    targets: 1,
};

const CHIPS: &[Chip] = &[
    Chip {
        parts: &["w35n01jw", "w35n02jw", "w35n04jw"],
        reads: &[
            ("1S-1D-8D", 0x9D, 3, 120),
            ("1S-1D-8D", 0x9D, 2, 105),
            ("1S-8S-8S", 0xCB, 20, 0),
            ("1S-8S-8S", 0xCB, 16, 162),
            ("1S-8S-8S", 0xCB, 12, 124),
            ("1S-8S-8S", 0xCB, 8, 86),
            ("1S-1S-8S", 0x8B, 2, 0),
            ("1S-1S-8S", 0x8B, 1, 133),
            ("1S-1S-1S", 0x0B, 1, 0),
            ("1S-1S-1S", 0x03, 1, 0),
        ],
        loads: &[
            ("1S-8S-8S", 0xC2),
            ("1S-1S-8S", 0x82),
            ("1S-1S-1S", 0x02),
            ("1S-8S-8S", 0xC4),
            ("1S-1S-1S", 0x84),
        ],
        quad_bit: false,
        init: BUF,
        configure: Configure::Vcr,
        ..PLAIN
    },
    Chip {
        parts: &["w25n01jw", "w25n02jw"],
        reads: &[
            ("1S-4D-4D", 0xED, 8, 80),
            ("1S-1D-4D", 0x6D, 2, 80),
            ("1S-4S-4S", 0xEB, 4, 0),
            ("1S-4S-4S", 0xEB, 2, 104),
            ("1S-1S-4S", 0x6B, 1, 0),
            ("1S-2D-2D", 0xBD, 4, 80),
            ("1S-1D-2D", 0x3D, 2, 80),
            ("1S-2S-2S", 0xBB, 2, 0),
            ("1S-2S-2S", 0xBB, 1, 104),
            ("1S-1S-2S", 0x3B, 1, 0),
            ("1S-1D-1D", 0x0D, 2, 80),
            ("1S-1S-1S", 0x0B, 1, 0),
            ("1S-1S-1S", 0x03, 1, 54),
        ],
        quad_bit: false,
        init: BUF,
        configure: Configure::HighSpeed,
        ..PLAIN
    },
    Chip { parts: &["w25n01gv", "w25n02kv"], reads: reads!(2, 1), quad_bit: false, init: BUF, ..PLAIN },
    Chip { parts: &["w25m02gv"], reads: reads!(2, 1), quad_bit: false, init: BUF, targets: 2, ..PLAIN },
    Chip {
        parts: &["mx35lf1ge4ab", "mx35lf2ge4ab", "mx35lf2ge4ad", "mx35lf2g14ac", "mx35lf4ge4ad"],
        ..PLAIN
    },
    Chip { parts: &["f50l1g41lb"], id: Id::Address, quad_bit: false, ..PLAIN },
    Chip { parts: &["gd5f1gq5ue"], reads: reads!(2, 1), ..PLAIN },
    Chip { parts: &["gd5f2gq5ue"], reads: reads!(4, 2), ..PLAIN },
    Chip { parts: &["mt29f1g01abafd"], reads: reads!(2, 1), quad_bit: false, ..PLAIN },
    Chip { parts: &["tc58cvg0s3hraij"], ..PLAIN },
    Chip { parts: &["xt26g01a"], id: Id::Address, reads: reads!(1, 1), ..PLAIN },
];

type Nand = Bench<SpiNand>;

fn spec(name: &str) -> SpiNandSpec {
    Library::built_in().load(Kind::Part, name).unwrap().table.extract("").unwrap()
}

impl Nand {
    fn get(&mut self, register: u32) -> u8 {
        let mut value = [0];
        self.run(&SpiOp::command(0x0F).address(register, 1).read(1), Data::In(&mut value));
        value[0]
    }

    fn set(&mut self, register: u32, value: u8) {
        self.run(&SpiOp::command(0x1F).address(register, 1).write(1), Data::Out(&[value]));
        assert_eq!(self.get(register), value, "{}: register {register:02X}h", self.name);
    }

    fn vcr(&mut self, register: u32, value: u8) {
        self.command(0x06);
        self.run(&SpiOp::command(0x81).address(register, 3).write(1), Data::Out(&[value]));
    }

    /// Linux: `spinand_init`, which resets each target, reads its id, and sets its configuration and protection.
    fn init(&mut self, chip: &Chip, id: &[u8]) {
        self.command(0xFF);
        let read = SpiOp::command(0x9F).read(id.len() as u32);
        let mut found = vec![0; id.len()];
        let read = match chip.id {
            Id::Address => read.address(0, 1),
            Id::Dummy => read.dummy(8),
        };
        self.run(&read, Data::In(&mut found));
        assert_eq!(found, id, "{}", self.name);
        for target in (0..chip.targets).rev() {
            if chip.targets > 1 {
                self.run(&SpiOp::command(0xC2).write(1), Data::Out(&[target]));
            }
            let mut config = self.get(0xB0);
            if chip.quad_bit {
                config |= 1;
                self.set(0xB0, config);
            }
            config = config & !(1 << 6) | 1 << 4 | chip.init;
            self.set(0xB0, config);
            self.set(0xA0, 0);
        }
    }

    /// Linux: `configure_chip` for the chosen read.
    fn configure(&mut self, chip: &Chip, mode: Mode, cycles: u8, limited: bool) {
        let dtr = mode.addr.dtr || mode.data.dtr;
        let single = mode == Mode::SINGLE;
        match chip.configure {
            Configure::Nothing => {}
            Configure::HighSpeed => {
                let old = self.get(0xD0) & !(1 << 2);
                let on = !dtr && !single && !limited;
                self.set(0xD0, old | u8::from(on) << 2);
            }
            Configure::Vcr => {
                // Linux before 6.19 writes the I/O mode first, later versions the dummy cycles; the chip accepts
                // both orders.
                self.vcr(1, cycles);
                self.vcr(0, if single { 0xFF } else { 0xDF });
            }
        }
    }

    fn read_back(&mut self, row: u32, read: &Read, max_hz: u32, len: u32) -> Vec<u8> {
        let &(mode, opcode, _, limit_mhz) = read;
        let mode: Mode = mode.parse().unwrap();
        self.run(&SpiOp::command(0x13).address(row, 3), Data::None);
        let mut page = vec![0; len as usize];
        let op = SpiOp::command(opcode).mode(mode).address(0, 2).dummy(cycles(read)).read(len);
        let hz = if limit_mhz == 0 { max_hz } else { limit_mhz * 1_000_000 };
        self.run_at(hz, &op, Data::In(&mut page));
        page
    }

    fn program(&mut self, row: u32, load: (&str, u8), bytes: &[u8]) {
        let (mode, opcode) = load;
        self.command(0x06);
        let op = SpiOp::command(opcode).mode(mode.parse().unwrap()).address(0, 2).write(bytes.len() as u32);
        self.run(&op, Data::Out(bytes));
        self.run(&SpiOp::command(0x10).address(row, 3), Data::None);
    }
}

/// Dummy clock cycles of a read: its dummy bytes on the lanes of the address.
fn cycles(&(mode, _, bytes, _): &Read) -> u8 {
    let width = mode.parse::<Mode>().unwrap().addr;
    (bytes * 8 / u32::from(width.lanes) / if width.dtr { 2 } else { 1 }) as u8
}

#[test]
fn every_spi_nand_takes_what_linux_sends() {
    for chip in CHIPS {
        for name in chip.parts {
            let spec = spec(name);
            let options = ChipOptions { stores: true, ..ChipOptions::default() };
            let mut nand = Bench::new(name, SpiNand::new(Arc::new(spec.clone()), options));
            nand.init(chip, &spec.id);
            let page: Vec<u8> = (0..spec.geometry.page_bytes).map(|i| (i * 7) as u8).collect();
            for (row, &load) in (0..).zip(chip.loads) {
                nand.program(row, load, &page);
            }
            for (row, read) in (0..chip.loads.len() as u32).cycle().zip(chip.reads) {
                let mode: Mode = read.0.parse().unwrap();
                nand.configure(chip, mode, cycles(read), read.3 != 0);
                let dtr = mode.addr.dtr || mode.data.dtr;
                // A DTR read without its own limit would use the limit of the chip.
                let max = if dtr { spec.dtr_hz } else { spec.sdr_hz };
                let found = nand.read_back(row, read, max as u32, spec.geometry.page_bytes);
                assert!(found == page, "{name}: {} {:02X}h reads other bytes", read.0, read.1);
            }
        }
    }
}

/// Every read of a part is known to Linux, except reads in 8D-8D-8D and continuous reads.
#[test]
fn every_read_of_a_spi_nand_is_one_of_linux() {
    for chip in CHIPS {
        for name in chip.parts {
            for variant in spec(name).reads.iter().filter(|v| !v.mode.is_stateful()) {
                let same = |read: &&Read| {
                    let limit_hz = u64::from(read.3) * 1_000_000;
                    read.0.parse::<Mode>().unwrap() == variant.mode
                        && read.1 == variant.opcode
                        && cycles(read) == variant.dummy
                        && (variant.max_hz == limit_hz || limit_hz == 0)
                };
                assert!(chip.reads.iter().any(|read| same(&read)), "{name}: {variant:?}");
            }
        }
    }
}

#[test]
fn every_spi_nand_is_in_a_table() {
    let mut known: Vec<&str> = CHIPS.iter().flat_map(|chip| chip.parts).copied().collect();
    known.sort_unstable();
    assert_eq!(known, parts("spi-nand"));
}
