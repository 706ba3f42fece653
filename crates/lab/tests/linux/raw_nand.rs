//! Raw NAND: `nand_detect`, `nand_setup_interface`, the registers that the makers' `init` writes, then a program, a
//! read and an erase.

use super::parts;
use floatgate_config::{Kind, Library};
use floatgate_device::raw_nand::{ChipOptions, DataInterface, NandChip, RawNand, RawNandSpec};
use floatgate_mtd::{Instant, Nanos};

/// Time that exceeds all times between two cycles in data sheets.
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
        // The time is 100 ns per byte.
        self.now += Nanos::from_us(len as u64);
        bytes
    }

    fn write(&mut self, bytes: &[u8]) {
        let run = self.chip.data_in(self.now, DataInterface::POWER_ON, bytes);
        assert_eq!(run, Ok(()), "{}: {} bytes", self.name, bytes.len());
        self.now += Nanos::from_us(bytes.len() as u64);
    }

    /// Linux: `nand_readid_op`.
    fn id(&mut self, address: u8, len: usize) -> Vec<u8> {
        self.command(0x90);
        self.address(&[address]);
        self.read(len)
    }

    /// Linux: `nand_set_features`.
    fn set_feature(&mut self, feature: u8, value: u8) {
        self.command(0xEF);
        self.address(&[feature]);
        self.write(&[value, 0, 0, 0]);
        self.wait();
    }

    /// Linux: `nand_get_features`.
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

    /// Linux: `nand_reset` and `nand_detect`, which read the id twice, then both parameter pages.
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

    /// Writes the registers of the maker's `init`, on chips whose parameter page states that features can be set.
    fn maker_init(&mut self, spec: &RawNandSpec) {
        const MICRON: u8 = 0x2C;
        const MACRONIX: u8 = 0xC2;
        match spec.id[0] {
            // Linux: `micron_supports_on_die_ecc` enables on-die ECC, reads the id, and disables it.
            MICRON if spec.geometry.bits_per_cell == 1 && spec.id.get(4).is_some_and(|id| id & 3 == 2) => {
                self.set_feature(MICRON_ON_DIE_ECC, 1 << 3);
                self.id(0, 5);
                self.set_feature(MICRON_ON_DIE_ECC, 0);
                self.id(0, 5);
            }
            MACRONIX => {
                // The value is 38h if the PT pin is high; only then does Linux offer locks.
                self.feature(MACRONIX_PROTECTION);
                if spec.read_retry.is_some() {
                    self.set_feature(ONFI_READ_RETRY, 0);
                }
                self.set_feature(MACRONIX_PROTECTION, 0);
            }
            _ => {}
        }
    }

    /// Linux: `nand_setup_interface` sets the fastest mode, and reads back whether the chip accepted it.
    fn choose_timing(&mut self, spec: &RawNandSpec) {
        self.set_feature(ONFI_TIMING_MODE, 0);
        assert_eq!(self.feature(ONFI_TIMING_MODE), 0, "{}", self.name);
        assert!(spec.features.get && spec.features.set, "{}", self.name);
    }

    /// Column and row address of a page's first byte, with the number of cycles that Linux sends.
    fn place(spec: &RawNandSpec, row: u32) -> Vec<u8> {
        let g = &spec.geometry;
        let target_bytes =
            u64::from(g.page_bytes) * u64::from(g.pages_per_block) * u64::from(g.blocks_per_target());
        // NAND_ROW_ADDR_3: more than 32 MiB with small pages, more than 128 MiB with large pages.
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
        // Linux follows the parameter page: it never sends SET FEATURES to a chip that does not advertise it.
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
        // One or two wrong bits come from the cells, not from the commands; measured cells may have more.
        let wrong: u32 = found.iter().zip(&data).map(|(a, b)| (a ^ b).count_ones()).sum();
        let bits = f64::from(spec.geometry.full_page() * 8);
        let usual = spec.errors.map_or(0.0, |errors| 2.0 * errors.floor * bits);
        assert!(f64::from(wrong) < 3.0 + usual, "{name}: {wrong} wrong bits");
    }
}
