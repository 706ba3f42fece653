//! Walks of untrusted directory trees: in a damaged image a directory can contain itself, or have several names.
//!
//! [`Entered`] limits every walk to the directories of an image; [`Walk`] uses it for a mounted filesystem.

use std::collections::BTreeSet;

use floatgate_stack::fs::{DirEntry, Error, FileSystem, FileType};

/// Largest depth of directories for a walk without its own limit: a path in Linux has at most 4096 bytes (PATH_MAX).
pub const DEPTH_MAX: usize = 2048;

/// Reason why a walk does not enter a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The walk has already entered it.
    #[error("the directory has another name, or contains itself")]
    Again,
    /// The directory is too deep.
    #[error("it is more than {0} directories deep")]
    TooDeep(usize),
}

/// Directories that a walk has entered; each is entered once.
#[derive(Clone, Debug)]
pub struct Entered {
    directories: BTreeSet<u32>,
    depth_max: usize,
}

impl Entered {
    /// Creates the set for a walk of at most `depth_max` levels of directories.
    pub const fn new(depth_max: usize) -> Self {
        Self { directories: BTreeSet::new(), depth_max }
    }

    /// Enters a directory by its inode number; `depth` is the number of names in its path, 0 for the root.
    ///
    /// # Errors
    /// The walk must not enter the directory.
    pub fn enter(&mut self, directory: u32, depth: usize) -> Result<(), Refused> {
        if depth > self.depth_max {
            return Err(Refused::TooDeep(self.depth_max));
        }
        if self.directories.insert(directory) { Ok(()) } else { Err(Refused::Again) }
    }
}

/// A directory that a walk has read.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Names from the start of the walk.
    pub path: Vec<Vec<u8>>,
    /// Inode number of the directory.
    pub inode: u32,
    /// Entries, in the order of the names.
    pub entries: Vec<DirEntry>,
}

/// Reason why the contents of a directory are unknown. The walk continues with the next directory.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// The directory is not entered.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The directory cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Error),
}

/// Path of a directory that a walk has skipped, with the reason.
pub type NotWalked = (Vec<Vec<u8>>, WalkError);

/// A walk through all directories below a directory; each comes before its subdirectories.
#[derive(Debug)]
pub struct Walk {
    entered: Entered,
    /// Directories to visit, in reverse order.
    pending: Vec<(Vec<Vec<u8>>, u32)>,
}

impl Walk {
    /// Starts at a directory.
    pub fn new(directory: u32) -> Self {
        Self { entered: Entered::new(DEPTH_MAX), pending: vec![(Vec::new(), directory)] }
    }

    /// Next directory; `None` after the last. A directory that cannot be entered or read is an error with its path.
    pub fn next(&mut self, fs: &mut dyn FileSystem) -> Option<Result<Directory, NotWalked>> {
        let (path, inode) = self.pending.pop()?;
        let entries = match self.enter(fs, inode, path.len()) {
            Ok(entries) => entries,
            Err(error) => return Some(Err((path, error))),
        };
        let below = entries.iter().rev().filter(|entry| entry.file_type == FileType::Directory);
        self.pending.extend(below.map(|entry| {
            let mut below = path.clone();
            below.push(entry.name.clone());
            (below, entry.inode)
        }));
        Some(Ok(Directory { path, inode, entries }))
    }

    fn enter(
        &mut self,
        fs: &mut dyn FileSystem,
        inode: u32,
        depth: usize,
    ) -> Result<Vec<DirEntry>, WalkError> {
        self.entered.enter(inode, depth)?;
        let mut entries = fs.read_dir(inode, None, usize::MAX)?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}
