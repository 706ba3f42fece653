//! Questions that only writes answer.

use super::capacity::PASSES;
use super::{Probe, ProbeError};
use crate::analysis::borders::{FILL_BYTES, erase_block, page, read_fit, write_fit};
use crate::analysis::caches::slc_cache;
use crate::analysis::open_aus::{FAT_AUS, MOST, REPEAT, Search};
use crate::answer::size;
use crate::sample::{Samples, Test};
use crate::target::Target;

/// Most bytes that are written in order.
const FILL_MAX: u64 = 512 << 20;
/// Writes of a burst, B, how many, and after how many pauses.
const BURST_BYTES: u64 = 16 << 10;
const BURST_WRITES: u64 = 256;
const PAUSES: u64 = 3;
/// A pause, ns.
const PAUSE_NS: u64 = 2_000_000_000;
/// Rounds in which allocation units are written in turn, the first to open them.
const ROUNDS: u64 = 17;
/// Largest buffer that delays a pause, B.
const BUFFER_MAX: u64 = 1 << 20;
/// Most allocation units that the tests go around.
const POOL: u64 = 100;
/// Random writes: bytes of each, writes of a round, rounds.
const RANDOM_BYTES: u64 = 16 << 10;
const RANDOM_WRITES: u64 = 32;
const RANDOM_ROUNDS: u64 = 8;
/// Largest allocation unit among the first of a device that is measured when only writes show it, B.
const UNKNOWN_AU_MAX: u64 = 128 << 20;
/// Factor of the time of a write from which on a test ends early: the answer is clear.
const ENOUGH: u64 = 8;

/// Ranges that the tests write to, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WritePlan {
    /// First byte and length of each range.
    pub ranges: Vec<(u64, u64)>,
    /// Most bytes that are written, all tests together.
    pub bytes_max: u64,
}

impl WritePlan {
    /// True when a write lies inside a range.
    pub(crate) fn covers(&self, position: u64, bytes: u64) -> bool {
        self.ranges.iter().any(|(start, length)| *start <= position && position + bytes <= start + length)
    }

    /// The ranges in words.
    pub fn announcement(&self) -> String {
        let ranges: Vec<String> =
            self.ranges.iter().map(|(start, bytes)| format!("{} from byte {start}", size(*bytes))).collect();
        let most = size(self.bytes_max.next_multiple_of(1 << 20));
        format!("parts of {}, and single sectors elsewhere; at most {most} are written", ranges.join(", "))
    }
}

/// Places of the tests on a device.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// First border of an allocation unit.
    origin: u64,
    /// Allocation unit, B.
    au: u64,
    /// Range that is written in order.
    fill: (u64, u64),
}

impl Layout {
    fn of(samples: &Samples, usable: u64) -> Self {
        let known = erase_block(samples).0.count();
        let au = known.unwrap_or(4 << 20);
        let origin = read_fit(samples).best().map_or(0, |(period, _)| read_fit(samples).origin % period);
        let start = origin + (usable / 8).next_multiple_of(au);
        let room = usable.saturating_sub(start) / 2;
        let bytes = FILL_MAX.min(usable / 4).min(room) / FILL_BYTES * FILL_BYTES;
        Self { origin, au, fill: (start, bytes) }
    }

    /// First allocation unit behind the range written in order, and the number of those that the tests go around.
    fn pool(&self, usable: u64) -> (u64, u64) {
        let first = (self.fill.0 + self.fill.1).saturating_sub(self.origin).div_ceil(self.au);
        let all = usable.saturating_sub(self.origin) / self.au;
        (first, all.saturating_sub(first))
    }
}

/// A test that writes allocation units in turn.
#[derive(Clone, Copy)]
struct Turn<'a> {
    test: Test,
    about: u64,
    aus: &'a [u64],
    is_random: bool,
    /// Bytes that a cache takes before what is behind it shows.
    cached: u64,
}

impl<T: Target> Probe<'_, T> {
    /// Ranges that [`Self::measure_writes`] and [`Self::measure_capacity`] write to, as far as the reads so far show.
    pub fn write_plan(&self) -> WritePlan {
        let layout = Layout::of(&self.samples, self.usable);
        let (_, aus) = layout.pool(self.usable);
        let turns = layout.au.min(ROUNDS * self.chunk(layout.au)) * MOST * 14;
        // Where reads do not show the allocation unit, writes may show a large one.
        let au = erase_block(&self.samples).0.count().unwrap_or(UNKNOWN_AU_MAX);
        let fat = (layout.origin + FAT_AUS * au).min(self.usable);
        let end = self.overrun_bytes();
        let ranges = vec![
            (0, fat),
            (layout.fill.0, self.usable.saturating_sub(layout.fill.0)),
            (self.samples.capacity - end, end),
        ];
        let bytes_max = 2 * layout.fill.1 + turns.min(aus * layout.au * 14) + PASSES * end;
        WritePlan { ranges, bytes_max }
    }

    /// Asks what only writes answer, inside the ranges of `plan`.
    ///
    /// # Errors
    /// A device that fails or is too small; `Interrupted`.
    pub fn measure_writes(&mut self, plan: &WritePlan) -> Result<(), ProbeError> {
        self.check_size()?;
        self.plan.clone_from(plan);
        self.buf.fill(0x5A);
        let layout = Layout::of(&self.samples, self.usable);
        self.target.keep(layout.fill.0, layout.fill.1)?;
        self.measure_bursts(&layout)?;
        self.measure_fill(&layout)?;
        if page(&self.samples).confidence < 0.9 || page(&self.samples).value.is_none() {
            self.measure_pages(Test::PageWritten, (layout.fill.0, layout.fill.0 + layout.fill.1))?;
        }
        self.measure_random(&layout)?;
        self.measure_open_aus()
    }

    /// Small writes in order after pauses.
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

    /// Writes in order over a long range; again, when reads did not show the allocation unit: then blocks must be erased.
    fn measure_fill(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        self.ask("cache");
        self.target.idle(PAUSE_NS);
        let is_clear = read_fit(&self.samples).best().is_some_and(|(_, confidence)| confidence > 0.9);
        let passes = if is_clear { 1 } else { 2 };
        for test in [Test::Fill, Test::Refill].into_iter().take(passes) {
            for write in 0..layout.fill.1 / FILL_BYTES {
                self.write(test, 0, layout.fill.0 + write * FILL_BYTES, FILL_BYTES)?;
            }
        }
        if is_clear { Ok(()) } else { self.locate_by_pause(layout) }
    }

    /// Looks for the exact border near a pause of the writes: a buffer delays it.
    fn locate_by_pause(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        let fit = write_fit(&self.samples);
        let Some((period, _)) = fit.best() else { return Ok(()) };
        let pauses = (layout.fill.0 + layout.fill.1 / 2).saturating_sub(fit.origin) / period;
        let pause = fit.origin + pauses * period;
        let start = pause.saturating_sub(BUFFER_MAX + FILL_BYTES);
        self.locate((start, (pause + FILL_BYTES).min(self.usable)))
    }

    /// Bytes of a write of a turn: a power of two, so that it is whole pages.
    fn chunk(&self, au: u64) -> u64 {
        let eighth = 1 << (au / 8).max(1).ilog2();
        u64::clamp(eighth, 128 << 10, 512 << 10)
    }

    fn measure_open_aus(&mut self) -> Result<(), ProbeError> {
        let layout = Layout::of(&self.samples, self.usable);
        let (first, all) = layout.pool(self.usable);
        let is_known = erase_block(&self.samples).0.value.is_some();
        if !is_known || all < 4 || layout.au / self.chunk(layout.au) < 4 {
            return Ok(());
        }
        let cached = slc_cache(&self.samples).count().unwrap_or(0) * 5 / 4;
        let mut pool = Pool { first, all: if cached > 0 { all } else { all.min(POOL) }, next: 0 };
        let most = MOST.min(pool.all / 2);
        for test in [Test::OpenLinear, Test::OpenRandom] {
            self.ask("open allocation units");
            while let Some(about) = Search::new(&self.samples, test).next(most) {
                let aus = pool.take(about % REPEAT);
                let is_random = test == Test::OpenRandom;
                if is_random && about == 1 {
                    // In an allocation unit without contents there is nothing to copy.
                    self.fill_au(&layout, aus[0])?;
                }
                self.turn(&layout, &mut pool, Turn { test, about, aus: &aus, is_random, cached })?;
            }
        }
        self.measure_fat(&layout, &mut pool, cached)
    }

    fn fill_au(&mut self, layout: &Layout, au: u64) -> Result<(), ProbeError> {
        let chunk = self.chunk(layout.au);
        let start = layout.origin + au * layout.au;
        self.target.keep(start, layout.au)?;
        (0..layout.au / chunk)
            .try_for_each(|write| self.write(Test::WarmUp, au, start + write * chunk, chunk).map(drop))
    }

    /// Each of the first allocation units alone, and beside as many as can be open.
    fn measure_fat(&mut self, layout: &Layout, pool: &mut Pool, cached: u64) -> Result<(), ProbeError> {
        self.ask("FAT area");
        let is_announced = |au: &u64| self.plan.covers(layout.origin + au * layout.au, layout.au);
        let first: Vec<u64> = (0..FAT_AUS.min(pool.first)).filter(is_announced).collect();
        let open = Search::new(&self.samples, Test::OpenLinear);
        for &au in &first {
            let alone = Turn { test: Test::FatSpeed, about: au, aus: &[au], is_random: false, cached: 0 };
            self.turn(layout, pool, alone)?;
        }
        let (Some((good, _)), Some(_), 0) = (open.good, open.bad, cached) else { return Ok(()) };
        for au in first {
            let mut aus = pool.take(good);
            aus.push(au);
            self.turn(
                layout,
                pool,
                Turn { test: Test::Fat, about: au, aus: &aus, is_random: false, cached },
            )?;
        }
        Ok(())
    }

    /// Writes allocation units in turn. Behind a cache, whole ones until it is overrun; otherwise the beginning of each.
    fn turn(&mut self, layout: &Layout, pool: &mut Pool, turn: Turn<'_>) -> Result<(), ProbeError> {
        if turn.cached > 0 {
            return self.turn_behind_cache(layout, pool, turn);
        }
        let chunk = self.chunk(layout.au);
        let rounds = ROUNDS.min(layout.au / chunk - 1);
        for au in turn.aus {
            let start = layout.origin + au * layout.au;
            self.target.keep(start, if turn.is_random { layout.au } else { rounds * chunk })?;
        }
        let order = self.order(layout.au / chunk, turn.is_random);
        let usual = self.usual_ns();
        for (round, place) in order.into_iter().take(rounds as usize).enumerate() {
            let test = if round == 0 { Test::WarmUp } else { turn.test };
            let mut sum = 0;
            for au in turn.aus {
                sum += self.write(test, turn.about, layout.origin + au * layout.au + place * chunk, chunk)?;
            }
            let is_clear = usual.is_some_and(|usual| sum > turn.aus.len() as u64 * usual * ENOUGH);
            if round >= 5 && is_clear {
                break;
            }
        }
        Ok(())
    }

    /// Time of a write of one allocation unit in order.
    fn usual_ns(&self) -> Option<u64> {
        Search::new(&self.samples, Test::OpenLinear).good.map(|(_, ns)| ns as u64)
    }

    fn turn_behind_cache(
        &mut self,
        layout: &Layout,
        pool: &mut Pool,
        turn: Turn<'_>,
    ) -> Result<(), ProbeError> {
        let chunk = self.chunk(layout.au);
        let (mut written, end) = (0, turn.cached + 3 * layout.au);
        let mut aus = turn.aus.to_vec();
        while written < end {
            for place in self.order(layout.au / chunk, turn.is_random) {
                let test = if written < turn.cached { Test::WarmUp } else { turn.test };
                for au in &aus {
                    let start = layout.origin + au * layout.au + place * chunk;
                    self.target.keep(start, chunk)?;
                    self.write(test, turn.about, start, chunk)?;
                }
                written += chunk * aus.len() as u64;
            }
            aus = pool.take(aus.len() as u64);
        }
        Ok(())
    }

    /// Order of the parts of an allocation unit. At random, it does not begin with the first.
    fn order(&mut self, parts: u64, is_random: bool) -> Vec<u64> {
        let mut order: Vec<u64> = (0..parts).collect();
        if is_random {
            self.shuffle(&mut order);
            if order[0] == 0 {
                order.reverse();
            }
        }
        order
    }

    fn measure_random(&mut self, layout: &Layout) -> Result<(), ProbeError> {
        self.ask("steady state");
        for round in 0..RANDOM_ROUNDS {
            for _ in 0..RANDOM_WRITES {
                let place = self.below(layout.fill.1 / RANDOM_BYTES) * RANDOM_BYTES;
                self.write(Test::Random, round, layout.fill.0 + place, RANDOM_BYTES)?;
            }
        }
        self.target.flush()?;
        Ok(())
    }
}

/// Allocation units that are used in turn, so that what a test left open is closed before the place is used again.
struct Pool {
    first: u64,
    all: u64,
    next: u64,
}

impl Pool {
    fn take(&mut self, count: u64) -> Vec<u64> {
        let taken = (0..count).map(|number| self.first + (self.next + number) % self.all).collect();
        self.next = (self.next + count) % self.all;
        taken
    }
}
