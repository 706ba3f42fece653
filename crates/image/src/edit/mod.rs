//! Changing a filesystem in an image where it is: all of a change, or nothing.
//!
//! - [`Session`]: an image that is being changed, in memory until [`Session::commit`].
//! - [`Editor`]: what can be done with the files of a mounted filesystem.
//! - [`put`](mod@put): files of the host into the image.
//! - [`Permissions`]: modes in the notations of `chmod`.
//!
//! The image keeps its erase counters, volumes and sizes; a volume grows only if that is asked for, and nothing is moved because of
//! wear. A file that is shorter than its volumes grows when it has to, at most to their size. An image that asks for its free space
//! to be erased by the first mount goes on asking for it.

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

/// Reason for which a change was not made. The image is as it was.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// Failure of the image file.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Something in the image.
    #[error("{path}: {error}")]
    Inside {
        /// The path in the image.
        path: String,
        /// Description of the fault.
        error: fs::Error,
    },
    /// A file does not have an extended attribute.
    #[error("{path}: the file has no extended attribute {name}")]
    NoAttribute {
        /// The path in the image.
        path: String,
        /// Name of the attribute.
        name: String,
    },
    /// All changes together fill the filesystem.
    #[error("the changes do not fit: they leave no space on the filesystem")]
    Full,
    /// Something on the host.
    #[error("{path}: {error}")]
    Host {
        /// The path on the host.
        path: String,
        /// Description of the fault.
        error: std::io::Error,
    },
    /// The volume cannot have this number of LEBs, or the image not this number of eraseblocks.
    #[error("the {what} cannot have {}: {}", count(u64::from(*.lebs), .unit), possible(*.least, *.most))]
    Lebs {
        /// `volume` or `image`.
        what: &'static str,
        /// `LEB` or `eraseblock`.
        unit: &'static str,
        /// Number of LEBs asked for.
        lebs: u32,
        /// Number that it has.
        least: u32,
        /// Number that the filesystem was made for.
        most: u32,
        /// The image in its file, which could have this number in one of its own.
        own: Option<Part>,
        /// Eraseblocks up to the end of the file, if what follows may have overwritten the image.
        over: Option<u32>,
    },
    /// The filesystem has too few LEBs to be mounted for writing.
    #[error("no space for a change: {why}{}", never_attached(.growth.as_ref()))]
    TooSmall {
        /// Size that it has.
        why: TooSmall,
        /// Size that makes the change possible, where that is known.
        growth: Option<NeededGrowth>,
    },
    /// The change needs more room, and the filesystem has all that it can have.
    #[error("{error}; the {} cannot have more than {}", .growth.what, count(u64::from(.growth.max), .growth.unit))]
    Largest {
        /// Reason for which the change needs room.
        error: Box<EditError>,
        /// Size of the filesystem.
        growth: Growth,
    },
    /// The change needs more room, and the image has one size.
    #[error("{0}; the image cannot grow")]
    NoGrowth(Box<EditError>),
    /// Something else follows the image in its file, or its format has one size.
    #[error("the image cannot grow: something else follows in the file, or the format fills its partition")]
    CannotGrow,
    /// The request makes no sense.
    #[error("{path}: {what}")]
    Refused {
        /// The path in the image.
        path: String,
        /// Reason for the refusal, in words.
        what: &'static str,
    },
}

/// Reason why a filesystem has too few LEBs to be mounted for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooSmall {
    /// They are too few for the write buffers and the garbage collector.
    #[error("the filesystem has {0} LEBs, too few to be mounted for writing")]
    Lebs(u64),
    /// The journal that it was made with is larger than its main area.
    #[error("the journal of {} is larger than the filesystem: it was made for a larger volume", size(*.0))]
    Journal(u64),
}

impl TooSmall {
    /// The reason that the failure of a mount for writing is, if it is one.
    pub(crate) fn of_mount(error: &ImageError) -> Option<Self> {
        let ImageError::Ubifs(ubifs::Error::Node { lnum: 0, source, .. }) = error else { return None };
        match source.reason {
            Reason::OutOfRange { field: "LEBs", value } => Some(Self::Lebs(value)),
            Reason::OutOfRange { field: "journal size", value } => Some(Self::Journal(value)),
            _ => None,
        }
    }
}

/// Size of a volume, and of the flash around it, that makes a change possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededGrowth {
    /// `volume` or `image`.
    pub what: &'static str,
    /// LEBs that it needs.
    pub lebs: u64,
    /// Eraseblocks of the partition and bytes of one, without the reserve for bad blocks; `None` without UBI.
    pub partition: Option<(u64, u32)>,
    /// UBI is to give the volume all free space when it first attaches the image, and has not.
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
    /// Advice to grow.
    pub(crate) fn help(&self) -> Advice {
        let partition = self.partition.map_or(String::new(), |(pebs, peb)| {
            let bytes = size(pebs * u64::from(peb));
            format!(", for which the partition needs at least {pebs} PEBs ({bytes}) and those reserved for bad blocks")
        });
        let Self { what, lebs, .. } = self;
        advice! { "the image is unchanged; ", CommandOption::Grow, format!(" enlarges the {what} to {lebs} LEBs{partition}") }
    }
}

/// Words for the sizes that something can have.
fn possible(least: u32, most: u32) -> String {
    if least < most { format!("{least} to {most} are possible") } else { format!("it stays at {most}") }
}

impl EditError {
    /// True when a larger filesystem might help: it is full, or too small to be written to at all.
    pub fn wants_room(&self) -> bool {
        match self {
            Self::Inside { error, .. } => *error == fs::Error::NoSpace,
            Self::Image(error) => error.wants_room(),
            Self::TooSmall { .. } | Self::Full | Self::Largest { .. } | Self::NoGrowth(_) => true,
            _ => false,
        }
    }

    /// The failure of a mount for writing.
    fn of_mount(error: ImageError) -> Self {
        match TooSmall::of_mount(&error) {
            Some(why) => Self::TooSmall { why, growth: None },
            None => Self::Image(error),
        }
    }

    /// The failure of bringing all changes to flash, which no file alone is the reason for.
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

/// Report on changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Edited {
    /// Files, directories and other entries that were made, changed or removed.
    pub entries: u64,
    /// Bytes of files put into the image, holes included.
    pub bytes: u64,
    /// Properties of files on the host that the image cannot hold, and files that a recovery has given up.
    pub losses: Vec<Loss>,
}
