//! Block-mapped allocation units: each is one NAND block in order, and a few are open for writing.
//!
//! An open allocation unit has a new block beside its old one. Written in order, unit n goes to slot n; closing it copies the rest of the
//! old block. Written in any order (random-capable), units are appended as they come; closing it copies all of them into a further
//! block. Opening one more than the card can have open closes the one that was used least recently.

use super::{Extent, Ftl, Source};
use crate::nand::{Fault, Kind};
use crate::open_aus::{Class, OpenAu};
use std::ops::Range;

impl Ftl {
    /// True when a hybrid card writes this unit into the block of its allocation unit. The request is then
    /// too long for the log, goes on with an open allocation unit in order, or begins one with a whole unit.
    pub(super) fn is_for_au(&self, unit: u32, extent: Extent) -> bool {
        let au = self.open.au_of(unit);
        let offset = unit - self.open.units_of(au).start;
        extent == Extent::Long
            || match self.open.find(au) {
                Some(place) => self.nand.blocks[self.open.open[place].block as usize].next == offset,
                None => offset == 0 && extent == Extent::Short,
            }
    }

    /// Writes a unit into the block of its allocation unit, which is opened when it is not.
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

    /// The entry of an allocation unit whose block takes this offset next.
    fn place_in(&mut self, au: u32, offset: u32, is_pinned: bool) -> Result<usize, Fault> {
        if let Some(place) = self.open.find(au) {
            let OpenAu { block, class, .. } = self.open.open[place];
            let next = self.nand.blocks[block as usize].next;
            match class {
                Class::Linear if next == offset => return Ok(place),
                // Written anew from its beginning, it stays in order.
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

    /// Opens the allocation unit that begins with a unit, to be written in order. Returns its block.
    pub(super) fn open_in_order(&mut self, unit: u32) -> Result<u32, Fault> {
        let place = self.place_in(self.open.au_of(unit), 0, false)?;
        self.open.writes += u64::from(self.nand.slots_per_block);
        self.open.open[place].used = self.open.writes;
        Ok(self.open.open[place].block)
    }

    /// Closes the allocation unit that holds this unit. All of it has been written in order, so that nothing is merged.
    pub(super) fn close_filled(&mut self, unit: u32) -> Result<(), Fault> {
        let Some(place) = self.open.find(self.open.au_of(unit)) else { return Ok(()) };
        let open = self.open.open.swap_remove(place);
        self.close(open.block)
    }

    /// An allocation unit that was written in order until now is written in another.
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

    /// Closes an open allocation unit: copies what its new block lacks, or everything when that is not in order.
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

    /// True when slot n of the block holds unit n, or is empty.
    fn is_block_in_order(&self, au: u32, block: u32) -> Result<bool, Fault> {
        let (spares, units) = (self.nand.spares(block)?, self.open.units_of(au));
        let written = self.nand.blocks[block as usize].next;
        Ok((0..written).all(|slot| spares.unit(slot).is_none_or(|unit| unit == units.start + slot)))
    }

    /// Copies all units of an allocation unit into a new block, in order. The blocks where they were become free.
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

    /// Copies units of an allocation unit from where the map has them; slots of units without contents stay empty.
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
