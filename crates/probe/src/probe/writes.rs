//! Tests that write.

use super::behind_cache::InOrder;
use super::capacity::PASSES;
use super::{Probe, ProbeError};
use crate::analysis::behind_cache::{CACHE_MAX, GUESS, hiding_cache, is_too_large};
use crate::analysis::borders::{FILL_BYTES, erase_block, origin, page, read_fit, write_fit};
use crate::analysis::caches::{cache, is_beyond_buffer};
use crate::analysis::closing;
use crate::analysis::open_aus::{FAT_AUS, REPEAT, Search};
use crate::answer::Answer;
use crate::sample::{AUS_MOST, SECTOR, Samples, TURN_BYTES, Test};
use floatgate_host::Target;
use floatgate_mtd::size::text as size;

/// Maximum number of bytes that are written in order. On a slow card the test ends after this time, ns, once the
/// minimum is written.
const FILL_MAX: u64 = 512 << 20;
const FILL_NS: u64 = 90_000_000_000;
const FILL_MIN: u64 = 64 << 20;
/// Bytes that are written in order and flushed one by one: several times a cache with blocks of up to that size.
const THROUGH_BYTES: u64 = 48 << 20;
/// Divisor of the capacity that gives the start of the test range.
const FILL_PART: u64 = 8;
/// Size of a write of a burst, B, writes per burst, and number of bursts.
const BURST_BYTES: u64 = 16 << 10;
const BURST_WRITES: u64 = 256;
const PAUSES: u64 = 3;
/// Length of a pause, ns.
const PAUSE_NS: u64 = 2_000_000_000;
/// Minimum number of measured writes in a round-robin test, and minimum per allocation unit.
const TURN_WRITES: u64 = 24;
const TURN_ROUNDS: u64 = 3;
/// Data at the end of each allocation unit of a round-robin test, B. When a card closes an allocation unit, it copies
/// the data after the written part; without data there, closing would cost nothing and would not be visible.
const CONTENT_BYTES: u64 = 4 << 20;
/// Minimum of that data on a slow card, B, and target time for writing all of it, ns.
const CONTENT_MIN: u64 = 1 << 20;
const CONTENTS_NS: u64 = 30_000_000_000;
/// Amount of that data behind a cache, where only the first allocation units need it, B.
const CONTENT_MAX: u64 = 16 << 20;
/// Maximum number of pages that get scattered sectors, sectors per page, passes, and the pause before, ns.
const SCATTER_PAGES: u64 = 128;
const SCATTER_ROUNDS: u64 = 4;
const SCATTER_PASSES: u64 = 2;
const SCATTER_PAUSE_NS: u64 = 20_000_000;
/// Largest buffer that delays a pause, B.
const BUFFER_MAX: u64 = 1 << 20;
/// Maximum number of allocation units that the tests cycle through: a unit left open by a test is closed before it is
/// used again.
const POOL: u64 = 2 * AUS_MOST + 8;
/// Random writes: size of a write, maximum and minimum number per round, target time of a round in ns, and number of
/// rounds.
const RANDOM_BYTES: u64 = 16 << 10;
const RANDOM_WRITES: u64 = 32;
const RANDOM_WRITES_MIN: u64 = 4;
const RANDOM_ROUND_NS: u64 = 5_000_000_000;
const RANDOM_ROUNDS: u64 = 8;
/// Largest allocation unit for which the first units of a device are measured if only writes show it, B.
const UNKNOWN_AU_MAX: u64 = 128 << 20;
/// Maximum number of round-robin tests, including those of the FAT area.
const TESTS: u64 = 36;
/// Confidence from which on no further test of a property is needed.
const CLEAR: f64 = 0.9;
/// Maximum number of searches for pages, each at other positions.
const PAGE_PASSES: usize = 4;
/// Ratio to the usual write time from which on a test ends early, because the result is clear.
const ENOUGH: u64 = 8;

/// Ranges that the tests write to, and the amount of data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WritePlan {
    /// First byte and length of each range.
    pub ranges: Vec<(u64, u64)>,
    /// Maximum number of bytes written by all tests together.
    pub bytes_max: u64,
}

impl WritePlan {
    /// True when a write lies inside a range.
    pub(crate) fn covers(&self, position: u64, bytes: u64) -> bool {
        self.ranges.iter().any(|(start, length)| *start <= position && position + bytes <= start + length)
    }

    /// Text for the confirmation prompt that lists the ranges.
    pub fn announcement(&self) -> String {
        let ranges: Vec<String> =
            self.ranges.iter().map(|(start, bytes)| format!("{} from byte {start}", size(*bytes))).collect();
        let most = size(self.bytes_max.next_multiple_of(1 << 20));
        format!(
            "parts of {}, pieces of 64 KiB and single sectors elsewhere; at most {most} are written",
            ranges.join(", ")
        )
    }
}

/// Positions of the tests on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// First border of an allocation unit.
    pub(super) origin: u64,
    /// Allocation unit, B.
    pub(super) au: u64,
    /// Range that is written in order.
    pub(super) fill: (u64, u64),
    /// Data at the end of each allocation unit of a round-robin test, B.
    content: u64,
    /// Length of a round-robin write, B.
    turn: u64,
}

impl Layout {
    pub(super) fn from_samples(samples: &Samples, usable: u64) -> Self {
        let known = erase_block(samples).0.count();
        let au = known.unwrap_or(4 << 20);
        let origin = origin(samples).unwrap_or(0);
        let start = origin + (usable / FILL_PART).next_multiple_of(au);
        let room = usable.saturating_sub(start) / 2;
        let bytes = FILL_MAX.min(usable / 4).min(room) / FILL_BYTES * FILL_BYTES;
        let filled: u64 = samples.with_test(Test::Fill).map(|sample| sample.bytes).sum();
        let bytes = if filled > 0 { bytes.min(filled) } else { bytes };
        let turn = turn_bytes(samples, au);
        let content = contents(samples).min(au) / turn * turn;
        Self { origin, au, fill: (start, bytes), content, turn }
    }

    /// Position of a round-robin write inside an allocation unit.
    pub(super) const fn position(&self, au: u64, place: u64) -> u64 {
        self.origin + au * self.au + place * self.turn
    }

    /// Positions for tests behind a cache: allocation units in the filled range, which contain data, and a range for
    /// sequential writes, which was also filled if there is enough room.
    pub(super) fn behind_cache(&self, usable: u64, cache_bytes: u64) -> (Self, Pool) {
        let units = (self.fill.1 / self.au).min(AUS_MOST);
        let pool = Pool { first: (self.fill.0 - self.origin) / self.au, all: units, next: 0 };
        let rest = (self.fill.0 + units * self.au, (self.fill.1 / self.au - units) * self.au);
        let layout =
            if rest.1 >= cache_bytes * 5 / 4 { Self { fill: rest, ..*self } } else { self.behind(usable) };
        (Self { content: self.au.min(CONTENT_MAX), turn: TURN_BYTES, ..layout }, pool)
    }

    /// Uses the longest possible range, which was not filled.
    fn behind(&self, usable: u64) -> Self {
        let (first, all) = self.aus_behind(usable);
        let fill = (self.origin + first * self.au, FILL_MAX.min(all * self.au) / self.au * self.au);
        Self { fill, ..*self }
    }

    /// First allocation unit after the sequentially written range, and number of units that the tests cycle through.
    pub(super) fn aus_behind(&self, usable: u64) -> (u64, u64) {
        let first = (self.fill.0 + self.fill.1).saturating_sub(self.origin).div_ceil(self.au);
        let all = usable.saturating_sub(self.origin) / self.au;
        (first, all.saturating_sub(first))
    }
}

/// Length of a round-robin write, B: whole pages, if an allocation unit is a multiple of it. A card does not continue
/// in order after a write that ends inside a page. An unknown page is assumed to be a sixteenth of a small allocation
/// unit, where it may not be a power of two.
fn turn_bytes(samples: &Samples, au: u64) -> u64 {
    let page = page(samples).count().unwrap_or(au / 16).max(SECTOR);
    let bytes = TURN_BYTES.next_multiple_of(page);
    if bytes < 2 * TURN_BYTES && au.is_multiple_of(bytes) { bytes } else { TURN_BYTES }
}

/// Amount of data written to each allocation unit of a round-robin test, B: limited by the time it takes on this card.
fn contents(samples: &Samples) -> u64 {
    let fill = samples.with_test(Test::Fill);
    let (bytes, ns) = fill.fold((0, 0), |(bytes, ns), sample| (bytes + sample.bytes, ns + sample.ns));
    let in_time =
        (u128::from(bytes) * u128::from(CONTENTS_NS / (POOL + FAT_AUS))).checked_div(u128::from(ns));
    let in_time = in_time.map_or(CONTENT_BYTES, |bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
    in_time.clamp(CONTENT_MIN, CONTENT_BYTES)
}

/// A test that writes allocation units round robin.
#[derive(Clone, Copy)]
struct Turn {
    test: Test,
    about: u64,
    /// Number of allocation units from the pool.
    others: u64,
    /// One additional unit that is not from the pool.
    special: Option<u64>,
    is_random: bool,
}

impl<T: Target> Probe<'_, T> {
    /// Ranges that [`Self::measure_writes`] and [`Self::measure_capacity`] write to, derived from the reads so far.
    pub fn write_plan(&self) -> WritePlan {
        let layout = Layout::from_samples(&self.samples, self.usable);
        // Writes may show another allocation unit than reads. The ranges and the amount of data are sufficient for each
        // of them.
        let known = erase_block(&self.samples).0.count();
        let fat = (layout.origin + FAT_AUS * known.unwrap_or(UNKNOWN_AU_MAX)).min(self.usable);
        let behind = self.usable / FILL_PART / SECTOR * SECTOR;
        let end = self.overrun_bytes();
        let ranges = vec![(0, fat), (behind, self.usable - behind), (self.samples.capacity - end, end)];
        let fill = FILL_MAX.min(self.usable / 4);
        let turns = AUS_MOST * (TURN_ROUNDS + 1) * 2 * TURN_BYTES * TESTS + CONTENT_BYTES * (POOL + FAT_AUS);
        let behind_cache = Self::behind_cache_bytes(CACHE_MAX.min(fill / 4), known.unwrap_or(UNKNOWN_AU_MAX));
        let bytes_max = 2 * fill
            + THROUGH_BYTES
            + SCATTER_PASSES * 2 * SCATTER_PAGES * SCATTER_ROUNDS * SECTOR
            + Self::closing_bytes()
            + turns.min(self.usable * TESTS)
            + behind_cache
            + 2 * self.train_bytes()
            + PASSES * end
            + Self::pieces_bytes()
            + Self::classes_bytes(fill);
        let bytes_max = self.limits.map_or(bytes_max, |limits| bytes_max.min(limits.bytes));
        WritePlan { ranges, bytes_max }
    }

    /// Runs the write tests inside the ranges of `plan`.
    ///
    /// # Errors
    /// The device fails or is too small; `Interrupted`.
    pub fn measure_writes(&mut self, plan: &WritePlan) -> Result<(), ProbeError> {
        self.check_size()?;
        if self.samples.is_image {
            return Ok(());
        }
        self.plan.clone_from(plan);
        self.buf.fill(0x5A);
        let mut layout = Layout::from_samples(&self.samples, self.usable);
        layout.fill.1 = self.affordable(layout.fill.1)?;
        self.keep(layout.fill.0, layout.fill.1)?;
        self.measure_bursts(&layout)?;
        self.measure_fill(&layout)?;
        let layout = Layout::from_samples(&self.samples, self.usable);
        for _ in 0..PAGE_PASSES {
            let Answer { value, confidence, .. } = page(&self.samples);
            if value.is_some() && confidence >= CLEAR {
                break;
            }
            let tests = [Test::PageWritten, Test::PagePairWritten];
            self.measure_pages(tests, (layout.fill.0, layout.fill.0 + layout.fill.1))?;
        }
        // This test comes before the random writes, because they leave units open in random order.
        self.measure_open_aus()?;
        self.measure_classes()?;
        self.measure_random(&layout)?;
        self.measure_scatter(&layout)
    }

    /// Bytes of a sequential fill that fit the time limit.
    fn affordable(&self, fill: u64) -> Result<u64, ProbeError> {
        let Some(limits) = self.limits else { return Ok(fill) };
        let bytes = self.target.affordable_bytes(limits).min(fill) / FILL_BYTES * FILL_BYTES;
        if bytes < FILL_MIN.min(fill) { Err(limits.out_of_time()) } else { Ok(bytes) }
    }

    /// Writes small blocks in order after pauses.
    fn measure_bursts(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        self.ask("buffer");
        let writes = BURST_WRITES.min(layout.fill.1 / PAUSES / BURST_BYTES);
        for pause in 0..PAUSES {
            self.target.flush()?;
            self.target.idle(PAUSE_NS);
            let start = layout.fill.0 + pause * writes * BURST_BYTES;
            for write in 0..writes {
                self.write(Test::Burst, pause, start + write * BURST_BYTES, BURST_BYTES)?;
            }
        }
        self.target.flush()?;
        Ok(())
    }

    /// Writes sectors to several pages alternately: a buffer with room for all of these pages waits for the rest of
    /// each.
    fn measure_scatter(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        self.ask("buffer");
        let Some(page) = page(&self.samples).count().filter(|page| *page > SCATTER_ROUNDS * SECTOR) else {
            return Ok(());
        };
        // Each number of pages is written in two passes, because single writes may be delayed.
        let mut most = SCATTER_PAGES;
        for pass in 0..SCATTER_PASSES {
            let mut pages = 1;
            while pages <= most && pages * page <= layout.fill.1 / 2 {
                self.target.flush()?;
                self.target.idle(SCATTER_PAUSE_NS);
                for round in 0..SCATTER_ROUNDS {
                    for place in 0..pages {
                        let at = layout.fill.0 + place * page + round * SECTOR;
                        self.write(Test::Scatter, pass << 32 | pages, at, SECTOR)?;
                    }
                }
                if is_beyond_buffer(&self.samples) {
                    most = most.min(pages);
                }
                pages *= 2;
            }
        }
        self.target.flush()?;
        Ok(())
    }

    /// Writes a long range in order. If reads did not clearly show the allocation unit, closing units may; if that does
    /// not either, pauses of writes over existing data may.
    fn measure_fill(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        self.ask("cache");
        self.target.idle(PAUSE_NS);
        self.fill(Test::Fill, layout)?;
        if cache(&self.samples).is_none_or(|cache| cache.block_bytes == 0) {
            self.fill_through(layout)?;
        }
        let unit = erase_block(&self.samples).0;
        if unit.value.is_some() && unit.confidence >= CLEAR {
            return Ok(());
        }
        // A cache hides the time for closing units.
        if cached(&self.samples) == 0 {
            self.measure_closing(layout)?;
            if closing::unit(&self.samples).is_some() {
                return Ok(());
            }
        }
        if read_fit(&self.samples).best().is_some_and(|(_, confidence)| confidence > CLEAR) {
            return Ok(());
        }
        self.fill(Test::Refill, layout)?;
        self.locate_by_pause(layout)
    }

    fn fill(&mut self, test: Test, layout: &Layout) -> Result<(), ProbeError> {
        let mut ns = 0;
        for write in 0..layout.fill.1 / FILL_BYTES {
            if ns > FILL_NS && write * FILL_BYTES >= FILL_MIN {
                break;
            }
            ns += self.write(test, 0, layout.fill.0 + write * FILL_BYTES, FILL_BYTES)?;
        }
        Ok(())
    }

    /// Writes in order and flushes each write, since a RAM buffer hides the pauses of a cache with small blocks.
    fn fill_through(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        self.target.flush()?;
        self.target.idle(PAUSE_NS);
        for write in 0..THROUGH_BYTES.min(layout.fill.1) / TURN_BYTES {
            self.write_through(Test::Through, 0, layout.fill.0 + write * TURN_BYTES, TURN_BYTES)?;
        }
        Ok(())
    }

    /// Searches for the exact border near a pause of the writes: a buffer delays the pause.
    fn locate_by_pause(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        let fit = write_fit(&self.samples);
        let Some((period, _)) = fit.best() else { return Ok(()) };
        let pauses = (layout.fill.0 + layout.fill.1 / 2).saturating_sub(fit.origin) / period;
        let pause = fit.origin + pauses * period;
        let start = pause.saturating_sub(BUFFER_MAX + FILL_BYTES);
        self.locate((start, (pause + FILL_BYTES).min(self.usable)))
    }

    fn measure_open_aus(&mut self) -> Result<(), ProbeError> {
        let layout = Layout::from_samples(&self.samples, self.usable);
        let (first, all) = layout.aus_behind(self.usable);
        let unit = erase_block(&self.samples).0;
        let cache = cache(&self.samples).filter(|cache| cache.block_bytes > 0);
        let is_too_large = cache.is_some_and(|cache| is_too_large(&cache, &unit));
        if unit.value.is_none() || is_too_large || all < 4 || layout.au / layout.turn < 4 {
            return Ok(());
        }
        self.ask("open allocation units");
        let mut pool = Pool { first, all: all.min(POOL), next: 0 };
        if let Some(cache) = cache {
            self.push_out(&mut InOrder::new(&layout.behind(self.usable), cache, u64::MAX))?;
        }
        if let Some(cache) = hiding_cache(&self.samples) {
            if unit.confidence < GUESS {
                self.measure_pairs(&layout, &cache)?;
                self.push_out(&mut InOrder::new(&layout.behind(self.usable), cache, u64::MAX))?;
            }
            let layout = Layout::from_samples(&self.samples, self.usable);
            return self.measure_open_behind_cache(&layout, cache);
        }
        let fat = self.fat_aus(&layout);
        for au in (pool.first..pool.first + pool.all).chain(fat.iter().copied()) {
            self.give_contents(&layout, au)?;
        }
        if let Some(cache) = cache {
            self.push_out(&mut InOrder::new(&layout, cache, u64::MAX))?;
        }
        let most = AUS_MOST.min(pool.all / 2);
        for test in [Test::OpenLinear, Test::OpenRandom] {
            while let Some(about) = Search::new(&self.samples, test).next(most) {
                let is_random = test == Test::OpenRandom;
                let turn = Turn { test, about, others: about % REPEAT, special: None, is_random };
                self.turn(&layout, &mut pool, turn)?;
            }
        }
        self.measure_fat_alone(&layout, &mut pool, &fat)?;
        self.measure_fat_beside(&layout, &mut pool, &fat)
    }

    /// First allocation units of the device that are inside the announced ranges.
    pub(super) fn fat_aus(&self, layout: &Layout) -> Vec<u64> {
        let behind = (layout.fill.0 - layout.origin) / layout.au;
        let is_announced = |au: &u64| self.plan.covers(layout.origin + au * layout.au, layout.au);
        (0..FAT_AUS.min(behind)).filter(is_announced).collect()
    }

    /// Writes data to the end of an allocation unit, so that closing it costs time from then on.
    pub(super) fn give_contents(&mut self, layout: &Layout, au: u64) -> Result<(), ProbeError> {
        let end = layout.origin + (au + 1) * layout.au;
        let (mut at, end) = (end - layout.content, end.min(self.usable / layout.turn * layout.turn));
        while at < end {
            let bytes = (end - at).min(self.buf.len() as u64);
            self.target.keep(at, bytes)?;
            self.write(Test::WarmUp, au, at, bytes)?;
            at += bytes;
        }
        Ok(())
    }

    /// Writes each of the first allocation units alone.
    pub(super) fn measure_fat_alone(
        &mut self,
        layout: &Layout,
        pool: &mut Pool,
        fat: &[u64],
    ) -> Result<(), ProbeError> {
        self.ask("FAT area");
        for &au in fat {
            let alone =
                Turn { test: Test::FatSpeed, about: au, others: 0, special: Some(au), is_random: false };
            self.turn(layout, pool, alone)?;
        }
        Ok(())
    }

    /// Writes each of the first allocation units next to as many others as can be open.
    fn measure_fat_beside(
        &mut self,
        layout: &Layout,
        pool: &mut Pool,
        fat: &[u64],
    ) -> Result<(), ProbeError> {
        let open = Search::new(&self.samples, Test::OpenLinear);
        let (Some((good, _)), Some(_)) = (open.good, open.bad) else { return Ok(()) };
        for &au in fat {
            let beside =
                Turn { test: Test::Fat, about: au, others: good, special: Some(au), is_random: false };
            self.turn(layout, pool, beside)?;
        }
        Ok(())
    }

    /// Writes allocation units round robin, first to open them, then until enough writes are measured.
    fn turn(&mut self, layout: &Layout, pool: &mut Pool, turn: Turn) -> Result<(), ProbeError> {
        let aus = turn.others + u64::from(turn.special.is_some());
        let mut left = TURN_WRITES.max(TURN_ROUNDS * aus);
        let usual = self.usual_ns();
        while left > 0 {
            let set = pool.units_of_turn(turn);
            for (round, place) in places(layout, turn.is_random).into_iter().enumerate() {
                let test = if round == 0 { Test::WarmUp } else { turn.test };
                let sum = self.round(layout, &set, test, turn.about, place)?;
                left = left.saturating_sub(if round > 0 { aus } else { 0 });
                let is_clear = usual.is_some_and(|usual| sum > aus * usual * ENOUGH) && round >= 2;
                if left == 0 || is_clear {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Writes to the same offset in each of the given allocation units. Returns the total time, ns.
    fn round(
        &mut self,
        layout: &Layout,
        set: &[u64],
        test: Test,
        about: u64,
        place: u64,
    ) -> Result<u64, ProbeError> {
        let mut sum = 0;
        for au in set {
            sum += self.write_through(test, about, layout.position(*au, place), layout.turn)?;
        }
        Ok(sum)
    }

    /// Writes the buffer and flushes, so that no buffer hides the time.
    pub(super) fn write_through(
        &mut self,
        test: Test,
        about: u64,
        position: u64,
        bytes: u64,
    ) -> Result<u64, ProbeError> {
        self.target.keep(position, bytes)?;
        let ns = self.write(test, about, position, bytes)? + self.target.flush()?;
        if let Some(sample) = self.samples.all.last_mut() {
            sample.ns = ns;
        }
        Ok(ns)
    }

    /// Usual time of a write to one allocation unit in order, ns.
    fn usual_ns(&self) -> Option<u64> {
        Search::new(&self.samples, Test::OpenLinear).good.map(|(_, ns)| ns as u64)
    }

    fn measure_random(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        self.ask("steady state");
        let mut writes = RANDOM_WRITES;
        for round in 0..RANDOM_ROUNDS {
            let (mut write, mut ns) = (0, 0);
            while write < writes {
                let place = self.below(layout.fill.1 / RANDOM_BYTES) * RANDOM_BYTES;
                ns += self.write(Test::Random, round, layout.fill.0 + place, RANDOM_BYTES)?;
                write += 1;
                // On a slow card, the first round ends early, and all later rounds have the same number of writes.
                if write >= RANDOM_WRITES_MIN && ns > RANDOM_ROUND_NS && round == 0 {
                    writes = write;
                }
            }
        }
        self.target.flush()?;
        Ok(())
    }
}

/// Number of bytes whose writing flushes all earlier data out of a cache; 0 without a cache.
pub(super) fn cached(samples: &Samples) -> u64 {
    cache(samples).map_or(0, |cache| cache.bytes * 5 / 4)
}

/// Offsets inside an allocation unit that a round-robin test writes, in units of its writes: at most half of all, so
/// that no block fills up. In random order they run backwards over existing data, so that a card that keeps an
/// allocation unit in order must copy every time.
fn places(layout: &Layout, is_random: bool) -> Vec<u64> {
    let (parts, with_contents) = (layout.au / layout.turn, layout.content / layout.turn);
    let half = (parts / 2) as usize;
    match is_random {
        true => (parts - with_contents..parts).rev().take(half).collect(),
        false => (0..parts).take(half).collect(),
    }
}

/// Allocation units that the tests cycle through, so that a unit left open by a test is closed before it is used again.
pub(super) struct Pool {
    first: u64,
    pub(super) all: u64,
    next: u64,
}

impl Pool {
    /// Allocation units of a test, taken from the pool.
    fn units_of_turn(&mut self, turn: Turn) -> Vec<u64> {
        self.take(turn.others).into_iter().chain(turn.special).collect()
    }

    pub(super) fn take(&mut self, count: u64) -> Vec<u64> {
        let taken = (0..count).map(|number| self.first + (self.next + number) % self.all).collect();
        self.next = (self.next + count) % self.all;
        taken
    }
}
