//! An image as a folder of the host, through FUSE.
//!
//! - [`Handler`]: the kernel's requests, as methods on a filesystem; errors are error numbers of the host.
//! - `shared`: the filesystem behind a lock, and the thread that writes back without a request.
//! - `bridge`: from FUSE's requests to the handler and back.
//! - [`Mounted`]: a mount, from its beginning to its end.

mod bridge;
mod errno;
mod handler;
mod shared;
#[cfg(test)]
mod tests;

pub use errno::errno;
pub use handler::{Answer, Handler, Listed, NewNode, Times};

use std::path::{Path, PathBuf};

use floatgate_stack::fs;
use floatgate_stack::fs::Timestamp;
use floatgate_stack::fscrypt::Keys;
use floatgate_stack::ubifs::Behaviour;
use floatgate_stack::ubifs::compress::Effort;
use fuser::{Config, Session, SessionACL};

use super::edit::{Paths, TooSmall};
use crate::ImageError;
use crate::image::{Access, Growth, Image, ImageFs};
use crate::report::Loss;
use crate::selection::Selection;
use bridge::Bridge;
use floatgate_host::Lock;
use floatgate_host::mount::{self, FolderError, Unmounter};
use shared::{Served, Worker};

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountSetup {
    /// Selection of the filesystem.
    pub selection: Selection,
    /// For reading: keys of encrypted files.
    pub keys: Option<Keys>,
    /// True if changes are written to the image; false for a read-only mount.
    pub writable: bool,
    /// For a mount for writing: true to recover an image that was not unmounted, false to refuse it.
    pub recover: bool,
    /// For a mount for writing: number of LEBs to which the volume grows; `None` to keep its size.
    pub lebs: Option<u32>,
    /// True if other users of the host can access the mount, within their permissions.
    pub allow_other: bool,
    /// Clock for the time stamps of changes.
    pub clock: fn() -> Timestamp,
    /// Function that is called with the failure after which no data can be written.
    pub on_failure: fn(&fs::Error),
}

/// Reason why an image cannot be mounted, or why the unmount failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The image cannot be opened or mounted.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The filesystem has too few LEBs to be mounted for writing.
    #[error(transparent)]
    TooSmall(TooSmall),
    /// The folder cannot be used as mount point.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// A mounted image.
pub struct Mounted {
    session: Session<Bridge>,
    worker: Worker,
    directory: PathBuf,
    /// Files that the recovery removed.
    pub losses: Vec<Loss>,
}

impl Mounted {
    /// Mounts an image in a folder.
    ///
    /// # Errors
    /// The image cannot be mounted, or the host refuses the mount.
    pub fn new(image: &Path, directory: &Path, setup: MountSetup) -> Result<Self, MountError> {
        // This check is made before the image is changed.
        mount::check_directory(directory)?;
        let (served, lock, losses) = open(image, &setup)?;
        let worker = Worker::start(served, lock, setup.on_failure);
        let bridge = Bridge::new(worker.shared(), setup.writable);
        let notifier = bridge.notifier();
        match Session::new(bridge, directory, &config(image, &setup)) {
            Ok(session) => {
                let _ = notifier.set(session.notifier());
                Ok(Self { session, worker, directory: directory.to_owned(), losses })
            }
            Err(error) => {
                // The filesystem is already mounted, and its image records this.
                worker.end()?;
                Err(FolderError::host(directory, error).into())
            }
        }
    }

    /// Handle that unmounts while [`serve`](Self::serve) runs.
    pub fn unmounter(&mut self) -> Unmounter {
        Unmounter::new(&mut self.session, &self.directory)
    }

    /// Answers the kernel until the folder is unmounted by [`Unmounter`] or by another program. Then unmounts the
    /// filesystem.
    ///
    /// # Errors
    /// The connection to the kernel failed, or the filesystem could not be written.
    pub fn serve(self) -> Result<(), MountError> {
        let Self { session, worker, directory, .. } = self;
        let served = mount::run(session, &directory);
        worker.end()?;
        Ok(served?)
    }
}

fn config(image: &Path, setup: &MountSetup) -> Config {
    let mut config = Config::default();
    config.mount_options = mount::options(&image.display().to_string(), setup.writable);
    config.acl = if setup.allow_other { SessionACL::All } else { SessionACL::Owner };
    config
}

/// Number of LEBs to which the volume grows, if requested.
fn lebs(path: &Path, setup: &MountSetup) -> Result<Option<u32>, ImageError> {
    let Some(wanted) = setup.lebs.filter(|_| setup.writable) else { return Ok(None) };
    let image = Image::open_sized(path, Access::Read, &setup.selection)?;
    let growth = image.growth(&setup.selection, setup.recover)?;
    Ok(growth.map(|Growth { now, lasting, .. }| wanted.clamp(now, lasting.max(now))))
}

/// Opens the image and mounts the filesystem. Also returns the files that its recovery removed.
fn open(path: &Path, setup: &MountSetup) -> Result<(Served, Lock, Vec<Loss>), MountError> {
    let access = if setup.writable { Access::Write } else { Access::Read };
    let lock = Lock::new(path, setup.writable).map_err(ImageError::from)?;
    let lebs = lebs(path, setup)?;
    let image = Image::open_sized(path, access, &setup.selection)?.with_lebs(lebs);
    let image = match setup.keys.clone().filter(|_| !setup.writable) {
        Some(keys) => image.with_keys(keys),
        None => image,
    };
    let recover = setup.recover || !setup.writable;
    let behaviour = Behaviour { effort: Effort::Fast, ..Behaviour::default() };
    let paths = Paths::before(&image, &image.choose(&setup.selection)?, recover && setup.writable)?;
    let mounted = image.mount(&setup.selection, recover, behaviour);
    let mut fs: ImageFs = mounted.map_err(|error| match TooSmall::of_mount(&error) {
        Some(why) => MountError::TooSmall(why),
        None => error.into(),
    })?;
    let losses = paths.missing_in(&mut *fs);
    Ok((Handler::new(fs, setup.clock), lock, losses))
}
