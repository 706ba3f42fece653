//! The card as the host sees it: bus, command overhead, the buffer for parts of units, and the account.

use crate::bus::{BusTime, ClockedBus};
use crate::ftl::{Extent, Ftl};
use crate::nand::{Block, Fault, Planes, State};
use crate::power::{CardEnergy, PowerSpec, Times};
use crate::registers::CardHealth;
use crate::spec::{BadSpec, CardSpec, HostSpec};
use floatgate_device::{Host, Resource, Span};
use floatgate_mtd::block_device::{check_count, check_sectors};
use floatgate_mtd::{
    BlockDevice, BlockError, BlockErrorKind, Breakdown, Instant, Nanos, Phase, SECTOR_BYTES,
};
use std::ops::Range;

/// Choices that are not the card's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardOptions {
    /// Seed of factory bad blocks, lives of blocks, and errors.
    pub seed: u64,
    /// Keep contents. Without, only times are computed and reads leave the buffer as it was.
    pub stores: bool,
}

impl Default for CardOptions {
    fn default() -> Self {
        Self { seed: 0, stores: true }
    }
}

/// Counts since the card was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardStats {
    /// Map units that the host wrote, whole or in part.
    pub host_units: u64,
    /// Map units written to the NAND, copies included.
    pub written_units: u64,
    /// Pages read from the NAND.
    pub page_reads: u64,
    /// Pages of data programmed.
    pub page_programs: u64,
    /// Pages programmed with the list of a block's addresses.
    pub summary_programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks whose data was moved because they had been read often.
    pub refreshes: u64,
}

impl CardStats {
    /// Units written to the NAND for each one that the host wrote, between `earlier` and now.
    pub fn write_amplification(&self, earlier: &Self) -> f64 {
        let host = self.host_units - earlier.host_units;
        (self.written_units - earlier.written_units) as f64 / host.max(1) as f64
    }
}

/// Host memory that a card takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardMemory {
    /// Bytes of the map: as many bits for each map unit as the number of a slot has, and one for what is discarded.
    pub map_bytes: usize,
    /// Bytes for the spare areas of pages that are not in the temporary file: those of blocks that are written, and a few bytes for each block.
    pub spare_bytes: usize,
}

/// Part of a map unit that waits in RAM for the rest.
#[derive(Clone, Debug)]
struct Pending {
    unit: u32,
    /// Sectors of the unit that are there.
    from: usize,
    to: usize,
    /// Some of it came with a request that is too long for the log.
    is_long: bool,
    data: Vec<u8>,
}

/// A simulated card.
#[derive(Clone, Debug)]
pub struct Card {
    bus: BusTime,
    read_command: Nanos,
    write_command: Nanos,
    au_switch: Nanos,
    /// The card is busy with a write until its data is programmed.
    is_write_through: bool,
    /// A flush ends although data is still in RAM.
    ignores_flush: bool,
    /// The buffer holds two pages: the next is read while one is sent.
    overlaps_reads: bool,
    idle_after: Nanos,
    capacity: u64,
    unit_sectors: u64,
    units_per_au: u32,
    /// Parts of units, the oldest first.
    pending: Vec<Pending>,
    pending_most: usize,
    /// Bytes of the longest request that goes to the log.
    log_request_most: usize,
    /// The next request is a further block of the command before.
    is_continued: bool,
    /// Bytes that the write command has brought so far.
    command_bytes: usize,
    /// A unit's worth of zeros, for discards of parts; a unit to fill one up.
    scratch: Vec<u8>,
    last_page: LastPage,
    is_worn_out: bool,
    power: PowerSpec,
    timeouts: HostSpec,
    /// Time spent asleep.
    asleep: Nanos,
    endurance_cycles: u32,
    /// First block of the enhanced area, and the rated cycles of its blocks.
    enhanced: (usize, u32),
    /// Blocks that were bad from the factory, and blocks that may fail beside them.
    factory_bad: u32,
    blocks_to_spare: u64,
    host: Host,
    ftl: Ftl,
}

/// A run of sectors inside one unit.
#[derive(Clone, Copy)]
struct Piece {
    unit: u32,
    from: usize,
    to: usize,
}

impl Piece {
    const fn sectors(&self) -> u64 {
        (self.to - self.from) as u64
    }

    const fn bytes(&self) -> usize {
        (self.to - self.from) * SECTOR_BYTES
    }

    /// Place in the unit, in bytes.
    const fn in_unit(&self) -> Range<usize> {
        self.from * SECTOR_BYTES..self.to * SECTOR_BYTES
    }
}

/// Page read last: the planes of which are in RAM, and since when.
#[derive(Clone, Copy, Debug)]
struct LastPage {
    page: u32,
    planes: Planes,
    ready: Instant,
}

const NO_PAGE: LastPage = LastPage { page: u32::MAX, planes: Planes::NONE, ready: Instant::ZERO };

impl Card {
    /// A new card.
    ///
    /// # Errors
    /// A specification that no card can have.
    pub fn new(spec: &CardSpec, options: CardOptions) -> Result<Self, BadSpec> {
        spec.check()?;
        let unit_bytes = spec.unit_bytes();
        Ok(Self {
            bus: BusTime::Mode(ClockedBus::of(
                spec.host.bus.map_or(spec.bus, |fastest| spec.bus.min(fastest)),
                spec.host.clock_hz,
            )),
            is_write_through: spec.write_through,
            ignores_flush: spec.loss.ignores_flush,
            read_command: spec.read_command(),
            write_command: spec.write_command(),
            au_switch: spec.timing.au_switch_us,
            overlaps_reads: spec.buffer_bytes >= 2 * spec.page_bytes,
            idle_after: spec.idle_after_us,
            capacity: spec.capacity_bytes / SECTOR_BYTES as u64,
            unit_sectors: unit_bytes / SECTOR_BYTES as u64,
            units_per_au: (spec.au_bytes / unit_bytes) as u32,
            pending: Vec::new(),
            log_request_most: match spec.log_request_bytes {
                0 => usize::MAX,
                most => usize::try_from(most).unwrap_or(usize::MAX),
            },
            is_continued: false,
            command_bytes: 0,
            pending_most: (spec.buffer_bytes / unit_bytes).clamp(1, 64) as usize,
            scratch: vec![0; unit_bytes as usize],
            last_page: NO_PAGE,
            is_worn_out: false,
            power: spec.power,
            timeouts: spec.host,
            asleep: Nanos::ZERO,
            endurance_cycles: spec.wear.endurance_cycles,
            enhanced: (spec.enhanced_first_block() as usize, spec.enhanced_cycles()),
            factory_bad: spec.bad_blocks,
            blocks_to_spare: spec.blocks_to_spare(),
            host: Host::default(),
            ftl: Ftl::new(spec, options.stores, options.seed),
        })
    }

    /// Counts since the card was made.
    pub fn stats(&self) -> CardStats {
        let (units, operations) = (self.ftl.units, self.ftl.nand.operations);
        CardStats {
            host_units: units.host,
            written_units: units.written,
            page_reads: operations.reads,
            page_programs: operations.programs,
            summary_programs: operations.summaries,
            erases: operations.erases,
            refreshes: self.ftl.refreshes,
        }
    }

    /// Bytes that the host can write before the card must clean a block for them, if it is neither idle nor
    /// discards anything. They are what is left of the SLC cache and of the blocks that were never written or
    /// are free.
    pub fn unused_bytes(&self) -> u64 {
        self.ftl.unused_slots() * self.unit_sectors * SECTOR_BYTES as u64
    }

    /// Number of blocks that are bad: from the factory, or since they failed.
    pub fn failed_blocks(&self) -> usize {
        self.ftl.nand.blocks.iter().filter(|block| block.state == State::Bad).count()
    }

    /// Life and spare blocks that are used, as a share of 1 where the rated cycles and the blocks to spare are.
    pub fn health(&self) -> CardHealth {
        let blocks = &self.ftl.nand.blocks;
        let (main, enhanced) = blocks.split_at(self.enhanced.0.min(blocks.len()));
        let used = |blocks: &[Block], cycles: u32| {
            let damage: f64 = blocks.iter().map(|block| self.ftl.nand.damage(block.erases)).sum();
            damage / blocks.len().max(1) as f64 / f64::from(cycles.max(1))
        };
        let failed = self.failed_blocks().saturating_sub(self.factory_bad as usize);
        CardHealth {
            life_used: used(main, self.endurance_cycles),
            enhanced_used: (!enhanced.is_empty()).then(|| used(enhanced, self.enhanced.1)),
            spare_used: failed as f64 / self.blocks_to_spare.max(1) as f64,
        }
    }

    /// Erase counts of all blocks.
    pub fn erase_counts(&self) -> impl Iterator<Item = u32> {
        self.ftl.nand.blocks.iter().map(|block| block.erases)
    }

    /// Time spent asleep since the card was made.
    pub const fn asleep(&self) -> Nanos {
        self.asleep
    }

    /// Most reads of a block since it was erased: the count by which its data is moved.
    pub fn most_reads(&self) -> u32 {
        self.ftl.nand.blocks.iter().map(|block| block.reads).max().unwrap_or(0)
    }

    /// Clones that are made from now on share the memory of the map with this card, but for what each of them changes.
    pub fn share_map(&mut self) {
        self.ftl.share_map();
    }

    /// Writes the first `sectors` of a card to which nothing was written, in order and with long requests. The computing time grows with
    /// the number of blocks, not of sectors. Returns the number of sectors that were written; the card leaves the rest to ordinary
    /// requests, all of it when it keeps contents or when operations can fail.
    ///
    /// # Errors
    /// `WornOut`.
    pub fn fill_in_order(&mut self, sectors: u64) -> Result<u64, BlockError> {
        let units = (sectors.min(self.capacity) / self.unit_sectors) as u32;
        let is_new = self.ftl.units.host == 0 && self.pending.is_empty();
        let Some(rest) = self.ftl.units_through_cache(units).filter(|_| is_new) else { return Ok(0) };
        self.ftl.now = self.host.now();
        let filled = self.ftl.fill(0..units - rest);
        self.finish();
        self.checked(0, filled)?;
        Ok(u64::from(units - rest) * self.unit_sectors)
    }

    /// Host memory of the map and the spare areas.
    pub fn memory(&self) -> CardMemory {
        let (map_bytes, spare_bytes) = self.ftl.memory_bytes();
        CardMemory { map_bytes, spare_bytes }
    }

    /// Bytes of host memory that the map and the spare areas take now.
    pub fn held_bytes(&self) -> usize {
        self.ftl.held_bytes()
    }

    /// Time at which the card is ready for the next request.
    pub const fn now(&self) -> Instant {
        self.host.now()
    }

    /// Power goes away during the `operations`th program or erase from now on; 0 for never.
    pub fn order_cut(&mut self, operations: u64) {
        self.ftl.nand.order_cut(operations);
    }

    /// The card is pulled out at this time: an operation of the NAND that ends later than the hold-up time allows is torn, and the card
    /// answers no request that begins later.
    pub const fn order_removal(&mut self, at: Instant) {
        self.ftl.nand.order_removal(at);
    }

    /// The host waits as long as this from now on.
    pub const fn set_host(&mut self, host: HostSpec) {
        self.timeouts = host;
    }

    /// Leaves the time of commands and data on the bus to the host, who clocks the wires. The host has no time limit of its own.
    pub(crate) fn leave_bus_to_host(&mut self) {
        self.bus = BusTime::Wires;
        // Such a host ends each write command with a flush.
        self.is_write_through = false;
        self.timeouts = HostSpec::default();
    }

    /// Takes the next request as a further block of the command before: the firmware has set it up already.
    pub(crate) const fn continue_command(&mut self) {
        self.is_continued = true;
    }

    /// True when the buffer holds two pages: the next is read while one is sent.
    pub(crate) const fn reads_ahead(&self) -> bool {
        self.overlaps_reads
    }

    /// Neither an operation nor a moment is ordered to lose power any more.
    pub const fn cancel_cuts(&mut self) {
        self.ftl.nand.cancel_cuts();
    }

    /// True when power is lost.
    pub const fn is_lost(&self) -> bool {
        self.ftl.nand.is_lost()
    }

    /// Starts or stops recording the activities of bus, firmware and array.
    pub fn record(&mut self, on: bool) {
        self.host.record(on);
    }

    /// Activities recorded since the last call, by start.
    pub fn take_spans(&mut self) -> Vec<Span> {
        self.host.take_spans()
    }

    /// Energy taken since the card was made.
    pub fn energy(&self) -> CardEnergy {
        let spent = self.host.spent();
        let bus = spent[Phase::Command] + spent[Phase::Data];
        let busy = spent.total().saturating_sub(spent[Phase::Waiting]);
        let elapsed = self.host.now().since(Instant::ZERO);
        let idle = elapsed.saturating_sub(busy).saturating_sub(self.asleep);
        self.ftl.nand.supply.energy(Times { bus, busy, idle, asleep: self.asleep })
    }

    /// Takes power away now. Operations that were begun end.
    pub fn cut_power(&mut self) {
        self.ftl.nand.lose_power();
    }

    /// Switches power on: the map is rebuilt from the NAND. Power goes away again during the `cut_in`th program or erase of this work
    /// or later; 0 for never. Returns the time at which the card is ready.
    ///
    /// # Errors
    /// `PowerLost` when power went away again meanwhile, `WornOut`.
    pub fn power_on(&mut self, now: Instant, cut_in: u64) -> Result<Instant, BlockError> {
        self.pending.clear();
        self.last_page = NO_PAGE;
        self.host.resume(now);
        if self.ftl.nand.is_dead() {
            return Err(BlockErrorKind::Dead.at(0, self.host.now()));
        }
        let recovered = self.ftl.power_on(self.host.now(), cut_in);
        self.finish();
        self.checked(0, recovered)
    }

    /// Checks the map against the NAND: every unit has one place, valid counts add up, erase counts are conserved, each operation took its
    /// energy.
    ///
    /// # Errors
    /// A description of what does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.ftl.check()
    }

    /// A request begins: the card works on its own until then, then the command goes over the bus.
    fn start(&mut self, now: Instant, lba: u64, firmware: Nanos) -> Result<(), BlockError> {
        let is_continued = std::mem::take(&mut self.is_continued);
        let ready = self.host.now();
        let silent_from = ready + self.idle_after;
        self.host.resume(now);
        if self.ftl.nand.is_gone(self.host.now()) {
            return Err(BlockErrorKind::PowerLost.at(lba, self.host.now()));
        }
        if silent_from < now && !self.is_worn_out {
            self.ftl.now = silent_from;
            let worked = self.ftl.idle(now);
            self.checked(lba, worked)?;
            self.host.pass_until(self.ftl.now, Phase::Waiting);
        }
        self.wake(ready, now);
        self.host.spend(Resource::Bus, Phase::Command, self.bus.command(), "command");
        if !is_continued {
            self.host.spend(Resource::Controller, Phase::Controller, firmware, "firmware");
            self.command_bytes = 0;
        }
        self.ftl.now = self.host.now();
        Ok(())
    }

    /// The card was ready at some time, has slept after a while without a request or work of its own, and wakes up.
    fn wake(&mut self, ready: Instant, now: Instant) {
        let asleep = now.since((ready + self.power.sleep_after_us).max(self.ftl.now));
        if self.power.sleep_after_us > Nanos::ZERO && asleep > Nanos::ZERO {
            self.asleep += asleep;
            self.host.spend(Resource::Controller, Phase::Controller, self.power.wake_us, "wake");
        }
    }

    /// The stop command (CMD12) of a transfer of several blocks.
    fn stop(&mut self, sectors: usize) {
        if sectors > 1 {
            self.host.spend(Resource::Bus, Phase::Command, self.bus.command(), "stop");
        }
    }

    /// Gives up a request that began at `start` and takes longer than `limit`; the card has finished it nevertheless.
    fn in_time(
        &self,
        (lba, start, limit): (u64, Instant, Nanos),
        outcome: Result<Instant, BlockError>,
    ) -> Result<Instant, BlockError> {
        let end = *outcome.as_ref().unwrap_or_else(|error| &error.at);
        if limit > Nanos::ZERO && end.since(start) > limit {
            return Err(BlockErrorKind::TimedOut.at(lba, start + limit));
        }
        outcome
    }

    /// Time at which the card can begin with a request.
    fn begin(&self, now: Instant) -> Instant {
        now.max(self.host.now())
    }

    /// The request ends when the controller says so: what was not the bus was the array.
    fn finish(&mut self) {
        self.host.wait_until(self.ftl.now, Resource::Die(0), Phase::Array, "array");
    }

    fn checked(&mut self, lba: u64, outcome: Result<(), Fault>) -> Result<Instant, BlockError> {
        let kind = match outcome {
            Ok(()) => return Ok(self.host.now()),
            Err(Fault::PowerLost) => BlockErrorKind::PowerLost,
            Err(Fault::WornOut) => BlockErrorKind::WornOut,
            Err(Fault::HostFile) => BlockErrorKind::HostFile,
        };
        self.is_worn_out |= kind == BlockErrorKind::WornOut;
        Err(kind.at(lba, self.host.now()))
    }

    /// The first piece of a run of sectors.
    fn piece(&self, lba: u64, count: u64) -> Piece {
        let from = lba % self.unit_sectors;
        let to = (from + count).min(self.unit_sectors);
        Piece { unit: (lba / self.unit_sectors) as u32, from: from as usize, to: to as usize }
    }

    fn is_whole(&self, piece: Piece) -> bool {
        piece.to - piece.from == self.unit_sectors as usize
    }

    /// Writes a piece of a request of this extent.
    fn write_piece(&mut self, piece: Piece, data: &[u8], extent: Extent) -> Result<(), Fault> {
        if self.is_whole(piece) {
            if !self.pending.is_empty() {
                self.pending.retain(|pending| pending.unit != piece.unit);
            }
            return self.ftl.write(piece.unit, data, extent);
        }
        let place = self.pending_place(piece)?;
        let pending = &mut self.pending[place];
        (pending.from, pending.to) = (pending.from.min(piece.from), pending.to.max(piece.to));
        pending.is_long |= extent == Extent::Long;
        pending.data[piece.from * SECTOR_BYTES..piece.to * SECTOR_BYTES].copy_from_slice(data);
        let is_complete = pending.to - pending.from == self.unit_sectors as usize;
        if is_complete { self.evict(place) } else { Ok(()) }
    }

    /// The buffer into which a part of a unit goes, which it must touch or overlap.
    fn pending_place(&mut self, piece: Piece) -> Result<usize, Fault> {
        if let Some(place) = self.pending.iter().position(|pending| pending.unit == piece.unit) {
            let pending = &self.pending[place];
            if piece.from > pending.to || pending.from > piece.to {
                self.fill(place)?;
            }
            return Ok(place);
        }
        if self.pending.len() == self.pending_most {
            self.evict(0)?;
        }
        let data = vec![0; self.scratch.len()];
        self.pending.push(Pending { unit: piece.unit, from: piece.from, to: piece.to, is_long: false, data });
        Ok(self.pending.len() - 1)
    }

    /// Completes a buffered unit from what the NAND has of it.
    fn fill(&mut self, place: usize) -> Result<(), Fault> {
        let Pending { unit, from, to, .. } = self.pending[place];
        let mut old = std::mem::take(&mut self.scratch);
        old.fill(0);
        if let Some(slot) = self.ftl.slot(unit) {
            let planes = self.ftl.nand.planes_of(slot, 0..old.len());
            self.ftl.now = self.ftl.now.max(self.page_ready(slot, planes));
            self.ftl.nand.load(slot, 0, &mut old);
        }
        let pending = &mut self.pending[place];
        let (from, to) = (from * SECTOR_BYTES, to * SECTOR_BYTES);
        pending.data[..from].copy_from_slice(&old[..from]);
        pending.data[to..].copy_from_slice(&old[to..]);
        (pending.from, pending.to) = (0, old.len() / SECTOR_BYTES);
        self.scratch = old;
        Ok(())
    }

    /// Writes a buffered unit to the NAND, completed when it is only a part.
    fn evict(&mut self, place: usize) -> Result<(), Fault> {
        let Pending { from, to, is_long, .. } = self.pending[place];
        let is_whole = to - from == self.unit_sectors as usize;
        if !is_whole {
            self.fill(place)?;
        }
        let extent = match (is_long, is_whole) {
            (true, _) => Extent::Long,
            (false, true) => Extent::Short,
            (false, false) => Extent::Part,
        };
        let pending = self.pending.remove(place);
        self.ftl.write(pending.unit, &pending.data, extent)
    }

    /// Programs all that is in RAM.
    fn empty_ram(&mut self) -> Result<(), Fault> {
        self.evict_all()?;
        self.ftl.flush()
    }

    fn evict_all(&mut self) -> Result<(), Fault> {
        while !self.pending.is_empty() {
            self.evict(0)?;
        }
        Ok(())
    }

    /// Planes that a read needs of the page in which it begins. The map distinguishes this page from the next one.
    fn planes_ahead(&self, mut lba: u64, mut sectors: u64) -> Planes {
        if !self.ftl.nand.has_planes() {
            return Planes::FIRST;
        }
        let (mut planes, mut page) = (Planes::NONE, None);
        while sectors > 0 {
            let piece = self.piece(lba, sectors);
            let Some(slot) = self.ftl.slot(piece.unit) else { break };
            let here = self.ftl.nand.page_of(slot);
            if *page.get_or_insert(here) != here {
                break;
            }
            planes = planes.with(self.ftl.nand.planes_of(slot, piece.in_unit()));
            (lba, sectors) = (lba + piece.sectors(), sectors - piece.sectors());
        }
        planes
    }

    /// Time at which some planes of the page of a slot are in RAM; those that are not are read.
    fn page_ready(&mut self, slot: u32, planes: Planes) -> Instant {
        if self.ftl.nand.is_in_ram(self.ftl.nand.block_of(slot), slot) {
            return self.ftl.now;
        }
        let page = self.ftl.nand.page_of(slot);
        if self.last_page.page != page {
            self.last_page = LastPage { page, ..NO_PAGE };
        }
        let missing = planes.without(self.last_page.planes);
        if !missing.is_empty() {
            let ready = self.ftl.nand.read_planes(self.ftl.now, page, missing);
            self.last_page = LastPage { page, planes: self.last_page.planes.with(planes), ready };
        }
        self.last_page.ready
    }

    /// Reads a piece, and of its page the planes given. Returns the time at which it can go over the bus, and true when it could not be corrected.
    fn read_piece(&mut self, piece: Piece, planes: Planes, out: &mut [u8]) -> (Instant, bool) {
        let (mut ready, mut is_wrong) = (self.ftl.now, false);
        match self.ftl.slot(piece.unit) {
            Some(slot) => {
                ready = self.page_ready(slot, planes);
                is_wrong = self.ftl.nand.is_uncorrectable(self.ftl.nand.block_of(slot));
                self.ftl.nand.load(slot, piece.from * SECTOR_BYTES, out);
            }
            None if self.ftl.nand.stores() => out.fill(0),
            None => {}
        }
        if let Some(pending) = self.pending.iter().find(|pending| pending.unit == piece.unit) {
            let (from, to) = (pending.from.max(piece.from), pending.to.min(piece.to));
            if from < to && self.ftl.nand.stores() {
                let bytes = &pending.data[from * SECTOR_BYTES..to * SECTOR_BYTES];
                out[(from - piece.from) * SECTOR_BYTES..(to - piece.from) * SECTOR_BYTES]
                    .copy_from_slice(bytes);
            }
        }
        (ready, is_wrong)
    }

    /// Reads all pieces of a request: each goes over the bus when it is there and the one before has gone.
    fn read_pieces(&mut self, mut lba: u64, mut out: &mut [u8]) -> Result<Option<u64>, Fault> {
        let (mut wrong, mut au) = (None, None);
        while !out.is_empty() {
            let sectors = (out.len() / SECTOR_BYTES) as u64;
            let (piece, planes) = (self.piece(lba, sectors), self.planes_ahead(lba, sectors));
            if !self.overlaps_reads {
                self.ftl.now = self.host.now();
            }
            let (now, rest) = out.split_at_mut(piece.bytes());
            if au
                .replace(piece.unit / self.units_per_au)
                .is_some_and(|before| before != piece.unit / self.units_per_au)
            {
                // The firmware sets up reads of the next allocation unit when those of this one have ended.
                self.ftl.now = self.ftl.now.max(self.host.now()) + self.au_switch;
            }
            let (ready, is_wrong) = self.read_piece(piece, planes, now);
            if is_wrong {
                wrong = wrong.or(Some(lba));
            }
            self.host.wait_until(ready, Resource::Die(0), Phase::Array, "tR");
            self.host.spend(Resource::Bus, Phase::Data, self.bus.data(piece.sectors()), "data");
            self.refresh(piece.unit)?;
            (lba, out) = (lba + piece.sectors(), rest);
        }
        Ok(wrong)
    }
}

impl BlockDevice for Card {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn read(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        check_sectors(now, lba, buf.len(), self.capacity)?;
        let request = (lba, self.begin(now), self.timeouts.read_timeout_us);
        let outcome = self.read_request(now, lba, buf);
        self.in_time(request, outcome)
    }

    fn write(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        check_sectors(now, lba, data.len(), self.capacity)?;
        let request = (lba, self.begin(now), self.timeouts.write_timeout_us);
        let outcome = self.write_request(now, lba, data);
        self.in_time(request, outcome)
    }

    fn discard(&mut self, now: Instant, lba: u64, count: u64) -> Result<Instant, BlockError> {
        check_count(now, lba, count, self.capacity)?;
        let request = (lba, self.begin(now), self.timeouts.erase_timeout_us);
        self.start(now, lba, self.write_command)?;
        self.last_page = NO_PAGE;
        let mut outcome = self.discard_pieces(lba, count);
        if count == self.capacity {
            outcome = outcome.and_then(|()| self.ftl.flush());
        }
        self.finish();
        let outcome = self.checked(lba, outcome);
        self.in_time(request, outcome)
    }

    fn flush(&mut self, now: Instant) -> Result<Instant, BlockError> {
        let request = (0, self.begin(now), self.timeouts.write_timeout_us);
        self.start(now, 0, self.write_command)?;
        let outcome = if self.ignores_flush { Ok(()) } else { self.empty_ram() };
        self.finish();
        let outcome = self.checked(0, outcome);
        self.in_time(request, outcome)
    }

    fn breakdown(&self) -> Breakdown {
        self.host.spent()
    }
}

impl Card {
    fn read_request(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        let sectors = buf.len() / SECTOR_BYTES;
        self.start(now, lba, self.read_command)?;
        let outcome = self.read_pieces(lba, buf);
        self.stop(sectors);
        match outcome {
            // The voltage broke down while it read.
            Ok(_) if self.ftl.nand.is_lost() => Err(BlockErrorKind::PowerLost.at(lba, self.host.now())),
            Ok(Some(lba)) => Err(BlockErrorKind::Uncorrectable.at(lba, self.host.now())),
            Ok(None) => Ok(self.host.now()),
            Err(fault) => self.checked(lba, Err(fault)),
        }
    }

    fn write_request(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        self.start(now, lba, self.write_command)?;
        if self.is_worn_out {
            return Err(BlockErrorKind::WornOut.at(lba, self.host.now()));
        }
        self.last_page = NO_PAGE;
        self.command_bytes = self.command_bytes.saturating_add(data.len());
        let extent = if self.command_bytes > self.log_request_most { Extent::Long } else { Extent::Short };
        let (mut at, mut rest) = (lba, data);
        let mut outcome = Ok(());
        while !rest.is_empty() && outcome.is_ok() {
            let piece = self.piece(at, (rest.len() / SECTOR_BYTES) as u64);
            let (first, later) = rest.split_at(piece.bytes());
            self.finish();
            self.host.spend(Resource::Bus, Phase::Data, self.bus.data(piece.sectors()), "data");
            self.ftl.now = self.host.now();
            outcome = self.write_piece(piece, first, extent);
            (at, rest) = (at + piece.sectors(), later);
        }
        self.stop(data.len() / SECTOR_BYTES);
        if self.is_write_through && outcome.is_ok() {
            self.ftl.now = self.ftl.now.max(self.host.now());
            outcome = self.ftl.end_programs();
        }
        self.finish();
        self.checked(lba, outcome)
    }

    /// Forgets whole units; parts of units are overwritten with zeros.
    fn discard_pieces(&mut self, mut lba: u64, mut count: u64) -> Result<(), Fault> {
        while count > 0 {
            let piece = self.piece(lba, count);
            if self.is_whole(piece) {
                self.pending.retain(|pending| pending.unit != piece.unit);
                self.ftl.discard(piece.unit);
            } else if self.ftl.slot(piece.unit).is_some() || self.is_pending(piece.unit) {
                let zeros = vec![0; piece.bytes()];
                self.write_piece(piece, &zeros, Extent::Short)?;
            }
            (lba, count) = (lba + piece.sectors(), count - piece.sectors());
        }
        Ok(())
    }

    fn is_pending(&self, unit: u32) -> bool {
        self.pending.iter().any(|pending| pending.unit == unit)
    }

    /// Moves the block of a unit when it was read too often. A card without a block to move to can still be read.
    fn refresh(&mut self, unit: u32) -> Result<(), Fault> {
        let Some(slot) = self.ftl.slot(unit) else { return Ok(()) };
        let block = self.ftl.nand.block_of(slot);
        if self.is_worn_out || !self.ftl.needs_refresh(block) {
            return Ok(());
        }
        self.ftl.now = self.host.now();
        self.last_page = NO_PAGE;
        let refreshed = self.ftl.refresh(block);
        self.finish();
        match refreshed {
            Err(Fault::WornOut) => {
                self.is_worn_out = true;
                Ok(())
            }
            other => other,
        }
    }
}
