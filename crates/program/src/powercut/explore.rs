//! Exploration of power cuts: selection of the operations to cut, the processes that run them, and the results.

use super::cut::CutAt;
use super::id::History;
use super::run::{self, Failure, FailureKind, Job, Load, Message, Outcome, RunPhase, Subject};
use super::{CUTS_MAX, STEPS_MAX};
use crate::printed::Printed;
use crate::process::{self, Child};
use floatgate_mtd::CutKind;
use floatgate_mtd::random::Random;
use floatgate_sim::rig;
use std::collections::BTreeMap;
use std::io::{self, PipeWriter, Write as _};
use std::time::Duration;

/// Selection of the operations for the first cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This number of operations at equal distances; the kinds of cut alternate.
    Linear(u64),
    /// Operations 1, 2, 4, 8 and so on, each with every kind of cut.
    Log,
    /// Every operation, each with every kind of cut.
    Exhaustive,
    /// This number of randomly chosen operations.
    Random(u64),
}

/// Options of an exploration.
#[derive(Clone)]
pub struct Options<'a> {
    /// Function that loads the program.
    pub load: Load<'a>,
    /// True if a fork of the process in which the program runs includes the program, which is then not a separate process.
    pub can_fork: bool,
    /// The erased flash on which the program runs.
    pub flash: Box<dyn rig::Device>,
    /// Seed of the power cuts.
    pub seed: u64,
    /// Number of steps of the workload.
    pub steps: u32,
    /// Selection of the first cuts.
    pub mode: Mode,
    /// Kinds of the first cut.
    pub kinds: Vec<CutKind>,
    /// Number of further cuts in each run, in recovery and in the steps after it.
    pub recovery_cuts: u32,
    /// Time limit for one call of the program.
    pub limit: Duration,
    /// Number of processes that run at the same time.
    pub processes: usize,
}

/// A failure with the shortest history that was found for it.
#[derive(Clone, Debug)]
pub struct MinimalFailure {
    /// The failure at the end of that history.
    pub failure: Failure,
    /// Shortest history found that leads to this failure.
    pub history: History,
    /// Number of runs that ended with this kind of failure.
    pub runs: u64,
    /// Number of steps before the history was shortened.
    pub steps_before: usize,
    /// False if the failure did not occur again in a repeated run, because the program is not deterministic.
    pub repeats: bool,
    /// Output of the program in a run of this history; empty if the failure did not occur again.
    pub printed: Printed,
}

/// Result of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of flash operations of the workload.
    pub operations: u64,
    /// Number of runs.
    pub runs: u64,
    /// Number of power cuts in all runs; a failed run counts as one.
    pub cuts: u64,
    /// Number of values compared with synchronised values.
    pub compared: u64,
    /// True if the program has its own check function.
    pub has_check: bool,
    /// Number of runs that failed.
    pub failed_runs: u64,
    /// The first failure of each kind.
    pub failures: Vec<MinimalFailure>,
}

/// Reason why the exploration is impossible.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program cannot be loaded.
    #[error("{0}")]
    NotLoaded(String),
    /// The workload fails without a power cut. It has this output.
    #[error("the program fails without a power cut")]
    Workload(Failure, Printed),
    /// The workload executes no program or erase.
    #[error("the workload neither programs nor erases the flash")]
    NoOperations,
    /// The same workload ended differently than before.
    #[error("the program is not deterministic: it did not come to the end of the same workload again")]
    NotDeterministic,
    /// The operating system cannot create a process or a pipe.
    #[error("no child process: {0}")]
    Process(#[from] io::Error),
}

impl Options<'_> {
    fn subject(&self) -> Subject<'_> {
        Subject {
            load: self.load,
            flash: self.flash.clone(),
            limit: self.limit,
            can_fork: self.can_fork,
            is_loud: false,
        }
    }
}

/// Cuts the power of a program in many runs, and calls `progress` after each run. The calling process must have only one thread.
///
/// # Errors
/// The program cannot be loaded, or fails without a power cut.
pub fn explore(options: &Options<'_>, progress: &dyn Fn(u64)) -> Result<Report, Error> {
    let steps: Vec<u32> = (0..options.steps.min(STEPS_MAX as u32)).collect();
    let operations = rehearse(&options.subject(), &steps)?;
    let jobs = jobs(options, &operations);
    let outcomes = run_all(options, &steps, &jobs, progress)?;
    let mut report = Report { operations: operations.iter().sum(), ..Report::default() };
    let mut first: BTreeMap<FailureKind, (usize, u64)> = BTreeMap::new();
    for (number, outcome) in outcomes {
        report.runs += 1;
        match outcome {
            Outcome::Good { cuts, compared, has_check } => {
                report.cuts += cuts;
                report.compared += compared;
                report.has_check |= has_check;
            }
            Outcome::NotReached => return Err(Error::NotDeterministic),
            Outcome::Failed(failure) => {
                report.cuts += 1;
                report.failed_runs += 1;
                first.entry(failure.kind).or_insert((number, 0)).1 += 1;
            }
        }
    }
    for (kind, (number, runs)) in first {
        let Some(job) = jobs.get(number) else { continue };
        let steps = steps.iter().take(job.step + 1).copied().collect();
        report.failures.push(shortest(
            &options.subject(),
            kind,
            History { steps, cuts: job.cuts.clone() },
            runs,
        )?);
    }
    Ok(report)
}

/// Repeats one run and shows the program's output. Returns its failure, or `None`.
///
/// # Errors
/// The errors of [`explore`]; the last step has fewer operations than the first cut requires.
pub fn replay(options: &Options<'_>, history: &History) -> Result<Option<Failure>, Error> {
    let subject = Subject { is_loud: true, ..options.subject() };
    match try_history(&subject, history)? {
        Outcome::Good { .. } => Ok(None),
        Outcome::Failed(failure) => Ok(Some(failure)),
        Outcome::NotReached => Err(Error::NoOperations),
    }
}

/// Runs the workload without a cut, and returns the number of operations of each step.
fn rehearse(subject: &Subject<'_>, steps: &[u32]) -> Result<Vec<u64>, Error> {
    let child = process::fork(|pipe| run::work(subject.clone(), steps, &[], pipe))?;
    let (mut place, mut operations, mut outcome, mut not_loaded) = (RunPhase::Load, Vec::new(), None, None);
    let end = child.watch(subject.limit, |line| match serde_json::from_slice(line) {
        Ok(Message::At(at)) => place = at,
        Ok(Message::Operations(count)) => operations.push(count),
        Ok(Message::End(end)) => outcome = Some(end),
        Ok(Message::NotLoaded(why)) => not_loaded = Some(why),
        _ => {}
    });
    match (not_loaded, outcome) {
        (Some(why), _) => Err(Error::NotLoaded(why)),
        (None, Some(Outcome::Good { .. })) if operations.iter().all(|count| *count == 0) => {
            Err(Error::NoOperations)
        }
        (None, Some(Outcome::Good { .. })) => Ok(operations),
        (None, Some(Outcome::Failed(failure))) => {
            Err(Error::Workload(failure, output_of_workload(subject, steps)?))
        }
        _ if place == RunPhase::Load => {
            let failure = run::ended(end, place, subject.limit);
            let does = match failure.kind {
                FailureKind::Crash => "crashes",
                FailureKind::Hang => "hangs",
                _ => "ends",
            };
            Err(Error::NotLoaded(format!("it {does} when it is loaded: {}", failure.why)))
        }
        _ => {
            let failure = run::ended(end, place, subject.limit);
            Err(Error::Workload(failure, output_of_workload(subject, steps)?))
        }
    }
}

/// Output of the workload in another run without a cut.
fn output_of_workload(subject: &Subject<'_>, steps: &[u32]) -> Result<Printed, Error> {
    output_of(subject, |subject, pipe| run::work(subject, steps, &[], pipe))
}

/// Output of a program in a child process. It ends with the process, or when a call had twice its time limit.
fn output_of(subject: &Subject<'_>, work: impl FnOnce(Subject<'_>, PipeWriter)) -> Result<Printed, Error> {
    let loud = Subject { is_loud: true, ..subject.clone() };
    let child = process::fork_heard(|pipe| work(loud, pipe))?;
    let mut printed = Printed::default();
    child.watch_heard(
        subject.limit * 2,
        |_| {},
        |line| {
            printed.add(line);
        },
    )?;
    Ok(printed)
}

/// The runs of an exploration, in the order of their steps.
fn jobs(options: &Options<'_>, operations: &[u64]) -> Vec<Job> {
    let total: u64 = operations.iter().sum();
    let kinds = &options.kinds;
    let every_kind = |operation| kinds.iter().map(move |&kind| CutAt { operation, kind, tear: 0 });
    let mut first: Vec<CutAt> = match options.mode {
        Mode::Exhaustive => (1..=total).flat_map(every_kind).collect(),
        Mode::Log => (0..u64::BITS)
            .map(|power| 1 << power)
            .take_while(|at| *at <= total)
            .flat_map(every_kind)
            .collect(),
        Mode::Linear(count) => {
            let count = count.min(total);
            let at = |number: u64| 1 + (2 * number + 1) * total / (2 * count);
            let kind = |number: u64| kinds.get(number as usize % kinds.len().max(1)).copied();
            (0..count)
                .filter_map(|number| Some(CutAt { operation: at(number), kind: kind(number)?, tear: 0 }))
                .collect()
        }
        Mode::Random(count) => {
            let cut = |number| CutAt::random(&mut Random::numbered(options.seed, number), total, kinds);
            (0..count).filter_map(cut).collect()
        }
    };
    first.sort_by_key(|cut| cut.operation);
    first.into_iter().enumerate().filter_map(|(number, cut)| job(options, operations, number, cut)).collect()
}

/// A run, whose first cut is given by an operation counted from the first step. It is assigned to the step that contains the
/// operation.
fn job(options: &Options<'_>, operations: &[u64], number: usize, mut cut: CutAt) -> Option<Job> {
    let mut step = 0;
    while cut.operation > *operations.get(step)? {
        cut.operation -= operations.get(step)?;
        step += 1;
    }
    let mut random = Random::numbered(options.seed.wrapping_add(1), number as u64);
    let count = (options.recovery_cuts as usize).min(CUTS_MAX - 1);
    let mut further = || {
        // Most recoveries take few operations, some take hundreds.
        let most = 1 << random.below(8);
        CutAt::random(&mut random, most, &CutKind::ALL)
    };
    // Every second run repeats the same cut, as with a battery that is too weak for the recovery.
    let further: Vec<CutAt> = match number % 2 {
        1 => further().map_or_else(Vec::new, |cut| vec![cut; count]),
        _ => (0..count).filter_map(|_| further()).collect(),
    };
    Some(Job { number, step, cuts: [cut].into_iter().chain(further).collect() })
}

/// Executes all runs, in several processes.
fn run_all(
    options: &Options<'_>,
    steps: &[u32],
    jobs: &[Job],
    progress: &dyn Fn(u64),
) -> Result<BTreeMap<usize, Outcome>, Error> {
    /// Time limit of a run as a multiple of the limit of a call, because a run consists of many calls.
    const CALLS: u32 = 100;
    let count = options.processes.clamp(1, jobs.len().max(1));
    let share = |first: usize| jobs.iter().skip(first).step_by(count).cloned().collect::<Vec<Job>>();
    let start = |first: usize| {
        process::fork(|pipe| match options.can_fork {
            true => run::work(options.subject(), steps, &share(first), pipe),
            false => run_each(&options.subject(), steps, &share(first), pipe),
        })
    };
    let children = (0..count).map(start).collect::<io::Result<Vec<Child>>>()?;
    let mut outcomes = BTreeMap::new();
    process::watch_all(children, options.limit * CALLS, |line| {
        if let Ok(Message::Run(number, outcome)) = serde_json::from_slice(line) {
            outcomes.insert(number, outcome);
            progress(1);
        }
    })?;
    if outcomes.len() == jobs.len() { Ok(outcomes) } else { Err(Error::NotDeterministic) }
}

/// Executes one run from the beginning.
fn try_history(subject: &Subject<'_>, history: &History) -> Result<Outcome, Error> {
    let child = process::fork(|pipe| run::once(subject.clone(), history, pipe))?;
    let (mut place, mut is_ordered, mut outcome, mut not_loaded) = (RunPhase::Load, false, None, None);
    let end = child.watch(subject.limit, |line| match serde_json::from_slice(line) {
        Ok(Message::At(at)) => place = at,
        Ok(Message::Ordered) => is_ordered = true,
        Ok(Message::End(end)) => outcome = Some(end),
        Ok(Message::NotLoaded(why)) => not_loaded = Some(why),
        _ => {}
    });
    match (not_loaded, outcome) {
        (Some(why), _) => Err(Error::NotLoaded(why)),
        // The workload itself fails without the omitted steps.
        _ if !is_ordered => Ok(Outcome::NotReached),
        (None, Some(outcome)) => Ok(outcome),
        (None, None) => Ok(Outcome::Failed(run::ended(end, place, subject.limit))),
    }
}

/// Executes runs from the beginning, one after another, and sends their outcomes.
fn run_each(subject: &Subject<'_>, steps: &[u32], jobs: &[Job], mut pipe: PipeWriter) {
    for job in jobs {
        let steps = steps.iter().take(job.step + 1).copied().collect();
        let outcome = try_history(subject, &History { steps, cuts: job.cuts.clone() });
        let Ok(mut line) = outcome
            .map_err(|_| ())
            .and_then(|outcome| serde_json::to_vec(&Message::Run(job.number, outcome)).map_err(|_| ()))
        else {
            return;
        };
        line.push(b'\n');
        if pipe.write_all(&line).is_err() {
            return;
        }
    }
}

/// Maximum number of runs to shorten a failure.
const SHORTENING_RUNS: u32 = 1000;

/// Shortens the history of a failure: removes cuts and steps as long as a failure of the same kind remains.
fn shortest(
    subject: &Subject<'_>,
    kind: FailureKind,
    history: History,
    runs: u64,
) -> Result<MinimalFailure, Error> {
    let steps_before = history.steps.len();
    let mut search = Search { subject, kind, runs_left: SHORTENING_RUNS };
    let Some(failure) = search.fails(&history)? else {
        let why = "it failed once, and not again in the same run".to_owned();
        let failure =
            Failure { kind, place: RunPhase::Step(history.steps.last().copied().unwrap_or(0)), why };
        let printed = Printed::default();
        return Ok(MinimalFailure { failure, history, runs, steps_before, repeats: false, printed });
    };
    let mut best = (history, failure);
    search.drop_cuts(&mut best)?;
    search.drop_steps(&mut best)?;
    let (history, failure) = best;
    let printed = output_of(subject, |subject, pipe| run::once(subject, &history, pipe))?;
    Ok(MinimalFailure { failure, history, runs, steps_before, repeats: true, printed })
}

struct Search<'a> {
    subject: &'a Subject<'a>,
    kind: FailureKind,
    runs_left: u32,
}

impl Search<'_> {
    /// The failure at the end of a history, if it is of the same kind.
    fn fails(&mut self, history: &History) -> Result<Option<Failure>, Error> {
        if self.runs_left == 0 {
            return Ok(None);
        }
        self.runs_left -= 1;
        Ok(match try_history(self.subject, history)? {
            Outcome::Failed(failure) if failure.kind == self.kind => Some(failure),
            _ => None,
        })
    }

    /// Removes further cuts, all of them or the last one.
    fn drop_cuts(&mut self, best: &mut (History, Failure)) -> Result<(), Error> {
        let cuts = best.0.cuts.clone();
        for count in 1..cuts.len() {
            let history = History { cuts: cuts.iter().take(count).copied().collect(), ..best.0.clone() };
            if let Some(failure) = self.fails(&history)? {
                *best = (history, failure);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Removes steps before the last one: half of them, a quarter, and so on down to single steps, until none can be removed.
    fn drop_steps(&mut self, best: &mut (History, Failure)) -> Result<(), Error> {
        let mut size = best.0.steps.len() / 2;
        while size > 0 {
            let before = best.0.steps.len();
            let mut at = 0;
            while at + 1 < best.0.steps.len() {
                let end = (at + size).min(best.0.steps.len() - 1);
                let mut steps = best.0.steps.clone();
                steps.drain(at..end);
                match self.fails_somewhere(&History { steps, cuts: best.0.cuts.clone() })? {
                    Some(shorter) => *best = shorter,
                    None => at += size,
                }
            }
            if size > 1 || best.0.steps.len() == before {
                size /= 2;
            }
        }
        Ok(())
    }

    /// Searches for the failure at the same operation of the last step, then at its first operations. The operations differ if earlier
    /// steps were removed.
    fn fails_somewhere(&mut self, history: &History) -> Result<Option<(History, Failure)>, Error> {
        const OPERATIONS: u64 = 4;
        let Some((first, further)) = history.cuts.split_first() else { return Ok(None) };
        let others = (1..=OPERATIONS).filter(|operation| *operation != first.operation);
        for operation in [first.operation].into_iter().chain(others) {
            let cuts = [CutAt { operation, ..*first }].iter().chain(further).copied().collect();
            let history = History { cuts, ..history.clone() };
            if let Some(failure) = self.fails(&history)? {
                return Ok(Some((history, failure)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Program, TestDevice};
    use floatgate_config::Library;
    use std::path::Path;

    /// A program that forks in each step: one process stays, and one returns from the call.
    struct Forking;

    impl Program for Forking {
        fn prepare(&mut self, _: TestDevice) -> Result<(), String> {
            Ok(())
        }

        fn recover(&mut self, _: TestDevice) -> Result<(), String> {
            Ok(())
        }

        #[expect(unsafe_code, reason = "fork")]
        fn step(&mut self, device: TestDevice, number: u32) -> Result<(), String> {
            // SAFETY: the process has only one thread.
            unsafe {
                if libc::fork() == 0 {
                    libc::sleep(3);
                    libc::_exit(0);
                }
                libc::fork();
            }
            device.program(u64::from(number) * 256, &[0; 256])
        }

        fn check(&mut self, _: TestDevice) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn processes_that_a_program_forked_do_not_count() {
        let library = Library::built_in();
        let config = library.resolve(&library.setup(Path::new("w25q128jv")).unwrap(), &[]).unwrap();
        let flash = rig::wire(&library, &config, rig::RigOptions::default()).unwrap().device;
        let load = |boots| Ok((0..boots).map(|_| Box::new(Forking) as Box<dyn Program>).collect());
        let options = Options {
            load: &load,
            can_fork: true,
            flash,
            seed: 0,
            steps: 3,
            mode: Mode::Linear(3),
            kinds: vec![CutKind::Before],
            recovery_cuts: 0,
            limit: Duration::from_secs(1),
            processes: 2,
        };
        let report = explore(&options, &|_| {}).unwrap();
        assert_eq!((report.operations, report.runs, report.cuts, report.failed_runs), (3, 3, 3, 0));
    }
}
