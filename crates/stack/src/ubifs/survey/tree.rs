//! Files and names, as nodes say.

use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::ubifs::{FileType, Inode, ROOT_INODE};

use crate::ubifs::layout::Place;

/// Target of a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// The inode.
    pub inode: u32,
    /// Type of the file as the entry says.
    pub file_type: FileType,
    /// The entry.
    pub place: Place,
    /// It was found by a search of all LEBs, not by the index.
    pub found_by_scan: bool,
    /// Sequence number of the entry.
    pub sqnum: u64,
}

/// An inode with all that belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// The inode; `None` if it was not found.
    pub inode: Option<Inode>,
    /// Position of the inode's node.
    pub place: Place,
    /// Inline data: target of a link, device number, value of an extended attribute.
    pub attached: Vec<u8>,
    /// Of a directory: names.
    pub entries: BTreeMap<Vec<u8>, Child>,
    /// Names of extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Child>,
    /// Blocks of data.
    pub blocks: BTreeMap<u32, Place>,
    /// Blocks that there were and that cannot be read.
    pub lost_blocks: BTreeSet<u32>,
    /// The inode was found by a search of all LEBs, not by the index.
    pub found_by_scan: bool,
    /// The inode is an older state of one that cannot be read.
    pub outdated: bool,
    /// Nodes of the file could not be read, so that its counts cannot be compared.
    pub incomplete: bool,
    /// Sequence number of the inode's node.
    pub sqnum: u64,
}

impl File {
    /// True when it is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.inode.is_some_and(|inode| inode.file_type() == Some(FileType::Directory))
    }

    /// True when it holds the value of an extended attribute.
    #[must_use]
    pub fn is_xattr(&self) -> bool {
        self.inode.is_some_and(|inode| inode.is_xattr())
    }
}

/// Tree of all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// By inode number.
    pub files: BTreeMap<u32, File>,
    /// Directory and name that lead to an inode first.
    pub(super) parents: BTreeMap<u32, (u32, Vec<u8>)>,
}

impl Tree {
    /// A file, made if there is none.
    pub(super) fn file_mut(&mut self, inode: u32) -> &mut File {
        self.files.entry(inode).or_default()
    }

    /// The names from the root to an inode; `None` if none lead there. An attribute's value has the file's.
    #[must_use]
    pub fn path(&self, inode: u32) -> Option<Vec<Vec<u8>>> {
        let mut path = Vec::new();
        let mut at = inode;
        // Parents were found going down, so there is no loop.
        while at != ROOT_INODE {
            let (parent, name) = self.parents.get(&at)?;
            path.push(name.clone());
            at = *parent;
        }
        path.reverse();
        Some(path)
    }

    /// Goes down from the root and remembers the first way to each inode. A directory is entered once.
    pub(super) fn find_paths(&mut self) {
        self.parents.clear();
        let mut pending = vec![ROOT_INODE];
        while let Some(directory) = pending.pop() {
            let Some(file) = self.files.get(&directory) else { continue };
            for (name, child) in &file.entries {
                if child.inode == ROOT_INODE || self.parents.contains_key(&child.inode) {
                    continue;
                }
                self.parents.insert(child.inode, (directory, name.clone()));
                pending.push(child.inode);
            }
        }
    }
}
