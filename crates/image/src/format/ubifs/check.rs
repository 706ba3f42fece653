//! A filesystem and its files.

use floatgate_media::ubifs::ROOT_INODE;
use floatgate_stack::fs::FileType;
use floatgate_stack::ubifs::{MIN_LEBS, Problem, Severity, Structure, Survey, Tree};
use floatgate_stack::{Store, Volume};

use crate::check::{CheckReport, Finding, Layer, Origin, VolumeCheck};
use crate::content::{HEAD_BYTES, holds_ubifs};
use crate::extract::show_path;
use crate::format::mapped::MappedVolume;
use crate::{ImageError, Selection};

/// True when a volume holds a UBIFS, perhaps a damaged one.
pub(crate) fn has_filesystem<S: Store + 'static>(volume: &mut MappedVolume<S>) -> bool {
    let geometry = volume.geometry();
    holds_ubifs(&mut |lnum| {
        let mut head = vec![0; HEAD_BYTES.min(geometry.leb_bytes as usize)];
        let read = (lnum < geometry.lebs).then(|| volume.read(lnum, 0, &mut head))?;
        Some(if read.is_ok() { head } else { Vec::new() })
    })
}

/// Checks the filesystem of a volume; `name` is its number and name within UBI.
pub(crate) fn check<S: Store + 'static>(
    volume: MappedVolume<S>,
    name: Option<(u32, String)>,
    selection: &Selection,
    origin: &Origin,
    report: &mut CheckReport,
) -> Result<VolumeCheck, ImageError> {
    check_volume(volume, name, selection, origin, report).map(|(checked, _)| checked)
}

/// As [`check`], and gives the volume back.
pub(crate) fn check_volume<S: Store + 'static>(
    volume: MappedVolume<S>,
    name: Option<(u32, String)>,
    selection: &Selection,
    origin: &Origin,
    report: &mut CheckReport,
) -> Result<(VolumeCheck, MappedVolume<S>), ImageError> {
    let survey = Survey::authenticated(volume, &selection.authenticate).map_err(|(error, _)| error)?;
    let mut checked = describe(&survey, name.clone());
    report.unlisted += survey.dropped_problems();
    let mapped = survey.volume();
    let finding_of = |problem: &Problem| {
        let mut problem = problem.clone();
        if problem.is_erased && problem.place.is_some_and(|(lnum, _)| mapped.place(lnum).is_none()) {
            problem.what = "no PEB has this LEB".to_owned();
        }
        (finding(&problem, survey.tree()), problem.place)
    };
    let mut findings: Vec<(Finding, Option<(u32, u32)>)> = survey.problems().iter().map(finding_of).collect();
    let needed = survey.superblock().map_or(0, |superblock| superblock.leb_count);
    let volume = survey.into_volume();
    // Without UBI the volume is yet to be made.
    if name.is_some()
        && let Some(what) = too_few_lebs(needed, volume.geometry().lebs)
    {
        findings.push((too_small(what), Some((0, 0))));
        checked.mounts = false;
    }
    for (finding, place) in &mut findings {
        finding.volume = name.as_ref().map(|(_, name)| name.clone());
        let at = place.and_then(|(lnum, offset)| Some((volume.place(lnum)?, offset)));
        finding.offset = at.map(|(place, offset)| origin.file_byte(place + u64::from(offset)));
    }
    findings.into_iter().for_each(|(finding, _)| report.add(finding));
    Ok((checked, volume))
}

/// Reason for which Linux does not mount a filesystem of some LEBs on a volume with fewer than it has, or than any UBIFS needs.
pub(crate) fn too_few_lebs(needed: u32, lebs: u32) -> Option<String> {
    if needed > lebs {
        return Some(format!("the filesystem has {needed} LEBs, the volume {lebs}"));
    }
    (lebs < MIN_LEBS).then(|| format!("the volume has {lebs} LEBs, UBIFS needs at least {MIN_LEBS}"))
}

fn too_small(what: String) -> Finding {
    let (structure, consequence) = (Structure::Superblock, "Linux does not mount the filesystem");
    let mut finding =
        Finding::new(Layer::of(structure), Severity::Damaged, structure.name(), what, consequence);
    (finding.leb, finding.leb_offset) = (Some(0), Some(0));
    finding
}

fn finding(problem: &Problem, tree: &Tree) -> Finding {
    let layer = Layer::of(problem.structure);
    let structure = problem.structure.name();
    let mut finding = Finding::new(layer, problem.severity, structure, problem.told(), problem.consequence);
    (finding.leb, finding.leb_offset) =
        problem.place.map_or((None, None), |(lnum, offset)| (Some(lnum), Some(offset)));
    if let Some(inodes) = &problem.inodes {
        let files = tree.files.range(inodes.clone());
        let known: Vec<u32> = files.map(|(&inode, _)| inode).collect();
        let single = inodes.start() == inodes.end();
        let named = known.iter().filter_map(|&inode| tree.path(inode).map(|path| show_path(&path)));
        finding.name_paths(named);
        if single && finding.paths.is_empty() {
            finding.name_paths(std::iter::once(format!("inode {}, to which no name leads", inodes.start())));
        }
    }
    finding
}

fn describe(survey: &Survey<dyn Volume>, name: Option<(u32, String)>) -> VolumeCheck {
    let (id, name) = name.map_or((None, None), |(id, name)| (Some(id), Some(name)));
    let mut checked = VolumeCheck {
        id,
        name,
        ubifs: true,
        mounts: survey.mounts(),
        commit: survey.master().map(|master| master.commit),
        directories: 0,
        files: 0,
        bytes: 0,
    };
    let tree = survey.tree();
    for (&number, file) in &tree.files {
        let reached = number == ROOT_INODE || tree.path(number).is_some();
        let Some(inode) = file.inode.filter(|_| reached) else { continue };
        match inode.file_type() {
            Some(FileType::Directory) => checked.directories += 1,
            Some(FileType::Regular) => {
                checked.files += 1;
                checked.bytes = checked.bytes.saturating_add(inode.size);
            }
            _ => checked.files += 1,
        }
    }
    checked
}
