//! The chip's cells: bit errors of reads, durations and failures of programs and erases.

use super::super::spec::RawNandSpec;
use super::lun::Register;
use super::{ChipOptions, RawNand};
use crate::array::Array;
use crate::cells::{Cells, CellsGeometry, Outcome};
use floatgate_mtd::{Instant, Nanos};

/// Cell model of target number `target` in a package.
pub(super) fn new(spec: &RawNandSpec, target: u32, options: ChipOptions) -> Cells {
    let g = &spec.geometry;
    let facts = spec.facts();
    // Blocks used as SLC have an endurance higher by this factor, so their errors grow more slowly with
    // the cycles by the same factor.
    let factor = spec.mlc.map_or(1, |mlc| mlc.slc_endurance_factor.max(1));
    let geometry = CellsGeometry {
        page_bytes: g.full_page(),
        pages_per_block: g.pages_per_block,
        blocks: g.blocks_per_target(),
        pairing: spec.pairing(g.pages_per_block),
        half_pair: libm::pow(f64::from(factor), -facts.error_spec().wear.cycles),
    };
    facts.cells(geometry, options.cells, (options.seed, target))
}

/// Reads a page from the array: sets `wrong` to the bits that read wrong, including injected ones.
#[inline(always)]
fn sense(cells: &mut Cells, array: &Array, row: u32, at: Instant, lowered: f64, wrong: &mut Vec<u32>) {
    wrong.clear();
    // The result of the fast path is valid for the normal thresholds only.
    let suspicious = cells.read(row, at) || lowered != 0.0;
    if suspicious || array.has_flips() {
        look(cells, array, (row, suspicious), at, lowered, wrong);
    }
}

/// Collects the wrong bits of a page: all errors if the page is suspicious, and the injected errors.
#[cold]
#[inline(never)]
fn look(
    cells: &mut Cells,
    array: &Array,
    (row, suspicious): (u32, bool),
    at: Instant,
    lowered: f64,
    wrong: &mut Vec<u32>,
) {
    if suspicious {
        cells.errors(row, at, lowered, array.stored(row as usize).as_deref(), wrong);
    }
    toggle_bits(wrong, array.flips(row as usize));
}

/// Adds injected errors: a bit that is wrong twice is right.
fn toggle_bits(wrong: &mut Vec<u32>, flips: &[u32]) {
    for flip in flips {
        match wrong.binary_search(flip) {
            Ok(at) => _ = wrong.remove(at),
            Err(at) => wrong.insert(at, *flip),
        }
    }
}

impl RawNand {
    /// Reads the page of the last read command into its register, or the pages of all planes.
    #[inline]
    pub(super) fn sense_registers(&mut self, at: Instant, several: bool) {
        if several {
            (0..self.lun().loads.len()).for_each(|plane| self.sense_register(at, plane));
        } else {
            self.sense_register(at, usize::from(self.lun().plane));
        }
    }

    #[inline]
    fn sense_register(&mut self, at: Instant, plane: usize) {
        let lun = &mut self.luns[self.active];
        let wrong = &mut lun.wrong[plane];
        match lun.registers[plane] {
            Register::Page(row) => sense(&mut self.cells, &self.array, row, at, lun.lowered, wrong),
            Register::Empty | Register::Otp(_) => wrong.clear(),
        }
    }

    /// Reads `row` ahead for a cached read.
    #[inline]
    pub(super) fn sense_ahead(&mut self, row: u32, at: Instant) {
        let lun = &mut self.luns[self.active];
        sense(&mut self.cells, &self.array, row, at, lun.lowered, &mut lun.wrong_ahead);
    }

    /// Programs the cells of a page. Programs of `broken` blocks fail after the usual time.
    #[inline]
    pub(super) fn program_cells(&mut self, row: u32, begin: Instant, broken: bool) -> Outcome {
        let page_time = self.program_times.row_time(Some(row), self.spec.geometry.pages_per_block);
        if broken {
            return Outcome { time: page_time, failed: true };
        }
        let typical = self.spec.timing.t_prog_us;
        let Outcome { time, failed } = self.cells.program(row, begin);
        let time = if page_time == typical.typ {
            time
        } else {
            // LSB and MSB pages take their share of the pulse time.
            Nanos::from_ns(time.as_ns() * page_time.as_ns() / typical.typ.as_ns().max(1))
        };
        // The maximum in the data sheet is valid for the whole life.
        Outcome { time: time.min(typical.max.max(page_time)), failed }
    }

    /// Erases the cells of a block.
    pub(super) fn erase_cells(&mut self, block: u32) -> Outcome {
        let typical = self.spec.timing.t_bers_us;
        if self.faults.of_block(block).erase {
            return Outcome { time: typical.typ, failed: true };
        }
        let Outcome { time, failed } = self.cells.erase(block);
        Outcome { time: time.min(typical.max.max(typical.typ)), failed }
    }
}
