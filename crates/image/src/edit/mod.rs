//! Changes of a filesystem inside its image. A change is made completely or not at all.
//!
//! - [`Session`]: an image with pending changes, which stay in memory until [`Session::commit`].
//! - [`Editor`]: operations on the files of a mounted filesystem.
//! - [`put`](mod@put): copies files of the host into the image.
//! - [`Permissions`]: modes in the notations of `chmod`.
//!
//! Erase counters, volumes and sizes of the image stay the same. A volume grows only on request, and no data is moved because of
//! wear. A file that is shorter than its volumes grows if necessary, up to their size. An image whose superblock requests that the
//! first mount erases its free space keeps this request.

mod editor;
mod path;
mod paths;
mod permissions;
#[cfg(not(target_family = "wasm"))]
pub mod put;
mod session;
#[cfg(test)]
mod tests;

pub use crate::pending::{Pending, Written};
pub use editor::{Editor, Owner};
pub use path::ImagePath;
#[cfg(feature = "mount")]
pub(super) use paths::Paths;
pub use permissions::Permissions;
#[cfg(not(target_family = "wasm"))]
pub use put::PutOptions;
pub use session::{Change, Committed, EditOptions, GrowTo, Grown, Session, edit};

use floatgate_media::Reason;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, CommandOption};
use floatgate_stack::{fs, ubifs};
use serde::Serialize;

use crate::ImageError;
use crate::image::Growth;
use crate::part::Part;
use crate::report::Loss;
use crate::words::{count, show_name, size};

/// Reason why a change was not made. The image has not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// Failure of the image file.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Error in the image.
    #[error("{path}: {error}")]
    Inside {
        /// Path in the image.
        path: String,
        /// Description of the fault.
        error: fs::Error,
    },
    /// A file does not have the extended attribute.
    #[error("{path}: the file has no extended attribute {name}")]
    NoAttribute {
        /// Path in the image.
        path: String,
        /// Name of the attribute.
        name: String,
    },
    /// The changes do not fit into the filesystem.
    #[error("the changes do not fit: they leave no space on the filesystem")]
    Full,
    /// Error on the host.
    #[error("{path}: {error}")]
    Host {
        /// Path on the host.
        path: String,
        /// Description of the fault.
        error: std::io::Error,
    },
    /// The volume cannot have this number of LEBs, or the image cannot have this number of eraseblocks.
    #[error("the {what} cannot have {}: {}", count(u64::from(*.lebs), .unit), possible(*.least, *.most))]
    Lebs {
        /// `volume` or `image`.
        what: &'static str,
        /// `LEB` or `eraseblock`.
        unit: &'static str,
        /// Requested number of LEBs.
        lebs: u32,
        /// Current number, which is the smallest possible one.
        least: u32,
        /// Largest number, for which the filesystem was made.
        most: u32,
        /// Range of the image in its file. In its own file, the image could have the requested number.
        own: Option<Part>,
        /// Number of eraseblocks up to the end of the file, if the following data may have overwritten the image.
        over: Option<u32>,
    },
    /// The filesystem has too few LEBs to be mounted for writing.
    #[error("no space for a change: {why}{}", never_attached(.growth.as_ref()))]
    TooSmall {
        /// Reason with the size.
        why: TooSmall,
        /// Size that makes the change possible, if it is known.
        growth: Option<NeededGrowth>,
    },
    /// The change needs more space, and the filesystem already has its largest size.
    #[error("{error}; the {} cannot have more than {}", .growth.what, count(u64::from(.growth.max), .growth.unit))]
    Largest {
        /// Reason why the change needs space.
        error: Box<EditError>,
        /// Size of the filesystem.
        growth: Growth,
    },
    /// The change needs more space, and the size of the image is fixed.
    #[error("{0}; the image cannot grow")]
    NoGrowth(Box<EditError>),
    /// Other data follows the image in its file, or its format has a fixed size.
    #[error("the image cannot grow: something else follows in the file, or the format fills its partition")]
    CannotGrow,
    /// The request is impossible for this path.
    #[error("{path}: {what}")]
    Refused {
        /// Path in the image.
        path: String,
        /// Text of the reason.
        what: &'static str,
    },
}

/// Reason why a filesystem has too few LEBs to be mounted for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooSmall {
    /// Too few LEBs for the write buffers and the garbage collector.
    #[error("the filesystem has {0} LEBs, too few to be mounted for writing")]
    Lebs(u64),
    /// The journal is larger than the main area for which it was made.
    #[error("the journal of {} is larger than the filesystem: it was made for a larger volume", size(*.0))]
    Journal(u64),
}

impl TooSmall {
    /// Reason in the failure of a mount for writing, if the failure has this reason.
    pub(crate) fn of_mount(error: &ImageError) -> Option<Self> {
        let ImageError::Ubifs(ubifs::Error::Node { lnum: 0, source, .. }) = error else { return None };
        match source.reason {
            Reason::OutOfRange { field: "LEBs", value } => Some(Self::Lebs(value)),
            Reason::OutOfRange { field: "journal size", value } => Some(Self::Journal(value)),
            _ => None,
        }
    }
}

/// Size of a volume, and of its flash, that makes a change possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededGrowth {
    /// `volume` or `image`.
    pub what: &'static str,
    /// Number of necessary LEBs.
    pub lebs: u64,
    /// Number of eraseblocks of the partition, without the reserve for bad blocks, and their size in bytes; `None`
    /// without UBI.
    pub partition: Option<(u64, u32)>,
    /// True if UBI gives the volume all free space at the first attach, which has not happened yet.
    pub is_new: bool,
}

fn never_attached(growth: Option<&NeededGrowth>) -> &'static str {
    if growth.is_some_and(|growth| growth.is_new) {
        "; UBI enlarges it when it first attaches the image, which has not happened yet"
    } else {
        ""
    }
}

impl NeededGrowth {
    /// Advice to increase the size.
    pub(crate) fn help(&self) -> Advice {
        let partition = self.partition.map_or(String::new(), |(pebs, peb)| {
            let bytes = size(pebs * u64::from(peb));
            format!(", for which the partition needs at least {pebs} PEBs ({bytes}) and those reserved for bad blocks")
        });
        let Self { what, lebs, .. } = self;
        advice! { "the image is unchanged; ", CommandOption::Grow, format!(" enlarges the {what} to {lebs} LEBs{partition}") }
    }
}

/// Text about the possible sizes.
fn possible(least: u32, most: u32) -> String {
    if least < most { format!("{least} to {most} are possible") } else { format!("it stays at {most}") }
}

impl EditError {
    /// True if a larger filesystem may help: it is full, or too small for any write.
    pub fn wants_room(&self) -> bool {
        match self {
            Self::Inside { error, .. } => *error == fs::Error::NoSpace,
            Self::Image(error) => error.wants_room(),
            Self::TooSmall { .. } | Self::Full | Self::Largest { .. } | Self::NoGrowth(_) => true,
            _ => false,
        }
    }

    /// Failure of a mount for writing.
    fn of_mount(error: ImageError) -> Self {
        match TooSmall::of_mount(&error) {
            Some(why) => Self::TooSmall { why, growth: None },
            None => Self::Image(error),
        }
    }

    /// Failure to write all changes to flash, which does not concern a single file.
    fn of_end(error: fs::Error) -> Self {
        match error {
            fs::Error::NoSpace => Self::Full,
            error => Self::Image(error.into()),
        }
    }

    pub(crate) fn inside(path: &[u8]) -> impl FnOnce(fs::Error) -> Self {
        let path = show_name(path);
        move |error| Self::Inside { path, error }
    }

    pub(crate) fn no_attribute(path: &[u8], name: &[u8]) -> Self {
        Self::NoAttribute { path: show_name(path), name: show_name(name) }
    }

    pub(crate) fn refused(path: &[u8], what: &'static str) -> Self {
        Self::Refused { path: show_name(path), what }
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn host(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |error| Self::Host { path, error }
    }
}

/// Report about changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Edited {
    /// Number of files, directories and other entries that were created, changed or removed.
    pub entries: u64,
    /// Number of bytes of files that were put into the image, including holes.
    pub bytes: u64,
    /// Properties of host files that the image cannot store, and files that a recovery removed.
    pub losses: Vec<Loss>,
}
