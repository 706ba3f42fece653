//! Borders of allocation units behind a cache in flash: requests of [`crate::analysis::pairs`].

use super::train::Train;
use super::writes::Layout;
use super::{Probe, ProbeError};
use crate::analysis::caches::{Cache, units_behind};
use crate::analysis::pairs::{PARTS, PARTS_MIN, checks, narrowed, pairs, unit};
use crate::sample::{SECTOR, Test};
use floatgate_host::Target;

/// Maximum number of attempts for a pass.
const TRIES: u64 = 3;

impl<T: Target> Probe<'_, T> {
    /// Searches for a border behind a cache, if the allocation unit is one that the cache blocks imply.
    pub(super) fn measure_pairs(&mut self, layout: &Layout, cache: &Cache) -> Result<(), ProbeError> {
        self.ask("erase block");
        let Some(mut train) = self.begin_train(layout.fill, *cache, layout.au)? else { return Ok(()) };
        for au in units_behind(&self.samples, cache) {
            train = train.with_au(au);
            self.find_border(&mut train, cache)?;
            if unit(&self.samples, cache).is_some() {
                break;
            }
        }
        Ok(())
    }

    fn find_border(&mut self, train: &mut Train, cache: &Cache) -> Result<(), ProbeError> {
        let parts = (train.units() / 2).saturating_sub(3).min(PARTS) / 2 * 2;
        if parts < PARTS_MIN {
            return Ok(());
        }
        let au = train.au;
        // Offsets count from the beginning of a unit of the train.
        let (mut range, mut tries) = ((0, au), TRIES);
        if !self.has_room(train, 4 * parts) {
            return Ok(());
        }
        // The result of this first pass is not used, because other units are open before it than before the later
        // passes.
        self.evict_queries(train)?;
        self.pair_pass(train, 0, &pairs(au, au, parts))?;
        while range.1 > SECTOR {
            // The room includes the pass that verifies the border.
            if !self.has_room(train, 2 * parts) {
                return Ok(());
            }
            train.rest = range.0 + au / 2;
            self.pair_pass(train, range.0, &pairs(au, range.1, parts))?;
            let found = narrowed(&self.samples, cache, train.pass(), au, range, parts);
            tries = if found.is_some() { TRIES } else { tries - 1 };
            if tries == 0 {
                return Ok(());
            }
            range = found.unwrap_or(range);
        }
        for _ in 0..TRIES {
            self.pair_pass(train, range.0, &checks(au))?;
            if !self.has_room(train, parts) || unit(&self.samples, cache).is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Writes pairs of sectors at given distances after a position in a unit.
    fn pair_pass(&mut self, train: &mut Train, place: u64, pairs: &[[u64; 2]]) -> Result<(), ProbeError> {
        self.begin_pass(train)?;
        for pair in pairs {
            let first = train.next() + place;
            for distance in pair {
                self.part_of_query(Test::Pair, train, first + distance, SECTOR)?;
            }
            self.end_query(train)?;
        }
        self.evict_queries(train)
    }
}
