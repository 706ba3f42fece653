//! Tests of allocation units behind a cache in flash: many are opened, and written again once the cache no longer holds
//! them.

use super::writes::Layout;
use super::{Probe, ProbeError};
use crate::analysis::behind_cache::{FAT_BLOCKS, next_bytes, pause_ns, push_writes};
use crate::analysis::caches::Cache;
use crate::sample::{AUS_MOST, TURN_BYTES, Test};
use floatgate_host::Target;

/// Fewest allocation units that are tested.
const UNITS_MIN: u64 = 4;
/// Maximum number of the first allocation units that are tested.
const FAT_MOST: usize = 4;

impl<T: Target> Probe<'_, T> {
    /// Maximum number of bytes that these tests write, for a cache of `cache_bytes` and an allocation unit of `au`
    /// bytes.
    pub(super) const fn behind_cache_bytes(cache_bytes: u64, au: u64) -> u64 {
        let block_bytes = cache_bytes / 3;
        let cache = Cache { bytes: cache_bytes, before: 0.0, after: 0.0, block_bytes, pause: 0.0 };
        let blocks = 2 * (AUS_MOST + 1) + FAT_BLOCKS * FAT_MOST as u64;
        let units = 4 * AUS_MOST + 2 * FAT_MOST as u64;
        let pushed = push_writes(&cache) * TURN_BYTES + au;
        blocks * (2 * block_bytes + TURN_BYTES) + units * TURN_BYTES + 5 * pushed
    }

    /// Measures how many allocation units can be open in order and in random order, and whether the first ones of the
    /// device stay open.
    pub(super) fn measure_open_behind_cache(
        &mut self,
        layout: &Layout,
        cache: Cache,
    ) -> Result<(), ProbeError> {
        let fat: Vec<u64> = self.fat_aus(layout).into_iter().take(FAT_MOST).collect();
        let filled = *layout;
        let (layout, mut pool) = layout.behind_cache(self.usable, cache.bytes);
        if pool.all < UNITS_MIN {
            return Ok(());
        }
        for au in &fat {
            self.give_contents(&layout, *au)?;
        }
        self.measure_fat_alone(&layout, &mut pool, &fat)?;
        let aus = pool.take(pool.all);
        let parts = layout.au / TURN_BYTES;
        let mut order = InOrder::new(&layout, cache, pause_ns(&self.samples, &cache, Test::Push));
        for (test, places) in [(Test::OpenLinear, [0, 1]), (Test::OpenRandom, [parts - 1, parts - 2])] {
            let fat = if test == Test::OpenLinear { &fat[..] } else { &[] };
            self.begin_block(&mut order)?;
            for au in fat.iter().chain(&aus) {
                self.write_unit(&mut order, Test::WarmUp, 0, layout.position(*au, places[0]))?;
            }
            // These units have closed the unit of the sequential writes. If the sequential writes continued in it, it
            // would count as a unit in random order, open beside the next sequential unit. Therefore they continue in
            // the next unit.
            order.next = order.next.next_multiple_of(parts);
            self.push_out(&mut order)?;
            for (number, au) in (1..).zip(aus.iter().rev()) {
                self.begin_block(&mut order)?;
                self.write_unit(&mut order, test, number, layout.position(*au, places[1]))?;
            }
            for au in fat {
                for _ in 0..FAT_BLOCKS {
                    self.begin_block(&mut order)?;
                }
                self.write_unit(&mut order, Test::Fat, *au, layout.position(*au, places[1]))?;
            }
            self.push_out(&mut order)?;
        }
        self.measure_turns(&filled, &cache, &fat)
    }

    /// Writes in order until the cache contains no earlier data, and up to the end of an allocation unit, so that no
    /// unit stays open.
    pub(super) fn push_out(&mut self, order: &mut InOrder) -> Result<(), ProbeError> {
        let end = (order.next + push_writes(&order.cache)).next_multiple_of(order.parts);
        self.in_order(order, end - order.next)
    }

    /// Writes in order until the cache begins a block, which causes a pause unless the evicted block is empty. The next
    /// write of a test is then completely in the new block.
    fn begin_block(&mut self, order: &mut InOrder) -> Result<(), ProbeError> {
        for _ in 0..2 * order.cache.block_bytes / TURN_BYTES {
            let since = order.since;
            self.in_order(order, 1)?;
            if order.since < since {
                break;
            }
        }
        // The card closes a full unit by itself, and could then open a unit of the test without closing another one.
        // Therefore the next sequential unit is opened before.
        let is_full = order.next.is_multiple_of(order.parts);
        self.in_order(order, u64::from(is_full))
    }

    fn in_order(&mut self, order: &mut InOrder, writes: u64) -> Result<(), ProbeError> {
        for _ in 0..writes {
            let position = order.range.0 + order.next * TURN_BYTES % order.range.1;
            order.next += 1;
            self.write_unit(order, Test::Push, 0, position)?;
        }
        Ok(())
    }

    fn write_unit(
        &mut self,
        order: &mut InOrder,
        test: Test,
        about: u64,
        position: u64,
    ) -> Result<(), ProbeError> {
        let ns = self.write_through(test, about, position, TURN_BYTES)?;
        let begins = ns > order.pause_ns && order.since >= next_bytes(&order.cache);
        order.since = if begins { 0 } else { order.since + TURN_BYTES };
        Ok(())
    }
}

/// Writes in order behind a cache.
pub(super) struct InOrder {
    /// Start and length of the range; the length is a multiple of the allocation unit.
    range: (u64, u64),
    /// Writes per allocation unit.
    parts: u64,
    /// Number of the next write.
    next: u64,
    cache: Cache,
    /// Time above which a write begins a cache block, ns.
    pause_ns: u64,
    /// Bytes written since the last pause, without the write that paused.
    since: u64,
}

impl InOrder {
    pub(super) const fn new(layout: &Layout, cache: Cache, pause_ns: u64) -> Self {
        let (start, bytes) = layout.fill;
        let range = (start, bytes / layout.au * layout.au);
        Self { range, parts: layout.au / TURN_BYTES, next: 0, cache, pause_ns, since: 0 }
    }
}
