//! An image with pending changes, which stay in memory until the whole change is known to be possible.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use floatgate_files::{File, metadata};
use floatgate_stack::Store;
use floatgate_stack::fs::{FileSystem, Timestamp};
use floatgate_stack::ubifs::Behaviour;
use serde::Serialize;

use super::paths::Paths;
use super::{EditError, Edited, Editor, NeededGrowth};
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::image::{Access, FilePending, Growth, Image, ImageFs, store_of};
use crate::info::selected_info;
use crate::oob_store::OobPages;
use crate::pending::erase;
use crate::report::Loss;
use crate::selection::Selection;
use crate::write_back::WriteBack;
use floatgate_host::Lock;
use floatgate_host::output::{self, Output};

/// Divisor for growth: an image that is too small grows by one part in 8 until it is large enough.
const GROWTH: u32 = 8;

/// Number of PEBs that UBI needs in addition to volumes and the reserve for bad blocks: two for the volume table, one for wear levelling,
/// one for atomic LEB changes.
const UBI_PEBS: u64 = 4;

/// Options of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// Selection of the filesystem.
    pub selection: Selection,
    /// True to recover a filesystem that was not unmounted; otherwise it is refused.
    pub recover: bool,
    /// Time of the changes, for the timestamps of files.
    pub time: Timestamp,
    /// Path for the changed image; the original image then stays unchanged. `None` to change the original.
    pub output: Option<PathBuf>,
    /// Growth of the volume.
    pub growth: GrowTo,
}

/// Number of LEBs that the volume of a changed filesystem gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrowTo {
    /// The current number of LEBs.
    #[default]
    Keep,
    /// The number of LEBs that the change needs, up to the maximum for which the filesystem was made.
    Needed,
    /// This number of LEBs.
    Lebs(u32),
}

impl GrowTo {
    /// Maximum size with which a change is tried.
    const fn tried(self, growth: Growth) -> u32 {
        match self {
            Self::Keep => growth.volume,
            Self::Needed => growth.max,
            Self::Lebs(lebs) => lebs,
        }
    }
}

/// A session after the unmount of its filesystem, with the data to be written.
pub(super) struct Ended {
    pub(super) pending: FilePending,
    free_blocks: u64,
    grown: Vec<Grown>,
    write_back: WriteBack,
    found: ImageLocation,
    oob: Option<OobPages>,
    path: PathBuf,
    output: Option<PathBuf>,
    _lock: Lock,
}

/// An image with pending changes. Nothing is written before [`commit`](Self::commit).
pub struct Session {
    fs: ImageFs,
    /// The image with the pending changes, which can be opened again.
    image: Image,
    grown: Vec<Grown>,
    /// Files that the recovery removed.
    losses: Vec<Loss>,
    pending: FilePending,
    found: ImageLocation,
    oob: Option<OobPages>,
    path: PathBuf,
    output: Option<PathBuf>,
    /// Lock that prevents other programs from changing the file.
    _lock: Lock,
}

/// Report on the image that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// Path of the written file.
    pub file: String,
    /// Number of bytes written to flash, including erased bytes; 0 if nothing changed.
    pub written_bytes: u64,
    /// Number of free blocks of 4 KiB, including those reserved for the superuser.
    pub free_blocks: u64,
    /// Sizes that are larger than before.
    pub grown: Vec<Grown>,
    /// Kind of the file, to write it to flash.
    #[serde(skip)]
    pub write_back: WriteBack,
}

/// A size that has increased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Grown {
    /// `volume`, `image` or `file`.
    pub what: &'static str,
    /// `LEB`, `eraseblock` or `byte`.
    pub unit: &'static str,
    /// Number of units before.
    pub from: u64,
    /// Number of units now.
    pub to: u64,
}

impl Session {
    /// Opens an image and mounts the selected filesystem.
    ///
    /// # Errors
    /// The errors of [`Image::mount`], and a file that another program is changing.
    pub fn open(path: &Path, options: &EditOptions) -> Result<Self, EditError> {
        Self::with_lebs(path, options, None)
    }

    fn with_lebs(path: &Path, options: &EditOptions, lebs: Option<u32>) -> Result<Self, EditError> {
        let access = if options.output.is_none() { Access::Write } else { Access::Read };
        let lock = Lock::new(path, access == Access::Write).map_err(ImageError::from)?;
        let (image, pending, oob) = Image::open_pending(path, &options.selection)?;
        let found = image.choose(&options.selection)?;
        // A change is written completely or not at all, so no space must be reserved for its worst case.
        let behaviour = Behaviour { privileged: true, budget: false, ..Behaviour::default() };
        let image = image.with_lebs(lebs);
        let paths = Paths::before(&image, &found, options.recover)?;
        let fs = image.mount(&options.selection, options.recover, behaviour);
        let mut fs = fs.map_err(EditError::of_mount)?;
        let losses = paths.missing_in(&mut *fs);
        fs.set_time(options.time);
        let (path, output) = (path.to_owned(), options.output.clone());
        let grown = Vec::new();
        Ok(Self { fs, image, grown, losses, pending, found, oob, path, output, _lock: lock })
    }

    /// Mounted filesystem of the image.
    pub fn fs(&mut self) -> &mut dyn FileSystem {
        &mut *self.fs
    }

    /// Unmounts the filesystem and writes the changes to the file, in the order of the operations on a chip. An interruption
    /// has the effect of a power cut: the image must be recovered.
    ///
    /// A bare UBIFS has no atomic LEB changes, and JFFS2 has no transactions. Therefore a new file is written, as for a
    /// separate output, and then replaces the old one.
    ///
    /// # Errors
    /// No space in the image, in which case nothing was written; or the file cannot be written.
    pub fn commit(self) -> Result<Committed, EditError> {
        let ended = self.end_mount()?;
        Ok(ended.write()?)
    }

    /// Unmounts the filesystem, so that the pending changes also contain the index; some readers of images do not
    /// replay a journal.
    pub(super) fn end_mount(self) -> Result<Ended, EditError> {
        let Self { mut fs, image, grown, pending, found, oob, path, output, _lock: lock, .. } = self;
        fs.end_change().map_err(EditError::of_end)?;
        let free_blocks = fs.space().free_blocks;
        fs.unmount().map_err(EditError::of_end)?;
        found.format().end_change(&image, &found, &pending)?;
        let write_back = WriteBack::of(&image);
        Ok(Ended { write_back, free_blocks, grown, pending, found, oob, path, output, _lock: lock })
    }
}

/// A change of a filesystem. It may be executed more than once.
pub type Change<'c> = dyn Fn(&mut Editor<'_>) -> Result<(), EditError> + 'c;

/// Changes an image. Its volume grows only if the options allow it.
///
/// # Errors
/// The errors of [`Session::open`], of the change, and of [`Session::commit`], and an impossible number of LEBs. After an error
/// the image is unchanged.
pub fn edit(
    path: &Path,
    options: &EditOptions,
    change: &Change<'_>,
) -> Result<(Committed, Edited), EditError> {
    let changed =
        edit_growing(path, options, change).and_then(|(ended, edited)| Ok((ended.write()?, edited)));
    changed.map_err(|error| match growth_of(path, options) {
        Ok(None) if error.wants_room() => EditError::NoGrowth(Box::new(error)),
        Ok(Some(growth)) if options.growth == GrowTo::Keep && matches!(error, EditError::TooSmall { .. }) => {
            with_needed_growth(error, growth, (path, options), change)
        }
        Ok(Some(growth))
            if error.wants_room() && growth.max.max(growth.lasting) <= options.growth.tried(growth) =>
        {
            EditError::Largest { error: Box::new(error), growth }
        }
        _ => error,
    })
}

/// Sizes that the filesystem of an image can have.
fn growth_of(path: &Path, options: &EditOptions) -> Result<Option<Growth>, ImageError> {
    Image::open_sized(path, Access::Read, &options.selection)?.growth(&options.selection, options.recover)
}

/// Adds to an error the size to which the image would have to grow for the change.
fn with_needed_growth(
    error: EditError,
    before: Growth,
    (path, options): (&Path, &EditOptions),
    change: &Change<'_>,
) -> EditError {
    let EditError::TooSmall { why, .. } = error else { return error };
    let growing = EditOptions { growth: GrowTo::Needed, ..options.clone() };
    let grown = edit_growing(path, &growing, change).ok().map(|(ended, _)| ended.grown);
    let lebs = grown.map(|grown| grown.first().map_or(before.volume.into(), |grown| grown.to));
    let growth = lebs.map(|lebs| needed_growth(path, options, before, lebs));
    EditError::TooSmall { why, growth }
}

fn needed_growth(path: &Path, options: &EditOptions, before: Growth, lebs: u64) -> NeededGrowth {
    // The volume was already selected, and the sizes are those of the whole device.
    let selection = Selection { volume: None, ..options.selection.clone() };
    let info = Image::open_sized(path, Access::Read, options.selection.peb_bytes)
        .and_then(|image| selected_info(&image, &selection));
    let ubi = info.ok().and_then(|info| info.images.into_iter().find_map(|image| image.ubi));
    let partition = ubi.as_ref().map(|ubi| {
        let all: u64 = ubi.volumes.iter().map(|volume| u64::from(volume.lebs)).sum();
        (all.saturating_sub(before.volume.into()) + lebs + UBI_PEBS, ubi.peb_bytes)
    });
    let is_new = ubi.is_some_and(|ubi| ubi.volumes.iter().any(|volume| volume.autoresize));
    NeededGrowth { what: before.what, lebs, partition, is_new }
}

fn edit_growing(
    path: &Path,
    options: &EditOptions,
    change: &Change<'_>,
) -> Result<(Ended, Edited), EditError> {
    if options.growth == GrowTo::Keep {
        return attempt(path, options, None, change);
    }
    let growth = match growth_of(path, options)? {
        Some(growth) => growth,
        None if options.growth == GrowTo::Needed => return attempt(path, options, None, change),
        None => return Err(EditError::CannotGrow),
    };
    let (least, most) = (growth.now.max(growth.volume), growth.max);
    if let GrowTo::Lebs(lebs) = options.growth {
        let most = growth.lasting.max(least);
        if lebs < least || lebs > most {
            let Growth { what, unit, own, over, .. } = growth;
            return Err(EditError::Lebs { what, unit, lebs, least, most, own, over });
        }
        return attempt(path, options, Some((lebs, growth)), change);
    }
    let mut lebs = least;
    let mut outcome = attempt(path, options, Some((lebs, growth)), change);
    while matches!(&outcome, Err(error) if error.wants_room()) && lebs < most {
        lebs = lebs.saturating_add((lebs / GROWTH).max(1)).min(most);
        outcome = attempt(path, options, Some((lebs, growth)), change);
    }
    outcome
}

/// Executes a change without writing the image.
fn attempt(
    path: &Path,
    options: &EditOptions,
    grow: Option<(u32, Growth)>,
    change: &Change<'_>,
) -> Result<(Ended, Edited), EditError> {
    let mut session = Session::with_lebs(path, options, grow.map(|(lebs, _)| lebs))?;
    let larger = grow.filter(|(lebs, growth)| *lebs > growth.volume);
    session.grown.extend(larger.map(|(lebs, growth)| Grown {
        what: growth.what,
        unit: growth.unit,
        from: growth.volume.into(),
        to: lebs.into(),
    }));
    let mut editor = Editor::new(session.fs());
    change(&mut editor)?;
    let mut edited = editor.end();
    edited.losses.append(&mut session.losses);
    Ok((session.end_mount()?, edited))
}

impl Ended {
    fn write(&self) -> Result<Committed, ImageError> {
        let special = metadata(&self.path).is_ok_and(|metadata| !metadata.is_file());
        let in_place = special || self.found.format().is_changed_in_place();
        let file = self.output.clone().unwrap_or_else(|| self.path.clone());
        let from = metadata(&self.path).map_err(ImageError::File)?.len();
        let written_bytes = match &self.output {
            Some(output) => self.write_anew(Output::create(output, &[])?)?,
            None if in_place => self.write_in_place()?,
            None => self.write_anew(Output::replace(&self.path)?)?,
        };
        let to = metadata(&file).map_or(0, |metadata| metadata.len());
        let mut grown = self.grown.clone();
        if to > from {
            grown.push(Grown { what: "file", unit: "byte", from, to });
        }
        let file = file.display().to_string();
        let (free_blocks, write_back) = (self.free_blocks, self.write_back);
        Ok(Committed { file, written_bytes, free_blocks, grown, write_back })
    }

    fn write_in_place(&self) -> Result<u64, ImageError> {
        if self.pending.is_empty() {
            return Ok(0);
        }
        let file = File::options().read(true).write(true).open(&self.path).map_err(ImageError::File)?;
        self.reserve(&file)?;
        self.write_changes(&file).map_err(|error| ImageError::Interrupted(Box::new(error)))
    }

    /// Checks that the host has space for all changes before the first one is written.
    fn reserve(&self, file: &File) -> Result<(), ImageError> {
        let end = self.found.format().end_of_change(&self.found, &self.pending)?;
        for range in self.pending.changed(end) {
            let range = self.oob.as_ref().map_or(range.clone(), |oob| oob.dump_range(&range));
            output::reserve(file, &range).map_err(ImageError::HostFull)?;
        }
        Ok(())
    }

    /// Copies the file, changes the copy, and renames it to the name of the file.
    fn write_anew(&self, copy: Output) -> Result<u64, ImageError> {
        let source = File::open(&self.path).map_err(ImageError::File)?;
        output::copy_sparse(&source, copy.file()).map_err(|error| copy.failed(error))?;
        let written = self.write_changes(copy.file())?;
        copy.finish()?;
        Ok(written)
    }

    fn write_changes(&self, file: &File) -> Result<u64, ImageError> {
        let end = self.found.format().end_of_change(&self.found, &self.pending)?;
        let shared = Arc::new(file.try_clone().map_err(ImageError::File)?);
        let mut store: Box<dyn Store> = match &self.oob {
            Some(oob) => oob.store(&shared)?,
            None => store_of(&shared)?,
        };
        let written = self.pending.write_to(&mut store, end).map_err(ImageError::Store)?;
        let len = store.size_bytes();
        if end != u64::MAX && len < end {
            erase(&mut store, len, end - len).map_err(ImageError::Store)?;
        }
        file.sync_all().map_err(ImageError::File)?;
        Ok(written.bytes)
    }
}
