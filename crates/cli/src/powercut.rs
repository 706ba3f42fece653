//! `floatgate powercut`.

mod program;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

use clap::ValueEnum;
use floatgate_config::{Library, Override};
use floatgate_lab::powercut::{
    self, CutKind, FlashId, Mode, Options, ParseIdError, RunId, SecondCut, SetupFlash, Stage, WorkloadError,
};
use floatgate_lab::report::{Origin, ResultKind};
use floatgate_program::powercut::RunId as ProgramRunId;
use floatgate_sim::machine::FilesystemKind;
use indicatif::{ProgressBar, ProgressStyle};

use crate::common::{Failure, Outcome};
use crate::output::ReportFormat;
use crate::terminal;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate powercut imx6-mx30lf2g18ac
  floatgate powercut imx6-mx30lf2g18ac --mode exhaustive --steps 40 --recovery-cuts 1
  floatgate powercut memory-bus-s29gl128p --mode log --recovery-cuts 1
  floatgate powercut nand-mt29f2g08abaea --mode random --cuts 2000 --recovery-cuts 1 --seed 7 --fast
  floatgate powercut nand-mt29f2g08abaea --mode unmount --faults
  floatgate powercut memory-bus-s29gl128p --fs jffs2 --cuts 200

powercut creates a filesystem on the setup's chip, through controller, driver and ECC, and runs a workload on it: files are created, written, truncated, \
linked, renamed, exchanged, removed while open, and synced. The power is cut at a flash operation. Then the filesystem is mounted again, and its contents \
are compared with the expected contents.

Each failure has an id; --replay ID repeats that run alone. Each seed gives another workload, on a filesystem with other parameters (compression, cache, \
fastmap, -o sync, fill level).

`powercut SETUP --lib PROGRAM.so` tests a program in C, such as a key-value store or a boot loader, which is built as a shared object. It prints the shortest \
sequence of steps that fails (docs/powercut.md).

A million cuts take about ten minutes on two cores: --fast --mode random --cuts 1000000 --recovery-cuts 1. --timing prints the rate, and --steps 60 makes \
the workloads shorter.")]
pub(crate) struct Args {
    /// A setup's or part's name (see `floatgate list`), or the path of a TOML file. To replay a run of --fast, omit it
    #[arg(required_unless_present = "replay")]
    setup: Option<PathBuf>,

    /// Override any field of the setup, its chip, controller or host: --set chip=w25n01jw
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Filesystem to test: ubifs, jffs2, or the path of a program that implements one (./PROGRAM, docs/filesystems.md)
    #[arg(long, default_value = "ubifs", value_parser = filesystem)]
    fs: Filesystem,

    /// Flash operations at which the power is cut
    #[arg(long, value_enum, default_value_t = ModeArg::Linear)]
    mode: ModeArg,

    /// Older spelling of --mode exhaustive
    #[arg(long, hide = true, conflicts_with_all = ["mode", "cuts"])]
    exhaustive: bool,

    /// Number of first cuts in the modes random and linear [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=powercut::MAX_CUTS))]
    cuts: Option<u64>,

    /// Seed of the workload, the filesystem's parameters, the faults, and the states of the flash after cuts
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Number of steps of the workload
    #[arg(long, value_name = "N", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=i64::from(powercut::MAX_STEPS)))]
    steps: u32,

    /// Number of further cuts after each first cut, during recovery: at most 1 for UBIFS and JFFS2, any number
    /// for a program. `exhaustive` cuts at every operation of each recovery, each in every way [default: 0;
    /// exhaustive with --mode exhaustive]
    #[arg(long, value_name = "N|exhaustive", value_parser = recovery_cuts)]
    recovery_cuts: Option<RecoveryCuts>,

    /// Older spelling of --recovery-cuts
    #[arg(long, hide = true, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "sampled", conflicts_with = "recovery_cuts")]
    second: Option<SecondArg>,

    /// Moments of the first cut: before the operation, during it, or only early, in the middle or late in it [default: before,during]
    #[arg(long, value_enum, value_name = "KIND,...", value_delimiter = ',')]
    kind: Vec<KindArg>,

    /// Use a simple flash in memory, of the same size, instead of the chip: at least four times as fast. It has no physics of interrupted
    /// operations, no driver, no commands and no ECC
    #[arg(long)]
    fast: bool,

    /// Add faults to the flash. The chip gets as many bad blocks as its manufacturer allows; --set cells.cycles=N
    /// adds bit errors. The flash of --fast gets bit errors within the ECC's strength, bad blocks, and programs
    /// and erases that fail
    #[arg(long)]
    faults: bool,

    /// Size of the flash, such as 8MiB; a smaller flash makes the test faster [default: 16MiB, or 64 eraseblocks if that is more]
    #[arg(long, alias = "size", value_name = "BYTES", value_parser = floatgate_mtd::size::parse)]
    partition: Option<u64>,

    /// Cut the power of a program in C instead of a filesystem: a shared object with the functions floatgate_test_* of floatgate.h
    #[arg(long, value_name = "PROGRAM.so", conflicts_with = "fs")]
    lib: Option<PathBuf>,

    /// Time limit of a call of a program, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = crate::common::time_limit)]
    time_limit: f64,

    /// Repeat only the run with this id. A run on a chip also needs the same SETUP, --set, --partition and --lib
    #[arg(long, value_name = "ID", conflicts_with_all = ["cuts", "seed", "steps", "second", "kind", "faults", "fast", "exhaustive"])]
    replay: Option<Run>,

    /// Number of threads; the result does not depend on it [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Print the run time and the cuts per second on stderr
    #[arg(long)]
    timing: bool,

    #[command(flatten)]
    format: ReportFormat,
}

/// Power cuts after the first cut of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveryCuts {
    /// This number of cuts after each first cut.
    Number(u32),
    /// A cut at every operation of each recovery.
    Exhaustive,
}

/// Parser of a number of cuts, or `exhaustive`.
pub(crate) fn recovery_cuts(text: &str) -> Result<RecoveryCuts, String> {
    if text == "exhaustive" {
        return Ok(RecoveryCuts::Exhaustive);
    }
    let number = text.parse().ok().filter(|number| *number <= RECOVERY_CUTS_MAX);
    number
        .map(RecoveryCuts::Number)
        .ok_or_else(|| format!("give a number from 0 to {RECOVERY_CUTS_MAX}, or exhaustive"))
}

/// Largest number of cuts after a first cut.
const RECOVERY_CUTS_MAX: u32 = 1000;

/// A run to repeat.
#[derive(Clone)]
enum Run {
    /// A run of a filesystem.
    Filesystem(RunId),
    /// A run of a program.
    Program(ProgramRunId),
}

impl FromStr for Run {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        text.parse().map(Self::Program).or_else(|_| text.parse().map(Self::Filesystem))
    }
}

/// Subject whose power is cut.
#[derive(Clone, Copy)]
enum Filesystem {
    /// A filesystem of this project.
    Kind(FilesystemKind),
    /// A filesystem of a program at this path.
    Program(&'static str),
}

fn filesystem(text: &str) -> Result<Filesystem, String> {
    match text {
        "ubifs" => Ok(Filesystem::Kind(FilesystemKind::Ubifs)),
        "jffs2" => Ok(Filesystem::Kind(FilesystemKind::Jffs2)),
        path if path.contains('/') => Ok(Filesystem::Program(String::leak(path.to_owned()))),
        _ => Err("give ubifs, jffs2 or the path of a program, such as ./PROGRAM".to_owned()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// The number of operations that --cuts sets, at equal distances; each is cut in one way, in rotation
    Linear,
    /// The first, second, fourth, eighth operation and so on, each cut in every way
    Log,
    /// Every operation, each cut in every way
    Exhaustive,
    /// The number of cuts that --cuts sets, at random, in many workloads
    Random,
    /// No cut: the filesystem is unmounted after each step
    Unmount,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SecondArg {
    /// Never cut the power again
    Never,
    /// Once after each first cut
    Sampled,
    /// At every operation of each recovery, each cut in every way
    Exhaustive,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindArg {
    Before,
    /// Early, in the middle and late
    During,
    Early,
    Middle,
    Late,
}

impl KindArg {
    const fn kinds(self) -> &'static [CutKind] {
        const EARLY: CutKind = CutKind::During(Stage::Early);
        const MIDDLE: CutKind = CutKind::During(Stage::Middle);
        const LATE: CutKind = CutKind::During(Stage::Late);
        match self {
            Self::Before => &[CutKind::Before],
            Self::During => &[EARLY, MIDDLE, LATE],
            Self::Early => &[EARLY],
            Self::Middle => &[MIDDLE],
            Self::Late => &[LATE],
        }
    }
}

impl Args {
    fn origin(&self, kind: ResultKind) -> Origin {
        self.setup.as_ref().map_or_else(|| kind.of_nothing(), |setup| kind.of(setup)).with(&self.set)
    }

    /// True if the command forks child processes, and must therefore have a single thread.
    pub(crate) const fn forks(&self) -> bool {
        self.lib.is_some() || matches!(self.fs, Filesystem::Program(_))
    }

    /// Flash of the setup for a filesystem.
    fn flash(&self, library: &Library, fs: FilesystemKind) -> Result<SetupFlash, Failure> {
        let sets = Override::parse_all(&self.set)?;
        let name = self.setup.as_deref().unwrap_or(Path::new(""));
        let flash = SetupFlash::of_setup(library, name, &sets, (fs, self.partition))?;
        if let Some(bytes) = flash.too_small_bytes {
            terminal::print_note(&show::larger_sectors(bytes, flash.geometry.erase_bytes));
        }
        Ok(flash)
    }

    /// Kinds of the first cut that are tested.
    fn kinds(&self) -> Vec<CutKind> {
        let asked: &[KindArg] =
            if self.kind.is_empty() { &[KindArg::Before, KindArg::During] } else { &self.kind };
        let mut kinds: Vec<CutKind> = asked.iter().flat_map(|kind| kind.kinds()).copied().collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    fn options(&self, flash: &SetupFlash, fs: FilesystemKind) -> Result<Options, Failure> {
        self.check_mode()?;
        if let Some(RecoveryCuts::Number(cuts @ 2..)) = self.recovery_cuts {
            return Err(Failure::new(
                format!("--recovery-cuts {cuts}: UBIFS and JFFS2 are cut once in each recovery"),
                "give 0, 1 or exhaustive; a program of your own is cut more often",
            ));
        }
        Ok(Options {
            flash: if self.fast { FlashId::Ram(flash.geometry.clone()) } else { flash.id() },
            fs,
            seed: self.seed,
            steps: self.steps as usize,
            faults: self.faults,
            mode: self.mode(),
            second: self.second(),
            kinds: self.kinds(),
        })
    }

    /// Refuses options that the mode does not use.
    fn check_mode(&self) -> Result<(), Failure> {
        let mode = self.mode_arg();
        let (unmounts, random) = (mode == ModeArg::Unmount, mode == ModeArg::Random);
        let counted = random || mode == ModeArg::Linear;
        let every_second = self.again() == Some(SecondCut::Exhaustive);
        let unused = [
            (
                "--cuts",
                self.cuts.is_some() && !counted,
                "chooses its cuts itself: leave it out, or take --mode linear or random",
            ),
            (
                "--kind",
                !self.kind.is_empty() && unmounts,
                "cuts nothing: leave it out, or choose another mode",
            ),
            (
                "--recovery-cuts",
                self.again().is_some() && unmounts,
                "cuts nothing: leave it out, or choose another mode",
            ),
            (
                "--recovery-cuts exhaustive",
                every_second && random,
                "cuts at random: give --recovery-cuts 1, or choose another mode",
            ),
        ];
        let Some((option, _, why)) = unused.into_iter().find(|(_, unused, _)| *unused) else { return Ok(()) };
        let mode = mode.to_possible_value().map_or_else(String::new, |mode| mode.get_name().to_owned());
        Err(Failure::new(format!("{option} does not go with --mode {mode}"), format!("{mode} {why}")))
    }

    /// Arguments that repeat a run on a chip, without the ID of the run.
    fn of_chip(&self, id: &str) -> String {
        let setup = self.setup.as_ref().filter(|_| id.starts_with("chip"));
        let Some(setup) = setup else { return String::new() };
        let sets = self.set.iter().map(|set| format!("--set '{}' ", set.replace('\'', r"'\''")));
        let size = self.partition.map(|size| format!("--partition {size} "));
        format!("{} {}", setup.display(), sets.chain(size).collect::<String>())
    }

    fn cuts(&self) -> u64 {
        self.cuts.unwrap_or(1000)
    }

    fn mode(&self) -> Mode {
        match self.mode_arg() {
            ModeArg::Linear => Mode::Linear(self.cuts()),
            ModeArg::Log => Mode::Log,
            ModeArg::Exhaustive => Mode::Exhaustive,
            ModeArg::Random => Mode::Random(self.cuts()),
            ModeArg::Unmount => Mode::Unmount,
        }
    }

    /// Mode, from either form of the option.
    const fn mode_arg(&self) -> ModeArg {
        if self.exhaustive { ModeArg::Exhaustive } else { self.mode }
    }

    /// Cuts of recoveries that the options state, in either form.
    const fn again(&self) -> Option<SecondCut> {
        match (self.recovery_cuts, self.second) {
            (Some(RecoveryCuts::Exhaustive), _) | (_, Some(SecondArg::Exhaustive)) => {
                Some(SecondCut::Exhaustive)
            }
            (Some(RecoveryCuts::Number(0)), _) | (_, Some(SecondArg::Never)) => Some(SecondCut::Never),
            (Some(RecoveryCuts::Number(_)), _) | (_, Some(SecondArg::Sampled)) => Some(SecondCut::Sampled),
            (None, None) => None,
        }
    }

    fn second(&self) -> SecondCut {
        let of_mode =
            if self.mode_arg() == ModeArg::Exhaustive { SecondCut::Exhaustive } else { SecondCut::Never };
        self.again().unwrap_or(of_mode)
    }

    /// Runs `run` on the number of threads that the options state.
    fn on_threads<T: Send>(&self, run: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        let threads = self.threads.map_or(0, usize::from);
        powercut::on_threads(threads, run)
            .map_err(|error| Failure::new(error, "ask for fewer threads with --threads"))
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let fs = match (&args.lib, args.fs) {
        (Some(lib), _) => return program::run(args, &program::Source::Object(lib)),
        (None, Filesystem::Program(path)) => return program::run(args, &program::Source::Filesystem(path)),
        (None, Filesystem::Kind(fs)) => fs,
    };
    match &args.replay {
        Some(Run::Filesystem(id)) => return replay(args, id),
        Some(Run::Program(_)) => {
            return Err(Failure::new(
                "this run was of a program",
                "name the setup and the program, with --lib or --fs, before --replay",
            ));
        }
        None => {}
    }
    let library = Library::built_in();
    let flash = args.flash(&library, fs)?;
    let options = args.options(&flash, fs)?;
    let bar = progress_bar(args);
    #[expect(clippy::disallowed_methods, reason = "the edge: --timing tells cuts per second")]
    let started = Instant::now();
    let progress = |runs| bar.inc(runs);
    let chip = |seed| flash.chip(&library, seed, args.faults);
    let report = args.on_threads(|| match options.flash {
        FlashId::Ram(_) => powercut::explore(&options, &progress),
        FlashId::Chip { .. } => powercut::explore_on(&options, &chip, &progress),
    })?;
    bar.finish_and_clear();
    let report = report.map_err(|error| no_workload(&error))?;
    if args.timing {
        terminal::print_note(&show::rate(report.cuts, started.elapsed()));
    }
    let (json, text) = (powercut::Summary::new(&flash, &options, &report), || {
        format!("{}\n{}", flash.title(), show::text(args, &flash.geometry, &options, &report))
    });
    let origin = args.origin(ResultKind::Powercut).seeded(args.seed);
    args.format.print(&origin, &json, "by_step", text)?;
    Ok(if report.failure_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn no_workload(error: &WorkloadError) -> Failure {
    let help = match error {
        WorkloadError::Failed { .. } => {
            "this is no power cut: choose another chip, a larger --partition, or leave out --faults"
        }
        WorkloadError::NoOperations(_) => {
            "give the workload more --steps, or take another --seed: without fsync or sync everything stays in memory"
        }
    };
    Failure::new(error, help)
}

fn replay(args: &Args, id: &RunId) -> Outcome {
    let library = Library::built_in();
    let failure = match (&id.flash, &args.setup) {
        (FlashId::Ram(_), None) => args.on_threads(|| powercut::replay(id))?,
        (FlashId::Ram(_), Some(_)) => {
            return Err(Failure::new(
                "this run was on flash in memory, not on the chip of a setup",
                "leave out the setup",
            ));
        }
        (FlashId::Chip { .. }, None) => {
            return Err(Failure::new(
                "this run was on the chip of a setup",
                "name the setup before --replay, and repeat its --set and --partition",
            ));
        }
        (FlashId::Chip { .. }, Some(_)) => {
            let flash = args.flash(&library, id.fs)?;
            if flash.id() != id.flash {
                return Err(Failure::new(
                    "this run was on the chip of another setup",
                    "repeat the setup, --set and --partition of the command that printed the id",
                ));
            }
            args.on_threads(|| powercut::replay_on(id, &|seed| flash.chip(&library, seed, id.faults)))?
        }
    };
    let failure = failure.map_err(|error| no_workload(&error))?;
    let json = show::replayed_json(id, failure.as_ref());
    args.format.print(&args.origin(ResultKind::PowercutReplay), &json, "", || {
        show::replayed(args, id, failure.as_ref())
    })?;
    Ok(if failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Progress bar on stderr with the number of runs; hidden if stderr is no terminal.
fn progress_bar(args: &Args) -> ProgressBar {
    let (bar, template) = match args.mode_arg() {
        ModeArg::Random => {
            (ProgressBar::new(args.cuts()), "{wide_bar} {pos} of {len} runs, {per_sec}, {eta} left")
        }
        _ => (ProgressBar::new_spinner(), "{spinner} {pos} runs, {per_sec}"),
    };
    let style = ProgressStyle::with_template(template);
    terminal::unless_quiet(bar).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
