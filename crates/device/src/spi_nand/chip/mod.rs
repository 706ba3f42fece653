//! The simulated SPI NAND chip, which executes operations.
//!
//! It is stricter than silicon, in addition to the rules in [`crate::Violation`]:
//!
//! - any block protect bit locks the whole array (real chips lock parts of it);
//! - a page below the last programmed one of its block must have been programmed before (partial programming);
//! - reads and program executes are rejected if nothing was loaded into the cache;
//! - a continuous read may not pass the end of its block, nor be faster than the array.
//!
//! These mistakes have physical consequences instead of errors:
//!
//! - a wrong plane-select bit accesses the other plane's cache;
//! - an erase of a factory bad block destroys its marker;
//! - a reset during a program or an erase has the same effect as a power loss.

mod die;
mod otp;
mod page;
mod registers;
mod shape;
mod work;
mod wrong;

use super::command as c;
use super::spec::SpiNandSpec;
use crate::array::Array;
use crate::cells::{Cells, CellsProfile};
use crate::oracle::{BlockFaults, Faults, Oracle, PageTruth};
use crate::spi::{Data, Mode, ReadAhead, ReadOn, SpiChip, SpiOp};
use crate::violation::Violation;
use die::Die;
use floatgate_mtd::Instant;
use floatgate_mtd::random::Random;
use std::collections::BTreeSet;
use std::sync::Arc;
pub use work::{ArrayTask, ArrayWork};
use wrong::PageCode;

/// State in which a chip leaves the factory, and options of the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChipOptions {
    /// Seed of the unique id, the positions of bad blocks, and the variation of blocks and bits.
    pub seed: u64,
    /// True to store data; false for timing-only mode.
    pub stores: bool,
    /// Number of factory bad blocks in the whole chip; block 0 is never bad.
    pub bad_blocks: u32,
    /// Simulated effects and history of the cells.
    pub cells: CellsProfile,
}

/// A simulated SPI NAND.
#[derive(Clone, Debug)]
pub struct SpiNand {
    spec: Arc<SpiNandSpec>,
    dies: Vec<Die>,
    /// Code of the on-die ECC engine, if there is one.
    code: Option<PageCode>,
    /// Index of the selected die.
    active: usize,
    /// True if the volatile configuration registers select 8D-8D-8D.
    octal: bool,
    /// Number of dummy cycles of reads on eight data lanes.
    octal_dummy: u8,
    /// True if RESET ENABLE was the last command.
    reset_armed: bool,
    /// The read from cache that was checked last, valid until a register changes.
    checked: Option<Checked>,
    /// Start of the last continuous read, and the array reads during it.
    streamed: Option<(Instant, ReadAhead)>,
    /// Faults of blocks, numbered over all dies.
    faults: BlockFaults,
}

/// State other than registers that determines if a read from cache is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Checked {
    opcode: u8,
    mode: Mode,
    addr_bytes: u8,
    dummy_cycles: u8,
    hz: u32,
}

/// An operation with its time and clock.
#[derive(Clone, Copy)]
struct Call<'a> {
    start: Instant,
    end: Instant,
    hz: u32,
    op: &'a SpiOp,
}

impl SpiNand {
    /// A new chip from the factory, after power-on.
    pub fn new(spec: Arc<SpiNandSpec>, options: ChipOptions) -> Self {
        let mut dies: Vec<Die> =
            (0..spec.selectable_dies()).map(|index| Die::new(&spec, options, index)).collect();
        for block in factory_bad_blocks(&spec, options) {
            let per_die = spec.blocks_per_die();
            if let Some(die) = dies.get_mut((block / per_die) as usize) {
                die.mark_factory_bad(block % per_die);
            }
        }
        let code = spec.ecc.on_die.then(|| PageCode::new(spec.ecc.requirement(), &spec.geometry));
        let mut chip = Self {
            spec,
            code,
            dies,
            active: 0,
            octal: false,
            octal_dummy: 0,
            reset_armed: false,
            checked: None,
            streamed: None,
            faults: BlockFaults::default(),
        };
        chip.power_up();
        chip
    }

    /// Specification of the chip.
    pub fn spec(&self) -> &Arc<SpiNandSpec> {
        &self.spec
    }

    /// Last or running operation of a die's array.
    pub fn last_work(&self, die: usize) -> Option<ArrayWork> {
        self.dies.get(die).map(|d| *d.work())
    }

    /// Simulates a loss of charge: these bits of page `page` read wrong unless read retry mode `cured_by` is
    /// set.
    pub fn leak(&mut self, page: u32, bits: &[u32], cured_by: u8) {
        if let Some((die, row)) = self.locate(page) {
            die.leak(row, bits, cured_by);
        }
    }

    /// Die and row of a page number over the whole chip.
    fn locate(&mut self, page: u32) -> Option<(&mut Die, usize)> {
        let per_die = self.spec.blocks_per_die() * self.spec.geometry.pages_per_block;
        let die = self.dies.get_mut((page / per_die) as usize)?;
        Some((die, (page % per_die) as usize))
    }

    #[inline]
    fn die(&mut self) -> &mut Die {
        // The value of `active` was checked when it was set.
        let last = self.dies.len() - 1;
        &mut self.dies[self.active.min(last)]
    }

    fn power_up(&mut self) {
        self.checked = None;
        self.octal = false;
        self.octal_dummy = self.spec.octal.as_ref().map_or(0, |o| o.dummy_default);
        self.active = 0;
        for die in &mut self.dies {
            die.power_up(&self.spec);
        }
    }

    fn execute(&mut self, call: Call<'_>, data: Data<'_>) -> Result<(), Violation> {
        self.dies[self.active].catch_up(call.end);
        let armed = std::mem::take(&mut self.reset_armed);
        match (self.canonical(call.op.opcode), data) {
            (c::GET_FEATURE, Data::In(buf)) => self.get_feature(call, buf),
            (c::PAGE_READ, Data::None) => self.page_read(call),
            (c::WRITE_ENABLE, Data::None) => self.write_enable(call, true),
            (c::WRITE_DISABLE, Data::None) => self.write_enable(call, false),
            (c::PROGRAM_EXECUTE, Data::None) => self.program_execute(call),
            (c::BLOCK_ERASE, Data::None) => self.block_erase(call),
            (c::SET_FEATURE, Data::Out(buf)) => self.set_feature(call, buf),
            (c::READ_ID, Data::In(buf)) => self.read_id(call, buf),
            (c::RESET, Data::None) => self.reset(call),
            (c::RESET_ENABLE, Data::None) if self.spec.quirks.reset_66_99 => self.arm_reset(call),
            (c::RESET_DEVICE, Data::None) if self.spec.quirks.reset_66_99 => self.reset_device(call, armed),
            (c::WRITE_VCR, Data::Out(buf)) if self.spec.octal.is_some() => self.write_vcr(call, buf),
            (c::DIE_SELECT, Data::Out(&[die])) if self.spec.quirks.die_select => self.select_die(call, die),
            (c::READ_ECC_STATUS, Data::In(buf)) if self.has_ecc_status_command() => {
                self.read_ecc_status(call, buf)
            }
            (_, Data::In(buf)) => self.read_from_cache(call, buf),
            (_, Data::Out(buf)) => self.program_load(call, buf),
            (opcode, Data::None) => Err(self.unknown(opcode)),
        }
    }
}

impl PageTruth for SpiNand {
    #[inline]
    fn wrong_bits(&self) -> Option<&[u32]> {
        Some(self.dies[self.active].wrong_bits())
    }

    fn is_as_programmed(&self) -> bool {
        self.dies[self.active].is_as_programmed()
    }

    fn is_erased(&self) -> bool {
        self.dies[self.active].is_erased()
    }

    #[inline]
    fn keeps_data(&self) -> bool {
        self.dies[self.active].array.stores()
    }
}

impl Oracle for SpiNand {
    fn array(&self, part: usize) -> Option<&Array> {
        self.dies.get(part).map(|die| &die.array)
    }

    fn array_mut(&mut self, part: usize) -> Option<&mut Array> {
        let die = self.dies.get_mut(part)?;
        die.fill_lazy_caches();
        Some(&mut die.array)
    }

    fn cells(&self, part: usize) -> Option<&Cells> {
        self.dies.get(part).map(|die| &die.cells)
    }

    fn cells_mut(&mut self, part: usize) -> Option<&mut Cells> {
        self.dies.get_mut(part).map(|die| &mut die.cells)
    }

    /// Factory bad blocks whose marker has not been erased.
    fn factory_bad(&self) -> Vec<u32> {
        let per_die = self.spec.blocks_per_die();
        (0..).zip(&self.dies).flat_map(|(i, die)| die.factory_bad().map(move |b| i * per_die + b)).collect()
    }

    fn set_faults(&mut self, addr: u64, faults: Faults) {
        self.faults.set((addr / u64::from(self.spec.geometry.block_bytes())) as u32, faults);
    }
}

impl SpiChip for SpiNand {
    #[inline]
    fn exec(
        &mut self,
        start: Instant,
        end: Instant,
        hz: u32,
        op: &SpiOp,
        data: Data<'_>,
    ) -> Result<(), Violation> {
        self.execute(Call { start, end, hz, op }, data)
    }

    fn shapes(&self, opcode: u8) -> Vec<crate::spi::CommandShape> {
        self.command_shapes(opcode)
    }

    fn read_on(&self, op: &SpiOp) -> ReadOn {
        self.reads_on(op)
    }

    fn takes_row_in_command(&self, opcode: u8) -> bool {
        self.packs_row_of(opcode)
    }

    #[inline]
    fn busy_until(&self) -> Instant {
        self.dies[self.active].work().end
    }

    #[inline]
    fn busy_since(&self) -> Instant {
        self.dies[self.active].work().start
    }

    fn busy_die(&self) -> u8 {
        self.active as u8
    }

    fn command_name(&self, op: &SpiOp) -> &'static str {
        super::command::name(op)
    }

    fn busy_what(&self) -> &'static str {
        self.dies[self.active].work().task.time_name()
    }

    fn read_ahead(&self, start: Instant) -> Option<ReadAhead> {
        self.streamed.filter(|(began, _)| *began == start).map(|(_, ahead)| ahead)
    }

    fn stay_busy(&mut self, until: Instant) {
        self.die().stay_busy(until);
    }

    fn enable_quad(&mut self) {
        self.checked = None;
        self.dies.iter_mut().for_each(Die::enable_quad);
    }

    fn reset_pin(&mut self, at: Instant) {
        let length = self.spec.timing.t_rst_us;
        self.power_up();
        self.dies.iter_mut().for_each(|die| die.abort(at, length));
    }
}

/// Distinct block numbers derived from the seed.
fn factory_bad_blocks(spec: &SpiNandSpec, options: ChipOptions) -> BTreeSet<u32> {
    let blocks = spec.geometry.blocks();
    let wanted = options.bad_blocks.min(blocks.saturating_sub(1)) as usize;
    let mut random = Random::new(options.seed ^ 0xBAD_B10C);
    let mut bad = BTreeSet::new();
    while bad.len() < wanted {
        bad.insert(1 + (random.bits() % u64::from(blocks - 1)) as u32);
    }
    bad
}
