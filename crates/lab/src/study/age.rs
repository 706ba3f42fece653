//! Study `floatgate life` of a filesystem over years.

use super::options::{Celsius, Chips, Fill, Years};
use super::report::{Cell, Section, Table};
use super::{Context, Report, Row, Study};
use crate::age::{self, FILL_PERCENT, Life, Options, Report as Run, WearOut};
use crate::envelope::Origin;
use crate::life::YEARS_MAX;
use crate::progress::Progress;
use floatgate_config::{Config, Library, Override};
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, CommandOption};
use floatgate_mtd::size;
use floatgate_mtd::words::{count, measure};
use floatgate_sim::error::Error;
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::partition;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Study of a filesystem over years, on cells that wear and lose charge.
pub struct Age;

/// Simulate a filesystem for years on cells that wear out and lose charge: does it survive, and how often must the flash be read
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate life imx6-mx30lf2g18ac --partition 16MiB --years 10 --temperature 55
  floatgate life imx6-mx30lf2g18ac --partition 16MiB --temperature 70 --scrub-days 91,never --chips 4
  floatgate life am62a-w35n01jw --partition 16MiB --fs jffs2 --years 5 --chips 2 --json
  floatgate life sama5d2-mx25l25635e --fs jffs2 --years 10

Each chip is first filled with files that stay. Then the years are simulated: other data is overwritten, cells lose charge, and ubihealthd reads all PEBs, \
so that UBI moves PEBs with bit errors. JFFS2 does not move data with bit errors, and ubihealthd does not work on it.

Cells of NOR are not simulated: the blocks last for the guaranteed cycles of the part, and the data for its guaranteed years.")
)]
pub struct AgeOptions {
    /// A setup's or part's name (see `floatgate list setups`, `floatgate list parts`), or the path of a TOML file
    setup: PathBuf,

    /// Override any field of the setup: --set chip=w25n01jw --set cells.cycles=50000
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUE"))]
    set: Vec<String>,

    /// Size of the partition [default: from the setup]
    #[cfg_attr(feature = "command", arg(long, alias = "size", value_name = "BYTES", value_parser = size::parse))]
    partition: Option<u64>,

    /// Filesystem to simulate: `ubifs` or `jffs2`
    #[cfg_attr(feature = "command", arg(long, value_name = "KIND", default_value_t))]
    fs: FilesystemKind,

    /// Number of years to simulate for each chip
    #[cfg_attr(feature = "command", arg(long, value_name = "YEARS", default_value_t = Self::default().years))]
    years: Years,

    /// Constant temperature, degrees Celsius
    #[cfg_attr(feature = "command", arg(long, value_name = "C", default_value_t = Self::default().temperature, allow_negative_numbers = true))]
    temperature: Celsius,

    /// Bytes that the host writes per day
    #[cfg_attr(feature = "command", arg(long, value_name = "BYTES", default_value = "10MiB", value_parser = size::parse))]
    write_per_day: u64,

    /// Percent of the free space that permanent files occupy, at most 64 MiB
    #[cfg_attr(feature = "command", arg(long, value_name = "PERCENT", default_value_t = Self::default().fill, value_parser = Fill::parse))]
    fill: Fill,

    /// Days between two passes of ubihealthd, or `never`; several values are compared [default: 91,never; with JFFS2 never]
    #[cfg_attr(feature = "command", arg(long, value_name = "DAYS,...", value_delimiter = ','))]
    scrub_days: Vec<Scrub>,

    /// Number of chips to simulate, each with its own seed
    #[cfg_attr(feature = "command", arg(long, value_name = "N", default_value_t = Self::default().chips))]
    chips: Chips,

    /// Seed of the first chip
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    seed: u64,
}

impl Default for AgeOptions {
    fn default() -> Self {
        Self {
            setup: PathBuf::new(),
            set: Vec::new(),
            partition: None,
            fs: FilesystemKind::Ubifs,
            years: Years(10.0),
            temperature: Celsius(40.0),
            write_per_day: 10 << 20,
            fill: Fill(FILL_PERCENT),
            scrub_days: Vec::new(),
            chips: Chips(5),
            seed: 0,
        }
    }
}

/// Days between two passes of ubihealthd; `None` for never.
#[derive(Clone, Copy, Debug)]
struct Scrub(Option<u32>);

impl Scrub {
    fn of_days(days: Option<u32>) -> Result<Self, &'static str> {
        if days == Some(0) { Err("a number of days from 1 on, or `never`") } else { Ok(Self(days)) }
    }
}

impl FromStr for Scrub {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "never" { Ok(Self(None)) } else { Self::of_days(Some(text.parse().unwrap_or(0))) }
    }
}

impl<'de> Deserialize<'de> for Scrub {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::of_days(Deserialize::deserialize(from)?).map_err(de::Error::custom)
    }
}

/// Lives of chips, one run for each period of ubihealthd.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Runs {
    runs: Vec<Run>,
}

/// Default period of ubihealthd, days. It is compared with no ubihealthd.
const USUAL_SCRUB_DAYS: u32 = 91;

impl AgeOptions {
    /// Setup with its overrides and the size of its partition.
    fn config(&self, library: &Library) -> Result<Config, Error> {
        let (setup, mut sets) = (library.setup(&self.setup)?, Override::parse_all(&self.set)?);
        if let Some(bytes) = self.partition {
            sets.push(partition::of_size(&library.resolve(&setup, &sets)?, bytes)?);
        }
        Ok(library.resolve(&setup, &sets)?)
    }

    /// Periods of ubihealthd to compare.
    fn scrubs(&self) -> Result<Vec<Option<u32>>, Error> {
        let asked: Vec<Option<u32>> = self.scrub_days.iter().map(|scrub| scrub.0).collect();
        match self.fs {
            FilesystemKind::Ubifs if asked.is_empty() => Ok(vec![Some(USUAL_SCRUB_DAYS), None]),
            FilesystemKind::Ubifs => Ok(asked),
            FilesystemKind::Jffs2 if asked.iter().all(Option::is_none) => Ok(vec![None]),
            FilesystemKind::Jffs2 => Err(Error::request(
                "JFFS2 does not move data with bit errors: ubihealthd is for UBI",
                advice! { "leave ", CommandOption::ScrubDays, " out, or take ", CommandOption::Fs, " ubifs" },
            )),
        }
    }

    fn of_run(&self, scrub_days: Option<u32>) -> Options {
        Options {
            kind: self.fs,
            years: self.years.get(),
            temperature_c: self.temperature.get(),
            write_bytes_per_day: self.write_per_day,
            fill_percent: self.fill.get(),
            scrub_days,
            chips: self.chips.get(),
            seed: self.seed,
        }
    }
}

impl Study for Age {
    type Options = AgeOptions;
    type Output = Runs;

    const NAME: &'static str = "age";
    const STEPS: &'static str = "years";

    fn setup(options: &AgeOptions) -> Option<&Path> {
        Some(&options.setup)
    }

    fn origin(options: &AgeOptions, kind: Origin) -> Origin {
        let partition = options.partition.map(|bytes| format!("partition.size={bytes}"));
        let sets: Vec<String> = options.set.iter().cloned().chain(partition).collect();
        kind.about(&options.setup).with(&sets).seeded(options.seed)
    }

    fn run(options: &AgeOptions, context: &Context<'_>) -> Result<Runs, Error> {
        let scrubs = options.scrubs()?;
        let library = context.library;
        let config = options.config(library)?;
        let years: u64 = scrubs
            .iter()
            .map(|scrub| {
                let run = options.of_run(*scrub);
                u64::from(run.chips) * run.whole_years()
            })
            .sum();
        (context.progress)(Progress::Steps(years));
        let done = |years: u64| (context.progress)(Progress::Done(years));
        let run = |scrub_days| age::run(library, &config, &options.of_run(scrub_days), &done);
        Ok(Runs { runs: scrubs.into_iter().map(run).collect::<Result<_, _>>()? })
    }

    fn report(output: &Runs) -> Report {
        let Some(first) = output.runs.first() else { return Report::default() };
        let kind = if first.filesystem == FilesystemKind::Ubifs { "UBIFS" } else { "JFFS2" };
        let written = size::text(first.write_bytes_per_day);
        let conditions = format!(
            "{}: {kind} for {} at {} C, {written} written a day",
            first.chip,
            measure(first.years, "year"),
            first.temperature_c
        );
        let runs =
            output.runs.iter().map(|run| if run.cells_simulated { simulated(run) } else { promised(run) });
        let mut sections: Vec<Section> = runs.collect();
        if output.runs.iter().all(|run| run.cells_simulated) {
            sections.push(Section::Advice(vec![advice(&output.runs)]));
        }
        Report {
            title: first.title.clone(),
            head: vec![conditions, wear(first)],
            conclusion: verdict(&output.runs),
            sections,
        }
    }

    fn rows(output: &Runs, _table: Option<&str>) -> serde_json::Result<Value> {
        serde_json::to_value(Row::of_lists(
            "scrub_days",
            output.runs.iter().map(|run| (run.scrub_days, &run.lives)),
        ))
    }

    fn found_problem(output: &Runs) -> bool {
        !output.runs.iter().any(is_enough)
    }
}

/// True if no chip of a run failed.
fn is_enough(run: &Run) -> bool {
    run.survived as usize == run.lives.len()
}

/// Text of the wear of the most worn block.
fn wear(run: &Run) -> String {
    let WearOut { cycles, reason, cycles_at_end, worn_out_after_years } = &run.wear;
    let end = match worn_out_after_years {
        _ if run.write_bytes_per_day == 0 => "nothing wears".to_owned(),
        Some(years) => format!("it reaches this limit after {years:.1} years"),
        None => format!("it does not reach this limit within {YEARS_MAX} years: wear is not the limit"),
    };
    format!(
        "the most worn block has {cycles_at_end} cycles after {}, of {cycles} {reason}; {end}",
        measure(run.years, "year")
    )
}

/// Section of a NOR, from the promises of its part.
fn promised(run: &Run) -> Section {
    let retention = run.promised_retention_years.map_or_else(
        || "the part promises no retention".to_owned(),
        |years| format!("the part promises {} of retention", count(years.into(), "year")),
    );
    let failure = run.lives.iter().find_map(|life| Some((life.failed_after_years?, life.failure.clone()?)));
    let end = failure.map_or_else(
        || "nothing fails".to_owned(),
        |(years, why)| format!("fails after {years:.1} years: {why}"),
    );
    Section::Text(vec![
        format!("cells of NOR are not simulated; {retention}"),
        format!("by the guarantees of the part, {end}"),
    ])
}

/// Sentence on the number of surviving chips.
fn verdict(runs: &[Run]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let conditions = format!("{} at {} C", measure(first.years, "year"), first.temperature_c);
    let clause = |run: &Run| {
        let chips = count(run.lives.len() as u64, "chip");
        let verb = if run.lives.len() == 1 { "survives" } else { "survive" };
        let how = match (run.scrub_days, run.filesystem) {
            _ if !run.cells_simulated => "by the guarantees of the part".to_owned(),
            (Some(days), _) => format!("with ubihealthd every {}", count(days.into(), "day")),
            (None, FilesystemKind::Ubifs) => "without ubihealthd".to_owned(),
            (None, FilesystemKind::Jffs2) => "under JFFS2".to_owned(),
        };
        format!("{} of {chips} {verb} {conditions} {how}", run.survived)
    };
    format!("{}.", runs.iter().map(clause).collect::<Vec<_>>().join("; "))
}

/// Text of the number of surviving chips.
fn survival(run: &Run) -> String {
    let scrub = match (run.scrub_days, run.filesystem) {
        (Some(days), _) => format!("ubihealthd every {}", count(days.into(), "day")),
        (None, FilesystemKind::Ubifs) => "without ubihealthd".to_owned(),
        (None, FilesystemKind::Jffs2) => "no data is moved for bit errors".to_owned(),
    };
    let chips = run.lives.len();
    let probability = match run.probability {
        Some([low, high]) => format!("; probability {:.0} to {:.0} % (95 %)", low * 100.0, high * 100.0),
        None if chips > 1 => "; the chips do not differ, so no probability can be computed".to_owned(),
        None => String::new(),
    };
    let survived = format!("{} of {}", run.survived, count(chips as u64, "chip"));
    let verb = if chips == 1 { "survives" } else { "survive" };
    format!("{scrub}: {survived} {verb}{probability}")
}

/// Section of the lives of simulated chips. Chips with equal lives share one row.
fn simulated(run: &Run) -> Section {
    let chips = run.lives.len();
    let shown = if run.probability.is_some() { chips } else { chips.min(1) };
    let last = run.lives.last().filter(|_| shown < chips).map(|life| life.seed);
    let columns = ["seed", "fails after", "LEBs moved", "new bad blocks", "cycles least", "mean", "most"];
    let table = Table::new(&[], &columns, run.lives.iter().take(shown).map(|life| cells(life, last)));
    Section::Table(table.then_words("what fails").titled(survival(run)))
}

/// Cells of a life, which also stands for the seeds up to `last`.
fn cells(life: &Life, last: Option<u64>) -> Vec<Cell> {
    let seed = match last {
        Some(last) => format!("{} to {last}", life.seed).into(),
        None => Cell::count(life.seed),
    };
    let after =
        life.failed_after_years.map_or("-".into(), |years| Cell::shown(years, format!("{years:.1} years")));
    let counts = [life.bad_blocks, life.cycles.least, life.cycles.mean, life.cycles.most].map(Cell::count);
    let failure = life.failure.clone().unwrap_or_default().into();
    [seed, after, Cell::count(life.moved)].into_iter().chain(counts).chain([failure]).collect()
}

/// Advice: the longest sufficient period of ubihealthd or, if none was sufficient, how to improve.
fn advice(runs: &[Run]) -> Advice {
    let enough = runs.iter().filter(|run| is_enough(run));
    let longest = enough.max_by_key(|run| run.scrub_days.unwrap_or(u32::MAX));
    match longest.map(|run| (run.filesystem, run.scrub_days)) {
        _ if runs.iter().all(is_enough) && longest.is_some_and(|run| run.wear.ends_before(run.years)) => {
            "no chip loses data, but blocks are worn beyond what they are good for: write less, or take a larger partition".into()
        }
        Some((FilesystemKind::Jffs2, _)) => {
            "the chips survive these years: charge is lost too slowly to matter".into()
        }
        Some((FilesystemKind::Ubifs, None)) => {
            "no ubihealthd is needed for these years: charge is lost too slowly".into()
        }
        Some((FilesystemKind::Ubifs, Some(days))) => {
            let days = count(days.into(), "day");
            format!("a pass of ubihealthd every {days} is enough for these years").into()
        }
        None => runs.first().map_or_else(Advice::default, |run| cure(run, runs)),
    }
}

/// Advice if chips fail. If blocks are worn beyond the promise of the part, they are the cause.
fn cure(run: &Run, runs: &[Run]) -> Advice {
    let mut failed = runs.iter().flat_map(|run| &run.lives).filter(|life| life.failure.is_some());
    let rated = run.rated_cycles.unwrap_or(u64::MAX);
    if u64::from(run.cycles_before) >= rated {
        return format!(
            "not enough: the blocks begin with {} cycles, and the part promises {rated} (`cells.cycles`)",
            run.cycles_before
        )
        .into();
    }
    if failed.all(|life| u64::from(life.cycles.most) > rated) {
        return format!(
            "not enough: blocks wore beyond the {rated} cycles that the part promises: write less, or take a larger partition or a chip that promises more"
        )
        .into();
    }
    match run.filesystem {
        FilesystemKind::Jffs2 => {
            advice! { "not enough: take ", CommandOption::Fs, " ubifs, which moves data with bit errors, a stronger ecc.strength, or a cooler place" }
        }
        FilesystemKind::Ubifs => {
            advice! { "not enough: try ", CommandOption::ScrubDays, " with fewer days, a stronger ecc.strength, or a cooler place" }
        }
    }
}
