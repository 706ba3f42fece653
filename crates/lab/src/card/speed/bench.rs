//! A card on which requests are timed: windows of requests, allocation units written alternately, reads across borders, and a loss of power.

use super::{
    AlignmentRow, CardSpeedOptions, CardTest, IN_ORDER_REQUESTS, Latencies, OPEN_AUS_MAX, OpenAuRow,
    REQUEST_BYTES_MAX, SEQUENTIAL_SECTORS, STEADY, STEADY_BYTES_MAX, UNITS_MIN,
};
use crate::Error;
use crate::card::serve::failed;
use crate::card::state::{CardState, History, StandIn};
use floatgate_card::{Card, CardOptions, CardSpec, CardStats, Fake, HostSpec, RequestLimits};
use floatgate_mtd::random::Random;
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Instant, SECTOR_BYTES};
use std::ops::Range;

/// A card in some state, with buffers that are as large as the largest request.
#[derive(Clone)]
pub(super) struct Bench {
    pub(super) card: Fake<Card>,
    state: CardState,
    /// Capacity in bytes of the card that was asked for.
    whole_bytes: u64,
    options: CardSpeedOptions,
    au_sectors: u64,
    /// Sectors that the SLC cache holds.
    cache_sectors: u64,
    page_bytes: u64,
    open_aus: u32,
    chance: Random,
    buf: Vec<u8>,
    limits: RequestLimits,
    /// Requests that the host gave up.
    dropped: u64,
}

/// State of the card when a test begins.
struct Before {
    start: Instant,
    stats: CardStats,
    energy_nj: u64,
    dropped: u64,
}

/// One kind of request.
#[derive(Clone, Copy)]
pub(super) struct Pattern {
    pub(super) is_write: bool,
    pub(super) is_random: bool,
    pub(super) bytes: u64,
}

impl Pattern {
    const fn sectors(&self) -> u64 {
        self.bytes / SECTOR_BYTES as u64
    }
}

impl Bench {
    pub(super) fn new(
        spec: &CardSpec,
        state: CardState,
        options: &CardSpeedOptions,
        progress: &dyn Fn(u64),
    ) -> Result<Self, Error> {
        Self::of(&StandIn::for_tests(spec, state, STEADY_BYTES_MAX), spec, state, options, progress)
    }

    /// A bench of a card, or of the one that stands in for it.
    pub(super) fn of(
        stand_in: &StandIn,
        whole: &CardSpec,
        state: CardState,
        options: &CardSpeedOptions,
        progress: &dyn Fn(u64),
    ) -> Result<Self, Error> {
        let StandIn { spec, history } = stand_in;
        let card = Fake::of_spec(spec, CardOptions { seed: options.seed, stores: false })
            .map_err(|bad| Error::request(bad.to_string(), "choose another value"))?;
        let own_bytes = card.capacity() * SECTOR_BYTES as u64;
        let mut bench = Self {
            card,
            state,
            whole_bytes: if stand_in.is_small(whole) { whole.capacity_bytes } else { own_bytes },
            options: options.clone(),
            au_sectors: spec.au_bytes / SECTOR_BYTES as u64,
            cache_sectors: u64::from(spec.slc.blocks) * spec.au_bytes
                / u64::from(spec.bits_per_cell.max(1))
                / SECTOR_BYTES as u64,
            page_bytes: spec.page_bytes,
            open_aus: spec.open_aus,
            chance: Random::new(options.seed),
            buf: vec![0; REQUEST_BYTES_MAX.max(spec.page_bytes) as usize],
            limits: spec.request_limits(),
            dropped: 0,
        };
        bench.card.device_mut().set_host(HostSpec::default());
        let reached = state.reach(&mut bench.card, *history, &mut bench.chance, progress);
        reached.map_err(|error| bench.failed(error))?;
        bench.card.device_mut().set_host(spec.host);
        bench.card.device_mut().share_map();
        Ok(bench)
    }

    /// A bench for short tests in order.
    pub(super) fn in_order(spec: &CardSpec, state: CardState, seed: u64) -> Result<Self, Error> {
        let options = CardSpeedOptions { requests: IN_ORDER_REQUESTS, sizes: Vec::new(), seed };
        Self::new(spec, state, &options, &|_| ())
    }

    pub(super) fn now(&self) -> Instant {
        self.card.device().now()
    }

    /// The failure of the card, with the key that prevents it.
    pub(super) fn failed(&self, error: BlockError) -> Error {
        failed(&self.card, error)
    }

    pub(super) fn write(&mut self, lba: u64, bytes: u64) -> Result<u64, BlockError> {
        let start = self.now();
        let outcome = self.card.write(start, lba, &self.buf[..bytes as usize]);
        self.latency(start, outcome)
    }

    fn read(&mut self, lba: u64, bytes: u64) -> Result<u64, BlockError> {
        let start = self.now();
        let outcome = self.card.read(start, lba, &mut self.buf[..bytes as usize]);
        self.latency(start, outcome)
    }

    /// Latency in ns; of a request that the host gave up, the time until then.
    fn latency(&mut self, start: Instant, outcome: Result<Instant, BlockError>) -> Result<u64, BlockError> {
        match outcome {
            Ok(end) => Ok(end.since(start).as_ns()),
            Err(BlockError { kind: BlockErrorKind::TimedOut, at, .. }) => {
                self.dropped += 1;
                Ok(at.since(start).as_ns())
            }
            Err(error) => Err(error),
        }
    }

    fn before(&self) -> Before {
        let card = self.card.device();
        Before {
            start: card.now(),
            stats: card.stats(),
            energy_nj: card.energy().total_nj(),
            dropped: self.dropped,
        }
    }

    /// All tests. Each begins in the state of the card: what others wrote would have emptied blocks, which makes the next writes faster.
    pub(super) fn run_all(&self, tested: &dyn Fn()) -> Result<Vec<CardTest>, BlockError> {
        let mut tests = Vec::new();
        for is_write in [false, true] {
            for is_random in [false, true] {
                for &bytes in &self.options.sizes {
                    tests.push(self.on_a_copy(Pattern { is_write, is_random, bytes })?);
                    tested();
                }
            }
        }
        Ok(tests)
    }

    /// A test on a copy of the card, which leaves the card itself in its state.
    pub(super) fn on_a_copy(&self, pattern: Pattern) -> Result<CardTest, BlockError> {
        self.clone().run(pattern)
    }

    /// A test: a window of requests, and of writes more windows, each as long as all before, until the speed is steady or too much is written.
    fn run(&mut self, pattern: Pattern) -> Result<CardTest, BlockError> {
        let first = match pattern.is_random {
            true => u64::from(self.options.requests),
            false => (self.sequential_sectors() / pattern.sectors()).min(u64::from(self.options.requests)),
        };
        let most = (STEADY_BYTES_MAX / pattern.bytes).max(2 * first);
        let (mut done, mut window) = (first, self.window(pattern, 0, first)?);
        // Without a write there is nothing that could be used up.
        while pattern.is_write && 2 * done <= most {
            let unused = self.card.device().unused_bytes();
            if unused > (most - done) * pattern.bytes {
                break;
            }
            let next = self.window(pattern, done, done)?;
            let filled = unused.saturating_sub(self.card.device().unused_bytes());
            let written = done * pattern.bytes;
            // In a window of several blocks, whether one more of them is begun is chance.
            let au_bytes = self.au_sectors * SECTOR_BYTES as u64;
            let chance = if written >= 4 * au_bytes { au_bytes } else { 0 };
            let is_cleaning = filled as f64 <= (STEADY * written as f64).max(chance as f64);
            // What closes an allocation unit belongs to the writes that filled it, and what the first pass over the sectors finds there is of the card's history.
            let has_whole_units = pattern.is_random
                || written >= (UNITS_MIN * au_bytes).max(self.sequential_sectors() * SECTOR_BYTES as u64);
            let is_steady = is_cleaning && has_whole_units && (next.mb_s / window.mb_s - 1.0).abs() <= STEADY;
            (done, window) = (2 * done, CardTest { is_steady, ..next });
            if is_steady {
                break;
            }
        }
        Ok(window)
    }

    /// Sectors that a sequential test goes over.
    fn sequential_sectors(&self) -> u64 {
        let most = SEQUENTIAL_SECTORS.max(2 * self.cache_sectors);
        (self.card.capacity() - self.sequential_start()).min(most)
    }

    /// First sector of a sequential test: past the FAT area, at the beginning of an allocation unit, inside what a used card has written.
    pub(super) fn sequential_start(&self) -> u64 {
        (self.card.capacity() / 4).next_multiple_of(self.au_sectors) % self.card.capacity()
    }

    /// Requests of a test after `done` others. Sequential ones begin again at the end of their sectors.
    pub(super) fn window(
        &mut self,
        pattern: Pattern,
        done: u64,
        requests: u64,
    ) -> Result<CardTest, BlockError> {
        let before = self.before();
        let sectors = pattern.sectors();
        let (start, in_order) = (self.sequential_start(), (self.sequential_sectors() / sectors).max(1));
        let latencies = if pattern.is_random {
            self.random(pattern, 0..self.card.capacity(), requests)?
        } else {
            let places = (done..done + requests).map(|request| start + request % in_order * sectors);
            places.map(|lba| self.request(pattern, lba)).collect::<Result<_, _>>()?
        };
        if pattern.is_write {
            let start = self.now();
            let outcome = self.card.flush(start);
            self.latency(start, outcome)?;
        }
        Ok(self.result(pattern, &before, latencies))
    }

    fn request(&mut self, pattern: Pattern, lba: u64) -> Result<u64, BlockError> {
        if pattern.is_write { self.write(lba, pattern.bytes) } else { self.read(lba, pattern.bytes) }
    }

    /// Latencies in ns of requests at random within some sectors.
    pub(super) fn random(
        &mut self,
        pattern: Pattern,
        within: Range<u64>,
        requests: u64,
    ) -> Result<Vec<u64>, BlockError> {
        let places = (within.end - within.start) / pattern.sectors();
        let mut latencies = Vec::with_capacity(requests as usize);
        for _ in 0..requests {
            let lba = within.start + self.chance.bits() % places.max(1) * pattern.sectors();
            latencies.push(self.request(pattern, lba)?);
        }
        Ok(latencies)
    }

    fn result(&self, pattern: Pattern, before: &Before, latencies: Vec<u64>) -> CardTest {
        let (requests, now) = (latencies.len() as u64, self.card.device().stats());
        let seconds = self.now().since(before.start).as_secs_f64().max(1e-9);
        let amplification = if pattern.is_write { now.write_amplification(&before.stats) } else { 0.0 };
        let limit = if pattern.is_write { self.limits.write } else { self.limits.read };
        let late = latencies.iter().filter(|ns| **ns > limit.as_ns()).count() as u64;
        let uj = (self.card.device().energy().total_nj() - before.energy_nj) as f64 / 1e3;
        CardTest {
            state: self.state,
            operation: if pattern.is_write { "write" } else { "read" }.into(),
            access: if pattern.is_random { "random" } else { "sequential" }.into(),
            request_bytes: pattern.bytes,
            requests,
            is_steady: !pattern.is_write,
            mb_s: (requests * pattern.bytes) as f64 / seconds / 1e6,
            interval: None,
            iops: requests as f64 / seconds,
            latency: Latencies::of(latencies),
            write_amplification: amplification,
            erases: now.erases - before.stats.erases,
            uj_per_request: uj / (requests.max(1)) as f64,
            mj_per_mib: uj / 1e3 * (1 << 20) as f64 / (requests * pattern.bytes).max(1) as f64,
            mean_mw: uj / 1e3 / seconds,
            late,
            dropped: self.dropped - before.dropped,
        }
    }

    /// Tests of 1 to twice the open allocation units, written alternately.
    pub(super) fn open_aus(&mut self) -> Result<Vec<OpenAuRow>, BlockError> {
        // Past the FAT area; every second one, as flashbench leaves room between them.
        let first = 4;
        let there = (self.card.capacity() / self.au_sectors).saturating_sub(first) / 2;
        let most = (2 * self.open_aus.clamp(4, OPEN_AUS_MAX / 2)).min(there as u32);
        let mut rows = Vec::new();
        for order in ["linear", "random"] {
            for aus in 1..=most {
                rows.push(self.write_in_turn(first, aus, order)?);
            }
        }
        Ok(rows)
    }

    fn write_in_turn(&mut self, first: u64, aus: u32, order: &'static str) -> Result<OpenAuRow, BlockError> {
        // A page at a time, and 32 KiB at least.
        let bytes = self.page_bytes.max(32 << 10).min(self.au_sectors * SECTOR_BYTES as u64);
        let sectors = bytes / SECTOR_BYTES as u64;
        let blocks = (self.au_sectors / sectors).saturating_sub(1).clamp(1, 32);
        let au_sectors = self.au_sectors;
        let place = |turn: u64, au: u64| (first + 2 * au) * au_sectors + turn * sectors;
        // A first round pays for closing what was open before.
        for au in 0..u64::from(aus) {
            self.write(place(0, au), bytes)?;
        }
        let (before, start) = (self.card.device().stats(), self.now());
        let mut latencies = Vec::with_capacity((blocks * u64::from(aus)) as usize);
        for turn in 0..blocks {
            // An odd factor visits all blocks of a power of two once, far from in order.
            let block = if order == "linear" { turn } else { (turn * 11 + 5) % blocks };
            for au in 0..u64::from(aus) {
                latencies.push(self.write(place(1 + block, au), bytes)?);
            }
        }
        let seconds = self.now().since(start).as_secs_f64().max(1e-9);
        let written = latencies.len() as u64 * bytes;
        let Latencies { mean_us, max_us, .. } = Latencies::of(latencies);
        let erases = self.card.device().stats().erases - before.erases;
        Ok(OpenAuRow {
            aus,
            order: order.into(),
            request_bytes: bytes,
            mb_s: written as f64 / seconds / 1e6,
            mean_us,
            max_us,
            erases,
        })
    }

    /// Time in us until a card in the state of this one is ready after a loss of power. For a stand-in, a card of the whole size that was filled in
    /// order is measured: the scan reads as much of each block.
    pub(super) fn power_on_us(&mut self, whole: &CardSpec) -> Result<f64, Error> {
        let own_bytes = self.card.device().capacity() * SECTOR_BYTES as u64;
        if own_bytes == whole.capacity_bytes {
            return self.lose_power().map_err(|error| self.failed(error));
        }
        let filled = StandIn { spec: whole.clone(), history: History::of(whole).in_order() };
        let mut bench = Self::of(&filled, whole, self.state, &self.options, &|_| ())?;
        bench.lose_power().map_err(|error| bench.failed(error))
    }

    /// Takes power away in the middle of writes. Returns the time in us until the card is ready again.
    fn lose_power(&mut self) -> Result<f64, BlockError> {
        let card = self.card.device_mut();
        card.cut_power();
        let start = card.now();
        Ok(card.power_on(start, 0)?.since(start).as_us_f64())
    }

    /// Reads of 16 KiB around the multiples of each alignment, at seven places. A card that stands in for a larger one is read where the same borders of
    /// allocation units are.
    pub(super) fn alignments(&mut self) -> Result<Vec<AlignmentRow>, BlockError> {
        const BYTES: u64 = 16 << 10;
        let capacity = self.whole_bytes;
        let own_sectors = self.card.capacity();
        let largest = (capacity / 8).checked_ilog2().map_or(0, |bits| 1 << bits);
        let mut rows = Vec::new();
        let mut align = largest;
        while align >= 2 * BYTES {
            let mut mean = |offset: u64| -> Result<f64, BlockError> {
                let places = (0..7).map(|place| (align - offset + place * largest) / SECTOR_BYTES as u64);
                let inside = |lba: u64| match lba + BYTES / SECTOR_BYTES as u64 <= own_sectors {
                    true => lba,
                    // A whole number of allocation units less, behind the first one.
                    false => self.au_sectors + (lba - self.au_sectors) % (own_sectors - 2 * self.au_sectors),
                };
                let places: Vec<u64> = places.map(inside).collect();
                let times: Result<Vec<u64>, BlockError> =
                    places.into_iter().map(|lba| self.read(lba, BYTES)).collect();
                Ok(times?.iter().sum::<u64>() as f64 / 7e3)
            };
            let (pre_us, on_us, post_us) = (mean(BYTES)?, mean(BYTES / 2)?, mean(0)?);
            let diff_us = on_us - f64::midpoint(pre_us, post_us);
            rows.push(AlignmentRow { align_bytes: align, pre_us, on_us, post_us, diff_us });
            align /= 2;
        }
        Ok(rows)
    }
}
