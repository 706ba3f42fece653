//! Error numbers of the host for errors of the filesystem.

use floatgate_stack::fs::{Error, LINK_TARGET};
use rustix::io::Errno;

/// Error number that a program on the host receives.
#[must_use]
pub fn errno(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::NOENT,
        Error::Exists => Errno::EXIST,
        Error::NotDirectory => Errno::NOTDIR,
        Error::IsDirectory => Errno::ISDIR,
        Error::NotEmpty => Errno::NOTEMPTY,
        Error::BadName | Error::Invalid(_) => Errno::INVAL,
        Error::NameTooLong(_) | Error::TooLarge { what: LINK_TARGET, len: 1.. } => Errno::NAMETOOLONG,
        Error::TooLarge { .. } => Errno::FBIG,
        Error::NotPermitted => Errno::PERM,
        Error::TooManyLinks => Errno::MLINK,
        Error::Unsupported(_) => Errno::OPNOTSUPP,
        Error::ReadOnly => Errno::ROFS,
        Error::NoSpace => Errno::NOSPC,
        _ => Errno::IO,
    }
}
