//! `floatgate age`.

use crate::common::{Failure, Outcome};
use crate::output::ReportFormat;
use crate::table::Table;
use floatgate_config::{Library, Override};
use floatgate_image::words::measure;
use floatgate_lab::age::{self, Life, Options, Report, WearOut};
use floatgate_lab::life::YEARS_MAX;
use floatgate_lab::report::ResultKind;
use floatgate_sim::machine::FilesystemKind;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate age imx6-mx30lf2g18ac --set partition.size=16MiB --years 10 --temperature 55
  floatgate age imx6-mx30lf2g18ac --set partition.size=8MiB --scrub-days 30,never --chips 2
  floatgate age am62a-w35n01jw --set partition.size=16MiB --fs jffs2 --years 5 --chips 2 --json
  floatgate age sama5d2-mx25l25635e --fs jffs2 --years 10

Each chip is filled with files that stay and lives on: other bytes are written over, cells lose charge, and ubihealthd reads all PEBs, so that \
UBI moves what has bit errors. JFFS2 moves nothing for bit errors, and there is no ubihealthd for it. Cells of NOR are not simulated: its blocks last \
for the cycles and its data for the years that the part promises.")]
pub(crate) struct Args {
    /// A setup's name (see `floatgate setups`), or the path of a TOML file
    setup: PathBuf,

    /// Override any field of the setup: --set chip=w25n01jw --set cells.cycles=50000
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// The filesystem: `ubifs` or `jffs2`
    #[arg(long, value_name = "KIND", default_value = "ubifs", value_parser = crate::speed::filesystem_kind)]
    fs: FilesystemKind,

    /// Years that each chip is to live
    #[arg(long, value_name = "YEARS", default_value_t = 10.0, value_parser = years)]
    years: f64,

    /// Temperature in degrees Celsius, all the time
    #[arg(long, value_name = "C", default_value_t = 40.0, allow_negative_numbers = true, value_parser = temperature)]
    temperature: f64,

    /// Bytes that are written in a day
    #[arg(long, value_name = "BYTES", default_value = "10MiB", value_parser = crate::image::sizes::bytes)]
    write_per_day: u64,

    /// Percent of the free space that files take which stay, at most 64 MiB of them
    #[arg(long, value_name = "PERCENT", default_value_t = age::FILL_PERCENT, value_parser = clap::value_parser!(u32).range(1..=80))]
    fill: u32,

    /// Days between two passes of ubihealthd, or `never`; several to compare [default: 91; of JFFS2 never]
    #[arg(long, value_name = "DAYS,...", value_delimiter = ',', value_parser = scrub)]
    scrub_days: Vec<Scrub>,

    /// Number of chips, each with a seed of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    chips: u32,

    /// Seed of the first chip
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    format: ReportFormat,
}

/// Days between two passes; none for never.
#[derive(Clone, Copy, Debug)]
struct Scrub(Option<u32>);

fn scrub(text: &str) -> Result<Scrub, String> {
    match text {
        "never" => Ok(Scrub(None)),
        days => match days.parse() {
            Ok(days) if days > 0 => Ok(Scrub(Some(days))),
            _ => Err("a number of days from 1 on, or `never`".to_owned()),
        },
    }
}

pub(crate) fn years(text: &str) -> Result<f64, String> {
    let years = text.parse().ok().filter(|years: &f64| (0.1..=100.0).contains(years));
    years.ok_or_else(|| "a number of years from 0.1 to 100".to_owned())
}

pub(crate) fn temperature(text: &str) -> Result<f64, String> {
    let celsius = text.parse().ok().filter(|celsius: &f64| (-55.0..=150.0).contains(celsius));
    celsius.ok_or_else(|| "degrees Celsius from -55 to 150".to_owned())
}

/// A line of the CSV.
#[derive(Serialize)]
struct Line<'a> {
    scrub_days: Option<u32>,
    #[serde(flatten)]
    life: &'a Life,
}

#[derive(Serialize)]
struct Reports {
    runs: Vec<Report>,
}

impl Args {
    /// The periods of ubihealthd to compare.
    fn scrubs(&self) -> Result<Vec<Option<u32>>, Failure> {
        let asked: Vec<Option<u32>> = self.scrub_days.iter().map(|scrub| scrub.0).collect();
        match self.fs {
            FilesystemKind::Ubifs if asked.is_empty() => Ok(vec![Some(USUAL_SCRUB_DAYS)]),
            FilesystemKind::Ubifs => Ok(asked),
            FilesystemKind::Jffs2 if asked.iter().all(Option::is_none) => Ok(vec![None]),
            FilesystemKind::Jffs2 => Err(Failure::new(
                "JFFS2 moves nothing for bit errors: ubihealthd is for UBI",
                "leave --scrub-days out, or take --fs ubifs",
            )),
        }
    }
}

/// Days between two passes of ubihealthd where nothing else is asked for.
const USUAL_SCRUB_DAYS: u32 = 91;

pub(crate) fn run(args: &Args) -> Outcome {
    let scrubs = args.scrubs()?;
    let library = Library::built_in();
    let setup = library.setup(&args.setup)?;
    let config = library.resolve(&setup, &Override::parse_all(&args.set)?)?;
    let bar = crate::fs::progress_bar("{wide_bar} {pos} of {len} chips, {elapsed}");
    bar.set_length(u64::from(args.chips) * scrubs.len() as u64);
    let mut runs = Vec::new();
    for scrub_days in scrubs {
        let options = Options {
            kind: args.fs,
            years: args.years,
            temperature_c: args.temperature,
            write_bytes_per_day: args.write_per_day,
            fill_percent: args.fill,
            scrub_days,
            chips: args.chips,
            seed: args.seed,
        };
        runs.push(age::run(&library, &config, &options, &|| bar.inc(1)).map_err(Failure::from)?);
    }
    bar.finish_and_clear();
    let all_well = runs.iter().any(is_enough);
    let origin = ResultKind::Age.of(&args.setup).with(&args.set).seeded(args.seed);
    if args.format.csv {
        let lines: Vec<Line<'_>> = runs
            .iter()
            .flat_map(|run| run.lives.iter().map(move |life| Line { scrub_days: run.scrub_days, life }))
            .collect();
        args.format.finish_rows(&origin, &lines, String::new)?;
    } else {
        let reports = Reports { runs };
        args.format.finish(&origin, &reports, "runs", || text(&reports.runs, args))?;
    }
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// True when no chip of a run failed.
fn is_enough(run: &Report) -> bool {
    run.survived as usize == run.lives.len()
}

fn text(runs: &[Report], args: &Args) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let mut text = format!(
        "{}\n{}: {} for {} years at {} C, {} written a day\n",
        first.title,
        first.chip,
        match args.fs {
            FilesystemKind::Ubifs => "UBIFS",
            FilesystemKind::Jffs2 => "JFFS2",
        },
        args.years,
        args.temperature,
        crate::common::size(args.write_per_day)
    );
    text += &format!("{}\n", wear(first, args.write_per_day));
    for run in runs {
        text += &if run.cells_simulated { simulated(run, args) } else { promised(run) };
    }
    text + &advice(runs)
}

/// Wear of the most worn block.
fn wear(run: &Report, write_per_day: u64) -> String {
    let WearOut { cycles, reason, cycles_at_end, worn_out_after_years } = &run.wear;
    let end = match worn_out_after_years {
        _ if write_per_day == 0 => "nothing wears".to_owned(),
        Some(years) => format!("it has them all after {years:.1} years"),
        None => format!("it takes more than {YEARS_MAX} years to have them all: wear is not the limit"),
    };
    format!(
        "the most worn block has {cycles_at_end} cycles after {}, of {cycles} {reason}; {end}",
        measure(run.years, "year")
    )
}

/// A NOR by what its part promises.
fn promised(run: &Report) -> String {
    let retention = run.promised_retention_years.map_or_else(
        || "the part promises no retention".to_owned(),
        |years| format!("the part promises {years} years of retention"),
    );
    let failure = run.lives.iter().find_map(|life| Some((life.failed_after_years?, life.failure.clone()?)));
    let end = failure.map_or_else(
        || "nothing fails".to_owned(),
        |(years, why)| format!("fails after {years:.1} years: {why}"),
    );
    format!("\ncells of NOR are not simulated; {retention}\nby what the part promises, {end}\n")
}

/// Lives of simulated chips. Of chips that live alike, one row has all.
fn simulated(run: &Report, args: &Args) -> String {
    let scrub = run.scrub_days.map_or_else(
        || match args.fs {
            FilesystemKind::Ubifs => "without ubihealthd".to_owned(),
            FilesystemKind::Jffs2 => "nothing is moved for bit errors".to_owned(),
        },
        |days| format!("ubihealthd every {}", crate::common::count(days as usize, "day")),
    );
    let chips = run.lives.len();
    let probability = match run.probability {
        Some([low, high]) => format!("; probability {:.0} to {:.0} % (95 %)", low * 100.0, high * 100.0),
        None if chips > 1 => "; no difference between chips shows, so that no probability follows".to_owned(),
        None => String::new(),
    };
    let mut table = Table::new([
        "seed",
        "fails after",
        "LEBs moved",
        "new bad blocks",
        "cycles least",
        "mean",
        "most",
        "what fails",
    ])
    .numbers(0..7);
    let shown = if run.probability.is_some() { &run.lives[..] } else { &run.lives[..chips.min(1)] };
    for life in shown {
        let seed = match run.lives.last() {
            Some(last) if shown.len() < chips => format!("{} to {}", life.seed, last.seed),
            _ => life.seed.to_string(),
        };
        let after =
            life.failed_after_years.map_or_else(|| "-".to_owned(), |years| format!("{years:.1} years"));
        table.row([
            seed,
            after,
            life.moved.to_string(),
            life.bad_blocks.to_string(),
            life.cycles.least.to_string(),
            life.cycles.mean.to_string(),
            life.cycles.most.to_string(),
            life.failure.clone().unwrap_or_default(),
        ]);
    }
    let survived = format!("{} of {}", run.survived, crate::common::count(chips, "chip"));
    format!("\n{scrub}: {survived} survive{probability}\n{table}\n")
}

/// The longest period that was enough, or what would be.
fn advice(runs: &[Report]) -> String {
    let enough = runs.iter().filter(|run| is_enough(run));
    let longest = enough.max_by_key(|run| run.scrub_days.unwrap_or(u32::MAX));
    let is_nor = runs.iter().any(|run| !run.cells_simulated);
    let worn_out = longest.filter(|run| run.wear.ends_before(run.years));
    let advice = match longest.map(|run| (run.filesystem, run.scrub_days)) {
        _ if is_nor => return String::new(),
        _ if worn_out.is_some() => {
            "no chip loses data, but blocks are worn beyond what they are good for: write less, or take a larger partition".to_owned()
        }
        Some((FilesystemKind::Jffs2, _)) => {
            "these years are survived: charge is lost too slowly to matter".to_owned()
        }
        Some((FilesystemKind::Ubifs, None)) => {
            "no ubihealthd is needed for these years: charge is lost too slowly".to_owned()
        }
        Some((FilesystemKind::Ubifs, Some(days))) => {
            format!(
                "a pass of ubihealthd every {} is enough for these years",
                crate::common::count(days as usize, "day")
            )
        }
        None => runs.first().map_or_else(String::new, |run| cure(run, runs)),
    };
    format!("\n- {advice}")
}

/// Advice where chips fail. Blocks worn beyond what the part promises are the cause where there are such.
fn cure(run: &Report, runs: &[Report]) -> String {
    let failed = || runs.iter().flat_map(|run| &run.lives).filter(|life| life.failure.is_some());
    let rated = run.rated_cycles.unwrap_or(u64::MAX);
    if u64::from(run.cycles_before) >= rated {
        return format!(
            "not enough: the blocks begin with {} cycles, and the part promises {rated} (`cells.cycles`)",
            run.cycles_before
        );
    }
    if failed().all(|life| u64::from(life.cycles.most) > rated) {
        return format!(
            "not enough: blocks wore beyond the {rated} cycles that the part promises: write less, or take a larger partition or a chip that promises more"
        );
    }
    match run.filesystem {
        FilesystemKind::Jffs2 => {
            "not enough: take --fs ubifs, which moves what has bit errors, a stronger ecc.strength, or a cooler place"
        }
        FilesystemKind::Ubifs => {
            "not enough: try --scrub-days with fewer days, a stronger ecc.strength, or a cooler place"
        }
    }
    .to_owned()
}
