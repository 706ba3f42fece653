//! Cutting the power everywhere, and looking at what is left.

use std::ops::RangeInclusive;
use std::sync::Arc;

use floatgate_mtd::power_cut::{Cut, CutKind, PowerCut};
use floatgate_mtd::{Geometry, Instant, RamFlash};
use floatgate_stack::ubi::{AttachOptions, FormatOptions as UbiFormat, NewVolume, Ubi, UbiVolume};
use floatgate_stack::ubifs::{Behaviour, FormatOptions, MountOptions, NewFile, NewKind, Ubifs};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

use super::id::CutId;
use super::random::Random;
use super::state::{self, FileStates, Names};
use super::workload::{self, Known, Step};
use floatgate_media::ubifs::FileType;

type Device = PowerCut<RamFlash>;
type Fs = Ubifs<UbiVolume<Device>>;

/// Which operations are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every n-th one.
    Linear(u64),
    /// The first, second, fourth, eighth and so on.
    Log,
    /// Every one, in every way.
    Exhaustive,
    /// So many at random.
    Random(u64),
}

/// Whether power goes away again while the filesystem recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondCut {
    /// No.
    Never,
    /// Once for each first cut, at an operation of the recovery that follows from the seed.
    Sampled,
    /// At every operation of the recovery, in every way.
    Exhaustive,
}

/// What is explored.
#[derive(Clone, Debug)]
pub struct Options {
    /// The flash; its size should be small, 16 MiB at most.
    pub geometry: Geometry,
    /// Seed of the workload and of what torn operations leave.
    pub seed: u64,
    /// Steps of the workload.
    pub steps: usize,
    /// Which operations are cut.
    pub mode: Mode,
    /// Whether power goes away again.
    pub second: SecondCut,
}

/// A cut after which something was wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What replays it.
    pub id: String,
    /// The step under way.
    pub step: String,
    /// What was wrong.
    pub what: String,
}

/// What an exploration found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Flash operations of the workload.
    pub operations: u64,
    /// Cuts, second ones included.
    pub cuts: u64,
    /// The first failures, in the order of their operations; at most 100.
    pub failures: Vec<Failure>,
    /// All failures.
    pub failure_count: u64,
}

/// Failures that are kept.
const FAILURES: usize = 100;

/// Why a workload cannot be explored: it fails without any cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the workload fails without a cut, at step {step}: {what}")]
pub struct WorkloadError {
    /// Number of the step, from 0.
    pub step: usize,
    /// What went wrong.
    pub what: String,
}

/// The filesystem before a step, and what may be found when power goes away during it.
struct Moment {
    fs: Fs,
    known: Known,
    step: Step,
    number: usize,
    /// Flash operations of the step, counted from the start of the workload.
    operations: RangeInclusive<u64>,
    /// Names at every moment since they were last brought to flash, the one after the step included.
    names: Vec<Arc<Names>>,
    /// What each regular file may be, the step included.
    files: Arc<BTreeMap<u32, FileStates>>,
}

/// Runs the workload and cuts it.
///
/// # Errors
/// The workload fails without any cut.
pub fn explore(options: &Options, progress: &(dyn Fn(u64) + Sync)) -> Result<Report, WorkloadError> {
    let (moments, operations) = record(options)?;
    let chosen = |operation| is_chosen(options, operation, operations);
    let found: Vec<(u64, Vec<Failure>)> = moments
        .par_iter()
        .flat_map(|moment| moment.operations.clone().into_par_iter().map(move |operation| (moment, operation)))
        .filter(|(_, operation)| chosen(*operation))
        .map(|(moment, operation)| {
            let found = cut_operation(options, moment, operation);
            progress(found.0);
            found
        })
        .collect();
    let cuts = found.iter().map(|(cuts, _)| cuts).sum();
    let mut failures: Vec<Failure> = found.into_iter().flat_map(|(_, failures)| failures).collect();
    let failure_count = failures.len() as u64;
    failures.truncate(FAILURES);
    Ok(Report { operations, cuts, failures, failure_count })
}

/// Repeats one run.
///
/// # Errors
/// The workload fails without any cut.
pub fn replay(options: &Options, id: CutId) -> Result<Option<Failure>, WorkloadError> {
    let options = Options { seed: id.seed, steps: id.steps, ..options.clone() };
    let (moments, _) = record(&options)?;
    let moment = moments.iter().find(|moment| moment.operations.contains(&id.operation));
    Ok(moment.and_then(|moment| run(moment, id).err().map(|what| failure(moment, id, what))))
}

fn is_chosen(options: &Options, operation: u64, operations: u64) -> bool {
    match options.mode {
        Mode::Exhaustive => true,
        Mode::Linear(every) => operation.is_multiple_of(every.max(1)),
        Mode::Log => operation.is_power_of_two(),
        // Each operation is drawn or not, which needs no memory and no order.
        Mode::Random(count) => Random::new(options.seed ^ operation.rotate_left(32)).below_u64(operations) < count,
    }
}

fn kinds(options: &Options, operation: u64) -> Vec<CutKind> {
    if options.mode == Mode::Exhaustive {
        return CutKind::ALL.to_vec();
    }
    let drawn = Random::new(options.seed.rotate_left(17) ^ operation).below(CutKind::ALL.len());
    vec![CutKind::ALL[drawn]]
}

/// All cuts at one operation: how many, and those after which something was wrong.
fn cut_operation(options: &Options, moment: &Moment, operation: u64) -> (u64, Vec<Failure>) {
    let mut failures = Vec::new();
    let mut cuts = 0;
    for kind in kinds(options, operation) {
        let id = CutId { seed: options.seed, steps: options.steps, operation, kind, second: None };
        cuts += 1;
        let recovery = match run(moment, id) {
            Ok(recovery) => recovery,
            Err(what) => {
                failures.push(failure(moment, id, what));
                continue;
            }
        };
        for second in second_cuts(options, id, recovery) {
            let id = CutId { second: Some(second), ..id };
            cuts += 1;
            failures.extend(run(moment, id).err().map(|what| failure(moment, id, what)));
        }
    }
    (cuts, failures)
}

fn second_cuts(options: &Options, id: CutId, recovery: u64) -> Vec<(u64, CutKind)> {
    match options.second {
        SecondCut::Never => Vec::new(),
        SecondCut::Sampled if recovery == 0 => Vec::new(),
        SecondCut::Sampled => {
            let mut random = Random::new(id.seed ^ id.operation.wrapping_mul(31) ^ kind_number(id.kind));
            vec![(1 + random.below_u64(recovery), CutKind::ALL[random.below(CutKind::ALL.len())])]
        }
        SecondCut::Exhaustive => {
            (1..=recovery).flat_map(|operation| CutKind::ALL.map(|kind| (operation, kind))).collect()
        }
    }
}

fn failure(moment: &Moment, id: CutId, what: String) -> Failure {
    Failure { id: id.to_string(), step: format!("{}: {:?}", moment.number, moment.step), what }
}

/// Runs the workload without a cut and keeps the filesystem before every step.
fn record(options: &Options) -> Result<(Vec<Moment>, u64), WorkloadError> {
    let wrong = |step, what: String| WorkloadError { step, what };
    let mut fs = make(options).map_err(|what| wrong(0, what))?;
    let start = operations(&fs);
    let mut known = Known::default();
    let mut files: BTreeMap<u32, FileStates> = BTreeMap::new();
    let first = state::names(&mut fs).map_err(|error| wrong(0, error.to_string()))?;
    let mut names = vec![Arc::new(first)];
    // For each inode the moment at which its names last changed.
    let mut changed_at: BTreeMap<u32, usize> = BTreeMap::new();
    // The moment in `names` that comes first.
    let mut base = 0;
    let mut moments = Vec::with_capacity(options.steps);
    for (number, step) in workload::steps(options.seed, options.steps).into_iter().enumerate() {
        let before = (fs.clone(), known.clone());
        let from = operations(&fs) - start + 1;
        let effect = workload::run(&mut fs, &mut known, &step, number);
        let effect = effect.map_err(|error| wrong(number, error.to_string()))?;
        let now = state::names(&mut fs).map_err(|error| wrong(number, error.to_string()))?;
        note_changes(&mut changed_at, names.last(), &now, base + names.len());
        names.push(Arc::new(now));
        let mut after = files.clone();
        note_files(&mut fs, &mut after, names.last()).map_err(|what| wrong(number, what))?;
        let (fs_before, known_before) = before;
        moments.push(Moment {
            fs: fs_before,
            known: known_before,
            step: step.clone(),
            number,
            operations: from..=operations(&fs) - start,
            names: names.clone(),
            files: Arc::new(after.clone()),
        });
        files = after;
        let durable = match (&step, effect.inode) {
            (Step::Sync, _) => base + names.len() - 1,
            (Step::Fsync { .. }, Some(inode)) => changed_at.get(&inode).copied().unwrap_or(base),
            _ => base,
        };
        if durable > base {
            names.drain(..durable - base);
            base = durable;
        }
        settle(&mut fs, &mut files, &step, effect.inode).map_err(|what| wrong(number, what))?;
    }
    let operations = operations(&fs) - start;
    Ok((moments, operations))
}

/// Which inodes are not named as before, at the moment `at`.
fn note_changes(changed_at: &mut BTreeMap<u32, usize>, before: Option<&Arc<Names>>, now: &Names, at: usize) {
    for (path, named) in now {
        let same = before.is_some_and(|before| before.get(path) == Some(named));
        if !same {
            changed_at.insert(named.inode, at);
        }
    }
}

/// What files are now may be found from now on.
fn note_files(fs: &mut Fs, files: &mut BTreeMap<u32, FileStates>, names: Option<&Arc<Names>>) -> Result<(), String> {
    for inode in regular_files(names) {
        let now = state::file(fs, inode).map_err(|error| error.to_string())?;
        files.entry(inode).or_default().change(&now);
    }
    Ok(())
}

fn regular_files(names: Option<&Arc<Names>>) -> Vec<u32> {
    let named = names.iter().flat_map(|names| names.values());
    let mut inodes: Vec<u32> =
        named.filter(|named| named.file_type == FileType::Regular).map(|named| named.inode).collect();
    inodes.sort_unstable();
    inodes.dedup();
    inodes
}

/// After files were brought to flash they can only be found as they are.
fn settle(fs: &mut Fs, files: &mut BTreeMap<u32, FileStates>, step: &Step, inode: Option<u32>) -> Result<(), String> {
    let settled: Vec<u32> = match (step, inode) {
        (Step::Sync, _) => files.keys().copied().collect(),
        (Step::Fsync { .. }, Some(inode)) => vec![inode],
        _ => Vec::new(),
    };
    for inode in settled {
        match state::file(fs, inode) {
            Ok(now) => files.entry(inode).or_default().settle(&now),
            // It has no name any more.
            Err(_) => drop(files.remove(&inode)),
        }
    }
    Ok(())
}

fn operations(fs: &Fs) -> u64 {
    fs.volume().ubi().mtd().operations()
}

/// A new filesystem that fills the flash.
fn make(options: &Options) -> Result<Fs, String> {
    let flash = PowerCut::new(RamFlash::new(options.geometry.clone()));
    let (flash, now) = Ubi::format(flash, &UbiFormat::default()).map_err(|(error, _)| error.to_string())?;
    let mut ubi = Ubi::attach(flash, &AttachOptions { now, ..AttachOptions::default() })
        .map_err(|error| error.fault.to_string())?;
    let lebs = ubi.info().available_lebs;
    let id = ubi.create_volume(&NewVolume::dynamic("data", lebs)).map_err(|error| error.to_string())?;
    let volume = ubi.open_volume(id).map_err(|(error, _)| error.to_string())?;
    let format = FormatOptions { max_lebs: Some(lebs), ..FormatOptions::default() };
    let mut fs = Ubifs::format(volume, &format, Behaviour::default()).map_err(|(error, _)| error.to_string())?;
    fs.sync().map_err(|error| error.to_string())?;
    Ok(fs)
}

/// Runs the step with its cuts and checks what is left. Returns the flash operations that recovery took.
fn run(moment: &Moment, id: CutId) -> Result<u64, String> {
    let mut fs = moment.fs.clone();
    let mut known = moment.known.clone();
    let nth = id.operation - moment.operations.start() + 1;
    order(fs.volume_mut().ubi_mut().mtd_mut(), nth, id.kind, id.seed ^ id.operation);
    let outcome = workload::run(&mut fs, &mut known, &moment.step, moment.number);
    let mut flash = fs.abandon().into_ubi().into_mtd();
    if !flash.is_lost() {
        return Err(format!("the step ended before the cut: {outcome:?}"));
    }
    flash.order(None);
    flash.power_on();
    let before = flash.operations();
    if let Some((operation, kind)) = id.second {
        order(&mut flash, operation, kind, id.seed ^ operation.rotate_left(8));
        flash = match mount(flash) {
            // What came to pass before the cut may be all.
            Ok(fs) => fs.abandon().into_ubi().into_mtd(),
            Err((what, flash)) if !flash.is_lost() => return Err(what),
            Err((_, flash)) => flash,
        };
        flash.order(None);
        flash.power_on();
    }
    let fs = mount(flash).map_err(|(what, _)| what)?;
    let recovery = operations(&fs) - before;
    check(moment, fs)?;
    Ok(recovery)
}

fn order(flash: &mut Device, operation: u64, kind: CutKind, seed: u64) {
    flash.order(Some(Cut { operation, kind, seed }));
}

/// Attaches and mounts as after a return of power.
fn mount(flash: Device) -> Result<Fs, (String, Device)> {
    let now = Instant::ZERO;
    let ubi = match Ubi::attach(flash, &AttachOptions { now, ..AttachOptions::default() }) {
        Ok(ubi) => ubi,
        Err(error) => return Err((format!("UBI does not attach: {}", error.fault), error.mtd)),
    };
    let Some(id) = ubi.id_of(b"data") else {
        return Err(("the volume has gone".to_owned(), ubi.into_mtd()));
    };
    let volume = match ubi.open_volume(id) {
        Ok(volume) => volume,
        Err((error, ubi)) => return Err((format!("the volume does not open: {error}"), ubi.into_mtd())),
    };
    let options = MountOptions { read_only: false, recover: true, forgiving: false };
    Ubifs::mount(volume, &options, Behaviour::default())
        .map_err(|(error, volume)| (format!("UBIFS does not mount: {error}"), volume.into_ubi().into_mtd()))
}

/// Compares what is there with what may be there, and makes sure that the filesystem can be used.
fn check(moment: &Moment, mut fs: Fs) -> Result<(), String> {
    let names = state::names(&mut fs).map_err(|error| format!("reading what is there: {error}"))?;
    if !moment.names.iter().any(|possible| **possible == names) {
        return Err(describe_names(&moment.names, &names));
    }
    for inode in regular_files(Some(&Arc::new(names))) {
        let found = state::file(&mut fs, inode).map_err(|error| format!("reading inode {inode}: {error}"))?;
        let refused = moment.files.get(&inode).map(|states| states.refuse(&found));
        if let Some(what) = refused.unwrap_or_else(|| Some("it was never made".to_owned())) {
            return Err(format!("inode {inode}: {what}"));
        }
    }
    use_it(&mut fs)?;
    let found = fs.check_space().map_err(|error| format!("checking space: {error}"))?;
    match found.first() {
        Some(first) => Err(format!("{first} ({} in all)", found.len())),
        None => Ok(()),
    }
}

/// A new file can be made and everything be brought to flash.
fn use_it(fs: &mut Fs) -> Result<(), String> {
    let file = NewFile { kind: NewKind::Regular, permissions: 0o600, uid: 0, gid: 0 };
    let root = fs.root();
    let used = fs.create(root, b"after the cut", &file).and_then(|inode| {
        fs.write(inode, 0, b"written after the cut")?;
        fs.sync()
    });
    used.map_err(|error| format!("using the filesystem: {error}"))
}

/// How the names differ from those that are nearest to them.
fn describe_names(possible: &[Arc<Names>], found: &Names) -> String {
    let differences = |names: &Names| {
        let gone = names.keys().filter(|path| names.get(*path) != found.get(*path)).count();
        gone + found.keys().filter(|path| !names.contains_key(*path)).count()
    };
    let Some(nearest) = possible.iter().min_by_key(|names| differences(names)) else {
        return "no names are possible".to_owned();
    };
    let path = nearest.keys().chain(found.keys()).find(|path| nearest.get(*path) != found.get(*path));
    let shown = path.map(|path| String::from_utf8_lossy(path).into_owned()).unwrap_or_default();
    let at = |names: &Names| path.and_then(|path| names.get(path)).map_or("nothing".to_owned(), |named| format!("{named:?}"));
    format!("names of no moment that is possible; nearest to one, {shown:?} should be {} and is {}", at(nearest), at(found))
}

fn kind_number(kind: CutKind) -> u64 {
    CutKind::ALL.into_iter().take_while(|other| *other != kind).count() as u64
}
