//! Why an image cannot be built, and what to do about it.

use std::path::PathBuf;

use super::super::ImageError;
use super::super::ubinize::UbinizeError;
use floatgate_stack::ubifs;

/// Reason for which an image cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The source cannot be read.
    #[error("{}: {error}", .path.display())]
    Source {
        /// The directory or the tar.
        path: PathBuf,
        /// Reason.
        error: std::io::Error,
    },
    /// The tar is damaged.
    #[error("{}: {what}", .path.display())]
    Tar {
        /// The tar.
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
    /// A tar from a pipe does not say how large it is.
    #[error("the size of what comes from stdin is not known")]
    SizeUnknown,
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
    /// Advice to the user.
    pub fn help(&self) -> String {
        let text = match self {
            Self::Source { .. } => "name a directory or a tar that can be read",
            Self::Tar { .. } => "`tar --format=pax` writes what is read here",
            Self::Table { .. } => {
                "a line is: name type mode uid gid major minor start increment count, - for what is not given"
            }
            Self::Shape(_) => {
                "--page-size 2048 --peb-size 128KiB are those of most NANDs; `floatgate parts NAME` lists a part's"
            }
            Self::SizeUnknown => {
                "say how large the filesystem may become with --max-lebs, --volume-size or --part"
            }
            Self::Parameter { field: "fanout", .. } => {
                "--fanout takes 3 and more, as many children as a LEB holds"
            }
            Self::Parameter { .. } => {
                "leave it to its default, or give the filesystem more LEBs with --volume-size or --max-lebs"
            }
            Self::Sizes(_) => {
                "give more LEBs with --volume-size or --max-lebs, or leave them to their defaults"
            }
            Self::NoSpace => "a larger --volume-size or --max-lebs has more room, and zstd or zlib need less",
            Self::VolumeTooSmall { .. } => {
                "give a larger --volume-size, or a smaller --journal-size, which the filesystem has room for at least"
            }
            Self::Image(ImageError::Ubifs(ubifs::Error::Volume(_))) => {
                "name an output in a folder that can be written to, with room for the image"
            }
            Self::Image(ImageError::Ubifs(_)) => {
                "leave what the message names to its default; journal, log and orphans may need a larger --volume-size"
            }
            Self::Image(error) => return error.help(),
            Self::Ubi(error) => error.help(),
            Self::Stopped => "this is a bug in floatgate: please report it",
        };
        text.to_owned()
    }
}
