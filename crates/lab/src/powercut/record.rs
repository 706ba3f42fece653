//! Recording of the workload without a cut, with everything that is needed to cut it anywhere.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::expected::{FileNow, FileStates, Tree};
use super::filesystem::{Device, Fs, Recipe, Variant, operations};
use super::workload::{self, Durable, LiveFiles, Step};
use floatgate_sim::machine::FilesystemKind;
use floatgate_stack::fs::Rename;

/// Reason why a workload cannot be explored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// The workload fails without a cut.
    #[error("the workload fails without a cut, at step {step}: {what}")]
    Failed {
        /// Number of the step, from 0.
        step: usize,
        /// Description of the failure.
        what: String,
    },
    /// The workload has no operation to cut: all its changes were still in memory at its end.
    #[error("the workload has {steps} and not one flash operation: there is nothing to cut", steps = steps_text(*.0))]
    NoOperations(usize),
}

fn steps_text(count: usize) -> String {
    format!("{count} {}", if count == 1 { "step" } else { "steps" })
}

impl WorkloadError {
    /// Error if the flash or the filesystem on it cannot be created.
    pub(super) const fn at_start(what: String) -> Self {
        Self::Failed { step: 0, what }
    }
}

/// Recording of a workload.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) recipe: Recipe,
    pub(super) seed: u64,
    pub(super) moments: Vec<Moment>,
    /// Number of flash operations of all steps.
    pub(super) operations: u64,
    /// The filesystem after the last step.
    pub(super) last: Fs,
    pub(super) last_live_files: LiveFiles,
}

/// The filesystem before a step, and the possible states after a power cut during it.
#[derive(Debug)]
pub(super) struct Moment {
    pub(super) fs: Fs,
    pub(super) live_files: LiveFiles,
    pub(super) step: Step,
    pub(super) number: usize,
    /// Numbers of the flash operations of the step, counted from the start of the workload.
    pub(super) operations: RangeInclusive<u64>,
    /// Names at every moment since the last sync, up to the state after the step.
    pub(super) trees: Vec<Arc<Tree>>,
    /// Possible states of each regular file, including the state after the step.
    pub(super) files: BTreeMap<u32, Arc<FileStates>>,
}

/// Creates a filesystem, runs the workload, and copies the filesystem before every step.
pub(super) fn record(
    flash: Device,
    (fs, faults): (FilesystemKind, bool),
    seed: u64,
    steps: usize,
) -> Result<Recording, WorkloadError> {
    let mut variant = Variant::from_seed(seed);
    variant.sync &= fs == FilesystemKind::Ubifs;
    let recipe = Recipe { fs, variant, faults };
    let mut fs = recipe.make(flash, seed).map_err(WorkloadError::at_start)?;
    let mut recorder = Recorder::new(&mut fs, recipe.fs).map_err(WorkloadError::at_start)?;
    let start = operations(&fs);
    let mut live_files = LiveFiles::default();
    let mut moments = Vec::with_capacity(steps);
    for (number, step) in workload::steps(seed, steps).into_iter().enumerate() {
        let wrong = |what: String| WorkloadError::Failed { step: number, what };
        let before = (fs.clone(), live_files.clone());
        let first = operations(&fs) - start + 1;
        let (after, durable) =
            workload::run(fs, &recipe, &mut live_files, &step, number).map_err(|(what, _)| wrong(what))?;
        fs = after;
        recorder.note(&mut fs, &live_files, &step).map_err(wrong)?;
        let operations = first..=operations(&fs) - start;
        moments.push(recorder.moment(before, step, number, operations));
        recorder.note_durable(&mut fs, durable).map_err(wrong)?;
    }
    let operations = operations(&fs) - start;
    Ok(Recording { recipe, seed, moments, operations, last: fs, last_live_files: live_files })
}

impl Recording {
    /// Moment before the step that contains this flash operation.
    pub(super) fn moment_of(&self, operation: u64) -> Option<&Moment> {
        let index = self.moments.partition_point(|moment| *moment.operations.end() < operation);
        self.moments.get(index).filter(|moment| moment.operations.contains(&operation))
    }

    /// Filesystem after a step.
    pub(super) fn after(&self, step: usize) -> (&Fs, &LiveFiles) {
        self.moments
            .get(step + 1)
            .map_or((&self.last, &self.last_live_files), |moment| (&moment.fs, &moment.live_files))
    }
}

/// Tracks the possible states after a power cut.
struct Recorder {
    /// Kind of the filesystem, which determines which changes are atomic.
    kind: FilesystemKind,
    /// Names at every moment since the last sync.
    trees: Vec<Arc<Tree>>,
    /// Number of the first of these moments.
    base: usize,
    /// For each inode, the number of the moment at which its names last changed.
    changed_at: BTreeMap<u32, usize>,
    files: BTreeMap<u32, Arc<FileStates>>,
}

impl Recorder {
    fn new(fs: &mut Fs, kind: FilesystemKind) -> Result<Self, String> {
        let tree = Tree::read(fs).map_err(|error| error.to_string())?;
        let mut recorder =
            Self { kind, trees: Vec::new(), base: 0, changed_at: BTreeMap::new(), files: BTreeMap::new() };
        for inode in tree.files() {
            recorder.note_durable_file(fs, inode)?;
        }
        recorder.trees.push(Arc::new(tree));
        Ok(recorder)
    }

    /// Records that the state after a step is possible from now on.
    fn note(&mut self, fs: &mut Fs, live_files: &LiveFiles, step: &Step) -> Result<(), String> {
        let now = Tree::read(fs).map_err(|error| error.to_string())?;
        let exchange = matches!(step, Step::Rename { how: Rename::Exchange, .. });
        let number = self.base + self.trees.len();
        if let Some(before) = self.trees.last() {
            let touched = now.touched(before, exchange);
            self.changed_at.extend(touched.into_iter().map(|inode| (inode, number)));
        }
        // A file without a name may have had one at a moment that is still possible.
        for inode in now.files().chain(live_files.open()) {
            let file = FileNow::read(fs, inode).map_err(|error| error.to_string())?;
            let of_bytes = self.kind == FilesystemKind::Jffs2;
            let states = self.files.entry(inode).or_insert_with(|| Arc::new(FileStates::new(of_bytes)));
            if states.is_news(&file) {
                Arc::make_mut(states).change(&file);
            }
        }
        if self.kind == FilesystemKind::Jffs2
            && let (Step::Rename { .. }, Some(before)) = (step, self.trees.last())
            && let Some(between) = now.with_old_name(before)
        {
            // As in Linux, the new name exists before the old one is removed.
            self.trees.push(Arc::new(between));
        }
        self.trees.push(Arc::new(now));
        Ok(())
    }

    fn moment(
        &self,
        before: (Fs, LiveFiles),
        step: Step,
        number: usize,
        operations: RangeInclusive<u64>,
    ) -> Moment {
        let (fs, live_files) = before;
        let (trees, files) = (self.trees.clone(), self.files.clone());
        Moment { fs, live_files, step, number, operations, trees, files }
    }

    /// Records that the earlier states of synced data are no longer possible.
    fn note_durable(&mut self, fs: &mut Fs, durable: Durable) -> Result<(), String> {
        let last = self.base + self.trees.len() - 1;
        let of_inode = durable.inode.and_then(|inode| self.changed_at.get(&inode).copied());
        let names = if durable.all || durable.names { last } else { of_inode.unwrap_or(self.base) };
        let files: Vec<u32> = match durable.inode {
            _ if durable.all => self.files.keys().copied().collect(),
            inode => inode.into_iter().filter(|inode| self.files.contains_key(inode)).collect(),
        };
        if names > self.base {
            self.trees.drain(..names - self.base);
            self.base = names;
        }
        files.into_iter().try_for_each(|inode| self.note_durable_file(fs, inode))
    }

    fn note_durable_file(&mut self, fs: &mut Fs, inode: u32) -> Result<(), String> {
        match FileNow::read(fs, inode) {
            Ok(now) => {
                let of_bytes = self.kind == FilesystemKind::Jffs2;
                let states = self.files.entry(inode).or_insert_with(|| Arc::new(FileStates::new(of_bytes)));
                Arc::make_mut(states).set_durable(&now);
            }
            Err(floatgate_stack::fs::Error::NotFound) => drop(self.files.remove(&inode)),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }
}
