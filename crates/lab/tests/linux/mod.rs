//! Runs Linux's own initialisation sequences, register by register, on every simulated chip that Linux supports.
//!
//! The tables contain facts from the drivers of Linux: spi-nand (`core.c` and the makers' files, 6.12 to 7.0), spi-nor
//! (`core.c`, `sfdp.c` and the makers' files, 6.12), raw NAND (`nand_base.c`, `nand_onfi.c` and the makers' files,
//! 6.12). They repeat values of the part files intentionally. A part whose registers, opcodes or dummy cycles disagree
//! with Linux fails here. A part that is in no table fails, too.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panic")]

mod raw_nand;
mod spi_nand;
mod spi_nor;

use floatgate_config::{Kind, Library};
use floatgate_device::spi::{Data, SpiChip, SpiOp};
use floatgate_device::violation::Violation;
use floatgate_mtd::Instant;

/// Names of all parts of a kind.
fn parts(kind: &str) -> Vec<String> {
    let library = Library::built_in();
    let is = |name: &&str| {
        let part = library.load(Kind::Part, name).unwrap();
        part.head.get("kind").and_then(|kind| kind.as_text()) == Some(kind)
    };
    library.names(Kind::Part).filter(is).map(str::to_owned).collect()
}

/// A SPI chip without controller: operations take no bus time, at any clock.
struct Bench<C> {
    chip: C,
    now: Instant,
    /// Name of the part, for messages.
    name: String,
}

impl<C: SpiChip> Bench<C> {
    fn new(name: &str, chip: C) -> Self {
        Self { chip, now: Instant::ZERO, name: name.to_owned() }
    }

    /// Waits until the chip is ready, and runs an operation.
    fn try_at(&mut self, hz: u32, op: &SpiOp, data: Data<'_>) -> Result<(), Violation> {
        self.now = self.now.max(self.chip.busy_until());
        self.chip.exec(self.now, self.now, hz, op, data)
    }

    fn run_at(&mut self, hz: u32, op: &SpiOp, data: Data<'_>) {
        let run = self.try_at(hz, op, data);
        let SpiOp { opcode, mode, addr, .. } = op;
        assert_eq!(run, Ok(()), "{}: {mode} {opcode:02X}h {addr:X}h at {hz} Hz", self.name);
    }

    /// Runs an operation at a clock that every chip supports.
    fn run(&mut self, op: &SpiOp, data: Data<'_>) {
        self.run_at(1_000_000, op, data);
    }

    fn command(&mut self, opcode: u8) {
        self.run(&SpiOp::command(opcode), Data::None);
    }
}
