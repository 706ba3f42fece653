//! Errors of a filesystem, whichever it is.

/// Reason for which an operation on a filesystem failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
    /// A name that is too long, an empty one, or one with a slash or a zero.
    #[error("not a possible name")]
    BadName,
    /// A name is longer than this many bytes, the most that the filesystem has.
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
    /// Arguments that make no sense together.
    #[error("{0}")]
    Invalid(&'static str),
    /// Forbidden by the inode's flags (immutable, append-only).
    #[error("the inode's flags forbid it")]
    NotPermitted,
    /// Too many links to an inode.
    #[error("too many links")]
    TooManyLinks,
    /// Needs a feature that is not there.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// The contents of the flash are damaged; the text says what, and where.
    #[error("{0}")]
    Damaged(String),
    /// Power went away.
    #[error("{0}")]
    PowerLost(String),
    /// Another failure of the device below or of the filesystem as a whole.
    #[error("{0}")]
    Failed(String),
}

/// Result of an operation on a filesystem.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// True when the contents of the flash are to blame, and not the caller, the space or the power.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}
