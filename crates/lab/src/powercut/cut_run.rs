//! One run: up to the power cut, through recovery, and the check of the remaining state.

use std::panic::{AssertUnwindSafe, catch_unwind};

use floatgate_mtd::power_cut::Cut;
use floatgate_stack::fs::{Error, FileSystem, Name, NewFile, NewKind, Rename};

use super::expected::{FileNow, Tree};
use super::filesystem::{BALLAST, Device, Fs, Recipe, operations};
use super::id::{CutAt, End};
use super::record::{Moment, Recording};
use super::workload;
use floatgate_image::words::count;
use floatgate_mtd::random::Random;
use floatgate_sim::machine::FilesystemKind;

/// State of the names after a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecoveredState {
    /// State of an earlier moment that was still possible.
    Earlier,
    /// State before the step.
    Before,
    /// State after the step.
    After,
}

/// Result of a run without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recovered {
    /// Number of cuts that happened.
    pub(super) cuts: u64,
    /// Number of flash operations of the last recovery, which was not cut.
    pub(super) operations: u64,
    pub(super) state: RecoveredState,
    /// Number of bad PEBs at the end.
    pub(super) bad_pebs: u32,
}

/// Runs a step to its end, and checks the remaining state.
///
/// # Errors
/// Description of the failure; a panic counts as one.
pub(super) fn run(recording: &Recording, end: &End) -> Result<Recovered, String> {
    let run = || match end {
        End::Cuts(cuts) => run_cuts(recording, cuts),
        End::Unmount(step) => run_unmount(recording, *step),
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!("panic: {text}"))
    })
}

fn run_cuts(recording: &Recording, cuts: &[CutAt]) -> Result<Recovered, String> {
    let (first, again) = cuts.split_first().ok_or("no cut is given")?;
    let moment = recording.moment_of(first.operation);
    let moment =
        moment.ok_or_else(|| format!("the workload has only {} operations", recording.operations))?;
    let mut flash = cut_step(recording, moment, *first)?;
    let mut done = 1;
    for (number, cut) in again.iter().enumerate() {
        flash = cut_recovery(recording, flash, *cut, number as u64 + 1)?;
        done += u64::from(flash.is_lost());
        power_on(&mut flash)?;
    }
    let before = flash.operations();
    let mut fs = recording.recipe.mount(flash).map_err(|(what, _)| what)?;
    let operations = operations(&fs) - before;
    let state = compare(recording.recipe.fs, moment, &mut fs)?;
    let bad_pebs = go_on(&recording.recipe, fs, recording.seed ^ first.operation, done)?;
    Ok(Recovered { cuts: done, operations, state, bad_pebs })
}

fn cut_step(recording: &Recording, moment: &Moment, cut: CutAt) -> Result<Device, String> {
    let (mut fs, mut live_files) = (moment.fs.clone(), moment.live_files.clone());
    let nth = cut.operation - moment.operations.start() + 1;
    order(fs.device_mut(), CutAt { operation: nth, ..cut }, recording.seed ^ cut.operation);
    let ended = workload::run(fs, &recording.recipe, &mut live_files, &moment.step, moment.number);
    let (mut flash, what) = match ended {
        Ok((fs, _)) => (fs.abandon(), "without an error".to_owned()),
        Err((what, flash)) => (flash, what),
    };
    if !flash.is_lost() {
        return Err(format!("the step ended before the cut: {what}"));
    }
    power_on(&mut flash)?;
    Ok(flash)
}

/// Mounts until the requested cut. If the mount ends before it, the flash is returned without an unmount.
fn cut_recovery(recording: &Recording, mut flash: Device, cut: CutAt, number: u64) -> Result<Device, String> {
    order(&mut flash, cut, recording.seed ^ cut.operation.rotate_left(8) ^ number.rotate_left(16));
    match recording.recipe.mount(flash) {
        Ok(fs) => Ok(fs.abandon()),
        Err((what, flash)) if !flash.is_lost() => Err(format!("before cut {}: {what}", number + 1)),
        Err((_, flash)) => Ok(flash),
    }
}

fn order(flash: &mut Device, cut: CutAt, seed: u64) {
    let seed = Random::numbered(seed, u64::from(cut.tear)).bits();
    flash.order(Some(Cut { operation: cut.operation, kind: cut.kind, seed }));
}

fn power_on(flash: &mut Device) -> Result<(), String> {
    flash.order(None);
    flash.power_on().map_err(|what| format!("the chip cannot be driven any more: {what}"))
}

/// Compares the found state with the possible states.
fn compare(kind: FilesystemKind, moment: &Moment, fs: &mut Fs) -> Result<RecoveredState, String> {
    let tree = Tree::read(fs).map_err(|error| format!("reading names: {error}"))?;
    let Some(back) = moment.trees.iter().rev().position(|possible| **possible == tree) else {
        return Err(tree.describe(&moment.trees));
    };
    for inode in tree.files() {
        let found = FileNow::read(fs, inode).map_err(|error| format!("reading inode {inode}: {error}"))?;
        let refused = moment.files.get(&inode).map(|states| states.refuse(&found));
        if let Some(what) = refused.unwrap_or_else(|| Some("it was never made".to_owned())) {
            return Err(format!("inode {inode}: {what}"));
        }
    }
    sound(kind, fs, &tree)?;
    Ok([RecoveredState::After, RecoveredState::Before].get(back).copied().unwrap_or(RecoveredState::Earlier))
}

/// Checks that names and inodes agree, and that no inode lacks a name.
fn sound(kind: FilesystemKind, fs: &mut Fs, tree: &Tree) -> Result<(), String> {
    let is_ubifs = kind == FilesystemKind::Ubifs;
    // The root directory of JFFS2 has one more link in Linux.
    let extra = u32::from(!is_ubifs);
    if let Some(wrong) = tree.wrong_links(fs.root(), extra) {
        return Err(wrong);
    }
    let found = fs.inodes().map_err(|error| format!("reading the index: {error}"))?.len();
    let named = tree.inode_count(is_ubifs);
    if found != named {
        return Err(format!("the index has {found} inodes, names and attributes lead to {named}"));
    }
    Ok(())
}

/// Unmounts after a step: the complete state must then exist.
fn run_unmount(recording: &Recording, step: usize) -> Result<Recovered, String> {
    let (fs, live_files) = recording.after(step);
    let (mut fs, mut open) = (fs.clone(), live_files.open());
    open.try_for_each(|inode| fs.close(inode)).map_err(|error| format!("closing a file: {error}"))?;
    let before = Everything::read(&mut fs)?;
    let flash = Recipe::unmount(fs).map_err(|(what, _)| what)?;
    let count = flash.operations();
    let mut fs = recording.recipe.mount(flash).map_err(|(what, _)| what)?;
    let operations = operations(&fs) - count;
    before.require(&mut fs)?;
    sound(recording.recipe.fs, &mut fs, &before.tree)?;
    let bad_pebs = go_on(&recording.recipe, fs, recording.seed ^ step as u64, 0)?;
    Ok(Recovered { cuts: 0, operations, state: RecoveredState::After, bad_pebs })
}

/// All names and files of a filesystem.
struct Everything {
    tree: Tree,
    files: Vec<(u32, FileNow)>,
}

impl Everything {
    fn read(fs: &mut Fs) -> Result<Self, String> {
        let wrong = |error: Error| format!("reading everything: {error}");
        let tree = Tree::read(fs).map_err(wrong)?;
        let read = |inode| FileNow::read(fs, inode).map(|file| (inode, file));
        let files: Result<Vec<_>, _> = tree.files().map(read).collect();
        Ok(Self { files: files.map_err(wrong)?, tree })
    }

    /// Checks that another mount shows the same state.
    fn require(&self, fs: &mut Fs) -> Result<(), String> {
        let now = Self::read(fs)?;
        if now.tree != self.tree {
            return Err(format!("mounted again: {}", now.tree.describe(&[self.tree.clone().into()])));
        }
        match now.files.iter().zip(&self.files).find(|(now, before)| now != before) {
            Some(((inode, _), _)) => Err(format!("mounted again: inode {inode} is another")),
            None => Ok(()),
        }
    }
}

/// Checks that the filesystem can be used and mounted again, and that all its space is available. Returns the
/// number of bad PEBs.
fn go_on(recipe: &Recipe, mut fs: Fs, seed: u64, cuts: u64) -> Result<u32, String> {
    use_it(&mut *fs, seed).map_err(|error| format!("using the filesystem: {error}"))?;
    adds_up(&mut fs, cuts)?;
    let before = Everything::read(&mut fs)?;
    // In half of the runs the filesystem is not unmounted, because everything is on flash.
    let flash = if Random::new(seed).once_in(2) {
        fs.abandon()
    } else {
        Recipe::unmount(fs).map_err(|(what, _)| what)?
    };
    let mut fs = recipe.mount(flash).map_err(|(what, _)| format!("mounting again: {what}"))?;
    before.require(&mut fs)?;
    Ok(fs.census().bad)
}

/// Creates, writes and renames a file, removes an old one, and syncs.
fn use_it(fs: &mut dyn FileSystem, seed: u64) -> Result<(), Error> {
    let file = NewFile { kind: NewKind::Regular, permissions: 0o600, uid: 0, gid: 0 };
    let root = fs.root();
    let name = |name| Name { directory: root, name };
    // Frees space for the file, if necessary.
    match fs.unlink(root, BALLAST) {
        Ok(()) | Err(Error::NotFound) => {}
        Err(error) => return Err(error),
    }
    let inode = fs.create(root, b"after the cut", &file)?;
    let mut random = Random::new(seed);
    let data: Vec<u8> = (0..5000).map(|_| random.bits() as u8).collect();
    fs.write(inode, random.below(5000), &data)?;
    fs.rename(name(b"after the cut"), name(b"still there"), Rename::Replace)?;
    fs.sync()
}

/// Checks that the space of every LEB is known, and that no PEB is lost. Everything was synced before.
///
/// A cut may leave one PEB that is set aside. It holds an unmapped LEB that reappeared, because power was cut
/// at the very start of its erase. If its data is unreadable, it is erased when the LEB is used again. If
/// only its VID header is unreadable, UBI keeps the PEB for inspection, as Linux does.
fn adds_up(fs: &mut Fs, cuts: u64) -> Result<(), String> {
    let found = fs.check().map_err(|error| format!("checking space: {error}"))?;
    if let Some(first) = found.first() {
        return Err(format!("{first} ({} in all)", found.len()));
    }
    let census = fs.census();
    if let Some(lost) = census.lost {
        return Err(lost);
    }
    if census.aside > cuts {
        return Err(format!("PEBs set aside: {}, after {}", census.aside, count(cuts, "cut")));
    }
    Ok(())
}
