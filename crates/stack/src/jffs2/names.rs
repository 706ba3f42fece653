//! Names in directories.

use super::damage::{Damage, Fault};
use super::{Cached, NodeRef};
use crate::fs::FileType;
use floatgate_media::crc;
use floatgate_media::jffs2::{DirentNode, ROOT_INODE, file_type};
use std::collections::{BTreeMap, BTreeSet};

/// True for a name that programs can open.
pub(super) fn is_possible(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| b"/\0".contains(byte))
}

/// Mode of a directory without a node.
pub(super) const DIRECTORY_MODE: u32 = 0o040_755;

/// A name: the newest of its dirent nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) version: u32,
    /// Inode number, 0 if the name was removed.
    pub(super) inode: u32,
    pub(super) dirent_type: u8,
    /// First byte of the node on the flash.
    pub(super) at: u32,
}

impl Named {
    /// True for a different node of the same name and version.
    fn is_rival(&self, other: &Self) -> bool {
        self.version == other.version && (self.inode, self.dirent_type) != (other.inode, other.dirent_type)
    }

    /// Sort key of the node among the nodes of the name.
    pub(super) const fn order(&self) -> NodeRef {
        NodeRef { version: self.version, at: self.at }
    }

    /// The name in a dirent node; no flash has 4 GiB or more.
    pub(super) const fn new(version: u32, inode: u32, dirent_type: u8, at: u64) -> Self {
        Self { version, inode, dirent_type, at: at as u32 }
    }
}

/// The last change of a directory's names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changed {
    /// Version of the dirent node.
    pub(super) version: u32,
    /// Flash offset of the dirent node.
    pub(super) at: u32,
    /// Its time, seconds since 1970; unknown if read from a summary.
    pub(super) time: Option<u32>,
}

/// A directory: its names, and its last change.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    names: BTreeMap<Vec<u8>, Named>,
    /// Older dirent nodes still on flash, by position, with a hash of their names.
    stale: BTreeMap<u32, u32>,
    /// The newest dirent node.
    changed: Option<Changed>,
    /// Names with two contradicting nodes of one version, with the version and position of the node that is ignored.
    rivals: BTreeMap<Vec<u8>, NodeRef>,
}

impl Directory {
    /// Existing names in order.
    pub(super) fn names(&self) -> impl Iterator<Item = (&[u8], Named)> {
        let all = self.names.iter().map(|(name, named)| (name.as_slice(), *named));
        all.filter(|(_, named)| named.inode != 0)
    }

    /// True if the directory is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// Highest version of a dirent node.
    fn highest(&self) -> u32 {
        self.names.values().map(|named| named.version).max().unwrap_or(0)
    }

    /// The last change of the names.
    pub(super) const fn changed(&self) -> Option<Changed> {
        self.changed
    }
}

/// All names by inode of their directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    directories: BTreeMap<u32, Directory>,
    /// Names of each inode.
    links: BTreeMap<u32, Links>,
    /// Inodes with a name that a newer node removed or gave to another inode.
    unnamed: BTreeSet<u32>,
    /// Newest dirent node marked obsolete, by the inode of the directory that it names.
    marked: BTreeMap<u32, Marked>,
}

/// A name whose node is marked obsolete. They are ordered by the time of writing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Marked {
    time: u32,
    parent: u32,
    named: Named,
    name: Vec<u8>,
}

/// Names of an inode.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    count: u32,
    /// File type that one of them states, in dirent format.
    dirent_type: u8,
}

impl Links {
    fn add(&mut self, dirent_type: u8) {
        *self = Self { count: self.count + 1, dirent_type };
    }
}

/// Inodes and names that a mount ignores.
#[derive(Debug, Default)]
pub(super) struct IgnoredNodes {
    pub(super) damage: Vec<Damage>,
    /// Inodes without a name.
    pub(super) inodes: Vec<u32>,
    /// Dirent nodes in unnamed directories.
    pub(super) dirents: Vec<u32>,
    /// Second names of directories, from a rename interrupted by a power cut: directory and name.
    pub(super) second_names: Vec<(u32, Vec<u8>)>,
}

impl Names {
    /// Adds a dirent node. The later one of two nodes with the same name wins; the position of the other one is
    /// returned.
    pub(super) fn add(&mut self, parent: u32, name: &[u8], new: Named, time: Option<u32>) -> Option<u32> {
        let directory = self.directories.entry(parent).or_default();
        if directory.changed.is_none_or(|newest| newest.version <= new.version) {
            directory.changed = Some(Changed { version: new.version, at: new.at, time });
        }
        let Some(old) = directory.names.get_mut(name) else {
            directory.names.insert(name.to_vec(), new);
            return None;
        };
        let is_rival = old.is_rival(&new);
        let superseded = if old.order() > new.order() { new } else { std::mem::replace(old, new) };
        if is_rival {
            directory.rivals.insert(name.to_vec(), superseded.order());
        }
        directory.stale.insert(superseded.at, crc::jffs2(name));
        if superseded.inode != old.inode {
            self.unnamed.insert(superseded.inode);
        }
        Some(superseded.at)
    }

    /// Adds a dirent node that is marked obsolete.
    pub(super) fn add_marked(&mut self, node: &DirentNode<'_>, at: u64) {
        let dirent = &node.dirent;
        if file_type(dirent.dirent_type) != Some(FileType::Directory) {
            return;
        }
        let named = Named::new(dirent.version, dirent.inode, dirent.dirent_type, at);
        let (time, parent) = (dirent.mctime_s, dirent.parent);
        let new = Marked { time, parent, named, name: node.name.to_vec() };
        let newest = self.marked.entry(dirent.inode).or_insert_with(|| new.clone());
        if *newest < new {
            *newest = new;
        }
    }

    /// Restores the name of a directory that is marked obsolete, unless another node has that name. Returns its parent
    /// directory and the damage.
    pub(super) fn unmark(&mut self, inode: u32) -> Option<(u32, Damage)> {
        let Marked { time, parent, named, name } = self.marked.remove(&inode)?;
        if self.entry(parent, &name).is_some() {
            return None;
        }
        self.add(parent, &name, named, Some(time));
        Some((parent, Fault::Marked.at(u64::from(named.at))))
    }

    /// True if a name of an inode was removed or given to another one, and is still on flash.
    pub(super) fn was_unnamed(&self, inode: u32) -> bool {
        self.unnamed.contains(&inode)
    }

    /// Adds a dirent node that was just written, and updates link counts. Returns the position of the previous node.
    pub(super) fn put(&mut self, parent: u32, name: &[u8], new: Named, time: u32) -> Option<u32> {
        let before = self.get(parent, name).map_or(0, |named| named.inode);
        if before != 0 {
            let links = self.links.entry(before).or_default();
            links.count = links.count.saturating_sub(1);
        }
        if new.inode != 0 {
            self.links.entry(new.inode).or_default().add(new.dirent_type);
        }
        self.add(parent, name, new, Some(time))
    }

    pub(super) fn directory(&self, inode: u32) -> Option<&Directory> {
        self.directories.get(&inode)
    }

    /// Newest dirent node of an existing name.
    pub(super) fn get(&self, directory: u32, name: &[u8]) -> Option<Named> {
        self.entry(directory, name).filter(|found| found.inode != 0)
    }

    /// Newest dirent node of a name, including a deletion dirent.
    pub(super) fn entry(&self, directory: u32, name: &[u8]) -> Option<Named> {
        self.directories.get(&directory)?.names.get(name).copied()
    }

    /// Updates the position of the newest dirent node of a name.
    pub(super) fn moved(&mut self, directory: u32, name: &[u8], to: u32) {
        let Some(directory) = self.directories.get_mut(&directory) else { return };
        let Some(named) = directory.names.get_mut(name) else { return };
        if let Some(changed) = directory.changed.as_mut().filter(|changed| changed.at == named.at) {
            changed.at = to;
        }
        named.at = to;
    }

    /// True if an older dirent node of a name may be on flash outside an eraseblock; the deletion dirent must then
    /// stay.
    pub(super) fn has_stale(&self, directory: u32, name: &[u8], outside: std::ops::Range<u32>) -> bool {
        let Some(directory) = self.directories.get(&directory) else { return false };
        let sum = crc::jffs2(name);
        directory.stale.iter().any(|(at, other)| *other == sum && !outside.contains(at))
    }

    /// Records that a dirent node was erased.
    pub(super) fn erased(&mut self, directory: u32, at: u32) {
        if let Some(directory) = self.directories.get_mut(&directory) {
            directory.stale.remove(&at);
        }
    }

    /// Forgets a name that was removed.
    pub(super) fn forget(&mut self, directory: u32, name: &[u8]) {
        if let Some(directory) = self.directories.get_mut(&directory) {
            directory.names.remove(name);
        }
    }

    /// Forgets a directory; returns the positions of its newest dirent nodes.
    pub(super) fn remove_directory(&mut self, inode: u32) -> Vec<u32> {
        self.links.remove(&inode);
        let directory = self.directories.remove(&inode).unwrap_or_default();
        directory.names.values().map(|named| named.at).collect()
    }

    /// Number of names of an inode.
    pub(super) fn links(&self, inode: u32) -> u32 {
        self.links.get(&inode).map_or(0, |links| links.count)
    }

    /// File type of an inode according to a name.
    pub(super) fn file_type(&self, inode: u32) -> Option<FileType> {
        file_type(self.links.get(&inode)?.dirent_type)
    }

    /// All names with their directories, including removed ones.
    pub(super) fn all(&self) -> Vec<(u32, Vec<u8>, Named)> {
        let all = self.directories.iter().flat_map(|(&parent, directory)| {
            directory.names.iter().map(move |(name, named)| (parent, name.clone(), *named))
        });
        all.collect()
    }

    /// Highest dirent version of each directory.
    pub(super) fn versions(&self) -> impl Iterator<Item = (u32, u32)> {
        self.directories.iter().map(|(&inode, directory)| (inode, directory.highest()))
    }

    /// Directories with entries but without a name, with the position of one entry. They were deleted and are not
    /// erased yet, or their names are lost.
    pub(super) fn nameless(&self, nodes: &BTreeMap<u32, Cached>) -> Vec<(u32, u32)> {
        let named = self.inodes();
        let nameless =
            self.directories.iter().filter(|(inode, _)| **inode != ROOT_INODE && !named.contains(inode));
        let first = |directory: &Directory| {
            directory.names().find(|(_, named)| nodes.contains_key(&named.inode)).map(|(_, named)| named.at)
        };
        nameless.filter_map(|(&inode, directory)| Some((inode, first(directory)?))).collect()
    }

    /// Creates a name for an inode in the root directory.
    pub(super) fn adopt(&mut self, inode: u32, dirent_type: u8, at: u32) -> Damage {
        let taken = |name: &String| self.entry(ROOT_INODE, name.as_bytes()).is_some();
        let mut name = format!("lost-{inode}");
        while taken(&name) {
            name.push('~');
        }
        let named = Named { version: 0, inode, dirent_type, at };
        self.add(ROOT_INODE, name.as_bytes(), named, None);
        Fault::NoName { inode, name }.at(u64::from(at))
    }

    /// All inodes that have a name.
    pub(super) fn inodes(&self) -> BTreeSet<u32> {
        let all = self.directories.values();
        all.flat_map(|directory| directory.names().map(|(_, named)| named.inode)).collect()
    }

    /// True if there is a deletion dirent.
    pub(super) fn has_removed(&self) -> bool {
        let mut all = self.directories.values().flat_map(|directory| directory.names.values());
        all.any(|named| named.inode == 0)
    }

    /// True if an inode has the first name written by an image maker: `mkfs.jffs2` numbers the versions from 0.
    pub(super) fn are_counted_from(&self, inode: u32) -> bool {
        let mut names = self.directories.values().flat_map(Directory::names);
        names.any(|(_, named)| named.version == 0 && named.inode == inode)
    }

    /// Directory names whose inode is missing although their parent exists: directory, inode, and damage.
    pub(super) fn without_inodes(&self, nodes: &BTreeMap<u32, Cached>) -> Vec<(u32, u32, Damage)> {
        let is_there = |inode: &u32| *inode == ROOT_INODE || nodes.contains_key(inode);
        let mut found = Vec::new();
        for (parent, directory) in self.directories.iter().filter(|(parent, _)| is_there(parent)) {
            for (name, named) in &directory.names {
                let is_directory = file_type(named.dirent_type) == Some(FileType::Directory);
                if named.inode != 0 && is_directory && !is_there(&named.inode) {
                    let name = name.escape_ascii().to_string();
                    let fault = Fault::NoInode { inode: named.inode, name };
                    found.push((*parent, named.inode, fault.at(u64::from(named.at))));
                }
            }
        }
        found
    }

    /// Names that programs cannot open, that refer to the root directory, or whose nodes contradict each other.
    pub(super) fn faults(&self) -> Vec<Damage> {
        let mut found = Vec::new();
        for (&inode, directory) in &self.directories {
            for (name, named) in directory.names() {
                let shown = || name.escape_ascii().to_string();
                let fault = match named.inode {
                    _ if !is_possible(name) => Fault::Name { name: shown() },
                    ROOT_INODE => Fault::ToRoot { name: shown() },
                    _ => continue,
                };
                found.push(fault.at(u64::from(named.at)));
            }
            for (name, &NodeRef { version, at }) in &directory.rivals {
                if directory.names.get(name).is_some_and(|named| named.version == version) {
                    let name = Some(name.escape_ascii().to_string());
                    found.push(Fault::SameVersion { inode, name, version }.at(u64::from(at)));
                }
            }
        }
        found
    }

    /// Inodes that contain names.
    pub(super) fn parents(&self) -> Vec<u32> {
        let used = self.directories.iter().filter(|(_, directory)| !directory.is_empty());
        used.map(|(&inode, _)| inode).collect()
    }

    /// Finds inodes without a name and their contents, which a mount by Linux deletes. Removes names of missing inodes
    /// and returns them.
    pub(super) fn remove_orphans(&mut self, nodes: &BTreeMap<u32, Cached>) -> IgnoredNodes {
        let mut out = IgnoredNodes::default();
        let mut damage = Vec::new();
        for (parent, directory) in &mut self.directories {
            let is_there = *parent == ROOT_INODE || nodes.contains_key(parent);
            for (name, named) in directory.names.iter_mut().filter(|(_, named)| named.inode != 0) {
                if nodes.contains_key(&named.inode) {
                    let links = self.links.entry(named.inode).or_default();
                    links.add(named.dirent_type);
                    if (links.count > 1 || named.inode == ROOT_INODE)
                        && file_type(named.dirent_type) == Some(FileType::Directory)
                        && is_there
                    {
                        out.second_names.push((*parent, name.clone()));
                    }
                } else {
                    if is_there {
                        let name = name.escape_ascii().to_string();
                        let fault = Fault::NoInode { inode: named.inode, name };
                        damage.push((*parent, fault.at(u64::from(named.at))));
                    }
                    named.inode = 0;
                }
            }
        }
        let nameless = |inode: &u32| *inode != ROOT_INODE && !self.links.contains_key(inode);
        let all = nodes.keys().chain(self.directories.keys()).copied();
        let mut orphans: Vec<u32> = all.filter(nameless).collect();
        orphans.sort_unstable();
        orphans.dedup();
        while let Some(orphan) = orphans.pop() {
            out.inodes.push(orphan);
            let Some(directory) = self.directories.remove(&orphan) else { continue };
            for named in directory.names.values() {
                out.dirents.push(named.at);
                if let Some(links) = self.links.get_mut(&named.inode).filter(|links| links.count > 0) {
                    links.count -= 1;
                    if links.count == 0 && named.inode != ROOT_INODE {
                        orphans.push(named.inode);
                    }
                }
            }
        }
        out.second_names.retain(|(parent, _)| self.directories.contains_key(parent));
        // A removed directory may still have names whose inodes the garbage collector has erased. That is not damage.
        let alive = damage.into_iter().filter(|(parent, _)| self.directories.contains_key(parent));
        out.damage.extend(alive.map(|(_, damage)| damage));
        out
    }
}
