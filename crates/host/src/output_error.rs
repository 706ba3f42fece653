//! Reasons why an output cannot be written.

use std::io;
use std::path::{Path, PathBuf};

/// Reason why an output cannot be written. An existing file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Output and input are the same file.
    #[error("{} would be written over {}", .output.display(), .input.display())]
    SameFile {
        /// Path of the output.
        output: PathBuf,
        /// Path of the input.
        input: PathBuf,
    },
    /// The path is a directory.
    #[error("{} is a folder", .0.display())]
    Folder(PathBuf),
    /// The folder of the path does not exist.
    #[error("{}: there is no folder {}", .path.display(), .folder.display())]
    NoFolder {
        /// Path of the output.
        path: PathBuf,
        /// Path of the folder that does not exist.
        folder: PathBuf,
    },
    /// The name is a symbolic link whose target does not exist.
    #[error("{} is a symbolic link to a file that does not exist", .0.display())]
    Dangling(PathBuf),
    /// Another process has mounted the file for writing or is changing it; those changes would be
    /// lost.
    #[error("{} is mounted or being changed by another floatgate", .0.display())]
    InUse(PathBuf),
    /// A block device is too small for the output. Nothing was written to it.
    #[error("{} has {room} bytes, and the output {needed}", .path.display())]
    DeviceTooSmall {
        /// Path of the device.
        path: PathBuf,
        /// Size of the device, B.
        room: u64,
        /// Size of the output, B.
        needed: u64,
    },
    /// `-` was given for an output that is read again while it is written, which stdout does not
    /// support.
    #[error("this output cannot go to stdout: it is a file that is read again while it is written")]
    NoStream,
    /// Binary data would go to a terminal.
    #[error("the output is binary, and stdout is a terminal")]
    Terminal,
    /// An error of the operating system.
    #[error("{}: {error}", shown(.path))]
    Host {
        /// Path of the output.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// The name of an output in a message.
fn shown(path: &Path) -> String {
    if is_stdout(path) { "stdout".to_owned() } else { path.display().to_string() }
}

impl OutputError {
    pub(crate) fn host(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::Host { path, error }
    }
}

/// True for a path that means stdout (or stdin).
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}
