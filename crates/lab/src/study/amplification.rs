//! Write amplification of random writes to a full page-mapped card, beside its published analysis.

use super::report::{Cell, Section, Table};
use super::{Context, List, Report, Study};
use crate::Error;
use crate::envelope::Origin;
use floatgate_card::{BusMode, Card, CardOptions, CardSpec, Collector, Mapping, TimingSpec, WearSpec};
use floatgate_mtd::random::Random;
use floatgate_mtd::{BlockDevice, BlockError, Nanos};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Over-provisioning where none is given.
const PERCENTS: &str = "7,10,14,20,28";

/// The study of `floatgate papers amplification`.
pub struct Amplification;

/// Compare the write amplification of garbage collection with its published analysis
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate papers amplification
  floatgate papers amplification --over-provisioning 7,14,21,28 --collector greedy --json
  floatgate papers amplification --blocks 1024 --units-per-block 64 --csv

Writes 4 KiB at random places to a full page-mapped card until it is in its steady state, and compares its write amplification with the analysis of Desnoyers \
(SYSTOR 2012) for greedy and FIFO cleaning. The over-provisioning of each row is the requested percentage, rounded to whole blocks.")
)]
pub struct AmplificationOptions {
    /// Over-provisioning: spare space in percent of the logical space
    #[cfg_attr(feature = "command", arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = PERCENTS))]
    pub over_provisioning: Vec<f64>,

    /// Policy that selects the block to clean
    #[cfg_attr(
        feature = "command",
        arg(long, value_enum, value_delimiter = ',', default_value = "greedy,fifo")
    )]
    pub collector: Vec<Cleaning>,

    /// Number of blocks of the card
    #[cfg_attr(feature = "command", arg(long, value_name = "N", default_value_t = Self::default().blocks, value_parser = clap::value_parser!(u32).range(4..=65536)))]
    pub blocks: u32,

    /// Map units of 4 KiB in a block
    #[cfg_attr(feature = "command", arg(long, value_name = "N", default_value_t = Self::default().units_per_block, value_parser = clap::value_parser!(u32).range(1..=65536)))]
    pub units_per_block: u32,

    /// Seed of the addresses that are written
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    pub seed: u64,
}

impl Default for AmplificationOptions {
    fn default() -> Self {
        Self {
            over_provisioning: PERCENTS.split(',').filter_map(|percent| percent.parse().ok()).collect(),
            collector: vec![Cleaning::Greedy, Cleaning::Fifo],
            blocks: 512,
            units_per_block: 256,
            seed: 0,
        }
    }
}

/// Choice of the block that is cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Cleaning {
    /// The block with the fewest valid units
    Greedy,
    /// The block that was opened first
    Fifo,
}

impl From<Cleaning> for Collector {
    fn from(cleaning: Cleaning) -> Self {
        match cleaning {
            Cleaning::Greedy => Self::Greedy,
            Cleaning::Fifo => Self::Fifo,
        }
    }
}

impl Study for Amplification {
    type Options = AmplificationOptions;
    type Output = List<AmplificationRow>;

    const NAME: &'static str = "card amplification";

    fn origin(options: &AmplificationOptions, kind: Origin) -> Origin {
        kind.seeded(options.seed)
    }

    fn run(options: &AmplificationOptions, _context: &Context<'_>) -> Result<Self::Output, Error> {
        Ok(List { rows: measure(options)? })
    }

    fn report(output: &Self::Output) -> Report {
        let percent = |value: f64| Cell::shown(value, format!("{value:.1} %"));
        let factor = |value: f64| Cell::shown(value, format!("{value:.3}"));
        let row = |row: &AmplificationRow| {
            let collector = match row.collector {
                Collector::Greedy => "greedy",
                Collector::Fifo => "FIFO",
            };
            let difference = Cell::shown(row.difference_percent, format!("{:+.1} %", row.difference_percent));
            let [simulated, published] = [row.write_amplification, row.published].map(factor);
            vec![collector.into(), percent(row.over_provisioning_percent), simulated, published, difference]
        };
        let columns = ["over-provisioning", "write amplification", "published", "difference"];
        let table = Table::new(&["cleaning"], &columns, output.rows.iter().map(row));
        let most = output.rows.iter().map(|row| row.difference_percent.abs()).fold(0.0, f64::max);
        let conclusion =
            format!("The simulated write amplification is within {most:.1} % of the published analysis.");
        Report { sections: vec![Section::Table(table)], conclusion, ..Report::default() }
    }

    fn rows(output: &Self::Output, _table: Option<&str>) -> serde_json::Result<Value> {
        serde_json::to_value(&output.rows)
    }
}

/// Write amplification at one over-provisioning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AmplificationRow {
    /// Choice of the block that is cleaned.
    pub collector: Collector,
    /// Physical over logical units, less 1, in percent: what whole blocks make of the percentage asked for.
    pub over_provisioning_percent: f64,
    /// Units written to the NAND for each one of the host.
    pub write_amplification: f64,
    /// As the analysis has it.
    pub published: f64,
    /// Difference in percent of the published value.
    pub difference_percent: f64,
}

const UNIT_BYTES: u64 = 4096;

/// Writes at random before the measurement, and during it, in sizes of the card.
const PASSES: (u64, u64) = (4, 2);

/// Most units of the card: it is written six times.
const UNITS_MAX: u64 = 1 << 24;

/// Fewest blocks of which the analysis, which is of many, says something.
const BLOCKS_MIN: u32 = 16;

/// Simulates each collector at each over-provisioning.
///
/// # Errors
/// A card that is too large, or that has no room to collect.
fn measure(options: &AmplificationOptions) -> Result<Vec<AmplificationRow>, Error> {
    if u64::from(options.blocks) * u64::from(options.units_per_block) > UNITS_MAX {
        return Err(Error::request(
            "the card has more than 16777216 units of 4 KiB",
            "ask for fewer blocks, or smaller ones",
        ));
    }
    let points: Vec<(Collector, f64)> = (options.collector.iter())
        .flat_map(|cleaning| options.over_provisioning.iter().map(|percent| ((*cleaning).into(), *percent)))
        .collect();
    points.into_par_iter().map(|(collector, percent)| row(options, collector, percent)).collect()
}

fn row(
    options: &AmplificationOptions,
    collector: Collector,
    percent: f64,
) -> Result<AmplificationRow, Error> {
    let blocks = options.blocks;
    let logical = (f64::from(blocks) / (1.0 + percent / 100.0)) as u32;
    let impossible = || {
        Error::request(
            format!("{percent:?} % of {blocks} blocks leave nothing to write to, or too little to collect"),
            "ask for 1 to 100 %, and for more blocks",
        )
    };
    // Below 1 % it takes more than fifty writes for each one of the host, and with few blocks the share of a block is no more than a guess.
    if blocks < BLOCKS_MIN
        || options.units_per_block == 0
        || logical == 0
        || logical >= blocks
        || percent < 1.0
        || !percent.is_finite()
    {
        return Err(impossible());
    }
    let spec = spec(options, collector, logical);
    let card =
        Card::new(&spec, CardOptions { seed: options.seed, stores: false }).map_err(|_| impossible())?;
    let write_amplification = steady(card, options.seed).map_err(|error| {
        Error::request(format!("at {percent} %: {error}"), "ask for more over-provisioning")
    })?;
    let ratio = f64::from(blocks) / f64::from(logical);
    let published = published(collector, ratio, options.units_per_block);
    Ok(AmplificationRow {
        collector,
        over_provisioning_percent: (ratio - 1.0) * 100.0,
        write_amplification,
        published,
        difference_percent: (write_amplification / published - 1.0) * 100.0,
    })
}

/// A card whose times do not matter; it has its reserve beyond the blocks that the analysis counts.
fn spec(options: &AmplificationOptions, collector: Collector, logical: u32) -> CardSpec {
    let au_bytes = u64::from(options.units_per_block) * UNIT_BYTES;
    let time = Nanos::from_us(1);
    let mut spec = CardSpec {
        capacity_bytes: u64::from(logical) * au_bytes,
        au_bytes,
        open_aus: 0,
        open_aus_random: 0,
        page_bytes: UNIT_BYTES,
        planes: 1,
        map_unit_bytes: UNIT_BYTES,
        mapping: Mapping::Page,
        collector,
        log_blocks: 0,
        log_request_bytes: 0,
        spare_blocks: options.blocks - logical,
        firmware_blocks: 0,
        copy_back: false,
        bad_blocks: 0,
        idle_blocks: 0,
        idle_after_us: Nanos::from_ms(50),
        buffer_bytes: UNIT_BYTES,
        write_through: false,
        dies: 1,
        bits_per_cell: 2,
        bus: BusMode::Hs200,
        timing: TimingSpec {
            t_r_us: time,
            t_prog_us: time,
            t_bers_us: time,
            transfer_ns_per_kib: Nanos::from_ns(1),
            read_command_us: time,
            write_command_us: time,
            au_switch_us: Nanos::ZERO,
        },
        fat: floatgate_card::FatSpec::default(),
        slc: floatgate_card::SlcSpec::default(),
        enhanced: floatgate_card::EnhancedSpec::default(),
        wear: WearSpec {
            endurance_cycles: 1_000_000,
            life_factor: 1000.0,
            life_spread: 0.0,
            static_difference: 0,
            refresh_reads: 0,
            ecc_strength: 40,
            ecc_step_bytes: 1024,
            program_failures_per_million: 0,
            anneal_cycles: 0,
            anneal_share: 0.0,
            anneal_us: Nanos::ZERO,
        },
        controller: floatgate_card::ControllerSpec::default(),
        power: floatgate_card::PowerSpec::default(),
        host: floatgate_card::HostSpec::default(),
        identity: floatgate_card::IdentitySpec::default(),
        classes: floatgate_card::ClassSpec::default(),
        io_function: None,
        loss: floatgate_card::LossSpec::default(),
        mmc: floatgate_card::MmcSpec::default(),
        fake: None,
        evil: None,
    };
    spec.spare_blocks += u32::try_from(spec.reserve_blocks()).unwrap_or(u32::MAX / 2);
    spec
}

/// Write amplification of the card in its steady state.
fn steady(mut card: Card, seed: u64) -> Result<f64, BlockError> {
    let units = card.capacity() * 512 / UNIT_BYTES;
    let (data, mut chance) = ([0; UNIT_BYTES as usize], Random::new(seed));
    let sectors = UNIT_BYTES / 512;
    for unit in 0..units {
        card.write(card.now(), unit * sectors, &data)?;
    }
    let mut at_random = |card: &mut Card, writes: u64| {
        (0..writes).try_for_each(|_| card.write(card.now(), chance.bits() % units * sectors, &data).map(drop))
    };
    at_random(&mut card, PASSES.0 * units)?;
    let before = card.stats();
    at_random(&mut card, PASSES.1 * units)?;
    Ok(card.stats().write_amplification(&before))
}

/// Write amplification under uniform random writes, after P. Desnoyers, Analytic modeling of SSD write performance, SYSTOR 2012.
///
/// `ratio` is physical over logical units. For FIFO (LRU) cleaning it is ratio / (ratio + W(-ratio e^-ratio)), with
/// Lambert's W. Greedy cleaning of blocks of n units finds some with fewer valid units than the mean of the
/// oldest, so that it is a little lower, and the same for large blocks.
fn published(collector: Collector, ratio: f64, units_per_block: u32) -> f64 {
    let n = f64::from(units_per_block);
    match collector {
        Collector::Fifo => ratio / (ratio + lambert_w(-ratio * libm::exp(-ratio))),
        Collector::Greedy => {
            let scaled = 1.0 + 1.0 / (2.0 * n);
            let valid = 0.5 - n / ratio * lambert_w(-scaled * ratio * libm::exp(-scaled * ratio));
            n / (n - (valid - 1.0))
        }
    }
}

/// Principal branch of Lambert's W for -1/e < x < 0, by Newton's method.
fn lambert_w(x: f64) -> f64 {
    (0..100).fold(0.0, |w: f64, _| {
        let e = libm::exp(w);
        w - (w * e - x) / (e * (w + 1.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_and_fifo_agree_for_large_blocks() {
        for ratio in [1.07, 1.14, 1.28, 2.0] {
            let [fifo, greedy] =
                [Collector::Fifo, Collector::Greedy].map(|collector| published(collector, ratio, 1 << 20));
            assert!((fifo / greedy - 1.0).abs() < 1e-3, "{ratio}: {fifo} {greedy}");
        }
    }

    #[test]
    fn both_collectors_write_as_much_as_the_analysis_says() {
        let options = AmplificationOptions {
            collector: vec![Cleaning::Greedy, Cleaning::Fifo],
            over_provisioning: vec![7.0, 14.0, 28.0],
            blocks: 512,
            units_per_block: 256,
            seed: 5,
        };
        let rows = measure(&options).unwrap();
        assert_eq!(rows.len(), 6);
        for row in rows {
            assert!(row.difference_percent.abs() < 3.0, "{row:?}");
        }
    }

    #[test]
    fn what_cannot_be_collected_is_refused() {
        for (percent, blocks) in
            [(0.0, 64), (0.9, 512), (7.0, 2), (f64::NAN, 64), (1e9, 64), (-50.0, 64), (7.0, u32::MAX)]
        {
            let options = AmplificationOptions {
                collector: vec![Cleaning::Greedy],
                over_provisioning: vec![percent],
                blocks,
                units_per_block: 64,
                seed: 0,
            };
            assert!(measure(&options).is_err(), "{percent} % of {blocks}");
        }
    }
}
