//! Volumes of a UBI device with a read-only filesystem, such as SquashFS.

use std::collections::BTreeSet;

use floatgate_files::{File, tempfile};
use floatgate_media::ubi::VolumeType;
use floatgate_stack::ubi::LebId;
use floatgate_stack::ubifs::Severity;
use floatgate_stack::{FileStore, Store, Volume, VolumeError, VolumeFault, fs};

use super::choose::choose_volume;
use super::edit::writable_volume;
use super::raw::read_raw;
use crate::ImageError;
use crate::build::{Finish, changeable};
use crate::error::TreeLack;
use crate::extract::target::{ExtractError, ExtractLimits, Extracted, Extracting, Target};
use crate::format::tree::shape::TreeShape;
use crate::format::tree::{Counted, InFile, TreeFiles, add_damage};
use crate::image::{Bytes, ImageFs};
use crate::map::probe_match::Kind;
use crate::readonly;
use crate::report::{CheckReport, Finding, Layer, Loss, RawVolume, Structure, VolumeCheck};
use crate::selection::{Chosen, Selection};

/// Read-only filesystem of a volume, with the bytes of the volume.
pub(super) struct Found {
    /// Format of the filesystem.
    pub(super) kind: Kind,
    /// Filesystem with its files.
    pub(super) files: TreeFiles,
    /// Size of the filesystem, bytes.
    len: u64,
    /// Bytes of the volume.
    file: File,
    raw: RawVolume,
    /// Selection of the volume.
    selection: Selection,
}

/// Filesystem of the selected volume: the named volume, or the only volume with a reader.
///
/// # Errors
/// Several such volumes and none selected, damage, or an error of the host.
pub(super) fn find(chosen: Chosen<'_>) -> Result<Option<Found>, ImageError> {
    let Chosen { image, found, selection } = chosen;
    if selection.volume.is_some() {
        return volume(chosen);
    }
    let ubi = image.attach_remains(found)?;
    let (mut only, mut unread) = (None, None);
    for info in ubi.volumes() {
        let selection = Selection { volume: Some(info.id.to_string()), ..selection.clone() };
        match (volume(chosen.with(&selection)), &only) {
            (Ok(Some(found)), None) => only = Some(found),
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

fn volume(chosen: Chosen<'_>) -> Result<Option<Found>, ImageError> {
    let mut file = tempfile().map_err(ImageError::File)?;
    let raw = read_raw(chosen, &mut file)?;
    let copy = file.try_clone().map_err(ImageError::File)?;
    let Some(InFile { kind, len, files }) = TreeFiles::in_file(copy, raw.volume_bytes)? else {
        return Ok(None);
    };
    Ok(Some(Found { kind, files: files?, len, file, raw, selection: chosen.selection.clone() }))
}

/// A LittleFS in a dynamic volume, to be changed and written anew. UBI changes each LEB with other contents atomically.
///
/// # Errors
/// Another format, damage, a static volume, or an error of the host.
pub(super) fn changed(chosen: Chosen<'_>, recover: bool) -> Result<Option<ImageFs>, ImageError> {
    let Some(Found { kind, files, len, file, raw, selection }) = find(chosen)? else { return Ok(None) };
    let refusal = |lack| Err(TreeShape { kind }.refusal(lack));
    // The changes of a mount would be lost if it ended early.
    if kind != Kind::Littlefs || !matches!(chosen.image.bytes, Bytes::Pending(_)) {
        return refusal(TreeLack::Changes);
    }
    let ubi = chosen.image.attach_remains(chosen.found)?;
    if ubi.volume(choose_volume(&ubi, &selection)?)?.volume_type == VolumeType::Static {
        return refusal(TreeLack::StaticVolume);
    }
    drop(ubi);
    let mut fs = files.undamaged()?;
    let damaged = raw.damaged_lebs.first().map(|lnum| format!("what is damaged is not changed: LEB {lnum}"));
    if let Some(damaged) = damaged.or_else(|| raw.notes.into_iter().next()) {
        return Err(fs::Error::Damaged(damaged).into());
    }
    let store = |file: &File| -> Result<FileStore, ImageError> {
        FileStore::new(file.try_clone().map_err(ImageError::File)?).map_err(ImageError::Store)
    };
    let shape = readonly::littlefs_shape(Box::new(store(&file)?), (0, len));
    let shape = shape.ok_or(fs::Error::Unsupported("changing this filesystem"))?;
    let volume =
        writable_volume(chosen.with(&selection), recover, |ubi, selection| choose_volume(ubi, selection))?;
    let anew = tempfile().map_err(ImageError::File)?;
    let target = Box::new(store(&anew)?);
    let finish: Finish = Box::new(move || write_lebs(volume, &store(&file)?, &store(&anew)?));
    changeable(&mut *fs, shape, target, Some(finish)).map(Some)
}

/// Writes the LEBs of a volume that have other contents than before.
fn write_lebs(mut volume: Box<dyn Volume>, before: &dyn Store, after: &dyn Store) -> Result<(), ImageError> {
    let geometry = volume.geometry();
    let unit = geometry.min_io_bytes.max(1) as usize;
    let (mut old, mut new) = (vec![0; geometry.leb_bytes as usize], vec![0; geometry.leb_bytes as usize]);
    let failed = |error: VolumeError| match error.fault {
        VolumeFault::NoSpace => fs::Error::NoSpace,
        _ => fs::Error::Failed(format!("UBI: {error}")),
    };
    for lnum in 0..geometry.lebs {
        let at = u64::from(lnum) * u64::from(geometry.leb_bytes);
        if at >= after.size_bytes() {
            break;
        }
        // The bytes behind the filesystem stay.
        let own = usize::try_from(after.size_bytes() - at).unwrap_or(usize::MAX).min(new.len());
        before.read_at(at, &mut old).map_err(ImageError::Store)?;
        new.copy_from_slice(&old);
        after.read_at(at, &mut new[..own]).map_err(ImageError::Store)?;
        if old == new {
            continue;
        }
        let used = new.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
        let data = new.get(..used.next_multiple_of(unit).min(new.len())).unwrap_or(&new);
        volume.change(lnum, data).map_err(failed)?;
    }
    volume.flush().map_err(failed)?;
    Ok(())
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
    let files = TreeFiles::in_file(file, raw.volume_bytes)?.map(|found| found.files).transpose()?;
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
    let mut file = tempfile().map_err(ImageError::File)?;
    // Damage of the device was already reported.
    let Ok(raw) = read_raw(chosen.with(&selection), &mut file) else { return Ok(checked) };
    checked.is_blank = raw.bytes == 0;
    let found = TreeFiles::in_file(file, raw.volume_bytes)?;
    let Some(InFile { kind, files, .. }) = found else { return Ok(checked) };
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
