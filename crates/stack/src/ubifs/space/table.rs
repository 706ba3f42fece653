//! Properties of every LEB in the main area, and their totals.

use std::sync::Arc;

use super::super::error::{Error, Result};
use super::super::layout::{Layout, MIN_WRITE_BYTES, align8};
use super::{LebSpace, SpaceTotals};

/// Category of a LEB (Linux: `LPROPS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    /// In use: not to be found.
    Taken,
    /// Completely free.
    Empty,
    /// Not an index LEB, and without live nodes.
    Freeable,
    /// An index LEB whose nodes only the index on flash still uses.
    FreeableIndex,
    /// An index LEB with at least the smallest index node free or dirty.
    DirtyIndex,
    /// More dirty than free bytes: worth collecting.
    Dirty,
    /// Free space at the end.
    Free,
    /// Not in any other category.
    Full,
}

/// Properties of the main area's LEBs.
#[derive(Clone, Debug)]
pub(super) struct Table {
    layout: Arc<Layout>,
    lebs: Vec<LebSpace>,
    totals: SpaceTotals,
    freeable: u32,
}

/// Number of dead bytes, and number of dark bytes, in this much space of a LEB. Below the dead watermark all space is
/// dead. If only little more than the dark watermark is left, the dark bytes are limited, so that at least a smallest
/// node remains usable (Linux: `ubifs_calc_dark`).
pub(super) fn dead_and_dark(layout: &Layout, space: u32) -> (u32, u32) {
    let dark = layout.dark_bytes;
    if space < layout.dead_bytes {
        (space, 0)
    } else if space < dark {
        (0, space)
    } else if space - dark < MIN_WRITE_BYTES {
        (0, space - MIN_WRITE_BYTES)
    } else {
        (0, dark)
    }
}

impl Table {
    /// Table of empty LEBs.
    pub(super) fn empty(layout: &Arc<Layout>) -> Self {
        let leb = LebSpace { free: layout.leb_bytes(), ..LebSpace::default() };
        let lebs = vec![leb; layout.limits.main_lebs() as usize];
        let mut table =
            Self { layout: Arc::clone(layout), lebs, totals: SpaceTotals::default(), freeable: 0 };
        for _ in 0..table.lebs.len() {
            table.count(leb);
        }
        table
    }

    pub(super) const fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    pub(super) const fn totals(&self) -> SpaceTotals {
        self.totals
    }

    /// Number of LEBs in [`Category::Freeable`].
    pub(super) const fn freeable(&self) -> u32 {
        self.freeable
    }

    /// Index of a LEB in the main area, from 0.
    pub(super) fn position(&self, lnum: u32) -> Result<usize> {
        let main = &self.layout.limits.main;
        if main.contains(&lnum) {
            Ok((lnum - main.start) as usize)
        } else {
            Err(Error::corrupt(lnum, 0, "not a LEB of the main area"))
        }
    }

    pub(super) fn get(&self, lnum: u32) -> Result<LebSpace> {
        let position = self.position(lnum)?;
        Ok(self.at(position).unwrap_or_default())
    }

    /// Properties of the LEB at an index; `None` past the end of the main area.
    pub(super) fn at(&self, position: usize) -> Option<LebSpace> {
        self.lebs.get(position).copied()
    }

    /// Sets properties. Returns true if a value stored in the LPT changed.
    ///
    /// # Errors
    /// More space than a LEB has; a LEB outside the main area.
    pub(super) fn set(&mut self, lnum: u32, space: LebSpace) -> Result<bool> {
        let position = self.position(lnum)?;
        let leb = self.layout.leb_bytes();
        let new =
            LebSpace { free: align8(space.free.min(leb)), dirty: align8(space.dirty.min(leb)), ..space };
        if space.free > leb || new.free.saturating_add(new.dirty) > leb {
            return Err(Error::corrupt(lnum, 0, "more free and dirty space than the LEB has"));
        }
        let old = self.at(position).unwrap_or_default();
        self.uncount(old);
        self.lebs[position] = new;
        self.count(new);
        Ok(LebSpace { taken: false, ..old } != LebSpace { taken: false, ..new })
    }

    /// All LEBs with their categories, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, LebSpace, Category)> + '_ {
        let main = self.layout.limits.main.clone();
        main.zip(&self.lebs).map(|(lnum, &leb)| (lnum, leb, self.category(leb)))
    }

    /// Category of a LEB (Linux: `ubifs_categorize_lprops`).
    pub(super) fn category(&self, leb: LebSpace) -> Category {
        let space = leb.free + leb.dirty;
        let size = self.layout.leb_bytes();
        match leb {
            _ if leb.taken => Category::Taken,
            // This includes a completely free index LEB, which only a hostile image contains.
            _ if space == size && leb.index => Category::FreeableIndex,
            _ if leb.free == size => Category::Empty,
            _ if space == size => Category::Freeable,
            _ if leb.index && space >= self.layout.min_index_node_bytes() => Category::DirtyIndex,
            _ if leb.index => Category::Full,
            _ if leb.dirty >= self.layout.dead_bytes && leb.dirty > leb.free => Category::Dirty,
            _ if leb.free > 0 => Category::Free,
            _ => Category::Full,
        }
    }

    /// Contribution of one LEB to the totals.
    fn share(&self, leb: LebSpace) -> SpaceTotals {
        let space = leb.free + leb.dirty;
        let empty = leb.free == self.layout.leb_bytes();
        let (dead, dark) = dead_and_dark(&self.layout, space);
        let data = |bytes: u32| if leb.index { 0 } else { u64::from(bytes) };
        SpaceTotals {
            empty_lebs: u32::from(empty),
            taken_empty_lebs: u32::from(empty && leb.taken),
            index_lebs: u32::from(leb.index),
            free: u64::from(leb.free),
            dirty: u64::from(leb.dirty),
            used: data(self.layout.leb_bytes() - space),
            dead: data(dead),
            dark: data(dark),
        }
    }

    fn count(&mut self, leb: LebSpace) {
        let share = self.share(leb);
        let totals = &mut self.totals;
        totals.empty_lebs += share.empty_lebs;
        totals.taken_empty_lebs += share.taken_empty_lebs;
        totals.index_lebs += share.index_lebs;
        totals.free += share.free;
        totals.dirty += share.dirty;
        totals.used += share.used;
        totals.dead += share.dead;
        totals.dark += share.dark;
        self.freeable += u32::from(self.category(leb) == Category::Freeable);
    }

    /// Reverts [`count`](Self::count) for a LEB.
    fn uncount(&mut self, leb: LebSpace) {
        let share = self.share(leb);
        let totals = &mut self.totals;
        totals.empty_lebs -= share.empty_lebs;
        totals.taken_empty_lebs -= share.taken_empty_lebs;
        totals.index_lebs -= share.index_lebs;
        totals.free -= share.free;
        totals.dirty -= share.dirty;
        totals.used -= share.used;
        totals.dead -= share.dead;
        totals.dark -= share.dark;
        self.freeable -= u32::from(self.category(leb) == Category::Freeable);
    }
}
