//! The error type of this crate, with advice for the user.

use floatgate_config::ConfigError;
#[cfg(feature = "images")]
use floatgate_image::ImageError;
#[cfg(feature = "images")]
use floatgate_mtd::advice::Help;
use floatgate_mtd::words::count;
use floatgate_mtd::{BlockError, BlockErrorKind, ErrorKind};
#[cfg(feature = "filesystems")]
use floatgate_stack::fs;
use std::fmt;

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why a call failed. [`Error::help`] returns advice.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setup, part, card or override is invalid, or the driver rejects the chip on this board.
    #[error("{}{}", place(.0), .0)]
    Setup(#[source] Box<floatgate_sim::Error>),
    /// An operation of the flash failed.
    #[error(transparent)]
    Flash(#[from] floatgate_mtd::Error),
    /// An operation of a card failed.
    #[error(transparent)]
    Card(#[from] BlockError),
    /// An operation of a mounted filesystem failed.
    #[cfg(feature = "filesystems")]
    #[error("{path}: {error}")]
    File {
        /// Path of the file; `/` if the operation concerns the whole filesystem.
        path: String,
        /// Failure of the filesystem.
        error: fs::Error,
    },
    /// The filesystem cannot be attached, mounted or unmounted. The text contains the operation and the reason.
    #[error("{0}")]
    Mount(String),
    /// The driver failed to set up the chip again after power-on.
    #[error("the chip does not start again: {0}")]
    Restart(String),
    /// A cut is invalid: its share is not between 0 and 1, or its operation number is 0.
    #[error("a power cut {0}")]
    Cut(String),
    /// `sync` ended before the operation at which power was to be cut.
    #[error("sync ended before the power cut, after {}", count(*.operations, "operation"))]
    CutNotReached {
        /// Number of program and erase operations of the `sync`.
        operations: u64,
    },
    /// An image cannot be opened, read or changed.
    #[cfg(feature = "images")]
    #[error(transparent)]
    Image(Box<ImageError>),
}

impl Error {
    /// Advice for the user; `None` if there is no advice.
    pub fn help(&self) -> Option<String> {
        let text = match self {
            Self::Setup(error) => return error.help().map(|help| help.to_string()),
            Self::Flash(error) => return of_flash(&error.kind).map(str::to_owned),
            Self::Card(error) => return of_card(error.kind).map(str::to_owned),
            #[cfg(feature = "images")]
            Self::Image(error) => return Some(error.help().to_string()),
            #[cfg(feature = "filesystems")]
            Self::File { error, .. } => return of_file(error).map(str::to_owned),
            Self::Mount(_) => "format the flash, or mount it with the setup that it was formatted with",
            Self::Restart(_) => "the flash is damaged for this driver: make a new one",
            Self::Cut(_) => "choose operations from 1, and a share from 0 to 1",
            Self::CutNotReached { .. } => {
                "choose an earlier operation, or change more before; `order_cut` cuts in any call"
            }
        };
        Some(text.to_owned())
    }

    /// True if the call failed because power was lost.
    pub fn is_power_loss(&self) -> bool {
        match self {
            Self::Flash(error) => error.kind == ErrorKind::PowerLost,
            Self::Card(error) => error.kind == BlockErrorKind::PowerLost,
            #[cfg(feature = "filesystems")]
            Self::File { error, .. } => matches!(error, fs::Error::PowerLost(_)),
            _ => false,
        }
    }
}

/// Formats message and advice, because `main` prints the `Debug` form of its error. The fields below it contain whole
/// texts of setups.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        self.help().map_or(Ok(()), |help| write!(f, "\nhelp: {help}"))
    }
}

impl From<floatgate_sim::Error> for Error {
    fn from(error: floatgate_sim::Error) -> Self {
        Self::Setup(Box::new(error))
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        floatgate_sim::Error::from(error).into()
    }
}

#[cfg(feature = "images")]
impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        Self::Image(Box::new(error))
    }
}

/// Position of an error in a text, followed by a colon. Overrides have no position, because they are arguments of the
/// caller.
fn place(error: &floatgate_sim::Error) -> String {
    let place = error.config().and_then(ConfigError::place);
    let place = place.filter(|place| !place.source.is_argument());
    place.map_or_else(String::new, |place| format!("{place}: "))
}

const fn of_flash(kind: &ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::OutOfRange { .. } | ErrorKind::Misaligned { .. } => {
            Some("`Flash::geometry` has the sizes of the flash")
        }
        ErrorKind::NotErased => Some("erase the block first"),
        ErrorKind::BadBlock => Some("choose another block: `Flash::is_bad` tells which are bad"),
        ErrorKind::PowerLost => Some("`Flash::restart` switches power on again"),
        _ => None,
    }
}

const fn of_card(kind: BlockErrorKind) -> Option<&'static str> {
    match kind {
        BlockErrorKind::OutOfRange { .. } => Some("`Card::sectors` has the size of the card"),
        BlockErrorKind::PartialSector { .. } => Some("read and write whole sectors of 512 bytes"),
        _ => None,
    }
}

#[cfg(feature = "filesystems")]
const fn of_file(error: &fs::Error) -> Option<&'static str> {
    match error {
        fs::Error::NotFound => Some("`Fs::read_dir` lists what is there"),
        fs::Error::NoSpace => Some("remove files, or choose a larger chip or partition"),
        fs::Error::NotEmpty => Some("remove what is in it first"),
        fs::Error::PowerLost(_) => {
            Some("`Fs::power_off` gives the flash back with power on, to mount it again")
        }
        _ => None,
    }
}
