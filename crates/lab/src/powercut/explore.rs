//! Selection of the runs, and their execution on all CPU cores.

use std::ops::Range;

use floatgate_mtd::power_cut::CutKind;
use rayon::prelude::*;

use super::chip::Powered;
use super::cut_run::run;
use super::flash::erased;
use super::id::{CutAt, End, FlashId, RunId, kind_index};
use super::options::{Mode, Options, SecondCut};
use super::record::{Recording, WorkloadError, record};
use super::report::{Failure, Report};
use floatgate_mtd::random::Random;

/// Number of random runs of one workload before the next workload begins.
const RUNS_PER_WORKLOAD: u64 = 2000;

/// Maximum number of cuts of recoveries in a random run.
const MAX_AGAIN: u64 = 3;

/// Callback that receives the number of runs since its last call.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// Runs workloads on flash in memory, and cuts their power.
///
/// # Errors
/// A workload fails without a cut, or has no operation to cut; the flash cannot have faults.
pub fn explore(options: &Options, progress: Progress<'_>) -> Result<Report, WorkloadError> {
    match &options.flash {
        FlashId::Ram(geometry) => {
            explore_on(options, &|seed| erased(geometry, options.faults, seed), progress)
        }
        FlashId::Chip { .. } => Err(WorkloadError::at_start("a chip has to be made of a setup".to_owned())),
    }
}

/// Runs a function with `threads` threads; 0 stands for one per CPU core.
///
/// # Errors
/// Description of the failure if the system cannot create the threads.
pub fn on_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> Result<T, String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map(|pool| pool.install(run)).map_err(|error| error.to_string())
}

/// Function that creates erased flash for the workload of a seed.
pub type MakeFlash<'a> = &'a (dyn Fn(u64) -> Result<Box<dyn Powered>, String> + Sync);

/// Runs workloads on flash that `make` creates, and cuts its power.
///
/// # Errors
/// The errors of [`explore`].
pub fn explore_on(
    options: &Options,
    make: MakeFlash<'_>,
    progress: Progress<'_>,
) -> Result<Report, WorkloadError> {
    let report = runs(options, make, progress)?;
    if report.runs == 0 { Err(WorkloadError::NoOperations(options.steps)) } else { Ok(report) }
}

/// Makes all runs of all workloads.
fn runs(options: &Options, make: MakeFlash<'_>, progress: Progress<'_>) -> Result<Report, WorkloadError> {
    let recorded = |seed| {
        let flash = make(seed).map_err(WorkloadError::at_start)?;
        record(flash, (options.fs, options.faults), seed, options.steps)
    };
    let Mode::Random(count) = options.mode else {
        let recording = recorded(options.seed)?;
        let ends = ends(options, &recording);
        return Ok(all(options, &recording, &ends, progress));
    };
    let workloads = count.div_ceil(RUNS_PER_WORKLOAD);
    let one = |number: usize| {
        let number = number as u64;
        let recording = recorded(options.seed.wrapping_add(number))?;
        let from = number * RUNS_PER_WORKLOAD;
        let ends = random_ends(options, &recording, from..count.min(from + RUNS_PER_WORKLOAD));
        Ok(all(options, &recording, &ends, progress))
    };
    let add = |first: Report, later: Report| Ok(first.then(later));
    (0..workloads as usize).into_par_iter().with_max_len(1).map(one).try_reduce(Report::default, add)
}

/// Repeats one run. Returns its failure, if it still fails.
///
/// # Errors
/// The workload fails without a cut.
pub fn replay(id: &RunId) -> Result<Option<Failure>, WorkloadError> {
    let FlashId::Ram(geometry) = &id.flash else {
        return Err(WorkloadError::at_start(
            "this run was on the chip of a setup: name the setup, too".to_owned(),
        ));
    };
    replay_on(id, &|seed| erased(geometry, id.faults, seed))
}

/// Repeats one run on flash that `make` creates. Returns its failure, if it still fails.
///
/// # Errors
/// The errors of [`replay`].
pub fn replay_on(id: &RunId, make: MakeFlash<'_>) -> Result<Option<Failure>, WorkloadError> {
    let flash = make(id.seed).map_err(WorkloadError::at_start)?;
    let recording = record(flash, (id.fs, id.faults), id.seed, id.steps)?;
    Ok(run(&recording, &id.end).err().map(|what| Failure {
        id: id.to_string(),
        step: step_text(&recording, &id.end),
        what,
    }))
}

/// Makes all runs of a workload whose first cuts are `ends`.
fn all(options: &Options, recording: &Recording, ends: &[End], progress: Progress<'_>) -> Report {
    let one = |end: &End| {
        let report = with_seconds(options, recording, end);
        progress(report.runs);
        report
    };
    let mut report = ends.par_iter().with_max_len(16).map(one).reduce(Report::default, Report::then);
    report.add_workload(recording.operations);
    report
}

/// Makes one run, and the runs with a second cut.
fn with_seconds(options: &Options, recording: &Recording, end: &End) -> Report {
    let mut report = Report::default();
    let recovery = one(options, recording, end, &mut report);
    let (End::Cuts(cuts), Some(recovery)) = (end, recovery) else { return report };
    if !matches!(options.mode, Mode::Random(_)) {
        for second in second_cuts(options, cuts, recovery) {
            let cuts = cuts.iter().copied().chain([second]).collect();
            one(options, recording, &End::Cuts(cuts), &mut report);
        }
    }
    report
}

/// Makes one run. Returns the number of flash operations of its recovery.
fn one(options: &Options, recording: &Recording, end: &End, report: &mut Report) -> Option<u64> {
    let (step, kind, cuts) = match end {
        End::Unmount(step) => (recording.moments.get(*step), None, 0),
        End::Cuts(cuts) => {
            let first = cuts.first()?;
            (recording.moment_of(first.operation), Some(first.kind), cuts.len() as u64)
        }
    };
    let name = step.map_or("", |moment| moment.step.name());
    match run(recording, end) {
        Ok(recovered) => {
            report.add(name, kind, recovered);
            Some(recovered.operations)
        }
        Err(what) => {
            let id = run_id(options, recording, end).to_string();
            let failure = Failure { id, step: step_text(recording, end), what };
            report.add_failure(name, kind, cuts, failure);
            None
        }
    }
}

fn run_id(options: &Options, recording: &Recording, end: &End) -> RunId {
    RunId {
        fs: recording.recipe.fs,
        flash: options.flash.clone(),
        faults: options.faults,
        seed: recording.seed,
        steps: options.steps,
        end: end.clone(),
    }
}

fn step_text(recording: &Recording, end: &End) -> String {
    let moment = match end {
        End::Unmount(step) => recording.moments.get(*step),
        End::Cuts(cuts) => cuts.first().and_then(|first| recording.moment_of(first.operation)),
    };
    moment.map_or_else(String::new, |moment| format!("{}: {:?}", moment.number, moment.step))
}

/// First cuts of all runs of a workload.
fn ends(options: &Options, recording: &Recording) -> Vec<End> {
    let operations = recording.operations;
    let kinds = &options.kinds;
    let every_kind = |operation| kinds.iter().map(move |&kind| cut(operation, kind));
    match options.mode {
        Mode::Unmount => (0..recording.moments.len()).map(End::Unmount).collect(),
        Mode::Exhaustive => (1..=operations).flat_map(every_kind).collect(),
        Mode::Log => (0..u64::BITS)
            .map(|power| 1 << power)
            .take_while(|&operation| operation <= operations)
            .flat_map(every_kind)
            .collect(),
        Mode::Linear(count) => {
            let count = count.min(operations);
            // The operation in the middle of each of `count` equal parts; all operations if there
            // are no more than `count`.
            let at = |number: u64| 1 + (2 * number + 1) * operations / (2 * count);
            let by_turns = |number: u64| kinds.get(number as usize % kinds.len().max(1)).copied();
            (0..count).filter_map(|number| Some(cut(at(number), by_turns(number)?))).collect()
        }
        Mode::Random(_) => Vec::new(),
    }
}

fn cut(operation: u64, kind: CutKind) -> End {
    End::Cuts(vec![CutAt { operation, kind, tear: 0 }])
}

/// Random runs of one workload, in the order of their operations.
fn random_ends(options: &Options, recording: &Recording, numbers: Range<u64>) -> Vec<End> {
    let mut ends: Vec<Vec<CutAt>> =
        numbers.filter_map(|number| random_end(options, recording, number)).collect();
    ends.sort_by_key(|cuts| cuts.first().map(|cut| (cut.operation, kind_index(cut.kind), cut.tear)));
    ends.into_iter().map(End::Cuts).collect()
}

fn random_end(options: &Options, recording: &Recording, number: u64) -> Option<Vec<CutAt>> {
    let mut random = Random::numbered(options.seed, number);
    let first = random_cut(&mut random, &options.kinds, recording.operations)?;
    let mut cuts = vec![first];
    if options.second != SecondCut::Never {
        while random.once_in(2) && cuts.len() as u64 <= MAX_AGAIN {
            // Most recoveries take few operations, and some take hundreds.
            let most = 2 << random.below(8);
            cuts.push(random_cut(&mut random, &CutKind::ALL, most)?);
        }
    }
    Some(cuts)
}

fn random_cut(random: &mut Random, kinds: &[CutKind], operations: u64) -> Option<CutAt> {
    let kind = *kinds.get(random.index(kinds.len()))?;
    let operation = (operations > 0).then(|| 1 + random.below(operations))?;
    Some(CutAt { operation, kind, tear: random.bits() as u32 >> 16 })
}

/// Cuts of a recovery that takes `recovery` operations.
fn second_cuts(options: &Options, first: &[CutAt], recovery: u64) -> Vec<CutAt> {
    match options.second {
        SecondCut::Never => Vec::new(),
        SecondCut::Sampled => {
            let number = first.first().map_or(0, |cut| cut.operation * 8 + kind_index(cut.kind) as u64);
            random_cut(&mut Random::numbered(options.seed, number), &CutKind::ALL, recovery)
                .into_iter()
                .collect()
        }
        SecondCut::Exhaustive => (1..=recovery)
            .flat_map(|operation| CutKind::ALL.map(|kind| CutAt { operation, kind, tear: 0 }))
            .collect(),
    }
}
