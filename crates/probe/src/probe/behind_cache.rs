//! Allocation units behind a cache in flash: many are opened, and written again when they are in no cache any more.

use super::writes::{Layout, Pool};
use super::{Probe, ProbeError};
use crate::analysis::behind_cache::{gap_writes, push_writes};
use crate::analysis::caches::Cache;
use crate::analysis::open_aus::{FAT_AUS, MOST, TURN_BYTES};
use crate::sample::Test;
use crate::target::Target;

impl<T: Target> Probe<'_, T> {
    /// Most bytes that these tests write behind a cache of this many bytes.
    pub(super) const fn behind_cache_bytes(cache_bytes: u64) -> u64 {
        let cache =
            Cache { bytes: cache_bytes, before: 0.0, after: 0.0, block_bytes: cache_bytes / 3, pause: 0.0 };
        let again = 2 * MOST * (gap_writes(&cache, Test::OpenLinear) + 2);
        let fat = FAT_AUS * (gap_writes(&cache, Test::Fat) + 2) + gap_writes(&cache, Test::Fat);
        (again + fat + 5 * push_writes(&cache)) * TURN_BYTES
    }

    /// Measures how many allocation units can be open in order and in any order, and whether those of `fat` stay open.
    pub(super) fn measure_open_behind_cache(
        &mut self,
        layout: &Layout,
        pool: &mut Pool,
        fat: &[u64],
        cache: Cache,
    ) -> Result<(), ProbeError> {
        let most = MOST.min(pool.all / 2);
        let parts = layout.au / TURN_BYTES;
        for (test, places) in [(Test::OpenLinear, [0, 1]), (Test::OpenRandom, [parts - 1, parts - 2])] {
            let aus = pool.take(most);
            let fat = if test == Test::OpenLinear { fat } else { &[] };
            for au in fat.iter().chain(&aus) {
                self.write_through(Test::WarmUp, 0, layout.position(*au, places[0]), TURN_BYTES)?;
            }
            // The unit of the writes in order was closed for them: gone on with, it would be one in any order, beside the next one in order.
            pool.in_order = pool.in_order.next_multiple_of(parts);
            self.push_out(layout, pool, &cache)?;
            for (number, au) in (1..).zip(aus.iter().rev()) {
                self.write_through(test, number, layout.position(*au, places[1]), TURN_BYTES)?;
                self.in_order(layout, pool, gap_writes(&cache, test))?;
            }
            for au in fat {
                self.in_order(layout, pool, gap_writes(&cache, Test::Fat))?;
                self.write_through(Test::Fat, *au, layout.position(*au, places[1]), TURN_BYTES)?;
            }
            self.push_out(layout, pool, &cache)?;
        }
        Ok(())
    }

    /// Writes in order until nothing of what was written before is in the cache.
    pub(super) fn push_out(
        &mut self,
        layout: &Layout,
        pool: &mut Pool,
        cache: &Cache,
    ) -> Result<(), ProbeError> {
        self.in_order(layout, pool, push_writes(cache))
    }

    fn in_order(&mut self, layout: &Layout, pool: &mut Pool, writes: u64) -> Result<(), ProbeError> {
        let parts = (layout.fill.1 / layout.au * layout.au / TURN_BYTES).max(1);
        for _ in 0..writes {
            let position = layout.fill.0 + pool.in_order % parts * TURN_BYTES;
            pool.in_order += 1;
            self.write_through(Test::Push, 0, position, TURN_BYTES)?;
        }
        Ok(())
    }
}
