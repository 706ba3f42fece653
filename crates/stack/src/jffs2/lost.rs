//! Traces of a lost eraseblock: directories and files without a name, inode numbers without a node.
//!
//! On flash that was changed, deleted files leave the same traces, because Linux's garbage collector erases their nodes
//! and names in any order. So a missing name or inode number proves a loss only if the filesystem has no trace of a
//! change: image makers number inodes consecutively and give each a name. If the names of the root directory are missing,
//! they are damaged, or the image starts in the middle of the filesystem. On changed flash with damaged nodes, a directory
//! without a name proves a loss as well.

use super::damage::{Damage, Fault};
use super::file::File;
use super::names::DIRECTORY_MODE;
use super::{Cached, Jffs2};
use floatgate_media::jffs2::{Header, ROOT_INODE, dirent_type};
use floatgate_mtd::Mtd;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Smallest program unit, bytes: a page of SPI NOR.
const PAGE_MIN: u64 = 256;

/// Largest page size, bytes.
const PAGE_MAX: u32 = 16 << 10;

/// Maximum number of ranges of missing inode numbers that are reported: an image may lack every second number.
const RANGES_MAX: usize = 1000;

impl Jffs2<dyn Mtd> {
    /// True for damage caused by a power loss during a write or an erase.
    pub fn is_torn(&mut self, damage: &Damage) -> bool {
        match damage.fault {
            Fault::Media(_) => self.is_cut_short(damage.at),
            Fault::NoNode { len } => {
                let ends_page = (damage.at + u64::from(len)).is_multiple_of(PAGE_MIN) && len <= PAGE_MAX;
                self.is_changed && (ends_page || self.has_no_nodes(damage.at))
            }
            _ => false,
        }
    }

    /// True if an eraseblock has no live node.
    fn has_no_nodes(&self, at: u64) -> bool {
        let block = self.blocks.list.get((at / u64::from(self.blocks.erase_bytes)) as usize);
        block.is_some_and(|block| block.nodes.is_empty())
    }

    /// True for a damaged node that was written only in part: from the end of one of its pages on, the eraseblock is erased.
    fn is_cut_short(&mut self, at: u64) -> bool {
        let erase_bytes = u64::from(self.blocks.erase_bytes);
        let mut rest = vec![0; (erase_bytes - at % erase_bytes) as usize];
        if self.flash.read(at, &mut rest).is_err() {
            return false;
        }
        let Ok(header) = Header::parse(&rest, self.endian) else { return false };
        let written = rest.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last as u64 + 1);
        let page_end = (at + written).next_multiple_of(PAGE_MIN);
        page_end < at + u64::from(header.len)
    }

    /// Gives inodes without a name a name in the root directory, and records missing inode numbers.
    pub(super) fn adopt_nameless(&mut self) {
        if !self.options.is_earlier {
            self.unmark_names();
        }
        let directories = self.names.nameless(&self.nodes);
        let are_lost = directories.iter().filter(|(inode, _)| !self.names.was_unnamed(*inode));
        self.counts.nameless_directories = are_lost.count() as u64;
        self.is_without_root = self.names.directory(ROOT_INODE).is_none();
        let has_traces = self.counts.obsolete_nodes > 0 || self.names.has_removed();
        let is_unchanged = !has_traces && !self.was_changed;
        self.is_changed = !is_unchanged;
        if !is_unchanged && !self.is_without_root && (directories.is_empty() || !self.has_damage()) {
            return;
        }
        for (directory, at) in directories {
            self.nodes.entry(directory).or_default();
            self.adopt(directory, DIRECTORY_MODE, at);
        }
        let may_be_any = self.is_without_root && self.has_damage();
        let is_original = is_unchanged && !self.has_replaced_nodes();
        if may_be_any || is_original {
            self.adopt_files();
        }
        if is_original {
            self.note_missing();
        }
    }

    /// Restores directory names that are marked obsolete: a directory with entries is never removed.
    fn unmark_names(&mut self) {
        let mut named = self.names.inodes();
        let nameless = self.names.nameless(&self.nodes).into_iter();
        let mut nameless: Vec<u32> = nameless.map(|(inode, _)| inode).collect();
        while let Some(inode) = nameless.pop() {
            if !self.nodes.contains_key(&inode) || named.contains(&inode) {
                continue;
            }
            let Some((parent, damage)) = self.names.unmark(inode) else { continue };
            self.counts.obsolete_nodes -= 1;
            self.damage.push(damage);
            // On flash the name is still obsolete, so a writable mount is refused.
            self.adopted.insert(inode);
            named.insert(inode);
            nameless.push(parent);
        }
    }

    /// Records xattrs that files refer to but whose node is missing. On flash that was changed, a new value can leave
    /// the same trace: Linux writes the new node first, and erases the old one later.
    pub(super) fn note_lost_xattrs(&mut self) {
        if self.options.read_only && (!self.is_changed || self.has_damage()) {
            self.damage.extend(self.xattrs.lost());
        }
    }

    /// True if nodes are damaged or overwritten, except by a torn last write. Such nodes may have been names.
    fn has_damage(&mut self) -> bool {
        let damage = self.damage.clone();
        damage.iter().any(|damage| damage.fault != Fault::Summary && !self.is_torn(damage))
    }

    /// True if names or inode numbers are missing and a file has replaced nodes, which image makers do not write.
    fn has_replaced_nodes(&mut self) -> bool {
        let named = self.names.inodes();
        let is_nameless = |inode: &u32| *inode != ROOT_INODE && !named.contains(inode);
        let known: BTreeSet<u32> = self.nodes.keys().chain(&named).copied().collect();
        if gaps(&known).next().is_none() && !self.nodes.keys().any(is_nameless) {
            return false;
        }
        self.nodes.iter().any(|(&inode, cached)| {
            let read = File::read(&mut self.flash, self.endian, (inode, &cached.refs), None, true);
            let versions: BTreeSet<u32> = cached.refs.iter().map(|node| node.version).collect();
            let copies = cached.refs.len() - versions.len();
            read.is_ok_and(|(_, useless)| useless.places.len() > useless.damage.len() + copies)
        })
    }

    /// Keeps directories that have a name but no node. Returns each damage with the parent directory of the name.
    pub(super) fn adopt_directories(&mut self) -> Vec<(u32, Damage)> {
        let mut all = Vec::new();
        loop {
            let found = self.names.without_inodes(&self.nodes);
            if found.is_empty() {
                return all;
            }
            for (parent, inode, damage) in found {
                self.nodes.entry(inode).or_default();
                self.adopted.insert(inode);
                all.push((parent, damage));
            }
        }
    }

    /// Gives all other inodes without a name a name in the root directory.
    fn adopt_files(&mut self) {
        let named = self.names.inodes();
        let is_nameless = |(inode, _): &(&u32, &Cached)| **inode != ROOT_INODE && !named.contains(*inode);
        let last_position = |cached: &Cached| cached.refs.last().map(|node| node.at);
        let nameless = self.nodes.iter().filter(is_nameless);
        let nameless: Vec<(u32, u32)> =
            nameless.filter_map(|(&inode, cached)| Some((inode, last_position(cached)?))).collect();
        for (inode, at) in nameless {
            // If all nodes of an inode are damaged, the damage of these nodes is reported instead.
            let newest = self.file(inode).ok().and_then(|file| file.newest().map(|node| node.inode.mode));
            if let Some(mode) = newest {
                self.adopt(inode, mode, at);
            }
        }
    }

    fn adopt(&mut self, inode: u32, mode: u32, at: u32) {
        self.adopted.insert(inode);
        let damage = self.names.adopt(inode, dirent_type(mode), at);
        self.damage.push(damage);
    }

    /// Records the inode numbers below the highest one that have neither a node nor a name.
    fn note_missing(&mut self) {
        let named = self.names.inodes();
        let known: BTreeSet<u32> = self.nodes.keys().copied().chain(named).collect();
        let is_appended = |inode: &u32| {
            *inode > ROOT_INODE + 1 && !self.adopted.contains(inode) && self.names.are_counted_from(*inode)
        };
        let first = known.range(ROOT_INODE + 1..).next().copied().filter(is_appended);
        self.counts.base_inodes = first.map(|first| first - 1);
        let is_in_base = |missing: &RangeInclusive<u32>| first.is_some_and(|first| *missing.end() < first);
        for missing in gaps(&known).filter(|missing| !is_in_base(missing)).take(RANGES_MAX) {
            let (first, last) = (*missing.start(), *missing.end());
            self.damage.push(Fault::Missing { first, last }.at(0));
        }
    }
}

/// Ranges of inode numbers that are not in a set, between its first and last number.
fn gaps(known: &BTreeSet<u32>) -> impl Iterator<Item = RangeInclusive<u32>> {
    let known = || known.range(ROOT_INODE..);
    known()
        .zip(known().skip(1))
        .filter(|(one, next)| **next - **one > 1)
        .map(|(one, next)| one + 1..=next - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_numbers_are_found() {
        let known = BTreeSet::from([1, 2, 5, 6, 8]);
        assert_eq!(gaps(&known).collect::<Vec<_>>(), [3..=4, 7..=7]);
        assert_eq!(gaps(&BTreeSet::from([1])).count(), 0);
        assert_eq!(gaps(&BTreeSet::new()).count(), 0);
    }
}
