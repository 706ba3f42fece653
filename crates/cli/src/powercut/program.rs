//! `floatgate powercut SETUP --lib PROGRAM.so` and `--fs ./PROGRAM`: power cuts of a program.

use super::{Args, ModeArg, RecoveryCuts, Run, progress_bar};
use crate::common::{self, Failure, Outcome};
use crate::printed::Output;
use crate::table::Table;
use crate::terminal;
use floatgate_config::Library;
use floatgate_lab::fs_compare::own;
use floatgate_lab::powercut::{CutKind, SecondCut, SetupFlash};
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_program::Program;
use floatgate_program::powercut::{
    self, Error, FailureKind, History, MinimalFailure, Mode, Options, Report, RunId, RunPhase,
};
use floatgate_sim::machine::FilesystemKind;
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Result in JSON.
#[derive(Serialize)]
struct Json {
    program: String,
    steps: u32,
    operations: u64,
    runs: u64,
    cuts: u64,
    /// Number of values that were compared with synchronised values.
    compared_values: u64,
    /// True if the program has its own check.
    has_check: bool,
    failed_runs: u64,
    failures: Vec<FailureJson>,
    /// Name of the setup whose board the part ran on; the envelope contains it.
    #[serde(skip)]
    board: Option<String>,
}

/// A failure in JSON.
#[derive(Serialize)]
struct FailureJson {
    kind: FailureKind,
    at: String,
    why: String,
    steps: Vec<u32>,
    cuts: usize,
    steps_before: usize,
    runs: u64,
    repeats: bool,
    id: String,
    /// Output of the program in a run of the shortest history.
    #[serde(flatten)]
    output: Output,
}

/// Result of a repeated run, in JSON.
#[derive(Serialize)]
struct ReplayJson {
    id: String,
    failure: Option<ReplayFailure>,
}

#[derive(Serialize)]
struct ReplayFailure {
    kind: FailureKind,
    at: String,
    why: String,
}

/// Program under test in a power-cut run.
pub(super) enum Source<'a> {
    /// A shared object.
    Object(&'a Path),
    /// A filesystem in a program, connected by a pipe.
    Filesystem(&'static str),
}

impl Source<'_> {
    fn load(&self, boots: usize) -> Result<Vec<Box<dyn Program>>, String> {
        match self {
            Self::Object(path) => floatgate_program::load(path, boots).map_err(|error| error.to_string()),
            Self::Filesystem(path) => Ok(own::load(path, boots)),
        }
    }

    /// Name of the function of a shared object, or of the operation of a filesystem, in a phase of the run.
    fn place(&self, place: RunPhase) -> String {
        let after = |cuts| match cuts {
            0 => String::new(),
            cuts => format!(" after {}", common::count(cuts, "power cut")),
        };
        match (self, place) {
            (_, RunPhase::Load) => "loading".to_owned(),
            (Self::Object(_), RunPhase::Prepare) => "floatgate_test_prepare".to_owned(),
            (Self::Object(_), RunPhase::Recover(cuts)) => format!("floatgate_test_recover{}", after(cuts)),
            (Self::Object(_), RunPhase::Check(cuts)) => format!("floatgate_test_check{}", after(cuts)),
            (Self::Object(_), RunPhase::Step(step)) => format!("floatgate_test_step {step}"),
            (Self::Filesystem(_), RunPhase::Prepare) => "format".to_owned(),
            (Self::Filesystem(_), RunPhase::Recover(cuts)) => format!("mount{}", after(cuts)),
            (Self::Filesystem(_), RunPhase::Check(cuts)) => format!("comparison of the files{}", after(cuts)),
            (Self::Filesystem(_), RunPhase::Step(step)) => format!("step {step}"),
        }
    }

    /// Option that selects the program, and its path.
    fn option(&self) -> (&'static str, String) {
        match self {
            Self::Object(path) => ("--lib", path.display().to_string()),
            Self::Filesystem(path) => ("--fs", (*path).to_owned()),
        }
    }
}

/// Cuts the power of a program.
pub(super) fn run(args: &Args, source: &Source<'_>) -> Outcome {
    check_options(args)?;
    if let Source::Filesystem(path) = source {
        crate::fs::check_program(path)?;
    }
    let library = Library::built_in();
    let flash = args.flash(&library, FilesystemKind::Jffs2)?;
    let id = match &args.replay {
        None => None,
        Some(Run::Program(id)) if id.flash == flash.id().to_string() => Some(id),
        Some(_) => {
            return Err(Failure::new(
                "this run was on the chip of another setup, or of a filesystem",
                "repeat the setup, --set, --partition and --lib of the command that printed the id",
            ));
        }
    };
    let seed = id.map_or(args.seed, |id| id.seed);
    let device = flash
        .device(&library, seed, args.faults)
        .map_err(|why| Failure::new(why, "choose another setup, or leave out --faults"))?;
    let load = |boots| source.load(boots);
    let options = Options {
        load: &load,
        can_fork: matches!(source, Source::Object(_)),
        flash: device,
        seed,
        steps: args.steps,
        mode: mode(args)?,
        kinds: kinds(args),
        recovery_cuts: recovery_cuts(args)?,
        limit: Duration::from_secs_f64(args.time_limit),
        processes: processes(args),
    };
    match id {
        Some(id) => replay(args, source, &options, id),
        None => explore(args, source, &options, &flash),
    }
}

fn check_options(args: &Args) -> Result<(), Failure> {
    if args.fast {
        return Err(Failure::new("--fast does not go with a program", "leave it out"));
    }
    Ok(())
}

/// Number of cuts in each run after the first cut, in its recovery and in the steps after it.
fn recovery_cuts(args: &Args) -> Result<u32, Failure> {
    match (args.recovery_cuts, args.again()) {
        (Some(RecoveryCuts::Number(cuts)), _) if cuts as usize >= powercut::CUTS_MAX => Err(Failure::new(
            format!("--recovery-cuts {cuts}: a history has at most {} cuts", powercut::CUTS_MAX),
            format!("give a number from 0 to {}", powercut::CUTS_MAX - 1),
        )),
        (Some(RecoveryCuts::Number(cuts)), _) => Ok(cuts),
        (_, Some(SecondCut::Exhaustive)) => Err(Failure::new(
            "--recovery-cuts exhaustive does not go with a program",
            "give the number of cuts, such as --recovery-cuts 1",
        )),
        (_, Some(SecondCut::Sampled)) => Ok(1),
        (_, Some(SecondCut::Never) | None) => Ok(0),
    }
}

fn mode(args: &Args) -> Result<Mode, Failure> {
    args.check_mode()?;
    Ok(match args.mode_arg() {
        ModeArg::Linear => Mode::Linear(args.cuts()),
        ModeArg::Log => Mode::Log,
        ModeArg::Exhaustive => Mode::Exhaustive,
        ModeArg::Random => Mode::Random(args.cuts()),
        ModeArg::Unmount => {
            return Err(Failure::new("--mode unmount does not go with a program", "choose another mode"));
        }
    })
}

fn kinds(args: &Args) -> Vec<CutKind> {
    if args.kind.is_empty() { CutKind::ALL.to_vec() } else { args.kinds() }
}

fn processes(args: &Args) -> usize {
    args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, Into::into), usize::from)
}

fn explore(args: &Args, source: &Source<'_>, options: &Options<'_>, flash: &SetupFlash) -> Outcome {
    let bar = progress_bar(args);
    #[expect(clippy::disallowed_methods, reason = "the edge: --timing tells cuts per second")]
    let started = Instant::now();
    let report = powercut::explore(options, &|runs| bar.inc(runs)).map_err(|error| failure(source, error));
    bar.finish_and_clear();
    let report = report?;
    if args.timing {
        terminal::print_note(&super::show::rate(report.cuts, started.elapsed()));
    }
    let id = |history: &History| {
        RunId { flash: flash.id().to_string(), seed: options.seed, history: history.clone() }.to_string()
    };
    let failures =
        report.failures.iter().map(|found| FailureJson::of(source, found, id(&found.history))).collect();
    let json = Json {
        program: source.option().1,
        steps: options.steps,
        operations: report.operations,
        runs: report.runs,
        cuts: report.cuts,
        compared_values: report.compared,
        has_check: report.has_check,
        failed_runs: report.failed_runs,
        failures,
        board: flash.board().map(str::to_owned),
    };
    let origin = args.origin(ResultKind::PowercutProgram).seeded(options.seed);
    args.format.print(&origin, &json, "failures", || text(args, source, &json, &report, &flash.title()))?;
    Ok(if report.failed_runs == 0 && !json.nothing_checked() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Json {
    /// True if no value was compared, and the program does not have its own check.
    const fn nothing_checked(&self) -> bool {
        self.compared_values == 0 && !self.has_check
    }
}

impl FailureJson {
    fn of(source: &Source<'_>, found: &MinimalFailure, id: String) -> Self {
        Self {
            kind: found.failure.kind,
            at: source.place(found.failure.place),
            why: found.failure.why.clone(),
            steps: found.history.steps.clone(),
            cuts: found.history.cuts.len(),
            steps_before: found.steps_before,
            runs: found.runs,
            repeats: found.repeats,
            id,
            output: found.printed.clone().into(),
        }
    }
}

fn failure(source: &Source<'_>, error: Error) -> Failure {
    let help = match &error {
        Error::NotLoaded(_) => {
            "build it with `cc -shared -fPIC`, with the functions floatgate_test_* of floatgate.h (docs/powercut.md)"
        }
        Error::Workload(..) => {
            "mend this first, give it more --time-limit, or choose another chip, a larger --partition or fewer --steps"
        }
        Error::NoOperations => {
            "write to the device in floatgate_test_step, or give the workload more --steps"
        }
        Error::NotDeterministic => {
            "let each step follow from its number alone: no clock, no random device, no address of memory"
        }
        Error::Process(_) => "end other processes, or ask for fewer with --threads",
    };
    let message = match &error {
        Error::Workload(failed, printed) => {
            let (place, output) = (source.place(failed.place), Output::from(printed.clone()).text());
            format!("{error}: {place}: {}{output}", failed.why)
        }
        Error::NotLoaded(why) if why.starts_with("it ") => format!("{}: {why}", source.option().1),
        error => error.to_string(),
    };
    Failure::new(message, help)
}

const fn describe(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Lost => "a synchronised value is lost",
        FailureKind::Check => "the check of the program failed",
        FailureKind::Recovery => "recovery failed",
        FailureKind::Step => "a step failed after the recovery",
        FailureKind::Crash => "the program crashed",
        FailureKind::Hang => "the program hung",
        FailureKind::Exit => "the program ended itself",
    }
}

impl Concluded for Json {
    /// Number of power cuts, and whether the program lost data.
    fn conclusion(&self) -> String {
        let runs = common::grouped_count(self.runs, "run");
        let program = &self.program;
        let cuts = common::grouped_count(self.cuts, "power cut");
        match self.failed_runs {
            0 if self.compared_values > 0 => format!("{program}: nothing was lost in {runs} with {cuts}."),
            0 if self.has_check => format!(
                "{program}: its own check passed in {runs} with {cuts}; it synchronises no value (fg_expect_synced), so that nothing else was compared."
            ),
            0 => format!(
                "{program} started again in {runs} with {cuts}, but nothing was checked: it synchronises no value (fg_expect_synced), and has no floatgate_test_check."
            ),
            failed => format!("{}: {} of {runs} failed.", self.program, common::grouped(failed)),
        }
    }

    fn board(&self) -> Option<&str> {
        self.board.as_deref()
    }
}

/// The report of a single run is one line, and needs no conclusion.
impl Concluded for ReplayJson {}

fn text(args: &Args, source: &Source<'_>, json: &Json, report: &Report, title: &str) -> String {
    let mut text = format!(
        "{title}: a workload of {}, {}\n",
        common::count(json.steps as usize, "step"),
        common::grouped_count(report.operations, "flash operation")
    );
    if json.failures.is_empty() {
        return text;
    }
    let mut table = Table::new(["failure", "runs", "steps", "cuts"]).numbers(1..);
    for failure in &json.failures {
        let numbers = [failure.runs, failure.steps.len() as u64, failure.cuts as u64].map(common::grouped);
        table.row(std::iter::once(describe(failure.kind).to_owned()).chain(numbers));
    }
    text += &format!("\nthe shortest history of each kind of failure:\n{table}\n");
    for (failure, found) in json.failures.iter().zip(&report.failures) {
        let flaky = if failure.repeats { "" } else { "; the same run passed when it was repeated" };
        text += &format!(
            "\n{}: {}: {}{flaky}{}\n  steps {}\n  floatgate powercut {}{} {} --replay {}\n",
            describe(failure.kind),
            failure.at,
            failure.why,
            failure.output.text(),
            found.history.steps_text(),
            args.of_chip("chip"),
            source.option().0,
            json.program,
            failure.id
        );
    }
    text
}

fn replay(args: &Args, source: &Source<'_>, options: &Options<'_>, id: &RunId) -> Outcome {
    let failed = powercut::replay(options, &id.history).map_err(|error| match error {
        Error::NoOperations => Failure::new(
            "the last step has fewer flash operations than the cut of this id needs",
            "the program has changed since: run the exploration again",
        ),
        error => failure(source, error),
    })?;
    let failure = failed.as_ref().map(|failed| ReplayFailure {
        kind: failed.kind,
        at: source.place(failed.place),
        why: failed.why.clone(),
    });
    let json = ReplayJson { id: id.to_string(), failure };
    args.format.print(&args.origin(ResultKind::PowercutProgramReplay), &json, "", || match &failed {
        None => format!("{id}: the run passed"),
        Some(failed) => {
            format!("{id}: {}\n{}: {}", describe(failed.kind), source.place(failed.place), failed.why)
        }
    })?;
    Ok(if failed.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
