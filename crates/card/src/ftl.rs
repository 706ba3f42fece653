//! The core of the translation layer: a map from map units to slots, blocks that are opened, filled and closed, and cleaning.
//!
//! Policies only decide into which block a unit goes: [`open_aus`](crate::open_aus) into the block of its allocation unit, a [`Stream`]
//! into the one block that takes everything. Whatever its policy, a block is cleaned by writing its valid units anew, and is free when the
//! map points to none of its slots. It is erased when it is needed.

use crate::closed::ClosedBlocks;
use crate::discards::Discards;
use crate::log::LogCleaning;
use crate::nand::{Block, Fault, Kind, Nand, POOLS, State};
use crate::open_aus::OpenAus;
use crate::packed::PackedInts;
use crate::spare::BlockSpares;
use crate::spec::{CardSpec, Collector, FatKind, FatSpec, Mapping, RESERVE_BLOCKS};
use floatgate_mtd::Instant;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

/// Contents of a unit on its way into a slot.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Bytes from the host.
    Host(&'a [u8]),
    /// The slot to which the map points, read by the time given.
    Copy(Instant),
    /// The same, in the register of the die into which it is programmed.
    Inside(Instant),
}

/// Length of the requests that wrote a unit of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Less than the unit: the rest was read from the NAND.
    Part,
    /// The whole unit, with requests that are not too long for the log.
    Short,
    /// Too long for the log.
    Long,
}

/// Blocks that are filled one after the other with whatever comes.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Block that takes the next unit.
    frontier: Option<u32>,
    /// Blocks in use, the frontier included.
    blocks: u32,
    /// Blocks above which the oldest or emptiest is cleaned.
    limit: u32,
}

/// Counts of map units since the card was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    /// Units that the host wrote, or parts of them.
    pub(crate) host: u64,
    /// Units written to slots, copies included.
    pub(crate) written: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Ftl {
    pub(crate) nand: Nand,
    /// Slot + 1 of each map unit, 0 for none: those of the host, then the bitmaps of discards.
    map: PackedInts,
    discards: Discards,
    closed: ClosedBlocks,
    /// Blocks of each pool in which nothing is valid.
    free: [Vec<u32>; POOLS],
    /// Erased block of each pool that is opened next.
    standby: [Option<u32>; POOLS],
    /// Units of the host that are in the enhanced area: those below this number.
    enhanced_units: u32,
    /// By [`Kind`].
    streams: [Stream; 6],
    pub(crate) open: OpenAus,
    pub(crate) log_cleaning: Option<LogCleaning>,
    /// Clock of the controller.
    pub(crate) now: Instant,
    /// Ends of the programs that the buffer holds data for, a ring.
    in_flight: Vec<Instant>,
    oldest: usize,
    mapping: Mapping,
    collector: Collector,
    fat: FatSpec,
    slc_blocks: u32,
    refresh_reads: u32,
    static_difference: u32,
    idle_blocks: u32,
    /// Erases after which static wear levelling looks again.
    next_levelling: u64,
    /// Free blocks are taken worn ones first: data that does not change goes there.
    prefers_worn: bool,
    pub(crate) units: Units,
    /// Blocks that were moved because they had been read often.
    pub(crate) refreshes: u64,
}

/// Erases between two looks of static wear levelling.
const LEVELLING_ERASES: u64 = 8;

/// Greatest common divisor.
const fn gcd(mut one: u32, mut other: u32) -> u32 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

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

    /// Gives each stream its blocks; the main one of a page-mapped card takes what is left.
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

    /// Slots that the host's writes fill before a block must be cleaned for them: of the SLC cache, and of the stream behind it. An allocation unit that is
    /// written past any stream is cleaned when another is opened.
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

    /// Slot of a map unit, `None` when it was never written or is discarded.
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

    /// Writes a unit of the host, and does what the card must do about it before the next.
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

    /// Writes a unit past the SLC cache.
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

    /// The map does not point to this slot any more.
    #[inline]
    fn invalidate(&mut self, slot: u32) {
        let number = self.nand.block_of(slot);
        let is_in_ram = self.nand.is_in_ram(number, slot);
        let block = &mut self.nand.blocks[number as usize];
        block.valid -= 1;
        if is_in_ram {
            // Its page may be programmed later than what replaces it, and must not win by that.
            self.nand.forget(slot);
        } else if block.state == State::Closed {
            if block.valid == 0 {
                self.release(number);
            } else {
                self.closed.emptied(number, block);
            }
        }
    }

    /// A closed block without valid slots is free.
    fn release(&mut self, number: u32) {
        let block = &mut self.nand.blocks[number as usize];
        block.state = State::Free;
        self.closed.changed(number);
        let stream = &mut self.streams[block.kind as usize];
        stream.blocks = stream.blocks.saturating_sub(1);
        self.free[self.nand.pool_of(number)].push(number);
    }

    /// Programs the page of a block that was gathered, when there is room in the buffer for its end.
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

    /// A page of a block fails to program: the standby block takes over. One failure is possible until the next block is erased.
    fn replace(&mut self, block: u32, ready: Instant) -> Result<Instant, Fault> {
        let pool = self.nand.pool_of(block);
        let Some(standby) = self.standby[pool] else { return Ok(ready) };
        let ready = self.nand.replace(ready, block, standby)?;
        self.standby[pool] = None;
        self.units.written += u64::from(self.nand.blocks[block as usize].programmed);
        self.lose_block(pool);
        Ok(ready)
    }

    /// One block fewer for the main stream, or for the stream of the enhanced area.
    fn lose_block(&mut self, pool: usize) {
        let kind = if pool == Kind::Enhanced.pool() { Kind::Enhanced } else { Kind::Main };
        let stream = &mut self.streams[kind as usize];
        stream.limit = stream.limit.saturating_sub(1);
    }

    /// Closes a block: its summary is written, and it is free when nothing in it is valid.
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

    /// Opens the standby block, and erases the next: an erased block is there whenever power goes away, as all others may have contents
    /// that are needed again.
    pub(crate) fn open_block(&mut self, kind: Kind) -> Result<u32, Fault> {
        // What replaces the contents of a free block must be on the NAND before they are erased, or an older version would come back.
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

    /// Erases a block to stand by, unless discards must be recorded before, for which the last one may have been taken.
    fn prepare_standby(&mut self) -> Result<(), Fault> {
        for pool in 0..POOLS {
            if self.standby[pool].is_none() && self.discards.dirty().is_empty() {
                self.standby[pool] = self.erase_free(pool)?;
            }
        }
        Ok(())
    }

    /// Erases a free block of a pool, `None` when there is none. One that fails to erase is bad from now on.
    fn erase_free(&mut self, pool: usize) -> Result<Option<u32>, Fault> {
        while let Some(block) = self.take_free(pool) {
            if self.nand.erase(self.now, block)? {
                return Ok(Some(block));
            }
            self.lose_block(pool);
        }
        Ok(None)
    }

    /// The free block of a pool that is worn least, which is dynamic wear levelling, or most. Erased ones come first.
    fn take_free(&mut self, pool: usize) -> Option<u32> {
        let order = |place: &usize| {
            let block = &self.nand.blocks[self.free[pool][*place] as usize];
            (block.programmed > 0, if self.prefers_worn { u32::MAX - block.erases } else { block.erases })
        };
        // Of a card that is almost new there are thousands: none comes before the first one that was never erased.
        let is_new = |place: &usize| !self.prefers_worn && order(place) == (false, 0);
        let places = 0..self.free[pool].len();
        let place = places.clone().find(is_new).or_else(|| places.min_by_key(order))?;
        Some(self.free[pool].swap_remove(place))
    }

    /// Programs the pages that streams have gathered only partly.
    pub(crate) fn program_partial_pages(&mut self) -> Result<(), Fault> {
        // Bitmaps of discards come last: they have what others have written.
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

    /// All whole units that were written are on the NAND when this ends.
    pub(crate) fn end_programs(&mut self) -> Result<(), Fault> {
        self.program_partial_pages()?;
        self.now = self.in_flight.iter().fold(self.now, |now, end| now.max(*end));
        Ok(())
    }

    /// Everything written is on the NAND when this ends, and everything discarded.
    pub(crate) fn flush(&mut self) -> Result<(), Fault> {
        self.program_partial_pages()?;
        self.record_discards()?;
        self.now = self.in_flight.iter().fold(self.now, |now, end| now.max(*end));
        Ok(())
    }

    /// Writes the bitmaps that have changed, when no page is gathered in RAM.
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

    /// The bitmaps in the page that was just programmed are those of the map as it is.
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

    /// Forgets a unit: until the next flush in RAM only.
    pub(crate) fn discard(&mut self, unit: u32) {
        if let Some(slot) = self.map.replace(unit as usize, 0).checked_sub(1) {
            self.discards.add(unit);
            self.invalidate(slot);
        }
    }

    /// Cleans blocks of a stream until it has as many as it may have.
    fn collect(&mut self, kind: Kind) -> Result<(), Fault> {
        let mut left = self.nand.blocks.len();
        while self.streams[kind as usize].blocks > self.streams[kind as usize].limit {
            // So many blocks without one that became free: everything is valid.
            left = left.checked_sub(1).ok_or(Fault::WornOut)?;
            if !self.clean_one(kind)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The closed block of a stream to clean next.
    pub(crate) fn victim(&mut self, kind: Kind) -> Option<u32> {
        self.closed.update(&self.nand.blocks);
        let emptiest = self.closed.emptiest(kind)?;
        // Without a block to move to, only the emptiest is sure to become free.
        let must_move = self.standby[kind.pool()].is_none();
        match kind {
            _ if must_move => Some(emptiest),
            Kind::Slc => self.closed.oldest(kind),
            Kind::Log if !self.stays_in_stream(&self.nand.blocks[emptiest as usize]) => {
                let worth = |block: &Block| self.nand.worth_of_merging(block);
                let closed = self.closed.of(kind, &self.nand.blocks);
                closed
                    .max_by(|(one, _), (other, _)| worth(one).total_cmp(&worth(other)))
                    .map(|(_, number)| number)
            }
            _ if self.collector == Collector::Fifo => self.closed.oldest(kind),
            _ => Some(emptiest),
        }
    }

    /// True when the valid units of a block stay in its stream as it is cleaned, false when they go to the blocks of their allocation units.
    pub(crate) fn stays_in_stream(&self, block: &Block) -> bool {
        match block.kind {
            Kind::Fat | Kind::Discards | Kind::Enhanced => true,
            Kind::Main => self.mapping == Mapping::Page,
            // Most of it was written again: the rest may be soon, and moving it costs less than merging its allocation units.
            Kind::Log => block.valid <= self.nand.slots_of(Kind::Log) / 2,
            Kind::Slc => false,
        }
    }

    /// Cleans one block of a stream; false when there is none.
    fn clean_one(&mut self, kind: Kind) -> Result<bool, Fault> {
        match self.victim(kind) {
            Some(victim) => self.clean(victim).map(|()| true),
            None => Ok(false),
        }
    }

    /// Writes the valid units of a closed block anew, after which it is free.
    fn clean(&mut self, block: u32) -> Result<(), Fault> {
        let kind = self.nand.blocks[block as usize].kind;
        let stays = self.stays_in_stream(&self.nand.blocks[block as usize]);
        if kind == Kind::Discards {
            self.program_partial_pages()?;
        }
        let (first, end) = (self.nand.first_slot(block), self.nand.blocks[block as usize].next);
        let spares = self.nand.spares(block)?;
        let (mut page, mut ready) = (u32::MAX, self.now);
        for slot in first..first + end {
            let unit = spares.unit(slot - first).filter(|unit| self.slot(*unit) == Some(slot));
            let Some(unit) = unit else { continue };
            if page != self.nand.page_of(slot) {
                page = self.nand.page_of(slot);
                ready = self.nand.read_page(self.now, page);
            }
            self.move_unit(kind, stays, unit, ready)?;
        }
        Ok(())
    }

    /// Moves a unit out of a block that is cleaned, with all others of its allocation unit where that is merged.
    pub(crate) fn move_unit(
        &mut self,
        kind: Kind,
        stays: bool,
        unit: u32,
        ready: Instant,
    ) -> Result<(), Fault> {
        match kind {
            _ if stays => self.append(kind, unit, Source::Copy(ready)),
            Kind::Slc => self.write_through(unit, Source::Copy(ready), Extent::Short),
            _ => self.merge(self.open.au_of(unit)),
        }
    }

    /// Moves data that does not change into a worn block when erase counts differ too much (static wear levelling).
    fn level_wear(&mut self) -> Result<(), Fault> {
        self.next_levelling = self.nand.operations.erases + LEVELLING_ERASES;
        if self.static_difference == 0 {
            return Ok(());
        }
        for pool in 0..POOLS {
            self.closed.update(&self.nand.blocks);
            let most = self.nand.erases_max[pool];
            let is_cold =
                |block: &u32| most - self.nand.blocks[*block as usize].erases > self.static_difference;
            let Some(cold) = self.closed.least_worn(pool).filter(is_cold) else { continue };
            self.prefers_worn = true;
            let moved = self.move_block(cold);
            self.prefers_worn = false;
            moved?;
        }
        Ok(())
    }

    /// Moves the valid units of a block, those of a stream into a block of their own.
    fn move_block(&mut self, block: u32) -> Result<(), Fault> {
        let kind = self.nand.blocks[block as usize].kind;
        self.program_partial_pages()?;
        let frontier = self.streams[kind as usize].frontier.take();
        self.clean(block)?;
        self.program_partial_pages()?;
        if let Some(own) = self.streams[kind as usize].frontier.take() {
            self.close(own)?;
        }
        self.streams[kind as usize].frontier = frontier;
        self.collect_after_move()
    }

    /// A stream may have one block more than it should after a block was moved into it.
    fn collect_after_move(&mut self) -> Result<(), Fault> {
        self.collect(Kind::Discards)?;
        self.collect(Kind::Log)?;
        self.collect(Kind::Enhanced)?;
        if self.mapping == Mapping::Page {
            self.collect(Kind::Main)?;
        }
        if self.fat.kind == FatKind::Page { self.collect(Kind::Fat) } else { Ok(()) }
    }

    /// Reads the page of a slot. Returns the time at which it is there.
    pub(crate) fn read_page(&mut self, slot: u32) -> Instant {
        self.nand.read_page(self.now, self.nand.page_of(slot))
    }

    /// True when a block was read so often that its data must move (read disturb).
    #[inline]
    pub(crate) fn needs_refresh(&self, block: u32) -> bool {
        let block = &self.nand.blocks[block as usize];
        self.refresh_reads > 0 && block.reads >= self.refresh_reads && block.state == State::Closed
    }

    /// Moves the data of a closed block.
    pub(crate) fn refresh(&mut self, block: u32) -> Result<(), Fault> {
        self.refreshes += 1;
        self.clean(block)?;
        self.collect_after_move()
    }

    /// Works on its own until the host comes back: folds the SLC cache, prepares free blocks.
    pub(crate) fn idle(&mut self, until: Instant) -> Result<(), Fault> {
        while self.now < until {
            if !self.idle_step()? {
                break;
            }
            self.now = self.now.max(self.nand.busy_until());
        }
        Ok(())
    }

    fn idle_step(&mut self) -> Result<bool, Fault> {
        if self.slc_blocks > 0 && self.clean_one(Kind::Slc)? {
            return Ok(true);
        }
        let Stream { blocks, limit, .. } = self.streams[Kind::Main as usize];
        if self.mapping != Mapping::Page || blocks + self.idle_blocks <= limit {
            return Ok(false);
        }
        match self.victim(Kind::Main) {
            Some(victim) if self.nand.blocks[victim as usize].valid <= self.nand.slots_per_block / 2 => {
                self.clean(victim).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Makes the list of free blocks anew.
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

    /// Rebuilds the map from the spare areas after a loss of power, and takes the time of the scan.
    pub(crate) fn power_on(&mut self, at: Instant, cut_in: u64) -> Result<(), Fault> {
        self.nand.power_on(at, cut_in);
        self.now = at;
        self.in_flight.fill(self.now);
        self.open.clear();
        self.log_cleaning = None;
        self.discards.lose_power();
        self.scan();
        self.nand.powered()?;
        self.rebuild_map()?;
        self.read_discards();
        self.count_blocks();
        self.finish_merges()?;
        for kind in [Kind::Slc, Kind::Fat] {
            self.collect(kind)?;
        }
        self.collect_after_move()?;
        self.flush()
    }

    /// Reads the summaries of closed blocks and the spare areas of all pages of others.
    fn scan(&mut self) {
        let mut end = self.now;
        for block in 0..self.nand.blocks.len() as u32 {
            let first = self.nand.page_of(self.nand.first_slot(block));
            let pages = self.nand.page_of(self.nand.slots_per_block).max(1);
            for page in 0..self.nand.scan_pages(block) {
                end = end.max(self.nand.read_page(self.now, first + page % pages));
            }
        }
        self.now = end;
    }

    /// Goes through all pages in the order in which they were programmed: of the slots of a unit, the one that was written last is true.
    fn rebuild_map(&mut self) -> Result<(), Fault> {
        self.map.clear();
        let mut blocks: Vec<u32> = (0..self.nand.blocks.len() as u32).collect();
        blocks.retain(|block| self.nand.blocks[*block as usize].programmed > 0);
        blocks.sort_by_key(|block| Reverse(self.nand.blocks[*block as usize].opened));
        // Blocks with pages that were programmed at the same time as others', each with its next page.
        let mut pages: BinaryHeap<Reverse<(u64, u32, u32)>> = BinaryHeap::new();
        let mut open = BTreeMap::new();
        loop {
            let next = pages.peek().map(|Reverse((sequence, ..))| *sequence);
            let opened = blocks.last().map(|block| self.nand.blocks[*block as usize].opened);
            if opened.is_some_and(|opened| next.is_none_or(|next| opened <= next))
                && let Some(block) = blocks.pop()
            {
                // Nothing was programmed between its pages.
                let end = self.nand.blocks[block as usize].opened + u64::from(self.nand.pages_per_block());
                let is_alone = next.is_none()
                    && blocks.last().is_none_or(|next| self.nand.blocks[*next as usize].opened >= end);
                if let Some(unit) = self.nand.filled_from(block).filter(|_| is_alone) {
                    let slot = self.nand.first_slot(block);
                    self.map.replace_run(unit as usize, slot + 1, self.nand.slots_per_block);
                    continue;
                }
                let spares = self.nand.spares(block)?;
                pages.push(Reverse((self.nand.sequence(block, 0, &spares), block, 0)));
                open.insert(block, spares);
                continue;
            }
            let Some(Reverse((_, block, page))) = pages.pop() else { return Ok(()) };
            let Some(spares) = open.get(&block) else { continue };
            self.map_page(block, page, spares);
            if self.nand.slots_of_page(page + 1).start < self.nand.blocks[block as usize].programmed {
                pages.push(Reverse((self.nand.sequence(block, page + 1, spares), block, page + 1)));
            } else {
                open.remove(&block);
            }
        }
    }

    /// Takes the time to read the bitmaps of discards, which [`Self::rebuild_map`] has applied.
    fn read_discards(&mut self) {
        let slots: Vec<u32> = self.discards.bitmaps().filter_map(|bitmap| self.slot(bitmap)).collect();
        let end = slots.into_iter().map(|slot| self.read_page(slot)).max();
        self.now = end.map_or(self.now, |end| end.max(self.now));
    }

    /// Maps the units of a page of a block to its slots.
    fn map_page(&mut self, block: u32, page: u32, spares: &BlockSpares) {
        for slot in self.nand.slots_of_page(page) {
            if let Some(unit) = spares.unit(slot) {
                self.map.replace(unit as usize, self.nand.first_slot(block) + slot + 1);
                if unit >= self.host_units() {
                    self.discards.apply(unit, &mut self.map);
                }
            }
        }
    }

    /// Counts valid slots, and finds the state of each block.
    fn count_blocks(&mut self) {
        self.nand.blocks.iter_mut().for_each(|block| block.valid = 0);
        let nand = &mut self.nand;
        self.map.for_each_run(|entry, count| {
            let block = nand.block_of(entry - 1);
            nand.blocks[block as usize].valid += count;
        });
        self.closed.all_changed();
        for stream in &mut self.streams {
            (stream.frontier, stream.blocks) = (None, 0);
        }
        for number in 0..self.nand.blocks.len() as u32 {
            let block = &self.nand.blocks[number as usize];
            if matches!(block.state, State::Bad | State::Firmware) {
                continue;
            }
            let stream = &mut self.streams[block.kind as usize];
            stream.blocks += u32::from(block.valid > 0);
            let is_stream = block.kind != Kind::Main || self.mapping == Mapping::Page;
            let has_room = block.next < self.nand.slots_of(block.kind) && !block.has_summary;
            let state = match block.valid {
                0 => State::Free,
                // The frontier goes on where it was, so that no number of cuts uses up the free blocks.
                _ if is_stream && has_room && stream.frontier.is_none() => {
                    stream.frontier = Some(number);
                    State::Open
                }
                _ => State::Closed,
            };
            self.nand.blocks[number as usize].state = state;
        }
        self.find_free();
    }

    /// Puts into order what open allocation units had in several blocks.
    fn finish_merges(&mut self) -> Result<(), Fault> {
        for au in 0..self.open.aus(self.host_units()) {
            let is_block_mapped = match self.fat_of(self.open.units_of(au).start) {
                FatKind::Page => false,
                FatKind::Pinned => true,
                FatKind::None => self.mapping != Mapping::Page,
            };
            if is_block_mapped && !self.is_in_order(au) {
                self.merge(au)?;
            }
        }
        Ok(())
    }

    /// True when all units of an allocation unit that are at their final place are in one block, each in its own slot.
    fn is_in_order(&self, au: u32) -> bool {
        let units = self.open.units_of(au);
        let first = units.start;
        if self.is_filled(first) {
            return true;
        }
        let mut home = None;
        units.filter(|unit| *unit < self.host_units()).filter_map(|unit| Some((unit, self.slot(unit)?))).all(
            |(unit, slot)| {
                let block = self.nand.block_of(slot);
                let is_home =
                    *home.get_or_insert(block) == block && slot - self.nand.first_slot(block) == unit - first;
                is_home || self.nand.blocks[block as usize].kind != Kind::Main
            },
        )
    }

    /// True when an allocation unit from this unit on has its contents in the slots of one block, as it was filled.
    fn is_filled(&self, first: u32) -> bool {
        let slots = self.nand.slots_per_block;
        let is_home = |slot: u32| slot == self.nand.first_slot(self.nand.block_of(slot));
        first + slots <= self.host_units()
            && self.slot(first).is_some_and(is_home)
            && self.map.is_run(first as usize, slots as usize)
    }

    /// Writes units in order that were never written, as long requests of the host do, a block at once where that has the same end. What is
    /// not whole blocks is written unit by unit.
    pub(crate) fn fill(&mut self, units: Range<u32>) -> Result<(), Fault> {
        let slots = self.nand.slots_per_block;
        let mut unit = units.start;
        while unit < units.end {
            let is_whole = unit.is_multiple_of(slots) && unit + slots <= units.end;
            let is_main = unit >= self.enhanced_units && self.fat_of(unit) == FatKind::None;
            if is_whole && is_main && self.fill_block(unit)? {
                unit += slots;
            } else {
                self.write_through(unit, Source::Host(&[]), Extent::Long)?;
                self.units.host += 1;
                unit += 1;
            }
        }
        Ok(())
    }

    /// Fills a block with the units from `unit` on; false when the block that takes them is begun already.
    fn fill_block(&mut self, unit: u32) -> Result<bool, Fault> {
        let slots = self.nand.slots_per_block;
        let block = match self.mapping {
            Mapping::Page if self.streams[Kind::Main as usize].frontier.is_some() => return Ok(false),
            Mapping::Page => self.open_frontier(Kind::Main)?,
            Mapping::Block | Mapping::Hybrid => self.open_in_order(unit)?,
        };
        self.now = self.nand.fill(self.now, block, unit);
        self.map.replace_run(unit as usize, self.nand.first_slot(block) + 1, slots);
        self.units.host += u64::from(slots);
        self.units.written += u64::from(slots);
        if self.mapping == Mapping::Page {
            self.streams[Kind::Main as usize].frontier = None;
            self.close(block)?;
            self.collect(Kind::Main)?;
        } else {
            self.close_filled(unit)?;
        }
        Ok(true)
    }

    /// Number of the last units, of `units` written in order, that are to be written one by one. They leave the SLC cache and the blocks of
    /// the stream behind it as ordinary requests do. None when blocks cannot be filled at once.
    pub(crate) fn units_through_cache(&self, units: u32) -> Option<u32> {
        if !self.nand.can_fill() {
            return None;
        }
        if self.slc_blocks == 0 {
            return Some(0);
        }
        let slc = self.nand.slots_of(Kind::Slc);
        let cache = slc.checked_mul(2 * (self.slc_blocks + 2))?;
        let step = slc.checked_mul(self.nand.slots_per_block)? / gcd(slc, self.nand.slots_per_block);
        let filled = units.checked_sub(cache)? / step * step;
        Some(units - filled)
    }

    /// Clones that are made from now on share the map, but for their changes.
    pub(crate) fn share_map(&mut self) {
        self.map.share();
    }

    /// Bytes of host memory of the map, and of what a real card has in spare areas.
    pub(crate) fn memory_bytes(&self) -> (usize, usize) {
        (self.map.memory_bytes() + self.discards.memory_bytes(), self.nand.spare_bytes())
    }

    /// Bytes of host memory that the map and the spare areas take now.
    pub(crate) fn held_bytes(&self) -> usize {
        self.map.held_bytes() + self.discards.memory_bytes() + self.nand.spare_bytes()
    }

    /// Checks what must always hold; the error says what does not.
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
