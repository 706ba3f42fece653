//! Volumes of a UBI device with a read-only filesystem, such as SquashFS.

use std::collections::BTreeSet;

use floatgate_files::File;
use floatgate_stack::fs;
use floatgate_stack::ubi::LebId;
use floatgate_stack::ubifs::Severity;

use super::raw::read_raw;
use crate::ImageError;
use crate::extract::target::{ExtractError, ExtractLimits, Extracted, Extracting, Target};
use crate::format::tree::{Counted, TreeFiles, add_damage};
use crate::report::{CheckReport, Finding, Layer, Loss, RawVolume, Structure, VolumeCheck};
use crate::selection::{Chosen, Selection};

/// Filesystem of the selected volume: the named volume, or the only volume with a reader.
///
/// # Errors
/// Several such volumes and none selected, damage, or an error of the host.
pub(super) fn mount(chosen: Chosen<'_>) -> Result<Option<TreeFiles>, ImageError> {
    let Chosen { image, found, selection } = chosen;
    if selection.volume.is_some() {
        return volume(chosen);
    }
    let ubi = image.attach_remains(found)?;
    let (mut only, mut unread) = (None, None);
    for info in ubi.volumes() {
        let selection = Selection { volume: Some(info.id.to_string()), ..selection.clone() };
        match (volume(chosen.with(&selection)), &only) {
            (Ok(Some(files)), None) => only = Some(files),
            (Ok(Some(_)), Some(_)) => {
                let names = ubi.volumes().map(|volume| crate::words::show_name(&volume.name));
                return Err(ImageError::ChooseVolume(names.collect()));
            }
            (Ok(None), _) => {}
            (Err(error @ ImageError::Filesystem(_)), _) => unread = unread.or(Some(error)),
            (Err(error), _) => return Err(error),
        }
    }
    match (only, unread) {
        (None, Some(error)) => Err(error),
        (only, _) => Ok(only),
    }
}

fn volume(chosen: Chosen<'_>) -> Result<Option<TreeFiles>, ImageError> {
    let mut file = floatgate_files::tempfile().map_err(ImageError::File)?;
    read_raw(chosen, &mut file)?;
    TreeFiles::in_file(file)?.map(|(_, files)| files).transpose()
}

/// Filesystem in the bytes of a volume, and the missing parts of these bytes.
pub(super) struct VolumeFiles {
    files: TreeFiles,
    raw: RawVolume,
}

impl VolumeFiles {
    /// Adds incomplete LEBs of the volume.
    pub(super) fn with_lost(mut self, lost: impl Iterator<Item = LebId>, id: u32) -> Self {
        let lost = lost.filter(|leb| leb.volume == id).map(|leb| leb.lnum);
        let all: BTreeSet<u32> = self.raw.damaged_lebs.iter().copied().chain(lost).collect();
        self.raw.damaged_lebs = all.into_iter().collect();
        self
    }
}

/// Filesystem in the bytes of a volume, if there is one with a reader.
///
/// # Errors
/// The file cannot be read, or the filesystem is damaged at its start, or has features that the reader does not
/// support.
pub(super) fn of_volume(file: &File, raw: &RawVolume) -> Result<Option<VolumeFiles>, ImageError> {
    let file = file.try_clone().map_err(ImageError::File)?;
    let files = TreeFiles::in_file(file)?.map(|(_, files)| files).transpose()?;
    Ok(files.map(|files| VolumeFiles { files, raw: raw.clone() }))
}

/// Checks the filesystem in a volume, if there is one with a reader.
///
/// # Errors
/// The file cannot be read.
pub(super) fn check(
    chosen: Chosen<'_>,
    (id, name): (u32, &str),
    report: &mut CheckReport,
) -> Result<VolumeCheck, ImageError> {
    let mut checked = VolumeCheck::other(id, name.to_owned());
    let selection = Selection { volume: Some(id.to_string()), ..chosen.selection.clone() };
    let mut file = floatgate_files::tempfile().map_err(ImageError::File)?;
    // Damage of the device was already reported.
    let Ok(raw) = read_raw(chosen.with(&selection), &mut file) else { return Ok(checked) };
    checked.is_blank = raw.bytes == 0;
    let Some((kind, files)) = TreeFiles::in_file(file)? else { return Ok(checked) };
    let checked = VolumeCheck { tree: Some(kind), ..checked };
    let files = match files {
        Ok(files) => files,
        Err(ImageError::Filesystem(error @ fs::Error::Unsupported(_))) => {
            let consequence = "its files are not checked";
            // No damage is known, but no checksum shows that the data is right.
            let finding = Finding::new(
                Layer::Data,
                Severity::Recoverable,
                Structure::Filesystem,
                error.to_string(),
                consequence,
            );
            report.add(Finding { volume: Some(name.to_owned()), ..finding });
            return Ok(checked);
        }
        Err(ImageError::Filesystem(error)) => {
            add_damage(format!("{}: {error}", kind.name()), Some(name), report);
            return Ok(checked);
        }
        Err(error) => return Err(error),
    };
    let (Counted { directories, files }, bytes) = files.check(Some(name), report);
    Ok(VolumeCheck { mounts: true, directories, files, bytes, ..checked })
}

impl Extracting for VolumeFiles {
    fn run(
        self: Box<Self>,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError> {
        let Self { files, raw } = *self;
        let mut extracted = Box::new(files).run(target, limits, progress)?;
        let damaged = raw.damaged_lebs.iter().map(|lnum| format!("LEB {lnum} is damaged or missing"));
        extracted.losses.extend(damaged.map(|what| Loss::new(&[], what)));
        extracted.notes.extend(raw.notes);
        Ok(extracted)
    }
}
