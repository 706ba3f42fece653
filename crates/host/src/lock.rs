//! Keeps two from using a file at once when one of them changes it, as long as both ask.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::FlockOperation;

use crate::open::open_file;

/// Reason why a file cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process uses it.
    #[error("another floatgate uses the file now")]
    InUse,
    /// It cannot be opened.
    #[error(transparent)]
    Host(#[from] io::Error),
}

/// A file that nobody else changes meanwhile, and for writing nobody else reads.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Locks a file.
    ///
    /// # Errors
    /// Somebody else uses it; the file cannot be opened.
    pub fn new(path: &Path, writes: bool) -> Result<Self, LockError> {
        let file = open_file(path, writes)?;
        let how = if writes {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match rustix::fs::flock(&file, how) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::InUse),
            // Somebody has put a new file in its place before it was locked.
            _ if !is_at(&file, path) => Err(LockError::InUse),
            // Some network filesystems have no locks.
            _ => Ok(Self(file)),
        }
    }

    /// All that was written to the file is on the host's disk when this returns.
    ///
    /// # Errors
    /// Failures of the host.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// True when a file that was opened still has this name.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(file), Ok(named)) => (file.dev(), file.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
