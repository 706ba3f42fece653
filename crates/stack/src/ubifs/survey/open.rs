//! Opening a filesystem that may be damaged.

use core::ops::Range;
use std::sync::Arc;

use floatgate_media::ubifs::{Limits, MASTER_LEB, SUPERBLOCK_LEB, SuperblockFlags};

use super::journal::{DamagedNode, inode_at, structure_at};
use super::problem::{Problem, Severity};
use super::scan::main_lebs;
use super::{LostKeys, Problems, Survey, Tree};
use crate::ubifs::auth::Authenticate;
use crate::ubifs::compress::Decompressor;
use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::{DynIo, Io};
use crate::ubifs::layout::Layout;
use crate::ubifs::mount::findings::{Choice, Findings};
use crate::ubifs::mount::superblock::{self, VolumeSuperblock};
use crate::ubifs::mount::{FormatOptions, MasterState, MountOptions, geometry, master};
use crate::ubifs::scan::{ScannedNode, scan, scan_all};
use crate::ubifs::structure::Structure;
use crate::volume::{Volume, VolumeGeometry};

const NOT_MOUNTED: &str = "Linux does not mount the filesystem";

/// Surveys a filesystem; `nameless` are LEBs with unknown number.
pub(super) fn survey<V: Volume + 'static>(
    mut volume: V,
    nameless: Range<u32>,
    authenticate: &Authenticate,
) -> core::result::Result<Survey<V>, (Error, V)> {
    let authenticate = authenticate.clone();
    // Nodes that a search finds are not authenticated.
    let searches = authenticate == Authenticate::No;
    let options = MountOptions {
        read_only: true,
        recover: true,
        forgiving: true,
        authenticate,
        ..MountOptions::default()
    };
    let mut problems = Problems::default();
    let found = match superblock_of(&mut volume, &mut problems) {
        Ok(found) => found,
        Err(error) => return Err((error, volume)),
    };
    let Some((found, is_whole)) = found else {
        if searches {
            return without_superblock(volume, nameless, problems);
        }
        return Err((Error::unauthentic(SUPERBLOCK_LEB, 0, "there is no superblock"), volume));
    };
    let outcome = match Core::mount_as(volume, &found, &options) {
        Ok(core) => mounted(core, &found, nameless, problems),
        Err((error, volume)) if is_fatal(&error) || !searches => Err((error, volume)),
        Err((error, volume)) => unmountable(volume, &found, nameless, &error, problems),
    };
    outcome.map(|mut survey| {
        if !is_whole {
            // Sizes in the superblock may be wrong, so data that contradicts them may be right.
            survey
                .problems
                .list
                .retain(|problem| !matches!(problem.structure, Structure::Lpt | Structure::Space));
        }
        Survey { mounts: survey.mounts && is_whole, ..survey }
    })
}

/// True if the volume failed or the requested authentication is impossible, so that the survey must end.
fn is_fatal(error: &Error) -> bool {
    match error {
        Error::Volume(_) => !error.is_damage(),
        Error::WrongAuthKey | Error::NotAuthenticated | Error::UnsupportedHash(_) => true,
        Error::SignedSuperblock => true,
        _ => false,
    }
}

/// Superblock, and whether it is undamaged.
pub(super) fn superblock_of(
    volume: &mut dyn Volume,
    problems: &mut Problems,
) -> Result<Option<(VolumeSuperblock, bool)>> {
    let error = match superblock::read(volume, true) {
        Ok(found) => match superblock::layout(&found.superblock, found.volume) {
            Ok(_) => {
                let is_good = note_sizes(&found, problems);
                return Ok(Some((found, is_good)));
            }
            Err(error) => error,
        },
        Err(error) if is_fatal(&error) => return Err(error),
        Err(error) => error,
    };
    problems.add(
        Problem::from_error(Severity::Damaged, Structure::Superblock, &error, NOT_MOUNTED)
            .at(SUPERBLOCK_LEB, 0),
    );
    let found = superblock::read_in_smaller_units(volume).or_else(|_| superblock::read_damaged(volume));
    Ok(found.ok().map(|found| (found, false)))
}

/// Reports values of a readable superblock that Linux rejects; returns false then. Reading tolerates sizes that are too
/// large.
fn note_sizes(found: &VolumeSuperblock, problems: &mut Problems) -> bool {
    let stored = &found.stored;
    // Checks the superblock at its maximum size, as on the largest volume.
    let Err(error) = stored.grown(stored.max_leb_count).check() else { return true };
    let problem = Problem::new(Severity::Damaged, Structure::Superblock, error.to_string(), NOT_MOUNTED);
    problems.add(problem.at(SUPERBLOCK_LEB, 0));
    false
}

/// Damage in the two LEBs of master nodes.
fn damaged_copies(io: &mut DynIo<'_>) -> Result<Vec<Error>> {
    let mut bad = Vec::new();
    for lnum in [MASTER_LEB, MASTER_LEB + 1] {
        let (leb, errors) = scan_all(io, lnum, 0)?;
        if leb.nodes.is_empty() && errors.is_empty() {
            bad.push(Error::corrupt(lnum, 0, "no master node"));
        }
        bad.extend(errors);
    }
    Ok(bad)
}

/// Reports damage of the master nodes; true if a newer one than the chosen one is damaged.
fn note_choice(io: &mut DynIo<'_>, choice: Choice, problems: &mut Problems) -> Result<bool> {
    let (severity, consequence) = match choice {
        Choice::Both => return Ok(false),
        Choice::PowerCut => (Severity::Recoverable, "the other copy of the master node counts"),
        Choice::Older => {
            (Severity::Damaged, "the node before counts: what a commit made durable since may be missing")
        }
        Choice::Undamaged => {
            (Severity::Damaged, "Linux does not mount the filesystem, although the other copy is good")
        }
        Choice::Newest => (Severity::Damaged, NOT_MOUNTED),
    };
    let bad = damaged_copies(io)?;
    if bad.is_empty() {
        let what = "the two copies differ";
        problems.add(Problem::new(severity, Structure::Master, what, consequence).at(MASTER_LEB, 0));
    }
    let rolled_back = choice == Choice::Older || choice == Choice::Newest && !bad.is_empty();
    for error in bad {
        let problem = Problem::from_error(severity, Structure::Master, &error, consequence);
        problems.add(Problem { is_older: rolled_back, ..problem });
    }
    Ok(rolled_back)
}

/// State according to the master node; `None` if it is only the newest remaining one.
fn believed(state: Option<MasterState>, choice: Choice, rolled_back: bool) -> Option<MasterState> {
    state.filter(|_| choice != Choice::Newest || !rolled_back)
}

pub(super) fn blank<V: Volume + 'static>(io: Io<V>, nameless: Range<u32>, problems: Problems) -> Survey<V> {
    Survey {
        io,
        decompressor: Decompressor::new(),
        tree: Default::default(),
        problems,
        lost: vec![LostKeys::ALL],
        nameless,
        superblock: None,
        master: None,
        mounts: false,
        is_past: false,
    }
}

/// Survey without a superblock: the areas are unknown, and all LEBs are searched.
fn without_superblock<V: Volume + 'static>(
    volume: V,
    nameless: Range<u32>,
    problems: Problems,
) -> core::result::Result<Survey<V>, (Error, V)> {
    let geometry = volume.geometry();
    // An image can be shorter than its filesystem.
    let whole = VolumeGeometry { lebs: geometry.lebs.max(geometry::MIN_LEBS), ..geometry };
    let layout = geometry::superblock(whole, &FormatOptions::default())
        .and_then(|superblock| superblock::layout(&superblock, whole));
    // The fault of the superblock says more than the fact that no other superblock was found.
    let first = problems.list.first().map(|problem| Error::Superblock(problem.description()));
    let layout = match layout {
        Ok(layout) => layout,
        Err(error) => return Err((first.unwrap_or(error), volume)),
    };
    let mut survey = blank(Io::new(volume, Arc::new(layout), true), nameless, problems);
    match (survey.rebuild(0..geometry.lebs), first) {
        (Ok(()), Some(error)) if survey.tree.files.is_empty() => Err((error, survey.into_volume())),
        (Ok(()), _) => Ok(survey),
        (Err(error), _) => Err((error, survey.into_volume())),
    }
}

/// Survey by a search of the main area, if master node or journal are unusable.
fn unmountable<V: Volume + 'static>(
    volume: V,
    found: &VolumeSuperblock,
    nameless: Range<u32>,
    error: &Error,
    mut problems: Problems,
) -> core::result::Result<Survey<V>, (Error, V)> {
    let layout: Layout = match superblock::layout(&found.superblock, found.volume) {
        Ok(layout) => layout,
        Err(error) => return Err((error, volume)),
    };
    let limits = layout.limits.clone();
    let mut io = Io::new(volume, Arc::new(layout), true);
    let state = match note_master(&mut io, &mut problems) {
        Ok(state) => state,
        Err(error) => return Err((error, io.into_volume())),
    };
    let known = problems.list.iter().any(|problem| problem.severity == Severity::Damaged);
    if state.is_some() || !known {
        let structure = error.place().map_or(Structure::Superblock, |(lnum, _)| area(&limits, lnum));
        problems.add(Problem::from_error(Severity::Damaged, structure, error, NOT_MOUNTED));
    }
    let mut survey = blank(io, nameless, problems);
    (survey.superblock, survey.master) = (Some(found.stored), state);
    let main = main_lebs(&mut survey.io);
    match survey.rebuild(main) {
        Ok(()) => Ok(survey),
        Err(error) => Err((error, survey.into_volume())),
    }
}

/// Reports damage of the master nodes of a filesystem that cannot be mounted, and returns their state.
fn note_master(io: &mut DynIo<'_>, problems: &mut Problems) -> Result<Option<MasterState>> {
    let mut findings = Findings::new(true);
    match master::read(io, &mut findings) {
        Ok(found) => {
            let rolled_back = note_choice(io, findings.choice, problems)?;
            Ok(believed(Some(found.state(findings.choice)), findings.choice, rolled_back))
        }
        Err(error) if is_fatal(&error) => Err(error),
        Err(_) => {
            for error in damaged_copies(io)? {
                problems.add(Problem::from_error(Severity::Damaged, Structure::Master, &error, NOT_MOUNTED));
            }
            Ok(None)
        }
    }
}

/// Area that a LEB belongs to; [`Structure::Index`] for the main area.
pub(super) fn area(limits: &Limits, lnum: u32) -> Structure {
    match lnum {
        SUPERBLOCK_LEB => Structure::Superblock,
        _ if lnum < limits.log.start => Structure::Master,
        _ if limits.log.contains(&lnum) => Structure::Log,
        _ if limits.lpt.contains(&lnum) => Structure::Lpt,
        _ if limits.orphans.contains(&lnum) => Structure::Orphans,
        _ => Structure::Index,
    }
}

fn mounted<V: Volume + 'static>(
    mut core: Core<V>,
    found: &VolumeSuperblock,
    nameless: Range<u32>,
    mut problems: Problems,
) -> core::result::Result<Survey<V>, (Error, V)> {
    let choice = core.findings.choice;
    let rolled_back = match core.findings.errors().find(|error| is_fatal(error)).cloned() {
        Some(error) => Err(error),
        None => note_choice(&mut core.io, choice, &mut problems),
    };
    let rolled_back = match rolled_back {
        Ok(rolled_back) => rolled_back,
        Err(error) => return Err((error, core.into_volume())),
    };
    let state = believed(core.findings.state, choice, rolled_back);
    if found.stored.has(SuperblockFlags::SPACE_FIXUP) {
        let what = "the free space has to be erased properly";
        let consequence = "the first mount for writing does so, as is usual for a new image";
        problems.add(
            Problem::new(Severity::Note, Structure::Superblock, what, consequence).at(SUPERBLOCK_LEB, 0),
        );
    }
    let mounts = core.findings.notes.is_empty();
    let hits = note_damage(&mut core, &mut problems);
    let outcome = note_state(&mut core, state, mounts, &mut problems)
        .and_then(|unlogged| Ok((unlogged, super::leaves::collect(&mut core, &mut problems)?)));
    let (unlogged, (tree, lost, decompressor)) = match outcome {
        Ok(collected) => collected,
        Err(error) => return Err((error, core.into_volume())),
    };
    note_highest(core.highest_inode, &tree, &mut problems);
    if let Err(error) = super::space::check(&mut core, mounts && lost.is_empty(), &mut problems) {
        return Err((error, core.into_volume()));
    }
    // Missing LEBs may be among the nameless ones, except journal LEBs.
    let of_journal = |problem: &Problem| {
        let journal = matches!(problem.structure, Structure::Log | Structure::Journal | Structure::Master);
        journal && problem.severity == Severity::Damaged
    };
    let whole = nameless.is_empty() && !problems.list.iter().any(of_journal);
    let newer_than = (!whole || unlogged).then_some((core.master.commit, core.master.log_lnum));
    // LEBs of an older index may have been rewritten. In that case the nodes themselves are more reliable.
    let is_stale = rolled_back && (!mounts || !lost.is_empty());
    let verifies = core.verifier.is_some();
    let mut survey = Survey {
        io: core.io,
        decompressor,
        tree,
        problems,
        lost,
        nameless,
        superblock: Some(found.stored),
        master: state,
        mounts,
        is_past: false,
    };
    if verifies {
        survey.check_names();
        return Ok(survey);
    }
    if !is_stale {
        let outcome = hits.iter().try_for_each(|hit| survey.record_lost_node(hit));
        return match outcome {
            Ok(()) => survey.finish(newer_than),
            Err(error) => Err((error, survey.into_volume())),
        };
    }
    survey.tree = Default::default();
    survey
        .problems
        .list
        .retain(|problem| matches!(problem.structure, Structure::Master | Structure::Superblock));
    let main = main_lebs(&mut survey.io);
    match survey.rebuild(main) {
        Ok(()) => Ok(survey),
        Err(error) => Err((error, survey.into_volume())),
    }
}

/// Reports damage found by the mount; returns the damaged nodes of the journal.
fn note_damage(core: &mut Core<dyn Volume>, problems: &mut Problems) -> Vec<DamagedNode> {
    let limits = core.io.layout().limits.clone();
    let is_in = |error: &Error, structure: Structure| {
        error.place().is_some_and(|(lnum, _)| area(&limits, lnum) == structure)
    };
    let has_master = problems.list.iter().any(|problem| problem.structure == Structure::Master);
    let has_lpt = core.findings.errors().any(|error| is_in(error, Structure::Lpt));
    let mut hits = Vec::new();
    for note in core.findings.notes.clone() {
        let (error, place) = (&note.error, note.error.place());
        let at_place =
            place.map_or(Structure::Superblock, |(lnum, offset)| structure_at(core, &limits, lnum, offset));
        let structure = note.structure.unwrap_or(at_place);
        // A consequence of a damaged LPT is not reported again at another place.
        let follows = has_lpt && note.structure == Some(Structure::Lpt) && is_in(error, Structure::Index);
        if structure == Structure::Master && has_master || follows {
            continue;
        }
        let mut problem = Problem::from_error(Severity::Damaged, structure, error, NOT_MOUNTED);
        problem.inodes = place.and_then(|(lnum, offset)| inode_at(core, lnum, offset));
        match place.and_then(|(lnum, offset)| DamagedNode::at(core, lnum, offset)) {
            Some(hit) => {
                problems.add(hit.name(problem));
                let more = hit.more_is_lost(core, error, NOT_MOUNTED);
                more.into_iter().for_each(|problem| problems.add(problem));
                hits.push(hit);
            }
            None => problems.add(problem),
        }
    }
    hits
}

/// Reports an inode number above the highest one that the filesystem knows: new files could get the same number.
fn note_highest(known: u64, tree: &Tree, problems: &mut Problems) {
    let Some(&highest) = tree.files.keys().next_back().filter(|&&highest| u64::from(highest) > known) else {
        return;
    };
    let what = format!("the highest inode is said to be {known}, but there is inode {highest}");
    let consequence = "new files take the numbers of others, and overwrite them";
    problems.add(Problem::new(Severity::Damaged, Structure::Master, what, consequence));
}

impl<V: Volume + 'static> Survey<V> {
    /// Completes the tree by a search and checks names. `newer_than` is set if the journal could not be read
    /// completely: the last commit, and the LEB in which its log starts.
    fn finish(mut self, newer_than: Option<(u64, u32)>) -> core::result::Result<Self, (Error, V)> {
        let outcome = self.fill_gaps(newer_than).and_then(|()| self.read_inodes());
        if let Err(error) = outcome {
            return Err((error, self.into_volume()));
        }
        self.check_names();
        Ok(self)
    }
}

impl Survey<dyn Volume> {
    /// Builds the tree only from the nodes in these LEBs.
    fn rebuild(&mut self, lebs: Range<u32>) -> Result<()> {
        self.lost = vec![LostKeys::ALL];
        let events = super::scan::find_events(&mut self.io, lebs.chain(self.nameless.clone()))?;
        events.iter().for_each(|event| self.tree.apply(event));
        self.read_inodes()?;
        self.check_names();
        Ok(())
    }
}

/// Reports a journal to be replayed, and the remains of a power cut at the ends of LEBs. True if a part of the journal
/// is not in the log.
fn note_state(
    core: &mut Core<dyn Volume>,
    state: Option<MasterState>,
    mounts: bool,
    problems: &mut Problems,
) -> Result<bool> {
    let limits = core.io.layout().limits.clone();
    note_missing_buds(core, problems)?;
    if !state.is_some_and(|state| state.dirty) {
        let areas = limits.orphans.map(|lnum| (lnum, 0));
        note_ends(core, areas.collect(), problems)?;
        return Ok(false);
    }
    let buds = core.log.buds().len();
    let plural = if buds == 1 { "" } else { "s" };
    let what =
        format!("the filesystem was not unmounted: {buds} LEB{plural} of the journal must be replayed");
    problems.add(Problem::new(
        Severity::Recoverable,
        Structure::Journal,
        what,
        "the next mount does so; one that only reads does it in memory",
    ));
    if !mounts {
        return Ok(false);
    }
    let log_ends = note_ends(core, limits.log.map(|lnum| (lnum, 0)).collect(), problems)?;
    let buds = core.log.buds().iter().map(|(&lnum, bud)| (lnum, bud.start));
    let starts = limits.orphans.map(|lnum| (lnum, 0)).chain(buds).collect();
    note_ends(core, starts, problems)?;
    if log_ends == 0 { Ok(false) } else { note_unlogged(core, problems) }
}

/// Reports journal LEBs that are not mapped. Linux maps a LEB before the log references it (`ubifs_add_bud_to_log`).
fn note_missing_buds(core: &mut Core<dyn Volume>, problems: &mut Problems) -> Result<()> {
    let buds: Vec<(u32, u32)> = core.log.buds().iter().map(|(&lnum, bud)| (lnum, bud.start)).collect();
    for (lnum, start) in buds {
        if !core.io.is_mapped(lnum)? {
            let what = "a LEB of the journal is missing";
            let consequence = "the last changes, which it held, are lost";
            let problem = Problem::new(Severity::Damaged, Structure::Journal, what, consequence);
            problems.add(problem.at(lnum, start));
        }
    }
    Ok(())
}

/// Reports the remains of a power cut at the ends of LEBs, each from an offset on; returns their number.
fn note_ends(core: &mut Core<dyn Volume>, starts: Vec<(u32, u32)>, problems: &mut Problems) -> Result<usize> {
    let limits = core.io.layout().limits.clone();
    let mut ends = 0;
    for (lnum, start) in starts {
        let error = match scan(&mut core.io, lnum, start) {
            Ok(_) => continue,
            Err(error) if error.is_damage() => error,
            Err(error) => return Err(error),
        };
        ends += 1;
        let structure = match area(&limits, lnum) {
            Structure::Index => Structure::Journal,
            area => area,
        };
        let consequence = "what a power cut leaves: the next mount for writing cleans it";
        problems.add(Problem::from_error(Severity::Recoverable, structure, &error, consequence));
    }
    Ok(ends)
}

/// Reports damage at the end of the log. The damaged part can be the last write, or a reference to a LEB. In the second
/// case, a LEB that the log does not list was written after the last commit.
fn note_unlogged(core: &mut Core<dyn Volume>, problems: &mut Problems) -> Result<bool> {
    let tail = core.master.log_lnum;
    let start = scan_all(&mut core.io, tail, 0)?.0.nodes.first().map(|node| node.stamp.sqnum);
    let Some(start) = start else { return Ok(false) };
    let mut unlogged = false;
    for lnum in main_lebs(&mut core.io) {
        if core.log.buds().contains_key(&lnum) {
            continue;
        }
        let (leb, _) = scan_all(&mut core.io, lnum, 0)?;
        let newer = |node: &&ScannedNode| node.stamp.sqnum > start && node.key.is_some();
        let Some(node) = leb.nodes.iter().find(newer) else { continue };
        unlogged = true;
        let what = "written after the last commit, but the log does not name this LEB";
        let consequence = "Linux mounts the filesystem without what the LEB holds";
        let problem = Problem::new(Severity::Damaged, Structure::Log, what, consequence);
        problems.add(problem.at(lnum, node.place.offset));
    }
    Ok(unlogged)
}
