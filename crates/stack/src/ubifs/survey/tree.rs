//! Files and names, as nodes say.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::file::{FileFlags, FileType};
use floatgate_media::ubifs::{BLOCK_BYTES, Inode, ROOT_INODE};

use crate::fs::NodePos;

/// Target of a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// The inode.
    pub inode: u32,
    /// Type of the file as the entry says.
    pub file_type: FileType,
    /// The entry.
    pub place: NodePos,
    /// It was found by a search of all LEBs, not by the index.
    pub found_by_scan: bool,
    /// Sequence number of the entry.
    pub sqnum: u64,
}

/// A data node that the index leads to, or that a search has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataBlock {
    /// The node.
    pub place: NodePos,
    /// Bytes of the block before compression.
    pub size: u32,
    /// Sequence number of the node.
    pub sqnum: u64,
}

/// An inode with all that belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// The inode; `None` if it was not found.
    pub inode: Option<Inode>,
    /// Position of the inode's node.
    pub place: NodePos,
    /// Inline data: target of a link, device number, value of an extended attribute.
    pub attached: Vec<u8>,
    /// Of a directory: names.
    pub entries: BTreeMap<Vec<u8>, Child>,
    /// Of a directory: names that are there once more, and what they lead to.
    pub repeated: Vec<(Vec<u8>, Child)>,
    /// Names of extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Child>,
    /// Blocks of data.
    pub blocks: BTreeMap<u32, DataBlock>,
    /// Blocks that there were and that cannot be read.
    pub lost_blocks: BTreeSet<u32>,
    /// Blocks that a search has found in the place of such that cannot be read: they may be older ones.
    pub older_blocks: BTreeSet<u32>,
    /// The inode was found by a search of all LEBs, not by the index.
    pub found_by_scan: bool,
    /// The inode is an older state of one that cannot be read.
    pub outdated: bool,
    /// The inode said that the file is of another type than names and contents say.
    pub retyped: bool,
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

    /// Byte of the file where a block ends.
    fn block_end(block: u32, data: &DataBlock) -> u64 {
        u64::from(block) * u64::from(BLOCK_BYTES) + u64::from(data.size)
    }

    /// Byte where the last block ends; 0 without one.
    #[must_use]
    pub fn data_end(&self) -> u64 {
        self.blocks.last_key_value().map_or(0, |(&block, data)| Self::block_end(block, data))
    }

    /// Runs of blocks from `start` to `end` of which there are no data, not even lost ones.
    pub(super) fn holes(&self, start: u32, end: u32) -> Vec<Range<u32>> {
        let mut known: Vec<u32> = self.blocks.range(start..end.max(start)).map(|(&block, _)| block).collect();
        known.extend(self.lost_blocks.range(start..end.max(start)));
        known.sort_unstable();
        let starts = core::iter::once(start).chain(known.iter().map(|block| block + 1));
        let ends = known.iter().copied().chain(core::iter::once(end));
        starts.zip(ends).map(|(start, end)| start..end).filter(|hole| !hole.is_empty()).collect()
    }

    /// The size that the data prove: blocks that were written after the inode and end behind the size it has make the file longer,
    /// as `fsck.ubifs` decides. Older ones are what a truncation cut off.
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
    /// By inode number.
    pub files: BTreeMap<u32, Box<File>>,
    /// Directory and name that lead to an inode first.
    pub(super) parents: BTreeMap<u32, (u32, Vec<u8>)>,
}

impl Tree {
    /// A file, made if there is none.
    pub(super) fn file_mut(&mut self, inode: u32) -> &mut File {
        self.files.entry(inode).or_default()
    }

    /// Makes good what an inode says wrongly of itself and the rest of the tree proves otherwise: it is said to be the value of an
    /// extended attribute and is a file with names; names and contents say that it is a file or a directory; its size ends before
    /// data that were written after it.
    pub(super) fn mend_inodes(&mut self) {
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
