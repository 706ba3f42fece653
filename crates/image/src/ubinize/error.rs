//! Why volumes make no image.

use std::path::PathBuf;

use floatgate_stack::StoreError;

use crate::report::Finding;

/// Reason for which volumes make no image.
#[derive(Debug, thiserror::Error)]
pub enum UbinizeError {
    /// The ini file says what cannot be.
    #[error("{}:{line}: {what}", .path.display())]
    Ini {
        /// The ini file.
        path: PathBuf,
        /// The line, from 1 on; the line of the section's name where something is missing.
        line: usize,
        /// Description of the fault.
        what: String,
    },
    /// A volume is not possible.
    #[error("volume {name:?}: {what}")]
    Volume {
        /// Name of the volume or its section.
        name: String,
        /// Description of the fault.
        what: String,
    },
    /// Linux does not accept the volume, or all of them on this flash.
    #[error("{}{}: {}", .0.volume.iter().map(|name| format!("volume {name:?}: ")).collect::<String>(), .0.what, .0.consequence)]
    Refused(Box<Finding>),
    /// A file cannot be read.
    #[error("{}: {error}", .path.display())]
    Read {
        /// Path of the file that cannot be read.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The image cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}
