//! Keeps two from using a file at once when one of them changes it, as long as both ask.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::FlockOperation;

use super::host::open_file;
use crate::ImageError;
use crate::image::Access;

/// A file that nobody else changes meanwhile, and for [`Access::Write`] nobody else reads.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Locks a file.
    ///
    /// # Errors
    /// [`ImageError::Locked`]; the file cannot be opened.
    pub fn new(path: &Path, access: Access) -> Result<Self, ImageError> {
        let writes = access == Access::Write;
        let file = open_file(path, writes).map_err(ImageError::File)?;
        let how = if writes {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match rustix::fs::flock(&file, how) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(ImageError::Locked),
            // Somebody has put a new file in its place before it was locked.
            _ if !is_at(&file, path) => Err(ImageError::Locked),
            // Some network filesystems have no locks.
            _ => Ok(Self(file)),
        }
    }

    /// All that was written to the file is on the host's disk when this returns.
    ///
    /// # Errors
    /// Failures of the host.
    pub fn sync(&self) -> Result<(), ImageError> {
        self.0.sync_all().map_err(ImageError::File)
    }
}

/// True when a file that was opened still has this name.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(file), Ok(named)) => (file.dev(), file.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
