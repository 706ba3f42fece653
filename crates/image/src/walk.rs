//! Walks of untrusted directory trees: in a damaged image a directory can contain itself, or have several names.
//!
//! [`Entered`] bounds every walk by the directories that an image holds; [`Walk`] goes through a mounted filesystem with it.

use std::collections::BTreeSet;

use floatgate_stack::fs::{DirEntry, Error, FileSystem, FileType};

/// Most directories inside each other, where a walk has no limit of its own: a path of Linux has 4096 bytes (PATH_MAX).
pub const DEPTH_MAX: usize = 2048;

/// Reason why a walk does not enter a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The walk was in it before.
    #[error("the directory has another name, or contains itself")]
    Again,
    /// It is too deep.
    #[error("it is more than {0} directories deep")]
    TooDeep(usize),
}

/// The directories that a walk has entered: each is entered once.
#[derive(Clone, Debug)]
pub struct Entered {
    directories: BTreeSet<u32>,
    depth_max: usize,
}

impl Entered {
    /// For a walk that enters at most `depth_max` levels of directories.
    pub const fn new(depth_max: usize) -> Self {
        Self { directories: BTreeSet::new(), depth_max }
    }

    /// Enters a directory by its inode number; `depth` counts the names of its path, 0 for the root.
    ///
    /// # Errors
    /// The walk must not go on there.
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
    /// Names from where the walk began.
    pub path: Vec<Vec<u8>>,
    /// Its inode number.
    pub inode: u32,
    /// Entries, in the order of the names.
    pub entries: Vec<DirEntry>,
}

/// Reason why the walk does not know what a directory holds. It goes on with the next one.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// It is not entered.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Error),
}

/// The path of a directory that a walk has left out, and why.
pub type NotWalked = (Vec<Vec<u8>>, WalkError);

/// A walk through all directories below one of them; each comes before those in it.
#[derive(Debug)]
pub struct Walk {
    entered: Entered,
    /// Those to come, the next one last.
    pending: Vec<(Vec<Vec<u8>>, u32)>,
}

impl Walk {
    /// Begins at a directory.
    pub fn new(directory: u32) -> Self {
        Self { entered: Entered::new(DEPTH_MAX), pending: vec![(Vec::new(), directory)] }
    }

    /// The next directory; `None` behind the last one. A directory that cannot be entered or read is an error with its path.
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
