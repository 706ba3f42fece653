//! Advice for errors of the host.

#[cfg(all(feature = "fuse", feature = "signals"))]
use crate::guest::GuestError;
#[cfg(feature = "fuse")]
use crate::mount::FolderError;
use crate::output::{OutputError, is_stdout};
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, Help, shell};
use std::io;

/// True if the error means that the disk, the quota or the file size limit is exhausted.
fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl Help for OutputError {
    fn help(&self) -> Advice {
        match self {
            Self::SameFile { .. } | Self::Folder(_) | Self::Dangling(_) => {
                advice! { "name another file for the output" }
            }
            Self::InUse(_) => {
                advice! { "wait until it has ended, unmount the image, or name another file for the output" }
            }
            Self::DeviceTooSmall { .. } => {
                advice! { "the device is unchanged: name a larger one, or a file" }
            }
            Self::NoStream => advice! { "name a file; ./- is one with that name" },
            Self::Terminal => advice! { "name a file, or pipe the output into a command" },
            Self::Host { path, error } if is_stdout(path) && is_no_room(error) => {
                advice! { "what stdout leads to is full: the output is not complete; redirect it to a place with more room" }
            }
            Self::Host { error, .. } if error.kind() == io::ErrorKind::FileTooLarge => {
                advice! { "no file can become that large there (", shell("ulimit -f"), ", or the disk's filesystem): a file that had this name before is unchanged" }
            }
            Self::Host { error, .. } if is_no_room(error) => {
                advice! { "the disk is full: a file that had this name before is unchanged; name a place with more room" }
            }
            Self::Host { path, .. } if is_stdout(path) => {
                advice! { "stdout is closed: redirect it to a file or a pipe" }
            }
            Self::Host { .. } | Self::NoFolder { .. } => {
                advice! { "name a file in a folder that you can write to" }
            }
        }
    }
}

#[cfg(feature = "fuse")]
impl Help for FolderError {
    fn help(&self) -> Advice {
        match self {
            Self::NotEmpty(_) => advice! { "name an empty folder" },
            Self::MountPoint(directory) | Self::Dead(directory) => {
                let folder = directory.display();
                advice! { "name another folder, or unmount it: ", shell(format!("umount {folder}")), ", without root ", shell(format!("fusermount3 -u {folder}")) }
            }
            Self::Host { .. } => {
                advice! { "name an empty folder; it takes /dev/fuse, and root or the command fusermount3 (package fuse3)" }
            }
        }
    }
}

#[cfg(all(feature = "fuse", feature = "signals"))]
impl Help for GuestError {
    fn help(&self) -> Advice {
        match self {
            Self::File { .. } => advice! { "name a place that can be written" },
            Self::Serve(error) => error.help(),
        }
    }
}
