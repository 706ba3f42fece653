//! Old versions of files: nodes that newer ones have replaced, and moments.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::words::{show_name, show_path};

/// A moment in the life of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// UBIFS: the node with this sequence number was the last one.
    Sqnum(u64),
    /// JFFS2, which orders the nodes of an inode only: this version of the inode, and everything else as it is.
    Version {
        /// Inode number of the file.
        inode: u32,
        /// Version of its last node.
        version: u32,
    },
    /// A time, seconds since 1970 on the clock of the machine that wrote: changes up to it count.
    Time(i64),
}

/// A node that is still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Revision {
    /// Moment at which the node was the last one, as `extract` takes it: a sequence number of UBIFS, inode
    /// and version of JFFS2. It is empty for an extended attribute of JFFS2, which is in no order with other
    /// nodes.
    pub at: String,
    /// The inode that the node belongs to; a name belongs to its directory.
    pub inode: u32,
    /// Last path of the file or, for a name, the path of the name. Bytes that are not UTF-8 as `\xNN`; empty
    /// if no name is left.
    pub path: String,
    /// Time of the change, seconds since 1970, where the node has one.
    pub time: Option<i64>,
    /// Kind of change.
    pub change: Change,
    /// The change in words.
    pub what: String,
    /// No newer node has replaced it.
    pub live: bool,
    /// First byte in the file.
    pub byte: Option<u64>,
}

/// Kind of change that a node makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Attributes of an inode.
    Inode,
    /// The inode is gone.
    Deleted,
    /// Data of a file.
    Data,
    /// A name leads to an inode.
    Name,
    /// A name is gone.
    Removed,
    /// The file ends earlier.
    Truncated,
    /// An extended attribute of JFFS2, or one that an inode has lost.
    Xattr,
}

/// Directories inside each other of which a path is given.
const DEPTH_MAX: usize = 256;

/// The names that inodes had last.
#[derive(Debug, Default)]
pub(crate) struct LastNames(BTreeMap<u32, LastName>);

#[derive(Debug)]
struct LastName {
    /// Live names are newer than others, and then those that were written later.
    order: (bool, u64, u64),
    directory: u32,
    name: Vec<u8>,
}

impl LastNames {
    /// Takes in a name.
    pub(crate) fn add(&mut self, inode: u32, order: (bool, u64, u64), (directory, name): (u32, &[u8])) {
        if self.0.get(&inode).is_none_or(|known| known.order <= order) {
            self.0.insert(inode, LastName { order, directory, name: name.to_vec() });
        }
    }

    /// The path of an inode; `None` if no way from the root is known.
    fn names(&self, inode: u32, root: u32) -> Option<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        let mut at = inode;
        // Names of different times can lead in a circle.
        while at != root && names.len() < DEPTH_MAX {
            let last = self.0.get(&at)?;
            names.push(last.name.clone());
            at = last.directory;
        }
        names.reverse();
        (at == root).then_some(names)
    }

    /// The path of an inode for people; empty if it is not known.
    pub(crate) fn path(&self, inode: u32, root: u32) -> String {
        self.names(inode, root).map_or_else(String::new, |names| show_path(&names))
    }

    /// The path of a name in a directory.
    pub(crate) fn path_of(&self, directory: u32, name: &[u8], root: u32) -> String {
        match self.names(directory, root) {
            Some(names) => show_path(&[names, vec![name.to_vec()]].concat()),
            None => show_name(name),
        }
    }
}
