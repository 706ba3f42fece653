//! Names in directories.

use super::NodeRef;
use super::damage::{Damage, Fault};
use floatgate_media::jffs2::ROOT_INODE;
use std::collections::BTreeMap;

/// A name: the newest of its dirent nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    version: u32,
    /// 0 when the name was removed.
    pub(super) inode: u32,
    pub(super) dirent_type: u8,
    /// First byte of the node on the flash.
    at: u32,
}

impl Named {
    /// The name that a dirent node has; no flash has 4 GiB or more.
    pub(super) const fn new(version: u32, inode: u32, dirent_type: u8, at: u64) -> Self {
        Self { version, inode, dirent_type, at: at as u32 }
    }
}

/// The last change of a directory's names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changed {
    /// Version of the dirent node.
    pub(super) version: u32,
    /// Its first byte on the flash.
    pub(super) at: u32,
    /// Its time, seconds since 1970; a summary does not tell.
    pub(super) time: Option<u32>,
}

/// A directory: its names, and its last change.
#[derive(Debug, Default)]
pub(super) struct Directory {
    names: BTreeMap<Vec<u8>, Named>,
    /// The newest dirent node.
    changed: Option<Changed>,
}

impl Directory {
    /// The names that are there, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = (&[u8], Named)> {
        let all = self.names.iter().map(|(name, named)| (name.as_slice(), *named));
        all.filter(|(_, named)| named.inode != 0)
    }

    /// The last change of the names.
    pub(super) const fn changed(&self) -> Option<Changed> {
        self.changed
    }
}

/// All names by inode of their directory.
#[derive(Debug, Default)]
pub(super) struct Names {
    directories: BTreeMap<u32, Directory>,
    /// Names of each inode.
    links: BTreeMap<u32, u32>,
}

impl Names {
    /// Takes in a dirent node. A newer one of the name takes its place.
    pub(super) fn add(&mut self, parent: u32, name: &[u8], new: Named, time: Option<u32>) {
        let directory = self.directories.entry(parent).or_default();
        if directory.changed.is_none_or(|newest| newest.version <= new.version) {
            directory.changed = Some(Changed { version: new.version, at: new.at, time });
        }
        match directory.names.get_mut(name) {
            Some(old) if old.version > new.version => {}
            Some(old) => *old = new,
            None => {
                directory.names.insert(name.to_vec(), new);
            }
        }
    }

    pub(super) fn directory(&self, inode: u32) -> Option<&Directory> {
        self.directories.get(&inode)
    }

    /// The inode that has a name.
    pub(super) fn get(&self, directory: u32, name: &[u8]) -> Option<Named> {
        let found = self.directories.get(&directory)?.names.get(name)?;
        (found.inode != 0).then_some(*found)
    }

    /// Number of names of an inode.
    pub(super) fn links(&self, inode: u32) -> u32 {
        self.links.get(&inode).copied().unwrap_or(0)
    }

    /// Forgets inodes without a name, and what is in directories among them, as a mount by Linux deletes them; names of inodes that
    /// are not there, as well: these come back.
    pub(super) fn remove_orphans(&mut self, nodes: &mut BTreeMap<u32, Vec<NodeRef>>) -> Vec<Damage> {
        let mut damage = Vec::new();
        for (parent, directory) in &mut self.directories {
            let is_there = *parent == ROOT_INODE || nodes.contains_key(parent);
            for (name, named) in directory.names.iter_mut().filter(|(_, named)| named.inode != 0) {
                if nodes.contains_key(&named.inode) {
                    *self.links.entry(named.inode).or_default() += 1;
                } else {
                    if is_there {
                        let name = name.escape_ascii().to_string();
                        damage.push(Fault::NoInode { inode: named.inode, name }.at(u64::from(named.at)));
                    }
                    named.inode = 0;
                }
            }
        }
        let nameless = nodes.keys().filter(|inode| **inode != ROOT_INODE && !self.links.contains_key(inode));
        let mut orphans: Vec<u32> = nameless.copied().collect();
        while let Some(orphan) = orphans.pop() {
            nodes.remove(&orphan);
            for named in
                self.directories.remove(&orphan).iter().flat_map(|directory| directory.names.values())
            {
                if let Some(links) = self.links.get_mut(&named.inode).filter(|links| **links > 0) {
                    *links -= 1;
                    if *links == 0 && named.inode != ROOT_INODE {
                        orphans.push(named.inode);
                    }
                }
            }
        }
        damage
    }
}
