//! Errors of a filesystem.

use crate::volume::{VolumeError, VolumeFault};
use floatgate_media::MediaError;
use floatgate_media::ubifs::NodeType;

/// Reason why a filesystem operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Volume failure.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// A damaged node, or LPT node.
    #[error("LEB {lnum}, offset {offset:#x}: {source}")]
    Node {
        /// LEB of the node.
        lnum: u32,
        /// Offset of the node in the LEB.
        offset: u32,
        /// Fault; its offset is relative to the node.
        source: MediaError,
    },
    /// A node of another type than expected.
    #[error("LEB {lnum}, offset {offset:#x}: {expected:?} expected, {found:?} found")]
    WrongNode {
        /// LEB of the node.
        lnum: u32,
        /// Offset of the node in the LEB.
        offset: u32,
        /// Expected node type.
        expected: NodeType,
        /// Type of the node found.
        found: NodeType,
    },
    /// Structures contradict each other.
    #[error("LEB {lnum}, offset {offset:#x}: {what}")]
    Corrupt {
        /// LEB in which the contradiction was found.
        lnum: u32,
        /// Offset in the LEB.
        offset: u32,
        /// Description of the fault.
        what: &'static str,
    },
    /// The superblock does not match the volume, or requires an unsupported feature.
    #[error("the superblock: {0}")]
    Superblock(String),
    /// The filesystem needs recovery, but is mounted read-only or without recovery.
    #[error("the filesystem was not unmounted cleanly and has to be recovered first")]
    NeedsRecovery,
    /// Mounted read-only, or read-only after a failure.
    #[error("read-only filesystem")]
    ReadOnly,
    /// No space is left.
    #[error("no space left on the filesystem")]
    NoSpace,
    /// The name, inode or attribute does not exist.
    #[error("not found")]
    NotFound,
    /// The name exists already.
    #[error("exists already")]
    Exists,
    /// Not a directory.
    #[error("not a directory")]
    NotDirectory,
    /// A directory where none is allowed.
    #[error("is a directory")]
    IsDirectory,
    /// The directory is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
    /// A name that is empty, or contains a slash or a zero byte.
    #[error("not a possible name")]
    BadName,
    /// A name longer than the limit, in bytes.
    #[error("a name of this filesystem has at most {0} bytes")]
    NameTooLong(usize),
    /// Larger than the format can hold.
    #[error("too large: {what} of {len} bytes")]
    TooLarge {
        /// Description of the object.
        what: &'static str,
        /// Size of the object.
        len: u64,
    },
    /// Arguments that contradict each other.
    #[error("{0}")]
    Invalid(&'static str),
    /// Forbidden by the inode's flags (immutable, append-only).
    #[error("the inode's flags forbid it")]
    NotPermitted,
    /// Too many links to an inode.
    #[error("too many links")]
    TooManyLinks,
    /// A structure or node contradicts its HMAC or hash: it is damaged or forged.
    #[error("LEB {lnum}, offset {offset:#x}: not authentic: {what}")]
    Unauthentic {
        /// LEB of the structure.
        lnum: u32,
        /// Offset in the LEB.
        offset: u32,
        /// Description of the fault.
        what: &'static str,
    },
    /// The key is not the key of the filesystem.
    #[error("the key is not the one that the filesystem is authenticated with")]
    WrongAuthKey,
    /// No remaining node is older than the requested moment.
    #[error("no node that is still on the flash is as old as that")]
    NothingThatOld,
    /// Authentication was requested for a filesystem without authentication.
    #[error("the filesystem has no authentication: there is nothing to verify it by")]
    NotAuthenticated,
    /// The hash function of the filesystem is not supported.
    #[error("not supported: authentication with {0}")]
    UnsupportedHash(&'static str),
    /// The superblock has a signature, which needs a certificate, instead of an HMAC.
    #[error("not supported: the superblock is signed (PKCS #7), which no key verifies")]
    SignedSuperblock,
    /// The filesystem lacks a feature.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
}

/// The result of an operation on a filesystem.
pub type Result<T> = core::result::Result<T, Error>;

/// Converts a length, position or number to its 32-bit field on flash. A value that does not fit is an error, never a
/// different value.
pub(crate) fn narrow(what: &'static str, value: impl TryInto<u64>) -> Result<u32> {
    let len = value.try_into().unwrap_or(u64::MAX);
    u32::try_from(len).map_err(|_| Error::TooLarge { what, len })
}

impl Error {
    /// Error for a damaged node.
    #[must_use]
    pub const fn node(lnum: u32, offset: u32, source: MediaError) -> Self {
        Self::Node { lnum, offset, source }
    }

    /// Error for a contradiction at a position.
    #[must_use]
    pub const fn corrupt(lnum: u32, offset: u32, what: &'static str) -> Self {
        Self::Corrupt { lnum, offset, what }
    }

    /// Error for a structure that is not authentic.
    #[must_use]
    pub(crate) const fn unauthentic(lnum: u32, offset: u32, what: &'static str) -> Self {
        Self::Unauthentic { lnum, offset, what }
    }

    /// LEB and offset of the error, if it has a position.
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

    /// Reason as text, without the position.
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

    /// True if damaged data on flash is the cause, not the caller, lack of space or a power loss.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Node { .. } | Self::WrongNode { .. } | Self::Corrupt { .. } | Self::Unauthentic { .. } => {
                true
            }
            // An access outside the volume follows a wrong position that was read from flash.
            Self::Volume(error) => {
                matches!(error.fault, VolumeFault::Uncorrectable | VolumeFault::OutOfRange { .. })
            }
            _ => false,
        }
    }

    /// True after a power loss.
    #[must_use]
    pub const fn is_power_loss(&self) -> bool {
        matches!(self, Self::Volume(VolumeError { fault: VolumeFault::PowerLost, .. }))
    }
}
