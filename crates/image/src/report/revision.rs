//! Old versions of files: nodes that newer nodes have replaced, and points in time.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::words::{show_name, show_path};

/// A point in time of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// UBIFS: the time when the node with this sequence number was the last one.
    Sqnum(u64),
    /// JFFS2, which orders only the nodes of an inode: this version of the inode; other inodes are in their current
    /// state.
    Version {
        /// Inode number of the file.
        inode: u32,
        /// Version of its last node.
        version: u32,
    },
    /// A time in seconds since 1970, on the clock of the machine that wrote. Changes up to this time are included.
    Time(i64),
}

/// A node that remains on the flash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Revision {
    /// Point in time when the node was the last one, in the form of `extract`: a sequence number of UBIFS, or an
    /// inode and a version of JFFS2. It is empty for an extended attribute of JFFS2, whose order relative to other
    /// nodes is unknown.
    pub at: String,
    /// Inode of the node; for a name, its directory.
    pub inode: u32,
    /// Last path of the file or, for a name, the path of the name. Bytes that are not UTF-8 have the form `\xNN`. The
    /// path is empty if no name remains.
    pub path: String,
    /// Time of the change in seconds since 1970, if the node contains one.
    pub time: Option<i64>,
    /// Kind of change.
    pub change: Change,
    /// Text about the change.
    pub what: String,
    /// True if no newer node has replaced the node.
    pub live: bool,
    /// Offset in the file.
    pub byte: Option<u64>,
}

/// Kind of change that a node describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Attributes of an inode.
    Inode,
    /// Removal of an inode.
    Deleted,
    /// Data of a file.
    Data,
    /// A name of an inode.
    Name,
    /// Removal of a name.
    Removed,
    /// Truncation of a file.
    Truncated,
    /// An extended attribute of JFFS2, or its removal from an inode.
    Xattr,
}

/// Largest depth of directories in a path.
const DEPTH_MAX: usize = 256;

/// Last names of inodes.
#[derive(Debug, Default)]
pub(crate) struct LastNames(BTreeMap<u32, LastName>);

#[derive(Debug)]
struct LastName {
    /// Order of names: valid names are the newest, then names that were written later.
    order: (bool, u64, u64),
    directory: u32,
    name: Vec<u8>,
}

impl LastNames {
    /// Adds a name.
    pub(crate) fn add(&mut self, inode: u32, order: (bool, u64, u64), (directory, name): (u32, &[u8])) {
        if self.0.get(&inode).is_none_or(|known| known.order <= order) {
            self.0.insert(inode, LastName { order, directory, name: name.to_vec() });
        }
    }

    /// Path of an inode; `None` if no path from the root is known.
    fn names(&self, inode: u32, root: u32) -> Option<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        let mut at = inode;
        // Names of different times can form a cycle.
        while at != root && names.len() < DEPTH_MAX {
            let last = self.0.get(&at)?;
            names.push(last.name.clone());
            at = last.directory;
        }
        names.reverse();
        (at == root).then_some(names)
    }

    /// Path of an inode for display; empty if it is unknown.
    pub(crate) fn path(&self, inode: u32, root: u32) -> String {
        self.names(inode, root).map_or_else(String::new, |names| show_path(&names))
    }

    /// Path of a name in a directory.
    pub(crate) fn path_of(&self, directory: u32, name: &[u8], root: u32) -> String {
        match self.names(directory, root) {
            Some(names) => show_path(&[names, vec![name.to_vec()]].concat()),
            None => show_name(name),
        }
    }
}
