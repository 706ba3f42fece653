//! Possible states after a power loss.
//!
//! One journal head writes names, links, extended attributes and the inodes that belong to them. After a power loss
//! they are therefore in the state of one moment: at the last sync or later, and at most after the interrupted step.
//!
//! Attributes of a file are written together, but later: they are in the state of one moment, too, but possibly of
//! another one. Another head writes data block by block: each block is in a state that it had since the last sync.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use floatgate_stack::fs::{Attributes, DeviceNumber, FileType, Result};

use super::filesystem::Fs;

/// Size of a block, bytes.
const BLOCK: usize = 4096;

/// State of an inode that is written together with its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) file_type: FileType,
    links: u32,
    /// Size of a directory; the size of a file is written later.
    size: Option<u64>,
    device: Option<DeviceNumber>,
    target: Option<Vec<u8>>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All names, and the inodes to which they refer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// Inode numbers by directory and name.
    pub(super) entries: BTreeMap<(u32, Vec<u8>), u32>,
    pub(super) inodes: BTreeMap<u32, Named>,
}

/// Attributes of a file, except its size, that are written independently of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Own {
    mode: u32,
    uid: u32,
    gid: u32,
    flags: u32,
    modified: i64,
    changed: i64,
}

/// A complete block, with zeros after the end of the file.
type Block = Arc<[u8]>;

/// Current state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileNow {
    size: u64,
    own: Own,
    blocks: Vec<Block>,
}

/// Possible states of a file after a power loss.
#[derive(Clone, Debug, Default)]
pub(super) struct FileStates {
    /// True if blocks are not written at once: a power cut may then leave a part of a block unchanged.
    of_bytes: bool,
    sizes: BTreeSet<u64>,
    own: BTreeSet<Own>,
    /// Possible contents of the blocks that changed.
    blocks: BTreeMap<usize, BTreeSet<Block>>,
    /// Current contents by block.
    now: Vec<Block>,
}

impl Tree {
    /// Reads all names of a filesystem.
    pub(super) fn read(fs: &mut Fs) -> Result<Self> {
        let mut tree = Self::default();
        let mut pending = vec![fs.root()];
        while let Some(inode) = pending.pop() {
            // The inode has a second name, or a directory contains itself.
            if tree.inodes.contains_key(&inode) {
                continue;
            }
            let named = Named::read(fs, inode)?;
            if named.file_type == FileType::Directory {
                for entry in fs.read_dir(inode, None, usize::MAX)? {
                    pending.push(entry.inode);
                    tree.entries.insert((inode, entry.name), entry.inode);
                }
            }
            tree.inodes.insert(inode, named);
        }
        Ok(tree)
    }

    /// Inodes of the regular files.
    pub(super) fn files(&self) -> impl Iterator<Item = u32> + '_ {
        self.inodes.iter().filter(|(_, named)| named.file_type == FileType::Regular).map(|(&inode, _)| inode)
    }

    /// Number of inodes with names. With `with_xattrs`, extended attributes count, too, which have their own inodes in
    /// UBIFS.
    pub(super) fn inode_count(&self, with_xattrs: bool) -> usize {
        self.inodes.values().map(|named| if with_xattrs { 1 + named.xattrs.len() } else { 1 }).sum()
    }

    /// The tree after a rename with both the old and the new name; `None` if no name was removed.
    pub(super) fn with_old_name(&self, before: &Self) -> Option<Self> {
        let gone = |entry: &(&(u32, Vec<u8>), &u32)| !self.entries.contains_key(entry.0);
        let (name, &inode) = before.entries.iter().find(gone)?;
        let mut between = self.clone();
        between.entries.insert(name.clone(), inode);
        let named = between.inodes.get_mut(&inode)?;
        if named.file_type == FileType::Directory {
            // The next mount removes one of two names of a directory.
            return None;
        }
        named.links += 1;
        Some(between)
    }

    /// Description of an inode whose link count differs from the number of its names. The root directory has `extra`
    /// additional links.
    pub(super) fn wrong_links(&self, root: u32, extra: u32) -> Option<String> {
        let mut names: BTreeMap<u32, u32> = BTreeMap::new();
        for ((directory, _), &inode) in &self.entries {
            *names.entry(inode).or_default() += 1;
            // The `..` entry of each subdirectory is a name of its parent.
            if self.inodes.get(&inode).is_some_and(|named| named.file_type == FileType::Directory) {
                *names.entry(*directory).or_default() += 1;
            }
        }
        self.inodes.iter().find_map(|(inode, named)| {
            let own = u32::from(named.file_type == FileType::Directory)
                + if *inode == root { 1 + extra } else { 0 };
            let found = names.get(inode).copied().unwrap_or(0) + own;
            (found != named.links)
                .then(|| format!("inode {inode} has {found} names and {} links", named.links))
        })
    }

    /// Inodes whose names or attributes differ from `before`. If two names were exchanged, only their directories
    /// count: the inodes themselves are not written.
    pub(super) fn touched(&self, before: &Self, exchange: bool) -> BTreeSet<u32> {
        let mut touched = BTreeSet::new();
        for (key, inode) in self.entries.iter().filter(|(key, inode)| before.entries.get(*key) != Some(inode))
        {
            touched.insert(key.0);
            if !exchange {
                touched.insert(*inode);
            }
        }
        touched.extend(before.entries.keys().filter(|key| !self.entries.contains_key(*key)).map(|key| key.0));
        let changed = self.inodes.iter().filter(|(inode, named)| before.inodes.get(*inode) != Some(named));
        touched.extend(changed.map(|(&inode, _)| inode));
        touched
    }

    fn differences(&self, other: &Self) -> usize {
        let entries = self.entries.iter().filter(|(key, inode)| other.entries.get(*key) != Some(inode));
        let inodes = self.inodes.iter().filter(|(key, named)| other.inodes.get(*key) != Some(named));
        entries.count() + inodes.count()
    }

    /// Difference between these names, which were found, and the most similar possible names.
    pub(super) fn describe(&self, possible: &[Arc<Self>]) -> String {
        let distance = |tree: &Self| tree.differences(self) + self.differences(tree);
        let Some((back, nearest)) = possible.iter().rev().enumerate().min_by_key(|(_, tree)| distance(tree))
        else {
            return "no names are possible".to_owned();
        };
        let moments = possible.len();
        format!(
            "names of none of {moments} possible moments; nearest is the {back}. before the end of the step, which has {} and not {}",
            nearest.first_difference(self),
            self.first_difference(nearest)
        )
    }

    fn first_difference(&self, other: &Self) -> String {
        let entry = self.entries.iter().find(|(key, inode)| other.entries.get(*key) != Some(inode));
        let inode = self.inodes.iter().find(|(key, named)| other.inodes.get(*key) != Some(named));
        match (entry, inode) {
            (Some(((directory, name), inode)), _) => {
                format!("{:?} in {directory} for {inode}", String::from_utf8_lossy(name))
            }
            (None, Some((inode, named))) => format!("inode {inode}: {named}"),
            (None, None) => "nothing more".to_owned(),
        }
    }
}

impl fmt::Display for Named {
    /// Short form. For extended attributes, it shows names and the CRCs of the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} links", self.file_type, self.links)?;
        if let Some(size) = self.size {
            write!(f, ", {size} bytes")?;
        }
        if let Some(device) = self.device {
            write!(f, ", {device:?}")?;
        }
        if let Some(target) = &self.target {
            write!(f, ", to {:?}", String::from_utf8_lossy(target))?;
        }
        for (name, value) in &self.xattrs {
            write!(f, ", {}={:08x}", String::from_utf8_lossy(name), floatgate_media::crc::ubi(value))?;
        }
        Ok(())
    }
}

impl Named {
    fn read(fs: &mut Fs, inode: u32) -> Result<Self> {
        let attributes = fs.attributes(inode)?;
        let file_type = attributes.file_type;
        let size = (file_type == FileType::Directory).then_some(attributes.size);
        let target = if file_type == FileType::Symlink { Some(fs.read_link(inode)?) } else { None };
        let mut xattrs = BTreeMap::new();
        if attributes.xattr_count > 0 {
            for name in fs.list_xattrs(inode)? {
                let value = fs.get_xattr(inode, &name)?;
                xattrs.insert(name, value);
            }
        }
        let (links, device) = (attributes.links, attributes.device);
        Ok(Self { file_type, links, size, device, target, xattrs })
    }
}

impl Own {
    const fn of(attributes: &Attributes) -> Self {
        Self {
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            flags: attributes.flags.bits(),
            modified: attributes.mtime.seconds,
            changed: attributes.ctime.seconds,
        }
    }
}

impl FileNow {
    /// Reads the current state of a file.
    pub(super) fn read(fs: &mut Fs, inode: u32) -> Result<Self> {
        let attributes = fs.attributes(inode)?;
        let mut contents = vec![0; usize::try_from(attributes.size).unwrap_or(0)];
        fs.read(inode, 0, &mut contents)?;
        let blocks = contents.chunks(BLOCK).map(whole_block).collect();
        Ok(Self { size: attributes.size, own: Own::of(&attributes), blocks })
    }
}

fn whole_block(bytes: &[u8]) -> Block {
    let mut block = vec![0; BLOCK];
    block[..bytes.len()].copy_from_slice(bytes);
    block.into()
}

impl FileStates {
    pub(super) fn new(of_bytes: bool) -> Self {
        Self { of_bytes, ..Self::default() }
    }

    /// Records that the current state of the file is on flash.
    pub(super) fn set_durable(&mut self, now: &FileNow) {
        self.sizes = BTreeSet::from([now.size]);
        self.own = BTreeSet::from([now.own]);
        self.blocks.clear();
        self.now.clone_from(&now.blocks);
    }

    /// True if the state differs from the recorded one.
    pub(super) fn is_news(&self, now: &FileNow) -> bool {
        !self.sizes.contains(&now.size) || !self.own.contains(&now.own) || self.now != now.blocks
    }

    /// Records a change of the file, which may or may not be on flash.
    pub(super) fn change(&mut self, now: &FileNow) {
        let before = self.sizes.last().copied().unwrap_or(0).max(now.size);
        self.sizes.insert(now.size);
        // An interrupted write may have extended the file block by block.
        self.sizes.extend((1..=before / BLOCK as u64).map(|block| block * BLOCK as u64));
        self.own.insert(now.own);
        for block in 0..now.blocks.len().max(self.now.len()) {
            let (old, new) = (self.now.get(block), now.blocks.get(block));
            if old != new {
                let states = self.blocks.entry(block).or_default();
                // A missing block reads as zeros if the file is extended.
                states.extend(
                    [old, new].into_iter().map(|block| block.cloned().unwrap_or_else(|| whole_block(&[]))),
                );
            }
        }
        self.now.clone_from(&now.blocks);
    }

    /// Reason why a file cannot be in the found state; `None` if it can.
    pub(super) fn refuse(&self, found: &FileNow) -> Option<String> {
        let is_between = || {
            let range = self.sizes.first().zip(self.sizes.last());
            range.is_some_and(|(first, last)| (first..=last).contains(&&found.size))
        };
        if !(self.sizes.contains(&found.size) || self.of_bytes && is_between()) {
            return Some(format!("{} bytes long, where only {:?} are possible", found.size, self.sizes));
        }
        if !self.own.contains(&found.own) {
            return Some(format!("{:?}, which it never had since it was brought to flash", found.own));
        }
        (0..found.blocks.len()).find_map(|block| self.refuse_block(block, found))
    }

    fn refuse_block(&self, block: usize, found: &FileNow) -> Option<String> {
        let start = block as u64 * BLOCK as u64;
        let len = usize::try_from(found.size.saturating_sub(start)).unwrap_or(BLOCK).min(BLOCK);
        let got = found.blocks.get(block)?.get(..len)?;
        let is = |state: &Block| state.get(..len) == Some(got);
        let possible = match self.blocks.get(&block) {
            Some(states) if self.of_bytes => (0..len).all(|at| {
                let is_there = |state: &Block| state.get(at) == got.get(at);
                // The new part of an extended file contains zeros at first.
                got.get(at) == Some(&0) || states.iter().any(is_there)
            }),
            Some(states) => states.iter().any(is),
            None => self.now.get(block).map_or_else(|| got.iter().all(|&byte| byte == 0), is),
        };
        (!possible).then(|| {
            let zeros = if got.iter().all(|&byte| byte == 0) { "zeros, which is " } else { "" };
            format!("block {block} is {zeros}none that it was since it was last brought to flash")
        })
    }
}
