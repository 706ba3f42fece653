//! The speed of a card: requests of several sizes on an empty, a used and a full card, allocation units
//! written alternately, and reads across borders (`flashbench -a`).

mod bench;
mod results;

pub use super::latencies::Latencies;
pub use results::{AlignmentRow, CardTest, OpenAuRow};

use super::spread::{READ_AT_RANDOM, READ_IN_ORDER, Spread, WRITE_AT_RANDOM, WRITE_IN_ORDER};
pub use super::state::CardState;
use super::state::StandIn;
use super::{LoadedCard, info};
use crate::Error;
use crate::interval::Interval;
use crate::progress::{Listener, Progress};
use bench::{Bench, Pattern};
use floatgate_card::{BusMode, CardSpec, Mapping};
use floatgate_mtd::{BlockDevice, SECTOR_BYTES, size};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

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
        let stand_in = StandIn::for_tests(&card.spec, state, STEADY_BYTES_MAX);
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
        let tests = bench.run_all(&tested).map_err(|error| bench.failed(error))?;
        // The full card alone is needed again.
        Ok((tests, Some(bench).filter(|_| *state == CardState::Full)))
    };
    let runs: Vec<(Vec<CardTest>, Option<Bench>)> =
        CardState::ALL.par_iter().map(of_state).collect::<Result<_, Error>>()?;
    let (tests, benches): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
    let (tests, last) = (tests.concat(), benches.into_iter().flatten().next());
    let (mut open_au_rows, mut alignment_rows, mut power_on_us) = (Vec::new(), Vec::new(), 0.0);
    if let Some(mut bench) = last {
        alignment_rows = bench.alignments().map_err(|error| bench.failed(error))?;
        open_au_rows = bench.open_aus().map_err(|error| bench.failed(error))?;
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
    let stand_in = StandIn::for_tests(spec, CardState::Full, STEADY_BYTES_MAX);
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
    let mut bench = Bench::new(&card.spec, CardState::Full, &options, &|_| ())?;
    bench.alignments().map_err(|error| bench.failed(error))
}

/// Speeds in order of a card that nothing was written to, MB/s: reads, and writes as many as a probe has.
///
/// # Errors
/// The specification is impossible, or the card fails.
pub(crate) fn in_order_mb_s(spec: &CardSpec) -> Result<[f64; 2], Error> {
    let mut bench = Bench::in_order(spec, CardState::Empty, 0)?;
    let mut mb_s = |pattern| {
        let window = bench.window(pattern, 0, u64::from(IN_ORDER_REQUESTS));
        window.map(|test| test.mb_s).map_err(|error| bench.failed(error))
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
        bench.write(first + request * sectors, FILE_REQUEST_BYTES).map_err(|error| bench.failed(error))?;
    }
    let now = bench.now();
    let end = bench.card.flush(now).map_err(|error| bench.failed(error))?;
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
    let of = |is_write| {
        let test = bench.on_a_copy(Pattern { is_write, is_random: false, bytes });
        test.map_err(|error| bench.failed(error))
    };
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
        bench.write(lba, FILE_REQUEST_BYTES).map_err(|error| bench.failed(error))?;
    }
    let mut test = |is_write, requests: u64| -> Result<f64, Error> {
        let pattern = Pattern { is_write, is_random: true, bytes: RECORD_BYTES };
        let latencies = bench.random(pattern, file.clone(), requests);
        let latencies = latencies.map_err(|error| bench.failed(error))?;
        let seconds = latencies.iter().sum::<u64>() as f64 / 1e9;
        Ok((requests * RECORD_BYTES) as f64 / seconds.max(1e-9) / 1e6)
    };
    Ok([test(false, 1000)?, test(true, 6000)?])
}

impl CardSpeedOptions {
    /// The options for a card: default sizes are left out if the card has no room for them.
    ///
    /// # Errors
    /// Sizes that are no requests to it.
    fn of_card(&self, spec: &CardSpec) -> Result<Self, Error> {
        let half = spec.capacity_bytes / 2;
        let (most, limit) = match half < REQUEST_BYTES_MAX {
            true => (half, "half of the card"),
            false => (REQUEST_BYTES_MAX, "a host asks for no more at once"),
        };
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
                format!("sizes are multiples of {SECTOR_BYTES} bytes, up to {}: {limit}", size::text(most)),
            )),
            None => Err(Error::request(
                format!("a card of {} bytes is too small for requests of 4 KiB", spec.capacity_bytes),
                "choose a larger card, or override `card.capacity_bytes`",
            )),
        }
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
            let stand_in = StandIn::for_tests(&spec, state, STEADY_BYTES_MAX);
            stand_in.spec.check().unwrap();
            stand_in.is_small(&spec)
        };
        let large = ["card.capacity_bytes=1TiB"];
        assert!(is_small("a2-128g", &large, CardState::Full) && is_small("a2-128g", &[], CardState::Used));
        assert!(!is_small("a2-128g", &large, CardState::Empty) && !is_small("a1-32g", &[], CardState::Full));
        assert!(!is_small("samsung-evo-16g", &large, CardState::Full));
        // Without an SLC cache, a smaller one has the same shares.
        assert!(is_small("a1-32g", &["card.slc.blocks=0"], CardState::Full));
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
        let asked = CardSpeedOptions { sizes: Vec::new(), ..own };
        let refused = |card: &CardSpec, bytes: u64| {
            let asked = CardSpeedOptions { sizes: vec![bytes], ..asked.clone() };
            let error = asked.of_card(card).unwrap_err();
            format!("{error} {}", error.help().map(|help| help.to_string()).unwrap_or_default())
        };
        let told = refused(&small, 1 << 20);
        assert!(told.contains("1048576 bytes are no request") && told.contains("512 KiB: half of"), "{told}");
        let told = refused(&spec("a1-32g", &[]), 8 << 20);
        assert!(told.contains("up to 4 MiB: a host") && !told.contains("half"), "{told}");
    }
}
