//! Facts of a NAND's specification that do not depend on its bus, and the cells that follow from them.

use crate::cells::{Cells, CellsGeometry, CellsProfile, ErrorSpec, Promise, Wear, WearSpec};
use crate::ecc_engine::EccRequirement;
use crate::units::TypMaxUs;
use floatgate_mtd::random::hash;

/// Position of the maker's bad block markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Byte of the OOB.
    pub byte: u32,
    /// Pages of a block that carry it.
    pub pages: Vec<u32>,
}

/// Facts about a NAND chip.
#[derive(Clone, Debug, PartialEq)]
pub struct NandFacts {
    /// Data bytes of a page.
    pub page_bytes: u32,
    /// OOB bytes of a page.
    pub oob_bytes: u32,
    /// Smallest write of a driver whose ECC is what the chip asks for, on a controller that can program parts of a page.
    pub sub_page_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Blocks of the package.
    pub blocks: u64,
    /// Blocks per LUN that may be bad over the chip's life.
    pub max_bad_blocks_per_lun: u32,
    /// Blocks of the package that may be bad over the chip's life.
    pub max_bad_blocks: u64,
    /// Bits that a cell holds.
    pub bits_per_cell: u8,
    /// Position of the bad block markers.
    pub marker: Marker,
    /// The correction that the chip asks for.
    pub ecc: EccRequirement,
    /// True when the chip has an ECC engine of its own.
    pub on_die_ecc: bool,
    /// Program/erase cycles that the data sheet promises, 0 when unknown.
    pub endurance_cycles: u64,
    /// Page read time, array to register, without the on-die ECC.
    pub t_r_us: TypMaxUs,
    /// Page program time tPROG.
    pub t_prog_us: TypMaxUs,
    /// Block erase time tBERS.
    pub t_bers_us: TypMaxUs,
    /// An erase of a blank block ends after its first pulse.
    pub blank_erase_stops: bool,
    /// Wear of the blocks, if it was measured.
    pub wear: Option<WearSpec>,
    /// Rates of bit errors, if they were measured.
    pub errors: Option<ErrorSpec>,
}

/// Distinguishes the seeds of cells from others.
const CELLS: u64 = 0x43_45_4C_4C;

impl NandFacts {
    /// Program/erase cycles that blocks are rated for: what the data sheet promises, or where it is silent what chips of as
    /// many bits a cell promise (Desnoyers, HotStorage 2009, table 1).
    pub const fn rated_cycles(&self) -> u64 {
        match (self.endurance_cycles, self.bits_per_cell) {
            (0, 0 | 1) => 100_000,
            (0, _) => 10_000,
            (cycles, _) => cycles,
        }
    }

    fn cell_bits(&self) -> u8 {
        self.bits_per_cell.clamp(1, 4)
    }

    /// Wear of the blocks as measured, or else typical wear of the kind of cell.
    pub fn wear_spec(&self) -> WearSpec {
        self.wear.unwrap_or_else(|| WearSpec::typical(self.cell_bits(), self.t_prog_us, self.t_bers_us))
    }

    /// Rates of bit errors as measured, or else derived from the data sheet.
    pub fn error_spec(&self) -> ErrorSpec {
        let promise = || Promise {
            ecc: self.ecc,
            endurance_cycles: self.rated_cycles(),
            bits_per_cell: self.cell_bits(),
        };
        self.errors.unwrap_or_else(|| ErrorSpec::typical(promise()))
    }

    /// Cells of number `index` of the chip's dies or targets, under the seed of the chip.
    pub(crate) fn cells(
        &self,
        geometry: CellsGeometry,
        profile: CellsProfile,
        (seed, index): (u64, u32),
    ) -> Cells {
        let wear = Wear::new(self.wear_spec(), self.rated_cycles()).stopping(self.blank_erase_stops);
        Cells::new(geometry, wear, self.error_spec(), profile, hash(seed, u64::from(index), CELLS))
    }
}

/// Blocks of a package by its factors. Numbers of a user's file may be anything.
pub(crate) fn product(factors: &[u32]) -> u64 {
    factors.iter().fold(1, |all: u64, factor| all.saturating_mul(u64::from(*factor)))
}

/// Checks the tables of a specification about cells.
///
/// # Errors
/// The first impossible value: its key below `chip`, and the problem.
pub(crate) fn check_cells(
    wear: Option<&WearSpec>,
    errors: Option<&ErrorSpec>,
) -> Result<(), (&'static str, &'static str)> {
    let wear = wear.map_or(Ok(()), WearSpec::check);
    let errors = errors.map_or(Ok(()), ErrorSpec::check);
    let below = |key: &'static str| key.strip_prefix("chip.").unwrap_or(key);
    wear.and(errors).map_err(|(key, problem)| (below(key), problem))
}
