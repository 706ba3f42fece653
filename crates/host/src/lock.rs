//! Advisory locks: while one process changes a file, no other process uses it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::FlockOperation;

use crate::open::open_file;

/// Reason why a file cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process uses the file.
    #[error("another floatgate uses the file now")]
    InUse,
    /// The file cannot be opened.
    #[error(transparent)]
    Host(#[from] io::Error),
}

/// A locked file: exclusive for writing, shared for reading.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Locks a file.
    ///
    /// # Errors
    /// Another process uses the file, or the file cannot be opened.
    pub fn new(path: &Path, writes: bool) -> Result<Self, LockError> {
        let file = open_file(path, writes)?;
        let how = if writes {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match rustix::fs::flock(&file, how) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::InUse),
            // Another program replaced the file before it was locked.
            _ if !is_at(&file, path) => Err(LockError::InUse),
            // Some network filesystems do not support locks.
            _ => Ok(Self(file)),
        }
    }

    /// Syncs all written data to the host's disk.
    ///
    /// # Errors
    /// Host failures.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// True if `path` still refers to the open file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(file), Ok(named)) => (file.dev(), file.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
