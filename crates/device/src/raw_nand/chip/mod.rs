//! The simulated raw NAND chip: one target, with everything behind its CE#.
//!
//! The model is stricter than silicon. A cycle that violates a rule is rejected with a [`Violation`] and ends its
//! command sequence; the other state is unchanged. Real chips do not check these rules:
//!
//! - the first command after power-on is RESET;
//! - bus cycles are no faster than the current timing mode;
//! - tRR, tWHR, tCCS and tADL are met;
//! - no sequence is left incomplete;
//! - a page is not programmed more often than NOP allows, nor out of order if the order matters.
//!
//! In timing-only mode pages are not stored, so NOP is not checked.

mod cells;
mod command;
mod faults;
mod features;
mod identify;
mod lun;
mod on_die;
mod otp;
mod power;
mod program;
mod read;
mod retry;
#[cfg(test)]
mod tests;

use super::address::{RowAddress, RowMap};
use super::bus::{NandChip, Work};
use super::command as c;
use super::mlc::ProgramTimes;
use super::spec::{RawNandSpec, RetryKind};
use super::timing::DataInterface;
use crate::array::Array;
use crate::cells::{Cells, CellsProfile};
use crate::oracle::{self, Oracle, PageTruth};
use crate::spec::BadSpec;
use crate::violation::Violation;
use command::Step;
use faults::Faults;
use floatgate_mtd::{Instant, Nanos};
use lun::{Lun, Register};
use otp::Otp;
use std::sync::Arc;

/// Options of a simulated package in addition to its specification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChipOptions {
    /// True to store data. Otherwise only time is simulated.
    pub stores: bool,
    /// Seed of all variation between chips.
    pub seed: u64,
    /// Simulated effects and history of the cells.
    pub cells: CellsProfile,
}

impl Default for ChipOptions {
    fn default() -> Self {
        Self { stores: true, seed: 0, cells: CellsProfile::default() }
    }
}

impl ChipOptions {
    /// Options of a chip in timing-only mode.
    pub fn timing_only() -> Self {
        Self { stores: false, ..Self::default() }
    }
}

/// Source of data output cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// Page register of the active LUN.
    Register,
    /// Status of the active LUN.
    Status,
    /// Output of READ ID at this address.
    Id(u8),
    /// Parameter pages at this address.
    ParameterPage(u8),
    /// The unique id of the chip.
    UniqueId,
    /// Parameters of a feature.
    Feature([u8; 4]),
}

/// A simulated raw NAND target.
#[derive(Clone, Debug)]
pub struct RawNand {
    spec: Arc<RawNandSpec>,
    map: RowMap,
    array: Array,
    cells: Cells,
    otp: Otp,
    luns: Vec<Lun>,
    /// Index of the LUN that was addressed last.
    active: usize,
    step: Step,
    /// Command that was received last.
    last_command: Option<u8>,
    /// True if that command, its address or its data were refused.
    last_refused: bool,
    output: Output,
    /// Source of data output that 00h restores after status output.
    resume: Output,
    /// Next byte of all outputs other than the register.
    position: usize,
    /// Next column of the register to output.
    column: usize,
    /// First column, selected by 00h, 01h or 50h (small pages).
    pointer: u32,
    /// Next page to program in each block, if pages must be programmed in order.
    next_page: Vec<u16>,
    program_times: ProgramTimes,
    parameter_pages: Arc<identify::ParameterPages>,
    unique_id: [u8; 16],
    /// Configured data interface; the host's cycles must not be faster.
    interface: DataInterface,
    /// True if RESET was received since power-on.
    awake: bool,
    /// Earliest time of the next data cycle, and the timing parameter that requires it.
    data_from: Instant,
    data_rule: &'static str,
    work: [Option<Work>; 2],
    faults: Faults,
    /// Values of the read retry registers that 16h has not applied yet.
    retry_values: Vec<u8>,
}

impl RawNand {
    /// The targets of a package, erased and not yet reset.
    ///
    /// # Errors
    /// The specification is invalid.
    pub fn package(spec: &RawNandSpec, options: ChipOptions) -> Result<Vec<Self>, BadSpec> {
        spec.check()?;
        let shared = Arc::new(spec.clone());
        let pages = Arc::new(identify::ParameterPages::new(spec)?);
        Ok((0..spec.geometry.targets).map(|target| Self::new(&shared, &pages, target, options)).collect())
    }

    fn new(
        spec: &Arc<RawNandSpec>,
        pages: &Arc<identify::ParameterPages>,
        target: u32,
        options: ChipOptions,
    ) -> Self {
        let stores = options.stores;
        let g = &spec.geometry;
        let map = RowMap::new(g.pages_per_block, g.blocks_per_lun, g.luns);
        let ordered = spec.in_order || g.bits_per_cell > 1;
        let mut chip = Self {
            map,
            array: Array::new(
                g.full_page() as usize,
                g.pages_per_block as usize,
                map.blocks() as usize,
                stores,
            )
            .with_steps(spec.ecc.step_bytes as usize, g.page_bytes as usize)
            .with_sub_pages(spec.sub_pages()),
            cells: cells::new(spec, target, options),
            otp: Otp::new(spec, stores),
            luns: (0..g.luns).map(|_| Lun::new(spec, stores)).collect(),
            active: 0,
            step: Step::Idle,
            last_command: None,
            last_refused: false,
            output: Output::Register,
            resume: Output::Register,
            position: 0,
            column: 0,
            pointer: 0,
            next_page: if ordered { vec![0; map.blocks() as usize] } else { Vec::new() },
            program_times: ProgramTimes::new(
                spec.pairing(g.pages_per_block),
                spec.mlc.as_ref(),
                spec.timing.t_prog_us.typ,
            ),
            parameter_pages: Arc::clone(pages),
            unique_id: identify::unique_id(spec, target),
            interface: DataInterface::POWER_ON,
            awake: false,
            data_from: Instant::ZERO,
            data_rule: "",
            work: [None; 2],
            faults: Faults::new(spec, target),
            retry_values: Vec::new(),
            spec: Arc::clone(spec),
        };
        chip.mark_factory_bad();
        chip
    }

    /// Specification from which the chip was built.
    pub fn spec(&self) -> &RawNandSpec {
        &self.spec
    }

    /// The configured data interface of the chip.
    pub const fn interface(&self) -> DataInterface {
        self.interface
    }

    /// Current read retry mode of a LUN; 0 for normal reads.
    pub fn read_retry_mode(&self, lun: usize) -> u8 {
        let (Some(retry), Some(lun)) = (&self.spec.read_retry, self.luns.get(lun)) else { return 0 };
        match retry.kind {
            RetryKind::Hynix => lun.retry_mode,
            RetryKind::Feature => lun.features.get(retry.feature).map_or(0, |parameters| parameters[0]),
        }
    }

    #[inline]
    fn lun(&self) -> &Lun {
        &self.luns[self.active]
    }

    #[inline]
    fn lun_mut(&mut self) -> &mut Lun {
        &mut self.luns[self.active]
    }

    /// Checks that cycles of `interface` are not too fast.
    #[inline]
    fn check_interface(&self, interface: DataInterface) -> Result<(), Violation> {
        let within = match (interface, self.interface) {
            (DataInterface::Sdr(used), DataInterface::Sdr(set)) => {
                let limit =
                    if self.spec.features.timing_mode { Some(set) } else { self.spec.sdr_modes.fastest() };
                limit.is_some_and(|limit| used <= limit)
            }
            (DataInterface::NvDdr(used), DataInterface::NvDdr(set)) => used <= set,
            _ => false,
        };
        if within {
            Ok(())
        } else {
            Err(Violation::Timing("bus cycles faster than the timing mode in force"))
        }
    }

    /// Makes the active LUN busy for `length`; the work is recorded as one span.
    #[inline]
    fn busy(&mut self, start: Instant, length: Nanos, what: &'static str) {
        let end = start + length;
        let lun = self.lun_mut();
        lun.ready = end;
        lun.array_ready = end;
        self.note_work(what, start, end);
    }

    #[inline]
    fn note_work(&mut self, what: &'static str, start: Instant, end: Instant) {
        let work = Some(Work { lun: self.active as u8, what, start, end });
        if self.work[0].is_none() {
            self.work[0] = work;
        } else {
            self.work[1] = work;
        }
    }

    /// Forbids data cycles before `at`.
    #[inline]
    const fn hold_data(&mut self, at: Instant, rule: &'static str) {
        self.data_from = at;
        self.data_rule = rule;
    }

    /// Ends the current command sequence.
    fn abandon(&mut self) {
        self.step = Step::Idle;
        self.last_refused = true;
        self.lun_mut().drop_queue();
    }

    fn status(&self, at: Instant) -> u8 {
        let lun = self.lun();
        let (ready, idle) = (at >= lun.ready, at >= lun.array_ready);
        let bits = [
            (lun.fail && idle, c::FAIL),
            (lun.fail_before && ready, c::FAIL_BEFORE),
            (lun.rewrite && idle, c::REWRITE),
            (idle, c::ARRAY_READY),
            (ready, c::READY),
            (!self.all_locked(), c::NOT_PROTECTED),
        ];
        bits.iter().fold(0, |status, (is_set, bit)| if *is_set { status | bit } else { status })
    }

    fn plane_of(&self, at: RowAddress) -> u8 {
        // The number of planes is 1, 2 or 4 (`RawNandSpec::check`).
        (at.block & (self.spec.geometry.planes - 1)) as u8
    }
}

impl NandChip for RawNand {
    #[inline]
    fn command(&mut self, at: Instant, interface: DataInterface, opcode: u8) -> Result<(), Violation> {
        self.work = [None; 2];
        let outcome = self.latch_command(at, interface, opcode);
        (self.last_command, self.last_refused) = (Some(opcode), false);
        if outcome.is_err() {
            self.abandon();
        }
        outcome
    }

    #[inline]
    fn address(&mut self, at: Instant, interface: DataInterface, bytes: &[u8]) -> Result<(), Violation> {
        self.work = [None; 2];
        let outcome = self.check_interface(interface).and_then(|()| self.latch_address(at, interface, bytes));
        if outcome.is_err() {
            self.abandon();
        }
        outcome
    }

    #[inline]
    fn data_out(&mut self, at: Instant, interface: DataInterface, buf: &mut [u8]) -> Result<(), Violation> {
        self.check_interface(interface)?;
        let outcome = self.output_data(at, interface, buf);
        if outcome.is_err() {
            self.abandon();
        }
        outcome
    }

    #[inline]
    fn data_in(&mut self, at: Instant, interface: DataInterface, bytes: &[u8]) -> Result<(), Violation> {
        self.check_interface(interface)?;
        let outcome = self.write_data(at, interface, bytes);
        if outcome.is_err() {
            self.abandon();
        }
        outcome
    }

    #[inline]
    fn ready_at(&self) -> Instant {
        match self.luns.as_slice() {
            [only] => only.ready,
            all => all.iter().map(|lun| lun.ready).max().unwrap_or(Instant::ZERO),
        }
    }

    #[inline]
    fn take_work(&mut self) -> [Option<Work>; 2] {
        std::mem::take(&mut self.work)
    }

    fn luns(&self) -> u8 {
        self.luns.len() as u8
    }

    fn power_cut(&mut self, at: Instant) {
        Self::power_cut(self, at);
    }

    fn last_operation(&self) -> Option<(Instant, Instant)> {
        self.last_operation_time()
    }
}

impl PageTruth for RawNand {
    #[inline]
    fn wrong_bits(&self) -> Option<&[u32]> {
        Some(match self.lun().register() {
            Register::Page(_) if !self.spec.ecc.on_die => self.lun().wrong(),
            _ => &[],
        })
    }

    fn is_as_programmed(&self) -> bool {
        matches!(self.lun().register(), Register::Page(row) if self.array.is_as_programmed(row as usize))
    }

    fn is_erased(&self) -> bool {
        matches!(self.lun().register(), Register::Page(row) if self.array.is_erased(row as usize))
    }

    fn keeps_data(&self) -> bool {
        self.array.stores()
    }
}

impl Oracle for RawNand {
    fn array(&self, part: usize) -> Option<&Array> {
        (part == 0).then_some(&self.array)
    }

    fn array_mut(&mut self, part: usize) -> Option<&mut Array> {
        (part == 0).then_some(&mut self.array)
    }

    fn cells(&self, part: usize) -> Option<&Cells> {
        (part == 0).then_some(&self.cells)
    }

    fn cells_mut(&mut self, part: usize) -> Option<&mut Cells> {
        (part == 0).then_some(&mut self.cells)
    }

    fn factory_bad(&self) -> Vec<u32> {
        self.faults.factory().to_vec()
    }

    fn set_faults(&mut self, addr: u64, faults: oracle::Faults) {
        let g = &self.spec.geometry;
        let block_bytes = u64::from(g.page_bytes) * u64::from(g.pages_per_block);
        self.faults.set((addr / block_bytes) as u32, faults);
    }
}
