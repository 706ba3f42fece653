//! Block-mapped allocation units. Each is one NAND block with its map units in order, and a few are open for writing.
//!
//! An open allocation unit has an old and a new block. If it is written in order, unit n goes to slot n of the new block, and closing it
//! copies the remaining units of the old block. If it is written in any order (random-capable), units are appended as they arrive, and
//! closing it copies all units into a third block. If the maximum number is open, opening another one closes the least recently used one.

use super::{Extent, Ftl, Source};
use crate::nand::{Fault, Kind};
use crate::open_aus::{Class, OpenAu};
use std::ops::Range;

impl Ftl {
    /// True if a hybrid card writes this unit into the block of its allocation unit. The request then is too long for
    /// the log, continues an open allocation unit in order, or begins an allocation unit with a whole unit.
    pub(super) fn is_for_au(&self, unit: u32, extent: Extent) -> bool {
        let au = self.open.au_of(unit);
        let offset = unit - self.open.units_of(au).start;
        extent == Extent::Long
            || match self.open.find(au) {
                Some(place) => self.nand.blocks[self.open.open[place].block as usize].next == offset,
                None => offset == 0 && extent == Extent::Short,
            }
    }

    /// Writes a unit into the block of its allocation unit. A closed allocation unit is opened first.
    pub(super) fn write_to_au(
        &mut self,
        unit: u32,
        source: Source<'_>,
        is_pinned: bool,
    ) -> Result<(), Fault> {
        let au = self.open.au_of(unit);
        let offset = unit - self.open.units_of(au).start;
        let place = self.place_in(au, offset, is_pinned)?;
        self.open.writes += 1;
        self.open.open[place].used = self.open.writes;
        let OpenAu { block, class, .. } = self.open.open[place];
        self.put(block, unit, source)?;
        if class == Class::Linear && self.is_full(block) { self.close_au(au) } else { Ok(()) }
    }

    fn is_full(&self, block: u32) -> bool {
        self.nand.blocks[block as usize].next == self.nand.slots_per_block
    }

    /// Entry of an open allocation unit whose block can receive the unit at this offset next.
    fn place_in(&mut self, au: u32, offset: u32, is_pinned: bool) -> Result<usize, Fault> {
        if let Some(place) = self.open.find(au) {
            let OpenAu { block, class, .. } = self.open.open[place];
            let next = self.nand.blocks[block as usize].next;
            match class {
                Class::Linear if next == offset => return Ok(place),
                // An allocation unit that is rewritten from its beginning stays in order.
                Class::Linear if offset == 0 => self.close_au(au)?,
                Class::Linear if self.open.random > 0 => return self.make_random(au),
                Class::Linear if next < offset => {
                    self.copy_units(block, au, next..offset)?;
                    return Ok(place);
                }
                Class::Random | Class::Pinned if !self.is_full(block) => return Ok(place),
                _ => self.close_au(au)?,
            }
        }
        let class = match (is_pinned, offset) {
            (true, _) => Class::Pinned,
            (false, 0) => Class::Linear,
            (false, _) if self.open.random > 0 => Class::Random,
            (false, _) => Class::Linear,
        };
        self.open_au(au, offset, class)
    }

    /// Opens the allocation unit whose first map unit is `unit`, for writes in order. Returns its block.
    pub(super) fn open_in_order(&mut self, unit: u32) -> Result<u32, Fault> {
        let place = self.place_in(self.open.au_of(unit), 0, false)?;
        self.open.writes += u64::from(self.nand.slots_per_block);
        self.open.open[place].used = self.open.writes;
        Ok(self.open.open[place].block)
    }

    /// Closes the allocation unit that contains this unit. It was written completely and in order, so no merge is
    /// necessary.
    pub(super) fn close_filled(&mut self, unit: u32) -> Result<(), Fault> {
        let Some(place) = self.open.find(self.open.au_of(unit)) else { return Ok(()) };
        let open = self.open.open.swap_remove(place);
        self.close(open.block)
    }

    /// Changes an open allocation unit from sequential to random order.
    fn make_random(&mut self, au: u32) -> Result<usize, Fault> {
        if let Some(other) = self.open.surplus(au, Class::Random) {
            self.close_au(other)?;
        }
        let place = self.open.find(au).ok_or(Fault::WornOut)?;
        self.open.open[place].class = Class::Random;
        Ok(place)
    }

    fn open_au(&mut self, au: u32, offset: u32, class: Class) -> Result<usize, Fault> {
        if let Some(other) = self.open.surplus(au, class) {
            self.close_au(other)?;
        }
        let block = self.open_block(Kind::Main)?;
        self.open.open.push(OpenAu { au, block, class, used: self.open.writes });
        if class == Class::Linear {
            self.copy_units(block, au, 0..offset)?;
        }
        Ok(self.open.open.len() - 1)
    }

    /// Closes an open allocation unit. It copies the units that the new block lacks, or all units if the new block is
    /// not in order.
    fn close_au(&mut self, au: u32) -> Result<(), Fault> {
        let Some(place) = self.open.find(au) else { return Ok(()) };
        let block = self.open.open[place].block;
        if !self.is_block_in_order(au, block)? {
            return self.merge(au);
        }
        self.open.open.swap_remove(place);
        let rest = self.nand.blocks[block as usize].next..self.nand.slots_per_block;
        self.copy_units(block, au, rest)?;
        self.close(block)
    }

    /// True if each slot n of the block contains unit n or is empty.
    fn is_block_in_order(&self, au: u32, block: u32) -> Result<bool, Fault> {
        let (spares, units) = (self.nand.spares(block)?, self.open.units_of(au));
        let written = self.nand.blocks[block as usize].next;
        Ok((0..written).all(|slot| spares.unit(slot).is_none_or(|unit| unit == units.start + slot)))
    }

    /// Copies all units of an allocation unit into a new block, in order. Their old blocks become free.
    pub(super) fn merge(&mut self, au: u32) -> Result<(), Fault> {
        if let Some(place) = self.open.find(au) {
            let open = self.open.open.swap_remove(place);
            self.close(open.block)?;
        }
        let block = self.open_block(Kind::Main)?;
        self.nand.mark_merge(block);
        self.copy_units(block, au, 0..self.nand.slots_per_block)?;
        self.close(block)
    }

    /// Copies units of an allocation unit from their mapped slots. Slots of units without contents stay empty.
    fn copy_units(&mut self, block: u32, au: u32, offsets: Range<u32>) -> Result<(), Fault> {
        let start = self.open.units_of(au).start;
        for unit in offsets.map(|offset| start + offset) {
            let slot = if unit < self.host_units() { self.slot(unit) } else { None };
            match slot {
                Some(slot) => {
                    let source = if self.nand.copies_back(slot, block) {
                        Source::Inside(self.nand.read_inside(self.now, slot))
                    } else {
                        Source::Copy(self.read_page(slot))
                    };
                    self.put(block, unit, source)?;
                }
                None => self.nand.skip(block, 1),
            }
        }
        Ok(())
    }
}
