//! History of each block, and the behaviour of its cells.
//!
//! **Reads without bit errors are cheap.** Each bit has a hazard, drawn once per erase: the bit reads wrong if the hazard of the page
//! (`-ln(1 - rber)`) exceeds it. One hash gives the smallest hazard of the bits in a page. For each block an upper bound of the page
//! hazard is stored, with the number of reads and the time up to which it is valid. A read compares two integers with these limits, and a
//! hash with a threshold. Only if the hash is below the threshold, single bits are examined.
//!
//! Because the hazards are constant, repeated reads of a page have the same errors, and more errors as the page ages. Bits whose
//! hazard is within [`super::errors::UNSTABLE`] of the page hazard read right or wrong at random in each read.

use super::errors::{Damage, DamagedCells, Sampler};
use super::rber::{Conditions, ErrorSpec, Rber};
use super::wear::{BlockLife, CYCLE, Wear, stress};
use floatgate_mtd::random::{Random, hash, mix};
use floatgate_mtd::{Instant, Nanos, Pairing};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Simulated effects of the cells and the history of all blocks: the `[cells]` table of a setup.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CellsProfile {
    /// True to simulate wear: block times change with the cycles, and blocks fail at the end of their life.
    pub wear: bool,
    /// True to simulate bit errors of reads.
    pub errors: bool,
    /// Number of program/erase cycles of each block before the simulation.
    pub cycles: u32,
    /// Temperature of the chip, in degrees Celsius.
    pub temperature_c: f64,
    /// Age of all data at the start of the simulation, in days since it was programmed.
    pub age_days: f64,
    /// Temperature of the chip during `age_days`, in degrees Celsius.
    pub age_temperature_c: f64,
    /// Number of reads of each block since its last erase, before the simulation.
    pub reads: u32,
    /// Standard deviation of the natural logarithm of a block's program and erase times, between the blocks of a chip. All
    /// blocks are typical with 0. Logs of NAND chips show at most 0.005 to 0.12.
    pub block_spread: f64,
}

impl Default for CellsProfile {
    /// A chip after a short use, to which the typical times apply (see [`super::wear`]).
    fn default() -> Self {
        Self {
            wear: true,
            errors: true,
            cycles: 500,
            temperature_c: 25.0,
            age_days: 0.0,
            age_temperature_c: 25.0,
            reads: 0,
            block_spread: 0.0,
        }
    }
}

/// Sizes of a chip that the cell model needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellsGeometry {
    /// Size of a page with its OOB, bytes.
    pub page_bytes: u32,
    /// Number of pages in a block.
    pub pages_per_block: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Pairing scheme: the pages that share cells.
    pub pairing: Pairing,
    /// Factor of the bit error rate while only one page of a pair is programmed (pSLC).
    pub half_pair: f64,
}

/// Parameters that all blocks share.
#[derive(Debug)]
struct Model {
    geometry: CellsGeometry,
    wear: Wear,
    errors: ErrorSpec,
    seed: u64,
}

/// Limits up to which reads of one block need no detailed model. It is copied with every clone of the device, so it is small.
#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    /// Hash of the block and of its last erase.
    key: u64,
    /// Threshold for the hash of a page: a page with a higher hash has no wrong bit, unless it is damaged.
    threshold: u64,
    /// Time up to which the threshold is valid.
    until: Instant,
    /// Number of reads since the last erase.
    reads: u32,
    /// Number of reads up to which the threshold is valid.
    reads_until: u32,
    /// True if a power loss left a page of the block partly programmed or erased.
    damaged: bool,
}

impl Bound {
    /// Limits of a block that has just been erased.
    fn erased(profile: &CellsProfile) -> Self {
        Self { reads: profile.reads, ..Self::default() }
    }
}

/// History of a block.
#[derive(Clone, Debug)]
struct History {
    wear: u64,
    cycles: u32,
    life: BlockLife,
    /// Number of pages programmed since the last erase.
    programs: u32,
    /// Time at which each page was programmed, in days of retention; negative for an erased page.
    programmed: Box<[f32]>,
    /// Minimum of these times; infinite if all pages are erased.
    oldest: f32,
    /// True after an interrupted erase: charge in the cells is not stable.
    weak: bool,
    /// Factor of the block's program and erase times.
    pace: Pace,
}

/// Factor of the times of a block, in parts of 65 536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace(u32);

impl Pace {
    /// Pace of a block with typical times.
    const TYPICAL: Self = Self(1 << 16);

    /// Draws the pace of a block: log-normal with mean 1. The deviation is limited to three times the spread.
    fn draw(spread: f64, seed: u64, block: u32) -> Self {
        // A spread that is not a number counts as 0, too.
        if spread > 0.0 {
            let spread = spread.min(1.0);
            let normal = Random::new(hash(seed, u64::from(block), PACE)).normal().clamp(-3.0, 3.0);
            return Self((libm::exp(spread * normal - spread * spread / 2.0) * 65_536.0) as u32);
        }
        Self::TYPICAL
    }

    #[inline]
    fn of(self, time: Nanos) -> Nanos {
        if self == Self::TYPICAL {
            return time;
        }
        let ns = (u128::from(time.as_ns()) * u128::from(self.0)) >> 16;
        Nanos::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// Constant that separates the hashes of paces from others.
const PACE: u64 = 0x50_41_43_45;

/// State of a block at one moment, to be restored later.
#[derive(Clone, Debug)]
pub(crate) struct BlockState {
    bound: Bound,
    history: Option<Arc<History>>,
    damage: Vec<(u32, Damage)>,
}

/// Model of the cells of a chip.
#[derive(Clone, Debug)]
pub struct Cells {
    model: Arc<Model>,
    profile: CellsProfile,
    /// Retention days of every programmed page before the clock starts, at the reference temperature.
    age_days: f64,
    /// Retention days that passed before the time `since`.
    aged_days: f64,
    since: Instant,
    /// Retention days per nanosecond at the current temperature.
    pace: f64,
    /// Number of bits of a row that are the page number; `None` if the number of pages per block is not a power of two.
    page_shift: Option<u8>,
    bounds: Vec<Bound>,
    histories: Vec<Option<Arc<History>>>,
    /// Pages that a power loss left partly programmed or erased, by row.
    damage: BTreeMap<u32, Damage>,
    /// Cells of damaged pages, drawn for a read, by row. An entry is only used for the inputs from which it was drawn.
    drawn: BTreeMap<u32, Arc<DamagedCells>>,
}

/// Result of a program or erase of the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Duration of the operation in the array.
    pub time: Nanos,
    /// True if the chip's status reports a failure.
    pub failed: bool,
}

const NS_PER_DAY: f64 = 86_400e9;

impl Cells {
    /// Cells of a new chip; the seed determines all variation.
    pub fn new(
        geometry: CellsGeometry,
        wear: Wear,
        errors: ErrorSpec,
        profile: CellsProfile,
        seed: u64,
    ) -> Self {
        let pace = errors.acceleration(profile.temperature_c) / NS_PER_DAY;
        let age_days = profile.age_days.max(0.0) * errors.acceleration(profile.age_temperature_c);
        let (blocks, pages) = (geometry.blocks as usize, geometry.pages_per_block);
        let page_shift = pages.is_power_of_two().then(|| pages.trailing_zeros() as u8);
        Self {
            model: Arc::new(Model { geometry, wear, errors, seed }),
            profile,
            age_days,
            aged_days: 0.0,
            since: Instant::ZERO,
            pace,
            page_shift,
            bounds: vec![Bound::erased(&profile); blocks],
            histories: vec![None; blocks],
            damage: BTreeMap::new(),
            drawn: BTreeMap::new(),
        }
    }

    /// The wear model.
    pub fn wear(&self) -> &Wear {
        &self.model.wear
    }

    /// The error model.
    pub fn error_model(&self) -> &ErrorSpec {
        &self.model.errors
    }

    /// The current profile.
    pub const fn profile(&self) -> &CellsProfile {
        &self.profile
    }

    /// Sets the temperature from `now` on.
    pub fn set_temperature(&mut self, now: Instant, temperature_c: f64) {
        self.aged_days = self.days(now);
        self.since = now;
        self.profile.temperature_c = temperature_c;
        self.pace = self.model.errors.acceleration(temperature_c) / NS_PER_DAY;
        self.bounds.iter_mut().for_each(|bound| bound.reads_until = 0);
    }

    /// Simulates storage of all programmed pages for `days` days at a temperature in degrees Celsius, as in an oven or on a shelf. The
    /// clock does not advance.
    pub fn bake(&mut self, days: f64, temperature_c: f64) {
        self.aged_days += days.max(0.0) * self.model.errors.acceleration(temperature_c);
        self.bounds.iter_mut().for_each(|bound| bound.reads_until = 0);
    }

    /// Retention days since the chip was created, at the reference temperature.
    fn days(&self, now: Instant) -> f64 {
        self.aged_days + now.since(self.since).as_ns() as f64 * self.pace
    }

    /// Number of cycles of a block.
    pub fn cycles(&self, block: u32) -> u32 {
        self.histories[block as usize].as_ref().map_or(self.profile.cycles, |h| h.cycles)
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.histories.len() as u32
    }

    /// Adds the wear of `cycles` further cycles in which all pages of the block were programmed. The contents of the block are preserved.
    /// In this way years of use are reached without a simulation of each write.
    pub fn cycle(&mut self, block: u32, cycles: u32) {
        let (model, profile) = (&self.model, &self.profile);
        let history = open(&mut self.histories, model, profile, block);
        if profile.wear {
            let pages = model.geometry.pages_per_block;
            history.wear += u64::from(cycles) * stress(profile.temperature_c, pages, pages);
        }
        history.cycles = history.cycles.saturating_add(cycles);
        self.bounds[block as usize].reads_until = 0;
    }

    /// Number of reads of a block since its last erase.
    pub fn reads(&self, block: u32) -> u32 {
        self.bounds[block as usize].reads
    }

    /// Programs a page at `now`, and returns duration and status. A page whose program fails is left partly programmed: cells that the
    /// last pulse did not move far enough read as erased.
    pub fn program(&mut self, row: u32, now: Instant) -> Outcome {
        let (block, page) = self.place(row);
        let days = self.days(now) as f32;
        let (model, profile) = (&self.model, &self.profile);
        let history = open(&mut self.histories, model, profile, block);
        history.note_program(page, days);
        let outcome = history.program(&model.wear, profile.wear);
        if outcome.failed {
            self.damage.insert(row, Damage::HalfProgrammed { done: GAVE_UP });
            self.bounds[block as usize].reads_until = 0;
        }
        outcome
    }

    /// Erases a block, and returns duration and status. A failed erase adds wear and leaves the data.
    pub fn erase(&mut self, block: u32) -> Outcome {
        let (model, profile) = (&self.model, &self.profile);
        let history = open(&mut self.histories, model, profile, block);
        let outcome = history.erase(&model.wear, profile.wear);
        if profile.wear {
            history.wear += stress(profile.temperature_c, history.programs, model.geometry.pages_per_block);
        }
        history.cycles += 1;
        self.bounds[block as usize] = Bound::erased(&self.profile);
        if !outcome.failed {
            self.forget(block);
        }
        outcome
    }

    /// Outcome of an erase that would start now, without the erase. Chips whose power may be cut use it, and erase at the end of the
    /// operation.
    pub fn erase_outcome(&self, block: u32) -> Outcome {
        let (wear, wears) = (&self.model.wear, self.profile.wear);
        match self.history_of(block) {
            Some(history) => history.erase(wear, wears),
            None => History::new(&self.model, &self.profile, block).erase(wear, wears),
        }
    }

    /// Resets the history of the block's pages: all of them are erased.
    fn forget(&mut self, block: u32) {
        open(&mut self.histories, &self.model, &self.profile, block).forget();
        if !self.damage.is_empty() {
            let pages = self.model.geometry.pages_per_block;
            self.damage.retain(|row, _| row / pages != block);
            self.drawn.retain(|row, _| row / pages != block);
        }
    }

    /// Applies a power loss during the program of a page, when the share `done` of its pulses was finished. If the other page in the same
    /// cells was programmed, it is lost, too.
    pub fn cut_program(&mut self, row: u32, done: f32, now: Instant) {
        let (block, page) = self.place(row);
        let partner = self.model.geometry.pairing.partner(page).filter(|partner| *partner < page);
        let lost = partner.filter(|p| self.is_programmed(block, *p));
        self.program(row, now);
        self.damage.insert(row, Damage::HalfProgrammed { done });
        if let Some(partner) = lost {
            let first = block * self.model.geometry.pages_per_block;
            self.damage.insert(first + partner, Damage::PartnerMoved { done });
        }
        self.bounds[block as usize].reads_until = 0;
    }

    /// Applies a power loss during the erase of a block, when the share `done` of its pulses was finished. Returns true if all its cells
    /// read as erased; the array then drops the data. The cells are not stable until the next complete erase.
    pub fn cut_erase(&mut self, block: u32, done: f32) -> bool {
        let pages = self.model.geometry.pages_per_block;
        open(&mut self.histories, &self.model, &self.profile, block).cycles += 1;
        self.bounds[block as usize] = Bound::erased(&self.profile);
        let looks_erased = done >= LOOKS_ERASED;
        if looks_erased {
            self.forget(block);
            open(&mut self.histories, &self.model, &self.profile, block).weak = true;
        } else {
            let damaged = (0..pages).filter(|page| self.is_programmed(block, *page)).collect::<Vec<u32>>();
            let rows = damaged.iter().map(|page| (block * pages + page, Damage::HalfErased { done }));
            self.damage.extend(rows);
        }
        looks_erased
    }

    /// Reverts a program: the page is erased as before.
    pub fn undo_program(&mut self, row: u32) {
        let (block, page) = self.place(row);
        let history = open(&mut self.histories, &self.model, &self.profile, block);
        let at = &mut history.programmed[page as usize];
        if *at >= 0.0 {
            *at = -1.0;
            history.programs -= 1;
        }
        self.damage.remove(&row);
        self.drawn.remove(&row);
    }

    /// State of a block, for [`Self::restore`].
    pub(crate) fn block_state(&self, block: u32) -> BlockState {
        let pages = self.model.geometry.pages_per_block;
        let damage = self.damage.range(block * pages..(block + 1) * pages);
        BlockState {
            bound: self.bounds[block as usize],
            history: self.histories[block as usize].clone(),
            damage: damage.map(|(row, damage)| (*row, *damage)).collect(),
        }
    }

    /// Restores the state of a block.
    pub(crate) fn restore(&mut self, block: u32, state: BlockState) {
        self.forget(block);
        self.bounds[block as usize] = state.bound;
        self.histories[block as usize] = state.history;
        self.damage.extend(state.damage);
    }

    fn is_programmed(&self, block: u32, page: u32) -> bool {
        self.history_of(block).is_some_and(|h| h.programmed[page as usize] >= 0.0)
    }

    fn history_of(&self, block: u32) -> Option<&History> {
        self.histories[block as usize].as_deref()
    }

    #[inline]
    fn place(&self, row: u32) -> (u32, u32) {
        // The division would cost more than all other work of a read without errors.
        match self.page_shift {
            Some(shift) => (row >> shift, row & ((1 << shift) - 1)),
            None => (row / self.model.geometry.pages_per_block, row % self.model.geometry.pages_per_block),
        }
    }

    /// Counts a read of a page into the register. Returns true if a bit of the page may be wrong; [`Self::errors`] then returns the wrong
    /// bits.
    #[inline]
    pub fn read(&mut self, row: u32, now: Instant) -> bool {
        let (block, page) = self.place(row);
        self.read_page(block, page, now)
    }

    /// Counts a read as [`Self::read`], with block and page already known.
    #[inline]
    pub fn read_page(&mut self, block: u32, page: u32, now: Instant) -> bool {
        let bound = &mut self.bounds[block as usize];
        bound.reads = bound.reads.saturating_add(1);
        if bound.reads >= bound.reads_until || now > bound.until {
            self.bound(block, now);
        }
        let bound = &self.bounds[block as usize];
        page_hash(bound.key, page) < bound.threshold || bound.damaged
    }

    /// Computes an upper bound for the hazards of a block's pages that is valid for some time.
    #[cold]
    fn bound(&mut self, block: u32, now: Instant) {
        let g = self.model.geometry;
        let mut bound = self.bounds[block as usize];
        bound.reads_until = bound.reads.saturating_add(bound.reads / 2).saturating_add(1024);
        let ahead = Nanos::from_ns((now.since(Instant::ZERO).as_ns() / 4).max(3_600_000_000_000));
        bound.until = now + ahead;
        bound.key = hash(self.model.seed, u64::from(block), u64::from(self.cycles(block)));
        let history = self.history_of(block);
        let oldest = history.map_or(f64::INFINITY, |h| f64::from(h.oldest)).min(self.days(now));
        let worst = Conditions {
            cycles: f64::from(self.cycles(block)),
            days: self.age_days + self.days(bound.until) - oldest,
            reads_per_page: f64::from(bound.reads_until) / f64::from(g.pages_per_block),
            programmed_after: 1.0,
            page: if g.pairing.is_none() { 1.0 } else { MSB },
        };
        let weak = history.is_some_and(|h| h.weak);
        let rate = weakened(self.model.errors.rber(&worst), weak).total();
        let first_row = block * g.pages_per_block;
        bound.damaged = self.damage.range(first_row..first_row + g.pages_per_block).next().is_some();
        bound.threshold = if self.profile.errors { self.sampler().threshold(rate) } else { 0 };
        self.bounds[block as usize] = bound;
    }

    fn sampler(&self) -> Sampler {
        Sampler { bits: self.model.geometry.page_bytes * 8, dispersion: self.model.errors.dispersion }
    }

    /// Bit error rate of a page, by cause.
    pub fn rber(&self, row: u32, now: Instant) -> Rber {
        let g = &self.model.geometry;
        let (block, page) = self.place(row);
        let Some(history) = self.history_of(block) else {
            let erased = Conditions { cycles: f64::from(self.profile.cycles), ..Conditions::NEW };
            return self.model.errors.rber(&erased);
        };
        let at = history.programmed[page as usize];
        let conditions = Conditions {
            cycles: f64::from(history.cycles),
            days: if at < 0.0 { 0.0 } else { self.age_days + (self.days(now) - f64::from(at)).max(0.0) },
            reads_per_page: f64::from(self.bounds[block as usize].reads) / f64::from(g.pages_per_block),
            programmed_after: f64::from(history.programs.saturating_sub(page + 1))
                / f64::from(g.pages_per_block),
            page: self.page_factor(block, page),
        };
        // A weak erased page reads as erased; only data programmed into it is unstable.
        weakened(self.model.errors.rber(&conditions), history.weak && at >= 0.0)
    }

    /// Factor of a page's bit error rate within its pair. The second page of a pair is read with more thresholds and has twice as many
    /// errors (facts 4.2). Until it is programmed, the first page uses the full range of the cells.
    fn page_factor(&self, block: u32, page: u32) -> f64 {
        let g = &self.model.geometry;
        match g.pairing.partner(page) {
            None if g.pairing.is_none() => 1.0,
            Some(partner) if g.pairing.is_lsb(page) && !self.is_programmed(block, partner) => {
                LSB * g.half_pair
            }
            _ if g.pairing.is_lsb(page) => LSB,
            _ => MSB,
        }
    }

    /// Offsets of the bits of a page that read wrong now, ascending. The read thresholds are lowered by `lowered` standard deviations of
    /// the cells' threshold voltage. `stored` is the correct page; without it (timing only) half of the bits count as programmed.
    #[cold]
    pub fn errors(
        &mut self,
        row: u32,
        now: Instant,
        lowered: f64,
        stored: Option<&[u8]>,
        out: &mut Vec<u32>,
    ) {
        out.clear();
        let (block, page) = self.place(row);
        let bound = &self.bounds[block as usize];
        let hash = page_hash(bound.key, page);
        // Most pages examined here are damaged. For their other bits, too, the bound shows if any can be wrong.
        let bounded = lowered == 0.0 && bound.reads < bound.reads_until && now <= bound.until;
        if self.profile.errors && (!bounded || hash < bound.threshold) {
            let rber = self.rber(row, now);
            let rate = if lowered == 0.0 { rber } else { rber.with_threshold_lowered(lowered) }.total();
            self.sampler().errors(rate, hash, bound.reads, out);
        }
        if let Some(&damage) = self.damage.get(&row) {
            let bits = self.model.geometry.page_bytes * 8;
            let draw = || Arc::new(DamagedCells::draw(damage, hash, bits, stored));
            if self.drawn.len() >= DRAWN_MAX && !self.drawn.contains_key(&row) {
                self.drawn.clear();
            }
            let cells = self.drawn.entry(row).or_insert_with(draw);
            if !cells.are_of(damage, hash, stored) {
                *cells = draw();
            }
            cells.errors(bound.reads, out);
        }
        if !out.is_sorted_by(|a, b| a < b) {
            out.sort_unstable();
            out.dedup();
        }
    }
}

/// History of a block for changes; it is created if needed.
fn open<'a>(
    all: &'a mut [Option<Arc<History>>],
    model: &Model,
    profile: &CellsProfile,
    block: u32,
) -> &'a mut History {
    let slot = &mut all[block as usize];
    Arc::make_mut(slot.get_or_insert_with(|| Arc::new(History::new(model, profile, block))))
}

impl History {
    fn new(model: &Model, profile: &CellsProfile, block: u32) -> Self {
        let pages = model.geometry.pages_per_block as usize;
        Self {
            wear: u64::from(profile.cycles) * CYCLE,
            cycles: profile.cycles,
            life: model.wear.block(model.seed, block),
            programs: 0,
            programmed: vec![-1.0; pages].into_boxed_slice(),
            oldest: f32::INFINITY,
            weak: false,
            pace: Pace::draw(profile.block_spread, model.seed, block),
        }
    }

    fn note_program(&mut self, page: u32, days: f32) {
        let at = &mut self.programmed[page as usize];
        if *at < 0.0 {
            *at = days;
            self.programs += 1;
            self.oldest = self.oldest.min(days);
        }
    }

    fn forget(&mut self) {
        self.programs = 0;
        self.programmed.fill(-1.0);
        self.oldest = f32::INFINITY;
        self.weak = false;
    }

    fn program(&self, wear: &Wear, wears: bool) -> Outcome {
        if !wears {
            return Outcome { time: self.pace.of(wear.typical_program()), failed: false };
        }
        let failed = Wear::is_dead(&self.life, self.wear);
        Outcome { time: self.pace.of(wear.program_time(&self.life, self.wear)), failed }
    }

    fn erase(&self, wear: &Wear, wears: bool) -> Outcome {
        let failed = wears && Wear::is_dead(&self.life, self.wear);
        let written = || if wears { wear.erase_time(&self.life, self.wear) } else { wear.typical_erase() };
        let blank = wear.blank_erase().filter(|_| self.programs == 0 && !self.weak);
        Outcome { time: self.pace.of(blank.unwrap_or_else(written)), failed }
    }
}

/// Hash of a page that determines its errors since the last erase of its block.
#[inline]
const fn page_hash(key: u64, page: u32) -> u64 {
    mix(key ^ (page as u64 + 1).wrapping_mul(0xD1B5_4A32_D192_ED03))
}

/// Share of a program's pulses that is done when the program fails. Assumption: it leaves more wrong bits than any code corrects.
const GAVE_UP: f32 = 0.9;

/// Maximum number of damaged pages whose drawn cells are stored. A torn page is read repeatedly, while the pages of a half-erased block
/// are read once. An entry takes about 10 bytes for each byte of the page.
const DRAWN_MAX: usize = 32;

/// Share of an erase's pulses after which all cells read as erased.
const LOOKS_ERASED: f32 = 0.8;

/// Factors of the error rate for the pages of a pair: the second page has twice as many errors (facts 4.2), the mean is 1.
const LSB: f64 = 2.0 / 3.0;
const MSB: f64 = 4.0 / 3.0;

/// Error rate of a page; `weak` is true if an interrupted erase did not erase its cells deeply enough. Such cells read as
/// erased, but do not retain data. The factors are assumptions.
fn weakened(rber: Rber, weak: bool) -> Rber {
    if weak { Rber { steady: rber.steady + 1e-3, retention: rber.retention * 10.0, ..rber } } else { rber }
}
