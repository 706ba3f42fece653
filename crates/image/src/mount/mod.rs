//! An image as a folder of the host, through FUSE.
//!
//! - [`Handler`]: what the kernel asks for, as plain methods on a filesystem; an error is a number of the host.
//! - `shared`: the filesystem behind a lock, and the thread that writes back what nobody asks to be written.
//! - `bridge`: from FUSE's requests to the handler and back.
//! - [`Mounted`]: a mount, from its beginning to its end.
//! - [`MountedDevice`]: a block device as a file of the host.
//! - [`VhostDevice`]: a block device of a guest, through vhost-user.

mod bridge;
mod device;
mod errno;
mod handler;
mod shared;
#[cfg(test)]
mod tests;
mod vhost;

pub use device::{Clock, MountedDevice, Punctuality};
pub use errno::errno;
pub use handler::{Answer, Handler, Listed, NewNode, Times};
pub use vhost::{Stopper, VhostDevice};

use std::path::{Path, PathBuf};

use floatgate_stack::fs;
use floatgate_stack::fs::Timestamp;
use floatgate_stack::ubifs::Behaviour;
use floatgate_stack::ubifs::compress::Effort;
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::Lock;
use super::edit::{Paths, TooSmall};
use crate::ImageError;
use crate::image::{Access, Growth, Image, ImageFs};
use crate::report::Loss;
use crate::selection::Selection;
use bridge::Bridge;
use shared::{Served, Worker};

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountSetup {
    /// Selection of the filesystem.
    pub selection: Selection,
    /// Changes go to the image; otherwise it stays as it is.
    pub writable: bool,
    /// For writing: one that was not unmounted is recovered first; otherwise it is refused.
    pub recover: bool,
    /// For writing: number of LEBs that the volume grows to; without, it keeps its size.
    pub lebs: Option<u32>,
    /// Other users of the host see it as well, as far as permissions let them.
    pub allow_other: bool,
    /// Clock that gives the time stamps of changes.
    pub clock: fn() -> Timestamp,
    /// Takes the failure after which nothing can be written any more, when it happens.
    pub on_failure: fn(&fs::Error),
}

/// Reason for which an image cannot be mounted, or the mount did not end well.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The filesystem has too few LEBs to be mounted for writing.
    #[error(transparent)]
    TooSmall(TooSmall),
    /// The folder is a mount point. To end two mounts on one folder may end the wrong one.
    #[error("{} is a mount point already", .0.display())]
    MountPoint(PathBuf),
    /// The folder has files, which the mount would hide.
    #[error("{} is not empty: a mount would hide its files", .0.display())]
    NotEmpty(PathBuf),
    /// The program behind the folder was killed, and left its mount (`ENOTCONN`).
    #[error("{} is the mount of a program that was killed", .0.display())]
    Dead(PathBuf),
    /// The host does not mount it.
    #[error("{}: {error}", .directory.display())]
    Host {
        /// Directory of the mount.
        directory: PathBuf,
        /// Reason.
        error: std::io::Error,
    },
}

/// An image that is mounted.
pub struct Mounted {
    session: Session<Bridge>,
    worker: Worker,
    directory: PathBuf,
    /// Files that the recovery has given up.
    pub losses: Vec<Loss>,
}

/// Ends a mount from another thread.
pub struct Unmounter {
    session: SessionUnmounter,
    directory: PathBuf,
}

impl Mounted {
    /// Mounts an image in a folder.
    ///
    /// # Errors
    /// The image cannot be mounted; the host does not let us.
    pub fn new(image: &Path, directory: &Path, setup: MountSetup) -> Result<Self, MountError> {
        let failed = |error| MountError::Host { directory: directory.to_owned(), error };
        // Before the image is touched.
        check_directory(directory)?;
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
                // The filesystem is mounted already, and its image says so.
                worker.end()?;
                Err(failed(error))
            }
        }
    }

    /// Handle that ends the mount while [`serve`](Self::serve) runs.
    pub fn unmounter(&mut self) -> Unmounter {
        Unmounter { session: self.session.unmount_callable(), directory: self.directory.clone() }
    }

    /// Answers the kernel until the folder is unmounted, by [`Unmounter`] or by anybody else; then the filesystem is unmounted.
    ///
    /// # Errors
    /// The connection to the kernel failed; the filesystem could not be written.
    pub fn serve(self) -> Result<(), MountError> {
        let Self { session, worker, directory, .. } = self;
        let served = run(session);
        worker.end()?;
        served.map_err(|error| MountError::Host { directory, error })
    }
}

/// Answers the kernel until the mount ends. Linux also says ECONNABORTED instead of ENODEV when its connection ends while it hands
/// out a request (`fuse_dev_do_read`), as the last of them when a lazily unmounted folder loses its last user.
fn run<F: fuser::Filesystem>(session: Session<F>) -> std::io::Result<()> {
    match session.run() {
        Err(error) if error.raw_os_error() == Some(Errno::CONNABORTED.raw_os_error()) => Ok(()),
        ended => ended,
    }
}

impl Unmounter {
    /// Unmounts the folder. If somebody still uses it, it disappears now, and the mount ends with its last user: `false`.
    ///
    /// # Errors
    /// The host refuses both.
    pub fn unmount(&mut self) -> Result<bool, std::io::Error> {
        let Err(_) = self.session.unmount() else { return Ok(true) };
        rustix::mount::unmount(&self.directory, rustix::mount::UnmountFlags::DETACH)?;
        Ok(false)
    }
}

/// Checks that a folder can be mounted on: it exists, is empty, and nothing is mounted there.
fn check_directory(directory: &Path) -> Result<(), MountError> {
    let failed = |error: std::io::Error| match error.raw_os_error() {
        Some(code) if code == Errno::NOTCONN.raw_os_error() => MountError::Dead(directory.to_owned()),
        _ => MountError::Host { directory: directory.to_owned(), error },
    };
    // What is not a folder is refused here. Of a dead mount the kernel may still know the status.
    let mut entries = std::fs::read_dir(directory).map_err(failed)?;
    let status = rustix::fs::statx(CWD, directory, AtFlags::empty(), StatxFlags::TYPE)
        .map_err(|error| failed(error.into()))?;
    if status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(MountError::MountPoint(directory.to_owned()));
    }
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(MountError::NotEmpty(directory.to_owned())),
    }
}

fn config(image: &Path, setup: &MountSetup) -> Config {
    let mut config = Config::default();
    config.mount_options = host_options(&image.display().to_string(), setup.writable);
    config.acl = if setup.allow_other { SessionACL::All } else { SessionACL::Owner };
    config
}

/// Options of the host's mount: `name` is its source in the list of mounts.
fn host_options(name: &str, writable: bool) -> Vec<MountOption> {
    vec![
        MountOption::FSName(name.to_owned()),
        MountOption::Subtype("floatgate".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        if writable { MountOption::RW } else { MountOption::RO },
    ]
}

/// LEBs that the volume grows to, if that was asked for.
fn lebs(path: &Path, setup: &MountSetup) -> Result<Option<u32>, ImageError> {
    let Some(wanted) = setup.lebs.filter(|_| setup.writable) else { return Ok(None) };
    let image = Image::open_sized(path, Access::Read, &setup.selection)?;
    let growth = image.growth(&setup.selection, setup.recover)?;
    Ok(growth.map(|Growth { now, lasting, .. }| wanted.clamp(now, lasting.max(now))))
}

/// Opens the image and mounts the filesystem; with what its recovery has given up.
fn open(path: &Path, setup: &MountSetup) -> Result<(Served, Lock, Vec<Loss>), MountError> {
    let access = if setup.writable { Access::Write } else { Access::Read };
    let lock = Lock::new(path, access)?;
    let lebs = lebs(path, setup)?;
    let image = Image::open_sized(path, access, &setup.selection)?.with_lebs(lebs);
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
