//! The open allocation units of a block-mapped card, and the choice of the unit that is closed to open another.

use crate::spec::CardSpec;
use std::ops::Range;

/// Order in which an open allocation unit can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// In ascending order from its beginning.
    Linear,
    /// In any order.
    Random,
    /// In any order, and never closed to open another one.
    Pinned,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenAu {
    pub(crate) au: u32,
    /// Number of the new block.
    pub(crate) block: u32,
    pub(crate) class: Class,
    /// Number of the last write to the unit, among all writes.
    pub(crate) used: u64,
}

/// The open allocation units.
#[derive(Clone, Debug)]
pub(crate) struct OpenAus {
    units_per_au: u32,
    pub(crate) open: Vec<OpenAu>,
    /// Maximum number of open units, without the pinned ones.
    most: usize,
    /// Maximum number of open units that can be written in any order.
    pub(crate) random: usize,
    pub(crate) writes: u64,
}

impl OpenAus {
    pub(crate) fn new(spec: &CardSpec, units_per_au: u32) -> Self {
        Self {
            units_per_au,
            open: Vec::with_capacity(spec.open_aus as usize),
            most: (spec.open_aus - spec.pinned_aus()) as usize,
            random: spec.open_aus_random as usize,
            writes: 0,
        }
    }

    #[inline]
    pub(crate) const fn au_of(&self, unit: u32) -> u32 {
        unit / self.units_per_au
    }

    /// Number of allocation units of a card with this number of map units.
    pub(crate) const fn aus(&self, units: u32) -> u32 {
        units.div_ceil(self.units_per_au)
    }

    pub(crate) const fn units_of(&self, au: u32) -> Range<u32> {
        au * self.units_per_au..(au + 1) * self.units_per_au
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    pub(crate) fn find(&self, au: u32) -> Option<usize> {
        self.open.iter().position(|open| open.au == au)
    }

    /// Allocation unit that must be closed before `au` can be written in this class; `None` if none must.
    pub(crate) fn surplus(&self, au: u32, class: Class) -> Option<u32> {
        let others = || self.open.iter().filter(move |open| open.au != au && open.class != Class::Pinned);
        let random = || others().filter(|open| open.class == Class::Random);
        if class == Class::Pinned {
            None
        } else if class == Class::Random && random().count() >= self.random {
            random().min_by_key(|open| open.used).map(|open| open.au)
        } else if others().count() >= self.most {
            others().min_by_key(|open| open.used).map(|open| open.au)
        } else {
            None
        }
    }
}
