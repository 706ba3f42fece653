//! Exact number of open allocation units behind a cache, for small numbers: requests of [`crate::analysis::turns`].

use super::train::Train;
use super::writes::Layout;
use super::{Probe, ProbeError};
use crate::analysis::behind_cache::kept_aus;
use crate::analysis::caches::Cache;
use crate::analysis::open_aus::behind_cache;
use crate::analysis::turns::{TURNS_MOST, turns};
use crate::sample::{SECTOR, TURN_BYTES, Test};
use floatgate_host::Target;

impl<T: Target> Probe<'_, T> {
    /// Tests the questions that earlier tests left open. First, if there are two candidates for the number of units in
    /// random order, whether it equals the number in order. Second, whether units of the FAT area that seem to stay
    /// open really do. The filled range begins at a border.
    pub(super) fn measure_turns(
        &mut self,
        layout: &Layout,
        cache: &Cache,
        fat: &[u64],
    ) -> Result<(), ProbeError> {
        let (in_order, any_order) = behind_cache(&self.samples);
        let Some(linear) = in_order.count() else { return Ok(()) };
        // If any unit of the FAT area seems to stay open, all of them are written, for comparison.
        let fat = if kept_aus(&self.samples).is_empty() { &[] } else { fat };
        let is_one_of_two = !any_order.alternatives.is_empty() && linear <= TURNS_MOST;
        if fat.is_empty() && !is_one_of_two {
            return Ok(());
        }
        let Some(mut train) = self.begin_train(layout.fill, *cache, layout.au)? else { return Ok(()) };
        train.rest = layout.au / 2;
        self.evict_queries(&mut train)?;
        let fat_queries = 2 * fat.len() as u64 + linear;
        if !fat.is_empty() && fat_queries <= train.units() && self.has_room(&train, 2 * fat_queries) {
            self.fat_pass(&mut train, layout, fat, linear)?;
        }
        let queries = turns(cache, linear);
        if is_one_of_two && linear <= train.units() && self.has_room(&train, queries) {
            self.turn_pass(&mut train, linear, queries)?;
        }
        Ok(())
    }

    /// Writes units round robin, each backwards.
    fn turn_pass(&mut self, train: &mut Train, units: u64, queries: u64) -> Result<(), ProbeError> {
        self.begin_pass(train)?;
        let units: Vec<u64> = (0..units).map(|_| train.next()).collect();
        let places = (0..train.au / TURN_BYTES)
            .rev()
            .flat_map(|place| units.iter().map(move |unit| unit + place * TURN_BYTES));
        for position in places.take(queries as usize) {
            self.part_of_query(Test::TurnRandom, train, position, TURN_BYTES)?;
            self.end_query(train)?;
        }
        self.evict_queries(train)
    }

    /// Writes units of the FAT area, then others, then those of the FAT area again. `open` is the number of units that
    /// can be open.
    fn fat_pass(
        &mut self,
        train: &mut Train,
        layout: &Layout,
        fat: &[u64],
        open: u64,
    ) -> Result<(), ProbeError> {
        let middle = layout.au / TURN_BYTES / 2;
        for au in fat {
            self.fill_in(train, layout.position(*au, middle))?;
        }
        for _ in 0..=open {
            let position = train.next() + train.rest;
            self.fill_in(train, position)?;
        }
        // When the card closes a unit, it also evicts the cached data of this unit.
        self.evict_queries(train)?;
        self.begin_pass(train)?;
        for au in fat {
            self.part_of_query(Test::TurnFat, train, layout.position(*au, middle + 1), SECTOR)?;
            // The card may not cache its FAT area, but each query must go through the cache. Therefore another unit is
            // part of the query.
            let position = train.next() + train.rest;
            self.part_of_query(Test::TurnFat, train, position, SECTOR)?;
            self.end_query(train)?;
        }
        self.evict_queries(train)
    }
}
