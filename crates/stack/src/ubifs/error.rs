//! Errors of a filesystem.

use crate::volume::{VolumeError, VolumeFault};
use floatgate_media::MediaError;
use floatgate_media::ubifs::NodeType;

/// Reason for which an operation on a filesystem failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The volume below.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// A node, or a node of the LPT, is damaged.
    #[error("LEB {lnum}, offset {offset:#x}: {source}")]
    Node {
        /// Its LEB.
        lnum: u32,
        /// Where it begins in the LEB.
        offset: u32,
        /// The error; its offset counts from the node.
        source: MediaError,
    },
    /// Another node than the one expected.
    #[error("LEB {lnum}, offset {offset:#x}: {expected:?} expected, {found:?} found")]
    WrongNode {
        /// Its LEB.
        lnum: u32,
        /// Where it begins in the LEB.
        offset: u32,
        /// The type that should stand there.
        expected: NodeType,
        /// The type that does.
        found: NodeType,
    },
    /// Structures contradict each other.
    #[error("LEB {lnum}, offset {offset:#x}: {what}")]
    Corrupt {
        /// Where it shows: LEB.
        lnum: u32,
        /// Where it shows: byte in the LEB.
        offset: u32,
        /// Description of the fault.
        what: &'static str,
    },
    /// The superblock does not fit the volume, or asks for what this implementation does not have.
    #[error("the superblock: {0}")]
    Superblock(String),
    /// Recovery is needed, and the filesystem may not be written or recovery was not asked for.
    #[error("the filesystem was not unmounted cleanly and has to be recovered first")]
    NeedsRecovery,
    /// Mounted read-only, or read-only after a failure.
    #[error("read-only filesystem")]
    ReadOnly,
    /// No space is left.
    #[error("no space left on the filesystem")]
    NoSpace,
    /// No such name, inode or attribute.
    #[error("not found")]
    NotFound,
    /// The name exists already.
    #[error("exists already")]
    Exists,
    /// Not a directory.
    #[error("not a directory")]
    NotDirectory,
    /// A directory, where none is allowed.
    #[error("is a directory")]
    IsDirectory,
    /// The directory is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
    /// A name of more than 255 bytes, an empty one, or one with a slash or a zero.
    #[error("not a possible name")]
    BadName,
    /// Larger than the format can hold.
    #[error("too large: {what} of {len} bytes")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size.
        len: u64,
    },
    /// Arguments that make no sense together.
    #[error("{0}")]
    Invalid(&'static str),
    /// Forbidden by the inode's flags (immutable, append-only).
    #[error("the inode's flags forbid it")]
    NotPermitted,
    /// Too many links to an inode.
    #[error("too many links")]
    TooManyLinks,
    /// A structure or a node is not what the key, or the hash that leads to it, says it is: damaged, or forged.
    #[error("LEB {lnum}, offset {offset:#x}: not authentic: {what}")]
    Unauthentic {
        /// Its LEB.
        lnum: u32,
        /// Where it begins in the LEB.
        offset: u32,
        /// Description of the fault.
        what: &'static str,
    },
    /// The key that was given is another one than the filesystem's.
    #[error("the key is not the one that the filesystem is authenticated with")]
    WrongAuthKey,
    /// No node that is left was written before an earlier moment.
    #[error("no node that is still on the flash is as old as that")]
    NothingThatOld,
    /// A filesystem was to be authenticated that has no authentication.
    #[error("the filesystem has no authentication: there is nothing to verify it by")]
    NotAuthenticated,
    /// The filesystem is authenticated by a hash function that is not implemented.
    #[error("not supported: authentication with {0}")]
    UnsupportedHash(&'static str),
    /// The superblock is authenticated by a signature, which only a certificate verifies, and not by a key.
    #[error("not supported: the superblock is signed (PKCS #7), which no key verifies")]
    SignedSuperblock,
    /// Needs a feature that is not there.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
}

/// The result of an operation on a filesystem.
pub type Result<T> = core::result::Result<T, Error>;

/// A length, position or number that goes to flash, as the 32 bits that the format has for it. What does not fit is an error, never another value.
pub(crate) fn narrow(what: &'static str, value: impl TryInto<u64>) -> Result<u32> {
    let len = value.try_into().unwrap_or(u64::MAX);
    u32::try_from(len).map_err(|_| Error::TooLarge { what, len })
}

impl Error {
    /// A damaged node at a place.
    #[must_use]
    pub const fn node(lnum: u32, offset: u32, source: MediaError) -> Self {
        Self::Node { lnum, offset, source }
    }

    /// A contradiction at a place.
    #[must_use]
    pub const fn corrupt(lnum: u32, offset: u32, what: &'static str) -> Self {
        Self::Corrupt { lnum, offset, what }
    }

    /// A thing that is not authentic, at a place.
    #[must_use]
    pub(crate) const fn unauthentic(lnum: u32, offset: u32, what: &'static str) -> Self {
        Self::Unauthentic { lnum, offset, what }
    }

    /// LEB and byte in it where it shows, if it has a place.
    #[must_use]
    pub const fn place(&self) -> Option<(u32, u32)> {
        match *self {
            Self::Node { lnum, offset, .. }
            | Self::WrongNode { lnum, offset, .. }
            | Self::Corrupt { lnum, offset, .. }
            | Self::Unauthentic { lnum, offset, .. }
            | Self::Volume(VolumeError { lnum, offset, .. }) => Some((lnum, offset)),
            _ => None,
        }
    }

    /// Reason in words, without the position.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Node { source, .. } => source.to_string(),
            Self::WrongNode { expected, found, .. } => format!("{expected:?} expected, {found:?} found"),
            Self::Corrupt { what, .. } => (*what).to_owned(),
            Self::Unauthentic { what, .. } => format!("not authentic: {what}"),
            Self::Volume(error) => error.fault.to_string(),
            Self::Superblock(what) => what.clone(),
            other => other.to_string(),
        }
    }

    /// True when the contents of the flash are to blame, and not the caller, the space or the power.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Node { .. } | Self::WrongNode { .. } | Self::Corrupt { .. } | Self::Unauthentic { .. } => {
                true
            }
            // What leads outside the volume stands on flash.
            Self::Volume(error) => {
                matches!(error.fault, VolumeFault::Uncorrectable | VolumeFault::OutOfRange { .. })
            }
            _ => false,
        }
    }

    /// True when power went away.
    #[must_use]
    pub const fn is_power_loss(&self) -> bool {
        matches!(self, Self::Volume(VolumeError { fault: VolumeFault::PowerLost, .. }))
    }
}
