//! An image that is being changed, in memory until all of the change is known to be possible.

use std::fs::File;
use std::path::{Path, PathBuf};

use floatgate_media::ubifs::Timestamp;
use floatgate_stack::ubifs::Behaviour;
use floatgate_stack::{FileStore, Store};
use rustix::fs::FlockOperation;
use serde::Serialize;

use super::EditError;
use crate::image::detect::{Content, Found};
use crate::image::open::FilePending;
use crate::image::{FileUbifs, Image, ImageError, Selection};

/// How an image is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// Which filesystem is meant.
    pub selection: Selection,
    /// One that was not unmounted is recovered first; otherwise it is refused.
    pub recover: bool,
    /// The time of the changes.
    pub time: Timestamp,
    /// The changed image goes there, and the one it was stays as it is.
    pub output: Option<PathBuf>,
}

/// A session whose filesystem is unmounted, with what is to be written.
pub(super) struct Ended {
    pub(super) pending: FilePending,
    free_blocks: u64,
    found: Found,
    path: PathBuf,
    output: Option<PathBuf>,
    _lock: File,
}

/// An image that is being changed. Nothing is written before [`commit`](Self::commit).
pub struct Session {
    fs: FileUbifs,
    pending: FilePending,
    found: Found,
    path: PathBuf,
    output: Option<PathBuf>,
    /// Keeps others from changing the file.
    _lock: File,
}

/// What was written in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// The file that was written.
    pub file: PathBuf,
    /// Bytes written to flash, erased ones included; 0 if nothing had to be changed.
    pub written_bytes: u64,
    /// Blocks of 4 KiB that are free now, those reserved for the superuser included.
    pub free_blocks: u64,
}

impl Session {
    /// Opens an image and mounts what is meant in it.
    ///
    /// # Errors
    /// As [`Image::mount`]; somebody else is changing the file.
    pub fn open(path: &Path, options: &EditOptions) -> Result<Self, EditError> {
        let lock = lock(path, options.output.is_none())?;
        let (image, pending) = Image::open_pending(path)?;
        let found = image.choose(&options.selection)?;
        // What is written has to be possible on flash as a whole, but nobody sees it half-way.
        let behaviour = Behaviour { privileged: true, ..Behaviour::default() };
        let mut fs = image.mount(&options.selection, options.recover, behaviour)?;
        fs.set_time(options.time);
        let (path, output) = (path.to_owned(), options.output.clone());
        Ok(Self { fs, pending, found, path, output, _lock: lock })
    }

    /// The filesystem.
    pub const fn fs(&mut self) -> &mut FileUbifs {
        &mut self.fs
    }

    /// Unmounts the filesystem and writes the changes to the file, in the order in which a chip would have seen them. Who stops
    /// this half-way leaves what a power cut leaves: an image to be recovered.
    ///
    /// A bare UBIFS has no UBI that changes LEBs atomically: the whole file is written anew beside the old one and takes its
    /// place, as with an output of its own.
    ///
    /// # Errors
    /// No space in the image: nothing was written. The file cannot be written.
    pub fn commit(self) -> Result<Committed, EditError> {
        let ended = self.end_mount()?;
        Ok(ended.write()?)
    }

    /// Brings everything to the pending changes, the index too: not every reader of images replays a journal.
    pub(super) fn end_mount(self) -> Result<Ended, EditError> {
        let Self { mut fs, pending, found, path, output, _lock: lock } = self;
        fs.sync().map_err(EditError::inside(b"/"))?;
        let free_blocks = fs.space().free_blocks;
        fs.unmount().map_err(|(error, _)| EditError::inside(b"/")(error))?;
        Ok(Ended { free_blocks, pending, found, path, output, _lock: lock })
    }
}

impl Ended {
    fn write(self) -> Result<Committed, ImageError> {
        let Self { pending, free_blocks, found, path, output, _lock } = self;
        let end = end_of_image(&pending, &found)?;
        let special = std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file());
        let in_place = output.is_none() && (special || matches!(found.content, Content::Ubi(_)));
        let file = output.unwrap_or_else(|| path.clone());
        let written_bytes = if in_place {
            write_in_place(&pending, &path, end)?
        } else {
            write_anew(&pending, &path, &file, end)?
        };
        Ok(Committed { file, written_bytes, free_blocks })
    }
}

/// Opens a file and keeps others from changing it, as long as they ask as well.
fn lock(path: &Path, for_writing: bool) -> Result<File, ImageError> {
    let file = File::options().read(true).write(for_writing).open(path).map_err(ImageError::File)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ImageError::Locked),
        // Some network filesystems have no locks.
        _ => Ok(file),
    }
}

/// Where the file is to end: an image that was shorter than its flash stays as short as it can, up to its last PEB with data.
fn end_of_image(pending: &FilePending, found: &Found) -> Result<u64, ImageError> {
    let Content::Ubi(shape) = &found.content else { return Ok(u64::MAX) };
    let mut pending = pending.clone();
    let (old, peb) = (pending.size_below(), u64::from(shape.peb_bytes));
    let pebs = pending.size_bytes().saturating_sub(found.offset).div_ceil(peb);
    for pnum in (0..pebs).rev() {
        let start = found.offset + pnum * peb;
        if start + peb <= old {
            break;
        }
        let mut header = [0; 4];
        pending
            .read_at(start + u64::from(shape.vid_header_offset), &mut header)
            .map_err(ImageError::Store)?;
        if header != [0xFF; 4] {
            return Ok(start + peb);
        }
    }
    Ok(old)
}

fn write_in_place(pending: &FilePending, path: &Path, end: u64) -> Result<u64, ImageError> {
    if pending.is_empty() {
        return Ok(0);
    }
    let file = File::options().read(true).write(true).open(path).map_err(ImageError::File)?;
    write_changes(pending, file, end)
}

/// Copies the file, changes the copy, and gives it the name.
fn write_anew(pending: &FilePending, from: &Path, to: &Path, end: u64) -> Result<u64, ImageError> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let copy = tempfile::NamedTempFile::new_in(folder).map_err(ImageError::File)?;
    std::fs::copy(from, copy.path()).map_err(ImageError::File)?;
    let file = copy.reopen().map_err(ImageError::File)?;
    let written = write_changes(pending, file, end)?;
    copy.persist(to).map_err(|error| ImageError::File(error.error))?;
    Ok(written)
}

fn write_changes(pending: &FilePending, file: File, end: u64) -> Result<u64, ImageError> {
    let mut store = FileStore::new(file).map_err(ImageError::Store)?;
    let written = pending.write_to(&mut store, end).map_err(ImageError::Store)?;
    store.into_inner().sync_all().map_err(ImageError::File)?;
    Ok(written.bytes)
}
