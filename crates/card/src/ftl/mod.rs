//! Core of the flash translation layer: the map from map units to slots, the life cycle of blocks (open, full, closed, free),
//! and cleaning.
//!
//! A policy decides only into which block a unit is written. `block_mapped` uses the block of the unit's allocation unit; a [`Stream`]
//! uses its single open block for all units. Under each policy a block is cleaned by moving its valid units. It is free when the map
//! refers to none of its slots, and is erased before its next use.

mod block_mapped;
mod clean;
mod fill;
mod log;
mod power_on;

use crate::closed::ClosedBlocks;
use crate::discards::Discards;
use crate::nand::{Block, Fault, Kind, Nand, POOLS, State};
use crate::open_aus::OpenAus;
use crate::packed::PackedInts;
use crate::spare::BlockSpares;
use crate::spec::{CardSpec, Collector, FatKind, FatSpec, Mapping, RESERVE_BLOCKS};
use floatgate_mtd::Instant;

/// Source of the contents of a unit that is written to a slot.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Bytes from the host.
    Host(&'a [u8]),
    /// Contents of the unit's current slot, which was read at this time.
    Copy(Instant),
    /// Contents of the unit's current slot, which are in the register of the target die from this time on (copy-back).
    Inside(Instant),
}

/// Length of the requests that wrote a unit of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A part of the unit; the other sectors were read from the NAND.
    Part,
    /// The whole unit, by requests that are not too long for the log.
    Short,
    /// A request that is too long for the log.
    Long,
}

/// Blocks that are filled one after the other with all units of one kind.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Block that receives the next unit.
    frontier: Option<u32>,
    /// Number of blocks in use, including the frontier.
    blocks: u32,
    /// Number of blocks above which the oldest or emptiest block is cleaned.
    limit: u32,
}

/// Counts of map units since the card was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    /// Units that the host wrote, completely or partly.
    pub(crate) host: u64,
    /// Units written to slots, including copies.
    pub(crate) written: u64,
}

/// A log block that is being cleaned.
#[derive(Clone, Debug)]
struct LogCleaning {
    block: u32,
    /// Sequence number of its first page; a different number means that the block was erased in the meantime.
    opened: u64,
    spares: BlockSpares,
    /// Next slot to examine.
    next: u32,
    /// True if its units are moved within the log.
    stays: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Ftl {
    pub(crate) nand: Nand,
    /// Slot + 1 of each map unit, 0 for a unit without a slot. The host's units come first, then the bitmaps of
    /// discards.
    map: PackedInts,
    discards: Discards,
    closed: ClosedBlocks,
    /// Blocks of each pool without valid units.
    free: [Vec<u32>; POOLS],
    /// Erased block of each pool that is opened next.
    standby: [Option<u32>; POOLS],
    /// Number of the host's units in the enhanced area, which are its first units.
    enhanced_units: u32,
    /// Streams by [`Kind`].
    streams: [Stream; 6],
    open: OpenAus,
    log_cleaning: Option<LogCleaning>,
    /// Clock of the controller.
    pub(crate) now: Instant,
    /// Ring buffer with the end times of the programs whose data is still in RAM.
    in_flight: Vec<Instant>,
    oldest: usize,
    mapping: Mapping,
    collector: Collector,
    fat: FatSpec,
    slc_blocks: u32,
    refresh_reads: u32,
    static_difference: u32,
    idle_blocks: u32,
    /// Number of erases at which static wear levelling runs next.
    next_levelling: u64,
    /// True while the most worn free blocks are used first, for static data.
    prefers_worn: bool,
    pub(crate) units: Units,
    /// Blocks that were moved because they had been read often.
    pub(crate) refreshes: u64,
}

/// Number of erases between two runs of static wear levelling.
const LEVELLING_ERASES: u64 = 8;

impl Ftl {
    pub(crate) fn new(spec: &CardSpec, stores: bool, seed: u64) -> Self {
        let nand = Nand::new(spec, stores, seed);
        let slots_per_au = nand.slots_per_block;
        let blocks = nand.blocks.len();
        let slots = slots_per_au * blocks as u32;
        let discards = Discards::new(spec);
        let pages = (spec.buffer_bytes / spec.page_bytes).max(1) as usize;
        let mut ftl = Self {
            free: [Vec::with_capacity(blocks), Vec::new()],
            standby: [None; POOLS],
            enhanced_units: (spec.enhanced.bytes / spec.unit_bytes()) as u32,
            nand,
            map: PackedInts::new(discards.bitmaps().end as usize, slots),
            discards,
            closed: ClosedBlocks::new(blocks),
            streams: [Stream { frontier: None, blocks: 0, limit: 0 }; 6],
            open: OpenAus::new(spec, slots_per_au),
            log_cleaning: None,
            now: Instant::ZERO,
            in_flight: vec![Instant::ZERO; pages],
            oldest: 0,
            mapping: spec.mapping,
            collector: spec.collector,
            fat: spec.fat,
            slc_blocks: spec.slc.blocks,
            refresh_reads: spec.wear.refresh_reads,
            static_difference: spec.wear.static_difference,
            idle_blocks: spec.idle_blocks,
            next_levelling: LEVELLING_ERASES,
            prefers_worn: false,
            units: Units::default(),
            refreshes: 0,
        };
        ftl.set_limits(spec);
        ftl.find_free();
        ftl
    }

    /// Sets the limit of each stream. The main stream of a page-mapped card gets all remaining blocks.
    fn set_limits(&mut self, spec: &CardSpec) {
        let fat = if self.fat.kind == FatKind::Page { self.fat.aus + self.fat.spare_blocks } else { 0 };
        let slc = if spec.slc.blocks > 0 { spec.slc.blocks + 1 } else { 0 };
        let discards = spec.discard_blocks() as u32;
        let good = |pool: usize| {
            let blocks = self.nand.blocks.iter().zip(0u32..);
            let is_lost = |block: &Block| matches!(block.state, State::Bad | State::Firmware);
            let good = blocks.filter(|(block, number)| self.nand.pool_of(*number) == pool && !is_lost(block));
            good.count() as u32
        };
        let (good, enhanced) = (good(0), good(1));
        self.streams[Kind::Main as usize].limit = good.saturating_sub(RESERVE_BLOCKS + discards + fat + slc);
        self.streams[Kind::Log as usize].limit = spec.log_blocks;
        self.streams[Kind::Fat as usize].limit = fat;
        self.streams[Kind::Slc as usize].limit = spec.slc.blocks;
        self.streams[Kind::Discards as usize].limit = discards;
        self.streams[Kind::Enhanced as usize].limit = enhanced.saturating_sub(RESERVE_BLOCKS);
    }

    /// Number of the host's units.
    pub(crate) const fn host_units(&self) -> u32 {
        self.discards.units()
    }

    /// Number of slots that the host can fill before a block must be cleaned: slots of the SLC cache, and of the stream behind it. An allocation unit
    /// that is written outside of streams is cleaned when another one is opened.
    pub(crate) fn unused_slots(&self) -> u64 {
        let of = |kind: Kind| {
            let (stream, slots) = (&self.streams[kind as usize], self.nand.slots_of(kind));
            let begun = stream.frontier.map_or(0, |block| slots - self.nand.blocks[block as usize].next);
            u64::from(stream.limit.saturating_sub(stream.blocks)) * u64::from(slots) + u64::from(begun)
        };
        let enhanced = if self.enhanced_units > 0 { of(Kind::Enhanced) } else { 0 };
        if self.enhanced_units == self.host_units() {
            return enhanced;
        }
        let cache = if self.slc_blocks > 0 { of(Kind::Slc) } else { 0 };
        enhanced
            + cache
            + match self.mapping {
                Mapping::Page => of(Kind::Main),
                Mapping::Hybrid => of(Kind::Log),
                Mapping::Block => 0,
            }
    }

    /// Slot of a map unit; `None` if the unit was never written or was discarded.
    #[inline]
    pub(crate) fn slot(&self, unit: u32) -> Option<u32> {
        self.map.get(unit as usize).checked_sub(1)
    }

    fn fat_of(&self, unit: u32) -> FatKind {
        if self.fat.kind == FatKind::None {
            return FatKind::None;
        }
        let au = self.open.au_of(unit);
        let inside = (self.fat.first_au..self.fat.first_au + self.fat.aus).contains(&au);
        if inside { self.fat.kind } else { FatKind::None }
    }

    /// Writes a unit of the host, and does the cleaning that is necessary before the next unit.
    #[inline]
    pub(crate) fn write(&mut self, unit: u32, data: &[u8], extent: Extent) -> Result<(), Fault> {
        self.units.host += 1;
        let is_cached =
            self.slc_blocks > 0 && unit >= self.enhanced_units && self.fat_of(unit) == FatKind::None;
        if is_cached {
            self.write_to_stream(Kind::Slc, unit, Source::Host(data))?;
        } else {
            self.write_through(unit, Source::Host(data), extent)?;
        }
        if self.nand.operations.erases >= self.next_levelling {
            self.level_wear()?;
        }
        Ok(())
    }

    /// Writes a unit without using the SLC cache.
    #[inline]
    fn write_through(&mut self, unit: u32, source: Source<'_>, extent: Extent) -> Result<(), Fault> {
        match (self.fat_of(unit), self.mapping) {
            _ if unit < self.enhanced_units => self.write_to_stream(Kind::Enhanced, unit, source),
            (FatKind::Page, _) => self.write_to_stream(Kind::Fat, unit, source),
            (FatKind::Pinned, _) => self.write_to_au(unit, source, true),
            (FatKind::None, Mapping::Page) => self.write_to_stream(Kind::Main, unit, source),
            (FatKind::None, Mapping::Block) => self.write_to_au(unit, source, false),
            (FatKind::None, Mapping::Hybrid) if self.is_for_au(unit, extent) => {
                self.write_to_au(unit, source, false)
            }
            (FatKind::None, Mapping::Hybrid) => self.write_to_stream(Kind::Log, unit, source),
        }
    }

    #[inline]
    fn write_to_stream(&mut self, kind: Kind, unit: u32, source: Source<'_>) -> Result<(), Fault> {
        self.append(kind, unit, source)?;
        let Stream { blocks, limit, .. } = self.streams[kind as usize];
        match kind {
            _ if blocks > limit => self.collect(kind),
            Kind::Log if blocks == limit => self.clean_log_step(),
            _ => Ok(()),
        }
    }

    /// Writes a unit into the frontier of a stream.
    #[inline]
    fn append(&mut self, kind: Kind, unit: u32, source: Source<'_>) -> Result<(), Fault> {
        let block = match self.streams[kind as usize].frontier {
            Some(block) => block,
            None => self.open_frontier(kind)?,
        };
        self.put(block, unit, source)?;
        if self.nand.blocks[block as usize].next == self.nand.slots_of(kind) {
            self.streams[kind as usize].frontier = None;
            self.close(block)?;
        }
        Ok(())
    }

    fn open_frontier(&mut self, kind: Kind) -> Result<u32, Fault> {
        let block = self.open_block(kind)?;
        let stream = &mut self.streams[kind as usize];
        stream.frontier = Some(block);
        stream.blocks += 1;
        Ok(block)
    }

    /// Writes a unit into the next slot of an open block; the page is programmed when it is complete.
    #[inline]
    pub(crate) fn put(&mut self, block: u32, unit: u32, source: Source<'_>) -> Result<(), Fault> {
        let (slot, completes_page) = self.nand.take_slot(block, unit);
        let old = self.map.replace(unit as usize, slot + 1).checked_sub(1);
        let ready = match source {
            Source::Host(data) => {
                self.nand.store(slot, data);
                self.now
            }
            Source::Copy(ready) | Source::Inside(ready) => {
                if let Some(old) = old {
                    self.nand.copy(old, slot);
                }
                ready
            }
        };
        self.units.written += 1;
        if completes_page {
            self.program(block, ready, matches!(source, Source::Inside(_)))?;
        }
        if let Some(old) = old {
            self.invalidate(old);
        }
        Ok(())
    }

    /// Marks a slot as invalid, because the map no longer refers to it.
    #[inline]
    fn invalidate(&mut self, slot: u32) {
        let number = self.nand.block_of(slot);
        let is_in_ram = self.nand.is_in_ram(number, slot);
        let block = &mut self.nand.blocks[number as usize];
        block.valid -= 1;
        if is_in_ram {
            // Its page may be programmed later than the newer unit, and must not be taken as newer for that reason.
            self.nand.forget(slot);
        } else if block.state == State::Closed {
            if block.valid == 0 {
                self.release(number);
            } else {
                self.closed.emptied(number, block);
            }
        }
    }

    /// Frees a closed block without valid slots.
    fn release(&mut self, number: u32) {
        let block = &mut self.nand.blocks[number as usize];
        block.state = State::Free;
        self.closed.changed(number);
        let stream = &mut self.streams[block.kind as usize];
        stream.blocks = stream.blocks.saturating_sub(1);
        self.free[self.nand.pool_of(number)].push(number);
    }

    /// Programs the complete page of a block. It waits until the buffer has space for the data of the running program.
    #[inline]
    fn program(&mut self, block: u32, ready: Instant, is_inside: bool) -> Result<(), Fault> {
        self.now = self.now.max(self.in_flight[self.oldest]);
        let mut ready = self.now.max(ready);
        if self.nand.fails_to_program() {
            ready = self.replace(block, ready)?;
        }
        let end = self.nand.program(ready, block, is_inside)?;
        if self.nand.blocks[block as usize].kind == Kind::Discards {
            self.recorded(block);
        }
        self.in_flight[self.oldest] = end;
        self.oldest = if self.oldest + 1 == self.in_flight.len() { 0 } else { self.oldest + 1 };
        Ok(())
    }

    /// Replaces a block by the standby block after a failed page program. One failure is possible until the next block is
    /// erased.
    fn replace(&mut self, block: u32, ready: Instant) -> Result<Instant, Fault> {
        let pool = self.nand.pool_of(block);
        let Some(standby) = self.standby[pool] else { return Ok(ready) };
        let ready = self.nand.replace(ready, block, standby)?;
        self.standby[pool] = None;
        self.units.written += u64::from(self.nand.blocks[block as usize].programmed);
        self.lose_block(pool);
        Ok(ready)
    }

    /// Removes one block from the main stream, or from the stream of the enhanced area.
    fn lose_block(&mut self, pool: usize) {
        let kind = if pool == Kind::Enhanced.pool() { Kind::Enhanced } else { Kind::Main };
        let stream = &mut self.streams[kind as usize];
        stream.limit = stream.limit.saturating_sub(1);
    }

    /// Closes a block: writes its summary, and frees the block if it has no valid unit.
    pub(crate) fn close(&mut self, block: u32) -> Result<(), Fault> {
        if self.nand.blocks[block as usize].kind == Kind::Log {
            self.nand.blocks[block as usize].aus = self.aus_in(block)?;
        }
        let programmed = self.nand.program_summary(self.now, block);
        self.closed.changed(block);
        programmed?;
        if self.nand.blocks[block as usize].valid == 0 {
            self.release(block);
        }
        Ok(())
    }

    /// Opens the standby block, and erases the next standby block. An erased block must exist at any power loss, because the contents
    /// of all other blocks may be needed again.
    pub(crate) fn open_block(&mut self, kind: Kind) -> Result<u32, Fault> {
        // The newer versions of a free block's units must be on the NAND before the block is erased, because otherwise a power loss
        // would restore older versions.
        self.program_partial_pages()?;
        if kind != Kind::Discards {
            self.record_discards()?;
        }
        let is_levelling = self.prefers_worn && kind != Kind::Discards;
        let standby = if is_levelling { None } else { self.standby[kind.pool()].take() };
        let block = match standby {
            Some(block) => block,
            None => self.erase_free(kind.pool())?.ok_or(Fault::WornOut)?,
        };
        self.nand.open(block, kind);
        self.prepare_standby()?;
        Ok(block)
    }

    /// Erases a standby block for each pool, unless discards must be recorded first.
    fn prepare_standby(&mut self) -> Result<(), Fault> {
        for pool in 0..POOLS {
            if self.standby[pool].is_none() && self.discards.dirty().is_empty() {
                self.standby[pool] = self.erase_free(pool)?;
            }
        }
        Ok(())
    }

    /// Erases a free block of a pool; `None` if the pool has none. A block whose erase fails becomes bad.
    fn erase_free(&mut self, pool: usize) -> Result<Option<u32>, Fault> {
        while let Some(block) = self.take_free(pool) {
            if self.nand.erase(self.now, block)? {
                return Ok(Some(block));
            }
            self.lose_block(pool);
        }
        Ok(None)
    }

    /// Takes the least worn free block of a pool (dynamic wear levelling), or the most worn one. Erased blocks come
    /// first.
    fn take_free(&mut self, pool: usize) -> Option<u32> {
        let order = |place: &usize| {
            let block = &self.nand.blocks[self.free[pool][*place] as usize];
            (block.programmed > 0, if self.prefers_worn { u32::MAX - block.erases } else { block.erases })
        };
        // A card that is almost new has thousands of free blocks, so the search ends at the first one that was never
        // erased.
        let is_new = |place: &usize| !self.prefers_worn && order(place) == (false, 0);
        let places = 0..self.free[pool].len();
        let place = places.clone().find(is_new).or_else(|| places.min_by_key(order))?;
        Some(self.free[pool].swap_remove(place))
    }

    /// Programs the incomplete pages of streams.
    pub(crate) fn program_partial_pages(&mut self) -> Result<(), Fault> {
        // Bitmaps of discards come last, because they depend on the other writes.
        for kind in [Kind::Main, Kind::Log, Kind::Fat, Kind::Slc, Kind::Enhanced, Kind::Discards] {
            let Some(block) = self.streams[kind as usize].frontier else { continue };
            if self.nand.has_partial_page(block) {
                self.program(block, self.now, false)?;
                if self.nand.blocks[block as usize].next == self.nand.slots_of(kind) {
                    self.streams[kind as usize].frontier = None;
                    self.close(block)?;
                }
            }
        }
        Ok(())
    }

    /// Waits until all whole units that were written are on the NAND.
    pub(crate) fn end_programs(&mut self) -> Result<(), Fault> {
        self.program_partial_pages()?;
        self.now = self.in_flight.iter().fold(self.now, |now, end| now.max(*end));
        Ok(())
    }

    /// Waits until all written units and all discards are on the NAND.
    pub(crate) fn flush(&mut self) -> Result<(), Fault> {
        self.program_partial_pages()?;
        self.record_discards()?;
        self.now = self.in_flight.iter().fold(self.now, |now, end| now.max(*end));
        Ok(())
    }

    /// Writes the bitmaps that have changed. No page may be in RAM.
    fn record_discards(&mut self) -> Result<(), Fault> {
        if self.discards.dirty().is_empty() {
            return Ok(());
        }
        for bitmap in self.discards.dirty().clone() {
            self.write_to_stream(Kind::Discards, bitmap, Source::Host(&[]))?;
        }
        self.program_partial_pages()?;
        self.prepare_standby()
    }

    /// Records that the bitmaps in the page just programmed agree with the current map.
    #[cold]
    fn recorded(&mut self, block: u32) {
        let end = self.nand.first_slot(block) + self.nand.blocks[block as usize].programmed;
        let page = self.nand.page_of(end - 1);
        for bitmap in self.discards.bitmaps() {
            if self.slot(bitmap).is_some_and(|slot| self.nand.page_of(slot) == page) {
                self.discards.record(bitmap, &self.map);
            }
        }
    }

    /// Discards a unit. The discard is only in RAM until the next flush.
    pub(crate) fn discard(&mut self, unit: u32) {
        if let Some(slot) = self.map.replace(unit as usize, 0).checked_sub(1) {
            self.discards.add(unit);
            self.invalidate(slot);
        }
    }

    /// Reads the page of a slot. Returns the time at which it is in RAM.
    pub(crate) fn read_page(&mut self, slot: u32) -> Instant {
        self.nand.read_page(self.now, self.nand.page_of(slot))
    }

    /// Rebuilds the list of free blocks.
    fn find_free(&mut self) {
        self.standby = [None; POOLS];
        for pool in 0..POOLS {
            let blocks = self.nand.blocks.iter().zip(0u32..);
            let is_free =
                |block: &Block, number: u32| block.state == State::Free && self.nand.pool_of(number) == pool;
            let free = blocks.filter(|(block, number)| is_free(block, *number)).map(|(_, number)| number);
            self.free[pool] = free.collect();
        }
    }

    /// Lets later clones share the map; each clone stores only its own changes.
    pub(crate) fn share_map(&mut self) {
        self.map.share();
    }

    /// Maximum memory of the host for the map and for the spare areas, B.
    pub(crate) fn memory_bytes(&self) -> (usize, usize) {
        (self.map.memory_bytes() + self.discards.memory_bytes(), self.nand.spare_bytes())
    }

    /// Current memory of the host for the map and the spare areas, B.
    pub(crate) fn held_bytes(&self) -> usize {
        self.map.held_bytes() + self.discards.memory_bytes() + self.nand.spare_bytes()
    }

    /// Checks the invariants; the error describes a violated one.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut valid = vec![0u32; self.nand.blocks.len()];
        for (block, valid) in (0u32..).zip(&mut valid) {
            let (first, taken) = (self.nand.first_slot(block), self.nand.blocks[block as usize].next);
            let spares = self.nand.spares(block).map_err(|_| "the host's file cannot be read".to_owned())?;
            let holds =
                |slot: &u32| spares.unit(*slot).is_some_and(|unit| self.slot(unit) == Some(first + slot));
            *valid = (0..taken).filter(holds).count() as u32;
        }
        let mapped = self.map.iter().filter(|entry| *entry > 0).count();
        let held: usize = valid.iter().map(|valid| *valid as usize).sum();
        if mapped != held {
            return Err(format!("{mapped} units are mapped, and spare areas name {held} of them"));
        }
        let mut is_free = vec![false; self.nand.blocks.len()];
        for block in self.free.iter().flatten().chain(self.standby.iter().flatten()) {
            if std::mem::replace(&mut is_free[*block as usize], true) {
                return Err(format!("block {block} is free twice"));
            }
        }
        for (number, block) in self.nand.blocks.iter().enumerate() {
            if block.valid != valid[number] {
                return Err(format!(
                    "block {number} counts {} valid slots of {}",
                    block.valid, valid[number]
                ));
            }
            if (block.state == State::Free) != is_free[number] || (is_free[number] && block.valid > 0) {
                return Err(format!("block {number} is {:?} with {} valid slots", block.state, block.valid));
            }
        }
        if !self.closed.holds(&self.nand.blocks) {
            return Err("the index of closed blocks is not that of the blocks".to_owned());
        }
        let erases: u64 = self.nand.blocks.iter().map(|block| u64::from(block.erases)).sum();
        if erases != self.nand.operations.erases {
            return Err(format!("blocks count {erases} erases of {}", self.nand.operations.erases));
        }
        self.nand.check_energy()
    }
}
