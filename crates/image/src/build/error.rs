//! Reasons why an image cannot be built, with advice.

use std::path::PathBuf;

use floatgate_stack::fs::Error;

use super::super::ubinize::UbinizeError;
use crate::ImageError;

/// Reason why an image cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Source that cannot be read.
    #[error("{}: {error}", .path.display())]
    Source {
        /// Path of the directory or the tar.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// Damaged tar.
    #[error("{}: {what}", .path.display())]
    Tar {
        /// Path of the tar file.
        path: PathBuf,
        /// Description of the fault.
        what: &'static str,
    },
    /// Faulty device table.
    #[error("device table, line {line}: {what}")]
    Table {
        /// Number of the line, from 1.
        line: usize,
        /// Description of the fault.
        what: String,
    },
    /// Sizes that no flash has, as text.
    #[error("{0}")]
    Shape(String),
    /// Sizes that a filesystem without UBI, such as LittleFS, cannot have, as text.
    #[error("{0}")]
    TreeShape(String),
    /// Tar from a pipe, whose size is unknown in advance.
    #[error("the size of what comes from stdin is not known")]
    SizeUnknown {
        /// True for a JFFS2, which is as large as its partition.
        is_jffs2: bool,
    },
    /// Image larger than its requested size.
    #[error("the image has {image} bytes, more than the {pad} that it is to be padded to")]
    PadTooSmall {
        /// Size of the image in bytes.
        image: u64,
        /// Requested size in bytes.
        pad: u64,
    },
    /// Compressor that the format does not have.
    #[error("JFFS2 compresses with zlib or LZO only")]
    Compressor,
    /// Parameter with a value that no filesystem has.
    #[error("no filesystem can have this number for {field}: {value}")]
    Parameter {
        /// Name of the parameter.
        field: &'static str,
        /// Value of the parameter.
        value: u64,
    },
    /// Combination of sizes that no filesystem has, as text.
    #[error("no filesystem can be made: {0}")]
    Sizes(String),
    /// Files that do not fit the image.
    #[error("the files do not fit into the filesystem")]
    NoSpace,
    /// Largest number of LEBs too small for the files.
    #[error("the files need {needed} LEBs, and the filesystem can have {most}")]
    TooFewLebs {
        /// Fewest LEBs of a filesystem that holds the files.
        needed: u32,
        /// Largest number of LEBs that the filesystem may have.
        most: u32,
    },
    /// Volume too small for the filesystem.
    #[error("the filesystem has {lebs} LEBs, and the volume {volume}")]
    VolumeTooSmall {
        /// LEBs of the filesystem.
        lebs: u32,
        /// LEBs of the volume.
        volume: u32,
    },
    /// Error of the filesystem or of the file that stores it.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Error of the UBI device around the filesystem.
    #[error(transparent)]
    Ubi(#[from] UbinizeError),
    /// End of the pipeline's other side, whose own error states the reason.
    #[error("the work was stopped")]
    Stopped,
}

impl BuildError {
    /// True for an error that more LEBs may avoid.
    pub(super) const fn is_of_size(&self) -> bool {
        matches!(self, Self::NoSpace | Self::Sizes(_) | Self::Parameter { .. } | Self::VolumeTooSmall { .. })
    }
}

/// Error of a filesystem that is being filled, as a build error.
pub(super) fn image(error: Error) -> BuildError {
    match error {
        Error::NoSpace => BuildError::NoSpace,
        error => ImageError::from(error).into(),
    }
}
