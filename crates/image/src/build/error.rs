//! Why an image cannot be built, and what to do about it.

use std::path::PathBuf;

use floatgate_stack::fs::Error;

use super::super::ubinize::UbinizeError;
use crate::ImageError;

/// Reason for which an image cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The source cannot be read.
    #[error("{}: {error}", .path.display())]
    Source {
        /// The directory or the tar.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The tar is damaged.
    #[error("{}: {what}", .path.display())]
    Tar {
        /// Path of the tar file.
        path: PathBuf,
        /// Description of the fault.
        what: &'static str,
    },
    /// The device table is wrong.
    #[error("device table, line {line}: {what}")]
    Table {
        /// The line, from 1 on.
        line: usize,
        /// Description of the fault.
        what: String,
    },
    /// Sizes that no flash has.
    #[error("{0}")]
    Shape(String),
    /// Sizes that a filesystem without UBI, such as LittleFS, does not have.
    #[error("{0}")]
    TreeShape(String),
    /// A tar from a pipe does not say how large it is.
    #[error("the size of what comes from stdin is not known")]
    SizeUnknown {
        /// True for a JFFS2, which is as large as its partition.
        is_jffs2: bool,
    },
    /// The image is larger than it is to be.
    #[error("the image has {image} bytes, more than the {pad} that it is to be padded to")]
    PadTooSmall {
        /// Bytes of the image.
        image: u64,
        /// Bytes that it is to have.
        pad: u64,
    },
    /// The format has other compressors.
    #[error("JFFS2 compresses with zlib or LZO only")]
    Compressor,
    /// No filesystem has such a parameter.
    #[error("no filesystem can have this number for {field}: {value}")]
    Parameter {
        /// Name of the parameter.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// No filesystem has such sizes.
    #[error("no filesystem can be made: {0}")]
    Sizes(String),
    /// The files do not fit.
    #[error("the files do not fit into the filesystem")]
    NoSpace,
    /// The filesystem may have too few LEBs for the files.
    #[error("the files need {needed} LEBs, and the filesystem can have {most}")]
    TooFewLebs {
        /// Fewest LEBs of a filesystem that holds the files.
        needed: u32,
        /// LEBs that it can have.
        most: u32,
    },
    /// The filesystem does not fit.
    #[error("the filesystem has {lebs} LEBs, and the volume {volume}")]
    VolumeTooSmall {
        /// LEBs of the filesystem.
        lebs: u32,
        /// LEBs of the volume.
        volume: u32,
    },
    /// The filesystem or the file below it.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The UBI device around it.
    #[error(transparent)]
    Ubi(#[from] UbinizeError),
    /// The other side of the pipeline has ended; that one says why.
    #[error("the work was stopped")]
    Stopped,
}

impl BuildError {
    /// True where a filesystem with more LEBs may be possible.
    pub(super) const fn is_of_size(&self) -> bool {
        matches!(self, Self::NoSpace | Self::Sizes(_) | Self::Parameter { .. } | Self::VolumeTooSmall { .. })
    }
}

/// The failure of a filesystem that is being filled.
pub(super) fn image(error: Error) -> BuildError {
    match error {
        Error::NoSpace => BuildError::NoSpace,
        error => ImageError::from(error).into(),
    }
}
