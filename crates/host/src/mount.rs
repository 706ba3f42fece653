//! Folders of the host as mount points, through FUSE.

use fuser::{MountOption, Session, SessionUnmounter};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why nothing can be mounted on a folder, or why a mount did not end well.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
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

impl FolderError {
    /// The error of the host at a folder.
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
    /// The unmounter of a session.
    pub fn new<F: fuser::Filesystem>(session: &mut Session<F>, directory: &Path) -> Self {
        Self { session: session.unmount_callable(), directory: directory.to_owned() }
    }

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
///
/// # Errors
/// Nothing can be mounted on it.
pub fn check_directory(directory: &Path) -> Result<(), FolderError> {
    let failed = |error: std::io::Error| match error.raw_os_error() {
        Some(code) if code == Errno::NOTCONN.raw_os_error() => FolderError::Dead(directory.to_owned()),
        _ => FolderError::host(directory, error),
    };
    // What is not a folder is refused here. Of a dead mount the kernel may still know the status.
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

/// Options of the host's mount: `name` is its source in the list of mounts.
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

/// Answers the kernel until the mount ends. Linux also says ECONNABORTED instead of ENODEV when its connection ends while it hands
/// out a request (`fuse_dev_do_read`), as the last of them when a lazily unmounted folder loses its last user.
///
/// # Errors
/// The connection to the kernel failed.
pub fn run<F: fuser::Filesystem>(session: Session<F>, directory: &Path) -> Result<(), FolderError> {
    match session.run() {
        Err(error) if error.raw_os_error() == Some(Errno::CONNABORTED.raw_os_error()) => Ok(()),
        ended => ended.map_err(|error| FolderError::host(directory, error)),
    }
}
