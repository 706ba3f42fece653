//! Check of a filesystem and its files.

use floatgate_media::ubifs::ROOT_INODE;
use floatgate_stack::fs::FileType;
use floatgate_stack::ubifs::{Problem, Severity, Survey, Tree};
use floatgate_stack::{Store, Volume};

use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::format::magic::{HEAD_BYTES, holds_ubifs};
use crate::format::mapped::MappedVolume;
use crate::format::ubi::fit::{self, Room};
use crate::image::Origin;
use crate::report::{CheckReport, Finding, Layer, Outcome, Structure, VolumeCheck};
use crate::selection::Selection;
use crate::words::show_path;

/// True if a volume contains a UBIFS, even a damaged one.
pub(crate) fn has_filesystem<S: Store + 'static>(volume: &mut MappedVolume<S>) -> bool {
    let geometry = volume.geometry();
    holds_ubifs(&mut |lnum| {
        let mut head = vec![0; HEAD_BYTES.min(geometry.leb_bytes as usize)];
        let read = (lnum < geometry.lebs).then(|| volume.read(lnum, 0, &mut head))?;
        Some(if read.is_ok() { head } else { Vec::new() })
    })
}

/// A volume of UBI.
#[derive(Clone, Debug)]
pub(crate) struct UbiVolume {
    /// Volume id.
    pub id: u32,
    /// Name of the volume.
    pub name: String,
    /// Sizes of the volume.
    pub room: Room,
}

/// Checks the filesystem of a volume, which is a volume of UBI unless the image is bare. Returns the volume.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn check_volume<S: Store + 'static>(
    volume: MappedVolume<S>,
    name: Option<UbiVolume>,
    selection: &Selection,
    origin: &Origin,
    report: &mut CheckReport,
) -> Result<(VolumeCheck, MappedVolume<S>), ImageError> {
    let survey = Survey::authenticated(volume, &selection.authenticate).map_err(|(error, _)| error)?;
    let mut checked = describe(&survey, name.as_ref());
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
    let superblock = survey.superblock().copied();
    let volume = survey.into_volume();
    let misfits = match (&superblock, &name, &selection.flash) {
        (Some(superblock), Some(ubi), _) => fit::of_volume(superblock, &ubi.room),
        // Without UBI the volume does not exist yet.
        (Some(superblock), None, Some(flash)) => fit::of_bare(superblock, flash),
        _ => Vec::new(),
    };
    checked.mounts &= misfits.iter().all(|finding| finding.severity != Outcome::Damaged);
    // The survey may have reported the same fault of the superblock.
    let is_new = |misfit: &Finding| {
        findings.iter().all(|(finding, _)| {
            finding.structure != misfit.structure || !misfit.what.ends_with(&finding.what)
        })
    };
    let misfits: Vec<Finding> = misfits.into_iter().filter(is_new).collect();
    findings.extend(misfits.into_iter().map(|finding| (finding, Some((0, 0)))));
    for (finding, place) in &mut findings {
        finding.volume = name.as_ref().map(|ubi| ubi.name.clone());
        let at = place.and_then(|(lnum, offset)| Some((volume.place(lnum)?, offset)));
        finding.offset = at.map(|(place, offset)| origin.file_byte(place + u64::from(offset)));
    }
    findings.into_iter().for_each(|(finding, _)| report.add(finding));
    Ok((checked, volume))
}

/// Adds a note about the end of an image without UBI, which can be anywhere after its data.
pub(super) fn note_end(found: &ImageLocation, leb_bytes: u32, origin: &Origin, report: &mut CheckReport) {
    let bytes = found.len % u64::from(leb_bytes.max(1));
    if bytes == 0 {
        return;
    }
    let what = format!("the image ends {bytes} bytes into its last LEB, of {leb_bytes}");
    let consequence = "what is missing reads as erased; where that matters, more findings follow";
    let mut finding = Finding::new(Layer::Ubifs, Severity::Note, Structure::Image, what, consequence);
    finding.offset = Some(origin.file_byte(found.len));
    report.add(finding);
}

fn finding(problem: &Problem, tree: &Tree) -> Finding {
    let layer = Layer::of_ubifs(problem.structure);
    let structure = Structure::Ubifs(problem.structure);
    let mut finding =
        Finding::new(layer, problem.severity, structure, problem.description(), problem.consequence);
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

fn describe(survey: &Survey<dyn Volume>, ubi: Option<&UbiVolume>) -> VolumeCheck {
    let (id, name) = ubi.map_or((None, None), |ubi| (Some(ubi.id), Some(ubi.name.clone())));
    let mut checked = VolumeCheck {
        id,
        name,
        ubifs: true,
        tree: None,
        mounts: survey.mounts(),
        commit: survey.master().map(|master| master.commit),
        directories: 0,
        files: 0,
        bytes: 0,
        is_blank: false,
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
