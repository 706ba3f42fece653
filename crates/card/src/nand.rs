//! The NAND inside the card: blocks of pages of units, with the spare areas of pages (logical address and sequence number), wear,
//! times, and loss of power at any operation.
//!
//! A *slot* is the place of a map unit: slots of a block are numbered in the order in which its pages are programmed. What is in slots
//! that are not programmed yet is in RAM.

use crate::power::{Draw, Supply};
use crate::spare::{BlockSpares, Spares};
use crate::spec::{CardSpec, LossSpec, SlcSpec, TimingSpec, WearSpec};
use floatgate_device::Timeline;
use floatgate_device::array::Array;
use floatgate_device::cells::rber::Conditions;
use floatgate_device::cells::{ErrorSpec, tail};
use floatgate_mtd::random::{Random, hash, unit};
use floatgate_mtd::{Instant, Nanos};
use std::ops::Range;

/// An operation that could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Power went away during the operation, or before.
    PowerLost,
    /// No block is left to write to.
    WornOut,
    /// The host's file with the spare areas cannot be read.
    HostFile,
}

/// Use of a block. It is written into the spare area of each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Data at its final place.
    Main,
    /// Shared log of a hybrid map.
    Log,
    /// Page-mapped FAT area.
    Fat,
    /// SLC cache.
    Slc,
    /// Bitmaps of discards.
    Discards,
    /// Enhanced area, with one bit a cell for good.
    Enhanced,
}

/// Pools of blocks, which do not take each other's blocks: those of the enhanced area are apart.
pub(crate) const POOLS: usize = 2;

impl Kind {
    /// Pool of the blocks of this kind.
    pub(crate) fn pool(self) -> usize {
        usize::from(self == Self::Enhanced)
    }
}

/// State of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing valid is in it. It is erased when it is opened.
    Free,
    /// Slots can be taken.
    Open,
    /// Everything is programmed.
    Closed,
    /// It failed to erase, or was bad from the factory.
    Bad,
    /// The controller's firmware and its tables are in it.
    Firmware,
}

/// A NAND block over all planes and dies.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) state: State,
    pub(crate) kind: Kind,
    /// Its last page lists the tags of all others, so that a scan needs no more.
    pub(crate) has_summary: bool,
    /// A merge writes it. Until its summary is there the sources still are, and it counts for nothing.
    is_merge: bool,
    /// Read retries that a page needs.
    retries: u8,
    /// Slots taken, in RAM or programmed.
    pub(crate) next: u32,
    /// Slots programmed.
    pub(crate) programmed: u32,
    /// Slots that the map points to.
    pub(crate) valid: u32,
    pub(crate) erases: u32,
    /// Erases that it survives.
    life: u32,
    /// Reads since the last erase.
    pub(crate) reads: u32,
    /// Probability that a page cannot be corrected.
    failure: f64,
    /// Sequence number of the first page.
    pub(crate) opened: u64,
    /// Allocation units to merge when this log block is cleaned; 0 after a loss of power.
    pub(crate) aus: u32,
}

/// Planes of a page, a bit for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planes(u32);

impl Planes {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const FIRST: Self = Self(1);

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Counts of operations since the card was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Operations {
    pub(crate) reads: u64,
    /// Reads of the same page again, with other thresholds.
    retries: u64,
    pub(crate) programs: u64,
    pub(crate) summaries: u64,
    /// Programs during which power went away.
    torn_programs: u64,
    pub(crate) erases: u64,
}

/// The supply, with the times of this card's operations.
fn supply(spec: &CardSpec) -> Supply {
    let TimingSpec { t_r_us, t_prog_us, t_bers_us, .. } = spec.timing;
    let times = [t_r_us, spec.slc.t_r_us, t_prog_us, spec.slc.t_prog_us, t_bers_us];
    Supply::new(spec.power, times, spec.dies)
}

#[derive(Clone, Debug)]
pub(crate) struct Nand {
    pub(crate) blocks: Vec<Block>,
    pub(crate) slots_per_block: u32,
    page_shift: u32,
    /// Planes of a page, and the bytes of a slot and of a plane's piece of a page.
    planes: u32,
    slot_bytes: usize,
    plane_bytes: usize,
    /// Slots per block in SLC mode.
    slc_slots: u32,
    /// Spare areas. A page's sequence number is counted from the number of its block's first page: 2^32
    /// programs are more than a block stays open for.
    spares: Spares,
    contents: Array,
    /// The chip copies pages within a die.
    copies_back: bool,
    dies: Vec<Timeline>,
    channel: Timeline,
    timing: TimingSpec,
    slc: SlcSpec,
    transfer: Nanos,
    /// ECC engine of the controller, and its time for a page.
    engine: Timeline,
    decode: Nanos,
    /// Pages of the firmware that are read at power-on.
    firmware_pages: u64,
    /// ECC steps of a page.
    ecc_steps: f64,
    wear: WearSpec,
    errors: ErrorSpec,
    seed: u64,
    sequence: u64,
    pub(crate) operations: Operations,
    /// Most erases of a block of each pool.
    pub(crate) erases_max: [u32; POOLS],
    /// First block of the enhanced area, and the rated cycles of its blocks.
    first_enhanced: u32,
    enhanced_cycles: u32,
    /// Supply of the array.
    pub(crate) supply: Supply,
    hold_up: Nanos,
    /// Programs and erases until power goes away, 0 for none.
    cut_in: u64,
    /// Time at which the card is pulled out.
    removal: Instant,
    is_lost: bool,
    loss: LossSpec,
    /// Losses of power amid an operation.
    torn_operations: u64,
    is_dead: bool,
}

/// Later than anything.
const NEVER: Instant = Instant::from_ns(u64::MAX);

impl Nand {
    pub(crate) fn new(spec: &CardSpec, stores: bool, seed: u64) -> Self {
        let (unit, blocks) = (spec.unit_bytes(), spec.blocks() as usize);
        let slots_per_block = (spec.au_bytes / unit) as u32;
        let page_shift = (spec.page_bytes / unit).trailing_zeros();
        let pages = slots_per_block >> page_shift;
        let mut nand = Self {
            blocks: Vec::new(),
            slots_per_block,
            page_shift,
            planes: spec.planes,
            slot_bytes: unit as usize,
            plane_bytes: (spec.page_bytes / u64::from(spec.planes)) as usize,
            slc_slots: (pages / u32::from(spec.bits_per_cell)) << page_shift,
            spares: Spares::new(blocks, slots_per_block, pages),
            contents: Array::new(
                unit as usize,
                slots_per_block as usize,
                if stores { blocks } else { 0 },
                stores,
            ),
            copies_back: spec.copy_back,
            dies: vec![Timeline::default(); spec.dies as usize],
            channel: Timeline::default(),
            timing: spec.timing,
            slc: spec.slc,
            transfer: Nanos::from_ns(spec.page_bytes * spec.timing.transfer_ns_per_kib.as_ns() / 1024),
            engine: Timeline::default(),
            decode: spec.page_decode(),
            firmware_pages: spec.firmware_pages(),
            ecc_steps: spec.page_bytes as f64 / f64::from(spec.wear.ecc_step_bytes),
            wear: spec.wear,
            errors: spec.errors(),
            seed,
            sequence: 0,
            operations: Operations::default(),
            erases_max: [0; POOLS],
            first_enhanced: spec.enhanced_first_block() as u32,
            enhanced_cycles: spec.enhanced_cycles(),
            supply: supply(spec),
            hold_up: spec.power.hold_up_us,
            cut_in: 0,
            removal: NEVER,
            is_lost: false,
            loss: spec.loss,
            torn_operations: 0,
            is_dead: false,
        };
        nand.blocks = (0..blocks as u64).map(|block| nand.new_block(block)).collect();
        nand.mark_factory_bad(spec.bad_blocks);
        let good = nand.blocks.iter_mut().filter(|block| block.state == State::Free);
        good.take(spec.firmware_blocks as usize).for_each(|block| block.state = State::Firmware);
        nand
    }

    fn new_block(&self, block: u64) -> Block {
        let cycles = self.rated_cycles(block as u32);
        let wear = WearSpec { endurance_cycles: cycles, ..self.wear };
        let life = wear.block_life(Random::new(hash(self.seed, block, 1)).normal());
        Block {
            state: State::Free,
            kind: Kind::Main,
            has_summary: false,
            is_merge: false,
            retries: 0,
            next: 0,
            programmed: 0,
            valid: 0,
            erases: 0,
            life: life.clamp(1.0, f64::from(u32::MAX)) as u32,
            reads: 0,
            failure: 0.0,
            opened: 0,
            aus: 0,
        }
    }

    /// Pool of a block.
    #[inline]
    pub(crate) fn pool_of(&self, block: u32) -> usize {
        usize::from(block >= self.first_enhanced)
    }

    /// Rated cycles of a block.
    fn rated_cycles(&self, block: u32) -> u32 {
        if self.pool_of(block) == 0 { self.wear.endurance_cycles } else { self.enhanced_cycles }
    }

    fn mark_factory_bad(&mut self, count: u32) {
        let mut chance = Random::new(hash(self.seed, 0, 2));
        let mut left = count;
        while left > 0 {
            let place = (chance.bits() % self.blocks.len() as u64) as usize;
            if self.blocks[place].state != State::Bad {
                self.blocks[place].state = State::Bad;
                left -= 1;
            }
        }
    }

    /// Worth of merging what is in a log block, by its age in pages. The fewer allocation units it has, the fewer merges there are, and the
    /// more of each is in other log blocks, which are cleaned at the same time.
    pub(crate) fn worth_of_merging(&self, block: &Block) -> f64 {
        let aus = f64::from(block.aus.max(1));
        (self.sequence - block.opened) as f64 / (aus * aus)
    }

    /// Slots that a block of this kind has.
    pub(crate) const fn slots_of(&self, kind: Kind) -> u32 {
        if self.is_slc(kind) { self.slc_slots } else { self.slots_per_block }
    }

    /// True when blocks of this kind hold one bit a cell.
    const fn is_slc(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Slc | Kind::Enhanced) || (matches!(kind, Kind::Log) && self.slc.log)
    }

    pub(crate) const fn first_slot(&self, block: u32) -> u32 {
        block * self.slots_per_block
    }

    #[inline]
    pub(crate) const fn block_of(&self, slot: u32) -> u32 {
        slot / self.slots_per_block
    }

    pub(crate) const fn page_of(&self, slot: u32) -> u32 {
        slot >> self.page_shift
    }

    /// Slots of a page, both counted within a block.
    pub(crate) const fn slots_of_page(&self, page: u32) -> Range<u32> {
        page << self.page_shift..(page + 1) << self.page_shift
    }

    /// Reads the spare areas of a block.
    pub(crate) fn spares(&self, block: u32) -> Result<BlockSpares, Fault> {
        self.spares.read(block).map_err(|_| Fault::HostFile)
    }

    /// Sequence number of a page of a block, whose spare areas these are.
    pub(crate) fn sequence(&self, block: u32, page: u32, spares: &BlockSpares) -> u64 {
        self.blocks[block as usize].opened + u64::from(spares.sequence(page))
    }

    /// True when the block has a page that is gathered in RAM.
    pub(crate) fn has_partial_page(&self, block: u32) -> bool {
        let block = &self.blocks[block as usize];
        block.next != block.programmed
    }

    /// The slot will be programmed without an address.
    pub(crate) fn forget(&mut self, slot: u32) {
        let block = self.block_of(slot);
        self.spares.set_unit(block, slot - self.first_slot(block), None);
    }

    /// True when a slot of the block is still in RAM.
    #[inline]
    pub(crate) fn is_in_ram(&self, block: u32, slot: u32) -> bool {
        slot - self.first_slot(block) >= self.blocks[block as usize].programmed
    }

    /// Takes the next slot of an open block. Returns the slot, and true when it completes a page.
    #[inline]
    pub(crate) fn take_slot(&mut self, block: u32, unit: u32) -> (u32, bool) {
        let slot = self.blocks[block as usize].next;
        self.spares.set_unit(block, slot, Some(unit));
        let first = self.first_slot(block);
        let block = &mut self.blocks[block as usize];
        block.next += 1;
        block.valid += 1;
        (first + slot, block.next & ((1 << self.page_shift) - 1) == 0)
    }

    /// Leaves slots of an open block empty; they must be whole pages.
    pub(crate) fn skip(&mut self, block: u32, slots: u32) {
        let block = &mut self.blocks[block as usize];
        block.next += slots;
        block.programmed = block.next;
    }

    /// Puts contents into a slot; nothing in timing-only mode.
    pub(crate) fn store(&mut self, slot: u32, data: &[u8]) {
        self.contents.program(slot as usize, 0, data);
    }

    /// Copies contents from slot to slot; nothing in timing-only mode.
    pub(crate) fn copy(&mut self, from: u32, to: u32) {
        if self.stores() {
            self.contents.copy(from as usize, to as usize);
        }
    }

    /// Reads from a byte of a slot; leaves the buffer as it was in timing-only mode.
    pub(crate) fn load(&self, slot: u32, byte: usize, out: &mut [u8]) {
        self.contents.read(slot as usize, byte, out);
    }

    pub(crate) const fn stores(&self) -> bool {
        self.contents.stores()
    }

    /// Die of a page: blocks begin on different dies, so that blocks written alternately keep all dies busy.
    fn die_of(&self, page: u32) -> usize {
        match self.dies.len() {
            1 => 0,
            dies => (page + self.block_of(page << self.page_shift)) as usize % dies,
        }
    }

    /// True when a page lies on more planes than one.
    pub(crate) const fn has_planes(&self) -> bool {
        self.planes > 1
    }

    /// Planes of a page on which some bytes of a slot lie.
    pub(crate) const fn planes_of(&self, slot: u32, bytes: Range<usize>) -> Planes {
        if !self.has_planes() {
            return Planes::FIRST;
        }
        let first = (slot & ((1 << self.page_shift) - 1)) as usize * self.slot_bytes;
        let [low, high] =
            [(first + bytes.start) / self.plane_bytes, (first + bytes.end - 1) / self.plane_bytes];
        Planes((2 << high) - (1 << low))
    }

    /// Reads the page with this number into the controller. Returns the time at which it is there.
    pub(crate) fn read_page(&mut self, at: Instant, page: u32) -> Instant {
        self.read(at, page, self.transfer)
    }

    /// True when the page of a slot can be copied into the next slot of a block without leaving the chip.
    pub(crate) fn copies_back(&self, from: u32, block: u32) -> bool {
        let to = self.first_slot(block) + self.blocks[block as usize].next;
        self.copies_back && self.die_of(self.page_of(from)) == self.die_of(self.page_of(to))
    }

    /// Reads the page of a slot into the register of its die, where it stays. Returns the time at which it is there.
    pub(crate) fn read_inside(&mut self, at: Instant, slot: u32) -> Instant {
        self.read(at, self.page_of(slot), Nanos::ZERO)
    }

    /// Reads what some planes have of a page, all at the same time, and moves it into the controller, one after the other.
    pub(crate) fn read_planes(&mut self, at: Instant, page: u32, planes: Planes) -> Instant {
        let parts = u64::from(planes.0.count_ones());
        let transfer = Nanos::from_ns(self.transfer.as_ns() * parts / u64::from(self.planes));
        self.read(at, page, transfer)
    }

    fn read(&mut self, at: Instant, page: u32, transfer: Nanos) -> Instant {
        let block = self.block_of(page << self.page_shift);
        self.blocks[block as usize].reads += 1;
        let block = &self.blocks[block as usize];
        let (array, what) = if self.is_slc(block.kind) {
            (self.slc.t_r_us, Draw::SlcRead)
        } else {
            (self.timing.t_r_us, Draw::Read)
        };
        let times = u64::from(1 + block.retries);
        self.operations.reads += 1;
        self.operations.retries += times - 1;
        let die = self.die_of(page);
        let span = self.dies[die].reserve(at, array * times);
        let ready = self.draw(what, times, span);
        let (_, end) = self.channel.reserve(ready, transfer);
        // The register is free for the next page when its data has left.
        self.dies[die].hold_until(end);
        self.decoded(end, transfer, times)
    }

    /// Time at which the ECC engine has decoded what was transferred until `end`, once for each time that it was read. What stays in the
    /// chip does not pass the engine.
    #[inline]
    fn decoded(&mut self, end: Instant, transfer: Nanos, times: u64) -> Instant {
        if self.decode == Nanos::ZERO || transfer == Nanos::ZERO {
            return end;
        }
        let parts = (transfer.as_ns() * u64::from(self.planes)).div_ceil(self.transfer.as_ns().max(1));
        let time = Nanos::from_ns(self.decode.as_ns() * parts / u64::from(self.planes));
        self.engine.reserve(end, time * times).1
    }

    /// Reads the part of the firmware that is not in the ROM. Returns the time at which the processor has it.
    pub(crate) fn load_firmware(&mut self, at: Instant) -> Instant {
        let pages = self.pages_per_block().max(1);
        let blocks: Vec<u32> = (0..self.blocks.len() as u32)
            .filter(|block| self.blocks[*block as usize].state == State::Firmware)
            .collect();
        let all = blocks.iter().flat_map(|block| {
            let first = self.page_of(self.first_slot(*block));
            first..first + pages
        });
        let wanted: Vec<u32> = all.take(usize::try_from(self.firmware_pages).unwrap_or(usize::MAX)).collect();
        wanted.into_iter().fold(at, |end, page| end.max(self.read_page(at, page)))
    }

    /// Damage of a block with this number of erases, in cycles.
    pub(crate) fn damage(&self, erases: u32) -> f64 {
        self.wear.damage(erases.into())
    }

    /// True when the page just read cannot be corrected.
    pub(crate) fn is_uncorrectable(&self, block: u32) -> bool {
        let failure = self.blocks[block as usize].failure;
        failure > 1e-15 && unit(hash(self.seed, self.operations.reads, 3)) < failure
    }

    /// Programs the page of the block that was gathered last; `is_inside` when the die's register has it already. Returns the time at which it is programmed.
    #[inline]
    pub(crate) fn program(&mut self, at: Instant, block: u32, is_inside: bool) -> Result<Instant, Fault> {
        let mask = (1 << self.page_shift) - 1;
        let (number, first) = (block, self.first_slot(block));
        let block = &mut self.blocks[block as usize];
        block.next = (block.next + mask) & !mask;
        let (kind, opened, old) = (block.kind, block.opened, block.programmed);
        block.programmed = block.next;
        let was_lost = self.is_lost;
        let transfer = if is_inside { Nanos::ZERO } else { self.transfer };
        let programmed = self.program_in(at, (first + old) >> self.page_shift, kind, transfer);
        let Ok(end) = programmed else {
            self.tear(first + old);
            if !was_lost {
                self.tear_before(first, old);
            }
            return programmed;
        };
        self.operations.programs += 1;
        self.spares.set_sequence(number, old >> self.page_shift, (self.sequence - opened) as u32);
        self.sequence += 1;
        Ok(end)
    }

    /// Fills an open block in order with units from `unit` on, and programs its pages one after the other. Returns the time at which that has
    /// ended.
    pub(crate) fn fill(&mut self, at: Instant, block: u32, unit: u32) -> Instant {
        let slots = self.slots_per_block;
        let pages = u64::from(slots >> self.page_shift);
        let of = &mut self.blocks[block as usize];
        (of.next, of.programmed, of.valid) = (slots, slots, slots);
        self.spares.fill(block, unit);
        self.supply.draw(Draw::Program, pages);
        self.operations.programs += pages;
        self.sequence += pages;
        let array = self.timing.t_prog_us.as_ns() / self.dies.len() as u64;
        let end = at + Nanos::from_ns(pages * array.max(self.transfer.as_ns()));
        self.dies.iter_mut().for_each(|die| die.hold_until(end));
        end
    }

    /// True when blocks can be filled at once: contents are not kept, nothing fails or is ordered, and operations take as long as they do.
    pub(crate) const fn can_fill(&self) -> bool {
        let is_ordered = self.cut_in > 0 || self.removal.as_ns() < NEVER.as_ns() || self.is_lost;
        !self.stores()
            && self.wear.program_failures_per_million == 0
            && !self.supply.is_limited()
            && !is_ordered
    }

    /// First unit of a block that was filled in order and at once.
    pub(crate) fn filled_from(&self, block: u32) -> Option<u32> {
        self.spares.filled_from(block)
    }

    /// Number of pages of a full block.
    pub(crate) const fn pages_per_block(&self) -> u32 {
        self.slots_per_block >> self.page_shift
    }

    /// Loads and programs a page. Returns the time at which that has ended.
    #[inline]
    fn program_time(&mut self, at: Instant, page: u32, kind: Kind) -> Result<Instant, Fault> {
        self.program_in(at, page, kind, self.transfer)
    }

    #[inline]
    fn program_in(&mut self, at: Instant, page: u32, kind: Kind, transfer: Nanos) -> Result<Instant, Fault> {
        self.powered()?;
        let (array, what) = if self.is_slc(kind) {
            (self.slc.t_prog_us, Draw::SlcProgram)
        } else {
            (self.timing.t_prog_us, Draw::Program)
        };
        let die = self.die_of(page);
        let (_, loaded) = self.channel.reserve(at.max(self.dies[die].busy_until()), transfer);
        let span = self.dies[die].reserve(loaded, array);
        let end = self.draw(what, 1, span);
        self.dies[die].hold_until(end);
        self.count(end).inspect_err(|_| self.operations.torn_programs += 1).map(|()| end)
    }

    /// An operation takes its energy. Returns its end on the supply that there is.
    #[inline]
    fn draw(&mut self, what: Draw, times: u64, span: (Instant, Instant)) -> Instant {
        self.supply.draw(what, times);
        if self.supply.is_limited() { self.draw_limited(what, times, span) } else { span.1 }
    }

    fn draw_limited(&mut self, what: Draw, times: u64, span: (Instant, Instant)) -> Instant {
        let busy = self.dies.iter().filter(|die| die.busy_until() > span.0).count() as u32;
        let (end, breaks_down) = self.supply.limit(what, span, times, busy);
        self.is_lost |= breaks_down;
        end
    }

    /// True when the next program of a page fails.
    #[inline]
    pub(crate) fn fails_to_program(&self) -> bool {
        let failing = self.wear.program_failures_per_million;
        failing > 0 && unit(hash(self.seed, self.operations.programs, 4)) * 1e6 < f64::from(failing)
    }

    /// A page of a block failed to program: what is programmed of the block moves to an erased one, which takes its place and number. The
    /// bad block gets the number of the other. Returns the time at which the move has ended.
    pub(crate) fn replace(&mut self, at: Instant, block: u32, erased: u32) -> Result<Instant, Fault> {
        let kind = self.blocks[block as usize].kind;
        let [from, to] = [block, erased].map(|block| self.page_of(self.first_slot(block)));
        let pages = self.blocks[block as usize].programmed >> self.page_shift;
        let mut end = self.program_time(at, from + pages, kind)?;
        self.operations.programs += 1;
        for page in 0..pages {
            let ready = self.read_page(end, from + page);
            end = self.program_time(ready, to + page, kind)?;
            self.operations.programs += 1;
        }
        let [bad, good] = [block, erased].map(|block| self.blocks[block as usize].clone());
        let swap = |to: &mut Block, cells: &Block| {
            (to.erases, to.life, to.reads) = (cells.erases, cells.life, 0);
            (to.failure, to.retries) = (cells.failure, cells.retries);
        };
        swap(&mut self.blocks[block as usize], &good);
        swap(&mut self.blocks[erased as usize], &bad);
        self.blocks[erased as usize].state = State::Bad;
        Ok(end)
    }

    /// Writes the list of a block's tags behind its last page, and closes it.
    pub(crate) fn program_summary(&mut self, at: Instant, block: u32) -> Result<Instant, Fault> {
        self.blocks[block as usize].state = State::Closed;
        let kind = self.blocks[block as usize].kind;
        let end = self.program_time(at, self.page_of(self.first_slot(block)), kind)?;
        self.operations.summaries += 1;
        self.blocks[block as usize].has_summary = true;
        self.spares.close(block);
        Ok(end)
    }

    /// Erases a block on all dies, if anything is in it. False when that failed: it is bad from now on.
    pub(crate) fn erase(&mut self, at: Instant, block: u32) -> Result<bool, Fault> {
        if self.blocks[block as usize].programmed == 0 {
            return Ok(true);
        }
        self.powered()?;
        let (mut first, mut last) = (NEVER, at);
        let is_annealed = self.wear.is_annealed_after(self.blocks[block as usize].erases + 1);
        let heated = if is_annealed { self.wear.anneal_us } else { Nanos::ZERO };
        for die in &mut self.dies {
            let (start, end) = die.reserve(at, self.timing.t_bers_us + heated);
            (first, last) = (first.min(start), last.max(end));
        }
        let end = self.draw(Draw::Erase, 1, (first, last));
        if end > last {
            self.dies.iter_mut().for_each(|die| die.hold_until(end));
        }
        self.operations.erases += 1;
        let counted = self.count(end);
        self.wipe(block);
        self.age(block);
        counted?;
        let damage = self.damage(self.blocks[block as usize].erases);
        let block = &mut self.blocks[block as usize];
        let is_good = damage < f64::from(block.life);
        if !is_good {
            block.state = State::Bad;
        }
        Ok(is_good)
    }

    /// Opens an erased block.
    pub(crate) fn open(&mut self, block: u32, kind: Kind) {
        let sequence = self.sequence;
        let block = &mut self.blocks[block as usize];
        (block.state, block.kind, block.opened) = (State::Open, kind, sequence);
    }

    /// The block just opened takes what a merge copies.
    pub(crate) fn mark_merge(&mut self, block: u32) {
        self.blocks[block as usize].is_merge = true;
    }

    /// Nothing readable is in the block any more.
    fn wipe(&mut self, block: u32) {
        self.spares.erase(block);
        if self.stores() {
            self.contents.erase(block as usize);
        }
        let block = &mut self.blocks[block as usize];
        (block.next, block.programmed, block.reads) = (0, 0, 0);
        (block.has_summary, block.is_merge) = (false, false);
    }

    /// One more cycle: its cells err more.
    fn age(&mut self, block: u32) {
        let erases = self.blocks[block as usize].erases + 1;
        self.blocks[block as usize].erases = erases;
        let pool = self.pool_of(block);
        let most = &mut self.erases_max[pool];
        *most = erases.max(*most);
        let rated = self.rated_cycles(block);
        // The rate changes little from one cycle to the next, and working it out takes longer than all else here.
        if erases.is_multiple_of(rated.div_ceil(64)) {
            let (failure, retries) = self.failure(erases, rated);
            let block = &mut self.blocks[block as usize];
            (block.failure, block.retries) = (failure, retries);
        }
    }

    /// Probability that a page cannot be corrected after this number of erases of the rated ones, and the read retries it needs before.
    fn failure(&self, erases: u32, rated: u32) -> (f64, u8) {
        let cycles = self.damage(erases) * (f64::from(self.wear.endurance_cycles) / f64::from(rated));
        let rber = self.errors.rber(&Conditions { cycles, ..Conditions::NEW }).total();
        let bits = self.wear.ecc_step_bytes * 8;
        let step = tail::beyond(self.wear.ecc_strength, bits, rber);
        // A retry with other thresholds for each third of the code's strength that the mean number of wrong bits takes.
        let used = rber * f64::from(bits) / f64::from(self.wear.ecc_strength);
        ((step * self.ecc_steps).min(1.0), (used * 3.0).min(7.0) as u8)
    }

    /// Tears the cells of a page that was being programmed when power went away: the page cannot be read.
    fn tear(&mut self, first: u32) {
        for slot in first..first + (1 << self.page_shift) {
            self.clear(slot);
        }
    }

    /// Pages that share their cells with the torn one lose what they had.
    fn tear_before(&mut self, first: u32, old: u32) {
        let page = 1 << self.page_shift;
        for number in 1..=self.loss.torn_pages {
            if let Some(slot) = old.checked_sub(number * page) {
                self.tear(first + slot);
            }
        }
    }

    fn clear(&mut self, slot: u32) {
        self.forget(slot);
        if self.stores() {
            self.contents.undo_program(slot as usize);
        }
    }

    /// Fails when power went away.
    #[inline]
    pub(crate) const fn powered(&self) -> Result<(), Fault> {
        if self.is_lost { Err(Fault::PowerLost) } else { Ok(()) }
    }

    /// Counts a program or erase that ends at `end`; the one at which power was ordered to go, or that ends too late, fails.
    #[inline]
    fn count(&mut self, end: Instant) -> Result<(), Fault> {
        if self.cut_in > 0 {
            self.cut_in -= 1;
            self.is_lost |= self.cut_in == 0;
        }
        self.is_lost |= self.removal < NEVER && end > self.removal + self.hold_up;
        if self.is_lost {
            self.tear_firmware();
        }
        self.powered()
    }

    /// Power went away amid an operation: a card of some kinds has lost its firmware's tables by that, and does not start any more.
    #[cold]
    fn tear_firmware(&mut self) {
        self.torn_operations += 1;
        let dies = f64::from(self.loss.dies_per_million);
        self.is_dead |= dies > 0.0 && unit(hash(self.seed, self.torn_operations, 5)) * 1e6 < dies;
    }

    /// True when the card does not start any more.
    pub(crate) const fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// The card will be pulled out at this time; what ends within the hold-up time is done.
    pub(crate) const fn order_removal(&mut self, at: Instant) {
        self.removal = at;
    }

    /// No loss of power is ordered any more.
    pub(crate) const fn cancel_cuts(&mut self) {
        (self.cut_in, self.removal) = (0, NEVER);
    }

    /// Power goes away when the card was pulled out by now.
    #[inline]
    pub(crate) fn is_gone(&mut self, now: Instant) -> bool {
        self.is_lost |= now >= self.removal;
        self.is_lost
    }

    /// Power goes away during the `operations`th program or erase from now on, 0 for never.
    pub(crate) fn order_cut(&mut self, operations: u64) {
        self.cut_in = operations;
    }

    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub(crate) fn lose_power(&mut self) {
        self.is_lost = true;
    }

    /// Power is back until the `cut_in`th program or erase, 0 for ever. What was only in RAM is gone.
    pub(crate) fn power_on(&mut self, at: Instant, cut_in: u64) {
        (self.is_lost, self.cut_in, self.removal) = (false, cut_in, NEVER);
        // Nothing is under way any more.
        self.supply.restart();
        for timeline in self.dies.iter_mut().chain([&mut self.channel, &mut self.engine]) {
            timeline.release_at(at);
        }
        for block in 0..self.blocks.len() as u32 {
            let first = self.first_slot(block);
            let Block { programmed, next, is_merge, has_summary, .. } = self.blocks[block as usize];
            let kept = if is_merge && !has_summary { 0 } else { programmed };
            (kept..next).for_each(|slot| self.clear(first + slot));
            self.blocks[block as usize].next = programmed;
            self.blocks[block as usize].aus = 0;
        }
    }

    /// Pages that a scan reads of a block to learn its tags: one when it was never written, the summary, or each page.
    pub(crate) fn scan_pages(&self, block: u32) -> u32 {
        let block = &self.blocks[block as usize];
        if block.has_summary { 2 } else { 1 + (block.programmed >> self.page_shift) }
    }

    /// Time at which everything under way is done.
    pub(crate) fn busy_until(&self) -> Instant {
        self.dies.iter().map(Timeline::busy_until).fold(Instant::ZERO, Instant::max)
    }

    /// Checks the energy against the operations.
    pub(crate) fn check_energy(&self) -> Result<(), String> {
        let Operations { reads, retries, programs, summaries, torn_programs, erases } = self.operations;
        self.supply.check(reads + retries, programs + summaries + torn_programs, erases)
    }

    /// Bytes of host memory for the spare areas that are not in the file.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.spares.memory_bytes()
    }
}
