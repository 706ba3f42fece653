//! Measurements of a design. Each is a workload with its options and figures.

use super::fault::{check_range, explained};
use super::figures::{ChipFigures, Figure};
use crate::age;
use crate::card;
use crate::card::speed::{CardState, CardTest};
use crate::certainty::Heads;
use crate::endurance::{self, Experiment, Life, Subject};
use crate::fs_speed;
use crate::powercut::{self, CutKind, Mode, SecondCut, SetupFlash};
use crate::speed::{self, Measured, SpeedOptions, Test};
use crate::speed_run;
use crate::study::setup;
use crate::uncertainty::Uncertainty;
use floatgate_config::corner::Corner;
use floatgate_config::{Config, Library, Override, Problem};
use floatgate_sim::error::Error;
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::rig::RigOptions;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Prefix of keys that are options of the measurement, not fields of the setup.
pub(super) const OPTIONS: &str = "options.";

/// Key that names another setup.
pub(super) const SETUP: &str = "setup";

/// Tests of `speed` that are measured by default: those with their own column in `floatgate speed --sweep`.
const SPEED_TESTS: [&str; 5] = ["page read", "eraseblock read", "page write", "eraseblock write", "erase"];

/// A kind of measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MeasureKind {
    /// Speed of the bare flash: `floatgate speed` on one eraseblock.
    #[default]
    Speed,
    /// Speed of a filesystem: `floatgate speed --fs`.
    Fs,
    /// Life of a filesystem: `floatgate life` of a setup.
    Age,
    /// Endurance of blocks: `floatgate life` of a chip.
    Endurance,
    /// Power cuts: `floatgate powercut`.
    Powercut,
    /// Speed of a card: `floatgate speed` of a card.
    Card,
}

impl MeasureKind {
    /// Name in specifications.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::Fs => "fs",
            Self::Age => "age",
            Self::Endurance => "endurance",
            Self::Powercut => "powercut",
            Self::Card => "card",
        }
    }

    /// True if designs are overrides of a setup from which a flash is built.
    pub(super) const fn wires_a_setup(self) -> bool {
        matches!(self, Self::Speed | Self::Fs | Self::Age)
    }

    /// Number of designs that a CPU core measures in a fraction of a second.
    pub(super) const fn designs_at_once(self) -> usize {
        match self {
            Self::Speed => 256,
            Self::Endurance => 16,
            Self::Fs | Self::Age | Self::Powercut | Self::Card => 1,
        }
    }

    /// True if the measurement of a single chip takes a noticeable time.
    pub(super) const fn takes_long(self) -> bool {
        self.designs_at_once() == 1
    }
}

/// A measurement with its options.
#[derive(Clone, Debug)]
pub(super) enum Measure {
    Speed(Speed),
    Fs(Fs),
    Age(Age),
    Endurance(Endurance),
    Powercut(Powercut),
    Card(Card),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Speed {
    corner: setup::Corner,
    bad_blocks: u32,
    first_block: u32,
    blocks: u32,
    pages: Vec<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Fs {
    corner: setup::Corner,
    bad_blocks: u32,
    blocks: u32,
    fs: FilesystemKind,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Age {
    fs: FilesystemKind,
    years: f64,
    temperature_c: f64,
    write_bytes_per_day: u64,
    fill_percent: u32,
    /// Days between two passes of ubihealthd; 0 for never.
    scrub_days: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Endurance {
    blocks: u32,
    temperature_c: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Powercut {
    fs: FilesystemKind,
    /// Number of first cuts.
    cuts: u64,
    /// Number of further cuts in the recovery from each first cut: 0 or 1.
    recovery_cuts: u32,
    steps: u32,
    size_bytes: Option<u64>,
    faults: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Card {
    requests: u32,
    sizes: Vec<u64>,
}

impl Default for Speed {
    fn default() -> Self {
        Self { corner: setup::Corner::Typ, bad_blocks: 0, first_block: 0, blocks: 1, pages: Vec::new() }
    }
}

impl Default for Fs {
    fn default() -> Self {
        Self { corner: setup::Corner::Typ, bad_blocks: 0, blocks: 10, fs: FilesystemKind::Ubifs }
    }
}

impl Default for Age {
    /// Defaults of `floatgate life`.
    fn default() -> Self {
        Self {
            fs: FilesystemKind::Ubifs,
            years: 10.0,
            temperature_c: 40.0,
            write_bytes_per_day: 10 << 20,
            fill_percent: 50,
            scrub_days: 91,
        }
    }
}

impl Default for Endurance {
    fn default() -> Self {
        let Experiment { blocks, temperature_c, .. } = Experiment::default();
        Self { blocks, temperature_c }
    }
}

impl Default for Powercut {
    fn default() -> Self {
        let fs = FilesystemKind::Ubifs;
        Self { fs, cuts: 100, recovery_cuts: 1, steps: 150, size_bytes: None, faults: false }
    }
}

impl Default for Card {
    fn default() -> Self {
        Self { requests: 200, sizes: vec![4096, 65_536] }
    }
}

/// The subject of a measurement.
pub(super) struct MeasureSubject<'a> {
    pub(super) library: &'a Library,
    /// Cache of the heads of files.
    pub(super) heads: &'a Heads,
    /// Name of the setup, part or card.
    pub(super) setup: &'a str,
    /// Overrides, including the numbers of the designs.
    pub(super) sets: &'a [Override],
    pub(super) seed: u64,
}

impl Measure {
    /// Measurement of a specification, whose options are changed by `changes`.
    pub(super) fn new(
        kind: MeasureKind,
        options: &toml::Table,
        changes: &[(&str, &Override)],
    ) -> Result<Self, Error> {
        let mut options = options.clone();
        for (key, change) in changes {
            let value = change.value_text();
            let typed =
                toml::from_str::<toml::Table>(&format!("v = {value}")).ok().and_then(|mut t| t.remove("v"));
            options.insert((*key).to_owned(), typed.unwrap_or_else(|| toml::Value::String(value.to_owned())));
        }
        let measure = match kind {
            MeasureKind::Speed => Self::Speed(read(options)?),
            MeasureKind::Fs => Self::Fs(read(options)?),
            MeasureKind::Age => Self::Age(read(options)?),
            MeasureKind::Endurance => Self::Endurance(read(options)?),
            MeasureKind::Powercut => Self::Powercut(read(options)?),
            MeasureKind::Card => Self::Card(read(options)?),
        };
        measure.check_numbers()?;
        Ok(measure)
    }

    /// Returns an error for options with which nothing useful would be measured.
    fn check_numbers(&self) -> Result<(), Error> {
        match self {
            Self::Speed(Speed { blocks, pages, .. }) => {
                check_range("options.blocks", *blocks, 1..)?;
                pages.iter().try_for_each(|&pages| check_range("options.pages", pages, 1..))
            }
            Self::Fs(fs) => check_range("options.blocks", fs.blocks, 1..),
            Self::Age(age) => {
                check_range("options.years", age.years, 0.1..=100.0)?;
                check_range("options.temperature_c", age.temperature_c, -55.0..=150.0)?;
                check_range("options.fill_percent", age.fill_percent, 1..=80)
            }
            Self::Endurance(endurance) => {
                check_range("options.blocks", endurance.blocks, 1..=endurance::BLOCKS_MAX)?;
                check_range("options.temperature_c", endurance.temperature_c, endurance::TEMPERATURES_C)
            }
            Self::Powercut(powercut) => {
                check_range("options.cuts", powercut.cuts, 1..=powercut::MAX_CUTS)?;
                check_range("options.recovery_cuts", powercut.recovery_cuts, 0..=1)?;
                check_range("options.steps", powercut.steps, 1..=powercut::MAX_STEPS)
            }
            Self::Card(card) => check_range("options.requests", card.requests, 1..=card::speed::REQUESTS_MAX),
        }
    }

    /// Names of the possible figures of these tests, or of all tests.
    pub(super) fn figures(&self, tests: &[String]) -> Result<Vec<String>, Error> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut names: Vec<String> = match self {
            Self::Speed(speed) => {
                let plan = speed::plan(&speed.options(tests)?, u32::MAX);
                plan.into_iter().map(|test| test_figure(&test.name(), true)).collect()
            }
            Self::Fs(_) => {
                fs_speed::tests().iter().map(|(test, moves_bytes)| test_figure(test, *moves_bytes)).collect()
            }
            Self::Age(_) => owned(&Age::FIGURES),
            Self::Endurance(_) => owned(&Endurance::FIGURES),
            Self::Powercut(_) => owned(&Powercut::FIGURES),
            Self::Card(card) => card.figures(),
        };
        names.retain(|name| is_wanted(name, tests));
        Ok(names)
    }

    /// Returns an error for keys of options that the measurement does not have.
    pub(super) fn check_keys<'a>(
        kind: MeasureKind,
        keys: impl Iterator<Item = &'a str>,
    ) -> Result<(), Error> {
        for key in keys.filter_map(|key| key.strip_prefix(OPTIONS)) {
            // A wrong value concerns only its design, so it is ignored here.
            let probe = toml::Table::from_iter([(key.to_owned(), toml::Value::Boolean(true))]);
            if let Err(error) = Self::new(kind, &probe, &[])
                && error.config().is_some_and(|error| error.problem() == Problem::UnknownKey)
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Names of the tests whose figures become columns by default; empty for all.
    pub(super) fn default_tests(kind: MeasureKind) -> Vec<String> {
        match kind {
            MeasureKind::Speed => SPEED_TESTS.map(str::to_owned).to_vec(),
            _ => Vec::new(),
        }
    }

    /// Corner of the chip's times.
    pub(super) fn corner(&self) -> Corner {
        match self {
            Self::Speed(Speed { corner, .. }) | Self::Fs(Fs { corner, .. }) => (*corner).into(),
            _ => Corner::Typical,
        }
    }

    /// Measures a design on one chip. `config` is its resolved setup, if the measurement uses one. `tests` names the
    /// requested tests; empty for all.
    pub(super) fn run(
        &self,
        of: &MeasureSubject<'_>,
        config: Option<&Config>,
        tests: &[String],
    ) -> Result<ChipFigures, Error> {
        let mut found = match (self, config) {
            (Self::Speed(speed), Some(config)) => speed.run(of, config, tests)?,
            (Self::Fs(fs), Some(config)) => fs.run(of, config)?,
            (Self::Age(age), Some(config)) => age.run(of, config)?,
            (Self::Endurance(endurance), _) => endurance.run(of)?,
            (Self::Powercut(powercut), _) => powercut.run(of)?,
            (Self::Card(card), _) => card.run(of)?,
            (_, None) => ChipFigures::default(),
        };
        if !tests.is_empty() {
            found.figures.retain(|(name, _)| is_wanted(name, tests));
            if found.figures.is_empty() {
                let message = format!("there is no figure of `{}`", tests.join("`, `"));
                return Err(Error::request(
                    message,
                    "leave `tests` out to get all figures, and choose among them",
                ));
            }
        }
        Ok(found)
    }
}

/// True if a figure belongs to one of these tests, or if all are requested.
fn is_wanted(figure: &str, tests: &[String]) -> bool {
    let figure = INTERVAL_ENDS.iter().find_map(|end| figure.strip_suffix(end)).unwrap_or(figure);
    tests.is_empty() || tests.iter().any(|test| figure == test || is_figure_of(figure, test))
}

/// Suffixes of the columns with the ends of the 80 % interval of a figure.
const INTERVAL_ENDS: [&str; 2] = [" interval_min", " interval_max"];

/// True if a figure is an end of an interval.
pub(super) fn is_interval_end(figure: &str) -> bool {
    INTERVAL_ENDS.iter().any(|end| figure.ends_with(end))
}

/// True if the name of a figure is the name of a test with a unit.
fn is_figure_of(figure: &str, test: &str) -> bool {
    figure.strip_prefix(test).is_some_and(|unit| [" KiB/s", " ms", " MB/s"].contains(&unit))
}

/// Parses the options of a measurement, from the table `options` of the specification.
fn read<T: DeserializeOwned>(options: toml::Table) -> Result<T, Error> {
    #[derive(Deserialize)]
    struct Outer<T> {
        options: T,
    }
    let json = json!({ "options": options }).to_string();
    serde_json::from_str::<Outer<T>>(&json)
        .map(|outer| outer.options)
        .map_err(|error| explained::<Outer<T>>(&json, &error))
}

/// Name of a test's figure, with the unit KiB/s, or ms if the test moves no bytes.
fn test_figure(test: &str, moves_bytes: bool) -> String {
    format!("{test} {}", if moves_bytes { "KiB/s" } else { "ms" })
}

/// Name and value of a test's figure.
fn figure(test: &Measured) -> (String, Figure) {
    let moves_bytes = test.bytes > 0;
    let value = if moves_bytes { test.exact_kib_s } else { test.ns as f64 / 1e6 };
    (test_figure(&test.name, moves_bytes), Figure::Value(value))
}

/// Figures for the ends of the 80 % interval of a test's figure.
fn interval_ends(test: &Measured, uncertainty: &Uncertainty) -> [(String, Figure); 2] {
    let (name, interval) = (test_figure(&test.name, test.bytes > 0), uncertainty.interval(test));
    let [min, max] = INTERVAL_ENDS.map(|end| format!("{name}{end}"));
    [(min, Figure::Value(interval.min)), (max, Figure::Value(interval.max))]
}

/// Pairs of names and figures. There may be fewer figures than names.
fn named(names: &[&str], figures: impl IntoIterator<Item = Figure>) -> Vec<(String, Figure)> {
    names.iter().map(|name| (*name).to_owned()).zip(figures).collect()
}

/// Tests with these names.
pub(super) fn speed_tests(names: &[String]) -> Result<Vec<Test>, Error> {
    let find = |name: &String| {
        let help = "there are `page read`, `8 page read`, `eraseblock write`, `erase`, `4x erase` and the like, and `all`";
        Test::from_name(name).ok_or_else(|| Error::request(format!("no test is called `{name}`"), help))
    };
    names.iter().map(find).collect()
}

/// Runs a speed test of the flash, or of a filesystem on it.
fn speed(
    of: &MeasureSubject<'_>,
    config: &Config,
    bad_blocks: u32,
    tests: &SpeedOptions,
) -> Result<ChipFigures, Error> {
    let options = RigOptions { seed: of.seed, bad_blocks, ..RigOptions::default() };
    let run = speed_run::measure(of.library, config, options, tests)?;
    let uncertainty = Uncertainty::with_heads(of.library, of.heads, config)?;
    let tests = &run.report.tests;
    let ends = tests.iter().flat_map(|test| interval_ends(test, &uncertainty));
    Ok(ChipFigures {
        figures: tests.iter().map(figure).chain(ends).collect(),
        texts: vec![
            ("reads".into(), run.link.read),
            ("writes".into(), run.link.write),
            ("not given".into(), run.link.not_given.join("; ")),
        ],
    })
}

impl Speed {
    fn options(&self, tests: &[String]) -> Result<SpeedOptions, Error> {
        Ok(SpeedOptions {
            first_block: self.first_block,
            blocks: SpeedOptions::blocks_unless_usual(self.blocks),
            pages: self.pages.clone(),
            only: speed_tests(tests)?,
            ..SpeedOptions::default()
        })
    }

    fn run(&self, of: &MeasureSubject<'_>, config: &Config, tests: &[String]) -> Result<ChipFigures, Error> {
        speed(of, config, self.bad_blocks, &self.options(tests)?)
    }
}

impl Fs {
    fn run(&self, of: &MeasureSubject<'_>, config: &Config) -> Result<ChipFigures, Error> {
        let options = SpeedOptions {
            blocks: SpeedOptions::blocks_unless_usual(self.blocks),
            filesystem: Some(self.fs),
            ..SpeedOptions::default()
        };
        speed(of, config, self.bad_blocks, &options)
    }
}

impl Age {
    const FIGURES: [&str; 5] = ["survived", "years", "moved LEBs", "new bad blocks", "most cycles"];

    fn run(&self, of: &MeasureSubject<'_>, config: &Config) -> Result<ChipFigures, Error> {
        let report = age::run(
            of.library,
            config,
            &age::Options {
                kind: self.fs,
                years: self.years,
                temperature_c: self.temperature_c,
                write_bytes_per_day: self.write_bytes_per_day,
                fill_percent: self.fill_percent,
                scrub_days: Some(self.scrub_days)
                    .filter(|&days| days > 0 && self.fs == FilesystemKind::Ubifs),
                chips: 1,
                seed: of.seed,
            },
            &|_| (),
        )?;
        let Some(life) = report.lives.first() else { return Ok(ChipFigures::default()) };
        let survived = Figure::Share { hits: u64::from(life.failure.is_none()), tries: 1 };
        let values = [
            life.failed_after_years.unwrap_or(self.years),
            life.moved as f64,
            f64::from(life.bad_blocks),
            f64::from(life.cycles.most),
        ];
        let figures = [survived].into_iter().chain(values.map(Figure::Value));
        Ok(ChipFigures { figures: named(&Self::FIGURES, figures), texts: Vec::new() })
    }
}

impl Endurance {
    const FIGURES: [&str; 8] = [
        "least cycles",
        "median cycles",
        "mean cycles",
        "cycles over nominal",
        "erase us",
        "last erases us",
        "program us",
        "last programs us",
    ];

    fn run(&self, of: &MeasureSubject<'_>) -> Result<ChipFigures, Error> {
        let subject = Subject::new(of.library, of.setup, of.sets)?;
        let experiment = Experiment {
            blocks: self.blocks,
            temperature_c: self.temperature_c,
            seed: of.seed,
            ..Experiment::default()
        };
        let report = endurance::run(&subject, &experiment)?;
        let Life { min, median, mean, over_nominal, .. } = report.life;
        let cycles = [min as f64, median as f64, mean, over_nominal];
        let times = [Some(&report.erase), report.program.as_ref()];
        let times = times.into_iter().flatten().flat_map(|time| [time.typical_us, time.last_100_us]);
        let figures = cycles.into_iter().chain(times).map(Figure::Value);
        Ok(ChipFigures { figures: named(&Self::FIGURES, figures), texts: Vec::new() })
    }
}

impl Powercut {
    const FIGURES: [&str; 4] = ["failing runs", "operations", "cuts", "most bad PEBs"];

    fn run(&self, of: &MeasureSubject<'_>) -> Result<ChipFigures, Error> {
        let flash = SetupFlash::of_setup(of.library, of.setup, of.sets, (self.fs, self.size_bytes))?;
        let options = powercut::Options {
            flash: flash.id(),
            fs: self.fs,
            seed: of.seed,
            steps: self.steps as usize,
            faults: self.faults,
            mode: Mode::Linear(self.cuts),
            second: if self.recovery_cuts == 0 { SecondCut::Never } else { SecondCut::Sampled },
            kinds: CutKind::ALL.to_vec(),
        };
        let make = |seed| flash.chip(of.library, seed, self.faults);
        let report = powercut::explore_on(&options, &make, &|_| ()).map_err(|error| {
            Error::request(
                error.to_string(),
                "choose another chip, a larger size, more steps or another seed",
            )
        })?;
        let failing = Figure::Share { hits: report.failure_count, tries: report.runs };
        let values = [report.operations as f64, report.cuts as f64, f64::from(report.bad_pebs_max)];
        let figures = [failing].into_iter().chain(values.map(Figure::Value));
        Ok(ChipFigures { figures: named(&Self::FIGURES, figures), texts: Vec::new() })
    }
}

impl Card {
    const POWER_ON: &str = "power on us";

    fn figure(state: CardState, operation: &str, access: &str, bytes: u64) -> String {
        format!("{} {access} {operation} {bytes} B MB/s", state.name())
    }

    fn figures(&self) -> Vec<String> {
        let mut all = Vec::new();
        for state in CardState::ALL {
            for operation in ["read", "write"] {
                for access in ["sequential", "random"] {
                    all.extend(self.sizes.iter().map(|&size| Self::figure(state, operation, access, size)));
                }
            }
        }
        all.push(Self::POWER_ON.to_owned());
        all
    }

    fn run(&self, of: &MeasureSubject<'_>) -> Result<ChipFigures, Error> {
        let card = card::load(of.library, of.setup, of.sets)?;
        let options = card::speed::CardSpeedOptions {
            requests: self.requests,
            sizes: self.sizes.clone(),
            seed: of.seed,
        };
        let report = card::speed::measure(&card, &options, &|_| ())?;
        let name =
            |test: &CardTest| Self::figure(test.state, &test.operation, &test.access, test.request_bytes);
        let mut figures: Vec<(String, Figure)> =
            report.tests.iter().map(|test| (name(test), Figure::Value(test.mb_s))).collect();
        figures.push((Self::POWER_ON.to_owned(), Figure::Value(report.power_on_us)));
        Ok(ChipFigures { figures, texts: Vec::new() })
    }
}
