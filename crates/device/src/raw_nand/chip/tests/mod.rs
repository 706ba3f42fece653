//! Tests of the command set, cycle by cycle.

mod cells;
mod legal;
mod mlc;
mod random;
mod refused;

use super::{ChipOptions, RawNand};
use crate::cells::CellsProfile;
use crate::raw_nand::bus::{Address, NandChip};
use crate::raw_nand::spec::RawNandSpec;
use crate::raw_nand::timing::DataInterface;
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

/// A host that observes every delay, unless configured otherwise.
pub(super) struct Bench {
    pub(super) chip: RawNand,
    pub(super) now: Instant,
    pub(super) interface: DataInterface,
}

type Outcome = Result<(), Violation>;

impl Bench {
    /// A chip that has been reset.
    pub(super) fn new(spec: &RawNandSpec) -> Self {
        Self::with_cells(spec, CellsProfile::default())
    }

    pub(super) fn with_cells(spec: &RawNandSpec, cells: CellsProfile) -> Self {
        let mut bench = Self::asleep(spec);
        let options = ChipOptions { cells, ..ChipOptions::default() };
        bench.chip = RawNand::package(spec, options).unwrap().remove(0);
        bench.cmd(0xFF).unwrap();
        bench.wait();
        bench
    }

    /// A chip directly after power-on.
    pub(super) fn asleep(spec: &RawNandSpec) -> Self {
        let chip = RawNand::package(spec, ChipOptions::default()).unwrap().remove(0);
        Self { chip, now: Instant::ZERO, interface: DataInterface::POWER_ON }
    }

    /// Advances time by more than every delay of the bus, but less than any operation of the array.
    fn step(&mut self) -> Instant {
        self.now += Nanos::from_ns(600);
        self.now
    }

    pub(super) fn cmd(&mut self, opcode: u8) -> Outcome {
        let at = self.step();
        self.chip.command(at, self.interface, opcode)
    }

    pub(super) fn addr(&mut self, bytes: &[u8]) -> Outcome {
        let at = self.step();
        self.chip.address(at, self.interface, bytes)
    }

    /// Sends column and row, with the number of cycles that the chip uses.
    pub(super) fn at(&mut self, column: u32, row: u32) -> Outcome {
        let columns = self.chip.spec().geometry.column_cycles();
        let address = Address::new(column, columns, row, self.chip.map.cycles());
        self.addr(address.bytes())
    }

    pub(super) fn row(&mut self, row: u32) -> Outcome {
        let address = Address::new(0, 0, row, self.chip.map.cycles());
        self.addr(address.bytes())
    }

    /// Waits for R/B# and returns the busy time.
    pub(super) fn wait(&mut self) -> Nanos {
        let busy = self.chip.ready_at().since(self.now);
        self.now = self.now.max(self.chip.ready_at()) + Nanos::from_ns(100);
        busy
    }

    pub(super) fn get(&mut self, len: usize) -> Result<Vec<u8>, Violation> {
        let at = self.step();
        let mut out = vec![0x5A; len];
        self.chip.data_out(at, self.interface, &mut out)?;
        Ok(out)
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Outcome {
        let at = self.step();
        self.chip.data_in(at, self.interface, bytes)
    }

    pub(super) fn status(&mut self) -> u8 {
        self.cmd(0x70).unwrap();
        self.get(1).unwrap()[0]
    }

    pub(super) fn read(&mut self, column: u32, row: u32, len: usize) -> Result<Vec<u8>, Violation> {
        self.cmd(0x00)?;
        self.at(column, row)?;
        if !self.chip.spec().geometry.small_page() {
            self.cmd(0x30)?;
        }
        self.wait();
        self.get(len)
    }

    pub(super) fn load(&mut self, column: u32, row: u32, bytes: &[u8]) -> Outcome {
        self.cmd(0x80)?;
        self.at(column, row)?;
        self.put(bytes)
    }

    pub(super) fn program(&mut self, column: u32, row: u32, bytes: &[u8]) -> Outcome {
        self.load(column, row, bytes)?;
        self.cmd(0x10)?;
        self.wait();
        Ok(())
    }

    pub(super) fn erase(&mut self, row: u32) -> Outcome {
        self.cmd(0x60)?;
        self.row(row)?;
        self.cmd(0xD0)?;
        self.wait();
        Ok(())
    }

    pub(super) fn set_feature(&mut self, feature: u8, first: u8) -> Outcome {
        self.cmd(0xEF)?;
        self.addr(&[feature])?;
        self.put(&[first, 0, 0, 0])?;
        self.wait();
        Ok(())
    }

    pub(super) fn get_feature(&mut self, feature: u8) -> Result<u8, Violation> {
        self.cmd(0xEE)?;
        self.addr(&[feature])?;
        self.wait();
        Ok(self.get(4)?[0])
    }
}
