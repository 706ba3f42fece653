//! FUSE mounts on folders of the host.

use fuser::{MountOption, Session, SessionUnmounter};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why a folder cannot be a mount point, or why a mount failed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder is already a mount point. Unmounting one of two mounts on a folder could end the wrong one.
    #[error("{} is a mount point already", .0.display())]
    MountPoint(PathBuf),
    /// The folder contains files, which the mount would hide.
    #[error("{} is not empty: a mount would hide its files", .0.display())]
    NotEmpty(PathBuf),
    /// A killed program has left its mount on the folder (`ENOTCONN`).
    #[error("{} is the mount of a program that was killed", .0.display())]
    Dead(PathBuf),
    /// The host rejected the mount.
    #[error("{}: {error}", .directory.display())]
    Host {
        /// Path of the folder on which the filesystem is to be mounted.
        directory: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
}

impl FolderError {
    /// An error of the operating system that concerns a folder.
    pub fn host(directory: &Path, error: io::Error) -> Self {
        Self::Host { directory: directory.to_owned(), error }
    }
}

/// Ends a mount from another thread.
pub struct Unmounter {
    session: SessionUnmounter,
    directory: PathBuf,
}

impl Unmounter {
    /// A handle that unmounts the folder of a session.
    pub fn new<F: fuser::Filesystem>(session: &mut Session<F>, directory: &Path) -> Self {
        Self { session: session.unmount_callable(), directory: directory.to_owned() }
    }

    /// Unmounts the folder. If the folder is still in use, it is detached now, the mount ends with its last user, and
    /// the result is `false`.
    ///
    /// # Errors
    /// The host rejects both.
    pub fn unmount(&mut self) -> Result<bool, std::io::Error> {
        let Err(_) = self.session.unmount() else { return Ok(true) };
        rustix::mount::unmount(&self.directory, rustix::mount::UnmountFlags::DETACH)?;
        Ok(false)
    }
}

/// Checks that a folder can be a mount point: it exists, is empty, and is not a mount point yet.
///
/// # Errors
/// Reason why the folder cannot be a mount point.
pub fn check_directory(directory: &Path) -> Result<(), FolderError> {
    let failed = |error: std::io::Error| match error.raw_os_error() {
        Some(code) if code == Errno::NOTCONN.raw_os_error() => FolderError::Dead(directory.to_owned()),
        _ => FolderError::host(directory, error),
    };
    // A path that is not a folder fails here. The kernel may still have the cached attributes of a dead mount.
    let mut entries = std::fs::read_dir(directory).map_err(failed)?;
    let status = rustix::fs::statx(CWD, directory, AtFlags::empty(), StatxFlags::TYPE)
        .map_err(|error| failed(error.into()))?;
    if status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(FolderError::MountPoint(directory.to_owned()));
    }
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(FolderError::NotEmpty(directory.to_owned())),
    }
}

/// Mount options; `name` is shown as the source in the list of mounts.
pub fn options(name: &str, writable: bool) -> Vec<MountOption> {
    vec![
        MountOption::FSName(name.to_owned()),
        MountOption::Subtype("floatgate".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        if writable { MountOption::RW } else { MountOption::RO },
    ]
}

/// Serves requests of the kernel until the mount ends. Linux can return ECONNABORTED instead of ENODEV if the
/// connection ends while it delivers a request (`fuse_dev_do_read`). An example is the last request when a lazily
/// unmounted folder loses its last user.
///
/// # Errors
/// The connection to the kernel failed.
pub fn run<F: fuser::Filesystem>(session: Session<F>, directory: &Path) -> Result<(), FolderError> {
    match session.run() {
        Err(error) if error.raw_os_error() == Some(Errno::CONNABORTED.raw_os_error()) => Ok(()),
        ended => ended.map_err(|error| FolderError::host(directory, error)),
    }
}
