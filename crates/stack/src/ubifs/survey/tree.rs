//! Files and names found by a survey.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::file::{FileFlags, FileType};
use floatgate_media::ubifs::{BLOCK_BYTES, Inode, ROOT_INODE};

use crate::fs::NodePos;

/// Target of a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Inode of the target.
    pub inode: u32,
    /// File type in the entry.
    pub file_type: FileType,
    /// Position of the entry.
    pub place: NodePos,
    /// True if a search found it, not the index.
    pub found_by_scan: bool,
    /// Sequence number of the entry.
    pub sqnum: u64,
}

/// A data node in the index, or found by a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataBlock {
    /// Position of the node.
    pub place: NodePos,
    /// Bytes of the block before compression.
    pub size: u32,
    /// Sequence number of the node.
    pub sqnum: u64,
}

/// An inode with all its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Attributes of the inode; `None` if it was not found.
    pub inode: Option<Inode>,
    /// Position of the inode's node.
    pub place: NodePos,
    /// Inline data: symbolic link target, device number, or attribute value.
    pub attached: Vec<u8>,
    /// Names in a directory.
    pub entries: BTreeMap<Vec<u8>, Child>,
    /// Duplicate names in a directory, with their targets.
    pub repeated: Vec<(Vec<u8>, Child)>,
    /// Names of extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Child>,
    /// Data blocks.
    pub blocks: BTreeMap<u32, DataBlock>,
    /// Data blocks that cannot be read.
    pub lost_blocks: BTreeSet<u32>,
    /// Blocks found by a search in place of unreadable ones; they may be older.
    pub older_blocks: BTreeSet<u32>,
    /// True if a search found the inode, not the index.
    pub found_by_scan: bool,
    /// True if the inode is an older version of an unreadable one.
    pub outdated: bool,
    /// True if the file type in the inode contradicted names and contents, and was corrected.
    pub retyped: bool,
    /// True if parts of the file were unreadable, so that its counts cannot be checked.
    pub incomplete: bool,
    /// Sequence number of the inode's node.
    pub sqnum: u64,
}

impl File {
    /// True for a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.inode.is_some_and(|inode| inode.file_type() == Some(FileType::Directory))
    }

    /// True for the inode of an extended attribute value.
    #[must_use]
    pub fn is_xattr(&self) -> bool {
        self.inode.is_some_and(|inode| inode.is_xattr())
    }

    /// True for a file with names or data.
    pub(super) fn has_parts(&self) -> bool {
        !self.entries.is_empty() || !self.blocks.is_empty()
    }

    /// Type of a file without an inode, according to its names or its data.
    pub(super) fn type_by_parts(&self) -> Option<FileType> {
        match self.inode {
            Some(_) => None,
            None if !self.entries.is_empty() => Some(FileType::Directory),
            None => (!self.blocks.is_empty()).then_some(FileType::Regular),
        }
    }

    /// Offset in the file at which a block ends.
    fn block_end(block: u32, data: &DataBlock) -> u64 {
        u64::from(block) * u64::from(BLOCK_BYTES) + u64::from(data.size)
    }

    /// Offset at which the last block ends; 0 without blocks.
    #[must_use]
    pub fn data_end(&self) -> u64 {
        self.blocks.last_key_value().map_or(0, |(&block, data)| Self::block_end(block, data))
    }

    /// Ranges of blocks from `start` to `end` without data, not including lost blocks.
    pub(super) fn holes(&self, start: u32, end: u32) -> Vec<Range<u32>> {
        let mut known: Vec<u32> = self.blocks.range(start..end.max(start)).map(|(&block, _)| block).collect();
        known.extend(self.lost_blocks.range(start..end.max(start)));
        known.sort_unstable();
        let starts = core::iter::once(start).chain(known.iter().map(|block| block + 1));
        let ends = known.iter().copied().chain(core::iter::once(end));
        starts.zip(ends).map(|(start, end)| start..end).filter(|hole| !hole.is_empty()).collect()
    }

    /// File size implied by the data. Blocks that are newer than the inode and extend beyond its size make the file
    /// longer, as in `fsck.ubifs`. Older ones were truncated.
    pub(super) fn size_by_data(&self, size: u64) -> u64 {
        let behind =
            self.blocks.iter().rev().take_while(|(block, data)| Self::block_end(**block, data) > size);
        let newer = behind.filter(|(_, data)| data.sqnum > self.sqnum);
        newer.map(|(&block, data)| Self::block_end(block, data)).max().unwrap_or(size)
    }
}

/// Tree of all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Files by inode number.
    pub files: BTreeMap<u32, Box<File>>,
    /// First directory and name of each inode.
    pub(super) parents: BTreeMap<u32, (u32, Vec<u8>)>,
}

impl Tree {
    /// A file, added if it does not exist.
    pub(super) fn file_mut(&mut self, inode: u32) -> &mut File {
        self.files.entry(inode).or_default()
    }

    /// Corrects inodes that the rest of the tree contradicts. Cases: the inode claims to be an attribute value but has
    /// names; its type contradicts names and contents; its size ends before newer data.
    pub(super) fn repair_inodes(&mut self) {
        let mut named: BTreeMap<u32, Vec<FileType>> = BTreeMap::new();
        for child in self.files.values().flat_map(|file| file.entries.values()) {
            named.entry(child.inode).or_default().push(child.file_type);
        }
        let values: BTreeSet<u32> =
            self.files.values().flat_map(|file| file.xattrs.values()).map(|child| child.inode).collect();
        for (number, file) in &mut self.files {
            let Some(mut inode) = file.inode else { continue };
            let names = named.get(number);
            if inode.is_xattr() && names.is_some() && !values.contains(number) {
                inode.flags = FileFlags::from_bits(inode.flags.bits() & !FileFlags::XATTR.bits());
            }
            let mode = inode.mode;
            let all_say =
                |file_type| names.is_some_and(|names| names.iter().all(|&named| named == file_type));
            let is_directory =
                !file.entries.is_empty() && file.blocks.is_empty() && all_say(FileType::Directory);
            if *number == ROOT_INODE || is_directory {
                inode.mode = inode.mode & 0o7777 | 0o040_000;
            } else if !file.blocks.is_empty() && file.entries.is_empty() && all_say(FileType::Regular) {
                inode.mode = inode.mode & 0o7777 | 0o100_000;
            }
            file.retyped = inode.mode != mode;
            if inode.file_type() == Some(FileType::Regular) && !inode.is_xattr() {
                inode.size = file.size_by_data(inode.size);
            }
            file.inode = Some(inode);
        }
    }

    /// Names from the root to an inode; `None` without a path. An attribute value has the path of its file.
    #[must_use]
    pub fn path(&self, inode: u32) -> Option<Vec<Vec<u8>>> {
        let mut path = Vec::new();
        let mut at = inode;
        // The walk down from the root found the parents, so they contain no loop.
        while at != ROOT_INODE {
            let (parent, name) = self.parents.get(&at)?;
            path.push(name.clone());
            at = *parent;
        }
        path.reverse();
        Some(path)
    }

    /// Finds the first path to each inode by walking down from the root. A directory is entered once.
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
