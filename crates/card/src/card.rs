//! The card as the host sees it: bus, command overhead, the buffer for incomplete map units, and time accounting.

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

/// Options of a simulated card that are not part of its specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardOptions {
    /// Seed of factory bad blocks, lives of blocks, and errors.
    pub seed: u64,
    /// True to store contents. If false, only times are computed, and reads leave the buffer unchanged.
    pub stores: bool,
}

impl Default for CardOptions {
    fn default() -> Self {
        Self { seed: 0, stores: true }
    }
}

/// Counts of operations since the card was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardStats {
    /// Map units that the host wrote, completely or partly.
    pub host_units: u64,
    /// Map units written to the NAND, including copies.
    pub written_units: u64,
    /// Pages read from the NAND.
    pub page_reads: u64,
    /// Pages of data programmed.
    pub page_programs: u64,
    /// Pages programmed with the summary of a block (the list of its addresses).
    pub summary_programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks whose data was moved because they had been read often.
    pub refreshes: u64,
}

impl CardStats {
    /// Map units written to the NAND per unit that the host wrote, between `earlier` and now.
    pub fn write_amplification(&self, earlier: &Self) -> f64 {
        let host = self.host_units - earlier.host_units;
        (self.written_units - earlier.written_units) as f64 / host.max(1) as f64
    }
}

/// Memory of the host that a simulated card needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardMemory {
    /// Size of the map, B. Each map unit has the bits of a slot number, and one bit for discards.
    pub map_bytes: usize,
    /// Size of the spare areas that are not in the temporary file, B: those of blocks being written, and a few bytes per block.
    pub spare_bytes: usize,
}

/// Incomplete map unit in RAM, which waits for its other sectors.
#[derive(Clone, Debug)]
struct Pending {
    unit: u32,
    /// Sectors of the unit that are in RAM.
    from: usize,
    to: usize,
    /// True if a part of it was written by a request that is too long for the log.
    is_long: bool,
    data: Vec<u8>,
}

/// A simulated SD card or eMMC.
#[derive(Clone, Debug)]
pub struct Card {
    bus: BusTime,
    read_command: Nanos,
    write_command: Nanos,
    au_switch: Nanos,
    /// True if the card is busy with a write until the data is programmed.
    is_write_through: bool,
    /// True if a flush ends although data is still in RAM.
    ignores_flush: bool,
    /// True if the buffer holds two pages, so that the next page is read while one is sent.
    overlaps_reads: bool,
    idle_after: Nanos,
    capacity: u64,
    unit_sectors: u64,
    units_per_au: u32,
    /// Incomplete map units, the oldest first.
    pending: Vec<Pending>,
    pending_most: usize,
    /// Length of the longest request that goes to the log, B.
    log_request_most: usize,
    /// True if the next request is a further block of the previous command.
    is_continued: bool,
    /// Number of bytes that the current write command has transferred.
    command_bytes: usize,
    /// A map unit of zeros, for discards of parts of units; and a buffer to complete a unit.
    scratch: Vec<u8>,
    last_page: LastPage,
    is_worn_out: bool,
    power: PowerSpec,
    timeouts: HostSpec,
    /// Time for which the card has slept.
    asleep: Nanos,
    endurance_cycles: u32,
    /// Number of the first block of the enhanced area, and rated cycles of the area's blocks.
    enhanced: (usize, u32),
    /// Number of factory bad blocks, and number of further blocks that may fail.
    factory_bad: u32,
    blocks_to_spare: u64,
    host: Host,
    ftl: Ftl,
}

/// Range of sectors inside one map unit.
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

    /// Byte range in the unit.
    const fn in_unit(&self) -> Range<usize> {
        self.from * SECTOR_BYTES..self.to * SECTOR_BYTES
    }
}

/// The page that was read last, with its planes in RAM and the time of the read.
#[derive(Clone, Copy, Debug)]
struct LastPage {
    page: u32,
    planes: Planes,
    ready: Instant,
}

const NO_PAGE: LastPage = LastPage { page: u32::MAX, planes: Planes::NONE, ready: Instant::ZERO };

impl Card {
    /// Creates a new card.
    ///
    /// # Errors
    /// An impossible specification.
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

    /// Counts of operations since the card was created.
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

    /// Number of bytes that the host can write before the card must clean a block, if it neither waits nor discards.
    /// This is the unused space in the SLC cache and in free blocks.
    pub fn unused_bytes(&self) -> u64 {
        self.ftl.unused_slots() * self.unit_sectors * SECTOR_BYTES as u64
    }

    /// Number of bad blocks: factory bad blocks, and blocks that have failed.
    pub fn failed_blocks(&self) -> usize {
        self.ftl.nand.blocks.iter().filter(|block| block.state == State::Bad).count()
    }

    /// Used life and used spare blocks. The value 1 means that the rated cycles or the spare blocks are used up.
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

    /// Time for which the card has slept since its creation.
    pub const fn asleep(&self) -> Nanos {
        self.asleep
    }

    /// Maximum number of reads of a block since its erase. The data of a block is moved at a limit of this number.
    pub fn most_reads(&self) -> u32 {
        self.ftl.nand.blocks.iter().map(|block| block.reads).max().unwrap_or(0)
    }

    /// Lets later clones share the memory of the map with this card; each clone stores only its own changes.
    pub fn share_map(&mut self) {
        self.ftl.share_map();
    }

    /// Writes the first `sectors` of a blank card, in order and with long requests. The run time depends on the number of blocks instead
    /// of sectors. Returns the number of sectors written; the others must be written by ordinary requests. It is 0 if the card stores
    /// contents or if operations can fail.
    ///
    /// # Errors
    /// `WornOut` if the card has no usable block.
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

    /// Maximum memory of the host for the map and the spare areas.
    pub fn memory(&self) -> CardMemory {
        let (map_bytes, spare_bytes) = self.ftl.memory_bytes();
        CardMemory { map_bytes, spare_bytes }
    }

    /// Current memory of the host for the map and the spare areas, B.
    pub fn held_bytes(&self) -> usize {
        self.ftl.held_bytes()
    }

    /// Time at which the card is ready for the next request.
    pub const fn now(&self) -> Instant {
        self.host.now()
    }

    /// Cuts power during a program or erase: `operations` counts them from now on, beginning with 1; 0 for no cut.
    pub fn order_cut(&mut self, operations: u64) {
        self.ftl.nand.order_cut(operations);
    }

    /// Pulls the card out at this time. A NAND operation that would end after the hold-up time is torn. Requests that begin later are
    /// not answered.
    pub const fn order_removal(&mut self, at: Instant) {
        self.ftl.nand.order_removal(at);
    }

    /// Replaces the host, whose timeouts apply from now on.
    pub const fn set_host(&mut self, host: HostSpec) {
        self.timeouts = host;
    }

    /// Makes the host account for the time of commands and data on the bus, because it clocks the wires. This host has no
    /// timeouts.
    pub(crate) fn leave_bus_to_host(&mut self) {
        self.bus = BusTime::Wires;
        // Such a host ends each write command with a flush.
        self.is_write_through = false;
        self.timeouts = HostSpec::default();
    }

    /// Treats the next request as a further block of the previous command, which the firmware has already set up.
    pub(crate) const fn continue_command(&mut self) {
        self.is_continued = true;
    }

    /// True if the buffer holds two pages, so that the next page is read while one is sent.
    pub(crate) const fn reads_ahead(&self) -> bool {
        self.overlaps_reads
    }

    /// Cancels all scheduled power cuts, by operation and by time.
    pub const fn cancel_cuts(&mut self) {
        self.ftl.nand.cancel_cuts();
    }

    /// True if the card has lost power.
    pub const fn is_lost(&self) -> bool {
        self.ftl.nand.is_lost()
    }

    /// Starts or stops recording the activities of bus, firmware and array.
    pub fn record(&mut self, on: bool) {
        self.host.record(on);
    }

    /// Returns the activities since the last call, ordered by start.
    pub fn take_spans(&mut self) -> Vec<Span> {
        self.host.take_spans()
    }

    /// Energy that the card has used since its creation.
    pub fn energy(&self) -> CardEnergy {
        let spent = self.host.spent();
        let bus = spent[Phase::Command] + spent[Phase::Data];
        let busy = spent.total().saturating_sub(spent[Phase::Waiting]);
        let elapsed = self.host.now().since(Instant::ZERO);
        let idle = elapsed.saturating_sub(busy).saturating_sub(self.asleep);
        self.ftl.nand.supply.energy(Times { bus, busy, idle, asleep: self.asleep })
    }

    /// Cuts power now. Operations that have started are completed.
    pub fn cut_power(&mut self) {
        self.ftl.nand.lose_power();
    }

    /// Switches power on and rebuilds the map from the NAND. Power is cut again during a program or erase, whose number from now on
    /// is `cut_in`; 0 for no cut. Returns the time at which the card is ready.
    ///
    /// # Errors
    /// `PowerLost` if power was cut again during the recovery; `WornOut`.
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

    /// Checks the map against the NAND. Every unit has one slot, and the counts of valid units, of erases and of energy agree with the
    /// operations.
    ///
    /// # Errors
    /// Description of the violated invariant.
    pub fn check(&self) -> Result<(), String> {
        self.ftl.check()
    }

    /// Starts a request at `now`. The card does background work until then; then the command is transferred over the
    /// bus.
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

    /// Wakes the card up, if it has slept since it became ready, because neither requests nor background work occurred.
    fn wake(&mut self, ready: Instant, now: Instant) {
        let asleep = now.since((ready + self.power.sleep_after_us).max(self.ftl.now));
        if self.power.sleep_after_us > Nanos::ZERO && asleep > Nanos::ZERO {
            self.asleep += asleep;
            self.host.spend(Resource::Controller, Phase::Controller, self.power.wake_us, "wake");
        }
    }

    /// Sends the stop command (CMD12) of a transfer of several blocks.
    fn stop(&mut self, sectors: usize) {
        if sectors > 1 {
            self.host.spend(Resource::Bus, Phase::Command, self.bus.command(), "stop");
        }
    }

    /// Returns an error for a request that began at `start` and took longer than `limit`. The card has still finished
    /// the request.
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

    /// Ends the request. Time that was not booked under the bus is booked under the array.
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

    /// The first piece of a range of sectors.
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

    /// Index of the buffered unit to which this piece is added; the piece must touch or overlap the buffered sectors.
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

    /// Completes a buffered unit with its sectors on the NAND.
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

    /// Writes a buffered unit to the NAND, after an incomplete unit was completed.
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

    /// Programs all data in RAM.
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

    /// Time at which some planes of a slot's page are in RAM. Missing planes are read.
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

    /// Reads a piece and the given planes of its page. Returns the time at which the data can be transferred over the bus, and true if the data
    /// was uncorrectable.
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

    /// Reads all pieces of a request. A piece is transferred when it is in RAM and the previous piece has been
    /// transferred.
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
                // The firmware prepares reads of the next allocation unit when the reads of the current one have ended.
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
            // The voltage broke down during the read.
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

    /// Discards whole units, and overwrites parts of units with zeros.
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

    /// Moves the data of a unit's block if the block was read too often. Without a free block the data stays, and the
    /// card can still be read.
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
