//! Opening a filesystem that may be damaged.

use std::sync::Arc;

use floatgate_media::ubifs::{Key, MasterFlags, SUPERBLOCK_LEB};

use super::problem::{Problem, Severity, Structure};
use super::{Lost, Problems, Survey};
use crate::ubifs::auth::Authenticate;
use crate::ubifs::compress::Decompressor;
use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::Io;
use crate::ubifs::layout::Layout;
use crate::ubifs::mount::master::Choice;
use crate::ubifs::mount::superblock::{self, Found};
use crate::ubifs::mount::{Damage, FormatOptions, MasterState, MountOptions, geometry, master};
use crate::ubifs::scan::{scan, scan_all};
use crate::volume::Volume;

const NOT_MOUNTED: &str = "Linux does not mount the filesystem";

pub(super) fn survey<V: Volume>(
    mut volume: V,
    authenticate: &Authenticate,
) -> core::result::Result<Survey<V>, (Error, V)> {
    let authenticate = authenticate.clone();
    let read = MountOptions { read_only: true, recover: true, authenticate, ..MountOptions::default() };
    let mut problems = Problems::default();
    let found = match superblock_of(&mut volume, &mut problems) {
        Ok(found) => found,
        Err(error) => return Err((error, volume)),
    };
    let Some((found, is_whole)) = found else { return without_superblock(volume, problems) };
    let state = match master_of(&mut volume, &found, &mut problems) {
        Ok(state) => state,
        Err(error) => return Err((error, volume)),
    };
    let strict = Core::<&mut V>::mount_as(&mut volume, &found, &read).map(drop).map_err(|(error, _)| error);
    if let Err(error) = &strict
        && is_fatal(error)
    {
        return Err((error.clone(), volume));
    }
    let mounts = strict.is_ok() && is_whole;
    match Core::mount_as(volume, &found, &MountOptions { forgiving: true, ..read }) {
        Ok(core) => mounted(core, &found, state, strict.err(), mounts, problems),
        Err((error, volume)) if is_fatal(&error) => Err((error, volume)),
        Err((error, volume)) => unmountable(volume, &found, state, &error, problems),
    }
}

/// Whether the volume itself failed, so that nothing more can be found out, or cannot be authenticated as asked.
fn is_fatal(error: &Error) -> bool {
    match error {
        Error::Volume(_) => !error.is_damage(),
        Error::WrongAuthKey | Error::NotAuthenticated | Error::UnsupportedHash(_) => true,
        Error::SignedSuperblock => true,
        _ => false,
    }
}

/// The superblock, and whether it is undamaged.
fn superblock_of<V: Volume>(volume: &mut V, problems: &mut Problems) -> Result<Option<(Found, bool)>> {
    let error = match superblock::read(volume, true) {
        Ok(found) => match superblock::layout(&found.superblock, found.volume) {
            Ok(_) => return Ok(Some((found, true))),
            Err(error) => error,
        },
        Err(error) if is_fatal(&error) => return Err(error),
        Err(error) => error,
    };
    problems.add(
        Problem::of(Severity::Damaged, Structure::Superblock, &error, NOT_MOUNTED).at(SUPERBLOCK_LEB, 0),
    );
    Ok(superblock::read_damaged(volume).ok().map(|found| (found, false)))
}

/// The state in the master node, and what is wrong with its copies.
fn master_of<V: Volume>(
    volume: &mut V,
    found: &Found,
    problems: &mut Problems,
) -> Result<Option<MasterState>> {
    let layout = superblock::layout(&found.superblock, found.volume)?;
    let mut io = Io::new(volume, Arc::new(layout), true);
    let (severity, what, consequence) = match master::read(&mut io, &mut Damage::default()) {
        Ok(found) => {
            let flags = found.master.flags;
            let state =
                MasterState { commit: found.master.commit, dirty: flags.contains(MasterFlags::DIRTY) };
            note_choice(&mut io, found.choice, problems)?;
            return Ok(Some(state));
        }
        Err(error) if is_fatal(&error) => return Err(error),
        Err(error) => (Severity::Damaged, error, NOT_MOUNTED),
    };
    let bad = damaged_copies(&mut io)?;
    if bad.is_empty() {
        problems.add(Problem::of(severity, Structure::Master, &what, consequence));
    }
    for error in bad {
        problems.add(Problem::of(severity, Structure::Master, &error, consequence));
    }
    Ok(None)
}

/// What is damaged in the two LEBs of master nodes.
fn damaged_copies<V: Volume>(io: &mut Io<V>) -> Result<Vec<Error>> {
    let mut bad = Vec::new();
    for lnum in [floatgate_media::ubifs::MASTER_LEB, floatgate_media::ubifs::MASTER_LEB + 1] {
        let (leb, errors) = scan_all(io, lnum, 0)?;
        if leb.nodes.is_empty() && errors.is_empty() {
            bad.push(Error::corrupt(lnum, 0, "no master node"));
        }
        bad.extend(errors);
    }
    Ok(bad)
}

fn note_choice<V: Volume>(io: &mut Io<V>, choice: Choice, problems: &mut Problems) -> Result<()> {
    let (severity, consequence) = match choice {
        Choice::Both => return Ok(()),
        Choice::PowerCut => (Severity::Recoverable, "the other copy of the master node counts"),
        Choice::Undamaged | Choice::Newest => {
            (Severity::Damaged, "Linux does not mount the filesystem, although the other copy is good")
        }
    };
    let bad = damaged_copies(io)?;
    if bad.is_empty() {
        let what = "the two copies differ";
        problems.add(
            Problem::new(severity, Structure::Master, what, consequence)
                .at(floatgate_media::ubifs::MASTER_LEB, 0),
        );
    }
    for error in bad {
        problems.add(Problem::of(severity, Structure::Master, &error, consequence));
    }
    Ok(())
}

fn blank<V: Volume>(io: Io<V>, problems: Problems) -> Survey<V> {
    Survey {
        io,
        decompressor: Decompressor::new(),
        tree: Default::default(),
        problems,
        lost: vec![Lost { from: Key::from_bits(0), to: Key::from_bits(u64::MAX), exactly: None }],
        superblock: None,
        master: None,
        mounts: false,
    }
}

/// All that nodes say when there is no superblock: areas are not known.
fn without_superblock<V: Volume>(
    volume: V,
    problems: Problems,
) -> core::result::Result<Survey<V>, (Error, V)> {
    let geometry = volume.geometry();
    let layout = geometry::superblock(geometry, &FormatOptions::default())
        .and_then(|superblock| superblock::layout(&superblock, geometry));
    let layout = match layout {
        Ok(layout) => layout,
        Err(error) => return Err((error, volume)),
    };
    let mut survey = blank(Io::new(volume, Arc::new(layout), true), problems);
    match survey.rebuild(0..geometry.lebs) {
        Ok(()) => Ok(survey),
        Err(error) => Err((error, survey.into_volume())),
    }
}

/// All that nodes of the main area say when master node or journal are beyond use.
fn unmountable<V: Volume>(
    volume: V,
    found: &Found,
    state: Option<MasterState>,
    error: &Error,
    mut problems: Problems,
) -> core::result::Result<Survey<V>, (Error, V)> {
    let layout: Layout = match superblock::layout(&found.superblock, found.volume) {
        Ok(layout) => layout,
        Err(error) => return Err((error, volume)),
    };
    let known = problems.list.iter().any(|problem| problem.severity == Severity::Damaged);
    if state.is_some() || !known {
        let structure = error.place().map_or(Structure::Superblock, |(lnum, _)| area(&layout, lnum));
        problems.add(Problem::of(Severity::Damaged, structure, error, NOT_MOUNTED));
    }
    let main = layout.limits.main.clone();
    let mut survey = blank(Io::new(volume, Arc::new(layout), true), problems);
    (survey.superblock, survey.master) = (Some(found.stored), state);
    match survey.rebuild(main) {
        Ok(()) => Ok(survey),
        Err(error) => Err((error, survey.into_volume())),
    }
}

/// The area a LEB belongs to; [`Structure::Index`] for the main area.
pub(super) fn area(layout: &Layout, lnum: u32) -> Structure {
    let limits = &layout.limits;
    match lnum {
        SUPERBLOCK_LEB => Structure::Superblock,
        _ if lnum < limits.log.start => Structure::Master,
        _ if limits.log.contains(&lnum) => Structure::Log,
        _ if limits.lpt.contains(&lnum) => Structure::Lpt,
        _ if limits.orphans.contains(&lnum) => Structure::Orphans,
        _ => Structure::Index,
    }
}

fn mounted<V: Volume>(
    mut core: Core<V>,
    found: &Found,
    state: Option<MasterState>,
    refused: Option<Error>,
    mounts: bool,
    mut problems: Problems,
) -> core::result::Result<Survey<V>, (Error, V)> {
    let layout = core.io.layout().clone();
    let mut notes = core.damage.notes.clone();
    if let Some(error) = &refused
        && !notes.contains(error)
    {
        notes.insert(0, error.clone());
    }
    let has_master = problems.list.iter().any(|problem| problem.structure == Structure::Master);
    for error in &notes {
        let structure = error
            .place()
            .map_or(Structure::Superblock, |(lnum, offset)| structure_at(&mut core, &layout, lnum, offset));
        if structure == Structure::Master && has_master {
            continue;
        }
        let consequence = if refused.is_some() { NOT_MOUNTED } else { "it is left out" };
        problems.add(Problem::of(Severity::Damaged, structure, error, consequence));
    }
    let outcome = note_state(&mut core, state, mounts, &mut problems)
        .and_then(|()| super::leaves::collect(&mut core, &mut problems));
    let (tree, lost, decompressor) = match outcome {
        Ok(collected) => collected,
        Err(error) => return Err((error, core.into_volume())),
    };
    if let Err(error) = super::space::check(&mut core, mounts && lost.is_empty(), &mut problems) {
        return Err((error, core.into_volume()));
    }
    let commit = if refused.is_some() { core.master.commit } else { 0 };
    let survey = Survey {
        io: core.io,
        decompressor,
        tree,
        problems,
        lost,
        superblock: Some(found.stored),
        master: state,
        mounts,
    };
    survey.finish(refused.is_some().then_some(commit))
}

impl<V: Volume> Survey<V> {
    /// Fills gaps of the tree and checks names; `newer_than` is the commit behind which the journal could not be read whole.
    fn finish(mut self, newer_than: Option<u64>) -> core::result::Result<Self, (Error, V)> {
        let outcome = self.fill_gaps(newer_than).and_then(|()| self.read_inodes());
        if let Err(error) = outcome {
            return Err((error, self.into_volume()));
        }
        self.check_names();
        Ok(self)
    }

    /// Files and names from nothing but the nodes in these LEBs.
    fn rebuild(&mut self, lebs: core::ops::Range<u32>) -> Result<()> {
        let events = super::scan::find_events(&mut self.io, lebs)?;
        events.iter().for_each(|event| self.tree.apply(event));
        self.read_inodes()?;
        self.check_names();
        Ok(())
    }
}

/// What stands at a place of the main area, as far as its header tells.
fn structure_at<V: Volume>(core: &mut Core<V>, layout: &Layout, lnum: u32, offset: u32) -> Structure {
    let area = area(layout, lnum);
    if area != Structure::Index {
        return area;
    }
    let mut header = [0xFF; 24];
    if u64::from(offset) + 24 <= u64::from(layout.leb_bytes()) {
        // What cannot be read tells nothing.
        let _ = core.io.volume_mut().read(lnum, offset, &mut header);
    }
    match header[20] {
        9 => Structure::Index,
        0 if core.log.buds().contains_key(&lnum) => Structure::Journal,
        0 => Structure::Inode,
        _ if core.log.buds().contains_key(&lnum) => Structure::Journal,
        _ => Structure::Index,
    }
}

/// Notes a journal that is to be replayed, and what a power cut has left at the ends of LEBs.
fn note_state<V: Volume>(
    core: &mut Core<V>,
    state: Option<MasterState>,
    mounts: bool,
    problems: &mut Problems,
) -> Result<()> {
    if !state.is_some_and(|state| state.dirty) {
        return note_ends(
            core,
            core.io.layout().limits.orphans.clone().map(|lnum| (lnum, 0)).collect(),
            problems,
        );
    }
    let buds = core.log.buds().len();
    let what = format!("the filesystem was not unmounted: {buds} LEBs of the journal are to be replayed");
    problems.add(Problem::new(
        Severity::Recoverable,
        Structure::Journal,
        what,
        "the next mount does so; one that only reads does it in memory",
    ));
    if !mounts {
        return Ok(());
    }
    let limits = core.io.layout().limits.clone();
    let areas = limits.log.chain(limits.orphans).map(|lnum| (lnum, 0));
    let buds = core.log.buds().iter().map(|(&lnum, bud)| (lnum, bud.start));
    let starts = areas.chain(buds).collect();
    note_ends(core, starts, problems)
}

fn note_ends<V: Volume>(core: &mut Core<V>, starts: Vec<(u32, u32)>, problems: &mut Problems) -> Result<()> {
    let layout = core.io.layout().clone();
    for (lnum, start) in starts {
        let error = match scan(&mut core.io, lnum, start) {
            Ok(_) => continue,
            Err(error) if error.is_damage() => error,
            Err(error) => return Err(error),
        };
        let structure = match area(&layout, lnum) {
            Structure::Index => Structure::Journal,
            area => area,
        };
        let consequence = "what a power cut leaves: the next mount for writing cleans it";
        problems.add(Problem::of(Severity::Recoverable, structure, &error, consequence));
    }
    Ok(())
}
