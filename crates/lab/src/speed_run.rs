//! `speed` on a named setup: builds the device, measures, and suggests faster options.

use crate::certainty::{self, Certainty};
use crate::energy;
use crate::fs_speed::{self, Tested};
use crate::show::plot;
use crate::speed::{self, Measured, SpeedOptions, SpeedReport};
use crate::uncertainty::Uncertainty;
use floatgate_config::corner::Corner;
use floatgate_config::{Combination, Config, Library, Override, Problem, Setup, Times};
use floatgate_device::spi::SpiProfile;
use floatgate_mtd::advice;
use floatgate_mtd::advice::CommandOption::{Blocks, FirstBlock, SecondBlock, Skip};
use floatgate_mtd::{Geometry, Phase};
use floatgate_sim::error::Error;
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::rig::{self, Link, Rig, RigOptions};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Result of `floatgate speed` on one setup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpeedRun {
    /// Title of the setup.
    pub title: String,
    /// Name of the chip.
    pub chip: String,
    /// Link between driver and chip.
    pub link: Link,
    /// Results of the tests.
    #[serde(flatten)]
    pub report: SpeedReport,
    /// Advice for each test: its bottleneck and a faster option; empty if not requested.
    pub advice: Vec<Advice>,
}

impl SpeedRun {
    /// Adds the 80 % interval of each figure, and its energy if the part states its currents.
    ///
    /// # Errors
    /// A file of the library cannot be read.
    pub fn with_intervals(mut self, library: &Library, config: &Config) -> Result<Self, Error> {
        let uncertainty = Uncertainty::of(library, config)?;
        for test in &mut self.report.tests {
            test.interval = Some(uncertainty.interval(test));
            test.mj_per_mib =
                config.part().supply.as_ref().and_then(|supply| energy::mj_per_mib(supply, test));
        }
        Ok(self)
    }
}

/// Bottleneck of a test, and the single change with the largest gain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Advice {
    /// Name of the test.
    pub test: String,
    /// Phase that takes most of the time.
    #[serde(deserialize_with = "crate::stored::text")]
    pub bottleneck: crate::stored::Text,
    /// Share of that phase, percent.
    pub share_percent: f64,
    /// Change with the largest gain, if there is one.
    pub next: Option<NextOption>,
}

/// A change that chip and controller support.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NextOption {
    /// Override, in the form of `--set`.
    pub set: String,
    /// Speed that the test would print after the change, KiB/s.
    pub kib_s: u64,
    /// Factor by which the change makes the test faster.
    pub factor: f64,
}

/// Minimum factor of a change that is suggested.
const WORTH_NAMING: f64 = 1.01;

/// Builds the device of a setup and runs the tests.
///
/// # Errors
/// The setup is wrong; the chip does not support the requested mode; an operation fails.
pub fn measure(
    library: &Library,
    config: &Config,
    options: RigOptions,
    tests: &SpeedOptions,
) -> Result<SpeedRun, Error> {
    let mut rig = rig::wire(library, config, for_times(options, config, tests))?;
    if let Some(kind) = tests.filesystem {
        return measure_filesystem(config, rig, kind, tests);
    }
    let now = rig.now();
    if tests.blocks == Some(0) {
        return Err(Error::request("no block is chosen", "test one block or more"));
    }
    check_tests(rig.device.geometry(), tests)?;
    let block_bytes = rig.device.geometry().erase_bytes;
    let report = speed::run(rig.device.as_mut(), now, tests).map_err(|error| {
        match speed::explained(&error, block_bytes) {
            Some(message) => Error::request(
                message,
                advice! { "choose blocks with ", FirstBlock, ", ", Blocks, ", ", Skip, " and ", SecondBlock },
            ),
            None => Error::flash("speed")(error),
        }
    })?;
    if report.good_blocks == 0 {
        return Err(Error::request(
            "every chosen block is bad",
            advice! { "choose other blocks with ", FirstBlock, ", ", Blocks, " and ", Skip },
        ));
    }
    Ok(SpeedRun {
        title: title(config),
        chip: format!("{} {}", rig.maker, rig.chip).trim().to_owned(),
        link: rig.device.link(),
        report,
        advice: Vec::new(),
    })
}

/// Rig options that give the same times with less work. If cells have no errors, contents do not affect times, and
/// neither does the moment at which bad blocks are detected.
pub(crate) fn for_times(options: RigOptions, config: &Config, tests: &SpeedOptions) -> RigOptions {
    let is_raw = tests.filesystem.is_none();
    let has_errors = config.tree().get("cells").is_some();
    RigOptions {
        stores: options.stores && (has_errors || !is_raw),
        marks_on_demand: options.marks_on_demand || is_raw,
        ..options
    }
}

/// Tests a filesystem on the flash of a rig. A file is as large as the requested blocks.
fn measure_filesystem(
    config: &Config,
    rig: Rig,
    kind: FilesystemKind,
    tests: &SpeedOptions,
) -> Result<SpeedRun, Error> {
    let chip = format!("{} {}", rig.maker, rig.chip).trim().to_owned();
    let block = rig.device.geometry().erase_bytes;
    let file_bytes = u64::from(tests.blocks.unwrap_or(speed::BLOCKS)) * u64::from(block);
    let Tested { device, report, tests } = fs_speed::run(rig, config, kind, file_bytes)?;
    Ok(SpeedRun {
        title: title(config),
        chip,
        link: device.link(),
        report: SpeedReport {
            page_bytes: speed::page_bytes(device.geometry()),
            eraseblock_bytes: block,
            good_blocks: device.geometry().blocks(),
            tests,
            latency: None,
            filesystem: Some(report),
        },
        advice: Vec::new(),
    })
}

/// Refuses tests that are impossible on this device.
fn check_tests(geometry: &Geometry, tests: &SpeedOptions) -> Result<(), Error> {
    let (most, unit) = (geometry.erase_bytes / speed::page_bytes(geometry), tests.largest_unit());
    let wrong = match unit {
        _ if tests.pages.contains(&0) => Some("0 pages are none".to_owned()),
        unit if unit > most => Some(format!("{unit} pages are more than the {most} of an eraseblock")),
        _ => None,
    };
    if let Some(message) = wrong {
        return Err(Error::request(message, format!("read in units of 1 to {most} pages")));
    }
    Ok(())
}

/// Title of the setup, or an empty text. It names the board that was chosen for a part, and states if the chip's times
/// come from another chip.
pub fn title(config: &Config) -> String {
    let title = config.tree().get("title").and_then(|t| t.as_text()).unwrap_or_default();
    let title = match config.board().filter(|board| !title.contains(board)) {
        Some(board) => format!("{title} (the board {board})"),
        None => title.to_owned(),
    };
    match config.part().times {
        Times::Part => title,
        Times::Family => format!("{title}; times of the family, not of this part"),
    }
}

/// Measures a setup like [`measure`], and adds advice: it tries every single change that chip and controller support.
///
/// # Errors
/// The errors of [`measure`]. Impossible changes are left out without an error.
pub fn measure_with_advice(
    library: &Library,
    setup: &Setup,
    sets: &[Override],
    options: RigOptions,
    tests: &SpeedOptions,
) -> Result<SpeedRun, Error> {
    let config = library.resolve(setup, sets)?;
    let mut run = measure(library, &config, options, tests)?.with_intervals(library, &config)?;
    let others: Vec<(String, SpeedRun)> = candidates(&config, &run.link)
        .into_iter()
        .filter_map(|set| {
            let mut all = sets.to_vec();
            all.push(Override::parse(&set, sets.len() + 1).ok()?);
            let config = library.resolve(setup, &all).ok()?;
            let run = measure(library, &config, options, tests).ok()?;
            Some((set, run))
        })
        .collect();
    run.advice = run.report.tests.iter().map(|test| advise(test, &others)).collect();
    Ok(run)
}

fn advise(test: &Measured, others: &[(String, SpeedRun)]) -> Advice {
    let (phase, _) = test.breakdown_ns.largest();
    let same = |run: &SpeedRun| run.report.tests.iter().find(|t| t.name == test.name).cloned();
    let next = others
        .iter()
        .filter_map(|(set, run)| same(run).map(|t| (set, t)))
        .min_by_key(|(_, t)| t.ns)
        .map(|(set, t)| NextOption {
            set: set.clone(),
            kib_s: t.printed_kib_s,
            factor: test.ns as f64 / t.ns.max(1) as f64,
        })
        .filter(|next| next.factor >= WORTH_NAMING);
    Advice {
        test: test.name.clone(),
        bottleneck: phase.name(),
        share_percent: share_percent(test, phase),
        next,
    }
}

/// Share of a phase as the breakdown prints it: rounded so that all shares add up to 100.0.
fn share_percent(test: &Measured, phase: Phase) -> f64 {
    let shares = plot::percentages(&test.breakdown_ns);
    shares.into_iter().find(|(p, _)| *p == phase).map_or(0.0, |(_, share)| share)
}

/// Explanation of a phase, for the line that names the bottleneck.
pub fn explain(phase: Phase) -> &'static str {
    match phase {
        Phase::Array => "the memory array (tR, tPROG or tBERS)",
        Phase::Command => "command cycles on the bus",
        Phase::Address => "address cycles on the bus",
        Phase::Dummy => "dummy and turnaround cycles on the bus",
        Phase::Data => "data on the bus",
        Phase::Ecc => "error correction",
        Phase::Controller => "the controller (set-up, completion)",
        Phase::Cpu => "the host CPU (calls, driver code, FIFO and programmed I/O)",
        Phase::Polling => "status polling: the chip is ready before the driver looks",
        Phase::Waiting => "waiting for another thread",
    }
}

/// Single changes that may be faster. The setup is refused for those that chip, controller or board do not support.
fn candidates(config: &Config, link: &Link) -> Vec<String> {
    let mut sets: Vec<String> = rig::chip_modes(config)
        .into_iter()
        .map(|mode| mode.to_string())
        .filter(|mode| *mode != link.mode)
        .map(|mode| format!("bus.mode={mode}"))
        .collect();
    let interfaces = rig::chip_interfaces(config).into_iter().filter(|i| *i != link.mode);
    sets.extend(interfaces.map(|i| format!("bus.interface={i}")));
    let has = |path: &str| config.tree().get(path).is_some();
    let is = |path: &str| config.extract::<bool>(path).unwrap_or(false);
    sets.extend(faster_clocks(config, link).into_iter().map(|hz| format!("bus.clock_hz={hz}")));
    if has("controller.phy") && !is("bus.phy") {
        sets.push("bus.phy=true".to_owned());
    }
    if !is("driver.continuous") {
        sets.push("driver.continuous=true".to_owned());
    }
    for option in ["driver.cached_programs", "driver.multi_plane"] {
        if !is(option) {
            sets.push(format!("{option}=true"));
        }
    }
    sets
}

/// Clocks to try on a SPI bus: those that the controller makes for twice and four times the present clock, and for the
/// chip's maximum. The setup is refused for a clock that the data path does not support.
fn faster_clocks(config: &Config, link: &Link) -> Vec<u64> {
    let Ok(profile) = config.extract::<SpiProfile>("controller") else { return Vec::new() };
    let present = u64::from(link.clock_hz);
    let hz = |path: &str| config.extract_or_default::<Hertz>(path).map_or(0, |hz| hz.0);
    let most = ["chip.sdr_hz", "chip.max_sdr_hz"].map(hz).into_iter().fold(0, u64::max);
    let mut made: Vec<u64> = [2 * present, 4 * present, most]
        .into_iter()
        .map(|want| profile.clock_for(want))
        .filter(|&made| made > present && present > 0)
        // The clock is rounded up, so that a request for it selects it.
        .map(|made| made + u64::from(!profile.reference_hz.is_multiple_of(made)))
        .collect();
    made.dedup();
    made
}

/// A clock in a setup or part, Hz.
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct Hertz(#[serde(with = "floatgate_device::units::hz")] u64);

/// A measured combination of a sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// Results of the tests.
    pub run: SpeedRun,
    /// Least certain value on which the times depend.
    pub least_certain: Option<Certainty>,
}

/// Runs every combination of a sweep on all CPU cores. Results are in the order of the combinations. A refused
/// combination has the reason in its place. Without `keep_going`, it is an error. `sets` are the overrides of the user;
/// each chip has the times of its own corner.
///
/// # Errors
/// A wrong setup or override; without `keep_going`, the first refused combination; with it, if all are refused.
pub fn sweep(
    library: &Library,
    setup: &Setup,
    (sets, corner): (&[Override], Corner),
    options: RigOptions,
    tests: &SpeedOptions,
    combinations: &[Combination],
    keep_going: bool,
) -> Result<Vec<Result<Swept, String>>, Error> {
    let one = |combination: &Combination| {
        let all: Vec<Override> = sets.iter().chain(&combination.overrides).cloned().collect();
        let (all, _) = corner.over(library, setup, &all)?;
        let config = library.resolve(setup, &all)?;
        let run = match measure(library, &config, options, tests) {
            Err(error) if !refuses_a_value(&error) => return Err(error),
            Err(error) => return Ok(Err(error)),
            Ok(run) => run.with_intervals(library, &config)?,
        };
        let least_certain = certainty::least_certain(library, setup, &all, |config| {
            times_of_a_block(library, config, options, tests)
        })?;
        Ok(Ok(Swept { run, least_certain }))
    };
    let outcomes: Result<Vec<Result<Swept, Error>>, Error> = combinations.par_iter().map(one).collect();
    let mut outcomes = outcomes?;
    let refused = outcomes.iter().position(Result::is_err);
    let enough = !keep_going || outcomes.iter().all(Result::is_err);
    if let Some(first) = refused.filter(|_| enough) {
        return outcomes.swap_remove(first).map(|_| Vec::new());
    }
    Ok(outcomes.into_iter().map(|outcome| outcome.map_err(|error| error.to_string())).collect())
}

/// Times of the tests on one block, to test whether a value has an effect; `None` if they cannot be measured.
pub fn times_of_a_block(
    library: &Library,
    config: &Config,
    options: RigOptions,
    tests: &SpeedOptions,
) -> Option<Vec<u64>> {
    let tests = SpeedOptions { blocks: Some(1), skip: 0, ..tests.clone() };
    let run = measure(library, config, options, &tests).ok()?;
    Some(run.report.tests.iter().map(|test| test.ns).collect())
}

/// True if an error concerns the value of one combination. An unknown key or name is wrong for the whole sweep.
pub fn refuses_a_value(error: &Error) -> bool {
    match error {
        Error::Config(error) => error.problem() == Problem::WrongValue,
        _ => true,
    }
}
