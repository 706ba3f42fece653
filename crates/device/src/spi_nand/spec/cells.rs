//! What a spec says of the cells.

use super::SpiNandSpec;
use crate::cells::{Cells, CellsGeometry, CellsProfile, ErrorSpec, Promise, Wear, WearSpec};
use floatgate_mtd::Pairing;

/// What data sheets of SLC promise, and of MLC (Desnoyers, HotStorage 2009, table 1), where this one is silent.
const USUAL_CYCLES: [u32; 2] = [100_000, 10_000];

impl SpiNandSpec {
    /// Program and erase cycles that the data sheet promises.
    pub fn rated_cycles(&self) -> u32 {
        match self.endurance_cycles {
            0 => USUAL_CYCLES[usize::from(self.geometry.bits_per_cell > 1)],
            cycles => cycles,
        }
    }

    fn bits_per_cell(&self) -> u8 {
        self.geometry.bits_per_cell.clamp(1, 4) as u8
    }

    /// Wear of the blocks.
    pub fn wear_spec(&self) -> WearSpec {
        let t = &self.timing;
        self.wear.unwrap_or_else(|| WearSpec::typical(self.bits_per_cell(), t.t_prog_us, t.t_bers_us))
    }

    /// Rates of bit errors.
    pub fn error_spec(&self) -> ErrorSpec {
        let promise = Promise {
            ecc: self.ecc.requirement(),
            endurance_cycles: u64::from(self.rated_cycles()),
            bits_per_cell: self.bits_per_cell(),
        };
        self.errors.unwrap_or_else(|| ErrorSpec::typical(promise))
    }

    /// The cells of one die of a chip, with a seed of its own.
    pub(in crate::spi_nand) fn cells(&self, profile: CellsProfile, seed: u64) -> Cells {
        let g = &self.geometry;
        let geometry = CellsGeometry {
            page_bytes: g.raw_page_bytes(),
            pages_per_block: g.pages_per_block,
            blocks: self.blocks_per_die(),
            // Nobody makes SPI NAND whose pages share cells and are not hidden behind a translation.
            pairing: Pairing::NONE,
            half_pair: 1.0,
        };
        let wear = Wear::new(self.wear_spec(), u64::from(self.rated_cycles()));
        Cells::new(geometry, wear, self.error_spec(), profile, seed)
    }

    /// The first impossible value of the tables about cells: key and problem.
    pub(super) fn check_cells(&self) -> Result<(), (&'static str, &'static str)> {
        let wear = self.wear.as_ref().map_or(Ok(()), WearSpec::check);
        let errors = self.errors.as_ref().map_or(Ok(()), ErrorSpec::check);
        // Fields of this error begin below `chip`.
        let below = |key: &'static str| key.strip_prefix("chip.").unwrap_or(key);
        wear.and(errors).map_err(|(key, problem)| (below(key), problem))
    }
}
