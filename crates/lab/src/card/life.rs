//! The life of a card under a workload: a trace is repeated until the card writes and erases at a steady rate, and that rate uses up the cycles of its
//! blocks.

use super::LoadedCard;
use super::replay::prepare;
use super::serve::{CardAtWork, NewCard};
use super::shipped::ShippedTrace;
use super::state::{CardState, StandIn};
use super::trace::{Request, RequestKind};
use crate::Error;
use crate::life::DAYS_PER_YEAR;
use crate::progress::{Listener, Progress};
use floatgate_card::{CardHealth, CardOptions, CardRegisters, CardSpec, CardStats, WearSpec};
use floatgate_mtd::random::Random;
use floatgate_mtd::{Instant, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

/// Most requests of a trace: all of them are kept in memory.
pub const REQUESTS_MAX: usize = 1 << 20;

/// Requests after which the rate is taken as it is: a few seconds of work.
pub const BUDGET: usize = 1 << 19;

/// Bytes that the host writes in a window, unless these are too many requests.
const WINDOW_BYTES: u64 = 256 << 20;

/// Windows that the requests suffice for at least, where a pass of the trace is short.
const WINDOWS_MIN: u64 = 4;

/// Requests between two looks at the account, which goes over all blocks.
const REQUESTS_AT_ONCE: usize = 1 << 13;

/// Pages read and programmed for each request of the budget, after which the rate is taken as it is, too.
const PAGES_PER_REQUEST: u64 = 16;

/// Difference of two windows below which the rate is steady.
const STEADY: f64 = 0.05;

/// Populations of blocks that are drawn for the interval.
const POPULATIONS: usize = 100;
/// Blocks of all populations together.
const DRAWS_MAX: usize = 4 << 20;

/// The workload that wears out a card.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Requests that come once, before the others.
    pub before: Vec<Request>,
    /// Requests that are repeated, without think times.
    pub requests: Vec<Request>,
    /// State of the card at the beginning.
    pub state: CardState,
    /// Bytes that the host writes in a day.
    pub write_bytes_per_day: u64,
    /// Requests after which the rate is taken as it is.
    pub requests_max: usize,
    /// Seed of the card, and of the lives of its blocks.
    pub seed: u64,
}

/// A shipped trace that wears out a card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceWear {
    /// The trace, which is repeated.
    pub(crate) trace: ShippedTrace,
    /// State of the card at the beginning.
    pub(crate) state: CardState,
    /// Bytes that the host writes in a day.
    pub(crate) write_bytes_per_day: u64,
    /// Requests after which the rate is taken as it is.
    pub(crate) requests_max: usize,
    /// Seed of the card, and of the lives of its blocks.
    pub(crate) seed: u64,
}

/// Life of a card under a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CardLife {
    /// Maker and name of the card.
    pub card: String,
    /// The card in a line.
    pub title: String,
    /// Trace that wears it; empty where the requests have no name.
    #[serde(default)]
    pub trace: String,
    /// Size as the host sees it, in bytes.
    pub capacity_bytes: u64,
    /// Bytes that the host wrote until the rate was steady.
    pub host_bytes: u64,
    /// Times that the trace was played.
    pub passes: u64,
    /// Units written to the NAND for each one that the host writes, in the last window.
    pub write_amplification: f64,
    /// Erased bytes of NAND for each byte that the host writes, in the last window; at least what is written to the NAND.
    pub erased_per_written: f64,
    /// Bytes that the host writes over the time of the card in the last window, MB/s.
    #[serde(default)]
    pub sustained_mb_s: f64,
    /// False when the rate still changed at the end.
    pub is_steady: bool,
    /// Blocks of the card.
    pub blocks: u64,
    /// Blocks that share the wear: all of them with static wear levelling, else those that the workload erased.
    pub wearing_blocks: u64,
    /// True when the blocks of the enhanced area wear out first: life, cycles and blocks are those of the area.
    #[serde(default)]
    pub is_enhanced: bool,
    /// True when the card moves data that does not change.
    pub has_static_levelling: bool,
    /// Most erases of a block in this run, over the mean of those that wear.
    pub wear_spread: f64,
    /// Rated cycles of a block.
    pub endurance_cycles: u32,
    /// Probability that the rated cycles are right, by their source; absent where they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_confidence: Option<f64>,
    /// Blocks that may fail before the card can no longer write.
    pub blocks_to_spare: u64,
    /// Bytes that the host writes until the wearing blocks have their rated cycles.
    pub rated_bytes: f64,
    /// Bytes that the host writes until too many blocks have failed: the middle of the populations that were drawn.
    pub life_bytes: f64,
    /// A tenth of the populations live for less.
    pub life_bytes_min: f64,
    /// A tenth of the populations live for more.
    pub life_bytes_max: f64,
    /// Bytes that the host writes in a day.
    pub write_bytes_per_day: u64,
    /// Years until the rated cycles are used up.
    pub rated_years: f64,
    /// Years of the middle population.
    pub life_years: f64,
    /// Years of a tenth or less of the populations.
    pub life_years_min: f64,
    /// Years of all but a tenth of the populations.
    pub life_years_max: f64,
    /// Health that an eMMC states after years of this workload; empty for an SD card, which states none.
    #[serde(default)]
    pub health: Vec<StatedHealth>,
}

/// Health registers of an eMMC (EXT_CSD) after some years.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatedHealth {
    /// Years of the workload.
    pub years: f64,
    /// Mean cycles of the blocks over the rated ones, %.
    pub life_used_percent: f64,
    /// Failed blocks over those that the card has to spare, %.
    pub spare_used_percent: f64,
    /// DEVICE_LIFE_TIME_EST_TYP_A: life used of cells with one bit, in tenths from 1; 11 beyond the rated cycles.
    pub life_a: u8,
    /// DEVICE_LIFE_TIME_EST_TYP_B: life used of cells with more bits, in tenths from 1; 11 beyond the rated cycles.
    pub life_b: u8,
    /// PRE_EOL_INFO: 1 normal, 2 and 3 for 80 % and 90 % of the spare blocks used.
    pub pre_eol: u8,
}

/// Years after which the health is looked at.
const HEALTH_YEARS: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];

/// Health of an eMMC after each of the years, when a year takes this many cycles of each wearing block, and of each block of the enhanced area.
fn health(
    spec: &CardSpec,
    (cycles_per_year, enhanced_per_year): (f64, Option<f64>),
    wearing: usize,
    to_spare: u64,
) -> Vec<StatedHealth> {
    if CardRegisters::of(spec).ext_csd.is_none() {
        return Vec::new();
    }
    let at = |years: f64| {
        let cycles = cycles_per_year * years;
        let failed = wearing as f64 * share_failed(spec, cycles);
        let health = CardHealth {
            life_used: spec.wear.damage(cycles) / f64::from(spec.wear.endurance_cycles.max(1)),
            enhanced_used: enhanced_per_year
                .map(|cycles| spec.wear.damage(cycles * years) / f64::from(spec.enhanced_cycles().max(1))),
            spare_used: failed / to_spare.max(1) as f64,
        };
        let registers = CardRegisters::of(spec).worn(&health).ext_csd;
        let [life_a, life_b, pre_eol] =
            registers.map_or([0; 3], |stated| [stated.life_a, stated.life_b, stated.pre_eol]);
        StatedHealth {
            years,
            life_used_percent: health.life_used * 100.0,
            spare_used_percent: health.spare_used.min(1.0) * 100.0,
            life_a,
            life_b,
            pre_eol,
        }
    };
    HEALTH_YEARS.map(at).to_vec()
}

/// Share of the blocks that have failed after this number of cycles: lives are spread as the logarithm of a normal distribution.
fn share_failed(spec: &CardSpec, cycles: f64) -> f64 {
    let spread = spec.wear.life_spread;
    let middle = spec.wear.block_life(0.0);
    let cycles = spec.wear.damage(cycles);
    if cycles <= 0.0 || spread <= 0.0 {
        return if cycles > middle { 1.0 } else { 0.0 };
    }
    let deviation = libm::log(cycles / middle) / spread;
    (1.0 + libm::erf(deviation / core::f64::consts::SQRT_2)) / 2.0
}

/// Wears a card by a shipped trace. `life`, `advise` and `compare` have the life of a workload from here.
///
/// # Errors
/// Those of [`life()`].
pub(crate) fn by_trace(
    card: &LoadedCard,
    wear: &TraceWear,
    progress: Listener<'_>,
) -> Result<CardLife, Error> {
    let &TraceWear { trace, state, write_bytes_per_day, requests_max, seed } = wear;
    let requests = trace.requests(card.spec.au_bytes)?;
    let workload = Workload {
        before: requests.before,
        requests: requests.workload,
        state,
        write_bytes_per_day,
        requests_max,
        seed,
    };
    // Shipped traces use a part of the card that does not grow with it. Without static wear levelling the blocks that they reach count, and not a share.
    let stand_in = match card.spec.wear.static_difference {
        0 => StandIn::whole(&card.spec),
        _ => StandIn::of(&card.spec, state),
    };
    Ok(CardLife { trace: trace.name(), ..life_on(&stand_in, card, &workload, progress)? })
}

/// Wears a card.
///
/// # Errors
/// A workload that writes nothing or does not fit onto the card; a card that is no card.
pub fn life(card: &LoadedCard, workload: &Workload, progress: Listener<'_>) -> Result<CardLife, Error> {
    life_on(&StandIn::whole(&card.spec), card, workload, progress)
}

/// Wears a card, or the one that stands in for it.
fn life_on(
    stand_in: &StandIn,
    card: &LoadedCard,
    workload: &Workload,
    progress: Listener<'_>,
) -> Result<CardLife, Error> {
    let spec = &card.spec;
    if spec.fake.is_some() {
        return Err(Error::request(
            "a fake has no life: it loses what is written",
            "name a card that keeps its data",
        ));
    }
    let mut new = NewCard::of(stand_in, CardOptions { seed: workload.seed, stores: false })?;
    progress(Progress::Steps(new.steps(workload.state) + workload.requests_max as u64));
    new.reach(workload.state, workload.seed, &|steps| progress(Progress::Done(steps)))?;
    let mut at_work = new.meet(None);
    prepare(&mut at_work, workload.before.iter().map(|request| Ok(*request)), None)?;
    let worn = Worn::by(&mut at_work, workload, spec.au_bytes, progress)?;
    Ok(worn.life(card, workload))
}

/// A card after its wear became steady.
struct Worn {
    passes: u64,
    host_bytes: u64,
    write_amplification: f64,
    erased_per_written: f64,
    sustained_mb_s: f64,
    is_steady: bool,
    /// Erases of each block by the workload.
    erases: Vec<u32>,
}

/// Wear between two moments.
#[derive(Clone, Copy)]
struct Window {
    write_amplification: f64,
    erased_per_written: f64,
    /// Bytes of the host over the time of the card, MB/s.
    mb_s: f64,
}

impl Worn {
    fn by(
        at_work: &mut CardAtWork,
        workload: &Workload,
        block_bytes: u64,
        progress: Listener<'_>,
    ) -> Result<Self, Error> {
        let requests = &workload.requests;
        let written: u64 =
            requests.iter().filter(|one| one.kind == RequestKind::Write).map(|one| one.sectors).sum();
        let pass_bytes = written * SECTOR_BYTES as u64;
        if pass_bytes == 0 {
            return Err(Error::request(
                "the trace writes nothing, so that nothing wears",
                "name one with writes",
            ));
        }
        let requests_max = workload.requests_max as u64;
        let most = requests_max / WINDOWS_MIN / requests.len().max(1) as u64;
        let passes_of_window = WINDOW_BYTES.div_ceil(pass_bytes).min(most).max(1);
        let pages = |stats: CardStats| stats.page_reads + stats.page_programs;
        let pages_max = pages(at_work.stats()) + PAGES_PER_REQUEST * requests_max;
        let before: Vec<u32> = at_work.erase_counts().collect();
        let (mut passes, mut last) = (0, None);
        loop {
            let (earlier, began) = (at_work.stats(), at_work.now());
            let mut played = 0;
            while played < passes_of_window && (played == 0 || pages(at_work.stats()) < pages_max) {
                let at_once = (REQUESTS_AT_ONCE / requests.len()).max(1) as u64;
                let at_once = at_once.min(passes_of_window - played);
                let again = (0..at_once).flat_map(|_| requests.iter().map(|request| Ok(*request)));
                prepare(at_work, again, None)?;
                played += at_once;
                progress(Progress::Done(at_once * requests.len() as u64));
            }
            passes += played;
            let window = at_work.wear_since(&earlier, began, block_bytes, played * pass_bytes);
            let is_steady = window.erases_what_it_writes() && last.is_some_and(|last| window.is_like(last));
            let is_over =
                passes * requests.len() as u64 >= requests_max || pages(at_work.stats()) >= pages_max;
            if is_steady || is_over {
                let erases =
                    at_work.erase_counts().zip(before).map(|(after, before)| after - before).collect();
                let write_amplification = window.write_amplification;
                let erased_per_written = window.erased_per_written.max(write_amplification);
                let host_bytes = passes * pass_bytes;
                return Ok(Self {
                    passes,
                    host_bytes,
                    write_amplification,
                    erased_per_written,
                    sustained_mb_s: window.mb_s,
                    is_steady,
                    erases,
                });
            }
            last = Some(window);
        }
    }

    fn life(&self, card: &LoadedCard, workload: &Workload) -> CardLife {
        let spec = &card.spec;
        let pools = Pool::all(self, spec);
        let rated = |pool: &&Pool| pool.of_cycle * pool.wear(spec).rated_erases();
        let first_worn = pools.iter().min_by(|one, other| rated(one).total_cmp(&rated(other)));
        let pool = first_worn.unwrap_or(&pools[0]);
        let [least, middle, longest] =
            cycles(&pool.wear(spec), pool.wearing, pool.to_spare as usize, workload.seed);
        let years = |bytes: f64| bytes / workload.write_bytes_per_day.max(1) as f64 / DAYS_PER_YEAR;
        let rated_bytes = rated(&pool);
        let [life_bytes_min, life_bytes, life_bytes_max] =
            [least, middle, longest].map(|cycles| pool.of_cycle * cycles);
        let bytes_per_year = workload.write_bytes_per_day as f64 * DAYS_PER_YEAR;
        let per_year = |pool: &Pool| bytes_per_year / pool.of_cycle.max(f64::EPSILON);
        CardLife {
            card: card.name(),
            title: card.part.title.clone(),
            trace: String::new(),
            capacity_bytes: spec.capacity_bytes,
            host_bytes: self.host_bytes,
            passes: self.passes,
            write_amplification: self.write_amplification,
            erased_per_written: self.erased_per_written,
            sustained_mb_s: self.sustained_mb_s,
            is_steady: self.is_steady,
            blocks: spec.blocks(),
            wearing_blocks: pool.wearing as u64,
            is_enhanced: pool.is_enhanced,
            has_static_levelling: spec.wear.static_difference > 0,
            wear_spread: pool.spread,
            endurance_cycles: pool.endurance_cycles,
            cycles_confidence: card.part.source_of(pool.cycles_key()).map(|source| source.confidence),
            blocks_to_spare: pool.to_spare,
            rated_bytes,
            life_bytes,
            life_bytes_min,
            life_bytes_max,
            write_bytes_per_day: workload.write_bytes_per_day,
            rated_years: years(rated_bytes),
            life_years: years(life_bytes),
            life_years_min: years(life_bytes_min),
            life_years_max: years(life_bytes_max),
            health: health(
                spec,
                (per_year(&pools[0]), pools.get(1).map(per_year)),
                pools[0].wearing,
                pools[0].to_spare,
            ),
        }
    }
}

/// Blocks that share their wear: those of a card, or those of its enhanced area.
struct Pool {
    is_enhanced: bool,
    /// Blocks that wear.
    wearing: usize,
    endurance_cycles: u32,
    /// Blocks that may fail.
    to_spare: u64,
    /// Most erases of a block over the mean.
    spread: f64,
    /// Bytes of the host for a cycle of all wearing blocks.
    of_cycle: f64,
}

impl Pool {
    /// The blocks of a card beside its enhanced area, and those of the area where there is one.
    fn all(worn: &Worn, spec: &CardSpec) -> Vec<Self> {
        let first = (spec.enhanced_first_block() as usize).min(worn.erases.len());
        // Of a card that stands in for another one, which has no area, each block counts for several.
        let (main, area) = if spec.enhanced_blocks() > 0 {
            worn.erases.split_at(first)
        } else {
            (&worn.erases[..], &[][..])
        };
        let main_blocks = spec.enhanced_first_block() as usize;
        let mut pools = vec![Self::of(worn, spec, main, main_blocks, false)];
        if !area.is_empty() {
            pools.push(Self::of(worn, spec, area, area.len(), true));
        }
        pools
    }

    fn of(worn: &Worn, spec: &CardSpec, erases: &[u32], blocks: usize, is_enhanced: bool) -> Self {
        let erased = erases.iter().filter(|erases| **erases > 0).count();
        let [seen, wearing] =
            if spec.wear.static_difference > 0 { [erases.len(), blocks] } else { [erased; 2] }
                .map(|count| count.max(1));
        let sum = |erases: &[u32]| erases.iter().map(|erases| f64::from(*erases)).sum::<f64>();
        let (own, all) = (sum(erases), sum(&worn.erases));
        let share = if erases.len() == worn.erases.len() || all == 0.0 { 1.0 } else { own / all };
        let mean = own / seen as f64;
        let most = erases.iter().copied().max().unwrap_or(0);
        let erased_per_written = worn.erased_per_written * share;
        Self {
            is_enhanced,
            wearing,
            endurance_cycles: if is_enhanced { spec.enhanced_cycles() } else { spec.wear.endurance_cycles },
            to_spare: if is_enhanced { spec.enhanced_to_spare() } else { spec.blocks_to_spare() },
            spread: if mean > 0.0 { f64::from(most) / mean } else { 1.0 },
            of_cycle: wearing as f64 * spec.au_bytes as f64 / erased_per_written.max(f64::EPSILON),
        }
    }

    /// Key of the rated cycles of these blocks.
    const fn cycles_key(&self) -> &'static str {
        if self.is_enhanced { "card.enhanced.endurance_cycles" } else { "card.wear.endurance_cycles" }
    }

    /// Wear of these blocks.
    fn wear(&self, spec: &CardSpec) -> WearSpec {
        WearSpec { endurance_cycles: self.endurance_cycles, ..spec.wear }
    }
}

impl Window {
    /// False while free blocks or caches are left to fill: in the long run all that is written is erased.
    fn erases_what_it_writes(self) -> bool {
        self.erased_per_written > 0.8 * self.write_amplification
    }

    fn is_like(self, other: Self) -> bool {
        let is_near = |a: f64, b: f64| (a - b).abs() <= STEADY * a.max(b);
        is_near(self.write_amplification, other.write_amplification)
            && is_near(self.erased_per_written, other.erased_per_written)
    }
}

impl CardAtWork {
    fn wear_since(&self, earlier: &CardStats, began: Instant, block_bytes: u64, host_bytes: u64) -> Window {
        let stats = self.stats();
        let erased = (stats.erases - earlier.erases) as f64 * block_bytes as f64;
        Window {
            mb_s: host_bytes as f64 / self.now().since(began).as_us_f64().max(1e-3),
            write_amplification: stats.write_amplification(earlier),
            erased_per_written: erased / host_bytes as f64,
        }
    }
}

/// Cycles at which more than `to_spare` of `blocks` have failed: a tenth, half and nine tenths of the populations reach fewer.
fn cycles(wear: &WearSpec, blocks: usize, to_spare: usize, seed: u64) -> [f64; 3] {
    let populations = (DRAWS_MAX / blocks.max(1)).clamp(10, POPULATIONS);
    let failing = to_spare.min(blocks.saturating_sub(1));
    let mut random = Random::new(seed);
    let mut all: Vec<f64> = (0..populations)
        .map(|_| {
            let mut deviations: Vec<f64> = (0..blocks).map(|_| random.normal()).collect();
            let (_, deviation, _) = deviations.select_nth_unstable_by(failing, f64::total_cmp);
            wear.erases_until(wear.block_life(*deviation))
        })
        .collect();
    all.sort_by(f64::total_cmp);
    [0.1, 0.5, 0.9].map(|share| all[((all.len() - 1) as f64 * share).round() as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{load, shipped};

    /// Half of the blocks have failed at the middle of their lives; registers count tenths from 1 and stop at 11.
    #[test]
    fn registers_state_the_wear_of_the_years() {
        let spec = load(&Library::built_in(), Path::new("emmc-16g"), &[]).unwrap().spec;
        assert!((share_failed(&spec, spec.wear.block_life(0.0)) - 0.5).abs() < 1e-9);
        let rated = f64::from(spec.wear.endurance_cycles);
        let years = health(&spec, (rated / 10.0, None), 1000, 100);
        let tenths: Vec<u8> = years.iter().map(|year| year.life_b).collect();
        assert_eq!(tenths, [2, 3, 6, 11, 11]);
        assert!(years.iter().all(|year| year.life_a == year.life_b && (1..=3).contains(&year.pre_eol)));
        // Heated blocks have little of the damage, and a thousand times the life where nearly all of it is repaired.
        let mut heated = spec.clone();
        (heated.wear.anneal_cycles, heated.wear.anneal_share) = (1, 0.999);
        assert!((heated.wear.rated_erases() / rated - 1000.0).abs() < 2.0, "{}", heated.wear.rated_erases());
        let tenths = health(&heated, (rated / 10.0, None), 1000, 100);
        assert!(tenths.iter().all(|year| (year.life_b, year.pre_eol) == (1, 1)), "{tenths:?}");
        // The area has ten times the cycles, and half of the writes.
        let area = health(&spec, (rated / 10.0, Some(rated / 2.0)), 1000, 100);
        assert_eq!(area.iter().map(|year| year.life_a).collect::<Vec<u8>>(), [1, 2, 3, 6, 11]);
        assert_eq!(health(&spec, (rated, None), 1000, 1).last().unwrap().pre_eol, 3);
    }

    use floatgate_config::{Library, Override};
    use std::path::Path;

    fn lived(card: &str, set: &[&str]) -> CardLife {
        let sets: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
        let sets = Override::parse_all(&sets).unwrap();
        let card = load(&Library::built_in(), Path::new(card), &sets).unwrap();
        let requests = shipped::find("ext4-create").unwrap().requests(card.spec.au_bytes).unwrap();
        let workload = Workload {
            before: requests.before,
            requests: requests.workload,
            state: CardState::Used,
            write_bytes_per_day: 1 << 30,
            requests_max: BUDGET,
            seed: 1,
        };
        life(&card, &workload, &|_| ()).unwrap()
    }

    /// More cycles, less amplification and static wear levelling make a card live for longer; scatter makes the interval wide.
    #[test]
    fn a_life_follows_from_cycles_amplification_and_levelling() {
        const SMALL: &str = "card.capacity_bytes=3GiB";
        let one = lived("a1-32g", &[SMALL]);
        assert!(one.write_amplification >= 1.0 && one.life_bytes_min < one.life_bytes_max, "{one:?}");
        assert!(one.wearing_blocks <= one.blocks && one.life_years_min <= one.life_years, "{one:?}");
        let twice =
            lived("a1-32g", &[SMALL, &format!("card.wear.endurance_cycles={}", 2 * one.endurance_cycles)]);
        assert!((twice.rated_bytes / one.rated_bytes - 2.0).abs() < 0.1, "{one:?}\n{twice:?}");
        let alike = lived("a1-32g", &[SMALL, "card.wear.life_spread=0"]);
        assert!((alike.life_bytes_max / alike.life_bytes_min - 1.0).abs() < 1e-9, "{alike:?}");
        assert!(one.health.is_empty(), "an SD card states no health: {one:?}");
        let without = lived("a1-32g", &[SMALL, "card.wear.static_difference=0"]);
        let with = lived("a1-32g", &[SMALL, "card.wear.static_difference=100"]);
        assert!(without.wearing_blocks < with.wearing_blocks, "{without:?}\n{with:?}");
        assert!(without.rated_bytes < with.rated_bytes, "{without:?}\n{with:?}");
    }
}
