//! The speed of a card: requests of several sizes on an empty, a used and a full card, allocation units
//! written alternately, and reads across borders (`flashbench -a`).

use super::spread::{READ_AT_RANDOM, READ_IN_ORDER, Spread, WRITE_AT_RANDOM, WRITE_IN_ORDER};
pub use super::state::CardState;
use super::state::{History, StandIn};
use super::{LoadedCard, info};
use crate::Error;
use crate::progress::{Listener, Progress};
use crate::uncertainty::Interval;
use floatgate_card::{
    BusMode, Card, CardOptions, CardSpec, CardStats, Fake, HostSpec, Mapping, RequestLimits,
};
use floatgate_mtd::random::Random;
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Instant, SECTOR_BYTES};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Range;

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct CardSpeedOptions {
    /// Most requests of a window of a test. Writes go on for more windows until their speed is steady.
    pub requests: u32,
    /// Sizes of requests in bytes, multiples of 512.
    pub sizes: Vec<u64>,
    /// Seed of the card, and of the places of random requests.
    pub seed: u64,
}

impl Default for CardSpeedOptions {
    fn default() -> Self {
        Self { requests: REQUESTS, sizes: SIZES.to_vec(), seed: 0 }
    }
}

/// Most requests of a window where nothing else is asked for.
pub const REQUESTS: u32 = 500;

/// Sizes of requests in bytes where none are asked for; those that are too large for a card are left out.
pub const SIZES: [u64; 4] = [4 << 10, 32 << 10, 128 << 10, 1 << 20];

/// Tests of each size in each state: reads and writes, in order and at random.
const TESTS_OF_SIZE: usize = 4;

/// Most requests of a test that may be asked for.
pub const REQUESTS_MAX: u32 = 10_000_000;

/// Largest request in bytes: what a host asks an SD card for at once.
pub const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// Most bytes that a test writes until its speed is steady, or two windows where these are larger.
const STEADY_BYTES_MAX: u64 = 256 << 20;

/// Requests of a short test in order, and their kinds.
const IN_ORDER_REQUESTS: u32 = 32;
const IN_ORDER_READS: Pattern = Pattern { is_write: false, is_random: false, bytes: 1 << 20 };
const IN_ORDER_WRITES: Pattern = Pattern { is_write: true, ..IN_ORDER_READS };

/// Size of the file in which small requests are at random, of its records, and of the requests that write it in order.
const FILE_BYTES: u64 = 100 << 20;
const LONG_FILE_BYTES: u64 = 400 << 20;
const RECORD_BYTES: u64 = 4096;
const FILE_REQUEST_BYTES: u64 = 512 << 10;

/// Share by which the speed of two windows may differ in the steady state, and of a window's bytes that may go into blocks that were unused.
const STEADY: f64 = 0.1;

/// Allocation units that a window of writes in order has at least in the steady state, which begins with the second pass over its sectors.
const UNITS_MIN: u64 = 2;

/// Most sectors that a sequential test goes over: 64 MiB, or twice the SLC cache where that is more, as what is in the cache is written again at its speed.
const SEQUENTIAL_SECTORS: u64 = 1 << 17;

/// Most allocation units that are written alternately: twice the 24 of a Samsung Pro (Chubb 2015), and some.
const OPEN_AUS_MAX: u32 = 64;

/// Result of one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardTest {
    /// State of the card before the tests of this state.
    pub state: CardState,
    /// `read` or `write`.
    pub operation: Cow<'static, str>,
    /// `sequential` or `random`.
    pub access: Cow<'static, str>,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Number of requests in the window that counts: the last one.
    pub requests: u64,
    /// False when writes have not reached the steady state: their speed still changes, or they go into a cache or free blocks that will be used up.
    pub is_steady: bool,
    /// Megabytes (10^6) a second, with the flush after writes.
    pub mb_s: f64,
    /// The 80 % interval of [`Self::mb_s`], of those requests that measured cards are compared with.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// Requests a second, with the flush after writes.
    pub iops: f64,
    /// Latencies of the requests.
    #[serde(flatten)]
    pub latency: Latencies,
    /// Bytes written to the NAND for each byte from the host; 0 for reads.
    pub write_amplification: f64,
    /// Blocks erased meanwhile.
    pub erases: u64,
    /// Energy of a request in uJ.
    pub uj_per_request: f64,
    /// Energy of a MiB in mJ.
    pub mj_per_mib: f64,
    /// Mean power meanwhile in mW.
    pub mean_mw: f64,
    /// Requests that took longer than the specification allows the card.
    pub late: u64,
    /// Requests that the host gave up (`card.host`).
    pub dropped: u64,
}

/// Latencies in us.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Mean in us.
    pub mean_us: f64,
    /// Median in us.
    pub p50_us: f64,
    /// 95th percentile in us.
    pub p95_us: f64,
    /// 99th percentile in us.
    pub p99_us: f64,
    /// Longest in us.
    pub max_us: f64,
}

impl Latencies {
    /// From all latencies in ns; zeros for none.
    fn of(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        let count = all.len().max(1);
        let at = |percent: usize| {
            let place = (all.len() * percent).div_ceil(100).saturating_sub(1);
            all.get(place).map_or(0.0, |ns| *ns as f64 / 1e3)
        };
        let mean_us = all.iter().sum::<u64>() as f64 / count as f64 / 1e3;
        Self { mean_us, p50_us: at(50), p95_us: at(95), p99_us: at(99), max_us: at(100) }
    }
}

/// Speeds with some allocation units written alternately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenAuRow {
    /// Number of allocation units.
    pub aus: u32,
    /// `linear` or `random` order of the requests inside each.
    pub order: Cow<'static, str>,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Megabytes (10^6) a second.
    pub mb_s: f64,
    /// Mean time of a request in us.
    pub mean_us: f64,
    /// Longest time of a request in us.
    pub max_us: f64,
    /// Blocks erased meanwhile.
    pub erases: u64,
}

/// Reads before, on and behind multiples of an alignment (`flashbench -a`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlignmentRow {
    /// Alignment in bytes.
    pub align_bytes: u64,
    /// Mean time of a read that ends at the border, us.
    pub pre_us: f64,
    /// Mean time of a read across the border, us.
    pub on_us: f64,
    /// Mean time of a read that begins at the border, us.
    pub post_us: f64,
    /// `on` less the mean of `pre` and `post`, us.
    pub diff_us: f64,
}

/// All that is measured on a card.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CardSpeed {
    /// Maker and name of the card.
    pub card: String,
    /// Description in one line.
    pub title: String,
    /// Size as the host sees it, in bytes.
    pub capacity_bytes: u64,
    /// Size of an allocation unit in bytes.
    pub au_bytes: u64,
    /// Allocation units that can be written in order at the same time.
    pub open_aus: u32,
    /// Those of them that can be written in any order.
    pub open_aus_random: u32,
    /// Bytes that are programmed at once.
    pub page_bytes: u64,
    /// Placement of logical units.
    pub mapping: Mapping,
    /// Mode of the interface.
    pub bus: BusMode,
    /// Size that the card claims to have, where that is a lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_bytes: Option<u64>,
    /// Time that the full card needs to rebuild its map after a loss of power, us.
    pub power_on_us: f64,
    /// Power that the supply delivers, mW; absent where it has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_mw: Option<f64>,
    /// Size of the card that was measured in place of this one, used and full; absent where it was measured itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stand_in_bytes: Option<u64>,
    /// Blocks beyond those of the capacity and of the layer's own needs, in percent of the capacity.
    #[serde(default)]
    pub spare_percent: f64,
    /// Remarks on the card that was measured, a sentence each.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Requests by state, operation, access and size.
    pub tests: Vec<CardTest>,
    /// Allocation units written alternately, on the full card.
    pub open_au_rows: Vec<OpenAuRow>,
    /// Reads across borders, on the full card.
    pub alignment_rows: Vec<AlignmentRow>,
}

/// Measures a card. `progress` hears how far it is.
///
/// # Errors
/// Sizes that are no requests; a card that fails, as a worn one does.
pub fn measure(
    card: &LoadedCard,
    options: &CardSpeedOptions,
    progress: Listener<'_>,
) -> Result<CardSpeed, Error> {
    let options = &options.of_card(&card.spec)?;
    let steps_of = |state: CardState| {
        let stand_in = StandIn::of(&card.spec, state);
        state.steps(stand_in.spec.capacity_bytes / SECTOR_BYTES as u64, stand_in.history)
    };
    let steps: u64 = CardState::ALL.into_iter().map(steps_of).sum();
    // All tests take about as long as all states.
    let tests = (CardState::ALL.len() * TESTS_OF_SIZE * options.sizes.len()) as u64;
    let steps_of_test = (steps / tests.max(1)).max(1);
    progress(Progress::Steps(steps + tests * steps_of_test));
    let done = |steps: u64| progress(Progress::Done(steps));
    let tested = || progress(Progress::Done(steps_of_test));
    let of_state = |state: &CardState| {
        let bench = Bench::new(&card.spec, *state, options, &done)?;
        let tests = bench.run_all(&tested).map_err(failed)?;
        // The full card alone is needed again.
        Ok((tests, Some(bench).filter(|_| *state == CardState::Full)))
    };
    let runs: Vec<(Vec<CardTest>, Option<Bench>)> =
        CardState::ALL.par_iter().map(of_state).collect::<Result<_, Error>>()?;
    let (tests, benches): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
    let (tests, last) = (tests.concat(), benches.into_iter().flatten().next());
    let (mut open_au_rows, mut alignment_rows, mut power_on_us) = (Vec::new(), Vec::new(), 0.0);
    if let Some(mut bench) = last {
        alignment_rows = bench.alignments().map_err(failed)?;
        open_au_rows = bench.open_aus().map_err(failed)?;
        power_on_us = bench.power_on_us(&card.spec)?;
    }
    let spreads = Spreads::read()?;
    let tests =
        tests.into_iter().map(|test| CardTest { interval: spreads.interval(&test), ..test }).collect();
    let card_spec = &card.spec;
    let CardSpec { capacity_bytes, au_bytes, open_aus, open_aus_random, page_bytes, mapping, bus, .. } =
        *card_spec;
    Ok(CardSpeed {
        card: card.name(),
        title: card.part.title.clone(),
        capacity_bytes,
        au_bytes,
        open_aus,
        open_aus_random,
        page_bytes,
        mapping,
        bus,
        claimed_bytes: card_spec.fake.map(|fake| fake.claimed_bytes),
        power_on_us,
        limit_mw: info::power(card).limit_mw,
        stand_in_bytes: stand_in_bytes(card_spec),
        spare_percent: 100.0 * spare_share(card_spec),
        remarks: Vec::new(),
        tests,
        open_au_rows,
        alignment_rows,
    })
}

/// Size of the card that stands in for a full one, where one does.
fn stand_in_bytes(spec: &CardSpec) -> Option<u64> {
    let stand_in = StandIn::of(spec, CardState::Full);
    stand_in.is_small(spec).then_some(stand_in.spec.capacity_bytes)
}

/// Blocks to spare over those of the capacity.
fn spare_share(spec: &CardSpec) -> f64 {
    spec.blocks_to_spare() as f64 / spec.aus().max(1) as f64
}

/// A warning about a page-mapped card that was made larger without more spare blocks, on which its writes at random depend.
pub(crate) fn thin_spare(spec: &CardSpec, original: &CardSpec) -> Option<String> {
    let (own, share) = (spare_share(spec), spare_share(original));
    if spec.mapping != Mapping::Page || spec.spare_blocks != original.spare_blocks || own * 2.0 > share {
        return None;
    }
    let needed = spec.needed_spare_blocks() + u64::from(spec.bad_blocks);
    let wanted = needed + (share * spec.aus() as f64).round() as u64;
    Some(format!(
        "The {} spare blocks of the original size leave {:.1} % to spare instead of {:.1} %, which makes writes at random slow: card.spare_blocks={wanted} keeps the share.",
        spec.spare_blocks,
        100.0 * own,
        100.0 * share
    ))
}

/// Reads across borders on the full card, as `flashbench -a` does them.
///
/// # Errors
/// A card that fails, as a worn one does.
pub fn alignments(card: &LoadedCard, seed: u64) -> Result<Vec<AlignmentRow>, Error> {
    let options = CardSpeedOptions { requests: 1, sizes: Vec::new(), seed };
    Bench::new(&card.spec, CardState::Full, &options, &|_| ())?.alignments().map_err(failed)
}

/// Speeds in order of a card that nothing was written to, MB/s: reads, and writes as many as a probe has.
///
/// # Errors
/// The specification is impossible, or the card fails.
pub(crate) fn in_order_mb_s(spec: &CardSpec) -> Result<[f64; 2], Error> {
    let mut bench = Bench::in_order(spec, CardState::Empty, 0)?;
    let mut mb_s = |pattern| {
        bench.window(pattern, 0, u64::from(IN_ORDER_REQUESTS)).map(|test| test.mb_s).map_err(failed)
    };
    let writes = mb_s(IN_ORDER_WRITES)?;
    Ok([mb_s(IN_ORDER_READS)?, writes])
}

/// Speed of a file of 400 MiB that is written in order to a used card, MB/s, as `dd` measures it. Linux asks a host for 512 KiB at most.
///
/// # Errors
/// The specification is impossible, or the card has less room or fails.
pub(crate) fn file_in_order_mb_s(spec: &CardSpec, seed: u64) -> Result<f64, Error> {
    let mut bench = Bench::in_order(spec, CardState::Used, seed)?;
    let (start, sectors) = (bench.now(), FILE_REQUEST_BYTES / SECTOR_BYTES as u64);
    let first = bench.sequential_start();
    for request in 0..LONG_FILE_BYTES / FILE_REQUEST_BYTES {
        bench.write(first + request * sectors, FILE_REQUEST_BYTES).map_err(failed)?;
    }
    let now = bench.now();
    let end = bench.card.flush(now).map_err(failed)?;
    Ok(LONG_FILE_BYTES as f64 / end.since(start).as_us_f64())
}

/// Figures of a card to compare with other storage.
pub(crate) struct Essentials {
    /// Reads in order of what is there.
    pub(crate) read: CardTest,
    /// Writes in order, at their steady speed.
    pub(crate) write: CardTest,
    /// Time in us until the card is ready after a loss of power.
    pub(crate) power_on_us: f64,
}

/// The essentials of a card in a state. Reads and writes are those of the largest requests of [`measure`] with its defaults.
///
/// # Errors
/// The specification is impossible, or the card fails.
pub(crate) fn essentials(spec: &CardSpec, state: CardState, seed: u64) -> Result<Essentials, Error> {
    let options = CardSpeedOptions { seed, ..CardSpeedOptions::default() }.of_card(spec)?;
    let mut bench = Bench::new(spec, state, &options, &|_| ())?;
    let Some(&bytes) = options.sizes.last() else {
        return Err(Error::request("the card is too small for requests", "name a larger card"));
    };
    let of = |is_write| bench.on_a_copy(Pattern { is_write, is_random: false, bytes }).map_err(failed);
    let (read, write) = (of(false)?, of(true)?);
    let power_on_us = bench.power_on_us(spec)?;
    let spreads = Spreads::read()?;
    let with_interval = |test: CardTest| CardTest { interval: spreads.interval(&test), ..test };
    Ok(Essentials { read: with_interval(read), write: with_interval(write), power_on_us })
}

/// Distances between the model and measured cards, for the intervals of tests.
struct Spreads {
    read_in_order: Option<Spread>,
    write_in_order: Option<Spread>,
    read_at_random: Option<Spread>,
    write_at_random: Option<Spread>,
}

/// Least request in order that measured cards are compared with, in bytes.
const LONG_REQUEST: u64 = 512 << 10;

impl Spreads {
    fn read() -> Result<Self, Error> {
        Ok(Self {
            read_in_order: Spread::of(READ_IN_ORDER)?,
            write_in_order: Spread::of(WRITE_IN_ORDER)?,
            read_at_random: Spread::of(READ_AT_RANDOM)?,
            write_at_random: Spread::of(WRITE_AT_RANDOM)?,
        })
    }

    /// Interval of a test: of long requests in order, and of 4 KiB at random.
    fn interval(&self, test: &CardTest) -> Option<Interval> {
        let is_write = test.operation == "write";
        let spread = match (&*test.access, test.request_bytes) {
            ("sequential", LONG_REQUEST..) if is_write => self.write_in_order,
            ("sequential", LONG_REQUEST..) => self.read_in_order,
            ("random", RECORD_BYTES) if is_write => self.write_at_random,
            ("random", RECORD_BYTES) => self.read_at_random,
            _ => None,
        };
        spread.map(|spread| spread.interval(test.mb_s))
    }
}

/// Speeds of 4 KiB at random within a file of 100 MiB, MB/s: 1000 reads, then 6000 writes.
///
/// The file was written in order to a used card. iozone measures so on a Raspberry Pi.
///
/// # Errors
/// The specification is impossible, or the card has less room or fails.
pub fn random_in_file_mb_s(spec: &CardSpec, seed: u64) -> Result<[f64; 2], Error> {
    let options = CardSpeedOptions { requests: 0, sizes: Vec::new(), seed };
    let mut bench = Bench::new(spec, CardState::Used, &options, &|_| ())?;
    let first = bench.sequential_start();
    let file = first..first + FILE_BYTES / SECTOR_BYTES as u64;
    for lba in file.clone().step_by((FILE_REQUEST_BYTES / SECTOR_BYTES as u64) as usize) {
        bench.write(lba, FILE_REQUEST_BYTES).map_err(failed)?;
    }
    let mut test = |is_write, requests: u64| -> Result<f64, BlockError> {
        let pattern = Pattern { is_write, is_random: true, bytes: RECORD_BYTES };
        let latencies = bench.random(pattern, file.clone(), requests)?;
        let seconds = latencies.iter().sum::<u64>() as f64 / 1e9;
        Ok((requests * RECORD_BYTES) as f64 / seconds.max(1e-9) / 1e6)
    };
    Ok([test(false, 1000).map_err(failed)?, test(true, 6000).map_err(failed)?])
}

impl CardSpeedOptions {
    /// The options for a card: default sizes are left out if the card has no room for them.
    ///
    /// # Errors
    /// Sizes that are no requests to it.
    fn of_card(&self, spec: &CardSpec) -> Result<Self, Error> {
        let most = REQUEST_BYTES_MAX.min(spec.capacity_bytes / 2);
        let is_request = |size: &u64| size.is_multiple_of(SECTOR_BYTES as u64) && (1..=most).contains(size);
        let mut own = self.clone();
        if own.sizes == SIZES {
            own.sizes.retain(is_request);
        }
        match self.sizes.iter().find(|size| !is_request(size)).filter(|_| own.sizes.len() == self.sizes.len())
        {
            None if !own.sizes.is_empty() => Ok(own),
            Some(size) => Err(Error::request(
                format!("{size} bytes are no request to this card"),
                format!(
                    "sizes are multiples of {SECTOR_BYTES} bytes, up to {most} bytes, which is half of the card"
                ),
            )),
            None => Err(Error::request(
                format!("a card of {} bytes is too small for requests of 4 KiB", spec.capacity_bytes),
                "choose a larger card, or override `card.capacity_bytes`",
            )),
        }
    }
}

fn failed(error: BlockError) -> Error {
    let help = match error.kind {
        BlockErrorKind::PowerLost => "raise `card.power.limit_ua`, or set `card.power.overload` to \"stall\"",
        _ => "raise `card.wear.endurance_cycles`, or ask for fewer requests",
    };
    Error::request(format!("the card fails: {error}"), help)
}

/// A card in some state, with buffers that are as large as the largest request.
#[derive(Clone)]
struct Bench {
    card: Fake<Card>,
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
struct Pattern {
    is_write: bool,
    is_random: bool,
    bytes: u64,
}

impl Pattern {
    const fn sectors(&self) -> u64 {
        self.bytes / SECTOR_BYTES as u64
    }
}

impl Bench {
    fn new(
        spec: &CardSpec,
        state: CardState,
        options: &CardSpeedOptions,
        progress: &dyn Fn(u64),
    ) -> Result<Self, Error> {
        Self::of(&StandIn::of(spec, state), spec, state, options, progress)
    }

    /// A bench of a card, or of the one that stands in for it.
    fn of(
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
        state.reach(&mut bench.card, *history, &mut bench.chance, progress).map_err(failed)?;
        bench.card.device_mut().set_host(spec.host);
        bench.card.device_mut().share_map();
        Ok(bench)
    }

    /// A bench for short tests in order.
    fn in_order(spec: &CardSpec, state: CardState, seed: u64) -> Result<Self, Error> {
        let options = CardSpeedOptions { requests: IN_ORDER_REQUESTS, sizes: Vec::new(), seed };
        Self::new(spec, state, &options, &|_| ())
    }

    fn now(&self) -> Instant {
        self.card.device().now()
    }

    fn write(&mut self, lba: u64, bytes: u64) -> Result<u64, BlockError> {
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
    fn run_all(&self, tested: &dyn Fn()) -> Result<Vec<CardTest>, BlockError> {
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
    fn on_a_copy(&self, pattern: Pattern) -> Result<CardTest, BlockError> {
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
    fn sequential_start(&self) -> u64 {
        (self.card.capacity() / 4).next_multiple_of(self.au_sectors) % self.card.capacity()
    }

    /// Requests of a test after `done` others. Sequential ones begin again at the end of their sectors.
    fn window(&mut self, pattern: Pattern, done: u64, requests: u64) -> Result<CardTest, BlockError> {
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
    fn random(
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
    fn open_aus(&mut self) -> Result<Vec<OpenAuRow>, BlockError> {
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
    fn power_on_us(&mut self, whole: &CardSpec) -> Result<f64, Error> {
        let own_bytes = self.card.device().capacity() * SECTOR_BYTES as u64;
        if own_bytes == whole.capacity_bytes {
            return self.lose_power().map_err(failed);
        }
        let filled = StandIn { spec: whole.clone(), history: History::of(whole).in_order() };
        let mut bench = Self::of(&filled, whole, self.state, &self.options, &|_| ())?;
        bench.lose_power().map_err(failed)
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
    fn alignments(&mut self) -> Result<Vec<AlignmentRow>, BlockError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::load;
    use floatgate_config::{Library, Override};

    fn spec(name: &str, sets: &[&str]) -> CardSpec {
        load(&Library::built_in(), name, &Override::parse_all(sets).unwrap()).unwrap().spec
    }

    /// The share of spare blocks and of what was overwritten decides, not the size.
    #[test]
    fn a_card_has_the_speeds_of_a_larger_one_with_the_same_shares() {
        let sets = ["card.capacity_bytes='1 GiB'", "card.au_bytes='1 MiB'", "card.spare_blocks=120"];
        let whole = spec("a2-128g", &[&sets[..], &["card.slc.blocks=8"]].concat());
        let small = StandIn::of_size(&whole, 256 << 20);
        // The cache of eight blocks with one of three bits counts as spare.
        let share = |spec: &CardSpec| (spec.blocks_to_spare() as f64 + 1.0 + 8.0 / 3.0) / spec.aus() as f64;
        assert!((share(&small.spec) / share(&whole) - 1.0).abs() < 0.01, "{:?}", small.spec);
        assert!(small.is_small(&whole) && small.spec.capacity_bytes < whole.capacity_bytes / 3);
        let options = CardSpeedOptions { requests: 2000, sizes: Vec::new(), seed: 1 };
        let speeds = |stand_in: &StandIn| {
            let mut bench = Bench::of(stand_in, &whole, CardState::Full, &options, &|_| ()).unwrap();
            let at_random = |is_write| Pattern { is_write, is_random: true, bytes: RECORD_BYTES };
            // The same number of requests on both, which is a small part of each.
            let tests = [(at_random(false), 2000), (at_random(true), 8000), (IN_ORDER_READS, 32)];
            tests.map(|(pattern, requests)| bench.window(pattern, 0, requests).unwrap().mb_s)
        };
        let (own, of_whole) = (speeds(&small), speeds(&StandIn::whole(&whole)));
        for (own, whole) in own.iter().zip(&of_whole) {
            assert!((own / whole - 1.0).abs() < 0.2, "{own} {whole}");
        }
    }

    /// A small card, and one that is empty or not page-mapped, is measured itself.
    #[test]
    fn a_stand_in_is_for_large_page_mapped_cards() {
        let is_small = |name: &str, sets: &[&str], state| {
            let spec = spec(name, sets);
            let stand_in = StandIn::of(&spec, state);
            stand_in.spec.check().unwrap();
            stand_in.is_small(&spec)
        };
        let large = ["card.capacity_bytes=1TiB"];
        assert!(is_small("a2-128g", &large, CardState::Full) && is_small("a2-128g", &[], CardState::Used));
        assert!(!is_small("a2-128g", &large, CardState::Empty) && !is_small("a1-32g", &[], CardState::Full));
        assert!(!is_small("samsung-evo-16g", &large, CardState::Full));
    }

    /// `compare` has the figures that `speed` shows of the used card.
    #[test]
    fn essentials_are_those_of_the_whole_measurement() {
        let sets = ["card.capacity_bytes='512 MiB'", "card.spare_blocks=40", "card.slc.blocks=8"];
        let card = load(&Library::built_in(), "a1-32g", &Override::parse_all(&sets).unwrap()).unwrap();
        let all = measure(&card, &CardSpeedOptions::default(), &|_| ()).unwrap();
        let of = |operation: &str| {
            let is_it = |test: &&CardTest| {
                test.state == CardState::Used
                    && test.operation == operation
                    && (&*test.access, test.request_bytes) == ("sequential", 1 << 20)
            };
            all.tests.iter().find(is_it).unwrap().clone()
        };
        let own = essentials(&card.spec, CardState::Used, 0).unwrap();
        assert_eq!((&own.read, &own.write), (&of("read"), &of("write")));
        assert!(own.write.interval.is_some() && own.read.interval.is_some());
    }

    /// A test has the same figures whatever sizes are tested beside it: writes in order empty blocks, which would serve the next writes at random.
    #[test]
    fn a_test_does_not_depend_on_the_others() {
        let sets = ["card.capacity_bytes='512 MiB'", "card.spare_blocks=24", "card.slc.blocks=4"];
        let card = load(&Library::built_in(), "a1-32g", &Override::parse_all(&sets).unwrap()).unwrap();
        let small = |sizes: &[u64]| {
            let options = CardSpeedOptions { requests: 50, sizes: sizes.to_vec(), seed: 0 };
            let mut tests = measure(&card, &options, &|_| ()).unwrap().tests;
            tests.retain(|test| test.request_bytes == RECORD_BYTES);
            tests
        };
        assert_eq!(small(&[RECORD_BYTES]), small(&[RECORD_BYTES, 1 << 20]));
    }

    /// A larger card with the spare blocks of the smaller one gets a number of them that keeps the share.
    #[test]
    fn a_larger_card_needs_more_spare_blocks() {
        let original = spec("a1-32g", &[]);
        let large = spec("a1-32g", &["card.capacity_bytes=1TiB"]);
        let told = thin_spare(&large, &original).unwrap();
        let advised =
            told.split_whitespace().find_map(|word| word.strip_prefix("card.spare_blocks=")).unwrap();
        let spare = format!("card.spare_blocks={advised}");
        let better = spec("a1-32g", &["card.capacity_bytes=1TiB", &spare]);
        assert!((spare_share(&better) / spare_share(&original) - 1.0).abs() < 0.01, "{told}");
        assert_eq!((thin_spare(&better, &original), thin_spare(&original, &original)), (None, None));
        assert!(stand_in_bytes(&large).is_some_and(|bytes| bytes < large.capacity_bytes));
        assert_eq!(stand_in_bytes(&original), None);
    }

    #[test]
    fn a_small_card_gets_the_requests_that_it_has_room_for() {
        let small = spec("a1-32g", &["card.capacity_bytes=1MiB"]);
        let own = CardSpeedOptions::default().of_card(&small).unwrap();
        assert_eq!(own.sizes, SIZES[..3]);
        let asked = CardSpeedOptions { sizes: vec![1 << 20], ..own };
        assert!(asked.of_card(&small).unwrap_err().to_string().contains("1048576 bytes are no request"));
    }
}
