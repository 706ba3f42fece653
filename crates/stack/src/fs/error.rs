//! Errors of any filesystem.

/// Reason why a filesystem operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
    /// A name longer than the filesystem's limit, in bytes.
    #[error("a name of this filesystem has at most {0} bytes")]
    NameTooLong(usize),
    /// Larger than the format can hold.
    #[error("too large: {what} of {len} bytes")]
    TooLarge {
        /// Name of the thing.
        what: &'static str,
        /// Its size, bytes.
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
    /// The filesystem lacks a feature.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// The data on flash is damaged; the text describes the fault and its position.
    #[error("{0}")]
    Damaged(String),
    /// Power was lost.
    #[error("{0}")]
    PowerLost(String),
    /// Another failure of the device or the filesystem.
    #[error("{0}")]
    Failed(String),
}

/// Result of an operation on a filesystem.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// True if damaged data on flash is the cause, not the caller, lack of space or a power loss.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}
