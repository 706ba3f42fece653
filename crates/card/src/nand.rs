//! NAND of the card: blocks, pages and slots, spare areas (logical address and sequence number), wear, times, and power loss at
//! any operation.
//!
//! A *slot* is the space of one map unit. The slots of a block are numbered in the order in which its pages are programmed. The
//! contents of slots that are not programmed yet are in RAM.

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

/// Reason why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Power was lost before or during the operation.
    PowerLost,
    /// No block can be written any more.
    WornOut,
    /// The host's file with the spare areas cannot be read.
    HostFile,
}

/// Use of a block, which is stored in the spare area of each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Data outside of caches and logs.
    Main,
    /// Shared log of a hybrid map.
    Log,
    /// Page-mapped FAT area.
    Fat,
    /// SLC cache.
    Slc,
    /// Bitmaps of discards.
    Discards,
    /// Enhanced area, with one bit per cell permanently.
    Enhanced,
}

/// Number of pools. Blocks are never moved between pools: the enhanced area has one, all other kinds share the other.
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
    /// The block has no valid units. It is erased when it is opened.
    Free,
    /// The block has unused slots.
    Open,
    /// All pages of the block are programmed.
    Closed,
    /// An erase of the block failed, or it was bad from the factory.
    Bad,
    /// The block contains the controller's firmware and its tables.
    Firmware,
}

/// A NAND block over all planes and dies.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) state: State,
    pub(crate) kind: Kind,
    /// True if the last page is a summary of all other pages, so that a scan reads only this page.
    pub(crate) has_summary: bool,
    /// True if a merge writes the block. It is ignored in a recovery until its summary is written, because its sources
    /// still exist.
    is_merge: bool,
    /// Number of read retries that a page needs.
    retries: u8,
    /// Number of used slots, in RAM or programmed.
    pub(crate) next: u32,
    /// Number of programmed slots.
    pub(crate) programmed: u32,
    /// Number of slots to which the map refers.
    pub(crate) valid: u32,
    pub(crate) erases: u32,
    /// Number of erases until an erase fails.
    life: u32,
    /// Number of reads since the last erase.
    pub(crate) reads: u32,
    /// Probability that a page cannot be corrected.
    failure: f64,
    /// Sequence number of the first page.
    pub(crate) opened: u64,
    /// Number of allocation units that are merged when this log block is cleaned; 0 after a power loss.
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

/// Counts of operations since the card was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Operations {
    pub(crate) reads: u64,
    /// Read retries: repeated reads of a page with other thresholds.
    retries: u64,
    pub(crate) programs: u64,
    pub(crate) summaries: u64,
    /// Programs that a power loss interrupted.
    torn_programs: u64,
    pub(crate) erases: u64,
}

/// Supply for the operation times of this card.
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
    /// Number of planes of a page, size of a slot, and size of a page's part on one plane, B.
    planes: u32,
    slot_bytes: usize,
    plane_bytes: usize,
    /// Number of slots per block in SLC mode.
    slc_slots: u32,
    /// Spare areas. The sequence number of a page is stored relative to the first page of its block; it fits into 32
    /// bits, because a block is closed long before 2^32 programs.
    spares: Spares,
    contents: Array,
    /// True if the chip can copy pages within a die (copy-back).
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
    /// Number of ECC steps per page.
    ecc_steps: f64,
    wear: WearSpec,
    errors: ErrorSpec,
    seed: u64,
    sequence: u64,
    pub(crate) operations: Operations,
    /// Maximum erase count of the blocks of each pool.
    pub(crate) erases_max: [u32; POOLS],
    /// Number of the first block of the enhanced area, and rated cycles of the area's blocks.
    first_enhanced: u32,
    enhanced_cycles: u32,
    /// Supply of the array.
    pub(crate) supply: Supply,
    hold_up: Nanos,
    /// Number of programs and erases until the power cut; 0 for no cut.
    cut_in: u64,
    /// Time at which the card is pulled out.
    removal: Instant,
    is_lost: bool,
    loss: LossSpec,
    /// Number of power losses during an operation.
    torn_operations: u64,
    is_dead: bool,
}

/// A time after all others, for events that never happen.
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

    /// Benefit of cleaning a log block by merges. It grows with the age of the block, in pages. With fewer allocation units, fewer merges
    /// are necessary, and each merge also cleans more data in other log blocks.
    pub(crate) fn worth_of_merging(&self, block: &Block) -> f64 {
        let aus = f64::from(block.aus.max(1));
        (self.sequence - block.opened) as f64 / (aus * aus)
    }

    /// Number of slots in a block of this kind.
    pub(crate) const fn slots_of(&self, kind: Kind) -> u32 {
        if self.is_slc(kind) { self.slc_slots } else { self.slots_per_block }
    }

    /// True if blocks of this kind have one bit per cell.
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

    /// Slots of a page; slots and pages are counted within the block.
    pub(crate) const fn slots_of_page(&self, page: u32) -> Range<u32> {
        page << self.page_shift..(page + 1) << self.page_shift
    }

    /// Reads the spare areas of a block.
    pub(crate) fn spares(&self, block: u32) -> Result<BlockSpares, Fault> {
        self.spares.read(block).map_err(|_| Fault::HostFile)
    }

    /// Sequence number of a page of a block with these spare areas.
    pub(crate) fn sequence(&self, block: u32, page: u32, spares: &BlockSpares) -> u64 {
        self.blocks[block as usize].opened + u64::from(spares.sequence(page))
    }

    /// True if the block has an incomplete page in RAM.
    pub(crate) fn has_partial_page(&self, block: u32) -> bool {
        let block = &self.blocks[block as usize];
        block.next != block.programmed
    }

    /// Removes the logical address of a slot that is not programmed yet.
    pub(crate) fn forget(&mut self, slot: u32) {
        let block = self.block_of(slot);
        self.spares.set_unit(block, slot - self.first_slot(block), None);
    }

    /// True if a slot of the block is still in RAM.
    #[inline]
    pub(crate) fn is_in_ram(&self, block: u32, slot: u32) -> bool {
        slot - self.first_slot(block) >= self.blocks[block as usize].programmed
    }

    /// Assigns the next slot of an open block to a unit. Returns the slot, and true if it completes a page.
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

    /// Stores the contents of a slot; no effect in timing-only mode.
    pub(crate) fn store(&mut self, slot: u32, data: &[u8]) {
        self.contents.program(slot as usize, 0, data);
    }

    /// Copies contents from slot to slot; no effect in timing-only mode.
    pub(crate) fn copy(&mut self, from: u32, to: u32) {
        if self.stores() {
            self.contents.copy(from as usize, to as usize);
        }
    }

    /// Reads a slot from a byte on. In timing-only mode the buffer stays unchanged.
    pub(crate) fn load(&self, slot: u32, byte: usize, out: &mut [u8]) {
        self.contents.read(slot as usize, byte, out);
    }

    pub(crate) const fn stores(&self) -> bool {
        self.contents.stores()
    }

    /// Die of a page. Blocks begin on different dies, so that writes to several blocks in rotation use all dies.
    fn die_of(&self, page: u32) -> usize {
        match self.dies.len() {
            1 => 0,
            dies => (page + self.block_of(page << self.page_shift)) as usize % dies,
        }
    }

    /// True if a page is spread over several planes.
    pub(crate) const fn has_planes(&self) -> bool {
        self.planes > 1
    }

    /// Planes of a page that contain some bytes of a slot.
    pub(crate) const fn planes_of(&self, slot: u32, bytes: Range<usize>) -> Planes {
        if !self.has_planes() {
            return Planes::FIRST;
        }
        let first = (slot & ((1 << self.page_shift) - 1)) as usize * self.slot_bytes;
        let [low, high] =
            [(first + bytes.start) / self.plane_bytes, (first + bytes.end - 1) / self.plane_bytes];
        Planes((2 << high) - (1 << low))
    }

    /// Reads the page with this number into the controller. Returns the time at which the transfer has ended.
    pub(crate) fn read_page(&mut self, at: Instant, page: u32) -> Instant {
        self.read(at, page, self.transfer)
    }

    /// True if the page of a slot can be copied into the next slot of a block within the chip.
    pub(crate) fn copies_back(&self, from: u32, block: u32) -> bool {
        let to = self.first_slot(block) + self.blocks[block as usize].next;
        self.copies_back && self.die_of(self.page_of(from)) == self.die_of(self.page_of(to))
    }

    /// Reads the page of a slot into the register of its die, without a transfer. Returns the time at which the read
    /// has ended.
    pub(crate) fn read_inside(&mut self, at: Instant, slot: u32) -> Instant {
        self.read(at, self.page_of(slot), Nanos::ZERO)
    }

    /// Reads the parts of a page on some planes, all at the same time, and transfers them to the controller one after the
    /// other.
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
        // The register is free for the next page when its data has been transferred.
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

    /// True if the page just read is uncorrectable.
    pub(crate) fn is_uncorrectable(&self, block: u32) -> bool {
        let failure = self.blocks[block as usize].failure;
        failure > 1e-15 && unit(hash(self.seed, self.operations.reads, 3)) < failure
    }

    /// Programs the page in RAM of a block; `is_inside` if the die's register already has its data. Returns the time at which the program has ended.
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

    /// Fills an open block in order with units from `unit` on, and programs its pages one after the other. Returns the time at which the last
    /// program has ended.
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

    /// True if blocks can be filled at once: contents are not stored, no operation can fail, no power cut is scheduled, and the supply
    /// does not change operation times.
    pub(crate) const fn can_fill(&self) -> bool {
        let is_ordered = self.cut_in > 0 || self.removal.as_ns() < NEVER.as_ns() || self.is_lost;
        !self.stores()
            && self.wear.program_failures_per_million == 0
            && !self.supply.is_limited()
            && !is_ordered
    }

    /// First unit of a block that was filled at once, in order.
    pub(crate) fn filled_from(&self, block: u32) -> Option<u32> {
        self.spares.filled_from(block)
    }

    /// Number of pages of a full block.
    pub(crate) const fn pages_per_block(&self) -> u32 {
        self.slots_per_block >> self.page_shift
    }

    /// Loads and programs a page. Returns the time at which the program has ended.
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

    /// Accounts for the energy of an operation. Returns the time at which it ends with the card's supply.
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

    /// True if the next program of a page fails.
    #[inline]
    pub(crate) fn fails_to_program(&self) -> bool {
        let failing = self.wear.program_failures_per_million;
        failing > 0 && unit(hash(self.seed, self.operations.programs, 4)) * 1e6 < f64::from(failing)
    }

    /// Replaces a block after a failed page program: copies its programmed pages to an erased block, and exchanges the numbers of the two
    /// blocks. Returns the time at which the copy has ended.
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

    /// Writes the summary of a block into its last page, and closes the block.
    pub(crate) fn program_summary(&mut self, at: Instant, block: u32) -> Result<Instant, Fault> {
        self.blocks[block as usize].state = State::Closed;
        let kind = self.blocks[block as usize].kind;
        let end = self.program_time(at, self.page_of(self.first_slot(block)), kind)?;
        self.operations.summaries += 1;
        self.blocks[block as usize].has_summary = true;
        self.spares.close(block);
        Ok(end)
    }

    /// Erases a block on all dies, unless it is blank. Returns false if the erase failed; the block is then bad.
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

    /// Marks the block that was just opened as the target of a merge.
    pub(crate) fn mark_merge(&mut self, block: u32) {
        self.blocks[block as usize].is_merge = true;
    }

    /// Clears the contents of a block.
    fn wipe(&mut self, block: u32) {
        self.spares.erase(block);
        if self.stores() {
            self.contents.erase(block as usize);
        }
        let block = &mut self.blocks[block as usize];
        (block.next, block.programmed, block.reads) = (0, 0, 0);
        (block.has_summary, block.is_merge) = (false, false);
    }

    /// Counts a further cycle of a block, which increases its error rate.
    fn age(&mut self, block: u32) {
        let erases = self.blocks[block as usize].erases + 1;
        self.blocks[block as usize].erases = erases;
        let pool = self.pool_of(block);
        let most = &mut self.erases_max[pool];
        *most = erases.max(*most);
        let rated = self.rated_cycles(block);
        // The rate is not computed at each cycle, because it changes little, and the computation takes longer than the
        // other work here.
        if erases.is_multiple_of(rated.div_ceil(64)) {
            let (failure, retries) = self.failure(erases, rated);
            let block = &mut self.blocks[block as usize];
            (block.failure, block.retries) = (failure, retries);
        }
    }

    /// Probability that a page is uncorrectable after this number of erases, for a block with `rated` cycles; and number of read
    /// retries that its pages need.
    fn failure(&self, erases: u32, rated: u32) -> (f64, u8) {
        let cycles = self.damage(erases) * (f64::from(self.wear.endurance_cycles) / f64::from(rated));
        let rber = self.errors.rber(&Conditions { cycles, ..Conditions::NEW }).total();
        let bits = self.wear.ecc_step_bytes * 8;
        let step = tail::beyond(self.wear.ecc_strength, bits, rber);
        // One retry for each third of the code's strength in the mean number of wrong bits.
        let used = rber * f64::from(bits) / f64::from(self.wear.ecc_strength);
        ((step * self.ecc_steps).min(1.0), (used * 3.0).min(7.0) as u8)
    }

    /// Makes a page unreadable whose program was interrupted by a power loss.
    fn tear(&mut self, first: u32) {
        for slot in first..first + (1 << self.page_shift) {
            self.clear(slot);
        }
    }

    /// Clears the pages that share their cells with a torn page.
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

    /// Returns an error if power is lost.
    #[inline]
    pub(crate) const fn powered(&self) -> Result<(), Fault> {
        if self.is_lost { Err(Fault::PowerLost) } else { Ok(()) }
    }

    /// Counts a program or erase that ends at `end`. It fails if a power cut is scheduled for it, or if it ends after the
    /// hold-up time.
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

    /// Records a power loss during an operation. It may destroy the firmware's tables (`card.loss`), so that the card no longer
    /// starts.
    #[cold]
    fn tear_firmware(&mut self) {
        self.torn_operations += 1;
        let dies = f64::from(self.loss.dies_per_million);
        self.is_dead |= dies > 0.0 && unit(hash(self.seed, self.torn_operations, 5)) * 1e6 < dies;
    }

    /// True if the card no longer starts.
    pub(crate) const fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// Schedules the removal of the card at this time. Operations that end within the hold-up time are completed.
    pub(crate) const fn order_removal(&mut self, at: Instant) {
        self.removal = at;
    }

    /// Cancels all scheduled power cuts.
    pub(crate) const fn cancel_cuts(&mut self) {
        (self.cut_in, self.removal) = (0, NEVER);
    }

    /// Cuts power if the card has been pulled out by now.
    #[inline]
    pub(crate) fn is_gone(&mut self, now: Instant) -> bool {
        self.is_lost |= now >= self.removal;
        self.is_lost
    }

    /// Schedules a power cut during a program or erase, counted from now on; 0 for no cut.
    pub(crate) fn order_cut(&mut self, operations: u64) {
        self.cut_in = operations;
    }

    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub(crate) fn lose_power(&mut self) {
        self.is_lost = true;
    }

    /// Restores power, and schedules the next cut at the program or erase number `cut_in`; 0 for no cut. Data that was
    /// only in RAM is lost.
    pub(crate) fn power_on(&mut self, at: Instant, cut_in: u64) {
        (self.is_lost, self.cut_in, self.removal) = (false, cut_in, NEVER);
        // No operation is running.
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

    /// Number of pages that a scan reads in a block: the first one, and then its summary, or each programmed page if
    /// the block has no summary.
    pub(crate) fn scan_pages(&self, block: u32) -> u32 {
        let block = &self.blocks[block as usize];
        if block.has_summary { 2 } else { 1 + (block.programmed >> self.page_shift) }
    }

    /// Time at which all running operations have ended.
    pub(crate) fn busy_until(&self) -> Instant {
        self.dies.iter().map(Timeline::busy_until).fold(Instant::ZERO, Instant::max)
    }

    /// Checks the energy against the operations.
    pub(crate) fn check_energy(&self) -> Result<(), String> {
        let Operations { reads, retries, programs, summaries, torn_programs, erases } = self.operations;
        self.supply.check(reads + retries, programs + summaries + torn_programs, erases)
    }

    /// Memory of the host for the spare areas that are not in the temporary file, B.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.spares.memory_bytes()
    }
}
