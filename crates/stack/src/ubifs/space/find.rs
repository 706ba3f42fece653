//! Choice of LEBs for writing and collecting (Linux: `fs/ubifs/find.c`).
//!
//! Linux keeps heaps of limited size and falls back to scanning. Here every LEB is considered each time a LEB is
//! needed; among equally good ones the first is chosen.
//!
//! Reserved LEBs: the index may need three times its size while it is written (`Budget::min_index_lebs`). Only the
//! index itself may use the LEBs that make up the difference to its current size.

use super::super::error::{Error, Result};
use super::super::io::DynIo;
use super::table::Category;
use super::{LebSpace, Space};

/// Categories of LEBs that can be emptied without moving data.
const REUSABLE: [Category; 2] = [Category::Empty, Category::Freeable];

impl Space {
    /// The first LEB of a category.
    fn first(&self, wanted: Category) -> Option<(u32, LebSpace)> {
        self.table.iter().find(|(_, _, category)| *category == wanted).map(|(lnum, leb, _)| (lnum, leb))
    }

    /// All LEBs of a category.
    fn all(&self, wanted: Category) -> Vec<u32> {
        self.table.iter().filter(|(_, _, category)| *category == wanted).map(|(lnum, ..)| lnum).collect()
    }

    /// First LEB with the highest `worth` among those that `wanted` selects.
    fn best(
        &self,
        wanted: impl Fn(LebSpace, Category) -> bool,
        worth: impl Fn(LebSpace) -> u32,
    ) -> Option<(u32, LebSpace)> {
        let candidates = self.table.iter().filter(|&(_, leb, category)| wanted(leb, category));
        candidates.fold(None, |best: Option<(u32, LebSpace)>, (lnum, leb, _)| match best {
            Some((_, other)) if worth(other) >= worth(leb) => best,
            _ => Some((lnum, leb)),
        })
    }

    fn mark_taken(&mut self, lnum: u32) -> Result<LebSpace> {
        let leb = LebSpace { taken: true, ..self.get(lnum)? };
        self.set(lnum, leb)?;
        Ok(leb)
    }

    /// Number of unused LEBs that are empty now or after the next commit.
    pub(super) fn reusable_lebs(&self) -> u32 {
        let totals = self.totals();
        let index = u32::try_from(self.leaving.len()).unwrap_or(u32::MAX);
        (totals.empty_lebs + self.table.freeable() + index).saturating_sub(totals.taken_empty_lebs)
    }

    /// Number of LEBs of [`reusable_lebs`](Self::reusable_lebs) that are reserved for the index.
    pub(super) fn lebs_kept_for_index(&self) -> u32 {
        if !self.is_budgeted() {
            return 0;
        }
        self.min_index_lebs().saturating_sub(self.totals().index_lebs)
    }

    /// Number of LEBs that repeated calls of [`find_free_for_index`](Self::find_free_for_index) find.
    pub(crate) fn lebs_for_index(&self) -> usize {
        self.table.iter().filter(|(_, _, category)| REUSABLE.contains(category)).count()
    }

    /// LEB with at least `bytes` free at its end for a journal head, which becomes taken. `squeeze` prefers a partly
    /// used LEB to an empty one (Linux: for the base head). LEBs reserved for the index are not used. Returns the LEB
    /// and the offset of its free space. A completely free LEB has been unmapped.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn find_free(
        &mut self,
        io: &mut DynIo<'_>,
        bytes: u32,
        squeeze: bool,
    ) -> Result<Option<(u32, u32)>> {
        let pick_empty = self.lebs_kept_for_index() < self.reusable_lebs();
        let empty = self.first(Category::Empty).filter(|_| pick_empty);
        // Freeable LEBs are not used for the journal: the nodes that made theirs obsolete may still be in a write
        // buffer.
        let fits = |wanted| move |leb: LebSpace, category| category == wanted && leb.free >= bytes;
        let partly = self.best(fits(Category::Free), |leb| leb.free);
        let found = if squeeze { partly.or(empty) } else { empty.or(partly) };
        let found = found.or_else(|| self.best(fits(Category::Dirty), |leb| leb.free + leb.dirty));
        let Some((lnum, _)) = found else { return Ok(None) };
        let leb = self.mark_taken(lnum)?;
        let offset = io.layout().leb_bytes() - leb.free;
        if offset == 0 {
            // A power loss may have restored the old contents of an unmapped LEB.
            io.unmap(lnum)?;
        }
        Ok(Some((lnum, offset)))
    }

    /// Empty LEB for the index, which becomes a taken index LEB. Write buffers must be synced, because LEBs whose nodes
    /// they obsolete are used too. Index LEBs that became free are not used (see [`start_commit`](Self::start_commit)).
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn find_free_for_index(&mut self, io: &mut DynIo<'_>) -> Result<Option<u32>> {
        let found = self.first(Category::Empty).or_else(|| self.first(Category::Freeable));
        let Some((lnum, _)) = found else { return Ok(None) };
        io.unmap(lnum)?;
        let free = io.layout().leb_bytes();
        self.set(lnum, LebSpace { free, dirty: 0, index: true, taken: true })?;
        Ok(Some(lnum))
    }

    /// Best LEB to collect, with at least `bytes` free or dirty, which becomes taken. `pick_free` prefers an empty or
    /// freeable one that is not reserved for the index. An index LEB is chosen only while the index takes more than it
    /// needs, and only if half of the LEB can be gained.
    ///
    /// # Errors
    /// Currently none.
    pub(crate) fn find_dirty(&mut self, bytes: u32, pick_free: bool) -> Result<Option<(u32, LebSpace)>> {
        let (needed, used) = (self.min_index_lebs(), self.totals().index_lebs);
        // Linux also excludes the index if it uses exactly the space that it needs.
        self.find_dirty_but(bytes, pick_free, needed >= used)
    }

    /// Best LEB to collect that is not an index LEB; recovery needs one for the garbage collector. See
    /// [`find_dirty`](Self::find_dirty).
    ///
    /// # Errors
    /// Currently none.
    pub(crate) fn find_dirty_data(&mut self, bytes: u32) -> Result<Option<(u32, LebSpace)>> {
        self.find_dirty_but(bytes, true, true)
    }

    fn find_dirty_but(
        &mut self,
        bytes: u32,
        pick_free: bool,
        without_index: bool,
    ) -> Result<Option<(u32, LebSpace)>> {
        let pick_free = pick_free && self.lebs_kept_for_index() < self.reusable_lebs();
        let free = || REUSABLE.into_iter().find_map(|category| self.first(category));
        let found = if pick_free { free() } else { None };
        let found = found.or_else(|| self.most_dirty(bytes, without_index));
        let Some((lnum, _)) = found else { return Ok(None) };
        let leb = self.mark_taken(lnum)?;
        Ok(Some((lnum, leb)))
    }

    fn most_dirty(&self, bytes: u32, without_index: bool) -> Option<(u32, LebSpace)> {
        let layout = self.table.layout();
        let (dead, half) = (layout.dead_bytes, layout.leb_bytes() / 2);
        let gain = |leb: LebSpace| leb.free + leb.dirty;
        let index =
            self.best(|leb, category| category == Category::DirtyIndex && gain(leb) >= bytes.max(half), gain);
        let index = index.filter(|_| !without_index);
        let data = self.best(|leb, category| category == Category::Dirty && gain(leb) >= bytes, gain);
        let best = match (index, data) {
            (Some(index), Some(data)) if gain(index.1) >= gain(data.1) => Some(index),
            (index, data) => data.or(index),
        };
        // LEBs with less to gain, but more than nothing: Linux finds them by scanning.
        let partly = |leb: LebSpace| leb.dirty >= dead && gain(leb) >= bytes;
        best.or_else(|| self.best(|leb, category| category == Category::Free && partly(leb), gain))
    }

    /// Index LEB with most dirty space, for writing into its gaps; it becomes taken.
    ///
    /// LEBs that were dirty at the last commit come first, the dirtiest first: nodes obsoleted since are still needed
    /// by the index on flash. All other index LEBs follow. LEBs that are about to leave the index come last: such a LEB
    /// counts as completely free here, and the caller must set its space.
    ///
    /// # Errors
    /// Currently none.
    pub(crate) fn find_dirty_index(&mut self) -> Result<Option<u32>> {
        while let Some(lnum) = self.dirty_index.pop() {
            let leb = self.get(lnum)?;
            if leb.index && !leb.taken {
                self.mark_taken(lnum)?;
                return Ok(Some(lnum));
            }
        }
        let gaps = |_, category| matches!(category, Category::DirtyIndex | Category::FreeableIndex);
        if let Some((lnum, _)) = self.best(gaps, |leb| leb.free + leb.dirty) {
            self.mark_taken(lnum)?;
            return Ok(Some(lnum));
        }
        let Some(lnum) = self.leaving.pop() else { return Ok(None) };
        let leb = LebSpace { index: true, ..self.get(lnum)? };
        self.set(lnum, leb)?;
        Ok(Some(lnum))
    }

    /// Stores the list of dirty index LEBs, the dirtiest last.
    pub(super) fn remember_dirty_index(&mut self) {
        let dirty = self.table.iter().filter(|(_, _, category)| *category == Category::DirtyIndex);
        let mut lebs: Vec<(u32, u32)> = dirty.map(|(lnum, leb, _)| (leb.free + leb.dirty, lnum)).collect();
        lebs.sort_unstable();
        self.dirty_index = lebs.into_iter().map(|(_, lnum)| lnum).collect();
    }

    /// Marks a taken index LEB as emptied: the garbage collector has marked all of its nodes dirty. The index on flash
    /// still needs it, so it stays taken until [`commit_done`](Self::commit_done), and then counts as empty.
    ///
    /// # Errors
    /// The LEB is not a taken index LEB.
    pub(crate) fn leave_index(&mut self, lnum: u32) -> Result<()> {
        let leb = self.get(lnum)?;
        if !(leb.taken && leb.index) {
            return Err(Error::corrupt(lnum, 0, "not a LEB of the index in the collector's hands"));
        }
        let free = self.table.layout().leb_bytes();
        self.set(lnum, LebSpace { free, dirty: 0, index: false, taken: true })?;
        self.leaving.push(lnum);
        Ok(())
    }

    /// Begins a commit: LEBs without live nodes become empty. Write buffers must be synced, and the index is written
    /// afterwards.
    ///
    /// A LEB whose nodes are all obsolete is unmapped at once, because the journal on flash shows that they are. An
    /// index LEB is not unmapped yet, because the index on flash, from which a mount after a power loss starts, still
    /// uses its nodes. It leaves the index, but stays taken until the master node refers to the new index:
    /// [`commit_done`](Self::commit_done) unmaps and releases it. Before that, only writing into its gaps may use it
    /// ([`find_dirty_index`](Self::find_dirty_index)), which keeps the nodes of the old index.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn start_commit(&mut self, io: &mut DynIo<'_>) -> Result<()> {
        let free = io.layout().leb_bytes();
        for lnum in self.all(Category::Freeable) {
            io.unmap(lnum)?;
            self.set(lnum, LebSpace { free, ..LebSpace::default() })?;
        }
        for lnum in self.all(Category::FreeableIndex) {
            self.mark_taken(lnum)?;
            self.leave_index(lnum)?;
        }
        Ok(())
    }

    /// Unmaps and releases the LEBs that left the index, after the new index is on flash.
    pub(super) fn release_left(&mut self, io: &mut DynIo<'_>) -> Result<()> {
        for lnum in core::mem::take(&mut self.leaving) {
            io.unmap(lnum)?;
            self.set_taken(lnum, false)?;
        }
        Ok(())
    }
}
