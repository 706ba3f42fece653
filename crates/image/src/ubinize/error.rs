//! Reasons why volumes cannot form an image.

use std::path::PathBuf;

use floatgate_stack::StoreError;

use crate::report::Finding;

/// Reason why volumes cannot form an image.
#[derive(Debug, thiserror::Error)]
pub enum UbinizeError {
    /// The ini file contains an error.
    #[error("{}:{line}: {what}", .path.display())]
    Ini {
        /// Path of the ini file.
        path: PathBuf,
        /// Line number from 1 on; for a missing key, the line of the section's name.
        line: usize,
        /// Description of the fault.
        what: String,
    },
    /// A volume is impossible.
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
