//! SPI NOR: `spi_nor_init` (quad enable, 4-byte addresses, octal DTR), then each read and program that Linux may
//! choose.

use super::{Bench, parts};
use floatgate_config::{Kind, Library, Source};
use floatgate_device::spi::{CmdExt, Data, Mode, SpiOp};
use floatgate_device::spi_nor::sfdp::{area, learn};
use floatgate_device::spi_nor::{SpiNor, SpiNorSpec};

/// Method by which Linux sets the quad enable bit.
#[derive(Clone, Copy, PartialEq)]
enum Quad {
    /// The chip has no such bit.
    None,
    /// Linux: `spi_nor_sr1_bit6_quad_enable`, one byte after 01h.
    Sr1Bit6,
    /// Linux: `spi_nor_sr2_bit1_quad_enable`, status and configuration register after 01h.
    Sr2Bit1,
}

/// Method by which Linux addresses bytes above 16 MiB.
#[derive(Clone, Copy, PartialEq)]
enum Four {
    /// The chip has no such bytes.
    No,
    /// Commands with 4-byte addresses (`SPI_NOR_4B_OPCODES`, or a 4BAIT).
    Commands,
    /// B7h after a write enable (`wren_en4b_ex4b`), for some chips of Micron.
    ModeWren,
    /// B7h without a write enable (`en4b_ex4b`).
    Mode,
}

struct Chip {
    parts: &'static [&'static str],
    quad: Quad,
    four: &'static [Four],
    /// Mode, opcode with 3-byte addresses, opcode with 4-byte addresses, dummy cycles.
    reads: &'static [(&'static str, u8, u8, u8)],
    programs: &'static [(&'static str, u8, u8)],
    octal: bool,
}

const COMMON: &[(&str, u8, u8, u8)] = &[
    ("1S-1S-1S", 0x03, 0x13, 0),
    ("1S-1S-1S", 0x0B, 0x0C, 8),
    ("1S-1S-2S", 0x3B, 0x3C, 8),
    ("1S-2S-2S", 0xBB, 0xBC, 4),
    ("1S-1S-4S", 0x6B, 0x6C, 8),
    ("1S-4S-4S", 0xEB, 0xEC, 6),
];

const MICRON: &[(&str, u8, u8, u8)] = &[
    ("1S-1S-1S", 0x03, 0x13, 0),
    ("1S-1S-1S", 0x0B, 0x0C, 8),
    ("1S-1S-2S", 0x3B, 0x3C, 8),
    ("1S-2S-2S", 0xBB, 0xBC, 8),
    ("1S-1S-4S", 0x6B, 0x6C, 8),
    ("1S-4S-4S", 0xEB, 0xEC, 10),
];

const QUAD_INPUT: &[(&str, u8, u8)] = &[("1S-1S-1S", 0x02, 0x12), ("1S-1S-4S", 0x32, 0x34)];
const QUAD_IO: &[(&str, u8, u8)] = &[("1S-1S-1S", 0x02, 0x12), ("1S-4S-4S", 0x38, 0x3E)];

const CHIPS: &[Chip] = &[
    Chip {
        parts: &["w25q64jv", "w25q128jv", "gd25q128e", "gd25lq128", "s25fl128s"],
        quad: Quad::Sr2Bit1,
        four: &[Four::No],
        reads: COMMON,
        programs: QUAD_INPUT,
        octal: false,
    },
    Chip {
        parts: &["w25q256jv", "w25q512jv"],
        quad: Quad::Sr2Bit1,
        four: &[Four::Commands, Four::Mode],
        reads: COMMON,
        programs: QUAD_INPUT,
        octal: false,
    },
    Chip {
        parts: &["is25lp128"],
        quad: Quad::Sr1Bit6,
        four: &[Four::No],
        reads: COMMON,
        programs: QUAD_INPUT,
        octal: false,
    },
    Chip {
        parts: &["is25lp256"],
        quad: Quad::Sr1Bit6,
        four: &[Four::Commands],
        reads: COMMON,
        programs: QUAD_INPUT,
        octal: false,
    },
    Chip {
        parts: &["mx25l12835f"],
        quad: Quad::Sr1Bit6,
        four: &[Four::No],
        reads: COMMON,
        programs: QUAD_IO,
        octal: false,
    },
    Chip {
        parts: &["mx25l25645g", "mx66l51235f"],
        quad: Quad::Sr1Bit6,
        four: &[Four::Commands, Four::Mode],
        reads: COMMON,
        programs: QUAD_IO,
        octal: false,
    },
    Chip {
        parts: &["n25q128a", "mt25ql128aba"],
        quad: Quad::None,
        four: &[Four::No],
        reads: MICRON,
        programs: QUAD_INPUT,
        octal: false,
    },
    Chip {
        parts: &["mt25qu512abb"],
        quad: Quad::None,
        four: &[Four::Commands, Four::ModeWren],
        reads: MICRON,
        programs: QUAD_INPUT,
        octal: false,
    },
    Chip {
        parts: &["mx25uw12845g", "mx25uw51245g"],
        quad: Quad::None,
        four: &[Four::Commands],
        reads: &[("1S-1S-1S", 0x03, 0x13, 0), ("1S-1S-1S", 0x0B, 0x0C, 8)],
        programs: &[("1S-1S-1S", 0x02, 0x12)],
        octal: true,
    },
];

type Nor = Bench<SpiNor>;

fn spec(name: &str) -> SpiNorSpec {
    Library::built_in().load(Kind::Part, name).unwrap().table.extract("").unwrap()
}

fn fresh(name: &str) -> Nor {
    Bench::new(name, SpiNor::new(spec(name), 0, true).unwrap())
}

impl Nor {
    fn register(&mut self, opcode: u8) -> u8 {
        let mut value = [0];
        self.run(&SpiOp::command(opcode).read(1), Data::In(&mut value));
        value[0]
    }

    fn write(&mut self, opcode: u8, bytes: &[u8]) {
        self.command(0x06);
        self.run(&SpiOp::command(opcode).write(bytes.len() as u32), Data::Out(bytes));
    }

    /// Linux: `quad_enable` reads the register, writes it, and reads it again to verify.
    fn quad_enable(&mut self, quad: Quad) {
        match quad {
            Quad::None => {}
            Quad::Sr1Bit6 => {
                let status = self.register(0x05);
                self.write(0x01, &[status | 1 << 6]);
                assert_eq!(self.register(0x05), status | 1 << 6, "{}", self.name);
            }
            Quad::Sr2Bit1 => {
                let (status, config) = (self.register(0x05), self.register(0x35));
                self.write(0x01, &[status, config | 1 << 1]);
                assert_eq!(self.register(0x35), config | 1 << 1, "{}", self.name);
            }
        }
    }

    /// Linux: `set_4byte_addr_mode`.
    fn enter_4b(&mut self, four: Four) {
        if four == Four::ModeWren {
            self.command(0x06);
        }
        if matches!(four, Four::Mode | Four::ModeWren) {
            self.command(0xB7);
        }
        if four == Four::ModeWren {
            self.command(0x04);
        }
    }

    fn transfers(&mut self, chip: &Chip, four: Four) {
        let bytes = if four == Four::No { 3 } else { 4 };
        let opcode = |three: u8, other: u8| if four == Four::Commands { other } else { three };
        let data: Vec<u8> = (0..=255).collect();
        for (at, &(mode, three, other)) in (0..).zip(chip.programs) {
            self.command(0x06);
            let op = SpiOp::command(opcode(three, other)).mode(mode.parse().unwrap()).address(at << 8, bytes);
            self.run(&op.write(256), Data::Out(&data));
        }
        for (at, &(mode, three, other, dummy)) in (0..chip.programs.len() as u32).cycle().zip(chip.reads) {
            let op = SpiOp::command(opcode(three, other)).mode(mode.parse().unwrap()).address(at << 8, bytes);
            let mut found = vec![0; 256];
            self.run(&op.dummy(dummy).read(256), Data::In(&mut found));
            assert!(found == data, "{}: {mode} reads other bytes", self.name);
        }
    }
}

#[test]
fn every_spi_nor_takes_what_linux_sends() {
    for chip in CHIPS {
        for (name, &four) in chip.parts.iter().flat_map(|name| chip.four.iter().map(move |four| (name, four)))
        {
            let mut nor = fresh(name);
            let mut id = vec![0; spec(name).id.len()];
            nor.run(&SpiOp::command(0x9F).read(id.len() as u32), Data::In(&mut id));
            assert_eq!(id, spec(name).id, "{name}");
            nor.quad_enable(chip.quad);
            nor.enter_4b(four);
            nor.transfers(chip, four);
        }
    }
}

/// Linux: `macronix_nor_octal_dtr_en` sets 20 dummy cycles and the mode, and reads the id back. A read and a program in
/// 8D-8D-8D follow.
#[test]
fn octal_nors_switch_as_linux_does() {
    for name in CHIPS.iter().filter(|chip| chip.octal).flat_map(|chip| chip.parts) {
        let mut nor = fresh(name);
        for (register, value) in [(0x300, 0x00), (0, 0x02)] {
            nor.command(0x06);
            nor.run(&SpiOp::command(0x72).address(register, 4).write(1), Data::Out(&[value]));
        }
        // The second byte of a command is its inverse.
        let octal = |opcode| SpiOp { ext: CmdExt::Invert, ..SpiOp::command(opcode).mode(Mode::OCTAL_DTR) };
        let mut id = [0; 6];
        nor.run(&octal(0x9F).address(0, 4).dummy(4).read(6), Data::In(&mut id));
        let twice: Vec<u8> = spec(name).id.iter().flat_map(|&byte| [byte, byte]).collect();
        assert_eq!(id, twice[..], "{name}");
        let data: Vec<u8> = (0..=255).rev().collect();
        nor.run(&octal(0x06), Data::None);
        nor.run(&octal(0x12).address(0, 4).write(256), Data::Out(&data));
        let mut found = vec![0; 256];
        nor.run_at(200_000_000, &octal(0xEE).address(0, 4).dummy(20).read(256), Data::In(&mut found));
        assert!(found == data, "{name}");
    }
}

/// The SFDP areas of real chips agree with the catalogue.
#[test]
fn real_sfdp_areas_agree_with_the_catalogue() {
    let mut seen = 0;
    for (name, profile) in [
        ("w25q128jv", ""),
        ("w25q512jv", ""),
        ("mx25uw12845g", ""),
        ("mx25l25645g", ", profile = 'mx25l25635e'"),
        ("mx25l25645g", ", profile = 'mx25l25635f'"),
    ] {
        let library = Library::built_in();
        let text = format!("chip = {{ base = '{name}'{profile} }}");
        let setup = library.setup_from(&Source::text("sfdp", &text)).unwrap();
        let spec: SpiNorSpec = library.resolve(&setup, &[]).unwrap().extract("chip").unwrap();
        assert!(!spec.sfdp_bytes.is_empty(), "{name}{profile}");
        let told = learn(&area(&spec).unwrap(), &spec.id).unwrap();
        assert_eq!(told.geometry.size_bytes, spec.geometry.size_bytes, "{name}{profile}");
        assert_eq!(told.geometry.page_bytes, spec.geometry.page_bytes, "{name}{profile}");
        for erase in told.erase.values() {
            let known = spec.erase.values().any(|e| e.bytes == erase.bytes && e.opcode == erase.opcode);
            assert!(known, "{name}{profile}: {erase:?}");
        }
        for read in told.reads.iter().filter(|read| read.mode != Mode::SINGLE) {
            let known = spec
                .reads
                .iter()
                .any(|r| (r.mode, r.opcode, r.dummy) == (read.mode, read.opcode, read.dummy));
            assert!(known, "{name}{profile}: {read:?}");
            seen += 1;
        }
        // The chip returns exactly these bytes.
        let mut nor = Bench::new(name, SpiNor::new(spec.clone(), 0, false).unwrap());
        let mut bytes = vec![0; area(&spec).unwrap().len()];
        let op = SpiOp::command(0x5A).address(0, 3).dummy(8).read(bytes.len() as u32);
        nor.run(&op, Data::In(&mut bytes));
        assert!(bytes == area(&spec).unwrap(), "{name}{profile}");
    }
    assert!(seen >= 12, "{seen} reads");
}

#[test]
fn every_spi_nor_is_in_a_table() {
    let mut known: Vec<&str> = CHIPS.iter().flat_map(|chip| chip.parts).copied().collect();
    known.sort_unstable();
    assert_eq!(known, parts("spi-nor"));
}
