//! Raw NAND: `nand_detect`, `nand_setup_interface`, what the makers' `init` writes, then a program, a read and an erase.

use super::parts;
use floatgate_config::{Kind, Library};
use floatgate_device::raw_nand::{ChipOptions, DataInterface, NandChip, RawNand, RawNandSpec};
use floatgate_mtd::{Instant, Nanos};

/// Longer than any time between two cycles that a data sheet asks for.
const GAP: Nanos = Nanos::from_us(2);

const ONFI_TIMING_MODE: u8 = 0x01;
const ONFI_READ_RETRY: u8 = 0x89;
const MICRON_ON_DIE_ECC: u8 = 0x90;
const MACRONIX_PROTECTION: u8 = 0xA0;

/// One target on a bus in timing mode 0, without controller.
struct Bench {
    chip: RawNand,
    now: Instant,
    name: String,
}

fn spec(name: &str) -> RawNandSpec {
    Library::built_in().load(Kind::Part, name).unwrap().table.extract("").unwrap()
}

impl Bench {
    fn new(name: &str) -> Self {
        let options = ChipOptions { stores: true, ..ChipOptions::default() };
        let chip = RawNand::package(&spec(name), options).unwrap().remove(0);
        Self { chip, now: Instant::ZERO, name: name.to_owned() }
    }

    fn wait(&mut self) {
        self.now = (self.now + GAP).max(self.chip.ready_at()) + GAP;
    }

    fn command(&mut self, opcode: u8) {
        self.now += GAP;
        let run = self.chip.command(self.now, DataInterface::POWER_ON, opcode);
        assert_eq!(run, Ok(()), "{}: command {opcode:02X}h", self.name);
    }

    fn address(&mut self, bytes: &[u8]) {
        self.now += GAP;
        let run = self.chip.address(self.now, DataInterface::POWER_ON, bytes);
        assert_eq!(run, Ok(()), "{}: address {bytes:02X?}", self.name);
        self.now += GAP;
    }

    fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let run = self.chip.data_out(self.now, DataInterface::POWER_ON, &mut bytes);
        assert_eq!(run, Ok(()), "{}: {len} bytes", self.name);
        // At 100 ns a byte.
        self.now += Nanos::from_us(len as u64);
        bytes
    }

    fn write(&mut self, bytes: &[u8]) {
        let run = self.chip.data_in(self.now, DataInterface::POWER_ON, bytes);
        assert_eq!(run, Ok(()), "{}: {} bytes", self.name, bytes.len());
        self.now += Nanos::from_us(bytes.len() as u64);
    }

    /// `nand_readid_op`
    fn id(&mut self, address: u8, len: usize) -> Vec<u8> {
        self.command(0x90);
        self.address(&[address]);
        self.read(len)
    }

    /// `nand_set_features`
    fn set_feature(&mut self, feature: u8, value: u8) {
        self.command(0xEF);
        self.address(&[feature]);
        self.write(&[value, 0, 0, 0]);
        self.wait();
    }

    /// `nand_get_features`
    fn feature(&mut self, feature: u8) -> u8 {
        self.command(0xEE);
        self.address(&[feature]);
        self.wait();
        self.read(4)[0]
    }

    fn status(&mut self) -> u8 {
        self.command(0x70);
        self.now += GAP;
        self.read(1)[0]
    }

    /// `nand_reset`, `nand_detect`: the id twice, then both parameter pages.
    fn detect(&mut self, spec: &RawNandSpec) {
        self.command(0xFF);
        self.wait();
        assert_eq!(self.id(0, 2), spec.id[..2], "{}", self.name);
        let id = self.id(0, 8);
        assert!(id.starts_with(&spec.id), "{}: {id:02X?}", self.name);
        assert_eq!(self.id(0x20, 4) == b"ONFI", spec.onfi.is_some(), "{}", self.name);
        if spec.onfi.is_some() {
            self.command(0xEC);
            self.address(&[0]);
            self.wait();
            assert!(self.read(3 * 256).starts_with(b"ONFI"), "{}", self.name);
        }
        assert_eq!(self.id(0x40, 5) == b"JEDEC", spec.jedec.is_some(), "{}", self.name);
        if spec.jedec.is_some() {
            self.command(0xEC);
            self.address(&[0x40]);
            self.wait();
            assert!(self.read(3 * 512).starts_with(b"JESD"), "{}", self.name);
        }
    }

    /// What the makers' `init` writes into chips whose parameter page says that features can be set.
    fn maker_init(&mut self, spec: &RawNandSpec) {
        const MICRON: u8 = 0x2C;
        const MACRONIX: u8 = 0xC2;
        match spec.id[0] {
            // `micron_supports_on_die_ecc`: enabled, the id read, disabled again.
            MICRON if spec.geometry.bits_per_cell == 1 && spec.id.get(4).is_some_and(|id| id & 3 == 2) => {
                self.set_feature(MICRON_ON_DIE_ECC, 1 << 3);
                self.id(0, 5);
                self.set_feature(MICRON_ON_DIE_ECC, 0);
                self.id(0, 5);
            }
            MACRONIX => {
                // 38h where the PT pin is high; only then Linux offers locks.
                self.feature(MACRONIX_PROTECTION);
                if spec.read_retry.is_some() {
                    self.set_feature(ONFI_READ_RETRY, 0);
                }
                self.set_feature(MACRONIX_PROTECTION, 0);
            }
            _ => {}
        }
    }

    /// `nand_setup_interface`: the fastest mode, and read back whether the chip took it.
    fn choose_timing(&mut self, spec: &RawNandSpec) {
        self.set_feature(ONFI_TIMING_MODE, 0);
        assert_eq!(self.feature(ONFI_TIMING_MODE), 0, "{}", self.name);
        assert!(spec.features.get && spec.features.set, "{}", self.name);
    }

    /// Column and row of a page's first byte, in as many cycles as Linux sends.
    fn place(spec: &RawNandSpec, row: u32) -> Vec<u8> {
        let g = &spec.geometry;
        let target_bytes =
            u64::from(g.page_bytes) * u64::from(g.pages_per_block) * u64::from(g.blocks_per_target());
        // NAND_ROW_ADDR_3: more than 32 MiB of small pages, more than 128 MiB of large ones.
        let small = g.page_bytes <= 512;
        let rows = if target_bytes > if small { 32 << 20 } else { 128 << 20 } { 3 } else { 2 };
        let columns = if small { 1 } else { 2 };
        let mut bytes = vec![0; columns];
        bytes.extend_from_slice(&row.to_le_bytes()[..rows]);
        bytes
    }

    fn program(&mut self, spec: &RawNandSpec, row: u32, data: &[u8]) {
        if spec.geometry.page_bytes <= 512 {
            self.command(0x00);
        }
        self.command(0x80);
        self.address(&Self::place(spec, row));
        self.write(data);
        self.command(0x10);
        self.wait();
        assert_eq!(self.status() & 0x41, 0x40, "{}", self.name);
    }

    fn page(&mut self, spec: &RawNandSpec, row: u32) -> Vec<u8> {
        self.command(0x00);
        self.address(&Self::place(spec, row));
        if spec.geometry.page_bytes > 512 {
            self.command(0x30);
        }
        self.wait();
        self.read(spec.geometry.page_bytes as usize)
    }

    fn erase(&mut self, spec: &RawNandSpec, row: u32) {
        let columns = if spec.geometry.page_bytes <= 512 { 1 } else { 2 };
        self.command(0x60);
        self.address(&Self::place(spec, row)[columns..]);
        self.command(0xD0);
        self.wait();
        assert_eq!(self.status() & 0x41, 0x40, "{}", self.name);
    }
}

#[test]
fn every_raw_nand_takes_what_linux_sends() {
    for name in parts("raw-nand") {
        let spec = spec(&name);
        let mut nand = Bench::new(&name);
        nand.detect(&spec);
        // Only what the parameter page says: chips that do not advertise SET FEATURES are never sent one.
        if spec.onfi.is_some() && spec.features.advertised {
            nand.maker_init(&spec);
            if spec.features.timing_mode {
                nand.choose_timing(&spec);
            }
        }
        let block = spec.geometry.pages_per_block;
        nand.erase(&spec, block);
        let data: Vec<u8> = (0..spec.geometry.full_page()).map(|i| (i * 11) as u8).collect();
        nand.program(&spec, block, &data);
        let found = nand.page(&spec, block);
        // A first error or two are a matter of the cells, not of the commands; cells that were measured may have more.
        let wrong: u32 = found.iter().zip(&data).map(|(a, b)| (a ^ b).count_ones()).sum();
        let bits = f64::from(spec.geometry.full_page() * 8);
        let usual = spec.errors.map_or(0.0, |errors| 2.0 * errors.floor * bits);
        assert!(f64::from(wrong) < 3.0 + usual, "{name}: {wrong} wrong bits");
    }
}
