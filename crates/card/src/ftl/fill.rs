//! Fast fill of a new card, block by block.

use super::{Extent, Ftl, Source};
use crate::nand::{Fault, Kind};
use crate::spec::{FatKind, Mapping};
use std::ops::Range;

/// Greatest common divisor of two numbers.
const fn gcd(mut one: u32, mut other: u32) -> u32 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

impl Ftl {
    /// Writes blank units in order, like long requests of the host. Whole blocks are filled at once if the result is the same; other units
    /// are written one by one.
    pub(crate) fn fill(&mut self, units: Range<u32>) -> Result<(), Fault> {
        let slots = self.nand.slots_per_block;
        let mut unit = units.start;
        while unit < units.end {
            let is_whole = unit.is_multiple_of(slots) && unit + slots <= units.end;
            let is_main = unit >= self.enhanced_units && self.fat_of(unit) == FatKind::None;
            if is_whole && is_main && self.fill_block(unit)? {
                unit += slots;
            } else {
                self.write_through(unit, Source::Host(&[]), Extent::Long)?;
                self.units.host += 1;
                unit += 1;
            }
        }
        Ok(())
    }

    /// Fills a block with the units from `unit` on. Returns false if the block that would receive them already contains
    /// data.
    fn fill_block(&mut self, unit: u32) -> Result<bool, Fault> {
        let slots = self.nand.slots_per_block;
        let block = match self.mapping {
            Mapping::Page if self.streams[Kind::Main as usize].frontier.is_some() => return Ok(false),
            Mapping::Page => self.open_frontier(Kind::Main)?,
            Mapping::Block | Mapping::Hybrid => self.open_in_order(unit)?,
        };
        self.now = self.nand.fill(self.now, block, unit);
        self.map.replace_run(unit as usize, self.nand.first_slot(block) + 1, slots);
        self.units.host += u64::from(slots);
        self.units.written += u64::from(slots);
        if self.mapping == Mapping::Page {
            self.streams[Kind::Main as usize].frontier = None;
            self.close(block)?;
            self.collect(Kind::Main)?;
        } else {
            self.close_filled(unit)?;
        }
        Ok(true)
    }

    /// Number of units at the end of `units` that must be written one by one, so that the SLC cache and the blocks behind it are in the
    /// same state as after ordinary requests. `None` if blocks cannot be filled at once.
    pub(crate) fn units_through_cache(&self, units: u32) -> Option<u32> {
        if !self.nand.can_fill() {
            return None;
        }
        if self.slc_blocks == 0 {
            return Some(0);
        }
        let slc = self.nand.slots_of(Kind::Slc);
        let cache = slc.checked_mul(2 * (self.slc_blocks + 2))?;
        let step = slc.checked_mul(self.nand.slots_per_block)? / gcd(slc, self.nand.slots_per_block);
        let filled = units.checked_sub(cache)? / step * step;
        Some(units - filled)
    }
}
