//! Discards that survive a power loss: bitmaps of the map units without contents, written to the NAND.
//!
//! The map units of a card are divided into groups. Each group has a bitmap, which is a separate map unit after the
//! units of the host. The bitmap has a slot, and is cleaned and recovered like any other unit; its page has a sequence
//! number. When the map is rebuilt, the units in a bitmap lose the slots that were programmed before the bitmap. The
//! contents of a bitmap are determined when its page is programmed, for a flush or because its block is cleaned. Data
//! of other pages in RAM is programmed first, so that the older bitmap is no longer needed.

use crate::packed::PackedInts;
use crate::spec::CardSpec;
use std::collections::BTreeSet;
use std::ops::Range;

/// Bitmaps of all groups.
#[derive(Clone, Debug)]
pub(crate) struct Discards {
    /// Number of the host's units.
    units: u32,
    group_units: u32,
    /// Bitmaps of the groups as last programmed, with a bit for each unit; empty for a bitmap that was never
    /// programmed.
    recorded: Vec<Box<[u64]>>,
    dirty: BTreeSet<u32>,
}

impl Discards {
    pub(crate) fn new(spec: &CardSpec) -> Self {
        let units = spec.capacity_bytes / spec.unit_bytes();
        Self {
            units: units as u32,
            group_units: spec.discard_group_units() as u32,
            recorded: vec![Box::default(); spec.discard_groups() as usize],
            dirty: BTreeSet::new(),
        }
    }

    /// Number of the host's units.
    pub(crate) const fn units(&self) -> u32 {
        self.units
    }

    /// Numbers of the units that are bitmaps.
    pub(crate) const fn bitmaps(&self) -> Range<u32> {
        self.units..self.units + self.units.div_ceil(self.group_units)
    }

    fn units_of(&self, bitmap: u32) -> Range<u32> {
        let first = (bitmap - self.units) * self.group_units;
        first..(first + self.group_units).min(self.units)
    }

    /// Records that a unit has no contents.
    pub(crate) fn add(&mut self, unit: u32) {
        self.dirty.insert(self.units + unit / self.group_units);
    }

    /// Bitmaps of groups with discards that are newer than the programmed bitmap.
    pub(crate) const fn dirty(&self) -> &BTreeSet<u32> {
        &self.dirty
    }

    /// Forgets the discards that are not in a programmed bitmap.
    pub(crate) fn lose_power(&mut self) {
        self.dirty.clear();
    }

    /// Records that the page with this bitmap was programmed; the bitmap contains the units without a slot.
    pub(crate) fn record(&mut self, bitmap: u32, map: &PackedInts) {
        self.dirty.remove(&bitmap);
        let mut words = vec![0; self.group_units.div_ceil(64) as usize];
        for (unit, place) in self.units_of(bitmap).zip(0..) {
            words[place / 64] |= u64::from(map.get(unit as usize) == 0) << (place % 64);
        }
        self.recorded[(bitmap - self.units) as usize] = words.into();
    }

    /// Removes the slots of the units in a bitmap. If this is an older version of the bitmap, the newest version is applied later and
    /// overrides it.
    pub(crate) fn apply(&self, bitmap: u32, map: &mut PackedInts) {
        let words = &self.recorded[(bitmap - self.units) as usize];
        for (unit, place) in self.units_of(bitmap).zip(0..) {
            if words.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1) {
                map.replace(unit as usize, 0);
            }
        }
    }

    /// Bytes of host memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.recorded.iter().map(|words| size_of_val(words) + size_of_val::<[u64]>(words)).sum()
    }
}
