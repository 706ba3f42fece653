//! Queries behind a cache in flash: writes that each cause a separate pause (analysis in [`crate::analysis::train`]).

use super::{Probe, ProbeError};
use crate::analysis::behind_cache::pause_ns;
use crate::analysis::caches::Cache;
use crate::analysis::train::{MARKS, distance, loop_bytes, settled_bytes, staying_bytes};
use crate::sample::{SECTOR, TURN_BYTES, Test};
use floatgate_host::Target;

/// Divisor of a cache block that gives the distance from its start to a query.
const INSIDE: u64 = 3;
/// Maximum number of bytes that the queries of a train write, and divisor of the probe's limit for them.
const BYTES_MAX: u64 = 4 << 30;
const LIMIT_PART: u64 = 4;
/// Units at the end of the range that stay unused: a position may be one unit later, and a query may continue in the
/// next unit.
const BEHIND: u64 = 4;
/// Maximum number of bytes written in search of a loop that stays in the cache, in cache lengths.
const RANGES: u64 = 8;

/// Loop of writes that keeps a cache full.
struct FillUp {
    /// First byte and length.
    range: (u64, u64),
    /// Number of writes so far.
    writes: u64,
    /// Pass that the writes belong to.
    pass: u64,
    /// Time above which a write begins a cache block, ns, and bytes since the last such write.
    pause_ns: u64,
    since: u64,
}

/// A series of queries, and of single sectors in their place, in consecutive allocation units.
pub(super) struct Train {
    fill_up: FillUp,
    cache: Cache,
    /// Total of the bytes written by the probe at which the train ends.
    until: u64,
    /// Allocation unit, B.
    pub(super) au: u64,
    /// Range of units that contain data.
    filled: (u64, u64),
    /// Next unit, and its distance to the following one in units: a query may continue in the next unit.
    unit: u64,
    step: u64,
    /// Offset in a unit of a sector that replaces a query, B.
    pub(super) rest: u64,
}

impl Train {
    /// Sets the allocation unit for queries that continue in the next unit.
    pub(super) const fn with_au(self, au: u64) -> Self {
        Self { au, unit: 0, step: 2, rest: 0, ..self }
    }

    /// Number of the pass.
    pub(super) const fn pass(&self) -> u64 {
        self.fill_up.pass
    }

    /// Number of units in the range.
    pub(super) const fn units(&self) -> u64 {
        (self.filled.1 / self.au).saturating_sub(BEHIND)
    }

    /// First byte of the next unit, wrapping around.
    pub(super) const fn next(&mut self) -> u64 {
        let unit = self.unit;
        self.unit = (unit + self.step) % (self.units() / self.step * self.step);
        self.filled.0 + unit * self.au
    }

    /// Maximum number of bytes that a pass of `queries` writes.
    const fn pass_bytes(&self, queries: u64) -> u64 {
        (queries + MARKS.len() as u64 + 1) * distance(&self.cache) * 5 / 4
            + settled_bytes(&self.cache) * 5 / 4
    }
}

impl<T: Target> Probe<'_, T> {
    /// Maximum number of bytes that a train writes.
    pub(super) fn train_bytes(&self) -> u64 {
        self.limits.map_or(BYTES_MAX, |limits| BYTES_MAX.min(limits.bytes / LIMIT_PART))
    }

    /// True when a pass of `queries` fits the remaining bytes.
    pub(super) const fn has_room(&self, train: &Train, queries: u64) -> bool {
        self.target.cost.written_bytes + train.pass_bytes(queries) <= train.until
    }

    /// Searches for a loop after `filled` that stays in the cache and has at least one cache block.
    pub(super) fn begin_train(
        &mut self,
        filled: (u64, u64),
        cache: Cache,
        au: u64,
    ) -> Result<Option<Train>, ProbeError> {
        let start = (filled.0 + filled.1).next_multiple_of(SECTOR);
        let until = self.target.cost.written_bytes + self.train_bytes();
        let has_units = filled.1 / au >= BEHIND + MARKS.iter().sum::<u64>();
        if !has_units || self.train_bytes() < RANGES * cache.bytes {
            return Ok(None);
        }
        let mut fill_up =
            FillUp { range: (start, loop_bytes(&cache)), writes: 0, pass: 0, pause_ns: u64::MAX, since: 0 };
        loop {
            let bytes = fill_up.range.1;
            if bytes < cache.block_bytes.max(2 * TURN_BYTES) || start + bytes > self.usable {
                return Ok(None);
            }
            self.fill_up(&mut fill_up, 2 * bytes + cache.block_bytes)?;
            if let Some(bytes) = staying_bytes(&self.samples, &cache, bytes) {
                fill_up.range.1 = bytes;
                fill_up.pause_ns = pause_ns(&self.samples, &cache, Test::Loop);
                return Ok(Some(Train { fill_up, cache, until, au, filled, unit: 0, step: 1, rest: 0 }));
            }
            fill_up.range.1 = bytes * 3 / 4 / TURN_BYTES * TURN_BYTES;
        }
    }

    /// Begins a pass with its marks.
    pub(super) fn begin_pass(&mut self, train: &mut Train) -> Result<(), ProbeError> {
        train.fill_up.pass += 1;
        for units in MARKS {
            for _ in 0..units {
                let position = train.next() + train.rest;
                self.part_of_query(Test::Loop, train, position, SECTOR)?;
            }
            self.end_query(train)?;
        }
        Ok(())
    }

    pub(super) fn part_of_query(
        &mut self,
        test: Test,
        train: &Train,
        position: u64,
        bytes: u64,
    ) -> Result<(), ProbeError> {
        self.target.keep(position, bytes)?;
        self.write(test, train.fill_up.pass, position, bytes).map(drop)
    }

    /// Fills about two cache blocks, so that the next query is inside a block: a query in two blocks would have two
    /// pauses.
    pub(super) fn end_query(&mut self, train: &mut Train) -> Result<(), ProbeError> {
        self.target.flush()?;
        let block = train.cache.block_bytes;
        for writes in 1..=(5 * block / 2).div_ceil(TURN_BYTES) {
            self.fill_up(&mut train.fill_up, TURN_BYTES)?;
            let inside = train.fill_up.since % block;
            let is_place = inside >= block / INSIDE && inside < block / INSIDE + TURN_BYTES;
            if is_place && 2 * writes * TURN_BYTES >= 3 * block {
                break;
            }
        }
        Ok(())
    }

    /// Writes a single sector in place of a query.
    pub(super) fn fill_in(&mut self, train: &mut Train, position: u64) -> Result<(), ProbeError> {
        self.part_of_query(Test::Loop, train, position, SECTOR)?;
        self.end_query(train)
    }

    /// Evicts all queries with single sectors at the same distance: the cache keeps each block that holds data from
    /// outside the loop.
    pub(super) fn evict_queries(&mut self, train: &mut Train) -> Result<(), ProbeError> {
        for _ in 0..settled_bytes(&train.cache) / distance(&train.cache) {
            let position = train.next() + train.rest;
            self.fill_in(train, position)?;
        }
        Ok(())
    }

    /// Writes to the loop that stays in the cache, with whole pages: a card that writes whole pages would pad each
    /// flushed write.
    fn fill_up(&mut self, fill_up: &mut FillUp, bytes: u64) -> Result<(), ProbeError> {
        let (start, length) = fill_up.range;
        for _ in 0..bytes.div_ceil(TURN_BYTES) {
            let write = fill_up.writes % (length / TURN_BYTES);
            fill_up.writes += 1;
            let position = start + write * TURN_BYTES;
            let ns = if write == 0 {
                // Without this flush, data of the range that is still in RAM would be overwritten there, and would not
                // reach the cache.
                self.write_through(Test::Loop, fill_up.pass, position, TURN_BYTES)?
            } else {
                self.target.keep(position, TURN_BYTES)?;
                self.write(Test::Loop, fill_up.pass, position, TURN_BYTES)?
            };
            fill_up.since = if ns > fill_up.pause_ns { 0 } else { fill_up.since + TURN_BYTES };
        }
        Ok(())
    }
}
