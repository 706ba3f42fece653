//! Properties of a NAND chip that do not depend on its bus, and its cell model.

use crate::cells::{Cells, CellsGeometry, CellsProfile, ErrorSpec, Promise, Wear, WearSpec};
use crate::ecc_engine::EccRequirement;
use crate::units::TypMaxUs;
use floatgate_mtd::random::hash;

/// Position of the maker's bad block markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Offset of the marker in the OOB, bytes.
    pub byte: u32,
    /// Pages of a block that contain the marker.
    pub pages: Vec<u32>,
}

/// Properties of a NAND chip.
#[derive(Clone, Debug, PartialEq)]
pub struct NandFacts {
    /// Size of a page without OOB, bytes.
    pub page_bytes: u32,
    /// Size of the OOB of a page, bytes.
    pub oob_bytes: u32,
    /// Minimum write size, bytes, for a driver with the required ECC and a controller that can program parts of a page.
    pub sub_page_bytes: u32,
    /// Number of pages in a block.
    pub pages_per_block: u32,
    /// Number of blocks in the package.
    pub blocks: u64,
    /// Maximum number of bad blocks per LUN over the chip's life.
    pub max_bad_blocks_per_lun: u32,
    /// Maximum number of bad blocks in the package over the chip's life.
    pub max_bad_blocks: u64,
    /// Number of bits per cell.
    pub bits_per_cell: u8,
    /// Position of the bad block markers.
    pub marker: Marker,
    /// ECC requirement of the chip.
    pub ecc: EccRequirement,
    /// True if the chip has an on-die ECC engine.
    pub on_die_ecc: bool,
    /// Endurance of the data sheet in program/erase cycles; 0 if unknown.
    pub endurance_cycles: u64,
    /// Page read time tR from array to register, without on-die ECC.
    pub t_r_us: TypMaxUs,
    /// Page program time tPROG.
    pub t_prog_us: TypMaxUs,
    /// Block erase time tBERS.
    pub t_bers_us: TypMaxUs,
    /// True if the erase of a blank block ends after its first pulse.
    pub blank_erase_stops: bool,
    /// Measured wear parameters; `None` if they were not measured.
    pub wear: Option<WearSpec>,
    /// Measured bit error rates; `None` if they were not measured.
    pub errors: Option<ErrorSpec>,
}

/// Constant that separates the seeds of cells from other seeds.
const CELLS: u64 = 0x43_45_4C_4C;

impl NandFacts {
    /// Rated program/erase cycles of a block: the endurance of the data sheet. If it is unknown, the endurance of chips
    /// with the same number of bits per cell (Desnoyers, HotStorage 2009, table 1).
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

    /// Measured wear parameters, or otherwise typical ones for the kind of cell.
    pub fn wear_spec(&self) -> WearSpec {
        self.wear.unwrap_or_else(|| WearSpec::typical(self.cell_bits(), self.t_prog_us, self.t_bers_us))
    }

    /// Measured bit error rates, or otherwise rates derived from the data sheet.
    pub fn error_spec(&self) -> ErrorSpec {
        let promise = || Promise {
            ecc: self.ecc,
            endurance_cycles: self.rated_cycles(),
            bits_per_cell: self.cell_bits(),
        };
        self.errors.unwrap_or_else(|| ErrorSpec::typical(promise()))
    }

    /// Cell model of die or target `index`, with a seed derived from the seed of the chip.
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

/// Product of factors, such as the number of blocks in a package. It must not overflow, because values in a user's file can
/// be arbitrary.
pub(crate) fn product(factors: &[u32]) -> u64 {
    factors.iter().fold(1, |all: u64, factor| all.saturating_mul(u64::from(*factor)))
}

/// Checks the tables of a specification that concern cells.
///
/// # Errors
/// Key below `chip` and problem of the first impossible value.
pub(crate) fn check_cells(
    wear: Option<&WearSpec>,
    errors: Option<&ErrorSpec>,
) -> Result<(), (&'static str, &'static str)> {
    let wear = wear.map_or(Ok(()), WearSpec::check);
    let errors = errors.map_or(Ok(()), ErrorSpec::check);
    let below = |key: &'static str| key.strip_prefix("chip.").unwrap_or(key);
    wear.and(errors).map_err(|(key, problem)| (below(key), problem))
}
